"""`eec run` from end to end."""

import json
import os
import pty
import re
import signal
import struct
import subprocess
import termios
from collections.abc import Callable
from fcntl import ioctl
from importlib.metadata import version
from pathlib import Path
from shutil import copytree, rmtree
from typing import Any

import numpy as np
import pytest
from PIL import Image

from eec import EEC
from eec.data.catalog import load_dataset
from eec.methods.contract import Method
from eec.report import figures, write

Call = Callable[..., Any]

PICTURES = ["accuracy.png", "cost.png", "gap.png", "sheet.png"]
CONTENTS = ["config.json", "environment.json", "learner.eec", "measures.jsonl", "pictures",
            "report.html", "samples.safetensors"]  # fmt: skip
TINY = ["--per-class", "3", "--classes-per-increment", "5", "--size", "8"]


@pytest.fixture(scope="module")
def finished(run_apart: Call, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """The folder of a whole run, and what it printed."""
    where = tmp_path_factory.mktemp("finished")
    return where / "a run", run_apart(where)


def measures(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "measures.jsonl").read_text().splitlines()]


def contents(folder: Path) -> dict[str, bytes]:
    files = [entry for entry in folder.rglob("*") if entry.is_file()]
    return {str(entry.relative_to(folder)): entry.read_bytes() for entry in files}


# A whole run.


def test_the_run_folder_is_complete(finished: tuple[Path, Any]) -> None:
    folder, answer = finished
    assert (answer.status, answer.err) == (0, "")
    assert sorted(entry.name for entry in folder.iterdir()) == CONTENTS
    assert sorted(entry.name for entry in (folder / "pictures").iterdir()) == PICTURES
    for picture in (folder / "pictures").iterdir():
        with Image.open(picture) as image:
            image.load()
            assert min(image.size) > 100
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert page.lstrip().lower().startswith("<!doctype html") and "</html>" in page


def test_configuration_seed_and_versions_are_written(finished: tuple[Path, Any]) -> None:
    folder, _ = finished
    config = json.loads((folder / "config.json").read_text())
    assert config["dataset"] == "digits" and config["method"] == "eec" and config["seed"] == 0
    assert config["options"]["code"] == "16x4x4" and config["options"]["codec"] == "frozen"
    assert config["options"]["flip"] is False
    assert config["stream"]["class_order"] == list(range(10))
    assert config["stream"]["per_class"] == 12 and config["stream"]["size"] == 16
    assert config["command"].startswith("eec run digits --per-class 12 ")
    assert config["command"].endswith("--out 'a run'")
    environment = json.loads((folder / "environment.json").read_text())
    for package in ("eec", "torch", "numpy"):
        assert environment[package] == version(package)


def test_the_learner_in_the_folder_has_the_accuracy_that_was_written(
    finished: tuple[Path, Any],
) -> None:
    folder, answer = finished
    lines = measures(folder)
    digits = load_dataset("digits", size=16)
    learner = EEC.load(folder / "learner.eec")
    assert learner.classes_.tolist() == lines[-1]["classes"] == list(range(10))
    score = 100 * learner.score(digits.test_images, digits.test_labels)
    assert lines[-1]["accuracy"] == pytest.approx(score)
    assert f"A_10 {score:.2f} %" in answer.out
    counts = np.array(lines[-1]["confusion"])
    calls = learner.predict(digits.test_images)
    assert counts.sum(0).tolist() == [int((calls == digit).sum()) for digit in range(10)]


def test_what_is_no_terminal_gets_plain_lines(finished: tuple[Path, Any]) -> None:
    folder, answer = finished
    lines = answer.out.splitlines()
    assert "\x1b" not in answer.out and "\r" not in answer.out
    assert lines[0] == "digits: 10 classes in 3 increments, judged on test images"
    reached = [line for line in lines if re.match(r" +[123]/3  A_", line)]
    written = measures(folder)
    assert len(reached) == 3
    for line, measured in zip(reached, written, strict=True):
        assert f"A_{measured['classes_seen']} {measured['accuracy']:6.2f} %" in line
    long = [line for line in lines if len(line) > 80]
    notes = [measured["note"] for measured in written if measured["note"]]
    assert all(line.strip() in notes or line.startswith("eec on digits") for line in long)
    for note in notes:
        assert f"     {note}" in lines
    assert lines[-4:] == [
        f"{what:<10}{Path('a run') / name}"
        for what, name in (
            ("measures", "measures.jsonl"), ("pictures", "pictures"), ("learner", "learner.eec"),
            ("report", "report.html"),
        )
    ]  # fmt: skip


def test_the_same_command_gives_the_same_run(
    finished: tuple[Path, Any], run_apart: Call, tmp_path: Path
) -> None:
    # Also on a terminal without our letters, which must not end a run of hours with an error.
    folder, _ = finished
    answer = run_apart(tmp_path, PYTHONIOENCODING="ascii")
    assert (answer.status, answer.err) == (0, "") and answer.out.isascii()
    first, second = measures(folder), measures(tmp_path / "a run")
    for line in (*first, *second):
        assert line.pop("seconds")
    assert first == second
    before, after = contents(folder), contents(tmp_path / "a run")
    for name in ("samples.safetensors", "learner.eec", "pictures/sheet.png", "pictures/gap.png"):
        assert before[name] == after[name], name
    one, other = (json.loads(files["config.json"]) for files in (before, after))
    assert one.pop("place")["folder"] != other.pop("place")["folder"]
    assert one == other


# In one's way: an earlier run, Ctrl-C.


@pytest.fixture
def earlier(finished: tuple[Path, Any], call: Call) -> dict[str, bytes]:
    """A copy of the finished run in `run`, where the command is given; its contents."""
    copytree(finished[0], "run")
    return contents(Path("run"))


QUICK = ["run", "digits", "--method", "finetune", "--out", "run", "--quiet", *TINY]


def test_an_earlier_run_is_replaced_only_on_demand(
    call: Call, short_recipe: object, earlier: dict[str, bytes]
) -> None:
    assert "--overwrite" in call(*QUICK).mistake
    assert contents(Path("run")) == earlier
    assert call(*QUICK, "--overwrite").status == 0
    assert sorted(entry.name for entry in Path("run").iterdir()) == CONTENTS
    after = contents(Path("run"))
    assert json.loads(after["config.json"])["method"] == "finetune"
    # Nothing is left of the earlier run.
    assert not [name for name in earlier if name in after and after[name] == earlier[name]]


def test_a_failed_run_does_not_cost_the_earlier_one(
    call: Call, short_recipe: object, earlier: dict[str, bytes]
) -> None:
    arguments = ["--out", "run", "--quiet", *TINY, "--overwrite", "--code", "16x64x64"]
    assert "16x64x64" in call("run", "digits", *arguments).mistake
    assert contents(Path("run")) == earlier


def interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_ctrl_c_before_the_first_increment_is_done(
    call: Call, earlier: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Method, "learn", interrupt)
    answer = call(*QUICK, "--overwrite")
    assert (answer.status, answer.err) == (130, "eec: stopped; run is as it was before\n")
    assert contents(Path("run")) == earlier
    rmtree("run")
    answer = call(*QUICK)
    assert answer.status == 130 and answer.err.startswith("eec: stopped; nothing was kept")
    assert list(Path().iterdir()) == []


def test_ctrl_c_while_the_report_is_drawn(
    call: Call, short_recipe: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write, "accuracy_figure", interrupt)
    answer = call(*QUICK)
    assert answer.status == 130 and answer.err == "eec: stopped; go on with: eec resume run\n"
    assert len(measures(Path("run"))) == 2


def test_ctrl_c_keeps_the_increments_that_are_done(
    command: Callable[..., list[str]], environment: dict[str, str], tmp_path: Path
) -> None:
    arguments = ["run", "digits", *TINY, "--method", "finetune", "--out", "a run"]
    running = subprocess.Popen(
        command(arguments, later=10**9),
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    try:
        assert running.stdout is not None
        for line in running.stdout:
            if line.startswith("  1/2"):
                break
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=60)
    finally:
        running.kill()
    assert running.returncode == 130
    assert err == "eec: stopped; go on with: eec resume 'a run'\n"
    folder = tmp_path / "a run"
    assert [line["classes_seen"] for line in measures(folder)] == [5]
    assert sorted(entry.name for entry in folder.iterdir()) == [
        "checkpoint", "config.json", "environment.json", "learner.eec", "measures.jsonl",
        "samples.safetensors",
    ]  # fmt: skip


# A terminal.


def test_the_live_display_on_a_terminal(
    command: Callable[..., list[str]], environment: dict[str, str], tmp_path: Path
) -> None:
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    arguments = ["run", "digits", *TINY, "--code", "16x2x2", "--out", "a run"]
    running = subprocess.Popen(
        command(arguments, first=40, later=40),
        cwd=tmp_path,
        env={**environment, "TERM": "xterm-256color"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    seen = b""
    try:
        while chunk := read(ours):
            seen += chunk
        assert running.wait(60) == 0
    finally:
        running.kill()
        os.close(ours)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode())
    assert "Traceback" not in text
    for phase in ("train autoencoder", "train classifier", "evaluate"):
        assert re.search(rf"  {phase} +[━╸╺]+ +\d+%", text), phase
    assert re.search(r"increment 2/2: 5, 6, 7, 8, … \(10\)|increment 2/2: 5, 6, 7, 8", text)
    assert re.search(r"\d+% (\d+\.\d s|\d+ s) left", text)
    assert re.search(r"1/2  A_5 +\d+\.\d\d %", text) and re.search(r"2/2  A_10 +\d+\.\d\d %", text)
    assert "report    a run/report.html" in text


def read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # how Linux says that the other end is closed
        return b""


# Choices.


@pytest.mark.parametrize("method", ["eec-published", "eecs"])  # the others: above and below
def test_other_methods_by_name(method: str, call: Call, short_recipe: object) -> None:
    answer = call("run", "digits", "--method", method, *TINY)
    assert (answer.status, answer.err) == (0, "")
    folder = Path("runs") / f"digits-{method}-0"
    assert sorted(entry.name for entry in folder.iterdir()) == CONTENTS
    assert f"{method} on digits, seed 0: A_10 " in answer.out


def test_choices_reach_the_run(
    call: Call,
    short_recipe: object,
    finished: tuple[Path, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn: list[str] = []
    draw = figures.accuracy_figure

    def spy(record: Any, beside: Any, path: Path) -> Any:
        drawn.extend(f"{other.method} {other.path.name}" for other in beside)
        return draw(record, beside, path)

    monkeypatch.setattr(write, "accuracy_figure", spy)
    answer = call(
        "run", "digits", "--method", "joint", *TINY, "--seed", "7", "--class-order", "shuffled",
        "--validation", "0.2", "--quiet", "--net", "dcgan", "--keep-head", "False",
        "--device", "cpu", "--precision", "float32", "--out", "run", "--beside", finished[0],
    )  # fmt: skip
    assert (answer.status, answer.err) == (0, "")
    assert drawn == ["eec a run"]
    # Quiet: the result only.
    assert answer.out.startswith("joint on digits, seed 7") and "1/2" not in answer.out
    assert "(validation images)" in answer.out
    config = json.loads(Path("run/config.json").read_text())
    assert config["seed"] == 7 and config["strict"] is False
    assert config["options"]["net"] == "dcgan" and config["options"]["keep_head"] is False
    stream = config["stream"]
    assert (stream["order"], stream["validation"], stream["judged_on"]) == (
        "shuffled", 0.2, "validation"
    )  # fmt: skip
    assert sorted(stream["class_order"]) == list(range(10)) != stream["class_order"]
    assert measures(Path("run"))[0]["classes"] == stream["class_order"][:5]
