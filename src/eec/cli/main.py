"""`eec`: reads the command line, runs one command, and turns mistakes into one line.

Torch is imported by the commands when they begin, so that `--help` answers at once.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import tyro

from eec.cli.run import Run
from eec.errors import UserError

INTERRUPTED = 130  # what shells report for Ctrl-C


def main(arguments: Sequence[str] | None = None) -> None:
    """Learn image classes one increment after another, keeping no real image."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    command = tyro.extras.subcommand_cli_from_dict(
        {"run": Run},
        args=given or ["--help"],
        prog="eec",
        description=main.__doc__,
        config=(tyro.conf.FlagCreatePairsOff,),
    )
    try:
        command.start(given)
    except UserError as error:
        print(f"eec: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
