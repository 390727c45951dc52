"""How several runs are carried out: one after the other, in local processes, on a Ray cluster.

An engine takes jobs and gives an outcome for each as it comes. A run that fails does not end the
others. One whose process or machine dies is begun again, and goes on from its checkpoint.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

import torch

from eec.data.catalog import default_data_dir
from eec.data.stream import Increment, Stream
from eec.errors import UserError
from eec.methods.contract import Facts
from eec.runs.environment import restore_threads
from eec.runs.folder import MARK, RunFolder
from eec.runs.found import in_use, look_at
from eec.runs.judge import Measures
from eec.runs.resume import is_finished, read_config
from eec.runs.run import Watcher, go_on, prepare, run
from eec.runs.sweep import Job
from eec.training.allocator import keep_freed_memory
from eec.training.journal import Journal
from eec.training.loop import Progress, quiet

LINGER = 60.0  # seconds that a worker may outlive its lost machine's control process


@dataclass(frozen=True)
class Outcome:
    job: Job
    mistake: str | None = None  # why it failed for good, in one line


@dataclass(frozen=True)
class Watch:
    """Who looks on at a run, and what keeps its trainings."""

    watcher: Watcher
    journal: Journal
    reading: Progress = quiet


class Nobody:
    """Looks on where there is nothing to show."""

    def begin(self, stream: Stream, nets: Facts) -> None: ...
    def increment(self, increment: Increment) -> None: ...
    def measured(self, line: Measures) -> None: ...
    def recalled(self, line: Measures) -> None: ...

    def phase(self, name: str) -> Progress:
        return quiet


def do(job: Job, watch: Watch) -> None:
    """The run from its beginning, or from where its folder says that it is."""
    threads = torch.get_num_threads()
    try:
        if (job.path / MARK).exists():
            _go_on(job, watch)
        else:
            _begin(job, watch)
    finally:
        torch.set_num_threads(threads)  # a run that goes on may have asked for others


def _begin(job: Job, watch: Watch) -> None:
    stream, method = prepare(job.config, watch.reading)
    folder = RunFolder.make(job.path, overwrite=False)
    try:
        run(job.config, stream, method, folder, watch.watcher, watch.journal)
    finally:
        folder.close()


def _go_on(job: Job, watch: Watch) -> None:
    folder = RunFolder.open(job.path)
    try:
        if is_finished(folder):
            return
        config = read_config(folder, job.config.data_dir)
        restore_threads(folder.read_json("environment.json"))
        stream, method = prepare(config, watch.reading)
        go_on(config, stream, method, folder, watch.watcher, watch.journal)
    finally:
        folder.close()


def in_sequence(
    jobs: Sequence[Job], watching: Callable[[Job], AbstractContextManager[Watch]]
) -> Iterator[Outcome]:
    """One after the other, in this process."""
    for job in jobs:
        try:
            with watching(job) as watch:
                do(job, watch)
        except Exception as error:
            yield Outcome(job, _in_one_line(error))
        else:
            yield Outcome(job)


def threads_of_each(at_once: int) -> int:
    """So many processes share the cores; one alone has what it was given."""
    return torch.get_num_threads() if at_once == 1 else max(1, (os.cpu_count() or 1) // at_once)


@contextmanager
def as_one_of(at_once: int) -> Iterator[None]:
    """In this process, but with the threads that one of so many would have."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads_of_each(at_once))
    try:
        yield
    finally:
        torch.set_num_threads(before)


def in_processes(jobs: Sequence[Job], retries: int, at_once: int) -> Iterator[Outcome]:
    """In so many processes at a time, which share the cores."""
    threads = threads_of_each(at_once)
    waiting = deque((job, retries) for job in jobs)
    running: dict[Connection, tuple[SpawnProcess, Job, int]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                job, left = waiting.popleft()
                receiver, process = _start(job, threads)
                running[receiver] = process, job, left
            for ended in wait(list(running)):
                assert isinstance(ended, Connection)
                process, job, left = running.pop(ended)
                failure = _answer(ended, process)
                if failure is None:
                    yield Outcome(job)
                elif left and not failure.final:
                    waiting.append((job, left - 1))
                else:
                    yield Outcome(job, failure.words)
    finally:  # nothing is left here unless the work is stopped
        for process, _, _ in running.values():
            process.terminate()
        for process, _, _ in running.values():
            process.join()


@dataclass(frozen=True)
class _Failure:
    words: str
    final: bool  # it would fail again


def _start(job: Job, threads: int) -> tuple[Connection, SpawnProcess]:
    context = multiprocessing.get_context("spawn")  # torch's threads do not survive a fork
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(sender, job, threads), name=job.name)
    process.start()
    sender.close()  # so that the end of the process is the end of the pipe
    return receiver, process


def _work(sender: Connection, job: Job, threads: int) -> None:
    """What a process does: the run; the answer goes through the pipe."""
    journal = Journal()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all: one will stop us
    signal.signal(signal.SIGTERM, lambda *_: journal.stop())
    threading.Thread(target=_stop_with_parent, daemon=True).start()
    torch.set_num_threads(threads)
    keep_freed_memory()
    try:
        do(job, Watch(Nobody(), journal))
        sender.send(None)
    except KeyboardInterrupt:
        return
    except Exception as error:
        sender.send(_Failure(_in_one_line(error), final=isinstance(error, UserError)))


def _stop_with_parent() -> None:
    """Whoever started this process may be killed: alone it would go on, and hold its folder."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os.kill(os.getpid(), signal.SIGTERM)  # is heard by the main thread


def _answer(receiver: Connection, process: SpawnProcess) -> _Failure | None:
    try:
        answer: _Failure | None = receiver.recv()
    except (EOFError, OSError):
        process.join()
        return _Failure(f"its process ended with status {process.exitcode}", final=False)
    finally:
        receiver.close()
    process.join()
    return answer


def on_ray(jobs: Sequence[Job], retries: int, address: str | None) -> Iterator[Outcome]:
    """A task for each run, of one CPU (and one GPU where the cluster has any).

    Folders are named as they are here: the disk must be one that all machines of the cluster see.
    """
    with redirect_stdout(sys.stderr):  # Ray tells of lost machines there, amid the result
        ray = _connect(address)
        try:
            gpus = 1 if ray.cluster_resources().get("GPU") else 0  # Ray hides those not asked for
            task = ray.remote(
                num_cpus=1, num_gpus=gpus, max_retries=retries, retry_exceptions=True
            )(_on_machine)
            pending = {task.remote(_anywhere(job), str(Path.cwd())): job for job in jobs}
            while pending:
                (ready, *_), _ = ray.wait(list(pending), num_returns=1)
                job = pending.pop(ready)
                yield Outcome(job, _result(ray, ready, job))
        finally:
            ray.shutdown()


def _connect(address: str | None) -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it would call home
    try:
        import ray
    except ImportError:
        raise UserError(
            "--engine ray needs Ray, which is not installed: pip install 'eec[cluster]'"
        ) from None
    try:
        _knock(address)
        ray.init(
            address=address or "local",
            include_dashboard=None if address else False,
            logging_level=logging.ERROR,
            log_to_driver=False,
        )
    except (OSError, RuntimeError, ValueError) as error:
        raise UserError(
            f"--address {address or 'local'}: no Ray cluster answers there "
            f"({_in_one_line(error)[:200]}): start one with ray start --head, or leave it out"
        ) from None
    return ray


def _knock(address: str | None) -> None:
    """Where nobody listens, Ray itself ends the process without a word to us."""
    host, colon, port = (address or "").removeprefix("ray://").rpartition(":")
    if colon:
        socket.create_connection((host, int(port)), timeout=10).close()


def _anywhere(job: Job) -> Job:
    """The job for a process of another environment."""
    config = replace(job.config, data_dir=(job.config.data_dir or default_data_dir()).absolute())
    return replace(job, config=config, path=job.path.absolute())


def _on_machine(job: Job, folder: str) -> str | None:
    """What a Ray worker does. A mistake that would come again is an answer, no error."""
    os.chdir(folder)
    torch.set_num_threads(1)
    until = time.monotonic() + LINGER
    while in_use(job.path) and time.monotonic() < until:
        time.sleep(0.5)
    try:
        do(job, Watch(Nobody(), Journal()))
    except UserError as error:
        return _in_one_line(error)
    return None


def _result(ray: Any, ready: Any, job: Job) -> str | None:
    try:
        mistake: str | None = ray.get(ready)
    except ray.exceptions.RayTaskError as error:
        return _in_one_line(error.cause)
    except ray.exceptions.RayError as error:
        return f"Ray gave up on it: {_in_one_line(error)[:200]}"
    if mistake is None and look_at(job.path) is None:
        return "it is done but not here: --out must be on a disk that all machines share"
    return mistake


def _in_one_line(error: BaseException) -> str:
    words = " ".join(str(error).split())
    return words if isinstance(error, UserError) else f"{type(error).__name__}: {words}"
