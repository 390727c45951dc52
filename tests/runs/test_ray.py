"""Runs on a Ray cluster: a head and a second machine, of which one is lost in the middle.

Ray warns and spawns a lot: the driver is a process of its own.
"""

import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import torch

from eec.runs.engines import Watch, in_sequence
from eec.runs.found import find_runs
from eec.runs.sweep import Job, plan
from eec.training.journal import Journal
from small_runs import Onlooker, config

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="Ray is not installed: pip install eec[cluster]"
)

TESTS = Path(__file__).parents[1]
SEEDS = range(4)
DRIVER = """
import json, sys
from pathlib import Path
from eec.runs.engines import on_ray
from eec.runs.sweep import plan
sys.path.insert(0, sys.argv[3])
from small_runs import config
configs = [config("finetune", seed=seed) for seed in range(4)]
outcomes = list(on_ray(plan(configs, Path(sys.argv[1])).jobs, 3, sys.argv[2]))
print(json.dumps([[outcome.job.config.seed, outcome.mistake] for outcome in outcomes]))
"""
NODE = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--num-cpus", "1"]
ENVIRONMENT = {
    **os.environ,
    "OMP_NUM_THREADS": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",  # else they wait for all else that this machine does
}
PATIENCE = 120.0  # seconds: for a busy machine


class Cluster:
    """Two machines, as far as Ray can tell."""

    def __init__(self, place: Path) -> None:
        self.place = place
        # Ray leaves a key in the home folder when it is started within a program, and machines that
        # are started from the shell afterwards do not agree on whether to ask for it.
        self.environment = {**ENVIRONMENT, "HOME": str(place)}
        self.nodes: list[subprocess.Popen[bytes]] = []
        self.address = ""

    def start(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.address = f"127.0.0.1:{port}"
        self._start(
            *("--head", "--port", str(port), "--node-ip-address", "127.0.0.1"),
            *("--include-dashboard", "false", "--temp-dir", str(self.place)),
        )
        wait_for(lambda: b"runtime started" in self._said(0), "the head")
        self._start("--address", self.address, "--node-ip-address", "127.0.0.1")
        wait_for(lambda: b"runtime started" in self._said(1), "the second machine")

    def _start(self, *arguments: str) -> None:
        log = self.place / f"node-{len(self.nodes)}.log"
        with log.open("wb") as out:
            node = subprocess.Popen(
                [*NODE, *arguments], env=self.environment, stdout=out, stderr=out, cwd=self.place
            )
        self.nodes.append(node)

    def _said(self, node: int) -> bytes:
        assert self.nodes[node].poll() is None, self.place.joinpath(f"node-{node}.log").read_text()
        return (self.place / f"node-{node}.log").read_bytes().lower()

    def close(self) -> None:
        for node in reversed(self.nodes):
            kill_all(node)


def kill_all(node: subprocess.Popen[bytes]) -> None:
    """A process and all that it started, at once: the power is gone."""
    for process in [node.pid, *descendants(node.pid)]:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    node.wait()


def descendants(process: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it ended as we looked
            parent = int(entry.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(entry.parent.name))
    found, new = [], [process]
    while new:
        new = [child for parent in new for child in children.get(parent, [])]
        found += new
    return found


def wait_for(what: Callable[[], bool], name: str) -> None:
    until = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < until, f"{name} did not come"
        time.sleep(0.05)


def at_work(folder: Path) -> list[int]:
    """The processes that hold a run in this folder."""
    found = []
    for lock in folder.glob("*/.lock"):
        with suppress(OSError, IndexError):
            found.append(int(lock.read_text().split()[1]))
    return found


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    # Not tmp_path: the names of Ray's sockets, which it adds to this one, have 107 characters.
    place = Path(tempfile.mkdtemp(prefix="ray-"))
    cluster = Cluster(place)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.close()
        shutil.rmtree(place, ignore_errors=True)


@contextmanager
def unseen(job: Job) -> Iterator[Watch]:
    yield Watch(Onlooker(), Journal())


def test_a_machine_is_lost_and_all_results_are_there(cluster: Cluster, tmp_path: Path) -> None:
    lost = cluster.nodes[1]
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, tmp_path / "ray", cluster.address, TESTS],
        env=cluster.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        wait_for(
            lambda: bool({*at_work(tmp_path / "ray")} & {*descendants(lost.pid)}),
            "work on the second machine",
        )
        kill_all(lost)
        out, err = driver.communicate(timeout=PATIENCE)
    finally:
        driver.kill()
        driver.communicate()
    assert driver.returncode == 0, err.decode()
    assert sorted(json.loads(out)) == [[seed, None] for seed in SEEDS]
    assert [run.finished for run in find_runs(tmp_path / "ray")] == [True] * len(SEEDS)

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        configs = [config("finetune", seed=seed) for seed in SEEDS]
        outcomes = list(in_sequence(plan(configs, tmp_path / "here").jobs, unseen))
    finally:
        torch.set_num_threads(threads)
    assert [outcome.mistake for outcome in outcomes] == [None] * len(SEEDS)
    for run in find_runs(tmp_path / "ray"):
        other = tmp_path / "here" / run.path.name
        for name in ("learner.eec", "samples.safetensors"):
            assert (run.path / name).read_bytes() == (other / name).read_bytes()


def test_an_address_where_nobody_is(tmp_path: Path) -> None:
    code = "import sys; from eec.cli.main import main; main(sys.argv[1:])"
    asked = ["compare", "digits", "--engine", "ray", "--address", "127.0.0.1:9", "--seeds", "1"]
    done = subprocess.run(
        [sys.executable, "-c", code, *asked, "--out", tmp_path / "runs"],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 2
    assert "--address 127.0.0.1:9: no Ray cluster answers there" in done.stderr.splitlines()[-1]
