"""`eec inspect FILE`: what a saved learner holds, in tables, as JSON and in pictures."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from eec.errors import UserError

if TYPE_CHECKING:
    from rich.table import Table

    from eec.methods.contract import Method


@dataclass(frozen=True)
class Inspect:
    """Show what a learner holds: its classes, episodes, concepts and bytes, and a sheet of pictures
    decoded from its memory."""

    file: tyro.conf.Positional[
        Annotated[Path, tyro.conf.arg(metavar="FILE", help="Learner file, such as brain.eec.")]
    ]
    format: Literal["table", "json"] = "table"
    """What to print."""
    pictures: Path | None = None
    """Where the sheet of pictures is written, a PNG [beside FILE: brain-memory.png]."""
    no_pictures: bool = False
    """Draw no pictures."""

    def start(self, arguments: Sequence[str]) -> None:
        self._check()
        from eec.methods.archive import load_learner
        from eec.report.inside import look_inside
        from eec.training.runtime import choose_runtime

        # A few images are decoded, alike on every machine: no device is worth the start of it.
        method = load_learner(self.file, choose_runtime("cpu", "float32"))
        facts = {"file": str(self.file), **look_inside(method, self.file.stat().st_size)}
        facts["pictures"] = self._draw(method, facts)
        if self.format == "json":
            print(json.dumps(facts, indent=2))
        else:
            _tell(facts, drawn=not self.no_pictures)

    def _check(self) -> None:
        """Refuse what does not go together, before anything is loaded."""
        if self.pictures is None:
            return
        if self.no_pictures:
            raise UserError("--pictures and --no-pictures were both given: leave one out")
        if self.pictures.suffix.lower() != ".png":
            raise UserError(f"--pictures {self.pictures}: give it a name that ends in .png")
        both = self.pictures.exists() and self.file.exists()
        if both and self.pictures.samefile(self.file):  # by a link or in other letters, too
            raise UserError(f"--pictures {self.pictures} is the learner itself: use another name")

    def _draw(self, method: Method, facts: dict[str, Any]) -> dict[str, Any] | None:
        """Where the sheet is, and how many classes it shows; None where there is none."""
        from eec.cli.answers import printable
        from eec.report.inside import memory_sheet

        if self.no_pictures:
            return None
        path = self.pictures or self.file.with_name(f"{self.file.stem}-memory.png")
        title = f"{printable(self.file.name, 30)}: {facts['method']}, {_memory_words(facts)}"
        try:
            shown = memory_sheet(method, path, title)
        except UserError as error:
            if self.pictures is not None:
                raise
            # Nobody asked for this place: a learner on a disk for reading only can still be shown.
            print(f"eec: {error}, with --pictures", file=sys.stderr)
            return None
        return {"path": str(path), "classes": shown} if shown else None


def _headline(facts: dict[str, Any]) -> str:
    """The learner in one line."""
    from eec.methods.contract import size_words

    if facts["image"] is None:
        return f"{facts['method']}, has learned nothing yet, seed {facts['seed']}"
    parts = [
        facts["method"],
        f"{_count(len(facts['classes']), 'class')} in {_count(facts['tasks'], 'task')}",
        size_words(tuple(facts["image"])),
        f"seed {facts['seed']}",
        _memory_words(facts),
    ]
    return ", ".join(parts)


def _memory_words(facts: dict[str, Any]) -> str:
    from eec.report.words import human_bytes

    budget = facts["budget"]
    if facts["generators"]:
        return f"keeps {_count(facts['generators'], 'generator')}"
    if budget is None:
        return "keeps every real image" if facts["keeps_real_images"] else "keeps no memory"
    if budget["unit"] == "bytes":
        words = f"memory {human_bytes(budget['used'])} of {human_bytes(budget['limit'])}"
    elif budget["limit"] is None:
        words = f"memory {_count(budget['used'], 'slot')}, unlimited"
    else:
        words = f"memory {budget['used']:,} of {_count(budget['limit'], 'slot')}"
    return words + (", not strict" if facts["real_images"] else "")


def _count(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 'es' if what == 'class' else 's'}"


# What is printed.


def _tell(facts: dict[str, Any], *, drawn: bool) -> None:
    from rich.console import Console
    from rich.text import Text

    from eec.cli.answers import printable

    console = Console()
    # Printed in one piece by Python: rich would end the program in a way of its own where nobody
    # reads.
    with console.capture() as captured:
        name = Path(facts["file"]).name
        console.print(Text(printable(f"{name}: {_headline(facts)}"), "bold"), soft_wrap=True)
        console.print()
        if facts["budget"] is not None and facts["classes"]:
            console.print(_class_table(facts["classes"]))
            console.print()
        console.print(_bytes_table(facts["bytes"]))
        console.print()
        for line in _lines(facts, drawn):
            console.print(Text(printable(line)), soft_wrap=True)
    sys.stdout.write(captured.get())


def _sizes(codes: dict[str, Any]) -> list[str]:
    """What an episode and a concept take, where there are any."""
    kinds = ("an_episode", "a_concept")
    known = [(kind, codes[f"bytes_{kind}"]) for kind in kinds if codes[f"bytes_{kind}"]]
    return [f"{size:,.0f} bytes {kind.replace('_', ' ')}" for kind, size in known]


def _lines(facts: dict[str, Any], drawn: bool) -> list[str]:
    from eec.report.words import list_labels

    lines = []
    if codes := facts["codes"]:
        shape = "x".join(map(str, codes["shape"]))
        counts = facts["bytes"].get("counts", 0)
        lines.append(
            f"codes     {codes['type']} {shape}: {' and '.join(_sizes(codes))}"
            f"{', and a count of each' if counts else ''}; {_count(codes['codecs'], 'codec')}"
        )
    if facts["budget"] is None:
        labels = [row["label"] for row in facts["classes"]]
        lines.append(f"classes   {list_labels(labels, 12)}")
    if facts["real_images"]:
        real = _count(facts["real_images"], "real image")
        lines.append(f"real      {real} of old classes kept on top of the codes: not strict")
    elif facts["generators"]:
        lines.append("memory    none of codes: each task's images are generated")
    elif facts["keeps_real_images"] and facts["real_images"] is None:
        lines.append("memory    none of codes: it keeps the real images themselves")
    elif facts["budget"] is None:
        lines.append("memory    none: it keeps the classifier only")
    if pictures := facts["pictures"]:
        shown, known = pictures["classes"], len(facts["classes"])
        few = f" ({shown} of {known:,} classes)" if shown < known else ""
        lines.append(f"pictures  {pictures['path']}{few}")
    elif drawn and not codes:
        lines.append("pictures  none: there are no episodes to decode")
    return lines


def _class_table(classes: list[dict[str, Any]]) -> Table:
    from rich.text import Text

    from eec.cli.answers import printable
    from eec.report.words import list_labels

    known = ("kept", "episodes", "concepts", "images", "slots", "bytes")
    columns = [name for name in known if name in classes[0]]
    tasks = "tasks" in classes[0]  # real images are kept together, in whichever task they came
    table = _table("class", (*(["tasks"] * tasks), *columns))
    table.caption = "images: so many that these stand for"
    table.caption_justify = "left"
    for row in classes:
        cells = [list_labels(row["tasks"])] if tasks else []
        cells += [f"{row[name]:,}" for name in columns]
        # as Text: a class called [red] is a name, not markup
        table.add_row(Text(printable(row["label"])), *cells)
    table.add_section()
    table.add_row(
        "all", *([""] * tasks), *(f"{sum(row[name] for row in classes):,}" for name in columns)
    )
    return table


def _bytes_table(parts: dict[str, int]) -> Table:
    table = _table("part", ("bytes", "%"))
    for name, count in parts.items():
        if name == "file":
            table.add_section()
        share = f"{100 * count / parts['file']:.1f}"
        table.add_row("header and the rest" if name == "header" else name, f"{count:,}", share)
    return table


def _table(first: str, others: Sequence[str]) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column(first, overflow="fold")
    for name in others:
        table.add_column(name, justify="right", no_wrap=True)
    return table
