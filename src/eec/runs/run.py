"""One class-incremental experiment: learn, judge, write down, increment by increment."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

import numpy as np
import torch

from eec.data.catalog import load_dataset
from eec.data.labels import Label
from eec.data.stream import Increment, Stream, Task, make_stream
from eec.evaluation import measures
from eec.methods.archive import save_learner
from eec.methods.contract import Method, Report
from eec.methods.registry import make_method
from eec.runs.config import RunConfig
from eec.runs.environment import describe
from eec.runs.folder import RunFolder
from eec.training.loop import Progress
from eec.training.runtime import choose_runtime

GAP_IMAGES = 200  # of each class: enough for a percent, few enough to cost nothing
SHEET_IMAGES = 10

Measures = dict[str, Any]


class Watcher(Protocol):
    """Somebody who looks on while a run goes."""

    def begin(self, stream: Stream) -> None: ...
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


def prepare(config: RunConfig) -> tuple[Stream, Method]:
    """The stream and the untaught method; every mistake in the configuration shows here."""
    runtime = choose_runtime(config.device, config.precision)
    dataset = load_dataset(config.dataset, config.data_dir, config.size)
    stream = make_stream(
        dataset,
        classes_per_increment=config.classes_per_increment,
        order=config.class_order,
        seed=config.seed,
        per_class=config.per_class,
        validation=config.validation,
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
        folder.write_json("config.json", describe_config(config, stream, method))
        folder.write_json("environment.json", describe(method.runtime))
        return _go_through(stream, method, folder, watcher)
    except BaseException:
        if not folder.lines:
            folder.undo()
        raise


def _go_through(
    stream: Stream, method: Method, folder: RunFolder, watcher: Watcher
) -> list[Sample]:
    watcher.begin(stream)
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
            "classes_per_increment": config.classes_per_increment,
            "order": config.class_order,
            "class_order": list(stream.class_order),
            "per_class": config.per_class,
            "validation": config.validation,
            "size": config.size,
            "judged_on": stream.judged_on,
        },
        "command": config.command,
    }


class Judge:
    """Measures a method after each increment and remembers what it needs of earlier ones."""

    def __init__(self) -> None:
        self.tests: list[Task] = []
        self.tasks: list[list[int]] = []  # class indices of each task
        self.accuracies: list[float] = []
        self.rows: list[list[float | None]] = []  # R

    def measure(
        self, method: Method, increment: Increment, report: Report, watcher: Watcher
    ) -> Measures:
        began = time.perf_counter()
        watcher.phase("evaluate")
        index = {label: i for i, label in enumerate(method.classes)}
        self.tests.append(increment.test)
        self.tasks.append([index[label] for label in increment.task.classes])
        images, truth = self._seen(index)
        calls = method.predict_proba(images).argmax(1)
        matrix = measures.confusion(truth, calls, len(index))
        self.accuracies.append(measures.accuracy(matrix))
        self.rows.append(measures.accuracy_by_task(matrix, self.tasks))
        line: Measures = {
            "increment": increment.number,
            "classes_seen": len(index),
            "classes": list(method.classes),
            "new_classes": list(increment.task.classes),
            "accuracy": self.accuracies[-1],
            "macro_accuracy": measures.macro_accuracy(matrix),
            "average_incremental_accuracy": measures.average_incremental_accuracy(self.accuracies),
            "accuracy_by_class": measures.accuracy_by_class(matrix),
            "accuracy_by_task": self.rows[-1],
            "forgetting": measures.forgetting(self.rows),
            "backward_transfer": measures.backward_transfer(self.rows),
            "confusion": matrix.tolist(),
            "newest_share": measures.newest_share(matrix, self.tasks[-1]),
            "gap": _gap(method, images, truth, calls),
            "decay": report.decay,
            "autoencoder": report.autoencoder,
            "bytes": method.bytes_by_part(),
            "seconds": report.seconds,
            "note": " ".join(report.notes) or None,
        }
        report.seconds["evaluate"] = time.perf_counter() - began
        return line

    def _seen(self, index: dict[Label, int]) -> tuple[torch.Tensor, np.ndarray]:
        """The test images of all classes seen, each once, though a class may come in two tasks."""
        parts, truth, done = [], [], set[Label]()
        for test in self.tests:
            fresh = [i for i, label in enumerate(test.labels) if label not in done]
            parts.append(test.images[torch.tensor(fresh, dtype=torch.int64)])
            truth += [index[test.labels[i]] for i in fresh]
            done |= set(test.labels)
        return torch.cat(parts), np.array(truth)


def _gap(
    method: Method, images: torch.Tensor, truth: np.ndarray, calls: np.ndarray
) -> list[Measures] | None:
    """By class, `D` on some real test images, on the same coded and decoded, and on memory."""
    remembered = dict(method.remember(GAP_IMAGES))
    if not remembered:
        return None
    gap = []
    for i, label in enumerate(method.classes):
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
    for label in increment.test.classes:
        chosen = [i for i, other in enumerate(increment.test.labels) if other == label]
        test = increment.test.images[chosen[:SHEET_IMAGES]]
        decoded = method.reconstruct(test, label)
        samples.append(
            Sample(label, test.numpy(), None if decoded is None else decoded.numpy(), None)
        )
    return samples


def _with_memories(method: Method, samples: list[Sample]) -> list[Sample]:
    remembered = {label: images.numpy() for label, images in method.remember(SHEET_IMAGES)}
    return [Sample(s.label, s.test, s.decoded, remembered.get(s.label)) for s in samples]
