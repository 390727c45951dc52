"""A run as a table: for the terminal, for markdown, and in one line."""

from rich import box
from rich.table import Table
from rich.text import Text

from eec.report.beside import paper_accuracy, paper_words
from eec.report.folder import Measures, RunRecord
from eec.report.words import (
    NOTHING,
    classifier_bytes,
    final_average,
    human_bytes,
    human_seconds,
    list_labels,
    mean_gap,
    memory_bytes,
    percent,
    points,
    run_name,
    run_seconds,
    total,
)

COLUMNS = (
    "classes seen",
    "new",
    "A_k %",
    "newest called / true %",
    "gap",
    "memory",
    "classifier",
    "time",
)
TEXT_COLUMNS = {"new"}
# The same in so few letters that a terminal of 80 columns has room for the cells.
HEADINGS = ("seen", "new", "A_k %", "newest/true %", "gap", "memory", "net", "time")
GAP_MEANS = "gap: accuracy on reconstructed minus on real images of old classes"


def increment_cells(measures: Measures) -> list[str]:
    """One row of the table, aligned with COLUMNS."""
    share = measures.get("newest_share") or {}
    called, true = share.get("called"), share.get("true")
    return [
        str(measures["classes_seen"]),
        list_labels(measures.get("new_classes")),
        percent(measures["accuracy"], 2),
        NOTHING if called is None or true is None else f"{called:.1f} / {true:.1f}",
        points(mean_gap(measures)),
        human_bytes(memory_bytes(measures)),
        human_bytes(classifier_bytes(measures)),
        human_seconds(total(measures["seconds"])),
    ]


def run_table(record: RunRecord) -> Table:
    """One row an increment, for the terminal."""
    has_gap = any(mean_gap(m) is not None for m in record.measures)
    table = Table(
        title=Text(run_name(record)),
        caption=GAP_MEANS if has_gap else None,
        title_justify="left",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    for column, heading in zip(COLUMNS, HEADINGS, strict=True):
        text = column in TEXT_COLUMNS  # gives way where room is short; a number is never cut
        table.add_column(heading, justify="left" if text else "right", no_wrap=not text)
    for measures in record.measures:
        # as Text: a label such as [red] is a name, not markup
        cells = increment_cells(measures)
        table.add_row(*(Text(cell, no_wrap=True, overflow="ellipsis") for cell in cells))
    return table


def markdown_table(record: RunRecord) -> str:
    """The same rows as a markdown table."""
    ruler = [":--" if column in TEXT_COLUMNS else "--:" for column in COLUMNS]
    rows = [list(COLUMNS), ruler, *(increment_cells(m) for m in record.measures)]
    return "".join("| " + " | ".join(_markdown(cell) for cell in row) + " |\n" for row in rows)


def _markdown(cell: str) -> str:
    for sign in ("\\", "|", "`", "<"):
        cell = cell.replace(sign, "\\" + sign)
    return cell


def headline(record: RunRecord) -> str:
    """The run in one line, beside the paper's number where there is one."""
    last = record.last
    memory, classifier = human_bytes(memory_bytes(last)), human_bytes(classifier_bytes(last))
    parts = [
        f"A_{last['classes_seen']} {percent(last['accuracy'], 2)} %",
        f"average {percent(final_average(record), 2)} %",
        f"memory {memory} + classifier {classifier}",
        human_seconds(run_seconds(record)),
    ]
    if record.judged_on != "test":
        parts[0] += f" ({record.judged_on} images)"
    line = f"{' '.join(run_name(record).split())}: {', '.join(parts)}"
    printed = paper_accuracy(record)
    if printed is not None:
        line += f" (paper: {printed.row} {printed.value:.2f}, {paper_words(record.dataset)})"
    return line
