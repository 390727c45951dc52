"""The data sets by name.

To add one: write a module beside this one with `load(request: Request) -> Dataset`, then add its
line to DATASETS, and to SOURCES in `sources.py` where it comes from. Modules are imported when they
are asked for: listing the sets needs no torch.
"""

import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from eec.errors import UserError
from eec.files import cache_dir

if TYPE_CHECKING:
    from eec.data.dataset import Dataset


def unseen(done: int, total: int) -> None:
    """The progress callback of those who do not look."""


@dataclass(frozen=True)
class Request:
    """What a data set is asked for."""

    data_dir: Path
    size: int | None = None  # pixels a side; None: as the data set has them
    argument: str = ""  # what stands after the colon in folder:PATH
    seed: int = 0  # for sets that are drawn or split by it
    strict: bool = False  # refuse images that cannot be decoded, in place of leaving them out
    progress: Callable[[int, int], None] = unseen  # (images read, images in all)


@dataclass(frozen=True)
class Entry:
    """A data set, with the protocol that the paper has for it."""

    module: str
    description: str
    classes_per_increment: int = 1
    size: int | None = None  # pixels a side where nothing is said; None: as the images come
    argument: str = ""  # what may or must follow a colon, as the help shows it


DATASETS: dict[str, Entry] = {
    "digits": Entry("eec.data.digits", "embedded digits of scikit-learn, grey 32x32, 1,438 + 359"),
    "mnist": Entry("eec.data.mnist", "handwritten digits, grey 28x28, 60,000 + 10,000"),
    "fashion-mnist": Entry("eec.data.fashion_mnist", "clothes, grey 28x28, 60,000 + 10,000"),
    "svhn": Entry("eec.data.svhn", "house numbers, colour 32x32, 73,257 + 26,032"),
    "cifar10": Entry("eec.data.cifar10", "ten kinds of objects, colour 32x32, 50,000 + 10,000"),
    "cifar100": Entry(
        "eec.data.cifar100", "a hundred kinds of objects, colour 32x32, 50,000 + 10,000", 10
    ),
    "imagenet-50": Entry(
        "eec.data.imagenet50",
        "50 classes of ILSVRC-2012, drawn by the seed, or with :fixed the list of the DGM paper",
        classes_per_increment=10,
        size=32,
        argument="[:fixed]",
    ),
    "tiny-imagenet-50": Entry(
        "eec.data.tiny_imagenet50",
        "50 classes of Tiny ImageNet, colour 64x64, 25,000 + 2,500",
        classes_per_increment=10,
        size=32,
    ),
    "folder": Entry(
        "eec.data.folder",
        "your own: PATH/train/CLASS/* and PATH/test/CLASS/*, or PATH/CLASS/*, split by the seed",
        size=32,
        argument=":PATH",
    ),
}


def find_dataset(name: str) -> tuple[Entry, str]:
    """The entry that `cifar10` or `folder:PATH` means, and what follows the colon."""
    stem, colon, argument = name.partition(":")
    entry = DATASETS.get(stem)
    if entry is None:
        known = ", ".join(name + entry.argument for name, entry in DATASETS.items())
        raise UserError(f"unknown data set {name!r}: the known ones are {known}")
    if colon and not (argument and entry.argument):
        raise UserError(f"data set {name!r}: write it {stem}{entry.argument}")
    return entry, argument


def load_dataset(
    name: str,
    data_dir: Path | None = None,
    size: int | None = None,
    *,
    seed: int = 0,
    strict: bool = False,
    progress: Callable[[int, int], None] = unseen,
) -> "Dataset":
    """The data set of that name, its images squared to `size` pixels (None: as the entry says)."""
    entry, argument = find_dataset(name)
    folder = default_data_dir() if data_dir is None else Path(data_dir)
    size = entry.size if size is None else size
    request = Request(folder, size, argument, seed, strict, progress)
    dataset: Dataset = importlib.import_module(entry.module).load(request)
    # Sets of image files come in the size asked for: this changes the others.
    return dataset if size is None else dataset.resized(size)


def default_data_dir() -> Path:
    """EEC_DATA, or `eec` in the user's cache folder."""
    if chosen := os.environ.get("EEC_DATA"):
        return Path(chosen).expanduser()
    return cache_dir()
