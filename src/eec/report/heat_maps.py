"""Heat maps: how deep the colour is tells the value, on a light page and on a dark one."""

from __future__ import annotations

import altair as alt

from eec.report.axes import percent_floor
from eec.report.chart_style import BLUE, INK, Chart, Row, Spec, class_names, finished, row_height
from eec.report.folder import Measures, RunRecord
from eec.report.words import percent

TEXT_CELLS = 12  # a heat map of so many columns has room for numbers


def task_chart(record: RunRecord) -> Chart | None:
    cells = []
    for m in record.measures:
        for task, value in enumerate(m.get("accuracy_by_task") or [], start=1):
            if value is not None:
                cells.append(_cell(f"{m['increment']}", f"{task}", value, percent(value, 0)))
    if not cells:
        return None
    start = percent_floor([cell["value"] for cell in cells])
    names = [alt.Tooltip("x:N", title="after increment"), alt.Tooltip("y:N", title="task")]
    spec = _heat_map(
        cells,
        ("after increment", "task"),
        (start, 100),
        [*names, alt.Tooltip("value:Q", title="accuracy %", format=".2f")],
    )
    caption = (
        "Each row is a task: read along it to see what became of it. The deepest colour is 100 %, "
        f"the palest {start:g} %."
    )
    return Chart("tasks", "Accuracy by task", caption, spec)


def confusion_chart(measures: Measures) -> Chart | None:
    counts = measures.get("confusion") or []
    names = class_names(measures.get("classes") or range(len(counts)))
    if not counts or len(counts) != len(names) or any(len(row) != len(names) for row in counts):
        return None
    cells = []
    for true, row in zip(names, counts, strict=True):
        images = sum(row)
        for called, count in zip(names, row, strict=True):
            # A matrix of a hundred classes is nearly empty: what is not there need not be drawn.
            if count:
                share = 100 * count / images
                cell = _cell(called, true, share, percent(share, 0))
                cells.append(cell | {"count": count, "images": images})
    if not cells:
        return None
    spec = _heat_map(
        cells,
        ("called", "is"),
        (0, 100),
        [
            alt.Tooltip("y:N", title="is"),
            alt.Tooltip("x:N", title="called"),
            alt.Tooltip("count:Q", title="images"),
            alt.Tooltip("images:Q", title="of"),
            alt.Tooltip("value:Q", title="share %", format=".1f"),
        ],
        order=names,
    )
    return Chart(
        "confusion",
        "Confusion",
        "Each row holds the images of one class, after the last increment, in percent of them; "
        "what is right lies on the diagonal. Empty cells are none.",
        spec,
    )


def decay_chart(record: RunRecord) -> Chart | None:
    cells = []
    for m in record.measures:
        for entry in m.get("decay") or []:
            weight = entry.get("weight")
            if weight is None:
                continue
            cell = _cell(f"{m['increment']}", f"{entry.get('task')}", weight, f"{weight:.2f}")
            others = ("original", "decoded", "drawn", "drawn_weight")
            cells.append(cell | {key: _shown(entry.get(key)) for key in others})
    if not cells:
        return None
    values = [cell["value"] for cell in cells]
    low, high = min(values), max(values)
    spec = _heat_map(
        cells,
        ("in increment", "task"),
        (low - max(0.01, 0.2 * (high - low)), high),
        [
            alt.Tooltip("y:N", title="task"),
            alt.Tooltip("x:N", title="in increment"),
            alt.Tooltip("value:Q", title="weight", format=".4f"),
            alt.Tooltip("original:N", title="originals right %"),
            alt.Tooltip("decoded:N", title="decoded right %"),
            alt.Tooltip("drawn:N", title="drawn right %"),
            alt.Tooltip("drawn_weight:N", title="weight if drawn"),
        ],
    )
    caption = (
        "How much a remembered image of each task weighed in training: as much of the task as the "
        "old classifier still recognised after coding and decoding."
    )
    return Chart("decay", "Decay weights by task", caption, spec)


def _cell(x: str, y: str, value: float, text: str) -> Row:
    return {"x": x, "y": y, "value": round(value, 4), "text": text}


def _shown(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"


def _heat_map(
    cells: list[Row],
    titles: tuple[str, str],
    domain: tuple[float, float],
    tooltip: list[alt.Tooltip],
    order: list[str] | None = None,
) -> Spec:
    columns = order or list(dict.fromkeys(cell["x"] for cell in cells))
    rows = order or list(dict.fromkeys(cell["y"] for cell in cells))
    written = len(columns) <= TEXT_CELLS
    if not written:  # ten thousand cells of a hundred classes: a page has better uses for the room
        cells = [{key: value for key, value in c.items() if key != "text"} for c in cells]
    base = alt.Chart(alt.NamedData(name="cells")).encode(
        x=alt.X("x:N", title=titles[0], scale=_bands(columns), axis=_name_axis(columns)),
        y=alt.Y("y:N", title=titles[1], scale=_bands(rows)),
        tooltip=tooltip,
    )
    depth = alt.Scale(domain=list(domain), range=[0.06, 1], clamp=True)
    layers = [
        base.mark_rect(color=BLUE, strokeWidth=0).encode(
            opacity=alt.Opacity("value:Q", scale=depth, legend=None)
        )
    ]
    if written:
        middle = domain[0] + 0.55 * (domain[1] - domain[0])
        layers.append(
            base.mark_text(fontSize=11).encode(
                text="text:N",
                color=alt.condition(
                    alt.datum.value > middle, alt.value("var(--on-blue)"), alt.value(INK)
                ),
            )
        )
    return finished(alt.layer(*layers), row_height(len(rows)), cells)


def _bands(names: list[str]) -> alt.Scale:
    room = 0.06 if len(names) <= 30 else 0.0
    return alt.Scale(domain=names, paddingInner=room, paddingOuter=0)


def _name_axis(names: list[str]) -> alt.Axis:
    slanted = any(len(name) > 3 for name in names)
    if len(names) > TEXT_CELLS and slanted:
        return alt.Axis(labelAngle=-90, labelLimit=90)
    # So few are all named: boxes around slanted names overlap, the names do not.
    overlap = False if slanted else alt.Undefined
    return alt.Axis(labelAngle=-40 if slanted else 0, labelLimit=90, labelOverlap=overlap)
