"""One HTML file that says what a run did: opens anywhere, needs no network."""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined

from eec.errors import UserError
from eec.files import write_whole
from eec.paper.published import Published, published, setting
from eec.report import words
from eec.report.beside import differences, paper_accuracy, paper_average
from eec.report.folder import RunRecord
from eec.report.table import COLUMNS, GAP_MEANS, TEXT_COLUMNS, increment_cells

# the pictures a reader should meet first, with what they show
CAPTIONS = {
    "accuracy": "Accuracy on the images of all classes seen, after each increment.",
    "gap": "Real images against decoded ones, by class. Old classes that are taken for the "
    "newest give away a learner that reads the decoder's trace instead of the picture.",
    "sheet": "Images of each class, the same after coding and decoding, and what is remembered.",
    "cost": "What is kept, and how long each increment took.",
}


@dataclass(frozen=True)
class Card:
    """One large number with what it is and what to hold against it."""

    title: str
    value: str
    below: str


@dataclass(frozen=True)
class Grid:
    """A table of ready words; columns in `left` hold text, the others numbers."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: frozenset[str] = frozenset()


def write_page(record: RunRecord, path: Path) -> Path:
    """Write the page of a run, with the PNG files of its pictures folder inside."""
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    source = resources.files("eec.report").joinpath("page.html.j2").read_text(encoding="utf-8")
    page = environment.from_string(source).render(
        title=words.run_name(record),
        subtitle=words.stream_words(record),
        started=str(record.environment.get("started") or ""),
        cards=_cards(record),
        warnings=_warnings(record),
        notes=_notes(record),
        pictures=_pictures(record.pictures),
        increments=Grid(COLUMNS, [increment_cells(m) for m in record.measures], _LEFT),
        gap_means=GAP_MEANS,
        gap=_gap(record),
        autoencoders=_autoencoders(record),
        decay=_decay(record),
        paper=_paper(record),
        command=str(record.config.get("command") or ""),
        configuration=_flat({k: v for k, v in record.config.items() if k != "command"}),
        environment=_flat(record.environment),
    )
    return write_whole(path, page.encode("utf-8"))


_LEFT = frozenset(TEXT_COLUMNS)


def _cards(record: RunRecord) -> list[Card]:
    last = record.last
    share = last.get("newest_share") or {}
    called, true = share.get("called"), share.get("true")
    cards = [
        Card(
            f"A_{last['classes_seen']}",
            f"{last['accuracy']:.2f} %",
            _beside(paper_accuracy(record))
            or f"accuracy on {record.judged_on} images of all classes seen",
        ),
        Card(
            "average over increments",
            f"{words.final_average(record):.2f} %",
            _beside(paper_average(record)) or "mean of A_k",
        ),
    ]
    if called is not None and true is not None:
        cards.append(Card("called newest", f"{called:.1f} %", f"true share {true:.1f} %"))
    classifier = words.human_bytes(words.classifier_bytes(last))
    cards += [
        Card("memory", words.human_bytes(words.memory_bytes(last)), f"+ classifier {classifier}"),
        Card(
            "time",
            words.human_seconds(words.run_seconds(record)),
            f"{len(record.measures)} increment{'s' if len(record.measures) > 1 else ''}",
        ),
    ]
    return cards


def _beside(printed: Published | None) -> str:
    return f"paper, {printed.row}: {printed.value:.2f}" if printed else ""


def _warnings(record: RunRecord) -> list[str]:
    return [
        f"Increment {m['increment']}: the autoencoder stayed bad after "
        f"{quality.get('attempts') or 'all its'} attempts (pixel error "
        f"{_number(quality.get('pixel_error'))}, recognised "
        f"{words.percent(quality.get('recognised'))} %). What it decodes is not to be trusted."
        for m in record.measures
        if (quality := m.get("autoencoder") or {}).get("good") is False
    ]


def _notes(record: RunRecord) -> list[str]:
    notes = [str(m["note"]) for m in record.measures if m.get("note")]
    if not notes and record.measures[0]["classes_seen"] == 1:
        notes.append("A_1 is 100 % with a single class and says nothing.")
    if record.judged_on != "test":
        notes.append(f"Judged on {record.judged_on} images, held out of the training data.")
    if _paper(record).rows:
        notes += differences(record)
    return list(dict.fromkeys(notes))


def _pictures(folder: Path) -> list[tuple[str, str, str]]:
    """Name, caption and data URI of each picture, the known ones first."""
    known = list(CAPTIONS)
    found = sorted(
        folder.glob("*.png"),
        key=lambda p: (known.index(p.stem) if p.stem in known else len(known), p.name),
    )
    return [(p.stem, CAPTIONS.get(p.stem, p.stem), _data_uri(p)) for p in found]


def _data_uri(path: Path) -> str:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}; draw it again") from error
    return "data:image/png;base64," + base64.b64encode(content).decode("ascii")


def _gap(record: RunRecord) -> Grid:
    columns = ("class", "real %", "reconstructed %", "remembered %", "reconstructed − real")
    rows = []
    for entry in record.last.get("gap") or []:
        real, again = entry.get("real"), entry.get("reconstructed")
        difference = None if real is None or again is None else again - real
        rows.append(
            [
                str(entry.get("class")),
                words.percent(real),
                words.percent(again),
                words.percent(entry.get("remembered")),
                words.points(difference),
            ]
        )
    return Grid(columns, rows, frozenset({"class"}))


def _autoencoders(record: RunRecord) -> Grid:
    columns = ("increment", "pixel error", "unexplained", "recognised %", "steps", "tries", "good")
    rows = []
    for m in record.measures:
        quality = m.get("autoencoder")
        if quality:
            good = {True: "yes", False: "NO"}.get(quality.get("good"), words.NOTHING)
            rows.append(
                [
                    str(m["increment"]),
                    _number(quality.get("pixel_error")),
                    _number(quality.get("unexplained")),
                    words.percent(quality.get("recognised")),
                    _number(quality.get("steps")),
                    _number(quality.get("attempts")),
                    good,
                ]
            )
    return Grid(columns, rows)


def _decay(record: RunRecord) -> Grid:
    columns = ("task", "original %", "decoded %", "weight")
    rows = [
        [
            str(entry.get("task")),
            words.percent(entry.get("original")),
            words.percent(entry.get("decoded")),
            _number(entry.get("weight")),
        ]
        for entry in record.last.get("decay") or []
    ]
    return Grid(columns, rows)


def _paper(record: RunRecord) -> Grid:
    """The paper's comparison on this data set: Table 1, or Table 6 for CIFAR-100."""
    numbers = [n for n in published(record.dataset) if n.table in {"Table 1", "Table 6"}]
    columns = list(dict.fromkeys(n.column for n in numbers))
    rows = []
    for row in dict.fromkeys(n.row for n in numbers):
        own = [n for n in numbers if n.row == row]
        values = {n.column: f"{n.value:.2f}" for n in own}
        notes = "; ".join(dict.fromkeys(n.note for n in own if n.note))
        rows.append([row, *(values.get(c, words.NOTHING) for c in columns), notes])
    how = setting(record.dataset)
    name = f"paper, {how.name}" if how else "paper"
    return Grid([name, *columns, "note"], rows, frozenset({name, "note"}))


def _number(value: Any) -> str:
    if value is None:
        return words.NOTHING
    return f"{value:.4g}" if isinstance(value, float) else f"{value:,}"


def _flat(values: dict[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Nested settings as dotted names and their values, for a two-column table."""
    pairs: list[tuple[str, str]] = []
    for key, value in values.items():
        if isinstance(value, dict) and value:
            pairs += _flat(value, f"{prefix}{key}.")
        else:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            pairs.append((f"{prefix}{key}", text))
    return pairs
