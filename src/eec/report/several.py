"""The charts of several runs: curves with bands over seeds, and accuracy against bytes."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import altair as alt

from eec.report.axes import percent_floor
from eec.report.chart_style import Chart, Row, choose, colours, finished
from eec.report.charts import accuracy_lines
from eec.report.groups import Group, mean_and_spread
from eec.report.words import human_bytes, memory_bytes


def group_charts(groups: Sequence[Group]) -> list[Chart]:
    drawn = (curves_chart(groups), cost_chart(groups))
    return [chart for chart in drawn if chart is not None]


def curves_chart(groups: Sequence[Group]) -> Chart:
    rows = [_point(group, k) for group in groups for k in group.counts()]
    caption = "Share of the images of all classes seen that are called by their own name."
    if any("low" in row for row in rows):
        caption += " Lines: mean over seeds; bands: one standard deviation to either side."
    judged = dict.fromkeys(r.judged_on for group in groups for r in group.records)
    spec = accuracy_lines(rows, [], f"A_k on {' and '.join(judged)} images (%)")
    return Chart("accuracy", "Accuracy over increments", caption, spec)


def _point(group: Group, k: int) -> Row:
    values = group.at(k)
    mean = statistics.fmean(values)
    row: Row = {"k": k, "accuracy": mean, "series": group.name}
    if len(values) > 1:
        spread = statistics.stdev(values)
        row["low"], row["high"] = max(0.0, mean - spread), min(100.0, mean + spread)
        row["spread"] = f"{mean_and_spread(values)} (n = {len(values)})"
    return row


def cost_chart(groups: Sequence[Group]) -> Chart | None:
    """A logarithmic axis has no place for nothing: a run without memory is not drawn."""
    rows: list[dict[str, Any]] = [
        {
            "series": group.name,
            "bytes": kept,
            "words": human_bytes(kept),
            "accuracy": record.last["accuracy"],
            "k": record.last["classes_seen"],
            "seed": str(record.seed),
        }
        for group in groups
        for record in group.records
        if (kept := memory_bytes(record.last)) > 0
    ]
    if not rows:
        return None
    series = [group.name for group in groups]
    chosen, faded = choose()
    start = percent_floor([row["accuracy"] for row in rows])
    sizes = [row["bytes"] for row in rows]
    ends = [min(sizes) / 1.5, max(sizes) * 1.5]
    dots = (
        alt.Chart(alt.Data(values=rows))
        .mark_point(size=130, filled=True)
        .encode(
            x=alt.X(
                "bytes:Q",
                title="bytes kept beside the classifier",
                scale=alt.Scale(type="log", domain=ends, nice=False),
                axis=alt.Axis(format="~s", tickCount=6, grid=False),
            ),
            y=alt.Y("accuracy:Q", title="A_k at the end (%)", scale=alt.Scale(domain=[start, 100])),
            color=alt.Color("series:N", scale=colours(series), legend=alt.Legend(columns=1)),
            opacity=faded,
            tooltip=[
                alt.Tooltip("series:N", title="run"),
                alt.Tooltip("seed:N", title="seed"),
                alt.Tooltip("k:Q", title="classes seen"),
                alt.Tooltip("accuracy:Q", title="accuracy %", format=".2f"),
                alt.Tooltip("words:N", title="memory"),
            ],
        )
        .add_params(chosen)
    )
    caption = "Each dot is one run: accuracy at the end against what it keeps of old classes."
    if len(rows) < sum(len(group.records) for group in groups):
        caption += " Runs that keep nothing have no place on this axis."
    return Chart("cost", "Accuracy against bytes", caption, finished(alt.layer(dots), 260))
