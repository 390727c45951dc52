"""Our training loop against the plain one that most people would write, on the same work.

    python benchmarks/speed.py [--rounds 3]

Same nets, steps, batch sizes and images (the embedded digits), alternating in one process, so that
a busy machine slows both down; the ratio of the medians is what counts.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss
from torch.utils.data import DataLoader, Dataset

from eec.data.catalog import load_dataset
from eec.nets.autoencoder import Autoencoder
from eec.nets.classifiers import CLASSIFIERS, shape_of
from eec.training.batches import Batches
from eec.training.loop import train
from eec.training.recipes import Plan
from eec.training.runtime import choose_runtime, generator, seeded

CLASSIFIER = Plan("sgd", rate=0.05, batch=64, steps=60, weight_decay=5e-4)
AUTOENCODER = Plan("adam", rate=1e-3, batch=32, steps=60)
CROP = 2


class Pictures(Dataset[tuple[Tensor, int]]):
    """One PIL image at a time: pad, crop, to a float tensor."""

    def __init__(self, images: Tensor, targets: Tensor, crop: int) -> None:
        self.images = [Image.fromarray(image[0].numpy()) for image in images]
        self.targets = targets.tolist()
        self.crop = crop

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image = self.images[index]
        if self.crop:
            wide, high = image.size
            left, top = random.randint(0, 2 * self.crop), random.randint(0, 2 * self.crop)
            image = ImageOps.expand(image, self.crop).crop((left, top, left + wide, top + high))
        pixels = np.asarray(image, dtype=np.float32)[None] / 127.5 - 1
        return torch.from_numpy(pixels), self.targets[index]


def plain(
    net: nn.Module, data: Pictures, plan: Plan, loss: Callable[[Tensor, Tensor], Tensor]
) -> None:
    if plan.optimizer == "sgd":
        optimizer: torch.optim.Optimizer = torch.optim.SGD(
            net.parameters(), plan.rate, 0.9, weight_decay=plan.weight_decay, nesterov=True
        )
    else:
        optimizer = torch.optim.Adam(net.parameters(), plan.rate)
    net.train()
    done = 0
    while done < plan.steps:
        for images, targets in DataLoader(data, plan.batch, shuffle=True):
            optimizer.zero_grad()
            loss(images, targets).backward()
            optimizer.step()
            done += 1
            if done == plan.steps:
                return


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    dataset = load_dataset("digits", Path())
    images = dataset.train_images
    targets = torch.tensor([dataset.classes.index(label) for label in dataset.train_labels])
    runtime = choose_runtime()
    shape = shape_of(images)

    def classifier(ours: bool) -> Callable[[], object]:
        with seeded(0):
            net = CLASSIFIERS["tiny"](shape)
            net.grow(10)
        if not ours:
            data = Pictures(images, targets, CROP)
            return lambda: plain(net, data, CLASSIFIER, lambda x, y: cross_entropy(net(x), y))
        placed, batches = runtime.place(net), Batches(images, pad=CROP)
        return lambda: train(
            placed,
            batches,
            lambda x, index: cross_entropy(placed(x).float(), targets[index]),
            CLASSIFIER,
            runtime,
            generator(0),
        )

    def autoencoder(ours: bool) -> Callable[[], object]:
        with seeded(0):
            net = Autoencoder(shape, "16x8x8", "tanh")
        if not ours:
            data = Pictures(images, targets, 0)
            return lambda: plain(net, data, AUTOENCODER, lambda x, _: mse_loss(net(x), x))
        placed, batches = runtime.place(net), Batches(images)
        return lambda: train(
            placed,
            batches,
            lambda x, _: mse_loss(placed(x).float(), x),
            AUTOENCODER,
            runtime,
            generator(0),
        )

    print(f"{torch.get_num_threads()} threads, {runtime.precision}, {rounds} rounds, alternating")
    for name, work, plan in (
        ("classifier", classifier, CLASSIFIER),
        ("autoencoder", autoencoder, AUTOENCODER),
    ):
        times: dict[bool, list[float]] = {True: [], False: []}
        work(True)(), work(False)()  # warm up
        for _ in range(rounds):
            for ours in (True, False):
                times[ours].append(seconds(work(ours)))
        fast, slow = statistics.median(times[True]), statistics.median(times[False])
        count = plan.steps * plan.batch
        print(
            f"{name:12} ours {count / fast:6.0f} images/s, plain {count / slow:6.0f} images/s, "
            f"ratio {slow / fast:.2f}"
        )


if __name__ == "__main__":
    main()
