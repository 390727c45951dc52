"""`eec resume`, in processes of their own, as users stop and go on with their runs."""

import errno
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from eec.methods.replay import Replay
from eec.runs.folder import RunFolder

TINY = ["--per-class", "3", "--classes-per-increment", "5", "--size", "8"]
RUN = ["run", "digits", *TINY, "--method", "finetune", "--checkpoint-every", "0.1", "--out", "run"]
STEPS = 400  # of the second increment: seconds


@pytest.fixture(scope="module")
def start(
    command: Callable[..., list[str]], environment: dict[str, str]
) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """`start(folder, *arguments)`: the command in a process that does not outlive the tests."""
    started: list[subprocess.Popen[str]] = []

    def act(folder: Path, *arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            command(arguments, later=STEPS),
            cwd=folder,
            env={**environment, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )
        started.append(process)
        return process

    yield act
    for process in started:
        process.kill()
        process.communicate()


Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture(scope="module")
def straight(start: Start, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the run that nobody stopped."""
    place = tmp_path_factory.mktemp("straight")
    assert start(place, *RUN).wait(120) == 0
    return place / "run"


def wait_for(path: Path) -> None:
    """Until the second increment's training has its first checkpoint."""
    until = time.monotonic() + 120
    while not list(path.glob("checkpoint/increment-2/training-*.safetensors")):
        assert time.monotonic() < until
        time.sleep(0.02)


def result(folder: Path) -> tuple[bytes, list[dict[str, Any]]]:
    lines = [json.loads(line) for line in (folder / "measures.jsonl").read_text().splitlines()]
    for line in lines:
        del line["seconds"]
    return (folder / "learner.eec").read_bytes(), lines


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_run_goes_on_to_the_same_end(
    how: int, start: Start, straight: Path, tmp_path: Path
) -> None:
    running = start(tmp_path, *RUN)
    wait_for(tmp_path / "run")
    began = time.monotonic()
    running.send_signal(how)
    _, err = running.communicate(timeout=60)
    assert time.monotonic() - began < 30  # a busy machine is not our fault; 5 s on a quiet one
    if how == signal.SIGKILL:
        assert running.returncode == -how
    else:
        assert (running.returncode, err) == (130, "eec: stopped; go on with: eec resume run\n")
    again = start(tmp_path, "resume", "run")
    out, err = again.communicate(timeout=120)
    assert (again.returncode, err) == (0, "")
    assert out.index("  1/2  A_5") < out.index("  2/2  A_10") < out.index("report    run")
    assert result(tmp_path / "run") == result(straight)
    assert not (tmp_path / "run" / "checkpoint").exists()


def test_a_finished_run_is_left_alone(start: Start, straight: Path) -> None:
    before = result(straight)
    done = start(straight.parent, "resume", "run")
    out, err = done.communicate(timeout=60)
    assert result(straight) == before
    assert done.returncode == 0 and "A_10" in out
    assert err == "eec: run is finished: nothing was left to do\n"


def test_a_full_disk_ends_in_one_line_with_the_last_checkpoint_intact(
    call: Callable[..., Any], short_recipe: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.fsync

    def full(file: int) -> None:
        if Path("run/measures.jsonl").exists():
            raise OSError(errno.ENOSPC, "No space left on device")
        real(file)

    monkeypatch.setattr(os, "fsync", full)
    mistake = call(*RUN, "--quiet").mistake
    assert "No space left on device" in mistake and mistake.endswith(
        "; go on with: eec resume run\n"
    )
    monkeypatch.setattr(os, "fsync", real)
    assert call("resume", "run", "--quiet").status == 0
    assert len(Path("run/measures.jsonl").read_text().splitlines()) == 2


def test_nobody_is_sent_back_to_a_run_whose_budget_is_too_small(
    call: Callable[..., Any], short_recipe: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [*RUN, "--quiet", "--method", "replay", "--size", "24", "--memory", "9kB"]
    assert "one image of each of 10 classes" in call(*asked).mistake  # before it begins
    assert not Path("run").exists()
    monkeypatch.setattr(Replay, "_bytes_needed", lambda *_: (0, 0))  # as by a wrong guess
    mistake = call(*asked).mistake
    assert Path("run/measures.jsonl").exists()  # some classes did fit
    assert "too small for one image of each of" in mistake and "go on" not in mistake


def test_what_is_drawn_beside_a_run_stays_beside_it(
    call: Callable[..., Any], short_recipe: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = [*RUN, "--quiet", "--seed", "7"]
    other[other.index("--out") + 1] = "elsewhere/other"
    assert call(*other).status == 0
    with monkeypatch.context() as broken:
        broken.setattr(RunFolder, "finish", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
        assert call(*RUN, "--quiet", "--beside", "elsewhere/other").status == 130
    for _ in range(2):  # gone on with, and once more when it is finished
        Path("run/report.html").unlink(missing_ok=True)
        assert call("resume", "run", "--quiet").status == 0
        assert "seed 7" in Path("run/report.html").read_text()
    Path("elsewhere/other/config.json").unlink()
    again = call("resume", "run", "--quiet")
    assert again.status == 0 and "drawn without" in again.err


def test_a_folder_in_use_is_left_alone(call: Callable[..., Any], short_recipe: object) -> None:
    assert call(*RUN, "--quiet").status == 0
    holder = RunFolder.open(Path("run"))
    for arguments in (["resume", "run"], [*RUN, "--overwrite"]):
        assert f"run is in use by process {os.getpid()} on " in call(*arguments).mistake
    holder.close()


def test_what_is_no_run_is_refused(call: Callable[..., Any]) -> None:
    assert call("resume", "nowhere").mistake == (
        "eec: nowhere is not a run folder: give the folder that `eec run` wrote to\n"
    )
