"""What a run's numbers depend on besides its configuration: versions, machine, code revision."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from eec.runs.code import source_digest
from eec.training.calibration import cpu_name
from eec.training.runtime import Runtime

PACKAGES = ("eec", "torch", "numpy", "scikit-learn", "safetensors", "pillow")


def describe(runtime: Runtime) -> dict[str, Any]:
    return {
        **{name: version(name) for name in PACKAGES},
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu": cpu_name(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "device": str(runtime.device),
        "precision": runtime.precision,
        "precision_why": runtime.why,
        "revision": _revision(),
        "code": source_digest(),
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def restore_threads(before: dict[str, Any]) -> list[str]:
    """Compute with as many threads as the run began with; tell what is not as it was.

    Sums come out in another order, and in the last bit, on another machine or thread count.
    """
    threads = before.get("threads")
    if isinstance(threads, int) and threads > 0:
        torch.set_num_threads(threads)
    now = {"torch": version("torch"), "cpu": cpu_name(), "code": source_digest()}
    return [
        f"{name} was {before[name]} when this run began and is {value} now: the result may differ"
        for name, value in now.items()
        if before.get(name) not in (None, value)
    ]


def _revision() -> str | None:
    """The commit that the code was run from, marked where files had been changed since."""
    here = Path(__file__).parent
    try:
        answer = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12"],
            cwd=here,
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip() or None
