"""Several runs: those that differ only in the seed belong together."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from eec.report import words
from eec.report.beside import paper_accuracy
from eec.report.folder import RunRecord

# A seed decides these, or they say where a run was made and not what it was.
NOT_COMPARED = {"seed", "command", "place", "originals", "nets"}
NOT_COMPARED_IN_STREAM = {"class_order", "notices"}
NOT_COMPARED_IN_OPTIONS = {"expected"}
NEVER_NAMED = {"method", "strict"}


@dataclass(frozen=True)
class Group:
    """Runs with one configuration and different seeds."""

    name: str
    records: list[RunRecord]

    def at(self, k: int) -> list[float]:
        """A_k of the runs that came as far as k."""
        lines = [m for record in self.records for m in record.measures]
        return [m["accuracy"] for m in lines if m["classes_seen"] == k]

    def counts(self) -> list[int]:
        return sorted({m["classes_seen"] for r in self.records for m in r.measures})


def group_runs(records: Sequence[RunRecord]) -> list[Group]:
    """In the order given; each is called by what sets it apart from the others."""
    gathered: dict[tuple[str, int], list[RunRecord]] = {}
    for record in records:
        key = json.dumps(_compared(record), sort_keys=True)
        # A seed that was run again says nothing of what other seeds would: a group of its own.
        again = next(n for n in count() if record.seed not in _seeds(gathered.get((key, n), [])))
        gathered.setdefault((key, again), []).append(record)
    settings = [_flat(_compared(runs[0])) for runs in gathered.values()]
    differing = [
        key
        for key in dict.fromkeys(key for one in settings for key in one)
        if len({json.dumps(one.get(key)) for one in settings}) > 1 and key not in NEVER_NAMED
    ]
    names: list[str] = []
    for runs, one in zip(gathered.values(), settings, strict=True):
        same_method = [
            other
            for others, other in zip(gathered.values(), settings, strict=True)
            if others[0].method == runs[0].method
        ]
        names.append(_name(runs[0], one, same_method, differing))
    names = [
        name if names.count(name) == 1 else f"{name}, {runs[0].path.name}"
        for name, runs in zip(names, gathered.values(), strict=True)
    ]
    return [Group(n, runs) for n, runs in zip(names, gathered.values(), strict=True)]


def _seeds(records: Sequence[RunRecord]) -> list[object]:
    return [record.seed for record in records]


def _name(
    record: RunRecord, own: dict[str, Any], alike: list[dict[str, Any]], differing: list[str]
) -> str:
    """The method, and what differs from the other groups of the same method."""
    said = [
        f"{key.rpartition('.')[2]}={words.short_label(own.get(key), 24)}"
        for key in differing
        if len({json.dumps(one.get(key)) for one in alike}) > 1 or key == "dataset"
    ]
    return ", ".join([words.method_name(record.config), *said])


def _compared(record: RunRecord) -> dict[str, Any]:
    config = {k: v for k, v in record.config.items() if k not in NOT_COMPARED}
    if isinstance(options := config.get("options"), dict):
        config["options"] = {k: v for k, v in options.items() if k not in NOT_COMPARED_IN_OPTIONS}
    stream = {k: v for k, v in record.stream.items() if k not in NOT_COMPARED_IN_STREAM}
    return config | {"stream": stream}


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    pairs: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            pairs |= _flat(value, f"{prefix}{key}.")
        else:
            pairs[f"{prefix}{key}"] = value
    return pairs


def mean_and_spread(values: Sequence[float], digits: int = 2) -> str:
    """Mean, and standard deviation where there is more than one value."""
    mean = f"{statistics.fmean(values):.{digits}f}"
    return mean if len(values) < 2 else f"{mean} ± {statistics.stdev(values):.{digits}f}"


GROUP_COLUMNS = ("runs", "n", "k", "A_k %", "average %", "memory", "classifier", "time", "paper")
GROUP_TEXT = frozenset({"runs", "paper"})


def group_cells(group: Group) -> list[str]:
    """One row of the table, aligned with GROUP_COLUMNS; runs cut short count as far as all came."""
    k = min(record.last["classes_seen"] for record in group.records)
    records = [
        replace(record, measures=[m for m in record.measures if m["classes_seen"] <= k])
        for record in group.records
    ]
    last = [record.last for record in records]
    printed = paper_accuracy(records[0])
    nets = [n for m in last if (n := words.classifier_bytes(m)) is not None]
    return [
        group.name,
        str(len(records)),
        str(k),
        mean_and_spread(group.at(k)),
        mean_and_spread([words.final_average(record) for record in records]),
        words.human_bytes(statistics.fmean(words.memory_bytes(m) for m in last)),
        words.human_bytes(statistics.fmean(nets) if nets else None),
        words.human_seconds(statistics.fmean(words.run_seconds(r) for r in records)),
        words.NOTHING
        if printed is None
        else f"{printed.row} {printed.value:.2f} ({printed.table}, {printed.column})",
    ]
