"""Figures 3 and 6 of the paper, drawn, and their measures as a table."""

import datetime
import os
import platform
from importlib.metadata import version
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from rich import box
from rich.table import Table

from eec.paper.encoded import CLASSES, Encoded, Result, Row
from eec.report import canvas
from eec.report.canvas import BLUE, ORANGE
from eec.report.comparison import markdown
from eec.report.words import percent

COLOURS = (BLUE, ORANGE)
PANEL_INCHES = 2.9
DOT = 1.6  # points squared
MEASURES_MEAN = (
    "of one: concepts of a single episode; wrong: nearest real code is of the other class; way: "
    "sliced Wasserstein distance to the real codes, in % of the class's spread, for the real codes "
    "that between two random halves; /halves: how many times that"
)
TITLES = {
    3: "Figure 3: codes, and pseudo-codes from fewer and fewer concepts",
    6: "Figure 6: codes, pseudo-codes from concepts, and from one centroid a class",
}


def encoded_figure(result: Result, path: Path) -> Path:
    """One panel beside the other, all with the same axes."""
    names = [result.real.name, *(row.name for row in result.rows)]
    width = PANEL_INCHES * len(names) + 0.5
    low, high = _limits(result.panels)
    note = _note(result)
    with canvas.drawing():
        figure = canvas.new_figure(
            width, PANEL_INCHES + 1.6, TITLES[result.figure], _subtitle(result), note, 1
        )
        row = figure.subplots(1, len(names), sharex=True, sharey=True, squeeze=False)[0]
        for place, (axes, panel, name) in enumerate(zip(row, result.panels, names, strict=True)):
            _scatter(axes, panel)
            axes.set_title(f"({'abcdef'[place]}) {name}")
            axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
            axes.tick_params(labelsize=8)
        for label, colour in zip(CLASSES, COLOURS, strict=True):
            row[0].scatter([], [], s=18, color=colour, label=f"digit {label}")
        canvas.legend_at_foot(figure, row[0], len(CLASSES), note)
        return canvas.save(figure, path)


def _scatter(axes: Axes, panel: Encoded) -> None:
    # Mixed, so that where classes overlap neither hides the other.
    order = np.random.default_rng(0).permutation(len(panel.codes))
    colours = np.array(COLOURS)[panel.targets[order]]
    x, y = panel.codes[order].T
    axes.scatter(x, y, s=DOT, c=colours, linewidths=0)


def _limits(panels: list[Encoded]) -> tuple[np.ndarray, np.ndarray]:
    everything = np.concatenate([panel.codes for panel in panels])
    low, high = everything.min(0), everything.max(0)
    room = 0.03 * (high - low)
    return low - room, high + room


def _subtitle(result: Result) -> str:
    digits = " and ".join(map(str, CLASSES))
    return f"MNIST, training images of {digits} · {result.linkage} linkage · seed {result.seed}"


def _note(result: Result) -> str:
    return (
        f"Every image as two numbers by a dense autoencoder; {result.linkage} merges each class, "
        "and each concept gives as many draws as it has episodes."
    )


def encoded_table(result: Result) -> Table:
    """One row a panel, for the terminal."""
    table = Table(
        title=_subtitle(result),
        caption=MEASURES_MEAN,
        title_justify="left",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    first, *others = _headings()
    table.add_column(first, no_wrap=True)
    for heading in others:
        table.add_column(heading, justify="right")
    for row in (result.real, *result.rows):
        table.add_row(*_cells(row, result.real))
    return table


def encoded_markdown(result: Result, command: str, picture: Path) -> str:
    """The same with what was claimed and found, for docs/results.md."""
    columns = _headings()
    rows = [_cells(row, result.real) for row in (result.real, *result.rows)]
    today = datetime.datetime.now().astimezone().date()
    return "".join(
        [
            f"## {TITLES[result.figure]}\n\n`{command}`\n\n",
            f"{today}; {_subtitle(result)}; {platform.machine()}, {os.cpu_count()} cores, "
            f"torch {version('torch')}.\n\n",
            markdown(columns, rows, columns[:1]),
            f"\n{MEASURES_MEAN}.\n",
            f"\n![{picture.stem}](pictures/{picture.name})\n\n",
            *(f"- {claim}\n" for claim in result.claims),
        ]
    )


def _headings() -> list[str]:
    distances = [f"way {label} %" for label in CLASSES]
    return ["drawn from", "of one", "largest", "wrong %", *distances, "/halves"]


def _cells(row: Row, real: Row) -> list[str]:
    return [
        row.name,
        f"{row.of_one:,}",
        f"{row.largest:,}",
        percent(row.wrong, 2),
        *(percent(far, 2) for far in row.distance),
        f"{row.mean_distance / real.mean_distance:.1f}",
    ]
