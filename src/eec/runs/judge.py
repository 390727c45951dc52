"""What is measured after each increment."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch

from eec.data.labels import Label
from eec.data.stream import Increment
from eec.evaluation import measures
from eec.methods.contract import Method, OnPhase, Report

GAP_IMAGES = 200  # of each class: enough for a percent, few enough to cost nothing

Measures = dict[str, Any]


class Judge:
    """Measures a method after each increment and remembers what it needs of earlier ones."""

    def __init__(self) -> None:
        self.increments: list[Increment] = []
        self.tasks: list[list[int]] = []  # indices of the classes that were new in each increment
        self.accuracies: list[float] = []
        self.rows: list[list[float | None]] = []  # R
        # Test images as coded and decoded by codecs that are kept as decoders only.
        self.decoded: dict[Label, torch.Tensor] = {}

    def recall(self, increment: Increment, line: Measures) -> None:
        """An increment that was measured earlier, from its line."""
        index = {label: i for i, label in enumerate(line["classes"])}
        self.increments.append(increment)
        self.tasks.append([index[label] for label in increment.new_classes])
        self.accuracies.append(line["accuracy"])
        self.rows.append(line["accuracy_by_task"])

    def measure(
        self, method: Method, increment: Increment, report: Report, on_phase: OnPhase
    ) -> Measures:
        began = time.perf_counter()
        on_phase("evaluate")
        index = {label: i for i, label in enumerate(method.classes)}
        self.increments.append(increment)
        self.tasks.append([index[label] for label in increment.new_classes])
        truth, calls, gap = self._ask(method, index)
        matrix = measures.confusion(truth, calls, len(index))
        self.accuracies.append(measures.accuracy(matrix))
        self.rows.append(measures.accuracy_by_task(matrix, self.tasks))
        line: Measures = {
            "increment": increment.number,
            "classes_seen": len(index),
            "classes": list(method.classes),
            "new_classes": list(increment.new_classes),
            "accuracy": self.accuracies[-1],
            "macro_accuracy": measures.macro_accuracy(matrix),
            "average_incremental_accuracy": measures.average_incremental_accuracy(self.accuracies),
            "accuracy_by_class": measures.accuracy_by_class(matrix),
            "accuracy_by_task": self.rows[-1],
            "forgetting": measures.forgetting(self.rows),
            "backward_transfer": measures.backward_transfer(self.rows),
            "confusion": matrix.tolist(),
            "newest_share": measures.newest_share(matrix, self.tasks[-1]),
            "gap": gap,
            "decay": report.decay,
            "autoencoder": report.autoencoder,
            "pseudo": report.pseudo,
            "strict": method.strict,
            "bytes": method.bytes_by_part(),
            "seconds": report.seconds,
            "note": " ".join(report.notes) or None,
        }
        report.seconds["evaluate"] = time.perf_counter() - began
        return line

    def _ask(
        self, method: Method, index: dict[Label, int]
    ) -> tuple[np.ndarray, np.ndarray, list[Measures] | None]:
        """True and called class indices on the test images of all classes seen, and the gap.

        One increment's images at a time: all of them may be more than memory holds.
        """
        remembered = dict(method.remember(GAP_IMAGES))
        truths, calls, gap = [], [], []
        for increment in self.increments:
            test = increment.test
            truth = np.array([index[label] for label in test.labels])
            called = method.predict_proba(test.images).argmax(1)
            truths.append(truth)
            calls.append(called)
            if remembered:
                gap += self._gap(method, test.images, truth, called, remembered)
        gap.sort(key=lambda entry: index[entry["class"]])
        return np.concatenate(truths), np.concatenate(calls), gap or None

    def _gap(
        self,
        method: Method,
        images: torch.Tensor,
        truth: np.ndarray,
        calls: np.ndarray,
        remembered: dict[Label, torch.Tensor],
    ) -> list[Measures]:
        """By class, `D` on some real test images, on the same coded and decoded, and on memory."""
        gap = []
        for i in np.unique(truth):
            label = method.classes[i]
            chosen = np.flatnonzero(truth == i)[:GAP_IMAGES]
            decoded = method.reconstruct(images[torch.from_numpy(chosen)], label)
            if decoded is None:
                decoded = self.decoded.get(label)
            elif method.forgets_encoders:
                self.decoded[label] = decoded
            gap.append(
                {
                    "class": label,
                    "real": float(100 * (calls[chosen] == i).mean()),
                    "reconstructed": _share(method, decoded, i),
                    "remembered": _share(method, remembered[label], i),
                }
            )
        return gap


def _share(method: Method, images: torch.Tensor | None, target: int) -> float | None:
    if images is None or len(images) == 0:
        return None
    return float(100 * (method.predict_proba(images).argmax(1) == target).mean())
