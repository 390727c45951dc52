"""The binary files of CIFAR: rows of label bytes and 32x32 pixels, red, green and blue plane."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from eec.data.dataset import Dataset
from eec.data.labels import Label
from eec.data.sources import SOURCES, missing_files
from eec.errors import UserError

_IMAGE = (3, 32, 32)
_PIXELS = math.prod(_IMAGE)
_ROWS = 1000  # read at a time: about 3 MB, which stays in the processor's cache


@dataclass(frozen=True)
class Layout:
    """How a set lies on disk."""

    name: str
    train: tuple[str, ...]
    test: str
    labels: tuple[int, ...]
    """For each label byte of a row how many values it has; the last byte is the class."""
    classes: tuple[str, ...]
    python_version: tuple[str, ...]
    """Folder and archive of the version that is not read, because it is pickled."""

    @property
    def folder(self) -> str:
        return SOURCES[self.name].folder

    @property
    def archive(self) -> str:
        return SOURCES[self.name].downloads[0].name

    @property
    def row(self) -> int:
        return len(self.labels) + _PIXELS


def load_cifar(layout: Layout, data_dir: Path) -> Dataset:
    """The data set in the folder of its binary version in `data_dir`."""
    folder = data_dir / layout.folder
    counts = _count_rows(layout, data_dir)
    train_images, train_labels = _read_part(layout, folder, layout.train, counts)
    test_images, test_labels = _read_part(layout, folder, (layout.test,), counts)
    return Dataset(
        name=layout.name,
        train_images=train_images,
        train_labels=train_labels,
        test_images=test_images,
        test_labels=test_labels,
        flip=True,
        classes=layout.classes,
    )


def _count_rows(layout: Layout, data_dir: Path) -> dict[str, int]:
    """The rows in each file, by their sizes: they say what is wrong before anything is read."""
    folder = data_dir / layout.folder
    counts, missing = {}, []
    for file in (*layout.train, layout.test):
        path = folder / file
        try:
            size = path.stat().st_size
        except (FileNotFoundError, NotADirectoryError):
            missing.append(file)
            continue
        except OSError as error:
            raise _unreadable(path, error) from None
        if size == 0:
            raise UserError(f"{path} is empty: {_fetch_again(layout)}")
        counts[file], rest = divmod(size, layout.row)
        if rest:
            _refuse_pickle(layout, path)
            raise UserError(
                f"{path} is truncated or another file, its {size:,} bytes are not whole rows of "
                f"{layout.row:,}: {_fetch_again(layout)}"
            )
    if missing:
        raise _missing(layout, data_dir, missing)
    return counts


def _missing(layout: Layout, data_dir: Path, files: Sequence[str]) -> UserError:
    """What to do about missing files, which depends on what is there in their place."""
    get = f"`eec data get {layout.name}`"
    if (archive := data_dir / layout.archive).exists():
        return UserError(f"{layout.name}: {archive} is not unpacked yet: {get} unpacks it")
    if not (data_dir / layout.folder).exists():
        for name in layout.python_version:
            if (found := data_dir / name).exists():
                return UserError(
                    f"{layout.name}: {found} is the python version, which is pickled and never "
                    f"loaded: get the binary version, {layout.archive}, in its place; {get} does so"
                )
    return missing_files(layout.name, data_dir / layout.folder, files)


def _read_part(
    layout: Layout, folder: Path, files: Sequence[str], counts: dict[str, int]
) -> tuple[Tensor, list[Label]]:
    total = sum(counts[file] for file in files)
    images = np.empty((total, _PIXELS), np.uint8)
    codes = np.empty((total, len(layout.labels)), np.uint8)
    start = 0
    for file in files:
        stop = start + counts[file]
        _read_file(layout, folder / file, codes[start:stop], images[start:stop])
        start = stop
    labels: list[Label] = [layout.classes[code] for code in codes[:, -1].tolist()]
    return torch.from_numpy(images.reshape(total, *_IMAGE)), labels


def _read_file(layout: Layout, path: Path, codes: np.ndarray, images: np.ndarray) -> None:
    """Fill `codes` and `images` with the rows of a file."""
    # Few rows at a time: beside the images themselves hardly any memory is needed.
    rows = np.empty((min(_ROWS, len(images)), layout.row), np.uint8)
    try:
        with path.open("rb") as file:
            for start in range(0, len(images), len(rows)):
                part = rows[: len(images) - start]
                if file.readinto(part.data) < part.nbytes:
                    raise UserError(f"{path} was cut short while it was read: try again")
                codes[start : start + len(part)] = part[:, :-_PIXELS]
                images[start : start + len(part)] = part[:, -_PIXELS:]
    except OSError as error:
        raise _unreadable(path, error) from None
    _check_codes(layout, path, codes)


def _check_codes(layout: Layout, path: Path, codes: np.ndarray) -> None:
    wrong = np.argwhere(codes >= np.array(layout.labels))
    if len(wrong) == 0:
        return
    _refuse_pickle(layout, path)
    row, place = wrong[0]
    raise UserError(
        f"{path} is damaged or another file, row {row + 1:,} has the label {codes[row, place]} "
        f"where the largest is {layout.labels[place] - 1}: {_fetch_again(layout)}"
    )


def _refuse_pickle(layout: Layout, path: Path) -> None:
    """A file of the python version under the name of a binary one: tell that from damage."""
    try:
        with path.open("rb") as file:
            start = file.read(2)
    except OSError as error:
        raise _unreadable(path, error) from None
    # The first byte of every pickle since 2003, then its protocol. No label is that large.
    if len(start) == 2 and start[0] == 0x80 and 2 <= start[1] <= 5:
        raise UserError(
            f"{path} is a file of the python version, which is pickled and never loaded: "
            f"get the binary version, {layout.archive}; {_fetch_again(layout)}"
        )


def _fetch_again(layout: Layout) -> str:
    return f"move it away, then `eec data get {layout.name}` fetches it again"


def _unreadable(path: Path, error: OSError) -> UserError:
    return UserError(
        f"{path} cannot be read ({error.strerror}): check the rights to it and its folders"
    )
