"""`eec --help` answers at once, and the list of options is no accident."""

import os
import re
import subprocess
import sys
from importlib.metadata import entry_points

import pytest

from eec.data.catalog import DATASETS
from eec.methods.registry import METHODS

# A change here is a change for everybody who has a script: say it in CHANGELOG.md.
OPTIONS = [
    "--autoencoder", "--beside", "--checkpoint-every", "--class-order", "--classes-per-increment",
    "--code", "--code-type", "--codec", "--codec-refresh", "--content", "--content-scale",
    "--crop", "--data-dir", "--decay", "--detail", "--device", "--distil", "--help",
    "--image-bytes", "--keep-head", "--keep-real", "--linkage", "--memory", "--method", "--net",
    "--new-images", "--no-originals", "--out", "--output", "--over-budget", "--overwrite",
    "--per-class", "--precision", "--quality", "--quiet", "--recipe", "--replay-per-epoch",
    "--returning", "--see", "--seed", "--share", "--size", "--strict", "--turn", "--validation",
]  # fmt: skip

ASK = """
import sys
from eec.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit as end:
    assert end.code in (0, None), end.code
heavy = {"torch", "numpy", "sklearn", "matplotlib"} & set(sys.modules)
assert not heavy, heavy
"""


def ask(*arguments: str) -> str:
    """What is printed; fails if that took the import of anything heavy."""
    done = subprocess.run(
        [sys.executable, "-c", ASK, *arguments], capture_output=True, encoding="utf-8"
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("arguments", [[], ["--help"], ["run", "--help"]])
def test_help_answers_in_under_a_second_and_without_torch(arguments: list[str]) -> None:
    before = os.times()
    assert "usage: eec" in ask(*arguments)
    after = os.times()
    # Of the processor, not of the clock: a busy machine is not our fault.
    spent = after.children_user + after.children_system
    assert spent - before.children_user - before.children_system < 1.0


def test_the_options_of_run_are_these() -> None:
    shown = ask("run", "--help")
    assert sorted(set(re.findall(r"^\W*(?:-h, )?(--[a-z-]+)", shown, re.MULTILINE))) == OPTIONS


def test_help_names_every_data_set_and_method() -> None:
    shown = " ".join(ask("run", "--help").replace("│", " ").split())
    for name in (*DATASETS, *METHODS):
        assert name in shown
    for entry in METHODS.values():
        assert entry.description in shown


def test_the_command_is_called_eec() -> None:
    (script,) = entry_points(group="console_scripts", name="eec")
    assert script.value == "eec.cli.main:main"
