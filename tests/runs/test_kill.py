"""A run that is killed at random moments ends as if nothing had happened."""

import os
import re
import subprocess
import sys
from pathlib import Path

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "kill.py"

# The benchmark, but trained for few steps and without a report: a run takes a second or two.
PROGRAM = """
import runpy, sys
from eec.cli import carry_out
from eec.training import recipes
carry_out.tell = lambda *_: None
sgd = recipes.Plan("sgd", rate=0.05, batch=16, steps=25)
adam = recipes.Plan("adam", rate=2e-3, batch=16, steps=25)
recipes.RECIPES["fast"] = recipes.Recipe(sgd, sgd, adam, adam, crop=2)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_killed_twenty_times_a_run_ends_with_the_same_bytes(tmp_path: Path) -> None:
    options = [
        "digits", "--per-class", "8", "--classes-per-increment", "5", "--size", "16", "--code",
        "8x4x4", "--memory", "30", "--over-budget", "concepts",
    ]  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, BENCHMARK, "--times", "20", "--", *options],
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(tmp_path)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^20 kills survived, \d+ .*, 0 with differences$", done.stdout, re.MULTILINE)
