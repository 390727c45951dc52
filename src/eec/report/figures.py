"""The figures of a run: accuracy, the gap between real and decoded images, cost."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from eec.report import canvas
from eec.report.beside import paper_points, paper_words
from eec.report.canvas import (
    BLUE,
    GREEN,
    INK,
    MUTED,
    ORANGE,
    PURPLE,
    SKY,
    VERMILLION,
    YELLOW,
)
from eec.report.folder import Measures, RunRecord
from eec.report.words import (
    NOTHING,
    images_used,
    method_name,
    percent,
    reference_names,
    run_name,
    short_label,
    stream_words,
)

REFERENCE_COLOURS = (ORANGE, GREEN, PURPLE, SKY)
REFERENCE_MARKERS = ("s", "^", "v", "P")

# a part of memory and the phase that makes it share a colour
PART_COLOURS = {
    "episodes": BLUE,
    "codecs": GREEN,
    "generators": GREEN,
    "classifier": ORANGE,
    "labels": PURPLE,
}
PHASE_COLOURS = {
    "store": BLUE,
    "train autoencoder": GREEN,
    "train generator": GREEN,
    "train classifier": ORANGE,
    "rehearse": SKY,
    "evaluate": MUTED,
}
SPARE_COLOURS = (VERMILLION, YELLOW, INK, PURPLE)

# key in `gap`, words, colour, marker
GAP_SERIES = (
    ("real", "real test images", BLUE, "o"),
    ("reconstructed", "the same, coded and decoded", GREEN, "D"),
    ("remembered", "decoded from memory", ORANGE, "s"),
)


def accuracy_figure(record: RunRecord, references: Sequence[RunRecord], path: Path) -> Path:
    """A_k over the classes seen, beside other runs and the paper's printed points."""
    with canvas.drawing():
        runs = [record, *references]
        paper = paper_points(record)
        values = [m["accuracy"] for run in runs for m in run.measures]
        values += [n.value for row in paper.values() for n in row.values()]
        start = canvas.percent_floor(values)
        lines = len(runs) + len(paper) + (start == 0)
        note = _accuracy_note(record, start)
        figure = canvas.new_figure(
            8.0,
            4.2 + canvas.LEGEND_LINE_INCHES * lines,
            "Accuracy on all classes seen so far",
            f"{run_name(record)} · {stream_words(record)}",
            note,
            lines,
        )
        axes = figure.add_subplot()
        own = f"this run: {method_name(record.config)}, {images_used(record)}"
        _curve(axes, record, own, BLUE, "o", 2.4)
        names = reference_names(record, references)
        for i, (run, name) in enumerate(zip(references, names, strict=True)):
            colour = REFERENCE_COLOURS[i % len(REFERENCE_COLOURS)]
            marker = REFERENCE_MARKERS[i % len(REFERENCE_MARKERS)]
            _curve(axes, run, name, colour, marker, 1.6)
        _paper(axes, record)
        if start == 0:
            counts = np.arange(1, max(m["classes_seen"] for r in runs for m in r.measures) + 1)
            axes.plot(counts, 100 / counts, ":", color=MUTED, lw=1.2, label="chance")
        axes.set_ylim(start, 100 + 0.04 * (100 - start))
        axes.set_yticks(canvas.percent_ticks(start))
        axes.set_ylabel(f"A_k on {record.judged_on} images (%)")
        axes.set_xlabel("classes seen, k")
        canvas.count_axis(axes, [m["classes_seen"] for m in record.measures])
        axes.margins(x=0.04)
        canvas.legend_at_foot(figure, axes, 1, note)
        return canvas.save(figure, path)


def _accuracy_note(record: RunRecord, start: float) -> str:
    notes = []
    if start > 0:
        notes.append(f"The axis starts at {start:g} %.")
    if record.measures[0]["classes_seen"] == 1:
        notes.append("Hollow: with one class 100 % is certain and says nothing.")
    if paper_points(record):
        notes.append("The paper's points are printed values, not runs of ours.")
    return " ".join(notes)


def _curve(axes: Axes, run: RunRecord, name: str, colour: str, marker: str, width: float) -> None:
    seen = [m["classes_seen"] for m in run.measures]
    reached = [m["accuracy"] for m in run.measures]
    label = f"{name} — A_{seen[-1]} {percent(reached[-1], 2)}"
    above = 5 if colour == BLUE else 4
    axes.plot(
        seen, reached, color=colour, lw=width, marker=marker, ms=5.5, label=label, zorder=above
    )
    if seen[0] == 1:
        (hollow,) = axes.plot(seen[:1], reached[:1], marker, color=colour, ms=5.5)
        hollow.set(markerfacecolor="white", zorder=above + 0.1)


def _paper(axes: Axes, record: RunRecord) -> None:
    looks = {"JT": ("s", INK)}
    for row, numbers in paper_points(record).items():
        marker, colour = looks.get(row, ("D", VERMILLION))
        printed = ", ".join(f"A_{k} {n.value:.2f}" for k, n in numbers.items())
        axes.plot(
            list(numbers),
            [n.value for n in numbers.values()],
            marker,
            ms=8,
            mew=1.8,
            markerfacecolor="none",
            markeredgecolor=colour,
            label=f"paper: {row}, {paper_words(record.dataset)} — {printed}",
            zorder=6,
        )


def gap_figure(record: RunRecord, path: Path) -> Path | None:
    """By class: accuracy on real, reconstructed and remembered images; share called newest.

    Where a method keeps nothing to decode, real images alone. None if nothing is known by class.
    """
    entries = _gap_entries(record.last)
    series = [s for s in GAP_SERIES if any(e.get(s[0]) is not None for e in entries)]
    if not series:
        return None
    with canvas.drawing():
        calls = _called_newest(record.last)
        rows = np.arange(len(entries))
        start = _gap_start(entries, series)
        note = f"The accuracy axis starts at {start:g} %." if start > 0 else ""
        # past some 40 classes the rows draw together instead of the figure growing on
        height = 2.0 + max(1.0, min(0.3 * len(entries), 12 + 0.12 * len(entries)))
        figure = canvas.new_figure(
            8.0,
            height,
            "Does it see real images as it sees its memory?",
            f"{run_name(record)} · k = {record.last['classes_seen']} · {stream_words(record)}",
            note,
            1,
        )
        ratio = {"width_ratios": (1.4, 1)}
        if calls:
            left, right = figure.subplots(1, 2, sharey=True, gridspec_kw=ratio)
        else:
            left, right = figure.subplots(), None
        _gap_dots(left, entries, series, start)
        left.set_yticks(rows, [short_label(e["class"]) for e in entries])
        left.set_ylim(len(entries) - 0.5, -0.5)
        if right is not None:
            _newest_bars(right, entries, calls, record.last)
        left.tick_params(axis="y", length=0, labelsize=10 if len(entries) <= 30 else 7)
        canvas.legend_at_foot(figure, left, 3, note)
        return canvas.save(figure, path)


def _gap_entries(measures: Measures) -> list[dict[str, Any]]:
    if measures.get("gap"):
        return [dict(entry) for entry in measures["gap"]]
    classes = measures.get("classes") or []
    by_class = measures.get("accuracy_by_class") or []
    return [{"class": c, "real": a} for c, a in zip(classes, by_class, strict=False)]


def _called_newest(measures: Measures) -> dict[str, float]:
    """Share of each old class's test images that are called by a name of the newest task."""
    classes, new = measures.get("classes") or [], measures.get("new_classes") or []
    counts: NDArray[Any] = np.asarray(measures.get("confusion") or [])
    if counts.shape != (len(classes), len(classes)) or not classes:
        return {}
    columns = [i for i, c in enumerate(classes) if c in new]
    return {
        repr(c): 100.0 * counts[i, columns].sum() / counts[i].sum()
        for i, c in enumerate(classes)
        if i not in columns and counts[i].sum() > 0
    }


def _gap_start(entries: list[dict[str, Any]], series: Sequence[tuple[str, str, str, str]]) -> float:
    values = [e[s[0]] for e in entries for s in series if e.get(s[0]) is not None]
    return canvas.percent_floor(values)


def _gap_dots(
    axes: Axes,
    entries: list[dict[str, Any]],
    series: Sequence[tuple[str, str, str, str]],
    start: float,
) -> None:
    for row, entry in enumerate(entries):
        known = [entry[s[0]] for s in series if entry.get(s[0]) is not None]
        if known:
            axes.plot([min(known), max(known)], [row, row], color="#BBBBBB", lw=2, zorder=1)
    for key, words, colour, marker in series:
        values = [np.nan if e.get(key) is None else e[key] for e in entries]
        # the first meaning lies on top: it is the one that counts
        above = 4 if key == "real" else 3
        size = 7 if key == "real" else 6
        axes.plot(
            values, range(len(entries)), marker, color=colour, ms=size, label=words, zorder=above
        )
    room = 0.03 * (100 - start)  # a dot at either end is drawn whole
    axes.set_xlim(start - room, 100 + room)
    axes.set_xticks(canvas.percent_ticks(start))
    axes.set_xlabel("called by their own name (%)")
    axes.set_title("accuracy by class")


def _newest_bars(
    axes: Axes, entries: list[dict[str, Any]], calls: dict[str, float], measures: Measures
) -> None:
    shares = [calls.get(repr(e["class"])) for e in entries]
    top = max([5.0, *calls.values()])
    axes.barh(range(len(entries)), [s or 0 for s in shares], 0.55, color=VERMILLION)
    for row, (entry, share) in enumerate(zip(entries, shares, strict=True)):
        newest = entry["class"] in (measures.get("new_classes") or [])
        text = "newest" if newest else (NOTHING if share is None else f"{share:.1f}")
        axes.text((share or 0) + 0.02 * top, row, text, va="center", size=8, color=MUTED)
    axes.set_xlim(0, top * 1.18)
    axes.set_xlabel("called by the newest name (%)")
    axes.grid(axis="y", visible=False)
    axes.tick_params(axis="y", length=0)
    overall = measures.get("newest_share") or {}
    called, true = overall.get("called"), overall.get("true")
    axes.set_title(
        "old classes taken for the newest"
        if called is None or true is None
        else f"newest: called {called:.1f} %, true {true:.1f} %"
    )


def cost_figure(record: RunRecord, path: Path) -> Path:
    """Bytes by part and seconds by phase, increment by increment."""
    with canvas.drawing():
        figure = canvas.new_figure(
            9.0,
            4.6,
            "What it costs",
            f"{run_name(record)} · {stream_words(record)}",
        )
        left, right = figure.subplots(1, 2)
        most = max(sum(v or 0 for v in m["bytes"].values()) for m in record.measures)
        unit, size = _unit(most)
        _stack(left, record, "bytes", PART_COLOURS, size)
        left.set_ylabel(unit)
        left.set_title("kept after each increment")
        _stack(right, record, "seconds", PHASE_COLOURS, 1.0)
        right.set_ylabel("seconds")
        right.set_title("time of each increment")
        return canvas.save(figure, path)


def _unit(most: float) -> tuple[str, float]:
    for name, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if most >= size:
            return name, size
    return "bytes", 1.0


def _stack(axes: Axes, record: RunRecord, key: str, colours: dict[str, str], size: float) -> None:
    seen = [m["classes_seen"] for m in record.measures]
    names = list(dict.fromkeys(name for m in record.measures for name in m[key]))
    spare = iter(SPARE_COLOURS * (len(names) // len(SPARE_COLOURS) + 1))
    places = np.arange(len(seen))
    base = np.zeros(len(seen))
    for name in names:
        heights = np.array([(m[key].get(name) or 0) / size for m in record.measures])
        colour = colours[name] if name in colours else next(spare)
        if heights.any():
            axes.bar(places, heights, 0.7, bottom=base, color=colour, label=name)
        base += heights
    step = max(1, -(-len(seen) // 12))
    axes.set_xticks(places[::step], [str(k) for k in seen[::step]])
    # a lone bar would otherwise fill the whole axis
    axes.set_xlim(min(-0.6, len(seen) / 2 - 2), max(len(seen) - 0.4, len(seen) / 2 + 1))
    axes.set_xlabel("classes seen")
    axes.grid(axis="x", visible=False)
    axes.tick_params(axis="x", length=0)
    if axes.patches:
        axes.legend(
            loc="upper left",
            bbox_to_anchor=(-0.02, -0.2),
            borderaxespad=0,
            ncols=3,
            columnspacing=1.2,
            handlelength=1.0,
        )
