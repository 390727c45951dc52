"""What each part of the default recipe is worth: with all of them, and without one at a time.

    python benchmarks/recipe.py DATA cifar10 --per-class 1000
    python benchmarks/recipe.py DATA cifar10 --per-class 1000 --method eec --classes-per-increment 1

A tenth of the training images is held out, and judges; test images are not looked at. All classes
at once by `joint` is quick; class by class with `eec` is what the recipe is for. Seconds are of
the processor: with OMP_NUM_THREADS=1 they can be compared whatever else is running.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch
from whole_runs import spread_words

from eec.data.catalog import load_dataset
from eec.data.dataset import Dataset
from eec.data.stream import Stream, make_stream
from eec.methods.registry import choose_options, make_method
from eec.training.recipes import Recipe, find_recipe
from eec.training.runtime import choose_runtime


def variants() -> Iterator[tuple[str, Recipe]]:
    fast = find_recipe("fast")
    yield "the recipe", fast
    yield "plain SGD, not Muon", changed(fast, optimizer="sgd")
    # As many images, and the rate that batches of 64 had.
    later = fast.later
    half = {"batch": later.batch // 2, "most_steps": 2 * (later.most_steps or 0)}
    yield "half the batch", changed(fast, **half, rate=later.rate / 2**0.5)
    yield "half the rate", changed(fast, rate=fast.later.rate / 2)
    yield "twice the rate", changed(fast, rate=fast.later.rate * 2)
    yield "images large from the start", changed(fast, early=0.0)
    yield "no smoothing of labels", replace(fast, smoothing=0.0)
    yield "named one way round", replace(fast, mirrored=False)


def changed(recipe: Recipe, **parts: object) -> Recipe:
    """With another plan for the classifier."""
    first, later = (replace(plan, **parts) for plan in (recipe.first, recipe.later))  # type: ignore[arg-type]
    return replace(recipe, first=first, later=later)


def learn(stream: Stream, dataset: Dataset, method: str, recipe: Recipe, seed: int) -> float:
    """Percent of the held-out images that are called by their name in the end."""
    options = choose_options(method, flip=dataset.flip, turn=dataset.turn)
    learner = make_method(method, options, seed, choose_runtime())
    learner.recipe = recipe
    for increment in stream.increments:
        learner.learn(increment.task)
    tests = [increment.test for increment in stream.increments]
    called = learner.predict(torch.cat([test.images for test in tests]))
    labels = [label for test in tests for label in test.labels]
    return 100 * sum(a == b for a, b in zip(called, labels, strict=True)) / len(labels)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data", type=Path, help="folder of the data sets")
    parser.add_argument("dataset", help="such as cifar10")
    parser.add_argument("--method", default="joint")
    parser.add_argument("--per-class", type=int, default=1000, help="images of a class, all told")
    parser.add_argument("--classes-per-increment", type=int, help="[all at once]")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--only", help="parts of the names of those that are wanted, with commas")
    given = parser.parse_args()
    dataset = load_dataset(given.dataset, given.data)
    wanted = given.only.split(",") if given.only else [""]
    print(f"{given.dataset}, {given.method}, {torch.get_num_threads()} threads")
    print("| | held-out images right (%) | processor s |\n|---|--:|--:|")
    for name, recipe in variants():
        if not any(part in name for part in wanted):
            continue
        began, right = time.process_time(), []
        for seed in range(given.seeds):
            stream = make_stream(
                dataset,
                classes_per_increment=given.classes_per_increment or len(dataset.classes),
                per_class=given.per_class,
                validation=0.1,
                seed=seed,
            )
            right.append(learn(stream, dataset, given.method, recipe, seed))
        spent = (time.process_time() - began) / given.seeds
        print(f"| {name} | {spread_words(right)} | {spent:.0f} |", flush=True)


if __name__ == "__main__":
    main()
