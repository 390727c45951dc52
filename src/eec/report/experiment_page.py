"""What an experiment of the paper leaves behind: table.md, a page, and pictures side by side."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.table import Table

from eec.files import write_whole
from eec.paper.protocol import Block
from eec.report.chart_style import COLOURS, Chart
from eec.report.comparison import markdown, terminal_table
from eec.report.experiment import Part, Result, differences_of, grids, part_name
from eec.report.folder import RunRecord
from eec.report.groups import Group
from eec.report.memory_curves import memory_chart, memory_figure
from eec.report.page import render
from eec.report.several import group_charts
from eec.report.sheet import draw_sheet
from eec.report.strips import ORIGINAL, Pictures, make_sheet, read_pictures

CLASSES = 10  # of each data set, in pictures
DECODED = "coded and decoded"
TABLE = "table.md"


def write_result(result: Result, folder: Path) -> list[Path]:
    """table.md, report.html and the pictures; gives their paths."""
    pictures = _draw(result, folder / "pictures")
    return [
        write_whole(folder / TABLE, as_markdown(result, pictures)),
        write_whole(folder / "report.html", render(_page(result))),
        *pictures,
    ]


def terminal_tables(result: Result) -> list[tuple[Table, str]]:
    """Each with what is to be said below it."""
    return [
        (terminal_table(grid.title, grid.columns, grid.rows, grid.left, grid.left), grid.caption)
        for grid in grids(result)
    ]


def notes(result: Result) -> list[str]:
    """What a reader must know: what is missing, and what differs from the paper."""
    return [*result.left_out, *differences_of(result)]


# Markdown.


def as_markdown(result: Result, pictures: Sequence[Path] = ()) -> str:
    parts = [
        f"## {result.name}: {result.experiment.description}\n\n",
        f"`{result.command}`\n\n",
        "".join(f"{line}  \n" for line in made_by(result)),
    ]
    for grid in grids(result):
        parts.append(f"\n**{grid.title}**\n\n{markdown(grid.columns, grid.rows, grid.left)}")
        parts.append(f"\n{grid.caption}\n" if grid.caption else "")
    parts += [f"\n![{path.stem}](pictures/{path.name})\n" for path in pictures]
    parts.append("\nWhat differs from the paper, and what is missing:\n\n")
    parts += [f"- {note}\n" for note in notes(result)]
    return "".join(parts)


def made_by(result: Result) -> list[str]:
    """When, from which seeds, on which machine, in which time."""
    records = result.records
    started = sorted(str(r.environment.get("started"))[:10] for r in records)
    when = started[0] if started[0] == started[-1] else f"{started[0]} to {started[-1]}"
    seeds = sorted({int(str(record.seed)) for record in records})
    of = records[0].environment
    machine = (
        f"{of.get('cpu')}, {of.get('cores')} cores, {of.get('threads')} threads, "
        f"{of.get('device')}, {of.get('precision')}, torch {of.get('torch')}"
    )
    revisions = ", ".join(sorted({str(r.environment.get("revision")) for r in records}))
    said = [f"{when}; seeds {', '.join(map(str, seeds))}; {machine}; revision {revisions}."]
    return [*said, result.timing] if result.timing else said


# Pictures.


def side_by_side(part: Part) -> Pictures:
    """For some classes the test images, and under them the same decoded, line by line."""
    found: dict[object, dict[str, Any]] = {}
    for line, runs in part.lines:
        first = runs[min(runs)]
        for label, rows in read_pictures(first.path / "samples.safetensors"):
            here = found.setdefault(label, {})
            if ORIGINAL in rows:
                here.setdefault(ORIGINAL, rows[ORIGINAL])
            if DECODED in rows:
                here[line.name] = rows[DECODED]
    return list(found.items())[:CLASSES]


def _draw(result: Result, folder: Path) -> list[Path]:
    drawn = []
    for part in result.parts:
        title = f"{result.name}: {part_name(part.block)}"
        path = folder / f"{_slug(part.block)}.png"
        if result.experiment.shows == "pictures":
            classes = [(label, list(rows.items())) for label, rows in side_by_side(part)]
            drawn.append(draw_sheet(classes, path, title))
        else:
            drawn.append(memory_figure(part, title, path))
    return [path for path in drawn if path is not None]


def _slug(block: Block) -> str:
    return block.dataset if block.size is None else f"{block.dataset}-{block.size}"


# The page.


def _page(result: Result) -> dict[str, Any]:
    sheet = None
    if result.experiment.shows == "pictures":
        several = len(result.parts) > 1
        pictures = [
            (f"{part.block.dataset}: {label}" if several else label, rows)
            for part in result.parts
            for label, rows in side_by_side(part)
        ]
        sheet = make_sheet(pictures)
    return {
        "title": f"{result.name}: {result.experiment.description}",
        "subtitle": " · ".join([f"scale {result.scale}", *made_by(result)]),
        "cards": [],
        "headlines": grids(result),
        "warnings": result.left_out,
        "notes": differences_of(result),
        "charts": [chart for part in result.parts if part.records for chart in _charts(part)],
        "sheet": sheet,
        "sheet_words": (
            f"The rows called “{ORIGINAL}” are real; under each of them the same images, coded "
            "and decoded as the row's name says, by the first seed."
            if sheet
            else ""
        ),
        "original": ORIGINAL,
        "grids": [],
        "commands": [("", result.command), *_commands(result.records)],
        "settings": [],
    }


def _charts(part: Part) -> list[Chart]:
    """Curves and costs of one stream; the names must differ from those of the others."""
    groups = [Group(line.name, list(runs.values())) for line, runs in part.lines]
    charts = group_charts(groups)
    against_memory = memory_chart(part)
    if against_memory is not None:
        # Its curves say more than the dots of the same runs, and than more lines than colours.
        others = [chart for chart in charts if chart.title != against_memory.title]
        charts = [against_memory, *(others if len(groups) <= len(COLOURS) else [])]
    name = part_name(part.block)
    return [
        replace(
            chart,
            name=re.sub(r"\W+", "-", f"{chart.name}-{name}"),
            title=f"{chart.title}, {name}",
        )
        for chart in charts
    ]


def _commands(records: Sequence[RunRecord]) -> list[tuple[str, str]]:
    return [(record.path.name, str(record.config.get("command") or "")) for record in records]
