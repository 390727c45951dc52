"""The run folder: made once, written whole, never mixed with another run's."""

from __future__ import annotations

import json
import math
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

from eec.errors import UserError
from eec.files import write_whole

MARK = "config.json"  # the file by which a run folder is known
CONTENTS = {MARK, "environment.json", "measures.jsonl", "learner.eec", "pictures", "report.html"}
EARLIER = ".earlier"  # where a run that is being replaced waits for the new one's first line


class RunFolder:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: list[str] = []
        self.made = [place for place in (path, *path.parents) if not place.exists()]

    @classmethod
    def make(cls, path: Path, *, overwrite: bool) -> RunFolder:
        """A folder for a new run; an earlier run in its place is kept unless told otherwise."""
        folder = cls(path)
        try:
            found = sorted(path.iterdir()) if path.is_dir() else []
            if found:
                _check_replaceable(path, found, overwrite)
                folder._set_aside(found)
            folder._make_room()
        except OSError as error:
            raise UserError(
                f"cannot make {path}: {error.strerror}; choose another --out"
            ) from error
        return folder

    @property
    def learner(self) -> Path:
        return self.path / "learner.eec"

    @property
    def pictures(self) -> Path:
        return self.path / "pictures"

    def write_json(self, name: str, value: dict[str, Any]) -> None:
        write_whole(self.path / name, (json.dumps(value, indent=2) + "\n").encode())

    def add_measures(self, measures: dict[str, Any]) -> None:
        """One more line; the file is replaced as a whole, so a reader never meets half a line."""
        lines = [*self.lines, json.dumps(_valid(measures), allow_nan=False) + "\n"]
        write_whole(self.path / "measures.jsonl", "".join(lines).encode())
        self.lines = lines
        shutil.rmtree(self.path / EARLIER, ignore_errors=True)

    def undo(self) -> None:
        """Leave the place as it was found, as far as can be: for a run that came to nothing."""
        earlier = self.path / EARLIER
        with suppress(OSError):
            _remove([entry for entry in self.path.iterdir() if entry != earlier])
            if earlier.is_dir():
                self._put_back()
            for place in self.made:
                place.rmdir()

    def _set_aside(self, found: list[Path]) -> None:
        earlier = self.path / EARLIER
        if earlier in found:  # of a run that was killed before its first line: the older is whole
            _remove([entry for entry in found if entry != earlier])
            return
        earlier.mkdir()
        try:
            for entry in found:
                entry.rename(earlier / entry.name)
        except OSError:
            self._put_back()
            raise

    def _put_back(self) -> None:
        earlier = self.path / EARLIER
        for entry in earlier.iterdir():
            entry.rename(self.path / entry.name)
        earlier.rmdir()

    def _make_room(self) -> None:
        try:
            self.pictures.mkdir(parents=True, exist_ok=True)
        except OSError:
            self.undo()
            raise


def _check_replaceable(path: Path, found: list[Path], overwrite: bool) -> None:
    if not _is_run(path):
        raise UserError(f"{path} is not empty and no run folder: choose another --out")
    if not overwrite:
        raise UserError(
            f"{path} holds an earlier run: choose another --out, or replace it with --overwrite"
        )
    for entry in found:
        if entry.name not in {*CONTENTS, EARLIER} and entry.suffix != ".part":
            raise UserError(
                f"{entry} is of no run and would be lost: move it away, or choose another --out"
            )


def _is_run(path: Path) -> bool:
    """Many programs have a config.json: look inside before deleting anything beside it."""
    try:
        config = json.loads((path / MARK).read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and {"dataset", "method", "stream"} <= config.keys()


def _remove(entries: list[Path]) -> None:
    for entry in entries:
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def _valid(value: Any) -> Any:
    """JSON knows no NaN and no infinity: null says that there is nothing to say."""
    if isinstance(value, dict):
        return {key: _valid(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_valid(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
