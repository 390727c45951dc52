"""All that is drawn of a run: figures, sheet and page, from what its folder holds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from eec.report.figures import accuracy_figure, cost_figure, gap_figure
from eec.report.folder import RunRecord, joint_beside, read_run
from eec.report.page import write_page
from eec.report.sheet import draw_sheet
from eec.report.strips import read_pictures
from eec.report.words import run_name


def write_report(folder: Path, beside: Sequence[RunRecord] = ()) -> tuple[RunRecord, Path]:
    """Write pictures and page into the run folder; gives the run and the page's path."""
    record = read_run(folder)
    references = beside or joint_beside(record)
    write_figures(record, references, record.pictures, ["png"])
    return record, write_page([record], folder / "report.html", references)


def write_figures(
    record: RunRecord, references: Sequence[RunRecord], folder: Path, kinds: Sequence[str]
) -> list[Path]:
    """The figures of a run, each in every kind of file; those with something to show."""
    classes = [
        (label, list(rows.items()))
        for label, rows in read_pictures(record.path / "samples.safetensors")
    ]
    drawn: list[Path | None] = []
    for kind in kinds:
        drawn += [
            accuracy_figure(record, references, folder / f"accuracy.{kind}"),
            gap_figure(record, folder / f"gap.{kind}"),
            cost_figure(record, folder / f"cost.{kind}"),
            draw_sheet(classes, folder / f"sheet.{kind}", run_name(record)),
        ]
    return [path for path in drawn if path is not None]
