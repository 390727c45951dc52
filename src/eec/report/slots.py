"""Accuracy against K, the number of slots for episodes and concepts: the paper's figure 5."""

from __future__ import annotations

import altair as alt

from eec.evaluation.compare import spread
from eec.report.axes import percent_floor
from eec.report.chart_style import Chart, Row, choose, colours, finished, series_of
from eec.report.comparison import plus_minus
from eec.report.experiment import Measure, Part, measures

LEAST = 3  # budgets that make a curve


def slots_chart(part: Part) -> Chart | None:
    """A curve for each method and A_k; None where too few budgets were run to draw one."""
    rows = [row for measure in measures(part.block) for row in _rows(part, measure)]
    if len({row["slots"] for row in rows}) < LEAST:
        return None
    start = percent_floor([row["accuracy"] for row in rows])
    chosen, faded = choose()
    drawn = (
        alt.Chart(alt.Data(values=rows))
        .mark_line(point=True)
        .encode(
            x=alt.X("slots:Q", title="slots, K", scale=alt.Scale(type="log", nice=False)),
            y=alt.Y("accuracy:Q", title="accuracy (%)", scale=alt.Scale(domain=[start, 100])),
            color=alt.Color(
                "series:N", scale=colours(series_of(rows)), legend=alt.Legend(columns=1)
            ),
            opacity=faded,
            tooltip=[
                alt.Tooltip("series:N", title="method"),
                alt.Tooltip("slots:Q", title="slots"),
                alt.Tooltip("words:N", title="accuracy %"),
            ],
        )
        .add_params(chosen)
    )
    caption = (
        "An episode takes one slot, a concept two. Unlimited memory has a slot for each image."
    )
    return Chart("slots", "Accuracy against slots", caption, finished(alt.layer(drawn), 260))


def _rows(part: Part, measure: Measure) -> list[Row]:
    rows: list[Row] = []
    for line, runs in part.lines:
        options = next(iter(runs.values())).config.get("options") or {}
        memory, images = str(options.get("memory")), options.get("expected")
        slots = images if memory == "unlimited" else int(memory) if memory.isdigit() else None
        values = list(measure.over(runs).values())
        if slots and values:
            found = spread(values)
            rows.append(
                {
                    "series": f"{line.method}, {measure.name}",
                    "slots": slots,
                    "accuracy": found.mean,
                    "words": plus_minus(found),
                }
            )
    return sorted(rows, key=lambda row: row["slots"])
