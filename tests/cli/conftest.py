"""The command in this process, which is quick, and in one of its own, which is the real thing."""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from eec.cli.main import main

# `eec`, but trained for so few steps that it takes seconds. All else is as users have it.
PROGRAM = """
from eec.training import recipes
def sgd(steps):
    return recipes.Plan("sgd", rate=0.05, batch=16, steps=steps)
adam = recipes.Plan("adam", rate=2e-3, batch=16, steps={first})
recipes.RECIPES["fast"] = recipes.Recipe(sgd({first}), sgd({later}), adam, adam, crop=2)
from eec.cli.main import main
main()
"""

STREAM = [
    "--per-class", "12", "--classes-per-increment", "4,3,3", "--size", "16", "--code", "16x4x4"
]  # fmt: skip


@dataclass(frozen=True)
class Answer:
    status: int
    out: str
    err: str

    @property
    def mistake(self) -> str:
        """The one line in which a mistake is told; asserts that there is nothing else."""
        assert self.status == 2, self
        assert self.err.startswith("eec: ") and self.err.count("\n") == 1, self.err
        assert self.err.endswith("\n") and self.out == "", self
        return self.err


Call = Callable[..., Answer]


@pytest.fixture
def call(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Call:
    """`call("run", "digits")`: the command in this process, in an empty folder."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")

    def act(*arguments: str | Path) -> Answer:
        status: int | str | None = 0
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as end:
            status = end.code
        assert isinstance(status, int)
        return Answer(status, *capsys.readouterr())

    return act


@pytest.fixture(scope="session")
def command() -> Callable[..., list[str]]:
    """The command for a process of its own, with so many steps in the first and later tasks."""

    def make(arguments: Sequence[str], *, first: int = 10, later: int = 10) -> list[str]:
        return [sys.executable, "-c", PROGRAM.format(first=first, later=later), *arguments]

    return make


@pytest.fixture(scope="session")
def environment() -> dict[str, str]:
    """What a plain shell has: nothing that changes how the output looks."""
    hidden = {"FORCE_COLOR", "NO_COLOR", "COLUMNS", "LINES", "TTY_COMPATIBLE"}
    return {name: value for name, value in os.environ.items() if name not in hidden}


@pytest.fixture(scope="session")
def run_apart(command: Callable[..., list[str]], environment: dict[str, str]) -> Call:
    """`eec run digits --out "a run"` in a process of its own and in the given folder."""

    def act(where: Path, **variables: str) -> Answer:
        done = subprocess.run(
            command(["run", "digits", *STREAM, "--out", "a run"]),
            cwd=where,
            env={**environment, **variables},
            capture_output=True,
            encoding="utf-8",
        )
        return Answer(done.returncode, done.stdout, done.stderr)

    return act
