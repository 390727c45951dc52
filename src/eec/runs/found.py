"""Which runs lie in a folder, how far each has come, and whether it is of the code of now.

Looks only: no lock is taken, nothing is tidied up, torch is not needed.
"""

from __future__ import annotations

import datetime
import fcntl
import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

from eec.runs import lock
from eec.runs.folder import MARK

# A run's numbers come from these; the others show them.
SOURCES = ("data", "evaluation", "memory", "methods", "nets", "runs", "training")


@dataclass(frozen=True)
class FoundRun:
    path: Path
    config: dict[str, Any]
    environment: dict[str, Any]
    done: int  # increments
    finished: bool
    in_use: bool

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


class Code:
    """The code of now, to tell runs of it from runs of another."""

    @cached_property
    def revision(self) -> str | None:
        """As `environment.json` has it."""
        try:
            answer = subprocess.run(
                ["git", "describe", "--always", "--dirty", "--abbrev=12"],
                cwd=Path(__file__).parent,
                capture_output=True,
                text=True,
                timeout=10,
                check=True,
            )
        except (OSError, subprocess.SubprocessError):
            return None
        return answer.stdout.strip() or None

    @property
    def is_certain(self) -> bool:
        """Whether the revision says all about the code."""
        return self.revision is not None and not self.revision.endswith("-dirty")

    @cached_property
    def changed(self) -> float:
        """When a source file that numbers depend on was last written."""
        package = Path(__file__).parents[1]
        files = [file for name in SOURCES for file in (package / name).glob("*.py")]
        return max(file.stat().st_mtime for file in files)

    def made(self, run: FoundRun) -> bool:
        """Whether the run was made by this code.

        An uncertain revision is not enough: then no source file may be younger than the run.
        """
        known = run.environment
        if (known.get("eec"), known.get("revision")) != (version("eec"), self.revision):
            return False
        if self.is_certain:
            return True
        try:
            return datetime.datetime.fromisoformat(known["started"]).timestamp() >= self.changed
        except (KeyError, TypeError, ValueError):
            return False


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
