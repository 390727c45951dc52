"""`eec run` from a benchmark: in a process of its own, unless the run is there, and read back."""

from __future__ import annotations

import json
import os
import shlex
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

Work = Callable[[Path, list[str], int], None]  # folder, options, threads


def carry_out(folder: Path, options: list[str], threads: int) -> None:
    """One run, unless it is there."""
    words = ["run", *options, "--out", str(folder), "--quiet"]
    if (folder / "config.json").exists():
        if (had := config_of(folder)["command"]) != shlex.join(["eec", *words]):
            raise SystemExit(f"{folder} has another run ({had}): choose another --out")
        if finished(folder):
            return
        words = ["resume", str(folder), "--quiet"]
    program = [sys.executable, "-c", "from eec.cli.main import main; main()", *words]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    done = subprocess.run(program, env=environment, capture_output=True, encoding="utf-8")
    if done.returncode:
        raise SystemExit(f"{folder}: {done.stderr}")


def finished(folder: Path) -> bool:
    begun = (folder / "config.json").exists()
    return begun and len(read(folder)) == config_of(folder)["stream"]["increments"]


def carry_out_all(
    runs: Sequence[tuple[Path, list[str]]], jobs: int, work: Work = carry_out
) -> None:
    """All of them, so many side by side; the cores, or OMP_NUM_THREADS, are shared among these."""
    if jobs < 1:
        raise SystemExit(f"--jobs {jobs}: use 1 or more")
    threads = max(1, int(os.environ.get("OMP_NUM_THREADS") or os.cpu_count() or 1) // jobs)
    with ThreadPoolExecutor(jobs) as pool:
        waiting = [pool.submit(work, folder, options, threads) for folder, options in runs]
        for one in waiting:
            one.result()


def config_of(folder: Path) -> dict[str, Any]:
    config: dict[str, Any] = json.loads((folder / "config.json").read_text())
    return config


def environment_of(folder: Path) -> dict[str, Any]:
    environment: dict[str, Any] = json.loads((folder / "environment.json").read_text())
    return environment


def read(folder: Path) -> list[dict[str, Any]]:
    path = folder / "measures.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def bytes_kept(line: dict[str, Any]) -> int:
    """What the learner had besides the classifier, from a line of `measures.jsonl`."""
    return sum(size for part, size in line["bytes"].items() if part != "classifier")


def spread_words(values: list[float]) -> str:
    if len(values) == 1:
        return f"{values[0]:.2f}"
    return f"{statistics.mean(values):.2f} ± {statistics.stdev(values):.2f}"
