"""Where tests find real data, and the short training that most of them are content with."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

from eec.data.catalog import load_dataset
from eec.data.dataset import Dataset
from eec.data.labels import Label
from eec.data.stream import Task
from eec.memory import codec
from eec.training.recipes import RECIPES, Plan, Recipe
from eec.training.runtime import Runtime, choose_runtime

PREPARE = Path(__file__).resolve().parents[2] / "shared" / "data" / "prepare.py"


@pytest.fixture(scope="session")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with real data sets: EEC_DATA, or one that is prepared for this session.

    Some sets need the network to be prepared: one that is not there is skipped by its tests.
    """
    if chosen := os.environ.get("EEC_DATA"):
        yield Path(chosen)
        return
    if not PREPARE.exists():
        pytest.skip("no real data: set EEC_DATA to a data folder")
    folder = tmp_path_factory.mktemp("data")
    for name in ("mnist", "fashion-mnist", "cifar10", "svhn", "tiny-imagenet-50"):
        subprocess.run([sys.executable, PREPARE, folder, name], capture_output=True, timeout=200)
    yield folder
    shutil.rmtree(folder)  # pytest would keep three of them


@pytest.fixture(scope="session")
def cpu() -> Runtime:
    return choose_runtime("cpu", "float32")


@pytest.fixture(scope="session")
def digits() -> Dataset:
    """The embedded digits: real images, grey 32x32."""
    return load_dataset("digits")


@pytest.fixture(scope="session")
def digit_images(digits: Dataset) -> Callable[..., Tensor]:
    """`digit_images(3, 5)`: the first five training images of a three; `skip` passes some over."""

    def images(digit: int, count: int, skip: int = 0) -> Tensor:
        members = [i for i, label in enumerate(digits.train_labels) if label == digit]
        return digits.train_images[members[skip : skip + count]]

    return images


@pytest.fixture(scope="session")
def task_of(digit_images: Callable[..., Tensor]) -> Callable[..., Task]:
    """`task_of(3, 7)`: a task of threes and sevens, `each` of them, called what `name` says."""

    def task(
        *wanted: int, each: int = 3, skip: int = 0, name: Callable[[int], Label] = int
    ) -> Task:
        images = torch.cat([digit_images(digit, each, skip) for digit in wanted])
        return Task(images, [name(digit) for digit in wanted for _ in range(each)])

    return task


@pytest.fixture
def short_recipe(monkeypatch: pytest.MonkeyPatch) -> Recipe:
    """In place of `fast`: a few steps, which teach little and take no time."""
    sgd = Plan("sgd", rate=0.05, batch=6, steps=2, weight_decay=5e-4)
    adam = Plan("adam", rate=2e-3, batch=6, steps=1, clip=1.0)
    recipe = Recipe(sgd, sgd, adam, adam, crop=2, gan=adam)
    monkeypatch.setitem(RECIPES, "fast", recipe)
    # Every autoencoder of so few steps is poor: no second attempt would change that.
    monkeypatch.setattr(codec, "ATTEMPTS", 1)
    return recipe
