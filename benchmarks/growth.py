"""What an increment costs as classes become many, with all of memory replayed and with a part.

    python benchmarks/growth.py DATA [--per-class 200] [--replay 666] [--size 16]

A hundred classes, ten an increment: the 50 of tiny-imagenet-50 and, as 50 further ones, their
negatives upside down. `eec` learns them twice, with all of memory in each epoch and with
`--replay-per-epoch`. Seconds are those of learning, without the training of the codec, which is
done once, in the first increment; what is left is fitted by a line, and the increment at 100
classes is told in units of the one at 10.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from eec.data.catalog import load_dataset
from eec.data.dataset import Dataset
from eec.data.labels import Label
from eec.data.stream import Stream, make_stream
from eec.methods.registry import choose_options, make_method
from eec.training.runtime import choose_runtime

ONCE = "train autoencoder"  # the phase that only the first increment has
BAR = 1.5


@dataclass
class Course:
    """One way through the stream."""

    name: str
    classes: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    accuracies: list[float] = field(default_factory=list)

    @property
    def growth(self) -> float:
        return self.seconds[-1] / self.seconds[0]

    def line(self) -> str:
        slope, start = np.polyfit(self.classes, self.seconds, 1)
        return (
            f"{self.name}: {start:.2f} s + {1000 * slope:.1f} ms a class; the increment at "
            f"{self.classes[-1]} classes takes {self.growth:.2f} times that at {self.classes[0]}"
        )


def hundred_classes(data: Path, size: int) -> Dataset:
    """Real pictures and their negatives upside down, which are other classes."""
    real = load_dataset("tiny-imagenet-50", data, size)
    images = {"train": real.train_images, "test": real.test_images}
    both = {part: torch.cat([one, 255 - one.flip(2)]) for part, one in images.items()}
    labels: dict[str, list[Label]] = {
        part: [*map(str, one), *(f"not {label}" for label in one)]
        for part, one in (("train", real.train_labels), ("test", real.test_labels))
    }
    return Dataset(
        "tiny-imagenet-50 and its negatives",
        both["train"],
        labels["train"],
        both["test"],
        labels["test"],
        flip=real.flip,
    )


def learn(stream: Stream, replay: int, name: str, seed: int) -> Course:
    options = choose_options("eec", flip=stream.flip, replay_per_epoch=replay)
    method = make_method("eec", options, seed, choose_runtime())
    course = Course(name)
    print(f"\n{name}\nclasses  accuracy  seconds  of these", flush=True)
    images: list[torch.Tensor] = []
    labels: list[Label] = []
    for increment in stream.increments:
        taken = method.learn(increment.task).seconds
        method.state()  # as a run saves it, out of the clock: it is not coded again
        test = increment.test
        images.append(test.images)
        labels += test.labels
        called = method.predict(torch.cat(images))
        right = 100 * float(np.mean([a == b for a, b in zip(called, labels, strict=True)]))
        course.classes.append(len(method.classes))
        course.seconds.append(sum(s for phase, s in taken.items() if phase != ONCE))
        course.accuracies.append(right)
        phases = ", ".join(f"{phase} {s:.1f}" for phase, s in taken.items())
        print(f"{course.classes[-1]:7}{right:9.1f}{course.seconds[-1]:10.1f}  {phases}", flush=True)
    return course


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("data", type=Path, help="data folder with tiny-imagenet-50")
    parser.add_argument("--per-class", type=int, default=200, help="training images a class")
    parser.add_argument(
        "--replay", type=int, help="old images an epoch; else a third as many as new ones"
    )
    parser.add_argument("--size", type=int, default=16, help="pixels a side")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    stream = make_stream(
        hundred_classes(given.data, given.size),
        classes_per_increment=10,
        order="shuffled",
        seed=given.seed,
        per_class=given.per_class,
    )
    replay = given.replay or 10 * given.per_class // 3
    print(
        f"{stream.name}: {given.per_class} images a class of {given.size} pixels a side, seed "
        f"{given.seed}, {torch.get_num_threads()} threads"
    )
    every = learn(stream, 0, "all of memory", given.seed)
    bounded = learn(stream, replay, f"--replay-per-epoch {replay}", given.seed)
    print()
    for course in (every, bounded):
        print(course.line())
    lost = every.accuracies[-1] - bounded.accuracies[-1]
    mean = float(np.mean(np.subtract(every.accuracies, bounded.accuracies)))
    print(
        f"the bound costs {lost:.1f} points of accuracy at {every.classes[-1]} classes, {mean:.1f} "
        f"on average; the bar of {BAR} times is {'met' if bounded.growth <= BAR else 'missed'}"
    )


if __name__ == "__main__":
    main()
