"""`eec resume`, in processes of their own, as users stop and go on with their runs."""

import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

TINY = ["--per-class", "3", "--classes-per-increment", "5", "--size", "8"]
RUN = ["run", "digits", *TINY, "--method", "finetune", "--checkpoint-every", "0.1", "--out", "run"]
STEPS = 400  # of the second increment: seconds


@pytest.fixture
def start(
    command: Callable[..., list[str]], environment: dict[str, str], tmp_path: Path
) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """`start(*arguments)`: the command in a process of its own, which does not outlive the test."""
    started: list[subprocess.Popen[str]] = []

    def act(*arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            command(arguments, later=STEPS),
            cwd=tmp_path,
            env=environment,
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


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_stopped_run_goes_on_to_the_same_end(how: int, start: Start, tmp_path: Path) -> None:
    straight = [*RUN[:-1], "straight"]
    assert start(*straight).wait(120) == 0
    running = start(*RUN)
    wait_for(tmp_path / "run")
    began = time.monotonic()
    running.send_signal(how)
    _, err = running.communicate(timeout=60)
    assert time.monotonic() - began < 30  # a busy machine is not our fault; 5 s on a quiet one
    if how == signal.SIGKILL:
        assert running.returncode == -how
    else:
        assert (running.returncode, err) == (130, "eec: stopped; go on with: eec resume run\n")
    again = start("resume", "run")
    out, err = again.communicate(timeout=120)
    assert (again.returncode, err) == (0, "")
    assert out.index("  1/2  A_5") < out.index("  2/2  A_10") < out.index("report    run")
    assert result(tmp_path / "run") == result(tmp_path / "straight")
    assert not (tmp_path / "run" / "checkpoint").exists()

    done = start("resume", "run")
    out, err = done.communicate(timeout=60)
    assert done.returncode == 0 and "A_10" in out
    assert err == "eec: run is finished: nothing was left to do\n"


def test_a_second_process_is_refused(start: Start, tmp_path: Path) -> None:
    running = start(*RUN)
    wait_for(tmp_path / "run")
    for arguments in (["resume", "run"], [*RUN, "--overwrite"]):
        second = start(*arguments)
        _, err = second.communicate(timeout=60)
        assert second.returncode == 2
        assert err.startswith(f"eec: run is in use by process {running.pid} on ")
        assert err.count("\n") == 1
    assert running.wait(120) == 0


def test_a_full_disk_ends_in_one_line_with_the_last_checkpoint_intact(
    start: Start, tmp_path: Path
) -> None:
    running = start(*RUN)
    wait_for(tmp_path / "run")
    place = tmp_path / "run" / "checkpoint" / "increment-2"
    # As a disk that refuses writes: the folder is away for a moment.
    place.rename(tmp_path / "away")
    _, err = running.communicate(timeout=60)
    assert running.returncode == 2 and err.count("\n") == 1 and "increment-2" in err
    assert err.endswith("go on with: eec resume run\n")
    (tmp_path / "away").rename(place)
    assert start("resume", "run").wait(120) == 0


def test_what_is_no_run_is_refused(start: Start) -> None:
    process = start("resume", "nowhere")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert err == ("eec: nowhere is not a run folder: give the folder that `eec run` wrote to\n")
