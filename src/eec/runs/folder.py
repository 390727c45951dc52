"""The run folder: made once, written whole, never mixed with another run's.

`measures.jsonl` says how far the run has come: an increment is done when its line is there. The
learner of that moment is `learner.eec`; what belongs to the increment after it is in `checkpoint`,
which goes when the increment is done.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Container
from contextlib import suppress
from pathlib import Path
from typing import Any

from eec.errors import UserError
from eec.files import PART, write_whole
from eec.runs import lock
from eec.runs.lock import Lock

MARK = "config.json"  # the file by which a run folder is known
CONTENTS = {
    MARK, "environment.json", "measures.jsonl", "learner.eec", "checkpoint", "samples.safetensors",
    "pictures", "report.html",
}  # fmt: skip
RECALLED = {
    "increment": int, "classes_seen": int, "classes": list, "accuracy": int | float,
    "accuracy_by_task": list, "newest_share": dict, "bytes": dict, "seconds": dict,
}  # fmt: skip  # of a line of measures, when a run goes on
EARLIER = ".earlier"  # where a run that is being replaced waits for the new one's first line


class RunFolder:
    """Locked as long as it is open: `close` it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: list[str] = []
        self.made = [place for place in (path, *path.parents) if not place.exists()]
        path.mkdir(parents=True, exist_ok=True)
        self.lock: Lock | None = Lock(path)
        try:
            self._recover()
        except BaseException:
            self.close()
            raise

    @classmethod
    def make(cls, path: Path, *, overwrite: bool) -> RunFolder:
        """A folder for a new run; an earlier run in its place is kept unless told otherwise."""
        try:
            folder = cls(path)
            try:
                found = [entry for entry in sorted(path.iterdir()) if entry.name != lock.NAME]
                if found:
                    _check_replaceable(path, found, overwrite)
                    folder._set_aside(found)
            except BaseException:
                folder.close()
                raise
        except OSError as error:
            raise UserError(
                f"cannot make {path}: {error.strerror}; choose another --out"
            ) from error
        return folder

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """The folder of a run that is to go on."""
        if not _is_run(path) and not _is_run(path / EARLIER):
            raise UserError(f"{path} is not a run folder: give the folder that `eec run` wrote to")
        try:
            folder = cls(path)
        except OSError as error:
            raise UserError(f"cannot go on in {path}: {error.strerror}") from error
        try:
            folder.lines = _read_lines(path / "measures.jsonl")
        except BaseException:
            folder.close()
            raise
        return folder

    def close(self) -> None:
        if self.lock is not None:
            self.lock.release()
            self.lock = None

    @property
    def learner(self) -> Path:
        return self.path / "learner.eec"

    @property
    def next_learner(self) -> Path:
        """The learner after an increment whose line is not there yet."""
        return self.checkpoint / "learner.eec"

    @property
    def checkpoint(self) -> Path:
        return self.path / "checkpoint"

    @property
    def decoded(self) -> Path:
        """Test images as codecs that can no longer encode had coded them, to judge them by."""
        return self.checkpoint / "decoded.safetensors"

    @property
    def samples(self) -> Path:
        return self.path / "samples.safetensors"

    @property
    def pictures(self) -> Path:
        return self.path / "pictures"

    @property
    def worth_going_on(self) -> bool:
        """Whether there is any work in it that a new run would do again."""
        return bool(self.lines) or any(self.checkpoint.glob("*/training-*"))

    def read_json(self, name: str) -> dict[str, Any]:
        try:
            value = json.loads((self.path / name).read_bytes())
        except (OSError, ValueError):
            value = None
        if not isinstance(value, dict):
            raise UserError(f"{self.path / name} cannot be read: restore it, or run again")
        return value

    def write_json(self, name: str, value: dict[str, Any]) -> None:
        write_whole(self.path / name, (json.dumps(value, indent=2) + "\n").encode())

    def check_present(self) -> None:
        """A folder that was removed must not come back as a part of itself."""
        if not (self.path / MARK).exists():
            raise UserError(
                f"{self.path} was removed while it was in use: begin again with eec run"
            )

    def add_measures(self, measures: dict[str, Any]) -> None:
        """One more line: the increment is done, and `next_learner` is the learner.

        The file is replaced as a whole, so a reader never meets half a line.
        """
        lines = [*self.lines, json.dumps(_valid(measures), allow_nan=False) + "\n"]
        write_whole(self.path / "measures.jsonl", "".join(lines).encode())
        self.lines = lines
        self.settle()

    def settle(self) -> None:
        """Clear away what belongs to increments that are done. Killed in here, do it again."""
        if self.lines:
            shutil.rmtree(self.path / EARLIER, ignore_errors=True)
        done = self.checkpoint / f"increment-{len(self.lines)}"
        if done.exists():
            with suppress(FileNotFoundError):
                self.next_learner.replace(self.learner)
            shutil.rmtree(done, ignore_errors=True)

    def finish(self) -> None:
        """Nothing is left to go on with."""
        shutil.rmtree(self.checkpoint, ignore_errors=True)

    def undo(self) -> None:
        """Leave the place as it was found, as far as can be: for a run that came to nothing."""
        earlier = self.path / EARLIER
        with suppress(OSError):
            _remove([entry for entry in self.path.iterdir() if entry != earlier])
            if earlier.is_dir():
                self._put_back()
            self.close()
            for place in self.made:
                place.rmdir()

    def _set_aside(self, found: list[Path]) -> None:
        earlier = self.path / EARLIER
        if earlier in found:  # of a run that was killed before its first line: the older is whole
            _remove([entry for entry in found if entry != earlier])
            return
        earlier.mkdir()
        try:
            for entry in sorted(found, key=_is_mark):  # the mark last: see `_recover`
                entry.rename(earlier / entry.name)
        except OSError:
            self._put_back()
            raise

    def _put_back(self) -> None:
        earlier = self.path / EARLIER
        for entry in sorted(earlier.iterdir(), key=_is_mark, reverse=True):
            entry.rename(self.path / entry.name)
        earlier.rmdir()

    def _recover(self) -> None:
        """Make whole what a process left that was killed: files half written, a run that was
        being replaced and whose successor had not begun. Somebody else's folder is left alone."""
        earlier = self.path / EARLIER
        begun = not _is_run(self.path) and not _is_run(earlier) and is_only_begun(self.path)
        if not (begun or _is_run(self.path) or _is_run(earlier)):
            return
        _remove([entry for entry in self.path.iterdir() if _is_part(entry, CONTENTS)])
        for place in (self.pictures, self.checkpoint, *self.checkpoint.glob("*")):
            _remove([entry for entry in place.glob(".*") if _is_part(entry)])
        marked = (self.path / MARK).exists()
        if begun or (not marked and earlier.is_dir()):  # what the successor had written by then
            _remove([entry for entry in self.path.iterdir() if entry.name in CONTENTS])
        # The mark goes aside last and comes back first: with two of them both runs are whole.
        if earlier.is_dir() and not (marked and (earlier / MARK).exists()):
            self._put_back()


def _check_replaceable(path: Path, found: list[Path], overwrite: bool) -> None:
    if not _is_run(path):
        raise UserError(f"{path} is not empty and no run folder: choose another --out")
    if not overwrite:
        raise UserError(
            f"{path} holds an earlier run: choose another --out, replace it with --overwrite, or "
            f"go on with it (eec resume {path})"
        )
    for entry in found:
        if entry.name not in {*CONTENTS, EARLIER}:
            raise UserError(
                f"{entry} is of no run and would be lost: move it away, or choose another --out"
            )


def _is_run(path: Path) -> bool:
    """Many programs have a config.json: look inside before deleting anything beside it."""
    try:
        config = json.loads((path / MARK).read_bytes())
    except (OSError, ValueError):
        return False
    return (
        isinstance(config, dict)
        and {"dataset", "method"} <= config.keys()
        and isinstance(config.get("stream"), dict)
    )


def is_only_begun(path: Path) -> bool:
    """Whether a run was killed in it before its mark was there: all else is somebody else's."""
    others = [e for e in path.iterdir() if e.name != lock.NAME and not _is_part(e, CONTENTS)]
    if [entry.name for entry in others] != ["environment.json"]:
        return not others
    try:
        environment = json.loads(others[0].read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(environment, dict) and {"eec", "code"} <= environment.keys()


def _is_part(entry: Path, of: Container[str] | None = None) -> bool:
    """Whether `write_whole` was killed as it wrote it; `of`: as one of these files."""
    name = PART.fullmatch(entry.name)
    return name is not None and entry.is_file() and (of is None or name[1] in of)


def _is_mark(entry: Path) -> bool:
    return entry.name == MARK


def _read_lines(path: Path) -> list[str]:
    """One line an increment, each of which says what going on needs to know."""
    try:
        text = path.read_text(encoding="utf-8")
        lines = [f"{line}\n" for line in text.split("\n") if line]
        whole = all(_is_measures(json.loads(line)) for line in lines)
    except FileNotFoundError:
        return []
    except (OSError, ValueError):
        whole = False
    if not whole:
        raise UserError(f"{path} cannot be read: restore it, or run again")
    return lines


def _is_measures(line: Any) -> bool:
    return isinstance(line, dict) and all(
        isinstance(line.get(name), kind) for name, kind in RECALLED.items()
    )


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
