"""docs/results.md, put together from the tables that the paper's experiments left.

Each table stands between two comments and is replaced there; what people wrote around it stays.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from eec.errors import UserError
from eec.files import write_whole
from eec.report.experiment_page import TABLE

HEAD = """# Results

Tables of the paper's experiments, done again. Each was written by the command above it (`eec paper
NAME`) and brought here by `eec paper results`, which replaces what stands between the comments and
leaves the rest alone.
"""
PICTURE = re.compile(r"\]\(pictures/([^)]+)\)")


def gather(folder: Path, names: Sequence[str], out: Path) -> list[Path]:
    """Put each table under `folder` into the file; gives the tables, in the order of `names`."""
    there = [path.parent for path in sorted(folder.glob(f"paper-*/{TABLE}"))]
    order = {name: place for place, name in enumerate(names)}
    there.sort(key=lambda path: order.get(_experiment(path.name, names), len(names)))
    if not there:
        raise UserError(
            f"no table of an experiment under {folder}: make one, with eec paper table1"
        )
    text = out.read_text(encoding="utf-8") if out.exists() else HEAD
    for place in there:
        text = _put(text, place.name, _with_pictures(place, out.parent / "pictures"))
    write_whole(out, text)
    return [place / TABLE for place in there]


def _experiment(folder: str, names: Sequence[str]) -> str:
    """`paper-figure3-ward-0` is of figure3; `paper-ablations-eec` is not of ablations."""
    stem = folder.removeprefix("paper-")
    begun = [name for name in names if stem == name or stem.startswith(f"{name}-")]
    return max(begun, key=len, default=stem)


def _put(text: str, name: str, table: str) -> str:
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
    section = f"{begin}{table.rstrip()}\n{end}"
    start, stop = text.find(begin), text.find(end)
    if 0 <= start < stop:
        return text[:start] + section + text[stop + len(end) :]
    return f"{text.rstrip()}\n\n{section}"


def _with_pictures(place: Path, pictures: Path) -> str:
    """The table; its pictures are copied beside the others of the docs."""

    def copied(found: re.Match[str]) -> str:
        name = f"{place.name}-{found[1]}"
        write_whole(pictures / name, (place / "pictures" / found[1]).read_bytes())
        return f"](pictures/{name})"

    return PICTURE.sub(copied, (place / TABLE).read_text(encoding="utf-8"))
