"""What `eec compare` and `eec paper` share: several runs in a row, and how they went."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eec.cli.run import Run
from eec.errors import UserError
from eec.runs.config import RunConfig
from eec.runs.sweep import Job, Sweep

if TYPE_CHECKING:
    from eec.runs.engines import Outcome, Watch

RETRIES = 2  # of a run whose process died


def run_config(dataset: str, method: str, seed: int, chosen: Mapping[str, Any]) -> RunConfig:
    """As `eec run` would have it, with the command that repeats this run alone."""
    command = ["run", dataset, "--method", method, "--seed", str(seed)]
    for name, value in chosen.items():
        command += [f"--{name.replace('_', '-')}", str(value)]
    return Run(dataset, method=method, seed=seed, **chosen).config(command)


def how_far(sweep: Sweep) -> str:
    """How many runs there are of each state."""
    taken = len(sweep.jobs) - len(sweep.left)
    begun = sum(job.done > 0 for job in sweep.left)
    counts = {
        "finished before": taken,
        "to go on with": begun,
        "to do": len(sweep.left) - begun,
    }
    return ", ".join(f"{count} {words}" for words, count in counts.items() if count)


def do_in_sequence(
    sweep: Sweep, name: Callable[[Job], str] = lambda job: job.name, *, pages: bool = True
) -> int:
    """Carry out what is left, each with its display; gives how many failed."""
    from rich.console import Console

    from eec.runs.engines import in_sequence

    console = Console(stderr=True)

    @contextmanager
    def watching(job: Job) -> Iterator[Watch]:
        from eec.cli.carry_out import stopping
        from eec.cli.display import Display
        from eec.runs.engines import Watch
        from eec.training.journal import Journal

        number = sweep.jobs.index(job) + 1
        words = f"run {number} of {len(sweep.jobs)}: {name(job)}"
        console.print(words, highlight=False, markup=False, soft_wrap=True)
        journal = Journal()
        with stopping(journal), Display(console, quiet=False) as display:
            yield Watch(display, journal, display.reading)

    return tell_outcomes(in_sequence(sweep.left, watching), pages=pages)


def tell_outcomes(outcomes: Iterator[Outcome], of: int | None = None, *, pages: bool = True) -> int:
    """A line for each run as it is done, and its page; gives how many failed."""
    from rich.console import Console

    from eec.report.folder import read_run
    from eec.report.table import headline
    from eec.report.write import write_report

    console = Console(stderr=True)
    failed = 0
    for number, outcome in enumerate(outcomes, start=1):
        job, mistake = outcome.job, outcome.mistake
        if mistake is None:
            line = headline(read_run(job.path))
            if of is not None:
                line = f"{number} of {of} done: {line}"
            console.print(line, highlight=False, markup=False, soft_wrap=True)
            try:
                if pages:
                    write_report(job.path)
            except Exception as error:  # the run is whole, and others wait: its page can wait
                words = " ".join(str(error).split())
                say(f"{job.path} is done, but not its page: {type(error).__name__}: {words}")
        else:
            failed += 1
            say(f"{job.path} failed: {mistake}")
    return failed


def say(line: str) -> None:
    print(f"eec: {line}", file=sys.stderr)


def check_folder(folder: Path) -> None:
    """Refuse a folder that cannot be written to, before a minute of work is lost."""
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not there.is_dir():
        raise UserError(f"--out {folder}: {there} is a file: choose a folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise UserError(f"--out {folder}: {there} cannot be written to: choose another folder")
