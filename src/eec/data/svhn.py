"""SVHN: digits of house numbers, cropped, 32x32 colour, 73,257 + 26,032."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from eec.data.catalog import Request
from eec.data.dataset import Dataset
from eec.data.labels import Label
from eec.data.matlab import Damaged, read_numbers
from eec.data.sources import missing_files
from eec.errors import UserError

TRAIN = "train_32x32.mat"
TEST = "test_32x32.mat"

_IMAGE = (32, 32, 3)
_TURNED = 256  # images at a time: less than a megabyte, which stays in the processor's cache


def load(request: Request) -> Dataset:
    """From the two files of cropped digits in DATA_DIR/svhn."""
    folder = request.data_dir / "svhn"
    _check_presence(folder)
    train_images, train_labels = _read(folder / TRAIN)
    test_images, test_labels = _read(folder / TEST)
    return Dataset(
        name="svhn",
        train_images=train_images,
        train_labels=train_labels,
        test_images=test_images,
        test_labels=test_labels,
        flip=False,
        classes=tuple(range(10)),
    )


def _check_presence(folder: Path) -> None:
    missing = []
    for file in (TRAIN, TEST):
        try:
            (folder / file).stat()
        except (FileNotFoundError, NotADirectoryError):
            missing.append(file)
        except OSError as error:
            raise _unreadable(folder / file, error) from None
    if missing:
        raise missing_files("svhn", folder, missing)


def _read(path: Path) -> tuple[Tensor, list[Label]]:
    try:
        with path.open("rb") as file:
            found = read_numbers(file, ("X", "y"))
        images, codes = found["X"], found["y"]
        _check_shapes(images, codes)
        return _as_rows(images), _as_digits(codes)
    except Damaged as error:
        raise UserError(
            f"{path} {error}: move it away, then `eec data get svhn` fetches it again"
        ) from None
    except OSError as error:
        raise _unreadable(path, error) from None


def _check_shapes(images: np.ndarray, codes: np.ndarray) -> None:
    if images.shape[:-1] != _IMAGE or images.size == 0 or images.dtype != np.uint8:
        raise Damaged(
            f"is another file, its X is {_extent(images)} {images.dtype} and should be "
            "32x32x3xN uint8"
        )
    if codes.shape != (images.shape[-1], 1):
        raise Damaged(
            f"is damaged, its y is {_extent(codes)} and should be {images.shape[-1]}x1, "
            "a label for each image of X"
        )


def _as_rows(images: np.ndarray) -> Tensor:
    """[N, 3, 32, 32] from MATLAB's [32, 32, 3, N], in the same memory."""
    # MATLAB has columns first: turned around, only the two sides of each picture are swapped.
    rows = images.T
    for start in range(0, len(rows), _TURNED):
        part = rows[start : start + _TURNED]
        part[:] = part.transpose(0, 1, 3, 2).copy()
    return torch.from_numpy(rows)


def _as_digits(codes: np.ndarray) -> list[Label]:
    codes = codes.ravel()
    wrong = np.flatnonzero(~np.isin(codes, range(1, 11)))
    if len(wrong):
        raise Damaged(
            f"is damaged or another file, image {wrong[0] + 1:,} has the label "
            f"{codes[wrong[0]]}, where 1 to 9 and 10 for a zero are possible"
        )
    return [*(codes.astype(np.int64) % 10).tolist()]


def _extent(array: np.ndarray) -> str:
    return "x".join(map(str, array.shape))


def _unreadable(path: Path, error: OSError) -> UserError:
    return UserError(
        f"{path} cannot be read ({error.strerror}): check the rights to it and its folders"
    )
