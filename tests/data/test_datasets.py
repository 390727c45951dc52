import gzip
import hashlib
import random
import struct
import subprocess
import sys
from collections import Counter
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from eec.data import digits, fashion_mnist
from eec.data.catalog import DATASETS, default_data_dir, load_dataset
from eec.data.dataset import Dataset
from eec.errors import UserError

STEMS = {
    "train-images-idx3-ubyte": 30,
    "train-labels-idx1-ubyte": 30,
    "t10k-images-idx3-ubyte": 20,
    "t10k-labels-idx1-ubyte": 20,
}


def write_idx(path: Path, array: np.ndarray) -> None:
    array = array.astype(np.uint8)
    header = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    content = header + array.tobytes()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


@pytest.fixture(params=["", ".gz"], ids=["plain", "gz"])
def small_set(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """DATA_DIR with tiny files in the places of both IDX sets; image i is filled with i."""
    for folder in ("mnist", "fashion-mnist"):
        (tmp_path / folder).mkdir()
        for stem, count in STEMS.items():
            index = np.arange(count)
            array = np.tile(index[:, None, None], (1, 9, 9)) if "images" in stem else index % 10
            write_idx(tmp_path / folder / (stem + request.param), array)
    return tmp_path


def only(folder: Path, stem: str) -> Path:
    return next(folder.glob(f"{stem}*"))


# --- Dataset ---


def tiny(**changes: Any) -> Dataset:
    arguments: dict[str, Any] = {
        "name": "tiny",
        "train_images": torch.zeros(4, 1, 8, 8, dtype=torch.uint8),
        "train_labels": ["b", "a", "b", "c"],
        "test_images": torch.zeros(3, 1, 8, 8, dtype=torch.uint8),
        "test_labels": ["c", "b", "a"],
        "flip": False,
    }
    return Dataset(**(arguments | changes))


def test_classes_are_sorted_unless_the_set_has_an_order() -> None:
    assert tiny().classes == ("a", "b", "c")
    assert tiny(classes=("c", "a", "b")).classes == ("c", "a", "b")


def test_labels_become_plain_lists() -> None:
    dataset = tiny(train_labels=np.array([2, 0, 2, 1]), test_labels=torch.tensor([0, 1, 2]))
    assert dataset.train_labels == [2, 0, 2, 1]
    assert {type(label) for label in dataset.train_labels + dataset.test_labels} == {int}
    assert dataset.classes == (0, 1, 2)


def test_a_data_set_is_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        tiny().name = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train_images": torch.zeros(4, 1, 8, 8)}, "training images of tiny: need a uint8 tensor"),
        ({"test_images": torch.zeros(3, 1, 8, 8)}, "test images of tiny: need a uint8 tensor"),
        (
            {"test_images": torch.zeros(3, 3, 8, 8, dtype=torch.uint8)},
            "tiny: training images are 1x8x8 but test images 3x8x8",
        ),
        (
            {"test_images": torch.zeros(3, 1, 9, 9, dtype=torch.uint8)},
            "tiny: training images are 1x8x8 but test images 1x9x9",
        ),
        ({"train_labels": ["a", "b", "c"]}, "tiny: 4 training images but 3 labels"),
        ({"test_labels": ["a", "b", "c", "a"]}, "tiny: 3 test images but 4 labels"),
        ({"train_labels": ["a", "b", None, "c"]}, r"labels of tiny\[2\] is of type NoneType"),
        ({"test_labels": ["a", "b", "d"]}, "no training images of 'd'"),
        ({"test_labels": ["a", "b", "b"]}, "no test images of 'c'"),
        ({"classes": ("a", "b")}, "training labels 'c' are not among its classes 'a', 'b'"),
        ({"classes": ("a", "b", "c", "d")}, "no training images of 'd'"),
        ({"classes": ("a", "b", "c", "a")}, "a class is listed twice"),
    ],
)
def test_bad_sets_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        tiny(**changes)


def test_a_class_cannot_be_1_in_one_part_and_true_in_the_other() -> None:
    with pytest.raises(UserError, match="is True of type bool but equals"):
        tiny(train_labels=[0, 1, 2, 1], test_labels=[0, True, 2])


def test_resized_changes_both_parts() -> None:
    dataset = tiny(classes=("c", "a", "b")).resized(16)
    assert dataset.train_images.shape == (4, 1, 16, 16)
    assert dataset.test_images.shape == (3, 1, 16, 16)
    assert dataset.classes == ("c", "a", "b")


# --- digits ---

DIGITS_PER_CLASS = [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
DIGITS_TEST = [36, 36, 35, 37, 36, 36, 36, 36, 35, 36]


@pytest.fixture(scope="module")
def loaded_digits() -> Dataset:
    return load_dataset("digits")


def test_digits_counts_and_stratification(loaded_digits: Dataset) -> None:
    assert loaded_digits.train_images.shape == (1438, 1, 32, 32)
    assert loaded_digits.test_images.shape == (359, 1, 32, 32)
    train, test = Counter(loaded_digits.train_labels), Counter(loaded_digits.test_labels)
    assert [test[digit] for digit in range(10)] == DIGITS_TEST
    assert [train[digit] + test[digit] for digit in range(10)] == DIGITS_PER_CLASS
    assert loaded_digits.classes == tuple(range(10))
    assert {type(label) for label in loaded_digits.train_labels} == {int}
    assert not loaded_digits.flip


def test_digits_split_has_every_image_once() -> None:
    labels = load_digits().target
    train, test = digits.split(labels)
    assert sorted([*train, *test]) == list(range(1797))


def test_digits_pictures_are_those_of_scikit_learn(loaded_digits: Dataset) -> None:
    source = load_digits()
    _, test = digits.split(source.target)
    assert loaded_digits.test_labels == source.target[test].tolist()
    # averaging 4x4 blocks undoes most of the enlargement
    shrunk = torch.nn.functional.avg_pool2d(loaded_digits.test_images.float(), 4)[:, 0].numpy()
    truth = source.images[test] * 255 / 16
    assert np.abs(shrunk - truth).mean() < 12
    assert loaded_digits.test_images.max() == 255


def test_digits_split_never_changes() -> None:
    """Accuracies of different runs and versions are only comparable on the same test images."""
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    _, test = digits.split(load_digits().target)
    assert hashlib.sha256(test.astype("<i8").tobytes()).hexdigest()[:16] == "dee9ea95c9b87090"


# --- MNIST and Fashion-MNIST ---


def test_mnist_from_small_files(small_set: Path) -> None:
    dataset = load_dataset("mnist", small_set)
    assert dataset.train_images.shape == (30, 1, 9, 9)
    assert dataset.train_images[:, 0, 0, 0].tolist() == list(range(30))
    assert dataset.train_labels == [i % 10 for i in range(30)]
    assert dataset.test_images.shape == (20, 1, 9, 9)
    assert dataset.classes == tuple(range(10))
    assert not dataset.flip


def test_fashion_mnist_has_names_in_its_own_order(small_set: Path) -> None:
    dataset = load_dataset("fashion-mnist", small_set, size=16)
    assert dataset.train_images.shape == (30, 1, 16, 16)
    assert dataset.train_labels[:11] == [*fashion_mnist.CLASSES, "T-shirt/top"]
    assert dataset.classes == fashion_mnist.CLASSES
    assert dataset.flip


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
def test_missing_files_are_named_with_the_way_to_get_them(name: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        load_dataset(name, tmp_path)
    message = str(caught.value)
    assert all(f"{stem}.gz" in message for stem in STEMS)
    assert str(tmp_path / name) in message
    assert "http" in message
    assert "--data-dir" in message
    assert "EEC_DATA" in message
    assert "\n" not in message


def test_only_the_missing_file_is_named(small_set: Path) -> None:
    only(small_set / "mnist", "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(UserError, match=r"^mnist: t10k-labels-idx1-ubyte\.gz not found in "):
        load_dataset("mnist", small_set)


def test_counts_must_agree(small_set: Path) -> None:
    write_idx(only(small_set / "mnist", "train-labels-idx1-ubyte"), np.arange(29) % 10)
    with pytest.raises(UserError, match=r"holds 30 images but train-labels.* 29 labels"):
        load_dataset("mnist", small_set)


def test_labels_must_be_in_range(small_set: Path) -> None:
    write_idx(only(small_set / "mnist", "t10k-labels-idx1-ubyte"), np.arange(20) % 11)
    with pytest.raises(UserError, match=r"t10k-labels.* holds the label 10, the largest is 9"):
        load_dataset("mnist", small_set)


def test_swapped_files_are_noticed(small_set: Path) -> None:
    write_idx(only(small_set / "mnist", "train-images-idx3-ubyte"), np.arange(30) % 10)
    with pytest.raises(UserError, match=r"train-images.* has 1 dimensions, images have 3"):
        load_dataset("mnist", small_set)


def test_a_damaged_file_is_named(small_set: Path) -> None:
    path = only(small_set / "mnist", "train-images-idx3-ubyte")
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(UserError, match=r"train-images-idx3-ubyte.* is truncated"):
        load_dataset("mnist", small_set)


def test_real_mnist(data_dir: Path) -> None:
    if not (data_dir / "mnist").is_dir():
        pytest.skip(f"no mnist in {data_dir}")
    dataset = load_dataset("mnist", data_dir)
    assert dataset.train_images.shape == (60_000, 1, 28, 28)
    assert dataset.test_images.shape == (10_000, 1, 28, 28)
    assert dataset.train_labels[:8] == [5, 0, 4, 1, 9, 2, 1, 3]
    assert dataset.test_labels[:8] == [7, 2, 1, 0, 4, 1, 4, 9]
    counts = Counter(dataset.test_labels)
    assert [counts[digit] for digit in range(10)] == [
        980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009,
    ]  # fmt: skip
    assert dataset.train_images.float().mean() / 255 == pytest.approx(0.1307, abs=1e-4)


# --- the catalog ---


def test_every_entry_has_a_loader_and_one_line_about_it() -> None:
    for name, entry in DATASETS.items():
        module = __import__(entry.module, fromlist=["load"])
        assert callable(module.load), name
        assert entry.description
        assert "\n" not in entry.description


def test_an_unknown_set_is_refused_with_the_known_ones() -> None:
    with pytest.raises(
        UserError, match=r"unknown data set 'minst': .* digits, mnist, fashion-mnist"
    ):
        load_dataset("minst")


def test_size_is_applied() -> None:
    assert load_dataset("digits", size=16).test_images.shape == (359, 1, 16, 16)


def test_listing_the_sets_imports_no_torch() -> None:
    program = "import sys, eec.data.catalog, eec.data.labels; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_default_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("EEC_DATA", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert default_data_dir() == tmp_path / ".cache" / "eec"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert default_data_dir() == tmp_path / ".cache" / "eec"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert default_data_dir() == tmp_path / "xdg" / "eec"
    monkeypatch.setenv("EEC_DATA", "")
    assert default_data_dir() == tmp_path / "xdg" / "eec"
    monkeypatch.setenv("EEC_DATA", "~/sets")
    assert default_data_dir() == tmp_path / "sets"


def test_the_default_folder_is_where_sets_are_read(
    monkeypatch: pytest.MonkeyPatch, small_set: Path
) -> None:
    monkeypatch.setenv("EEC_DATA", str(small_set))
    assert len(load_dataset("mnist").train_images) == 30


def test_replace_checks_again() -> None:
    with pytest.raises(UserError, match="4 training images but 1 labels"):
        replace(tiny(), train_labels=["a"])
