"""ImageNet-50 in folders like those of ILSVRC-2012, and Tiny ImageNet as it is."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from eec.data import imagenet50, tiny_imagenet50
from eec.data.catalog import Request, load_dataset
from eec.errors import UserError

TINY = "tiny-imagenet-50"


def name(number: int) -> str:
    return f"n{10_000_000 + 7 * number}"


def make(data_dir: Path, classes: range, *, empty: bool = False) -> None:
    """Class folders with an image of its number in each part, or with nothing in them."""
    for part, place in (("train", 3), ("val", 11)):
        for number in classes:
            folder = data_dir / "imagenet" / part / name(number)
            folder.mkdir(parents=True, exist_ok=True)
            if not empty:
                pixels = np.full((20, 14, 3), (number // 256, number % 256, place), np.uint8)
                Image.fromarray(pixels).save(folder / "a.png")


def refusal(data_dir: Path, argument: str = "", seed: int = 0) -> str:
    with pytest.raises(UserError) as caught:
        imagenet50.load(Request(data_dir, 8, argument, seed))
    return str(caught.value)


def test_the_fixed_list(tmp_path: Path) -> None:
    make(tmp_path, range(1000), empty=True)  # only those that are chosen are looked into
    within = (1, 15, 29, 45, 59, 65, 81, 89, 90, 99)
    chosen = [hundred + i for hundred in (0, 100, 200, 300, 400) for i in within]
    for number in chosen:
        make(tmp_path, range(number, number + 1))
    dataset = load_dataset("imagenet-50:fixed", tmp_path, 8)
    assert dataset.classes == tuple(map(name, chosen))
    assert dataset.train_labels == dataset.test_labels == list(dataset.classes)
    assert dataset.flip and dataset.train_images.shape == (50, 3, 8, 8)
    for images, place in ((dataset.train_images, 3), (dataset.test_images, 11)):
        codes = images[:, :, 4, 4].int()
        assert (codes[:, 0] * 256 + codes[:, 1]).tolist() == chosen
        assert set(codes[:, 2].tolist()) == {place}


def test_classes_drawn_by_the_seed(tmp_path: Path) -> None:
    make(tmp_path, range(60))
    drawn = [load_dataset("imagenet-50", tmp_path, seed=seed) for seed in (5, 5, 6)]
    order = np.random.default_rng(5).permutation(60)[:50]
    assert drawn[0].classes == tuple(name(number) for number in order)
    assert drawn[0].classes == drawn[1].classes != drawn[2].classes
    assert drawn[0].train_images.shape == (50, 3, 32, 32)
    assert drawn[0].train_images[:, 1, 9, 9].tolist() == order.tolist()
    assert drawn[0].train_labels == drawn[0].test_labels == list(drawn[0].classes)


def test_folders_that_do_not_suffice(tmp_path: Path) -> None:
    missing = refusal(tmp_path)
    assert missing.startswith(f"imagenet-50: train, val not found in {tmp_path}/imagenet")
    make(tmp_path, range(49))
    folder = tmp_path / "imagenet"
    assert refusal(tmp_path).startswith(
        f"{folder}/train has 49 class folders, 50 are to be drawn from them: add"
    )
    make(tmp_path, range(49, 60))
    assert refusal(tmp_path, "fixed").startswith(f"{folder}/train has 60 class folders: the fixed")
    assert refusal(tmp_path, "first") == "imagenet-50:first: write imagenet-50 or imagenet-50:fixed"
    assert refusal(tmp_path, seed=-1) == "seed is -1: use a whole number, 0 or more"


def test_a_validation_part_without_class_folders(tmp_path: Path) -> None:
    make(tmp_path, range(60))
    flat = tmp_path / "imagenet" / "val"
    for folder in flat.iterdir():
        (folder / "a.png").rename(flat / f"{folder.name}.png")
        folder.rmdir()
    assert refusal(tmp_path) == (
        f"{flat} holds images but no class folders: move each image into the folder of its class, "
        "named as in train"
    )


def test_classes_without_validation_images(tmp_path: Path) -> None:
    make(tmp_path, range(50))
    folder = tmp_path / "imagenet" / "val" / name(7)
    (folder / "a.png").unlink()
    assert refusal(tmp_path).startswith(f"the class folder {folder} has no JPEG")
    folder.rmdir()
    assert f"differ (val lacks {name(7)!r})" in refusal(tmp_path)


def test_tiny_imagenet_is_read_as_it_is(data_dir: Path, tmp_path: Path) -> None:
    real = data_dir / TINY
    if not (real / "val").is_dir():
        pytest.skip(f"no {TINY} in {data_dir}: set EEC_DATA to a folder that has it")
    wnids = sorted(folder.name for folder in (real / "train").iterdir())
    assert len(wnids) == 50
    for part in ("train", "val"):
        for wnid in wnids:
            folder = tmp_path / TINY / part / wnid
            folder.mkdir(parents=True)
            for path in sorted((real / part / wnid).glob("*.JPEG"))[:3]:
                (folder / path.name).symlink_to(path.resolve())
    dataset = load_dataset(TINY, tmp_path, 64)
    assert dataset.classes == tuple(wnids) and dataset.flip
    assert dataset.train_images.shape == dataset.test_images.shape == (150, 3, 64, 64)
    with Image.open(sorted((real / "train" / wnids[1]).glob("*.JPEG"))[0]) as image:
        pixels = np.asarray(image.convert("RGB")).transpose(2, 0, 1)
    assert np.array_equal(dataset.train_images[3].numpy(), pixels)
    assert load_dataset(TINY, tmp_path).train_images.shape == (150, 3, 32, 32)


def test_tiny_imagenet_that_is_missing(tmp_path: Path) -> None:
    (tmp_path / TINY / "train").mkdir(parents=True)
    with pytest.raises(UserError, match=f"{TINY}: val not found in {tmp_path / TINY}"):
        tiny_imagenet50.load(Request(tmp_path, 64))
