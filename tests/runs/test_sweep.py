"""Which runs are taken, gone on with, or done; and the engines that do them."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eec.runs.config import RunConfig
from eec.runs.engines import Outcome, Watch, in_processes, in_sequence
from eec.runs.folder import RunFolder
from eec.runs.found import find_runs, look_at
from eec.runs.sweep import Job, plan
from eec.training.journal import Journal
from small_runs import Onlooker, config

TINY: dict[str, Any] = {"size": 8, "per_class": 3, "classes_per_increment": (5, 5)}


@contextmanager
def unseen(job: Job) -> Iterator[Watch]:
    yield Watch(Onlooker(), Journal())


def sequence(jobs: list[Job]) -> list[Outcome]:
    return list(in_sequence(jobs, unseen))


def made(folder: Path, **changes: Any) -> RunConfig:
    """Does one run."""
    asked: RunConfig = config(**{"method": "finetune", **TINY, **changes})
    (job,) = plan([asked], folder).jobs
    assert sequence([job]) == [Outcome(job)]
    return asked


@pytest.mark.usefixtures("short_recipe")
def test_a_finished_run_is_taken_whatever_its_name(tmp_path: Path) -> None:
    asked = made(tmp_path)
    (tmp_path / "finetune-0").rename(tmp_path / "another name")
    sweep = plan([asked, replace(asked, command="eec run something")], tmp_path)
    assert [job.path.name for job in sweep.jobs] == ["another name"] * 2
    assert sweep.left == [] and sweep.others == 0


@pytest.mark.usefixtures("short_recipe")
@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1},
        {"per_class": 4},
        {"size": 16},
        {"classes_per_increment": (4, 6)},
        {"validation": 0.1},
        {"returning": 0.1},
        {"class_order": "shuffled"},
        {"turn": 5},
        {"originals": False},
        {"options": config("finetune", options={"net": "small"}).options},
    ],
    ids=str,
)
def test_a_run_of_another_configuration_stays_as_it_is(
    change: dict[str, Any], done: tuple[Path, RunConfig]
) -> None:
    folder, asked = done
    sweep = plan([replace(asked, **change)], folder)
    name = "finetune-1" if change == {"seed": 1} else "finetune-0-2"
    assert [job.path.name for job in sweep.left] == [name] and sweep.others == 1


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, RunConfig]:
    folder = tmp_path_factory.mktemp("done")
    return folder, made(folder)


def test_an_order_from_a_file_is_known_by_what_it_says(
    done: tuple[Path, RunConfig], tmp_path: Path
) -> None:
    folder, asked = done
    told = json.loads((folder / "finetune-0" / "config.json").read_text())
    told["stream"]["order"] = "a file that is gone"
    copy = tmp_path / "runs" / "one"
    copy.mkdir(parents=True)
    (copy / "config.json").write_text(json.dumps(told))
    (copy / "environment.json").write_text((folder / "finetune-0/environment.json").read_text())
    order = tmp_path / "order.txt"
    for last, path in (("9", "one"), ("8", "finetune-0")):
        order.write_text("0\n1\n2\n3\n4\n5\n6\n7\n" + ("8\n9" if last == "9" else "9\n8"))
        (job,) = plan([replace(asked, class_order=str(order))], tmp_path / "runs").jobs
        assert job.path.name == path


@pytest.mark.usefixtures("short_recipe")
def test_the_code_decides_too(tmp_path: Path) -> None:
    asked = made(tmp_path)
    assert not plan([asked], tmp_path).left
    path = tmp_path / "finetune-0" / "environment.json"
    told = json.loads(path.read_text())
    path.write_text(json.dumps({**told, "code": "0123456789abcdef"}))
    assert [job.path.name for job in plan([asked], tmp_path).left] == ["finetune-0-2"]


@pytest.mark.usefixtures("short_recipe")
def test_an_unfinished_run_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    asked = made(tmp_path / "whole")
    (job,) = plan([asked], tmp_path / "cut").jobs

    class Interrupted(Onlooker):
        def measured(self, line: dict[str, Any]) -> None:
            raise RuntimeError("a fault\nof two lines")

    @contextmanager
    def interrupting(job: Job) -> Iterator[Watch]:
        yield Watch(Interrupted(), Journal())

    assert list(in_sequence([job], interrupting)) == [
        Outcome(job, "RuntimeError: a fault of two lines")
    ]
    (again,) = plan([asked], tmp_path / "cut").left
    assert (again.path, again.done) == (job.path, 1)
    assert sequence([again]) == [Outcome(again)]
    learners = [tmp_path / name / "finetune-0" / "learner.eec" for name in ("whole", "cut")]
    assert learners[0].read_bytes() == learners[1].read_bytes()


@pytest.mark.usefixtures("short_recipe")
def test_a_run_that_fails_does_not_end_the_others(tmp_path: Path) -> None:
    asked = config("finetune", **TINY)
    sweep = plan([replace(asked, size=2), asked], tmp_path)
    bad, good = sequence(sweep.jobs)
    assert bad.mistake is not None and "\n" not in bad.mistake and good.mistake is None
    assert [run.path for run in find_runs(tmp_path)] == [good.job.path]


@pytest.mark.usefixtures("short_recipe")
def test_what_a_process_left_that_died_at_once_is_no_obstacle(tmp_path: Path) -> None:
    place = tmp_path / "finetune-0"
    place.mkdir()
    for name in ("environment.json", ".lock", ".config.json.0a1b2c3d.part"):
        (place / name).write_text('{"eec": "1", "code": "a"}')
    made(tmp_path)
    (found,) = find_runs(tmp_path)
    assert found.path == place and found.finished


@pytest.mark.usefixtures("short_recipe")
def test_a_look_tells_how_far_a_run_is_and_who_is_at_it(tmp_path: Path) -> None:
    made(tmp_path)
    path = tmp_path / "finetune-0"
    folder = RunFolder.open(path)
    held = look_at(path)
    assert held is not None and held.in_use and (held.done, held.increments) == (2, 2)
    folder.close()
    free = look_at(path)
    assert free is not None and not free.in_use and free.finished
    (path / ".lock").write_text("process 1 on a machine")  # of one that died
    (path / "checkpoint").mkdir()
    dead = look_at(path)
    assert dead is not None and not dead.in_use and not dead.finished
    assert look_at(tmp_path) is None


def test_processes_are_begun_again_when_they_die(tmp_path: Path) -> None:
    """One cannot do its work, one is killed, one is fine."""
    asked = config("finetune", **TINY)
    jobs = plan([replace(asked, seed=s) for s in (0, 1)], tmp_path).jobs
    hopeless = Job(replace(asked, dataset="nothing"), tmp_path / "hopeless")
    outcomes = in_processes([hopeless, *jobs], retries=1, at_once=2)
    first = next(outcomes)
    assert first.job == hopeless and "unknown data set 'nothing'" in str(first.mistake)
    victim = jobs[0].path / ".lock"
    until = time.monotonic() + 60
    while not (victim.exists() and victim.read_text()) and time.monotonic() < until:
        time.sleep(0.01)
    os.kill(int(victim.read_text().split()[1]), signal.SIGKILL)
    rest = list(outcomes)
    assert {outcome.job.name: outcome.mistake for outcome in rest} == {
        "finetune, seed 0": None,
        "finetune, seed 1": None,
    }
    assert all(run.finished for run in find_runs(tmp_path))


LONG = """
from pathlib import Path
from eec.runs.engines import in_processes
from eec.runs.sweep import plan
from small_runs import config

if __name__ == "__main__":
    asked = config("finetune", size=8, per_class=100, classes_per_increment=(5, 5))
    list(in_processes(plan([asked], Path("runs")).jobs, retries=1, at_once=2))
"""


def test_a_run_stops_when_its_parent_is_killed(tmp_path: Path) -> None:
    """It would go on alone and hold its folder: the same command would find it in use."""
    (tmp_path / "long.py").write_text(LONG)
    found = [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(found)}
    parent = subprocess.Popen([sys.executable, "long.py"], cwd=tmp_path, env=environment)
    path = tmp_path / "runs" / "finetune-0"
    wait_until(lambda: bool((run := look_at(path)) and run.in_use))
    parent.kill()
    parent.wait()
    wait_until(lambda: not ((run := look_at(path)) and run.in_use))
    run = look_at(path)
    assert run is None or not run.finished  # stopped early enough, it leaves nothing


def wait_until(true: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not true():
        assert time.monotonic() < until
        time.sleep(0.05)
