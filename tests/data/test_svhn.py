import tracemalloc
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.io import savemat

from eec.data.catalog import load_dataset
from eec.errors import UserError

COUNTS = {"train": 20, "test": 10}
AGAIN = "move it away, then `eec data get svhn` fetches it again"

WithoutRights = Callable[[Path], AbstractContextManager[None]]


def pictures(count: int) -> np.ndarray:
    """Uint8 [count, 3, 32, 32] in which every picture, plane, line and column differs."""
    plane, line, column = np.indices((3, 32, 32), dtype=np.uint8)
    number = np.arange(count).astype(np.uint8)[:, None, None, None]
    images: np.ndarray = number * 37 + plane * 91 + line * 5 + column * 3 + line * column
    return images


def official(count: int) -> dict[str, Any]:
    """X and y as published; the labels run 1, 2 ... 9, 10 (a zero), 1 ..."""
    labels = np.arange(count) % 10 + 1
    return {
        "X": pictures(count).transpose(2, 3, 1, 0),
        "y": labels.astype(np.uint8)[:, None],
    }


def write(data_dir: Path, *, packed: bool = True, **changes: Any) -> Path:
    """A tiny set whose training file has these changes (None: without it); the file's path."""
    folder = data_dir / "svhn"
    folder.mkdir(exist_ok=True)
    for split, count in COUNTS.items():
        variables = official(count) | (changes if split == "train" else {})
        variables = {name: value for name, value in variables.items() if value is not None}
        savemat(folder / f"{split}_32x32.mat", variables, do_compression=packed)
    return folder / "train_32x32.mat"


def refusal(data_dir: Path) -> str:
    with pytest.raises(UserError) as caught:
        load_dataset("svhn", data_dir)
    message = str(caught.value)
    assert "\n" not in message
    return message


# --- good files ---


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
def test_pictures_labels_and_order_are_those_of_the_files(packed: bool, tmp_path: Path) -> None:
    write(tmp_path, packed=packed)
    dataset = load_dataset("svhn", tmp_path)
    assert torch.equal(dataset.train_images, torch.from_numpy(pictures(20)))
    assert torch.equal(dataset.test_images, torch.from_numpy(pictures(10)))
    assert dataset.train_labels == [1, 2, 3, 4, 5, 6, 7, 8, 9, 0] * 2
    assert dataset.test_labels == [1, 2, 3, 4, 5, 6, 7, 8, 9, 0]
    assert {type(label) for label in dataset.train_labels} == {int}
    assert dataset.train_images.dtype == torch.uint8
    assert dataset.train_images.is_contiguous()
    assert dataset.classes == tuple(range(10))
    assert not dataset.flip
    assert dataset.notices == ()


def test_more_pictures_than_are_turned_at_a_time(tmp_path: Path) -> None:
    write(tmp_path, **official(700))
    dataset = load_dataset("svhn", tmp_path)
    assert torch.equal(dataset.train_images, torch.from_numpy(pictures(700)))


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.uint16])
def test_labels_of_any_number_type(dtype: type, tmp_path: Path) -> None:
    write(tmp_path, y=official(20)["y"].astype(dtype))
    labels = load_dataset("svhn", tmp_path).train_labels
    assert labels == [1, 2, 3, 4, 5, 6, 7, 8, 9, 0] * 2
    assert {type(label) for label in labels} == {int}


def test_other_variables_are_passed_over(tmp_path: Path) -> None:
    extra = np.empty((1, 1), dtype=object)
    extra[0, 0] = "a cell"
    write(tmp_path, extra=extra, note={"field": "a struct"})
    assert len(load_dataset("svhn", tmp_path).train_images) == 20


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
def test_memory_is_that_of_the_images(packed: bool, tmp_path: Path) -> None:
    write(tmp_path, packed=packed, **official(4_000))
    load_dataset("svhn", tmp_path)  # what is kept for later calls is not counted
    tracemalloc.start()
    try:
        dataset = load_dataset("svhn", tmp_path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < dataset.train_images.nbytes + (5 << 20)  # which is 12 MB


def test_size_is_applied(tmp_path: Path) -> None:
    write(tmp_path)
    assert load_dataset("svhn", tmp_path, size=16).test_images.shape == (10, 3, 16, 16)


# --- bad files ---


def test_missing_files_are_named_with_the_way_to_get_them(tmp_path: Path) -> None:
    message = refusal(tmp_path)
    assert "train_32x32.mat" in message and "test_32x32.mat" in message
    assert str(tmp_path / "svhn") in message
    assert "eec data get svhn" in message
    assert "--data-dir" in message


def test_only_the_missing_file_is_named(tmp_path: Path) -> None:
    write(tmp_path).unlink()
    message = refusal(tmp_path)
    assert "train_32x32.mat" in message
    assert "test_32x32.mat not found" not in message and "test_32x32.mat," not in message


def change_first_float(labels: np.ndarray, value: float) -> np.ndarray:
    changed = labels.astype(np.float64)
    changed[0] = value
    return changed


def cell(_: np.ndarray) -> np.ndarray:
    out = np.empty((20, 1), dtype=object)
    out[:] = "text"
    return out


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("X", lambda x: None, "is truncated or another file, it has no variable X: "),
        ("y", lambda y: None, "is truncated or another file, it has no variable y: "),
        ("X", lambda x: x[:, :, :, 0], "its X is 32x32x3 uint8 and should be 32x32x3xN uint8: "),
        ("X", lambda x: x[:, :, :1], "its X is 32x32x1x20 uint8 and should be"),
        ("X", lambda x: x[:28], "its X is 28x32x3x20 uint8 and should be"),
        ("X", lambda x: x.T, "its X is 20x3x32x32 uint8 and should be"),
        ("X", lambda x: x[..., :0], "its X is 32x32x3x0 uint8 and should be"),
        ("X", lambda x: x.astype(np.float64), "its X is 32x32x3x20 float64 and should be"),
        ("X", lambda x: x.astype(np.int8), "its X is 32x32x3x20 int8 and should be"),
        ("X", lambda x: x > 9, "is another file, its X is logical in place of real numbers: "),
        ("X", lambda x: "a text", "its X is char in place of real numbers"),
        ("X", lambda x: {"images": x}, "its X is struct in place of real numbers"),
        ("y", lambda y: y[:-1], "its y is 19x1 and should be 20x1, a label for each image of X: "),
        ("y", lambda y: y.T, "its y is 1x20 and should be 20x1"),
        ("y", cell, "its y is cell in place of real numbers"),
        ("y", lambda y: y + 1j, "its y is complex in place of real numbers"),
        ("y", lambda y: y - 1, "image 1 has the label 0, where 1 to 9 and 10 for a zero are"),
        ("y", lambda y: y + 1, "image 10 has the label 11, where"),
        ("y", lambda y: y - np.int64(5), "image 1 has the label -4, where"),
        ("y", lambda y: change_first_float(y, 1.5), "image 1 has the label 1.5, where"),
        ("y", lambda y: change_first_float(y, np.nan), "image 1 has the label nan, where"),
    ],
)
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
def test_bad_variables_are_refused(
    name: str, change: Callable[[Any], Any], message: str, packed: bool, tmp_path: Path
) -> None:
    path = write(tmp_path, packed=packed, **{name: change(official(20)[name])})
    said = refusal(tmp_path)
    assert said.startswith(f"{path} ")
    assert message in said
    assert said.endswith(AGAIN)


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
@pytest.mark.parametrize("keep", [1, 100, 128, 140, 200, 5_000, -200, -5])
def test_truncated(keep: int, packed: bool, tmp_path: Path) -> None:
    path = write(tmp_path, packed=packed)
    path.write_bytes(path.read_bytes()[:keep])
    message = refusal(tmp_path)
    assert message.startswith(f"{path} is truncated")
    assert message.endswith(AGAIN)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"<html>not found</html>" * 50, "is truncated, damaged or not a MATLAB 5 file"),
        (
            b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM" + bytes(1000),
            "is a MATLAB 7.3 file (HDF5), which is not read; in MATLAB, save with -v7",
        ),
    ],
)
def test_other_files(content: bytes, message: str, tmp_path: Path) -> None:
    path = write(tmp_path)
    path.write_bytes(content)
    assert refusal(tmp_path) == f"{path} {message}: {AGAIN}"


def test_a_folder_in_place_of_a_file(tmp_path: Path) -> None:
    path = write(tmp_path)
    path.unlink()
    path.mkdir()
    assert refusal(tmp_path).startswith(f"{path} cannot be read (Is a directory)")


def test_a_folder_without_rights(tmp_path: Path, without_rights: WithoutRights) -> None:
    path = write(tmp_path)
    with without_rights(path.parent):
        message = refusal(tmp_path)
    assert message == (
        f"{path} cannot be read (Permission denied): check the rights to it and its folders"
    )


# --- the real files ---


def test_real_svhn(data_dir: Path) -> None:
    if not (data_dir / "svhn").is_dir():
        pytest.skip(f"no svhn in {data_dir}")
    dataset = load_dataset("svhn", data_dir)
    assert dataset.train_images.shape == (73_257, 3, 32, 32)
    assert dataset.test_images.shape == (26_032, 3, 32, 32)
    train, test = Counter(dataset.train_labels), Counter(dataset.test_labels)
    assert [train[digit] for digit in range(10)] == [
        4948, 13861, 10585, 8497, 7458, 6882, 5727, 5595, 5045, 4659,
    ]  # fmt: skip
    assert [test[digit] for digit in range(10)] == [
        1744, 5099, 4149, 2882, 2523, 2384, 1977, 2019, 1660, 1595,
    ]  # fmt: skip
    mean = dataset.train_images[:5000].float().mean(dim=(0, 2, 3)) / 255
    assert mean.tolist() == pytest.approx([0.44, 0.44, 0.47], abs=0.03)  # published for the set
    # A one is upright: from line to line it changes less than from column to column.
    ones = [i for i, label in enumerate(dataset.test_labels) if label == 1]
    picture = dataset.test_images[ones].float().mean(dim=1)
    assert picture.diff(dim=2).abs().mean() > 1.1 * picture.diff(dim=1).abs().mean()
