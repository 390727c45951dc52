"""Which code a run's numbers come from. Free of torch."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

# The others show numbers and do not make them.
SOURCES = ("data", "evaluation", "memory", "methods", "nets", "runs", "training")


@cache
def source_digest() -> str:
    """One for each state of the sources: of a release, a commit, or files that are being edited."""
    package = Path(__file__).parents[1]
    whole = hashlib.sha256()
    for file in sorted(file for name in SOURCES for file in (package / name).glob("*.py")):
        content = file.read_bytes()
        whole.update(f"{file.relative_to(package).as_posix()} {len(content)}\n".encode())
        whole.update(content)
    return whole.hexdigest()[:16]


source_digest()  # as the process begins, before anybody edits what it has loaded
