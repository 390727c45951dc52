"""`eec runs [FOLDER]`: the runs under a folder."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from eec.errors import UserError

if TYPE_CHECKING:
    from rich.table import Table

    from eec.runs.found import FoundRun

COLUMNS = ("run", "method", "data set", "seed", "done", "A_k %", "memory", "time", "when")
MARKS = {"unfinished": "*", "running": "+"}
NUMBERS = COLUMNS[3:8]


@dataclass(frozen=True)
class Runs:
    """List the runs under a folder: what they are of, how far they have come, what came out."""

    folder: tyro.conf.Positional[
        Annotated[Path, tyro.conf.arg(metavar="FOLDER", help="Where to look.")]
    ] = Path("runs")

    def start(self, arguments: Sequence[str]) -> None:
        if not self.folder.is_dir():
            raise UserError(f"{self.folder} is no folder: give one with runs in it")

        from eec.runs.found import find_runs

        found = list(find_runs(self.folder))
        if not found:
            print(f"no runs under {self.folder}: make one with eec run")
            return

        from rich.console import Console

        console = Console()
        for folder, runs in groupby(found, key=lambda run: run.path.parent):
            console.print(_table(folder, list(runs)))
        states = {_state(run) for run in found}
        if "unfinished" in states:
            print("* unfinished: go on with it with eec resume RUN")
        if "running" in states:
            print("+ running: a process is at it")


def _table(folder: Path, runs: Sequence[FoundRun]) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=Text(str(folder)),
        title_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    for name in COLUMNS:
        # Where room is short it takes two lines: nothing is cut.
        side: Literal["left", "right"] = "right" if name in NUMBERS else "left"
        table.add_column(name, justify=side, no_wrap=name != "data set", overflow="fold")
    for run in runs:
        table.add_row(*map(Text, _cells(run)))
    return table


def _cells(run: FoundRun) -> list[str]:
    from eec.report.folder import read_run
    from eec.report.words import (
        NOTHING,
        human_bytes,
        human_seconds,
        memory_bytes,
        method_name,
        run_seconds,
    )

    measured = [NOTHING, NOTHING, NOTHING]
    try:
        record = read_run(run.path)
        accuracy = f"{record.last['accuracy']:.2f}"
        memory = human_bytes(memory_bytes(record.last))
        measured = [accuracy, memory, human_seconds(run_seconds(record))]
    except UserError:  # no increment is done yet, or its file is damaged: the rest is still true
        pass
    return [
        run.path.name or str(run.path),
        method_name(run.config),
        str(run.config["dataset"]),
        str(run.config.get("seed", NOTHING)),
        f"{run.done}/{run.increments or '?'}{MARKS.get(_state(run), '')}",
        *measured,
        _when(run),
    ]


def _state(run: FoundRun) -> str:
    if run.in_use:
        return "running"
    return "finished" if run.finished else "unfinished"


def _when(run: FoundRun) -> str:
    """The day when it began; `eec show` has the second."""
    try:
        began = datetime.datetime.fromisoformat(run.environment["started"])
    except (KeyError, TypeError, ValueError):
        return ""
    return began.astimezone().strftime("%Y-%m-%d")
