"""Methods side by side, over seeds: for the terminal, as Markdown, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from eec.evaluation.compare import CONFIDENCE, Difference, Spread, paired_difference, spread
from eec.files import write_whole
from eec.paper.published import Published
from eec.report.beside import differences, paper_accuracy, paper_average, paper_words
from eec.report.folder import RunRecord
from eec.report.words import (
    NOTHING,
    classifier_bytes,
    final_average,
    human_bytes,
    human_seconds,
    memory_bytes,
    run_seconds,
    stream_words,
)

Runs = Mapping[str, Mapping[int, RunRecord]]  # by method, then by seed


@dataclass(frozen=True)
class Row:
    """One method. Bytes are those at the end of a run; they and the seconds are means."""

    method: str
    runs: dict[int, RunRecord]
    accuracy: Spread  # the last A_k
    average: Spread  # of A_k over the increments
    memory: float
    classifier: float | None
    seconds: float
    paper: tuple[Published, ...]


@dataclass(frozen=True)
class Against:
    """A method against the first, over the seeds that both have."""

    method: str
    first: str
    accuracy: Difference
    average: Difference


@dataclass(frozen=True)
class Comparison:
    dataset: str
    classes_seen: int
    stream: str
    rows: list[Row]
    against: list[Against]
    notes: list[str]


def compare(runs: Runs) -> Comparison:
    """All methods of which there is a run; the first of them is what the others are held against.

    The runs must be of one data set and stream: `eec compare` makes them so.
    """
    rows = [_row(method, dict(found)) for method, found in runs.items() if found]
    if not rows:
        raise ValueError("there is no run: nothing can be compared")
    record = next(iter(rows[0].runs.values()))
    against = [one for row in rows[1:] if (one := _against(row, rows[0]))]
    return Comparison(
        dataset=record.dataset,
        classes_seen=record.last["classes_seen"],
        stream=stream_words(record),
        rows=rows,
        against=against,
        notes=_notes(rows),
    )


def _row(method: str, runs: dict[int, RunRecord]) -> Row:
    records = list(runs.values())
    lasts = [record.last for record in records]
    classifiers = [n for last in lasts if (n := classifier_bytes(last)) is not None]
    printed = (paper_accuracy(records[0]), paper_average(records[0]))
    return Row(
        method=method,
        runs=runs,
        accuracy=spread([last["accuracy"] for last in lasts]),
        average=spread([final_average(record) for record in records]),
        memory=spread([memory_bytes(last) for last in lasts]).mean,
        classifier=spread(classifiers).mean if classifiers else None,
        seconds=spread([run_seconds(record) for record in records]).mean,
        paper=tuple(number for number in printed if number),
    )


def _against(row: Row, first: Row) -> Against | None:
    accuracy = paired_difference(_accuracies(row), _accuracies(first))
    average = paired_difference(_averages(row), _averages(first))
    if accuracy is None or average is None:
        return None
    return Against(row.method, first.method, accuracy, average)


def _accuracies(row: Row) -> dict[int, float]:
    return {seed: record.last["accuracy"] for seed, record in row.runs.items()}


def _averages(row: Row) -> dict[int, float]:
    return {seed: final_average(record) for seed, record in row.runs.items()}


def _notes(rows: Sequence[Row]) -> list[str]:
    """What a reader must know before believing the table."""
    notes = []
    if single := [row.method for row in rows if row.accuracy.n == 1]:
        notes.append(f"One seed only ({', '.join(single)}): no deviation, no interval.")
    record = next(iter(rows[0].runs.values()))
    if any(row.paper for row in rows):
        notes.append(f"The paper's numbers: {paper_words(record.dataset)}.")
        told = {line for row in rows for r in row.runs.values() for line in differences(r)[1:]}
        notes += sorted(told)
        limited = [row.method for row in rows if row.paper and _memory_of(row) != "unlimited"]
        if limited:
            notes.append(f"The paper's memory was unlimited; that of {', '.join(limited)} is not.")
    return notes


def _memory_of(row: Row) -> str:
    options = next(iter(row.runs.values())).config.get("options") or {}
    return str(options.get("memory", "unlimited"))


# Words


def plus_minus(value: Spread) -> str:
    deviation = "" if value.deviation is None else f" ± {value.deviation:.2f}"
    return f"{value.mean:.2f}{deviation}"


def signed(value: float) -> str:
    return f"{value:+.2f}".replace("-", "−")


def interval(difference: Difference) -> str:
    if difference.low is None or difference.high is None:
        return NOTHING
    return f"{signed(difference.low)} to {signed(difference.high)}"


def _printed(number: Published) -> str:
    return f"{number.value:.2f} ({number.table}, {number.row}, {number.column})"


def _columns(comparison: Comparison) -> list[str]:
    last = f"A_{comparison.classes_seen} %"
    return ["method", "n", last, "average %", "memory", "classifier", "time", "paper"]


def _cells(row: Row) -> list[str]:
    return [
        row.method,
        str(row.accuracy.n),
        plus_minus(row.accuracy),
        plus_minus(row.average),
        human_bytes(row.memory),
        human_bytes(row.classifier),
        human_seconds(row.seconds),
        "; ".join(map(_printed, row.paper)) or NOTHING,
    ]


TEXT_COLUMNS = ("method", "measure", "paper", "is")
LONG_COLUMNS = ("paper",)  # which are folded where room is short
AGAINST_COLUMNS = (
    "method",
    "measure",
    "n",
    "difference",
    f"{CONFIDENCE * 100:.0f} % interval",
    "is",
)


def _against_rows(comparison: Comparison) -> list[list[str]]:
    last = f"A_{comparison.classes_seen}"
    return [
        [
            one.method,
            measure,
            str(difference.n),
            signed(difference.mean),
            interval(difference),
            difference.verdict,
        ]
        for one in comparison.against
        for measure, difference in ((last, one.accuracy), ("average", one.average))
    ]


def _title(comparison: Comparison) -> str:
    return f"{comparison.dataset}, {comparison.stream}"


def _against_title(comparison: Comparison) -> str:
    return f"Against {comparison.against[0].first}, seed by seed, in points"


# Forms


def terminal_tables(comparison: Comparison) -> list[Table]:
    cells = [_cells(row) for row in comparison.rows]
    tables = [terminal_table(_title(comparison), _columns(comparison), cells)]
    if comparison.against:
        cells = _against_rows(comparison)
        tables.append(terminal_table(_against_title(comparison), AGAINST_COLUMNS, cells))
    return tables


def terminal_table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    text_columns: Collection[str] = TEXT_COLUMNS,
    long_columns: Collection[str] = LONG_COLUMNS,
) -> Table:
    table = Table(
        title=Text(title),
        title_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    for column in columns:
        text = column in text_columns
        table.add_column(
            column,
            justify="left" if text else "right",
            no_wrap=column not in long_columns,
            overflow="fold",
        )
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def as_markdown(comparison: Comparison) -> str:
    parts = [
        f"**{_title(comparison)}**\n\n",
        markdown(_columns(comparison), [_cells(row) for row in comparison.rows]),
    ]
    if comparison.against:
        parts += [
            f"\n{_against_title(comparison)}:\n\n",
            markdown(AGAINST_COLUMNS, _against_rows(comparison)),
        ]
    parts += [f"\n{note}\n" for note in comparison.notes]
    return "".join(parts)


def markdown(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    text_columns: Collection[str] = TEXT_COLUMNS,
) -> str:
    ruler = [":--" if column in text_columns else "--:" for column in columns]
    lines = [columns, ruler, *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def as_csv(comparison: Comparison) -> str:
    """One line a method, all numbers as they are; the differences in the same line."""
    held = {one.method: one for one in comparison.against}
    lines = [_flat(comparison, row, held.get(row.method)) for row in comparison.rows]
    text = io.StringIO()
    writer = csv.DictWriter(text, list(lines[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def _flat(comparison: Comparison, row: Row, against: Against | None) -> dict[str, Any]:
    line: dict[str, Any] = {
        "dataset": comparison.dataset,
        "method": row.method,
        "n": row.accuracy.n,
        "classes_seen": comparison.classes_seen,
        "accuracy_mean": row.accuracy.mean,
        "accuracy_deviation": row.accuracy.deviation,
        "average_mean": row.average.mean,
        "average_deviation": row.average.deviation,
        "memory_bytes": row.memory,
        "classifier_bytes": row.classifier,
        "seconds": row.seconds,
        "paper": row.paper[0].value if row.paper else None,
        "paper_place": _printed(row.paper[0]).split(" ", 1)[1][1:-1] if row.paper else None,
        "against": against.first if against else None,
    }
    for name in ("accuracy", "average"):
        found: Difference | None = getattr(against, name) if against else None
        line[f"{name}_difference"] = found.mean if found else None
        line[f"{name}_low"] = found.low if found else None
        line[f"{name}_high"] = found.high if found else None
        line[f"{name}_is"] = found.verdict if found else None
    return line


def as_json(comparison: Comparison) -> str:
    facts = {
        "dataset": comparison.dataset,
        "classes_seen": comparison.classes_seen,
        "stream": comparison.stream,
        "methods": [_row_facts(row) for row in comparison.rows],
        "confidence": CONFIDENCE,
        "differences": [
            {
                "method": one.method,
                "against": one.first,
                "accuracy": {**asdict(one.accuracy), "is": one.accuracy.verdict},
                "average_incremental_accuracy": {
                    **asdict(one.average),
                    "is": one.average.verdict,
                },
            }
            for one in comparison.against
        ],
        "notes": comparison.notes,
    }
    return json.dumps(facts, indent=2) + "\n"


def _row_facts(row: Row) -> dict[str, Any]:
    return {
        "method": row.method,
        "n": row.accuracy.n,
        "accuracy": asdict(row.accuracy),
        "average_incremental_accuracy": asdict(row.average),
        "bytes": {"memory": row.memory, "classifier": row.classifier},
        "seconds": row.seconds,
        "paper": [asdict(number) for number in row.paper],
        "runs": [
            {
                "seed": seed,
                "folder": str(record.path),
                "accuracy": record.last["accuracy"],
                "average_incremental_accuracy": final_average(record),
                "bytes": record.last["bytes"],
                "seconds": run_seconds(record),
                "revision": record.environment.get("revision"),
            }
            for seed, record in row.runs.items()
        ],
    }


FORMS = {"md": as_markdown, "csv": as_csv, "json": as_json}


def write_comparison(comparison: Comparison, folder: Path) -> list[Path]:
    """comparison.md, comparison.csv and comparison.json."""
    return [
        write_whole(folder / f"comparison.{ending}", form(comparison))
        for ending, form in FORMS.items()
    ]
