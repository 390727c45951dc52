"""Accuracy against what may be kept: in slots (the paper's figure 5), or in bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

import altair as alt
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter

from eec.evaluation.compare import spread
from eec.report import canvas
from eec.report.axes import percent_floor
from eec.report.chart_style import Chart, Row, choose, colours, finished, series_of
from eec.report.comparison import plus_minus
from eec.report.experiment import Measure, Part, Records, measures
from eec.report.words import human_bytes, memory_bytes

LEAST = 3  # budgets that make a curve
COLUMNS = 3  # of the figure's legend
COLOURS = (
    *(canvas.BLUE, canvas.ORANGE, canvas.GREEN, canvas.VERMILLION),
    *(canvas.SKY, canvas.PURPLE, canvas.MUTED),
)


@dataclass(frozen=True)
class Axis:
    name: str
    title: str
    caption: str


SLOTS = Axis(
    "slots",
    "slots, K",
    "An episode takes one slot, a concept two. Unlimited memory has a slot for each image.",
)
BYTES = Axis(
    "bytes",
    "bytes kept, without the classifier",
    "Everything that is kept of old classes, as it lies on disk.",
)


@dataclass(frozen=True)
class Curves:
    """A row for each budget of each series."""

    axis: Axis
    rows: list[Row]

    @property
    def limits(self) -> tuple[float, float]:
        """Of the accuracies' axis."""
        found = [row["accuracy"] for row in self.rows]
        return percent_floor(found), min(100.0, 5 * (max(found) // 5 + 1))


def memory_curves(part: Part) -> Curves | None:
    """What a block has of them; None where too few budgets were run to draw one."""
    marks = measures(part.block)
    for axis, shown in ((SLOTS, marks), (BYTES, marks[-1:])):
        rows = [row for measure in shown for row in _rows(part, measure, axis)]
        if len({row["budget"] for row in rows}) >= LEAST:
            return Curves(axis, rows)
    return None


def _rows(part: Part, measure: Measure, axis: Axis) -> Iterator[Row]:
    for line, runs in part.lines:
        options = next(iter(runs.values())).config.get("options") or {}
        memory = str(options.get("memory"))
        size = _slots(memory, options.get("expected")) if axis is SLOTS else _bytes(memory, runs)
        values = list(measure.over(runs).values())
        if size and values:
            found = spread(values)
            name = line.method if axis is SLOTS else line.name.removesuffix(f", {memory}")
            yield {
                "series": f"{name}, {measure.name}" if axis is SLOTS else name,
                "budget": memory,
                axis.name: size,
                "accuracy": found.mean,
                "words": plus_minus(found),
            }


def _slots(memory: str, images: int | None) -> int | None:
    return images if memory == "unlimited" else int(memory) if memory.isdigit() else None


def _bytes(memory: str, runs: Records) -> float | None:
    """What was kept within a budget in bytes: it may be less."""
    if not memory.endswith("B"):
        return None
    return spread([memory_bytes(record.last) for record in runs.values()]).mean


def memory_chart(part: Part) -> Chart | None:
    """For the page."""
    curves = memory_curves(part)
    if curves is None:
        return None
    axis, rows = curves.axis, curves.rows
    chosen, faded = choose()
    drawn = (
        alt.Chart(alt.Data(values=rows))
        .mark_line(point=True)
        .encode(
            x=alt.X(
                f"{axis.name}:Q",
                title=axis.title,
                scale=alt.Scale(type="log", nice=False),
                axis=alt.Axis(format="~s"),
            ),
            y=alt.Y("accuracy:Q", title="accuracy (%)", scale=alt.Scale(domain=curves.limits)),
            color=alt.Color(
                "series:N", scale=colours(series_of(rows)), legend=alt.Legend(columns=1)
            ),
            opacity=faded,
            tooltip=[
                alt.Tooltip("series:N", title="method"),
                alt.Tooltip(f"{axis.name}:Q", title=axis.name),
                alt.Tooltip("words:N", title="accuracy %"),
            ],
        )
        .add_params(chosen)
    )
    title = f"Accuracy against {axis.name}"
    return Chart(axis.name, title, axis.caption, finished(alt.layer(drawn), 260))


def memory_figure(part: Part, title: str, path: Path) -> Path | None:
    """For table.md."""
    curves = memory_curves(part)
    if curves is None:
        return None
    axis, names = curves.axis, series_of(curves.rows)
    with canvas.drawing():
        lines = -(-len(names) // COLUMNS)
        figure = canvas.new_figure(8, 4.6, title, axis.caption, legend_lines=lines)
        axes = figure.subplots()
        for name, colour in zip(names, cycle(COLOURS), strict=False):
            mine = sorted((r[axis.name], r["accuracy"]) for r in curves.rows if r["series"] == name)
            axes.plot(*zip(*mine, strict=True), marker="o", color=colour, label=name)
        axes.set(xscale="log", xlabel=axis.title, ylabel="accuracy (%)", ylim=curves.limits)
        if axis is SLOTS:
            axes.xaxis.set_major_locator(FixedLocator(sorted({r["slots"] for r in curves.rows})))
        told = human_bytes if axis is BYTES else "{:,.0f}".format
        axes.xaxis.set_major_formatter(FuncFormatter(lambda size, _: told(size)))
        axes.xaxis.set_minor_formatter(NullFormatter())
        canvas.legend_at_foot(figure, axes, COLUMNS)
        return canvas.save(figure, path)
