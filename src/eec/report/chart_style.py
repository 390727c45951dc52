"""The look that the page's charts share.

Colours are the page's CSS variables, so that charts follow light, dark and print without a script.
Nothing a user named is ever part of an expression or of a field's name: labels are data.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import altair as alt

from eec.report.words import short_label

Spec = dict[str, Any]
Row = dict[str, Any]

INK, MUTED, LINE, CARD = "var(--ink)", "var(--muted)", "var(--line)", "var(--card)"
COLOURS = tuple(f"var(--c{i})" for i in range(8))
BLUE, ORANGE, GREEN, VERMILLION = COLOURS[:4]
HEIGHT = 260
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"
CONFIG: Spec = {
    "font": FONT,
    "background": "transparent",
    "view": {"stroke": None},
    "axis": {
        "labelColor": INK,
        "titleColor": MUTED,
        "titleFontWeight": "normal",
        "labelFontSize": 12,
        "titleFontSize": 12,
        "gridColor": LINE,
        "domainColor": LINE,
        "tickColor": LINE,
        "labelOverlap": "greedy",
        "labelFlush": False,
        "labelSeparation": 6,
        "labelLimit": 120,
    },
    "axisBand": {"grid": False},
    "legend": {
        "orient": "top",
        "direction": "vertical",
        "labelColor": INK,
        "labelFontSize": 12,
        "labelLimit": 320,
        "symbolSize": 110,
        "symbolOpacity": 1,
        "title": None,
    },
}


@dataclass(frozen=True)
class Chart:
    """One chart, what it is called, and what a reader has to know to read it."""

    name: str
    title: str
    caption: str
    spec: Spec


def class_names(classes: Iterable[object]) -> list[str]:
    """Labels as short words, no two alike: 1 and "1" are two classes."""
    names: list[str] = []
    for label in classes:
        name, same = short_label(label, 24), 1
        while name in names:
            same += 1
            name = f"{short_label(label)} ({same})"
        names.append(name)
    return names


def row_height(count: int) -> int:
    """Rows draw together once they are many, in place of a chart that goes on for ever."""
    if count <= 15:
        return max(60, 30 * count)
    return max(450, min(9 * count, 720))


def series_of(rows: list[Row]) -> list[str]:
    return list(dict.fromkeys(row["series"] for row in rows))


def colours(series: list[str]) -> alt.Scale:
    return alt.Scale(domain=series, range=[COLOURS[i % len(COLOURS)] for i in range(len(series))])


def choose() -> tuple[alt.Parameter, Any]:
    """Click on the legend to choose series, once more to let go; the others fade."""
    chosen = alt.selection_point(name="chosen", fields=["series"], bind="legend", toggle="true")
    return chosen, alt.condition(chosen, alt.value(1), alt.value(0.12))


def finished(
    chart: alt.LayerChart | alt.FacetChart, height: int, cells: list[Row] | None = None
) -> Spec:
    """The specification; `cells` is the data called so, which altair would check row by row."""
    spec: Spec = chart.properties(width="container", height=height).to_dict()
    if cells is not None:
        spec.setdefault("datasets", {})["cells"] = cells
    # The page has one configuration for all; altair would add its own, with fixed sizes.
    spec.pop("config", None)
    return spec
