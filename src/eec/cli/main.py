"""`eec`: reads the command line, runs one command, and turns mistakes into one line.

Torch is imported by the commands when they begin, so that `--help` answers at once.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from typing import Any

import tyro

from eec.cli.compare import Compare
from eec.cli.data import Data
from eec.cli.inspect import Inspect
from eec.cli.learn import Learn
from eec.cli.paper import Paper
from eec.cli.predict import Predict
from eec.cli.report import Report
from eec.cli.resume import Resume
from eec.cli.run import Run
from eec.cli.runs import Runs
from eec.cli.show import Show
from eec.errors import UserError
from eec.training.allocator import keep_freed_memory

INTERRUPTED = 130  # what shells report for Ctrl-C
BROKEN_PIPE = 141  # and for a program whose reader went away


def main(arguments: Sequence[str] | None = None) -> None:
    """Learn image classes one increment after another, keeping no real image."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A minus sign that an old terminal lacks must not end a run of hours.
        sys.stdout.reconfigure(errors="replace")
    keep_freed_memory()
    try:
        try:
            _command(given).start(given)
        finally:  # help, too, which ends in there
            sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes stdout once more as it ends: that must find an open end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(BROKEN_PIPE)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except Exception as error:
        mistake = _in_one_line(error)
        if mistake is None:
            raise
        print(f"eec: {mistake}", file=sys.stderr)
        sys.exit(2)


def _command(given: list[str]) -> Any:
    """What the command line asks for; prints help, or what is wrong with it, and ends there."""
    return tyro.extras.subcommand_cli_from_dict(
        {
            "run": Run,
            "resume": Resume,
            "compare": Compare,
            "runs": Runs,
            "show": Show,
            "learn": Learn,
            "predict": Predict,
            "inspect": Inspect,
            "report": Report,
            "data": Data,
            "paper": Paper,
        },
        args=given or ["--help"],
        prog="eec",
        description=main.__doc__,
        config=(tyro.conf.FlagCreatePairsOff, tyro.conf.DisallowNone),
    )


def _in_one_line(error: Exception) -> str | None:
    """What a user did or can mend; None for a mistake of ours, which needs its traceback."""
    if isinstance(error, UserError):
        return " ".join(str(error).split())
    if isinstance(error, OSError):  # a full disk, a folder that went away
        return f"{error.filename or 'output'}: {error.strerror or error}"
    # Torch has no type of its own for this on the CPU.
    if isinstance(error, MemoryError) or "allocate memory" in str(error):
        return "not enough memory: use a smaller --size or --per-class, or a smaller --net"
    return None
