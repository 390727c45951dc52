"""The charts of one run on the report page: altair, drawn by the reader's browser."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from eec.errors import UserError
from eec.memory.budget import parse_budget
from eec.report.axes import percent_floor
from eec.report.beside import paper_points, paper_words
from eec.report.chart_style import (
    BLUE,
    COLOURS,
    GREEN,
    HEIGHT,
    LINE,
    MUTED,
    ORANGE,
    VERMILLION,
    Chart,
    Row,
    Spec,
    choose,
    class_names,
    colours,
    finished,
    row_height,
    series_of,
)
from eec.report.folder import Measures, RunRecord
from eec.report.heat_maps import confusion_chart, decay_chart, task_chart
from eec.report.words import human_bytes, images_used, method_name, reference_names

# a part of memory and the phase that makes it share a colour
STACK_COLOURS = {
    "episodes": BLUE,
    "store": BLUE,
    "codecs": GREEN,
    "train autoencoder": GREEN,
    "generators": GREEN,
    "train generator": GREEN,
    "classifier": ORANGE,
    "train classifier": ORANGE,
    "evaluate": MUTED,
}
GAP_SERIES = {
    "real": "real test images",
    "reconstructed": "the same, coded and decoded",
    "remembered": "decoded from memory",
}


def run_charts(record: RunRecord, joint: Sequence[RunRecord]) -> list[Chart]:
    """All that there is something to draw of, in the order of reading."""
    drawn = (
        accuracy_chart(record, joint),
        task_chart(record),
        confusion_chart(record.last),
        forgetting_chart(record),
        gap_chart(record.last),
        bytes_chart(record),
        seconds_chart(record),
        decay_chart(record),
    )
    return [chart for chart in drawn if chart is not None]


# Lines over increments.


def accuracy_chart(record: RunRecord, joint: Sequence[RunRecord]) -> Chart:
    own = f"this run: {method_name(record.config)}, {images_used(record)}"
    rows = _curve(record, own)
    for other, name in zip(joint, reference_names(record, joint), strict=True):
        rows += _curve(other, name)
    printed = [
        {"k": k, "accuracy": n.value, "series": f"paper: {row}", "where": f"{n.table}, {n.column}"}
        for row, numbers in paper_points(record).items()
        for k, n in numbers.items()
    ]
    caption = "Share of the images of all classes seen that are called by their own name."
    if printed:
        caption += f" Diamonds: the paper's printed values ({paper_words(record.dataset)})."
    if record.measures[0]["classes_seen"] == 1:
        caption += " With one class 100 % is certain and says nothing."
    spec = accuracy_lines(rows, printed, f"A_k on {record.judged_on} images (%)")
    return Chart("accuracy", "Accuracy over increments", caption, spec)


def accuracy_lines(rows: list[Row], printed: list[Row], title: str) -> Spec:
    """Curves, each with a band where its rows have `low` and `high`, and printed points."""
    series = series_of([*rows, *printed])
    chosen, faded = choose()
    start = percent_floor([row.get("low", row["accuracy"]) for row in [*rows, *printed]])
    x = alt.X("k:Q", title="classes seen, k", axis=_whole_axis([row["k"] for row in rows]))
    y = alt.Y("accuracy:Q", title=title, scale=alt.Scale(domain=[start, 100], nice=False))
    colour = alt.Color("series:N", scale=colours(series), legend=alt.Legend(columns=1))
    tooltip = [
        alt.Tooltip("series:N", title="run"),
        alt.Tooltip("k:Q", title="classes seen"),
        alt.Tooltip("accuracy:Q", title="accuracy %", format=".2f"),
    ]
    spread = [alt.Tooltip("spread:N", title="over seeds")] if _has(rows, "spread") else []
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=x, y=y, color=colour, opacity=faded, tooltip=[*tooltip, *spread]
    )
    layers = [base.mark_line(strokeWidth=2.5), base.mark_point(size=70, filled=True)]
    if _has(rows, "low"):
        band = alt.Chart(alt.Data(values=[row for row in rows if "low" in row])).mark_area()
        bounds = alt.Y("low:Q", scale=alt.Scale(domain=[start, 100])), alt.Y2("high:Q")
        light = alt.condition(chosen, alt.value(0.2), alt.value(0.03))
        layers.insert(0, band.encode(x=x, y=bounds[0], y2=bounds[1], color=colour, opacity=light))
    if printed:
        points = alt.Chart(alt.Data(values=printed)).mark_point(
            shape="diamond", size=150, strokeWidth=2.5, filled=False
        )
        place = alt.Tooltip("where:N", title="printed in")
        layers.append(
            points.encode(x=x, y=y, color=colour, opacity=faded, tooltip=[*tooltip, place])
        )
    return finished(alt.layer(*layers).add_params(chosen), HEIGHT)


def forgetting_chart(record: RunRecord) -> Chart | None:
    measured = {"forgetting": "forgetting", "backward_transfer": "backward transfer"}
    rows = [
        {"k": m["classes_seen"], "series": name, "value": m[key]}
        for m in record.measures
        for key, name in measured.items()
        if m.get(key) is not None
    ]
    if not rows:
        return None
    series = series_of(rows)
    chosen, faded = choose()
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("k:Q", title="classes seen, k", axis=_whole_axis([row["k"] for row in rows])),
        y=alt.Y("value:Q", title="percentage points"),
        color=alt.Color("series:N", scale=colours(series)),
        opacity=faded,
        tooltip=[
            alt.Tooltip("series:N", title="measure"),
            alt.Tooltip("k:Q", title="classes seen"),
            alt.Tooltip("value:Q", title="points", format="+.2f"),
        ],
    )
    zero = alt.Chart(alt.Data(values=[{"value": 0}])).mark_rule(color=MUTED).encode(y="value:Q")
    lines = base.mark_line(strokeWidth=2.5), base.mark_point(size=70, filled=True)
    return Chart(
        "forgetting",
        "Forgetting",
        "Forgetting: the best accuracy that an old task ever had minus what it has now, mean over "
        "old tasks. Backward transfer: now minus when it was learned.",
        finished(alt.layer(zero, *lines).add_params(chosen), 220),
    )


def _curve(record: RunRecord, name: str) -> list[Row]:
    return [
        {"k": m["classes_seen"], "accuracy": m["accuracy"], "series": name} for m in record.measures
    ]


# By class, and stacks over increments.


def gap_chart(measures: Measures) -> Chart | None:
    entries = measures.get("gap") or []
    names = class_names(entry.get("class") for entry in entries)
    rows = [
        {"class": name, "series": words, "value": entry[key]}
        for name, entry in zip(names, entries, strict=True)
        for key, words in GAP_SERIES.items()
        if entry.get(key) is not None
    ]
    if not rows:
        return None
    series = series_of(rows)
    chosen, faded = choose()
    start = percent_floor([row["value"] for row in rows])
    y = alt.Y("class:N", title=None, scale=alt.Scale(domain=names))
    scale = alt.Scale(domain=[start, 100])
    x = alt.X("value:Q", title="called by their own name (%)", scale=scale)
    data = alt.Data(values=rows)
    span = (
        alt.Chart(data)
        .mark_rule(strokeWidth=2, color=LINE)
        .encode(y=y, x=alt.X("least:Q", scale=scale), x2="most")
    )
    span = span.transform_aggregate(least="min(value)", most="max(value)", groupby=["class"])
    dots = (
        alt.Chart(data)
        .mark_point(size=80, filled=True)
        .encode(
            y=y,
            x=x,
            color=alt.Color("series:N", scale=colours(series)),
            shape=alt.Shape(
                "series:N", scale=alt.Scale(domain=series, range=SHAPES[: len(series)])
            ),
            opacity=faded,
            tooltip=[
                alt.Tooltip("class:N", title="class"),
                alt.Tooltip("series:N", title="images"),
                alt.Tooltip("value:Q", title="accuracy %", format=".1f"),
            ],
        )
    )
    return Chart(
        "gap",
        "Does it see real images as it sees its memory?",
        "After the last increment, by class. Dots that lie apart: the classifier reads the trace "
        "of the decoder, not the picture.",
        finished(alt.layer(span, dots).add_params(chosen), row_height(len(names))),
    )


SHAPES = ["circle", "diamond", "square"]


def bytes_chart(record: RunRecord) -> Chart | None:
    """The classifier, which no budget counts, waits in the legend: it would dwarf the rest."""
    budget = _budget(record)
    caption = "What is kept of old classes, on disk."
    if any(m["bytes"].get("classifier") for m in record.measures):
        caption += " The classifier is not part of it: choose it in the legend to see it."
    if budget is not None:
        caption += f" The line is the budget, {human_bytes(budget)}."
    spec = _stack(record, "bytes", frozenset({"classifier"}), budget)
    return None if spec is None else Chart("bytes", "Memory by part", caption, spec)


def seconds_chart(record: RunRecord) -> Chart | None:
    spec = _stack(record, "seconds", frozenset(), None)
    caption = "The time of each increment, by what was done."
    return None if spec is None else Chart("seconds", "Where the seconds went", caption, spec)


def _budget(record: RunRecord) -> int | None:
    """The budget in bytes, where the run had one."""
    said = (record.config.get("options") or {}).get("memory")
    try:
        return parse_budget(str(said)).bytes if said is not None else None
    except UserError:
        return None


def _stack(record: RunRecord, key: str, hidden: frozenset[str], rule: float | None) -> Spec | None:
    rows: list[Row] = [
        {"k": str(m["classes_seen"]), "series": name, "value": value}
        for m in record.measures
        for name, value in m[key].items()
        if value
    ]
    if not rows:
        return None
    ticks = [str(m["classes_seen"]) for m in record.measures]
    series = series_of(rows)
    for row in rows:
        row["place"] = series.index(row["series"])
    shown = [name for name in series if name not in hidden]
    begin = [{"series": name} for name in shown] if shown and len(shown) < len(series) else None
    chosen = alt.selection_point(
        name="chosen", fields=["series"], bind="legend", toggle="true", **_start(begin)
    )
    spare = iter(COLOURS[3:] * len(series))
    shades = [STACK_COLOURS.get(name) or next(spare) for name in series]
    bars = (
        alt.Chart(alt.Data(values=rows))
        .mark_bar()
        .encode(
            x=alt.X("k:N", title="classes seen, k", scale=_stack_bands(ticks), axis=_flat_axis()),
            y=alt.Y("value:Q", title=key, axis=alt.Axis(format="~s"), stack="zero"),
            color=alt.Color(
                "series:N",
                scale=alt.Scale(domain=series, range=shades),
                legend=alt.Legend(columns=2),
            ),
            order=alt.Order("place:Q"),
            tooltip=[
                alt.Tooltip("series:N", title="part" if key == "bytes" else "phase"),
                alt.Tooltip("k:N", title="classes seen"),
                alt.Tooltip("value:Q", title=key, format="," if key == "bytes" else ".2f"),
            ],
        )
        .transform_filter(chosen)
        .add_params(chosen)
    )
    if rule is None:
        return finished(alt.layer(bars), HEIGHT)
    line = alt.Chart(alt.Data(values=[{"value": rule, "words": f"budget {human_bytes(rule)}"}]))
    place = alt.Y("value:Q")
    drawn = line.mark_rule(color=VERMILLION, strokeWidth=2, strokeDash=[6, 4])
    drawn = drawn.encode(y=place, tooltip=alt.Tooltip("words:N", title="limit"))
    return finished(alt.layer(bars, drawn), HEIGHT)


def _start(value: list[Row] | None) -> dict[str, Any]:
    return {} if value is None else {"value": value}


def _stack_bands(ticks: list[str]) -> alt.Scale:
    # A lone bar would otherwise fill the whole axis.
    return alt.Scale(domain=list(dict.fromkeys(ticks)), paddingInner=0.25, paddingOuter=0.3)


def _flat_axis() -> alt.Axis:
    return alt.Axis(labelAngle=0)


def _has(rows: list[Row], key: str) -> bool:
    return any(key in row for row in rows)


def _whole_axis(counts: list[int]) -> alt.Axis:
    """Ticks at whole counts: all of them while they fit, fewer after."""
    ticks = sorted(set(counts))
    return (
        alt.Axis(values=ticks, format="d", grid=False)
        if len(ticks) <= 20
        else alt.Axis(tickMinStep=1, format="d", grid=False)
    )
