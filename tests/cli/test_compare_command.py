"""`eec compare`, `eec runs` and `eec show` from end to end."""

import csv
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eec.report import write
from eec.runs.folder import RunFolder
from small_runs import CODE_PATHS

Call = Callable[..., Any]

TINY = ["--per-class", "3", "--classes-per-increment", "5", "--size", "8"]
AGAIN = """
import sys
from eec.cli.main import main
main(sys.argv[1:])
assert "torch" not in sys.modules and "matplotlib" not in sys.modules
"""


@pytest.fixture
def compared(call: Call, short_recipe: object, monkeypatch: pytest.MonkeyPatch) -> Call:
    """`compared()`: joint and finetune over two seeds; the pages are others' tests' business."""
    monkeypatch.setattr(write, "write_report", lambda path: None)
    return lambda *more: call("compare", "digits", "--methods", "joint,finetune", *TINY, *more)


def test_runs_are_made_once(compared: Call, call: Call) -> None:
    first = compared("--seeds", "2", "--format", "json")
    assert first.status == 0
    assert "4 runs in runs/compare-digits: 4 to do" in first.err
    assert "run 3 of 4: finetune, seed 0" in first.err
    facts = json.loads(first.out)
    assert [(m["method"], m["n"]) for m in facts["methods"]] == [("joint", 2), ("finetune", 2)]
    folder = Path("runs/compare-digits")
    assert json.loads((folder / "comparison.json").read_text()) == facts
    told = json.loads((folder / "finetune-1" / "config.json").read_text())
    assert told["command"] == (
        "eec run digits --method finetune --seed 1 --size 8 --classes-per-increment 5 --per-class 3"
    )

    before = {path: path.read_bytes() for path in folder.glob("*/*") if path.is_file()}
    second = compared("--seeds", "3", "--format", "csv")
    assert "6 runs in runs/compare-digits: 4 finished before, 2 to do" in second.err
    assert {path: path.read_bytes() for path in before} == before
    assert [line["n"] for line in csv.DictReader(io.StringIO(second.out))] == ["3", "3"]

    other = compared("--seeds", "1", "--returning", "0.5")
    assert "6 more there, of another configuration" in other.err
    assert (folder / "joint-0-2").is_dir() and "One seed only" in other.out
    assert {path: path.read_bytes() for path in before} == before

    listed = call("runs")
    assert listed.out.count("digits") == 9  # eight runs, and the folder's name
    assert "2/2" in listed.out and "unfinished" not in listed.out


def test_an_option_goes_to_the_methods_that_have_it(compared: Call) -> None:
    options = ["--methods", "eec,joint", "--memory", "20", "--code", "16x2x2", "--seeds", "1"]
    answer = compared(*options)
    assert answer.status == 0, answer.err
    assert "eec: joint has no memory: run without it\n" in answer.err
    told = json.loads(Path("runs/compare-digits/eec-0/config.json").read_text())
    assert told["options"]["memory"] == "20" and "--memory 20" in told["command"]


@pytest.mark.parametrize("method", CODE_PATHS)
def test_a_run_of_every_method_is_known_again(compared: Call, method: str) -> None:
    """Though what the stream tells it stands in its configuration, and in no command."""
    one = ["--methods", method, "--seeds", "1"]
    assert "1 to do" in compared(*one).err
    assert "1 finished before\n" in compared(*one).err


def test_the_second_call_takes_under_two_seconds_and_no_torch(compared: Call) -> None:
    compared("--seeds", "3")
    for path in Path().glob("runs/*/*/environment.json"):  # as if no source file had changed
        told = json.loads(path.read_text())
        path.write_text(json.dumps({**told, "started": "2999-01-01T00:00:00+00:00"}))
    asked = ["compare", "digits", "--methods", "joint,finetune", *TINY, "--seeds", "3"]
    before = os.times()
    done = subprocess.run([sys.executable, "-c", AGAIN, *asked], capture_output=True, text=True)
    after = os.times()
    assert done.returncode == 0, done.stderr
    assert "6 runs in runs/compare-digits: 6 finished before\n" in done.stderr
    # Of the processor, not of the clock: a busy machine is not our fault.
    spent = after.children_user + after.children_system
    assert spent - before.children_user - before.children_system < 2.0


def test_a_run_that_fails_is_told_and_the_others_go_on(compared: Call) -> None:
    assert compared("--seeds", "2").status == 0
    held = RunFolder.open(Path("runs/compare-digits/joint-1"))
    (held.path / "checkpoint").mkdir()  # as if it were not finished
    try:
        answer = compared("--seeds", "2")
    finally:
        held.close()
    assert answer.status == 1
    assert "eec: runs/compare-digits/joint-1 failed: " in answer.err
    assert "is in use by process" in answer.err
    assert "1 of 4 runs failed and are not in it." in answer.out


@pytest.mark.parametrize(
    ("arguments", "mistake"),
    [
        (["--methods", "eec,nope"], "unknown method 'nope'"),
        (["--seeds", "0"], "--seeds 0: compare over 1 seed or more"),
        (["--retries", "-1"], "--retries -1: use 0 or more"),
        (["--jobs", "2"], "--jobs 2: use 1 or more, with --engine processes"),
        (["--engine", "processes", "--jobs", "0"], "--jobs 0: use 1 or more"),
        (["--address", "auto"], "--address auto: it is of --engine ray"),
        (["--methods", "joint", "--memory", "5MB"], "--memory: none of joint has it"),
        (["--classes-per-increment", "two"], "--classes-per-increment 'two'"),
        (["--memory", "much"], "much"),
    ],
    ids=str,
)
def test_mistakes_in_one_line(call: Call, arguments: list[str], mistake: str) -> None:
    assert mistake in call("compare", "digits", *arguments).mistake
    assert not Path("runs").exists()


def test_without_ray_the_error_says_what_to_install(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    answer = call("compare", "digits", "--engine", "ray")
    assert answer.status == 2
    assert "pip install 'eec[cluster]'" in answer.err.splitlines()[-1]


def test_show_prints_one_run(compared: Call, call: Call) -> None:
    compared("--seeds", "1", "--net", "small")
    shown = call("show", "runs/compare-digits/joint-0").out
    for words in (
        "joint on digits, seed 0: A_10 ",
        "options   net small (else auto)\n",
        "3 images a class, judged on test images, size 8",
        "ran with  revision ",
        "learner   runs/compare-digits/joint-0/learner.eec",
        "command   eec run digits --method joint --seed 0",
    ):
        assert words in shown


def test_unfinished_and_running_ones_are_marked(compared: Call, call: Call) -> None:
    compared("--seeds", "1")
    run = Path("runs/compare-digits/joint-0")
    (run / "measures.jsonl").unlink()
    assert "unfinished" in call("runs", "runs").out
    shown = call("show", run).out
    assert f"unfinished: 0 of 2 increments done; go on with: eec resume {run}" in shown
    held = RunFolder.open(run)
    try:
        assert "running" in call("runs").out and "running" in call("show", run).out
    finally:
        held.close()


def test_folders_without_runs(call: Call) -> None:
    assert "runs is no folder" in call("runs").mistake
    Path("empty").mkdir()
    assert call("runs", "empty").out == "no runs under empty: make one with eec run\n"
    assert "empty is not a run folder" in call("show", "empty").mistake


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["mnist", "--data-dir", "nowhere"], "nowhere"),
        (["digits", "--per-class", "0"], "per_class is 0"),
        (["digits", "--crop", "3"], "crop is 3"),
        (["digits", "--out", "file"], "file is a file: choose a folder"),
    ],
)
def test_what_no_run_could_do_is_told_once(arguments: list[str], words: str, call: Call) -> None:
    Path("file").write_text("mine")
    assert words in call("compare", *arguments, "--methods", "joint,eec", "--seeds", "2").mistake
    assert Path("file").read_text() == "mine" and not Path("runs").exists()
