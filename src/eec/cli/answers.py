"""What `eec predict` prints: as a table, as JSON or as CSV.

Labels of pictures are printed a batch at a time, as they are found. Confidence and accuracy are in
percent in a table, from 0 to 1 elsewhere.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from eec.report.words import percent

if TYPE_CHECKING:
    import numpy as np

    from eec.data.labels import Label

Named = tuple[str, "np.ndarray"]  # a picture's path and the probability of each class
Judgement = dict[str, Any]

WIDEST = 30  # letters of a label in a table
WORST = 5  # confusions that a table shows


# The labels of pictures.


def write_answers(
    form: str, batches: Iterable[list[Named]], labels: Sequence[Label], top: int
) -> None:
    write = {"table": _table, "json": _json, "csv": _csv}[form]
    write(batches, labels, min(top, len(labels)))


def _likeliest(
    probabilities: np.ndarray, labels: Sequence[Label], top: int
) -> list[tuple[Label, float]]:
    order = (-probabilities).argsort(kind="stable")[:top]
    return [(labels[i], float(probabilities[i])) for i in order]


def _table(batches: Iterable[list[Named]], labels: Sequence[Label], top: int) -> None:
    """The path comes last: all before it has a known width, so no row need wait for the others."""
    names = {label: printable(label, WIDEST) for label in labels}
    width = max(len("label"), *map(len, names.values()))
    console = Console()
    head = f"{'label':<{width}}  {'sure':>7}  " * top + "image"
    for batch in batches:
        if head:
            _print(console, Text(head, "dim"))
            head = ""
        for path, probabilities in batch:
            line = Text()
            for label, share in _likeliest(probabilities, labels, top):
                line.append(f"{names[label]:<{width}}", "" if line else "bold")
                line.append(f"  {percent(100 * share):>5} %  ")
            _print(console, line.append(printable(path)))
        sys.stdout.flush()


def _json(batches: Iterable[list[Named]], labels: Sequence[Label], top: int) -> None:
    before = "["
    for batch in batches:
        for path, probabilities in batch:
            answers = [
                {"label": label, "confidence": round(share, 6)}
                for label, share in _likeliest(probabilities, labels, top)
            ]
            row = {"path": path, **answers[0], **({"top": answers} if top > 1 else {})}
            print(f"{before}\n  {json.dumps(row)}", end="")
            before = ","
        sys.stdout.flush()
    print("\n]")


def _csv(batches: Iterable[list[Named]], labels: Sequence[Label], top: int) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    answer = ["label", "confidence"]
    head = ["path", *answer, *(f"{name}_{rank}" for rank in range(2, top + 1) for name in answer)]
    for batch in batches:
        if head:
            writer.writerow(head)
            head = []
        for path, probabilities in batch:
            answers = _likeliest(probabilities, labels, top)
            cells = [cell for label, share in answers for cell in (label, f"{share:.6f}")]
            writer.writerow([path, *cells])
        sys.stdout.flush()


# Against the truth.


def judgement(counts: np.ndarray, classes: Sequence[Label], asked: Sequence[int]) -> Judgement:
    """What a confusion matrix (rows are true classes) says of the classes that were asked for."""
    confusions = [
        {"truth": classes[i], "called": classes[j], "images": int(counts[i, j])}
        for i, j in zip(*counts.nonzero(), strict=True)
        if i != j
    ]
    return {
        **_share(int(counts.trace()), int(counts.sum())),
        "classes": [
            {"label": classes[i], **_share(int(counts[i, i]), int(counts[i].sum()))} for i in asked
        ],
        "confusions": sorted(confusions, key=lambda pair: -pair["images"]),
    }


def write_judgement(form: str, result: Judgement) -> None:
    {"table": _judgement_table, "json": _judgement_json, "csv": _judgement_csv}[form](result)


def _share(right: int, images: int) -> dict[str, Any]:
    accuracy = round(right / images, 6) if images else None
    return {"images": images, "right": right, "accuracy": accuracy}


def _judgement_table(result: Judgement) -> None:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("class", overflow="fold")
    for name in ("images", "right", "%"):
        table.add_column(name, justify="right")
    for row in result["classes"]:
        table.add_row(*_cells(row["label"], row))
    table.add_section()
    table.add_row(*_cells("all", result))
    console = Console()
    console.print(table)
    for pair in result["confusions"][:WORST]:
        truth, called = printable(pair["truth"]), printable(pair["called"])
        _print(console, Text(f"{pair['images']:,} of {truth} called {called}"))


def _cells(name: object, row: dict[str, Any]) -> list[Text]:
    share = None if row["accuracy"] is None else 100 * row["accuracy"]
    # as Text: a class called [red] is a name, not markup
    return [
        Text(printable(name)),
        Text(f"{row['images']:,}"),
        Text(f"{row['right']:,}"),
        Text(percent(share)),
    ]


def _judgement_json(result: Judgement) -> None:
    print(json.dumps(result, indent=2))


def _judgement_csv(result: Judgement) -> None:
    """One row a class, with the wrong name that it is called by most often."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["label", "images", "right", "accuracy", "called_instead", "called_images"])
    worst: dict[Label, tuple[Label, int]] = {}
    for pair in result["confusions"]:
        worst.setdefault(pair["truth"], (pair["called"], pair["images"]))
    for row in result["classes"]:
        instead = worst.get(row["label"], ("", ""))
        writer.writerow([row["label"], row["images"], row["right"], row["accuracy"], *instead])


# Words on a terminal.


def printable(value: object, width: int | None = None) -> str:
    """A name on one line that does nothing to a terminal."""
    text = "".join(sign if sign.isprintable() else "?" for sign in str(value))
    return text if width is None or len(text) <= width else text[: width - 1] + "…"


def _print(console: Console, line: Text) -> None:
    # Into a pipe without rich, which would end the program in a way of its own where nobody reads.
    if console.is_terminal:
        console.print(line, soft_wrap=True)
    else:
        print(line.plain)
