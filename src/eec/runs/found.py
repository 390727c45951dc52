"""Which runs lie in a folder, and how far each has come.

Looks only: no lock is taken, nothing is tidied up, torch is not needed.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eec.runs import lock
from eec.runs.code import source_digest
from eec.runs.folder import MARK


@dataclass(frozen=True)
class FoundRun:
    path: Path
    config: dict[str, Any]
    environment: dict[str, Any]
    done: int  # increments
    finished: bool
    in_use: bool

    @property
    def is_of_now(self) -> bool:
        """Whether it was made by the code of now."""
        return self.environment.get("code") == source_digest()

    @property
    def increments(self) -> int | None:
        value = self.config["stream"].get("increments")
        return value if isinstance(value, int) else None


def find_runs(folder: Path) -> Iterator[FoundRun]:
    """The runs under a folder, or the folder itself, in the order of their names."""
    for place, inside, _ in os.walk(folder):
        found = look_at(Path(place))
        inside[:] = [] if found else sorted(name for name in inside if not name.startswith("."))
        if found:
            yield found


def look_at(path: Path) -> FoundRun | None:
    """The run in this very folder; None where there is none."""
    config = _read(path / MARK)
    if not isinstance(config.get("stream"), dict) or not {"dataset", "method"} <= config.keys():
        return None
    try:
        done = (path / "measures.jsonl").read_text(encoding="utf-8").count("\n")
    except (OSError, UnicodeDecodeError):
        done = 0
    finished = done == config["stream"].get("increments") and not (path / "checkpoint").exists()
    return FoundRun(path, config, _read(path / "environment.json"), done, finished, in_use(path))


def _read(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def in_use(path: Path) -> bool:
    """Whether a living process holds the lock; a dead one's lock file may still be there."""
    try:
        file = os.open(path / lock.NAME, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(file)
    return False
