"""An experiment of the paper as tables: what it printed, what was measured here, what holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from eec.evaluation.compare import CONFIDENCE, Difference, paired_difference, spread
from eec.paper.protocol import Block, Experiment, Line
from eec.paper.published import AVERAGE, GIGABYTES, MEGABYTES, Published, published, setting
from eec.report.comparison import interval, plus_minus, signed
from eec.report.folder import RunRecord
from eec.report.page import Grid
from eec.report.words import (
    NOTHING,
    final_average,
    human_bytes,
    human_seconds,
    images_used,
    increments_used,
    memory_bytes,
    run_seconds,
    total,
)

Records = Mapping[int, RunRecord]  # by seed
VERDICTS = {"higher": "holds", "lower": "does not hold", "undecided": "undecided"}
SMALL = "EEC (K=5000)"
CODES = ("episodes", "concepts", "counts")  # parts of a learner that grow with what is kept


@dataclass(frozen=True)
class Part:
    """One block with its runs, by the names of its lines; those that are finished."""

    block: Block
    runs: Mapping[str, Records]

    @property
    def lines(self) -> list[tuple[Line, Records]]:
        return [(line, found) for line in self.block.lines if (found := self.runs.get(line.name))]

    @property
    def records(self) -> list[RunRecord]:
        return [record for _, found in self.lines for record in found.values()]


@dataclass(frozen=True)
class Result:
    name: str
    experiment: Experiment
    scale: str
    seeds: int
    parts: list[Part]
    left_out: list[str]  # lines that could not be run, and why
    command: str
    timing: str = ""  # what was expected and what it took

    @property
    def records(self) -> list[RunRecord]:
        return [record for part in self.parts for record in part.records]


@dataclass(frozen=True)
class Measure:
    """A column: an A_k, or the average over the increments."""

    k: int | None

    @property
    def name(self) -> str:
        return "average" if self.k is None else f"A_{self.k}"

    def of(self, record: RunRecord) -> float | None:
        if self.k is None:
            return final_average(record)
        found = [m["accuracy"] for m in record.measures if m["classes_seen"] == self.k]
        return float(found[-1]) if found else None

    def over(self, runs: Records) -> dict[int, float]:
        values = {seed: self.of(record) for seed, record in runs.items()}
        return {seed: value for seed, value in values.items() if value is not None}

    def printed(self, block: Block, row: str) -> Published | None:
        column = AVERAGE if self.k is None else self.name
        return next((n for n in _table(block) if n.row == row and n.column == column), None)


def measures(block: Block) -> list[Measure]:
    return [*(Measure(k) for k in block.ks), *([Measure(None)] if block.average else [])]


def _table(block: Block) -> list[Published]:
    return [number for number in published(block.paper) if number.table == block.table]


def part_name(block: Block) -> str:
    return block.dataset if block.size is None else f"{block.dataset}, {block.size} pixels"


# Tables.


def grids(result: Result) -> list[Grid]:
    """All tables of an experiment, in the order in which they are read."""
    made = []
    for part in result.parts:
        if not part.records:
            continue
        made.append(accuracy_grid(part))
        if result.experiment.shows == "bytes":
            made.append(bytes_grid(part))
        if part.block.orders:
            made.append(order_grid(part))
    return [grid for grid in made if grid.rows]


def accuracy_grid(part: Part) -> Grid:
    """Our lines, then the rows that the paper alone has; letters lead to what is said of a row."""
    block, marks = part.block, Marks()
    heads = [head for m in measures(block) for head in (m.name, "paper")]
    rows = [_accuracy_row(block, line, runs, marks) for line, runs in part.lines]
    rows += [_printed_row(block, row, marks) for row in _others(part)]
    paper = f"; in brackets the paper's row, whose numbers are of {block.table}"
    caption = (
        "In percent, mean ± standard deviation over n seeds"
        f"{paper if _table(block) else ''}. Newest: how many points too many test images are "
        "called by the newest names in the end (by a classifier that forgets, or that reads the "
        "traces of a decoder). Memory is what is kept beside the classifier; these and the time "
        f"are means.{marks}"
    )
    columns = ["", "n", *heads, "newest", "memory", "time"]
    empty = {i for i, head in enumerate(columns) if head == "paper" and not _table(block)}
    columns, *rows = (
        [cell for i, cell in enumerate(row) if i not in empty] for row in (columns, *rows)
    )
    return Grid(part_name(block), columns, rows, frozenset({""}), caption)


class Marks:
    """Letters for what the paper's numbers need to have said of them."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def of(self, numbers: Sequence[Published | None]) -> str:
        found = dict.fromkeys(number.note for number in numbers if number and number.note)
        self.notes += [note for note in found if note not in self.notes]
        return "".join(f" [{'abcdefghijkl'[self.notes.index(note)]}]" for note in found)

    def __str__(self) -> str:
        return "".join(
            f" [{letter}]: {note}."
            for letter, note in zip("abcdefghijkl", self.notes, strict=False)
        )


def _accuracy_row(block: Block, line: Line, runs: Records, marks: Marks) -> list[str]:
    printed = [measure.printed(block, line.row) for measure in measures(block)]
    name = f"{line.name} ({line.row})" if any(printed) else line.name
    cells = [name + marks.of(printed), str(len(runs))]
    for measure, number in zip(measures(block), printed, strict=True):
        values = list(measure.over(runs).values())
        cells.append(plus_minus(spread(values)) if values else NOTHING)
        cells.append(f"{number.value:.2f}" if number else NOTHING)
    records = list(runs.values())
    kept = spread([memory_bytes(record.last) for record in records]).mean
    taken = spread([run_seconds(record) for record in records]).mean
    return [*cells, _newest(records), human_bytes(kept), human_seconds(taken)]


def _newest(records: Sequence[RunRecord]) -> str:
    shares = [record.last.get("newest_share") for record in records]
    found = [share["called"] - share["true"] for share in shares if share]
    return signed(spread(found).mean) if found else NOTHING


def _others(part: Part) -> list[str]:
    """Rows that the paper printed and that have no line of ours."""
    own = {line.row for line, _ in part.lines}
    columns = {AVERAGE if m.k is None else m.name for m in measures(part.block)}
    found = [n.row for n in _table(part.block) if n.column in columns]
    return [row for row in dict.fromkeys(found) if row not in own]


def _printed_row(block: Block, row: str, marks: Marks) -> list[str]:
    printed = [measure.printed(block, row) for measure in measures(block)]
    cells = [f"the paper's {row}{marks.of(printed)}", NOTHING]
    for number in printed:
        cells += [NOTHING, f"{number.value:.2f}" if number else NOTHING]
    return [*cells, NOTHING, NOTHING, NOTHING]


def order_grid(part: Part) -> Grid:
    """Which of the paper's orderings hold here, seed by seed."""
    rows = []
    for first, second in part.block.orders:
        runs = [part.runs.get(name) or {} for name in (first, second)]
        for measure in measures(part.block):
            found = paired_difference(measure.over(runs[0]), measure.over(runs[1]))
            if found is not None:
                rows.append(_order_row(part.block, (first, second), measure, found))
    columns = (
        *("ahead", "of", "at", "paper", "here", f"{CONFIDENCE * 100:.0f} % interval", "n"),
        "this ordering",
    )
    caption = (
        "Differences in points, of runs with the same seed. One seed decides nothing. Where the "
        "paper has no number, the ordering is ours to ask about."
    )
    left = frozenset({"ahead", "of", "at", "this ordering"})
    return Grid(f"Orderings, {part_name(part.block)}", columns, rows, left, caption)


def _order_row(
    block: Block, names: tuple[str, str], measure: Measure, found: Difference
) -> list[str]:
    row_of = {line.name: line.row for line in block.lines}
    printed = [measure.printed(block, row_of[name]) for name in names]
    first, second = (number.value if number else None for number in printed)
    paper = NOTHING if first is None or second is None else signed(first - second)
    return [
        *names,
        measure.name,
        paper,
        signed(found.mean),
        interval(found),
        str(found.n),
        VERDICTS[found.verdict],
    ]


def bytes_grid(part: Part) -> Grid:
    """Bytes by part, as they were kept, beside the paper's megabytes."""
    columns = (
        *("", "training images", "codes", "a training image", "codecs", "real images"),
        *("classifier", "everything", "the paper"),
    )
    rows = [_bytes_row(part.block, line, runs) for line, runs in part.lines]
    own = {line.row for line in part.block.lines}
    others = dict.fromkeys(n.row for n in _table(part.block) if n.row not in own)
    rows += [[*[NOTHING] * 8, _megabytes(part.block, row)] for row in others]
    caption = (
        "Means over seeds, after the last increment. Codes are episodes, concepts and counts; of "
        "the paper's they are 1,024 bytes a training image with unlimited memory."
    )
    return Grid("Bytes by part", columns, rows, frozenset({"", "the paper"}), caption)


def _bytes_row(block: Block, line: Line, runs: Records) -> list[str]:
    def mean(*names: str) -> float:
        sums = [sum(r.last["bytes"].get(name) or 0 for name in names) for r in runs.values()]
        return spread(sums).mean

    everything = spread([total(r.last["bytes"]) for r in runs.values()]).mean
    options = next(iter(runs.values())).config.get("options") or {}
    images = options.get("expected") or 0
    # Methods that keep images have counts, too.
    codes = mean(*CODES) if mean("episodes", "concepts") else 0.0
    real = mean("images")
    return [
        line.name,
        f"{images:,}" if images else NOTHING,
        human_bytes(codes) if codes else NOTHING,
        f"{(codes or real) / images:,.0f} B" if images else NOTHING,
        human_bytes(mean("codecs")) if codes else NOTHING,
        human_bytes(real) if real else NOTHING,
        human_bytes(mean("classifier")),
        human_bytes(everything),
        _megabytes(block, line.row),
    ]


def _megabytes(block: Block, row: str) -> str:
    units = {MEGABYTES: "MB", GIGABYTES: "GB"}
    found = [n for n in _table(block) if n.row == row and n.column in units]
    said = [f"{n.value:g} {units[n.column]} {n.note}".strip() for n in found]
    return f"{row}: {'; '.join(said)}" if said else NOTHING


# What differs from the published protocol.


def differences_of(result: Result) -> list[str]:
    told = [line for part in result.parts if part.records for line in _differences(part)]
    found = list(dict.fromkeys(told))
    counts = {len(runs) for part in result.parts for _, runs in part.lines}
    if counts and counts != {10}:
        fewest, most = min(counts), max(counts)
        seeds = f"{fewest} to {most} seeds" if fewest < most else _count(most, "seed")
        found.append(f"{seeds} here; the paper averaged 10 runs.")
    if any(record.method == "eec" for record in result.records):
        found.append("eec is our matched form; the paper's EEC, unchanged, is eec-published.")
    return found


def _differences(part: Part) -> list[str]:
    block, record = part.block, part.records[0]
    how = setting(block.paper)
    name, found = part_name(block), []
    if block.size is not None:
        found.append(f"{block.dataset}: images of {block.size} pixels a side.")
    if how is None:
        return [*found, f"{block.dataset} is not in the paper; here, {images_used(record)}."]
    if how.name.replace("-", "").lower() != block.dataset.replace("-", ""):
        found.append(f"{block.dataset} stands in for {how.name}, which is larger.")
    if record.stream.get("per_class") is not None:
        found.append(
            f"{name}: {images_used(record)}; the paper had {how.training_images:,} in all."
        )
    if record.stream.get("classes_per_increment") != how.classes_per_increment:
        classes = _count(how.classes_per_increment, "class", "classes")
        found.append(f"{name}: {increments_used(record)}; the paper's had {classes}.")
    recipes = {str((r.config.get("options") or {}).get("recipe")) for r in part.records}
    if recipes - {"paper"}:
        found.append(
            f"Recipe {', '.join(sorted(recipes - {'paper'}))}, which is far shorter than the "
            "paper's 200 epochs and 45 for each later task."
        )
    nets = {
        str((r.config.get("nets") or {}).get("classifier", {}).get("name")) for r in part.records
    }
    found.append(f"{name}: the classifier is {', '.join(sorted(nets))} in all rows.")
    scaled = {line.options.get("memory") for line, _ in part.lines if line.row == SMALL} - {"5000"}
    if scaled:
        found.append(
            f"K={', '.join(map(str, scaled))} is to the images here as the paper's 5,000 slots are "
            f"to its {how.training_images:,}."
        )
    return found


def _count(number: int, one: str, more: str = "") -> str:
    return f"{number} {one if number == 1 else more or one + 's'}"
