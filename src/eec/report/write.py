"""All that is drawn of a run: figures, sheet and page, from what its folder holds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from eec.report.figures import accuracy_figure, cost_figure, gap_figure
from eec.report.folder import RunRecord, joint_beside, read_run
from eec.report.page import write_page
from eec.report.sheet import draw_sheet
from eec.report.words import run_name
from eec.runs.samples import read_samples


def write_report(folder: Path, beside: Sequence[RunRecord] = ()) -> tuple[RunRecord, Path]:
    """Write pictures and page into the run folder; gives the run and the page's path."""
    record = read_run(folder)
    accuracy_figure(record, beside or joint_beside(record), record.pictures / "accuracy.png")
    gap_figure(record, record.pictures / "gap.png")
    cost_figure(record, record.pictures / "cost.png")
    samples = read_samples(folder / "samples.safetensors")
    classes = [(s.label, [(n, images.numpy()) for n, images in s.rows.items()]) for s in samples]
    draw_sheet(classes, record.pictures / "sheet.png", run_name(record))
    return record, write_page(record, folder / "report.html")
