"""`eec resume RUN`: go on with a run that was stopped, to the same result."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from eec.errors import UserError

if TYPE_CHECKING:
    from eec.report.folder import RunRecord
    from eec.runs.folder import RunFolder


@dataclass(frozen=True)
class Resume:
    """Go on with a run that was stopped or killed, where it was, to the result that it would have
    had: bit for bit, on the same machine."""

    run: tyro.conf.Positional[
        Annotated[Path, tyro.conf.arg(metavar="RUN", help="Run folder, as `eec run` made it.")]
    ]
    data_dir: Path | None = None
    """Where the data sets lie now [where they were]."""
    checkpoint_every: float = 60.0
    """Seconds of training between checkpoints."""
    quiet: bool = False
    """Print the result only."""

    def start(self, arguments: Sequence[str]) -> None:
        from rich.console import Console

        from eec.cli.carry_out import carry_out, tell
        from eec.runs.environment import restore_threads
        from eec.runs.folder import RunFolder
        from eec.runs.resume import is_finished, read_config
        from eec.runs.run import go_on, prepare

        folder = RunFolder.open(self.run)
        if is_finished(folder):
            folder.close()
            print(f"eec: {self.run} is finished: nothing was left to do", file=sys.stderr)
            tell(Console(), self.run, _beside(folder))
            return
        config = read_config(folder, self.data_dir)
        for notice in restore_threads(folder.read_json("environment.json")):
            print(f"eec: {notice}", file=sys.stderr)
        carry_out(
            lambda progress: (config, *prepare(config, progress)),
            lambda: folder,
            go_on,
            quiet=self.quiet,
            every=self.checkpoint_every,
            beside=_beside(folder),
        )


def _beside(folder: RunFolder) -> list[RunRecord]:
    """Those that can still be read: a run goes on whatever became of others."""
    from eec.report.folder import read_run
    from eec.runs.resume import beside_of

    records = []
    for path in beside_of(folder):
        try:
            records.append(read_run(path))
        except UserError as gone:
            print(f"eec: drawn without {path}: {gone}", file=sys.stderr)
    return records
