"""One HTML file that says what runs did: opens anywhere, needs no network."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined

from eec.files import write_whole
from eec.paper.published import Published, published, published_accuracy, setting
from eec.report import words
from eec.report.beside import differences, paper_accuracy, paper_average
from eec.report.chart_style import CONFIG, Chart
from eec.report.charts import run_charts
from eec.report.folder import RunRecord, joint_beside
from eec.report.groups import GROUP_COLUMNS, GROUP_TEXT, group_cells, group_runs
from eec.report.several import group_charts
from eec.report.strips import ORIGINAL, make_sheet, read_pictures
from eec.report.table import COLUMNS, GAP_MEANS, TEXT_COLUMNS, increment_cells
from eec.report.vega import vega_scripts


@dataclass(frozen=True)
class Card:
    """One large number with what it is and what to hold against it."""

    title: str
    value: str
    below: str


@dataclass(frozen=True)
class Grid:
    """A table of ready words; columns in `left` hold text, the others numbers."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: frozenset[str] = frozenset()
    caption: str = ""


def write_page(
    records: Sequence[RunRecord], path: Path, beside: Sequence[RunRecord] | None = None
) -> Path:
    """Write the page of one run, or of several; beside one: joint runs on the same stream."""
    if len(records) == 1:
        joint = joint_beside(records[0]) if beside is None else beside
        content = _one_run(records[0], joint)
    else:
        content = _several_runs(records)
    return write_whole(path, render(content))


def render(content: Mapping[str, Any]) -> str:
    """The page as text; `content` has what the template names."""
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    source = resources.files("eec.report").joinpath("page.html.jinja").read_text(encoding="utf-8")
    charts: list[Chart] = content["charts"]
    return environment.from_string(source).render(
        **content,
        chart_data={"config": CONFIG, "specs": {chart.name: chart.spec for chart in charts}},
        scripts=vega_scripts() if charts else "",
    )


def _one_run(record: RunRecord, joint: Sequence[RunRecord]) -> dict[str, Any]:
    sheet = make_sheet(read_pictures(record.path / "samples.safetensors"))
    config = {key: value for key, value in record.config.items() if key != "command"}
    grids = [_gap(record), _autoencoders(record), _pseudo(record), _decay(record), _paper(record)]
    increments = Grid(
        "By increment",
        COLUMNS,
        [increment_cells(m) for m in record.measures],
        frozenset(TEXT_COLUMNS),
        GAP_MEANS if record.last.get("gap") else "",
    )
    return {
        "title": words.run_name(record),
        "subtitle": _subtitle(record),
        "cards": _cards(record),
        "headlines": [_headline(record, joint)],
        "warnings": _warnings(record),
        "notes": _notes(record),
        "charts": run_charts(record, joint),
        "sheet": sheet,
        "sheet_words": _sheet_words(record, originals=sheet.originals),
        "original": ORIGINAL,
        "grids": [grid for grid in (increments, *grids) if grid.rows],
        "commands": [("", str(record.config.get("command") or ""))],
        "settings": [
            ("Configuration", _flat(config)),
            ("Environment", _flat(record.environment)),
        ],
    }


def _several_runs(records: Sequence[RunRecord]) -> dict[str, Any]:
    groups = group_runs(records)
    data_sets = dict.fromkeys(record.dataset for record in records)
    table = Grid(
        "The runs",
        GROUP_COLUMNS,
        [group_cells(group) for group in groups],
        GROUP_TEXT,
        "Mean ± standard deviation over n seeds; memory, classifier and time are means.",
    )
    notes = list(dict.fromkeys(note for r in records for note in differences(r)[:1]))
    real = dict.fromkeys(g.name for g in groups if g.records[0].config.get("strict") is False)
    if real:
        notes.append(f"Not strict, real images of old classes are kept: {', '.join(real)}.")
    unfinished = [f"{words.run_name(r)}: {said}" for r in records if (said := _unfinished(r))]
    return {
        "title": f"{len(records)} runs on {', '.join(data_sets)}",
        "subtitle": words.stream_words(records[0]) if len(groups) == 1 else "",
        "cards": [],
        "headlines": [table],
        "warnings": unfinished,
        "notes": notes,
        "charts": group_charts(groups),
        "sheet": None,
        "sheet_words": "",
        "original": ORIGINAL,
        "grids": [],
        "commands": [(words.run_name(r), str(r.config.get("command") or "")) for r in records],
        "settings": [],
    }


# The headline.


def _subtitle(record: RunRecord) -> str:
    started = record.environment.get("started")
    parts = [words.stream_words(record), f"started {started}" if started else ""]
    return " · ".join(part for part in parts if part)


def _unfinished(record: RunRecord) -> str:
    planned = record.stream.get("increments")
    done = len(record.measures)
    if not isinstance(planned, int) or done >= planned:
        return ""
    return f"{done} of {planned} increments are done; the numbers are those of increment {done}."


def _cards(record: RunRecord) -> list[Card]:
    last = record.last
    share = last.get("newest_share") or {}
    called, true = share.get("called"), share.get("true")
    judged = f"accuracy on {record.judged_on} images of all classes seen"
    cards = [
        Card(f"A_{last['classes_seen']}", f"{last['accuracy']:.2f} %", judged),
        Card("average over increments", f"{words.final_average(record):.2f} %", "mean of A_k"),
    ]
    if called is not None and true is not None:
        cards.append(Card("called newest", f"{called:.1f} %", f"true share {true:.1f} %"))
    classifier = words.human_bytes(words.classifier_bytes(last))
    count = len(record.measures)
    cards += [
        Card("memory", words.human_bytes(words.memory_bytes(last)), f"+ classifier {classifier}"),
        Card(
            "time",
            words.human_seconds(words.run_seconds(record)),
            f"{count} increment{'s' if count > 1 else ''}",
        ),
    ]
    return cards


def _headline(record: RunRecord, joint: Sequence[RunRecord]) -> Grid:
    """This run beside joint training and the paper; empty where it stands alone."""
    k = record.last["classes_seen"]
    rows = [_own(f"this run: {words.method_name(record.config)}", record)]
    # One that has not come as far, or went further, has no number to hold against ours.
    rows += [_own(other.method, other) for other in joint if other.last["classes_seen"] == k]
    rows += _printed(record)
    columns = ("", f"A_{k} %", "average %", "memory", "time", "where")
    left = frozenset({"", "where"})
    return Grid("Beside others", columns, rows if len(rows) > 1 else [], left)


def _own(name: str, record: RunRecord) -> list[str]:
    return [
        name,
        words.percent(record.last["accuracy"], 2),
        words.percent(words.final_average(record), 2),
        words.human_bytes(words.memory_bytes(record.last)),
        words.human_seconds(words.run_seconds(record)),
        record.path.resolve().name,
    ]


def _printed(record: RunRecord) -> list[list[str]]:
    """The paper's A_k and average, of this method and of joint training, with their places."""
    k = record.last["classes_seen"]
    reached = [paper_accuracy(record), published_accuracy(record.dataset, "JT").get(k)]
    found: dict[str, dict[str, Published]] = {}
    for column, numbers in (("A_k", reached), ("average", [paper_average(record)])):
        for number in numbers:
            if number is not None:
                found.setdefault(number.row, {})[column] = number
    return [
        [
            f"paper: {row}",
            *(f"{n[key].value:.2f}" if key in n else words.NOTHING for key in ("A_k", "average")),
            *[words.NOTHING] * 2,
            "; ".join(dict.fromkeys(f"{one.table}, {one.column}" for one in n.values())),
        ]
        for row, n in found.items()
    ]


def _warnings(record: RunRecord) -> list[str]:
    unfinished = _unfinished(record)
    bad = [
        f"Increment {m['increment']}: {_whose(quality)} (pixel error "
        f"{_number(quality.get('pixel_error'))}, recognised "
        f"{words.percent(quality.get('recognised'))} %). What it decodes is not to be trusted."
        for m in record.measures
        if (quality := m.get("autoencoder") or {}).get("good") is False
    ]
    return ([f"This run is not finished: {unfinished}"] if unfinished else []) + bad


def _whose(quality: dict[str, Any]) -> str:
    """Which autoencoder is poor, as the beginning of a sentence goes on."""
    if quality.get("trained") is False:
        return "the autoencoder of an earlier task keeps this one badly"
    return f"the autoencoder stayed bad after {quality.get('attempts') or 'all its'} attempts"


def _notes(record: RunRecord) -> list[str]:
    notes = [str(m["note"]) for m in record.measures if m.get("note")]
    if not notes and record.measures[0]["classes_seen"] == 1:
        notes.append("A_1 is 100 % with a single class and says nothing.")
    if record.config.get("strict") is False:
        notes.append("Not strict: real images of old classes are kept.")
    notes += [str(notice) for notice in record.stream.get("notices") or []]
    if record.judged_on != "test":
        notes.append(f"Judged on {record.judged_on} images, held out of the training data.")
    if _paper(record).rows:
        notes += differences(record)
    return list(dict.fromkeys(notes))


def _sheet_words(record: RunRecord, *, originals: bool) -> str:
    if originals:
        return (
            f"The rows called “{ORIGINAL}” are originals: a few test images that the run folder "
            "keeps for people to look at. Nothing is trained on them."
        )
    if record.config.get("originals") is False:
        return "There are no originals: the run was made with --no-originals."
    return ""


# Tables.


def _gap(record: RunRecord) -> Grid:
    columns = ("class", "real %", "reconstructed %", "remembered %", "reconstructed − real")
    rows = []
    for entry in record.last.get("gap") or []:
        real, again = entry.get("real"), entry.get("reconstructed")
        difference = None if real is None or again is None else again - real
        shares = (words.percent(value) for value in (real, again, entry.get("remembered")))
        rows.append([str(entry.get("class")), *shares, words.points(difference)])
    caption = (
        "The share called by their own name: real images, the same coded and decoded, and images "
        "decoded from memory, after the last increment."
    )
    return Grid("The gap, by class", columns, rows, frozenset({"class"}), caption)


def _autoencoders(record: RunRecord) -> Grid:
    columns = (
        *("increment", "pixel error", "unexplained", "bytes an image", "drift"),
        *("recognised %", "steps", "tries", "good"),
    )
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
                    _number(quality.get("bytes")),
                    _number(quality.get("drift")),
                    words.percent(quality.get("recognised")),
                    _number(quality.get("steps")),
                    _number(quality.get("attempts")),
                    good,
                ]
            )
    return Grid("Autoencoder", columns, rows)


def _pseudo(record: RunRecord) -> Grid:
    """What pseudo-rehearsal drew and what its filter refused, where there was any."""
    found = [(m["increment"], p) for m in record.measures if (p := m.get("pseudo"))]
    keys = ("images", "draws", "rejected", "filled")
    rows = []
    for number, pseudo in found:
        draws, rejected = pseudo.get("draws"), pseudo.get("rejected")
        share = 100 * rejected / draws if draws and rejected is not None else None
        rows.append(
            [str(number), *(_number(pseudo.get(key)) for key in keys), words.percent(share)]
        )
    columns = ("increment", *keys, "rejected %")
    caption = (
        "Images drawn from concepts, the draws that this took, those that the old classifier did "
        "not call by their name, and the places that were filled with such for want of better."
    )
    return Grid("Pseudo-rehearsal", columns, rows, caption=caption)


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
    caption = (
        "The accuracy of the classifier as it was before the last increment, on each old task's "
        "original and decoded images, and the weight that follows for its samples."
    )
    return Grid("Sample decay", columns, rows, caption=caption)


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
    left = frozenset({name, "note"})
    return Grid("What the paper printed", [name, *columns, "note"], rows, left)


def _number(value: Any) -> str:
    if value is None:
        return words.NOTHING
    return f"{value:.4g}" if isinstance(value, float) else f"{value:,}"


def _flat(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Nested settings as dotted names and their values, for a two-column table."""
    pairs: list[tuple[str, str]] = []
    for key, value in values.items():
        if isinstance(value, dict) and value:
            pairs += _flat(value, f"{prefix}{key}.")
        else:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            pairs.append((f"{prefix}{key}", text))
    return pairs
