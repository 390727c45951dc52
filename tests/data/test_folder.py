import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from eec.data.catalog import Request, load_dataset
from eec.data.dataset import Dataset
from eec.data.folder import load
from eec.data.image_files import Undecodable
from eec.data.stream import make_stream
from eec.errors import UserError

Write = Callable[..., None]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "pets"


@pytest.fixture
def write(root: Path) -> Write:
    """`write("train/cat", 5)`: five grey pictures there, of grey levels that tell them apart."""
    level = iter(range(256))

    def images(folder: str, count: int, mode: str = "L") -> None:
        (root / folder).mkdir(parents=True, exist_ok=True)
        for i in range(count):
            image = Image.new("L", (12, 9), next(level)).convert(mode)
            image.save(root / folder / f"{i}.png")

    return images


def read(root: Path, **choices: object) -> Dataset:
    request = Request(root.parent / "data", size=8, argument=str(root))
    return load(Request(**(request.__dict__ | choices)))


def levels(images: torch.Tensor) -> list[int]:
    return images[:, 0, 4, 4].tolist()


def of_class(dataset: Dataset, label: str) -> tuple[list[int], list[int]]:
    """Grey levels of the training and of the test images of a class."""
    train = zip(levels(dataset.train_images), dataset.train_labels, strict=True)
    test = zip(levels(dataset.test_images), dataset.test_labels, strict=True)
    return [level for level, of in train if of == label], [
        level for level, of in test if of == label
    ]


# Layouts


@pytest.mark.parametrize("part", ["test", "val"])
def test_two_parts(root: Path, write: Write, part: str) -> None:
    write("train/cat10", 3)
    write("train/cat2", 2)
    write(f"{part}/cat2", 1)
    write(f"{part}/cat10", 2)
    dataset = read(root)
    assert dataset.name == f"folder:{root}"
    assert dataset.classes == ("cat2", "cat10")
    assert dataset.flip and dataset.notices == ()
    assert dataset.train_labels == ["cat2"] * 2 + ["cat10"] * 3
    assert dataset.test_labels == ["cat2"] + ["cat10"] * 2
    assert levels(dataset.train_images) == [3, 4, 0, 1, 2]
    assert levels(dataset.test_images) == [5, 6, 7]
    assert dataset.train_images.shape == (5, 1, 8, 8)
    for seed in (1, 2):
        assert levels(read(root, seed=seed).train_images) == [3, 4, 0, 1, 2]


def test_val_is_left_alone_where_there_is_test(root: Path, write: Write) -> None:
    for part in ("train", "test", "val"):
        write(f"{part}/cat", 2)
        write(f"{part}/dog", 2)
    dataset = read(root)
    assert levels(dataset.test_images) == [4, 5, 6, 7]
    assert dataset.notices == (
        f"{root}/val is left alone: the test images are those of {root}/test",
    )


@pytest.mark.parametrize("above", ["", "train/"])
def test_one_part_is_split_by_the_seed(root: Path, write: Write, above: str) -> None:
    write(f"{above}cat", 20)
    write(f"{above}dog", 2)
    write(f"{above}eel", 7)
    first, again, other = read(root, seed=3), read(root, seed=3), read(root, seed=4)
    assert first.classes == ("cat", "dog", "eel")
    for label, count, test in (("cat", 20, 4), ("dog", 2, 1), ("eel", 7, 1)):
        parts = of_class(first, label)
        assert [len(part) for part in parts] == [count - test, test]
        assert len({*parts[0], *parts[1]}) == count
        assert parts == of_class(again, label)
    assert of_class(first, "cat") != of_class(other, "cat")


def test_a_split_is_of_its_class_alone(root: Path, write: Write) -> None:
    write("cat", 20)
    write("dog", 20)
    cats, dogs = (of_class(read(root), label) for label in ("cat", "dog"))
    assert dogs[1] != [level + 20 for level in cats[1]]  # not at the same places
    write("bee", 9)
    for path in sorted((root / "cat").iterdir())[5:]:
        path.unlink()
    assert of_class(read(root), "dog") == dogs


@settings(deadline=None, max_examples=15)
@given(counts=st.lists(st.integers(2, 12), min_size=2, max_size=4), seed=st.integers(0, 2**32))
def test_every_class_is_in_both_parts(
    counts: list[int], seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("any") / "set"
    for i, count in enumerate(counts):
        (root / f"class{i}").mkdir(parents=True)
        for j in range(count):
            Image.new("L", (8, 8), j).save(root / f"class{i}" / f"{j}.bmp")
    dataset = read(root, seed=seed)
    for i, count in enumerate(counts):
        train, test = of_class(dataset, f"class{i}")
        assert len(test) == max(1, round(0.2 * count))
        assert sorted(train + test) == list(range(count))


def test_a_class_may_be_called_train(root: Path, write: Write) -> None:
    for vehicle in ("bus", "train", "car"):
        write(vehicle, 3)
    assert read(root).classes == ("bus", "car", "train")


def test_images_lie_at_any_depth_and_behind_links(root: Path, write: Write) -> None:
    write("cat/2023/may", 3)
    write("dog", 3)
    write("../elsewhere", 4)
    (root / "eel").symlink_to(root.parent / "elsewhere")
    (root / "dog" / "round").symlink_to(root)
    dataset = read(root)
    assert dataset.classes == ("cat", "dog", "eel")
    assert len(dataset.train_labels + dataset.test_labels) == 10


# Settings


def test_the_size_is_the_one_asked_for(root: Path, write: Write) -> None:
    write("cat", 3, "RGB")
    write("dog", 3)
    assert load_dataset(f"folder:{root}", root.parent / "data").train_images.shape[1:] == (
        3,
        32,
        32,
    )
    assert load_dataset(f"folder:{root}", root.parent, 40).train_images.shape[1:] == (3, 40, 40)
    assert read(root, size=None).train_images.shape[1:] == (3, 32, 32)


def test_a_path_from_home(root: Path, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write("cat", 3)
    write("dog", 3)
    monkeypatch.setenv("HOME", str(root.parent))
    assert read(root, argument="~/pets").classes == ("cat", "dog")
    with pytest.raises(UserError, match="~nobody-of-that-name/pets does not exist"):
        read(root, argument="~nobody-of-that-name/pets")


def test_nothing_is_copied_on_the_way(root: Path, write: Write) -> None:
    write("cat", 6)
    write("dog", 6)
    for _ in range(2):
        dataset = load_dataset(f"folder:{root}", root.parent / "data", 8)
        train, test = dataset.train_images, dataset.test_images
        assert train.untyped_storage().data_ptr() == test.untyped_storage().data_ptr()
        assert test.data_ptr() == train.data_ptr() + train.numel()
    stream = make_stream(dataset)
    assert [len(increment.task) for increment in stream.increments] == [5, 5]


# Images that cannot be decoded


def test_images_left_out_are_named(root: Path, write: Write) -> None:
    write("train/cat", 4)
    write("train/dog", 4)
    write("test/cat", 2)
    write("test/dog", 2)
    (root / "train" / "cat" / "1.png").write_text("no image")
    (root / "test" / "dog" / "0.png").write_bytes(b"")
    for _ in range(2):
        dataset = read(root)
        assert levels(dataset.train_images) == [0, 2, 3, 4, 5, 6, 7]
        assert levels(dataset.test_images) == [8, 9, 11]
        assert dataset.train_labels == ["cat"] * 3 + ["dog"] * 4
        assert dataset.test_labels == ["cat"] * 2 + ["dog"]
        assert dataset.notices == (
            f"left out 2 images that cannot be decoded: {root}/train/cat/1.png (not a readable "
            f"JPEG, PNG, WEBP, BMP, TIFF or GIF file); {root}/test/dog/0.png (the file is empty)",
        )
        with pytest.raises(Undecodable, match=r"cat/1\.png cannot be decoded"):
            read(root, strict=True)


def test_a_class_that_cannot_be_decoded_is_refused(root: Path, write: Write) -> None:
    write("train/cat", 4)
    write("train/dog", 4)
    write("test/cat", 2)
    write("test/dog", 2)
    (root / "train" / "cat" / "1.png").write_bytes(b"")
    for path in (root / "test" / "dog").iterdir():
        path.write_bytes(b"")
    for _ in range(2):  # the second time, from the cache
        with pytest.raises(UserError) as caught:
            read(root)
        assert str(caught.value) == (
            f"none of the 2 test images of 'dog' can be decoded: {root}/test/dog/0.png (the file "
            f"is empty); {root}/test/dog/1.png (the file is empty): replace the files"
        )


# Folders that are no data set


def test_folders_that_are_no_data_set(root: Path, write: Write) -> None:
    def refusal(**choices: object) -> str:
        with pytest.raises(UserError) as caught:
            read(root, **choices)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    assert refusal(argument="") == (
        "folder: write folder:PATH, where PATH holds a folder for each class"
    )
    assert refusal() == f"{root} does not exist: correct the path"
    write(".", 1)
    assert refusal().startswith(f"{root} has no sub-folders: put the images of each class into")
    assert refusal(argument=f"{root}/0.png").startswith(f"{root}/0.png is not a folder")
    write("train", 2)
    assert refusal().startswith(f"{root} has a single class, 'train': add a folder for each class")
    write("cat", 2)
    assert read(root).classes == ("cat", "train")
    assert refusal(seed=-1) == "seed is -1: use a whole number, 0 or more"
    assert refusal(data_dir=root).startswith(f"{root} is the data folder too, where decoded")
    write("dog", 1)
    assert refusal() == (
        f"class 'dog' has a single image, {root}/dog/0.png, which cannot be in the training and "
        "in the test part: add images, or remove the class"
    )
    (root / "bee").mkdir()
    assert refusal().startswith(f"the class folder {root}/bee has no JPEG, PNG, WEBP")


def test_parts_that_do_not_match(root: Path, write: Write) -> None:
    for i in range(9):
        write(f"train/{i}", 1)
    write("val/cat", 1)
    write("val/3", 1)
    with pytest.raises(UserError) as caught:
        read(root)
    assert str(caught.value) == (
        f"the classes in {root} differ (val lacks '0', '1', '2', '4', '5' and 3 more; train lacks "
        "'cat'): add the missing folders, or remove those that the other part lacks"
    )


def test_a_test_part_without_a_training_part(root: Path, write: Write) -> None:
    write("training/cat", 2)
    write("test/cat", 2)
    with pytest.raises(UserError, match="has a folder test but no folder train: name the folder"):
        read(root)


def test_a_folder_without_rights(root: Path, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write("cat", 2)
    write("dog", 2)
    root.parent.chmod(0o755)
    monkeypatch.chdir(root.parent)  # whatever is closed above it
    user = os.geteuid()
    for folder in (root / "cat", root):
        folder.chmod(0)
        if user == 0:
            os.seteuid(65534)  # to root, nothing is closed
        try:
            with pytest.raises(UserError, match=r"^pets(/cat)? cannot be listed \(Permission"):
                read(root, argument="pets")
        finally:
            os.seteuid(user)
        folder.chmod(0o755)


def test_mixed_kinds_and_sizes(root: Path, write: Write) -> None:
    rng = np.random.default_rng(0)
    for label in ("cat", "dog"):
        (root / label).mkdir(parents=True)
        for kind, shape in (("jpg", (30, 99, 3)), ("png", (8, 8)), ("webp", (300, 200, 3))):
            pixels = rng.integers(0, 256, shape, dtype=np.uint8)
            Image.fromarray(pixels).save(root / label / f"x.{kind}")
    dataset = read(root, size=24)
    assert dataset.train_images.shape == (4, 3, 24, 24)
    assert dataset.test_images.shape == (2, 3, 24, 24)
