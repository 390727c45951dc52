"""A run folder as `eec run` leaves it, made by hand."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eec.evaluation import measures as m
from eec.report.folder import RunRecord, read_run

Make = Callable[..., RunRecord]

ENVIRONMENT = {
    "eec": "0.1.0",
    "python": "3.11.9",
    "torch": "2.13.0",
    "numpy": "2.4.6",
    "platform": "Linux-6.1-x86_64",
    "cpu": "a processor",
    "cores": 2,
    "threads": 2,
    "device": "cpu",
    "precision": "bf16",
    "revision": "0123abc",
    "started": "2025-03-01T12:00:00",
}


def config(
    labels: Sequence[Any], dataset: str, method: str, per_class: int | None
) -> dict[str, Any]:
    return {
        "dataset": dataset,
        "method": method,
        "options": {"codec": "frozen", "new_images": "decoded", "see": "real"},
        "seed": 0,
        "stream": {
            "classes_per_increment": 1,
            "order": "natural",
            "class_order": list(labels),
            "per_class": per_class,
            "validation": 0,
            "size": 32,
            "judged_on": "test",
        },
        "command": f"eec run {dataset} --method {method} --per-class {per_class} --seed 0",
    }


def lines(labels: Sequence[Any], hit: float = 0.97, plain: bool = False) -> list[dict[str, Any]]:
    """One class an increment; `plain` is a method that neither decodes nor remembers."""
    found: list[dict[str, Any]] = []
    history: list[list[float | None]] = []
    for k in range(1, len(labels) + 1):
        counts = np.zeros((k, k), dtype=np.int64)
        for i in range(k):
            counts[i, i] = 1000 if i == k - 1 else max(0, round(1000 * (hit - 0.002 * i)))
            counts[i, k - 1] += 1000 - counts[i].sum()
        history.append(m.accuracy_by_task(counts, [[i] for i in range(k)]))
        by_class = m.accuracy_by_class(counts)
        reached = [line["accuracy"] for line in found] + [m.accuracy(counts)]
        gap = [
            {
                "class": labels[i],
                "real": by_class[i],
                "reconstructed": (by_class[i] or 0) - 0.8,
                "remembered": 99.5 - 0.1 * i,
            }
            for i in range(k)
        ]
        decay = [
            {"task": t, "original": 99.9, "decoded": 99.5, "weight": 0.996} for t in range(1, k)
        ]
        quality = {
            "pixel_error": 0.0123,
            "unexplained": 0.031,
            "recognised": 99.2,
            "steps": 1200,
            "attempts": 1,
            "good": True,
        }
        found.append(
            {
                "increment": k,
                "classes_seen": k,
                "classes": list(labels[:k]),
                "new_classes": [labels[k - 1]],
                "accuracy": reached[-1],
                "macro_accuracy": m.macro_accuracy(counts),
                "average_incremental_accuracy": m.average_incremental_accuracy(reached),
                "accuracy_by_class": by_class,
                "accuracy_by_task": history[-1],
                "forgetting": m.forgetting(history),
                "backward_transfer": m.backward_transfer(history),
                "confusion": counts.tolist(),
                "newest_share": m.newest_share(counts, [k - 1]),
                "gap": None if plain else gap,
                "decay": None if plain else decay,
                "autoencoder": None if plain else quality,
                "bytes": {
                    "episodes": None if plain else 512_000 * k,
                    "codecs": None if plain else 104_000,
                    "labels": 2_000 * k,
                    "classifier": 2_811_000,
                },
                "seconds": {
                    "rehearse": 0.4 * k,
                    "train classifier": 4.0 * k,
                    "train autoencoder": None if plain else (22.0 if k == 1 else 0.0),
                    "store": 0.3,
                    "evaluate": 0.5,
                },
                "note": "A_1 of one class says nothing." if k == 1 else None,
            }
        )
    return found


@pytest.fixture
def make_run(tmp_path: Path) -> Make:
    """Writes a run folder and reads it back; keyword arguments vary the run."""
    counter = iter(range(100))

    def make(
        labels: Sequence[Any] = (0, 1, 2, 3),
        dataset: str = "mnist",
        method: str = "eec",
        per_class: int | None = 500,
        hit: float = 0.97,
        plain: bool = False,
        alter: Callable[[list[dict[str, Any]]], None] | None = None,
    ) -> RunRecord:
        folder = tmp_path / f"run{next(counter)}"
        folder.mkdir()
        measures = lines(labels, hit, plain)
        if alter:
            alter(measures)
        setup = config(labels, dataset, method, per_class)
        (folder / "config.json").write_text(json.dumps(setup))
        (folder / "environment.json").write_text(json.dumps(ENVIRONMENT))
        text = "".join(json.dumps(line) + "\n" for line in measures)
        (folder / "measures.jsonl").write_text(text)
        return read_run(folder)

    return make
