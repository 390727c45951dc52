"""IDX files, the format of MNIST and its kin: a reader, and a data set made of four such files."""

import gzip
import math
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import numpy as np

from eec.data.dataset import Dataset
from eec.data.images import as_images
from eec.data.labels import Label
from eec.data.sources import missing_files
from eec.errors import UserError

TRAIN_IMAGES = "train-images-idx3-ubyte"
TRAIN_LABELS = "train-labels-idx1-ubyte"
TEST_IMAGES = "t10k-images-idx3-ubyte"
TEST_LABELS = "t10k-labels-idx1-ubyte"

_UNSIGNED_BYTE = 0x08
_CHUNK = 1 << 20
_AGAIN = "fetch the file again"


def read_idx(path: Path) -> np.ndarray:
    """The uint8 array in an IDX file, gzip-compressed or not."""
    try:
        with path.open("rb") as file:
            compressed = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            return _read(gzip.GzipFile(fileobj=file) if compressed else file, path)
    except FileNotFoundError:
        raise UserError(f"{path} does not exist: {_AGAIN}, or correct the path") from None
    except EOFError:
        raise UserError(f"{path} is truncated inside its gzip data: {_AGAIN}") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise UserError(f"{path} is corrupt gzip data ({error}): {_AGAIN}") from None
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}): check the file") from None


def load_idx_dataset(
    name: str, folder: Path, classes: Sequence[Label], *, flip: bool = False, turn: int = 0
) -> Dataset:
    """The data set in the four files of a folder; label byte i means `classes[i]`."""
    paths = _find_files(name, folder)
    train_images, train_labels = _read_pair(paths[TRAIN_IMAGES], paths[TRAIN_LABELS], classes)
    test_images, test_labels = _read_pair(paths[TEST_IMAGES], paths[TEST_LABELS], classes)
    return Dataset(
        name=name,
        train_images=as_images(train_images, name=str(paths[TRAIN_IMAGES])),
        train_labels=train_labels,
        test_images=as_images(test_images, name=str(paths[TEST_IMAGES])),
        test_labels=test_labels,
        flip=flip,
        turn=turn,
        classes=tuple(classes),
    )


def _read(file: IO[bytes] | gzip.GzipFile, path: Path) -> np.ndarray:
    shape = _read_header(file, path)
    promised = math.prod(shape)
    # One byte more than promised, to see whether there is a rest. In chunks, so that memory grows
    # with what the file holds and not with what its header claims.
    content = bytearray()
    while len(content) <= promised:
        chunk = file.read(min(_CHUNK, promised + 1 - len(content)))
        if not chunk:
            break
        content += chunk
    if len(content) < promised:
        raise UserError(
            f"{path} is truncated: its header promises {promised:,} bytes, "
            f"{len(content):,} are there: {_AGAIN}"
        )
    if len(content) > promised:
        raise UserError(
            f"{path} has trailing bytes after the {promised:,} that its header promises: {_AGAIN}"
        )
    return np.frombuffer(content, np.uint8).reshape(shape)


def _read_header(file: IO[bytes] | gzip.GzipFile, path: Path) -> tuple[int, ...]:
    magic = file.read(4)
    if len(magic) < 4:
        raise UserError(f"{path} is truncated: {len(magic)} bytes, no header: {_AGAIN}")
    if magic[:2] != b"\0\0" or magic[2] != _UNSIGNED_BYTE or not 1 <= magic[3] <= 4:
        raise UserError(
            f"{path} is not an IDX file of unsigned bytes (it starts with {magic.hex(' ')}): "
            f"{_AGAIN}"
        )
    sizes = file.read(4 * magic[3])
    if len(sizes) < 4 * magic[3]:
        raise UserError(f"{path} is truncated inside its header: {_AGAIN}")
    shape = struct.unpack(f">{magic[3]}I", sizes)
    if 0 in shape:
        raise UserError(f"{path} is empty: its header gives the shape {list(shape)}: {_AGAIN}")
    return shape


def _find_files(name: str, folder: Path) -> dict[str, Path]:
    found = {}
    missing = []
    for stem in (TRAIN_IMAGES, TRAIN_LABELS, TEST_IMAGES, TEST_LABELS):
        candidates = [folder / f"{stem}.gz", folder / stem]
        path = next((candidate for candidate in candidates if candidate.is_file()), None)
        if path is None:
            missing.append(f"{stem}.gz")
        else:
            found[stem] = path
    if missing:
        raise missing_files(name, folder, missing)
    return found


def _read_pair(
    image_path: Path, label_path: Path, classes: Sequence[Label]
) -> tuple[np.ndarray, list[Label]]:
    images, codes = read_idx(image_path), read_idx(label_path)
    for path, array, ndim, what in (
        (image_path, images, 3, "images"),
        (label_path, codes, 1, "labels"),
    ):
        if array.ndim != ndim:
            raise UserError(
                f"{path} has {array.ndim} dimensions, {what} have {ndim}: "
                f"{_AGAIN}, under its own name"
            )
    if len(images) != len(codes):
        raise UserError(
            f"{image_path} holds {len(images)} images but {label_path.name} {len(codes)} labels: "
            "fetch both files again"
        )
    if codes.max() >= len(classes):
        raise UserError(
            f"{label_path} holds the label {codes.max()}, the largest is {len(classes) - 1}: "
            f"{_AGAIN}"
        )
    return images, [classes[code] for code in codes.tolist()]
