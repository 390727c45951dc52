"""One class-incremental experiment: learn, judge, write down, increment by increment."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from eec.data.catalog import load_dataset
from eec.data.labels import Label
from eec.data.stream import ORDERS, Increment, Stream, make_stream, read_class_order
from eec.evaluation import measures
from eec.methods.archive import save_learner
from eec.methods.contract import Method, Report
from eec.methods.registry import make_method
from eec.nets.classifiers import shape_of
from eec.runs.config import RunConfig
from eec.runs.environment import describe
from eec.runs.folder import RunFolder
from eec.training.loop import Progress, quiet
from eec.training.runtime import choose_runtime

GAP_IMAGES = 200  # of each class: enough for a percent, few enough to cost nothing
SHEET_IMAGES = 10

Measures = dict[str, Any]


class Watcher(Protocol):
    """Somebody who looks on while a run goes."""

    def begin(self, stream: Stream, nets: Measures) -> None: ...
    def increment(self, increment: Increment) -> None: ...
    def phase(self, name: str) -> Progress: ...
    def measured(self, line: Measures) -> None: ...


@dataclass(frozen=True)
class Sample:
    """A few images of a class, for people to look at: never ones that were trained on."""

    label: Label
    test: np.ndarray
    decoded: np.ndarray | None
    remembered: np.ndarray | None


def prepare(config: RunConfig, progress: Progress = quiet) -> tuple[Stream, Method]:
    """The stream and the untaught method; every mistake in the configuration shows here."""
    runtime = choose_runtime(config.device, config.precision)
    dataset = load_dataset(
        config.dataset,
        config.data_dir,
        config.size,
        seed=config.seed,
        strict=config.strict,
        progress=progress,
    )
    order: Any = config.class_order
    stream = make_stream(
        dataset,
        classes_per_increment=config.increments,
        order=order if order in ORDERS else read_class_order(Path(order), dataset.classes),
        seed=config.seed,
        per_class=config.per_class,
        validation=config.validation,
        returning=config.returning,
    )
    options = replace(config.options, flip=stream.flip)
    method = make_method(config.method, options, config.seed, runtime)
    method.check(stream.increments[0].task)
    return stream, method


def run(
    config: RunConfig, stream: Stream, method: Method, folder: RunFolder, watcher: Watcher
) -> list[Sample]:
    """Go through the stream; the folder has a line of measures and a learner after each task.

    A run that ends before its first line leaves no trace, and an earlier run as it was.
    """
    try:
        described = describe_config(config, stream, method)
        folder.write_json("config.json", described)
        folder.write_json("environment.json", describe(method.runtime))
        watcher.begin(stream, described["nets"])
        return _go_through(stream, method, folder, watcher)
    except BaseException:
        if not folder.lines:
            folder.undo()
        raise


def _go_through(
    stream: Stream, method: Method, folder: RunFolder, watcher: Watcher
) -> list[Sample]:
    judge = Judge()
    samples: list[Sample] = []
    for increment in stream.increments:
        watcher.increment(increment)
        report = method.learn(increment.task, watcher.phase)
        line = judge.measure(method, increment, report, watcher)
        samples += _new_samples(method, increment)
        save_learner(method, folder.learner)
        folder.add_measures(line)
        watcher.measured(line)
    return _with_memories(method, samples)


def describe_config(config: RunConfig, stream: Stream, method: Method) -> dict[str, Any]:
    return {
        "dataset": config.dataset,
        "method": config.method,
        "strict": method.strict,
        "options": asdict(method.options),
        "seed": config.seed,
        "stream": {
            "classes_per_increment": config.increments,
            "order": config.class_order,
            "class_order": list(stream.class_order),
            "per_class": config.per_class,
            "validation": config.validation,
            "returning": config.returning,
            "size": config.size,
            "judged_on": stream.judged_on,
            "notices": list(stream.notices),
        },
        "nets": method.nets(shape_of(stream.increments[0].train.images)),
        "command": config.command,
    }


class Judge:
    """Measures a method after each increment and remembers what it needs of earlier ones."""

    def __init__(self) -> None:
        self.increments: list[Increment] = []
        self.tasks: list[list[int]] = []  # indices of the classes that were new in each increment
        self.accuracies: list[float] = []
        self.rows: list[list[float | None]] = []  # R

    def measure(
        self, method: Method, increment: Increment, report: Report, watcher: Watcher
    ) -> Measures:
        began = time.perf_counter()
        watcher.phase("evaluate")
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
                gap += _gap(method, test.images, truth, called, remembered)
        gap.sort(key=lambda entry: index[entry["class"]])
        return np.concatenate(truths), np.concatenate(calls), gap or None


def _gap(
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


def _new_samples(method: Method, increment: Increment) -> list[Sample]:
    """Taken while the task's own codec can still encode."""
    samples = []
    images, labels = increment.judged.images, increment.judged.labels
    for label in increment.new_classes:
        chosen = [i for i, other in enumerate(labels) if other == label][:SHEET_IMAGES]
        test = method.view(images[increment.judged.index[chosen]])
        decoded = method.reconstruct(test, label)
        samples.append(
            Sample(label, test.numpy(), None if decoded is None else decoded.numpy(), None)
        )
    return samples


def _with_memories(method: Method, samples: list[Sample]) -> list[Sample]:
    remembered = {label: images.numpy() for label, images in method.remember(SHEET_IMAGES)}
    return [Sample(s.label, s.test, s.decoded, remembered.get(s.label)) for s in samples]
