"""What `eec run` and `eec resume` share: carry a run out, and tell how it went."""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from eec.cli.display import Display
from eec.data.stream import Stream
from eec.errors import BudgetTooSmall, UserError
from eec.methods.contract import Method
from eec.report.folder import RunRecord
from eec.report.table import headline, run_table
from eec.runs.config import RunConfig
from eec.runs.folder import RunFolder
from eec.training.journal import Journal
from eec.training.loop import Progress

Prepare = Callable[[Progress], tuple[RunConfig, Stream, Method]]
Work = Callable[[RunConfig, Stream, Method, RunFolder, Display, Journal], None]


def carry_out(
    prepare: Prepare,
    make_folder: Callable[[], RunFolder],
    work: Work,
    *,
    quiet: bool,
    every: float,
    beside: Sequence[RunRecord] = (),
) -> None:
    """Do the work; when it is stopped or fails, say what is kept and how to go on."""
    if not every >= 0:
        raise UserError(f"--checkpoint-every {every}: use a number of seconds, 0 or more")
    console = Console()
    journal = Journal(every=every)
    folder: RunFolder | None = None
    try:
        with stopping(journal), Display(console, quiet=quiet) as display:
            config, stream, method = prepare(display.reading)
            display.computes = str(method.runtime)
            folder = make_folder()
            work(config, stream, method, folder, display, journal)
        tell(console, folder.path, beside)
    except KeyboardInterrupt:
        print(f"eec: stopped; {_kept(folder)}", file=sys.stderr)
        raise
    except BudgetTooSmall:
        raise  # to go on would not help
    except (UserError, OSError) as error:
        if folder is not None and folder.path.exists() and folder.worth_going_on:
            raise UserError(f"{_sentence(error)}; {_kept(folder)}") from error
        raise
    finally:
        if folder is not None:
            folder.close()


@contextmanager
def stopping(journal: Journal) -> Iterator[None]:
    """Ctrl-C, and what `kill` sends, stop at a checkpoint; a second time, at once."""

    def stop(*_: object) -> None:
        journal.stop()

    before = {kind: signal.signal(kind, stop) for kind in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)


def tell(console: Console, out: Path, beside: Sequence[RunRecord]) -> None:
    """Draw the pictures, write the page, print the table, and say where everything is."""
    from eec.report.write import write_report  # altair and matplotlib: not for a run that fails

    record, page = write_report(out, beside)
    console.print(run_table(record))
    for line in (
        headline(record),
        f"measures  {out / 'measures.jsonl'}",
        f"pictures  {record.pictures}",
        f"learner   {out / 'learner.eec'}",
        f"report    {page}",
    ):
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def _kept(folder: RunFolder | None) -> str:
    if folder is None:
        return "nothing was kept: the run had not begun"
    if not folder.path.exists():
        return "nothing was kept: no training had begun"
    if not folder.worth_going_on:
        return f"{folder.path} is as it was before"
    return f"go on with: eec resume {shlex.quote(str(folder.path))}"


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"{error.filename or 'output'}: {error.strerror or error}"
    return str(error)
