"""`eec report RUN...`: one page about one run or several, and their figures as files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from eec.errors import UserError

if TYPE_CHECKING:
    from eec.report.folder import RunRecord


@dataclass(frozen=True)
class Report:
    """Write one self-contained page about a run, or about several side by side."""

    runs: tyro.conf.Positional[
        Annotated[
            tuple[Path, ...], tyro.conf.arg(metavar="RUN...", help="Folders that eec run wrote to.")
        ]
    ]
    out: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    """The page [report.html: of one run in its folder, of several in this one]."""
    figures: Path | None = None
    """Also draw the figures into this folder, as PNG and as SVG."""
    tensorboard: Path | None = None
    """Also write the measures into this folder as TensorBoard events (needs eec[tensorboard])."""

    def start(self, arguments: Sequence[str]) -> None:
        if not self.runs:
            raise UserError("nothing to report on: give the folder of a run, or several")
        places = [os.path.realpath(path) for path in self.runs]
        for path, place in zip(self.runs, places, strict=True):
            if places.count(place) > 1:
                raise UserError(f"{path} is given twice: give each run once")
        if self.out is not None and self.out.is_dir():
            raise UserError(f"{self.out} is a folder: give the page a name, as in -o report.html")

        from eec.report.folder import read_run

        records = [read_run(path) for path in self.runs]
        if self.tensorboard is not None:
            from eec.report.events import check_tensorboard

            check_tensorboard()  # before anything is written

        from eec.report.page import write_page

        alone = len(records) == 1
        out = self.out or (self.runs[0] if alone else Path()) / "report.html"
        print(f"report       {write_page(records, out)}")
        if self.figures is not None:
            _draw(records, self.figures)
            print(f"figures      {self.figures}")
        if self.tensorboard is not None:
            from eec.report.events import write_events

            for record, folder in zip(records, _folders(records, self.tensorboard), strict=True):
                write_events(record, folder)
            print(f"tensorboard  {self.tensorboard}")


def _draw(records: Sequence[RunRecord], folder: Path) -> None:
    """Of several runs, each in a folder of its own, its accuracy beside that of the others."""
    from eec.report.folder import joint_beside
    from eec.report.write import write_figures

    for record, own in zip(records, _folders(records, folder), strict=True):
        others = [other for other in records if other is not record] or joint_beside(record)
        write_figures(record, others, own, ["png", "svg"])


def _folders(records: Sequence[RunRecord], folder: Path) -> list[Path]:
    """One run's files lie in the folder itself; those of several in folders of their names."""
    if len(records) == 1:
        return [folder]
    names: list[str] = []
    for record in records:
        name, same = record.path.resolve().name, 1
        while name in names:
            same += 1
            name = f"{record.path.resolve().name}-{same}"
        names.append(name)
    return [folder / name for name in names]
