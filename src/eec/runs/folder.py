"""The run folder: made once, written whole, never mixed with another run's."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from eec.errors import UserError
from eec.files import write_whole

MARK = "config.json"  # the file by which a run folder is known


class RunFolder:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: list[str] = []

    @classmethod
    def make(cls, path: Path, *, overwrite: bool) -> RunFolder:
        """A new, empty folder; an earlier run in its place is kept unless told otherwise."""
        if path.is_dir() and any(path.iterdir()):
            if not (path / MARK).is_file():
                raise UserError(f"{path} is not empty and no run folder: choose another --out")
            if not overwrite:
                raise UserError(
                    f"{path} holds an earlier run: choose another --out, or replace it with "
                    "--overwrite"
                )
            shutil.rmtree(path)
        try:
            (path / "pictures").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(
                f"cannot make {path}: {error.strerror}; choose another --out"
            ) from error
        return cls(path)

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
        self.lines.append(json.dumps(measures) + "\n")
        write_whole(self.path / "measures.jsonl", "".join(self.lines).encode())
