import os
import pickle
import re
import tracemalloc
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from eec.data import cifar10, cifar100
from eec.data.catalog import load_dataset
from eec.data.cifar import Layout
from eec.errors import UserError

LAYOUTS = {"cifar10": cifar10.LAYOUT, "cifar100": cifar100.LAYOUT}
PIXELS = np.arange(3072).reshape(3, 32, 32)
"""Of a row, as they lie on disk: all of the red plane line by line, then green, then blue."""

WithoutRights = Callable[[Path], AbstractContextManager[None]]


def picture(number: int) -> np.ndarray:
    """Uint8 [3, 32, 32] in which every plane, line and column differs, and from other numbers."""
    return ((PIXELS * 7 + PIXELS // 256 + number * 11) % 256).astype(np.uint8)


def rows(layout: Layout, numbers: range) -> bytes:
    """Row i is of class i and shows picture i; the coarse label, if any, is its own."""
    content = bytearray()
    for number in numbers:
        if len(layout.labels) == 2:
            content.append(number % layout.labels[0])
        content.append(number % len(layout.classes))
        content += picture(number).tobytes()
    return bytes(content)


def write(layout: Layout, data_dir: Path) -> Path:
    """A tiny set: each training file starts where the one before it ended; returns its folder."""
    folder = data_dir / layout.folder
    folder.mkdir()
    each = len(layout.classes) // len(layout.train) + 1  # more than one file must have
    for position, file in enumerate(layout.train):
        part = range(position * each, (position + 1) * each)
        (folder / file).write_bytes(rows(layout, part))
    (folder / layout.test).write_bytes(rows(layout, range(200, 200 + len(layout.classes))))
    return folder


@pytest.fixture(params=list(LAYOUTS))
def layout(request: pytest.FixtureRequest) -> Layout:
    return LAYOUTS[request.param]


# --- good files ---


def test_pictures_labels_and_order_are_those_of_the_files(layout: Layout, tmp_path: Path) -> None:
    write(layout, tmp_path)
    dataset = load_dataset(layout.name, tmp_path)
    count, classes = len(dataset.train_labels), layout.classes
    assert count == len(layout.train) * (len(classes) // len(layout.train) + 1)
    train = np.stack([picture(number) for number in range(count)])
    assert torch.equal(dataset.train_images, torch.from_numpy(train))
    assert dataset.train_labels == [classes[i % len(classes)] for i in range(count)]
    test = np.stack([picture(number) for number in range(200, 200 + len(classes))])
    assert torch.equal(dataset.test_images, torch.from_numpy(test))
    assert dataset.test_labels == list(classes)
    assert dataset.train_images.dtype == torch.uint8
    assert dataset.train_images.is_contiguous()
    assert dataset.classes == classes
    assert dataset.flip
    assert dataset.notices == ()


def test_red_comes_first_and_lines_run_from_left_to_right(tmp_path: Path) -> None:
    folder = write(cifar10.LAYOUT, tmp_path)
    file = bytearray((folder / "data_batch_1.bin").read_bytes())
    file[1 : 1 + 3072] = bytes([200]) * 1024 + bytes([100]) * 1024 + bytes(1024)
    file[1 + 5] = 255  # red, first line, sixth column
    (folder / "data_batch_1.bin").write_bytes(file)
    image = load_dataset("cifar10", tmp_path).train_images[0]
    assert image[0, 0, 5] == 255
    image[0, 0, 5] = 200
    assert [plane.unique().tolist() for plane in image] == [[200], [100], [0]]


def test_cifar100_takes_the_fine_label(tmp_path: Path) -> None:
    write(cifar100.LAYOUT, tmp_path)
    path = tmp_path / "cifar-100-binary" / "test.bin"
    content = bytearray(path.read_bytes())
    content[0], content[1] = 19, 99  # in place of apple, which must stay somewhere
    path.write_bytes(content + rows(cifar100.LAYOUT, range(100)))
    dataset = load_dataset("cifar100", tmp_path)
    assert dataset.test_labels[:2] == ["worm", "aquarium_fish"]


def test_many_rows_in_one_file(tmp_path: Path) -> None:
    """More than are read at a time, and not a multiple of that."""
    folder = write(cifar10.LAYOUT, tmp_path)
    (folder / "data_batch_2.bin").write_bytes(rows(cifar10.LAYOUT, range(2345)))
    dataset = load_dataset("cifar10", tmp_path)
    second = dataset.train_images[3 : 3 + 2345]
    assert torch.equal(second[2344], torch.from_numpy(picture(2344)))
    assert torch.equal(second[1000], torch.from_numpy(picture(1000)))
    assert dataset.train_labels[3 : 3 + 2345] == [cifar10.CLASSES[i % 10] for i in range(2345)]
    assert dataset.train_labels[3 + 2345] == cifar10.CLASSES[6]


def test_memory_is_that_of_the_images(tmp_path: Path) -> None:
    folder = write(cifar10.LAYOUT, tmp_path)
    content = rows(cifar10.LAYOUT, range(10)) * 500
    for file in cifar10.LAYOUT.train:
        (folder / file).write_bytes(content)
    tracemalloc.start()
    try:
        dataset = load_dataset("cifar10", tmp_path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(dataset.train_images) == 25_000
    assert peak < dataset.train_images.nbytes + (8 << 20)  # a file alone is 15 MB


def test_the_names() -> None:
    assert cifar10.CLASSES[0] == "airplane" and cifar10.CLASSES[9] == "truck"
    # The authors numbered the fine classes by the alphabet.
    assert list(cifar100.CLASSES) == sorted(set(cifar100.CLASSES))
    assert len(cifar100.CLASSES) == 100
    assert cifar100.CLASSES[39] == "keyboard" and cifar100.CLASSES[58] == "pickup_truck"


def test_the_places_are_those_of_the_published_archives() -> None:
    assert (cifar10.LAYOUT.folder, cifar10.LAYOUT.archive) == (
        "cifar-10-batches-bin",
        "cifar-10-binary.tar.gz",
    )
    assert (cifar100.LAYOUT.folder, cifar100.LAYOUT.archive) == (
        "cifar-100-binary",
        "cifar-100-binary.tar.gz",
    )


def test_size_is_applied(tmp_path: Path) -> None:
    write(cifar10.LAYOUT, tmp_path)
    assert load_dataset("cifar10", tmp_path, size=16).test_images.shape == (10, 3, 16, 16)


# --- bad files ---


def refusal(name: str, data_dir: Path) -> str:
    with pytest.raises(UserError) as caught:
        load_dataset(name, data_dir)
    message = str(caught.value)
    assert "\n" not in message
    return message


def damage(layout: Layout, data_dir: Path, change: Callable[[bytes], bytes]) -> tuple[Path, str]:
    """Change the last training file; its path and what is then said."""
    path = write(layout, data_dir) / layout.train[-1]
    path.write_bytes(change(path.read_bytes()))
    return path, refusal(layout.name, data_dir)


def test_missing_files_are_named_with_the_way_to_get_them(layout: Layout, tmp_path: Path) -> None:
    message = refusal(layout.name, tmp_path)
    assert all(file in message for file in (*layout.train, layout.test))
    assert str(tmp_path / layout.folder) in message
    assert f"eec data get {layout.name}" in message
    assert "--data-dir" in message


def test_only_the_missing_file_is_named(layout: Layout, tmp_path: Path) -> None:
    (write(layout, tmp_path) / layout.test).unlink()
    (tmp_path / layout.python_version[0]).mkdir()
    message = refusal(layout.name, tmp_path)
    assert layout.test in message
    assert layout.train[0] not in message


def test_a_file_in_place_of_the_folder(layout: Layout, tmp_path: Path) -> None:
    (tmp_path / layout.folder).write_bytes(b"")
    assert f"eec data get {layout.name}" in refusal(layout.name, tmp_path)


@pytest.mark.parametrize("place", [0, 1], ids=["folder", "archive"])
def test_the_python_version_is_refused_with_what_to_get(
    place: int, layout: Layout, tmp_path: Path
) -> None:
    (tmp_path / layout.python_version[place]).mkdir()
    message = refusal(layout.name, tmp_path)
    assert str(tmp_path / layout.python_version[place]) in message
    assert "is the python version, which is pickled and never loaded" in message
    assert f"{layout.archive}, in its place; `eec data get {layout.name}` does so" in message


def test_a_packed_archive_is_to_be_unpacked(layout: Layout, tmp_path: Path) -> None:
    (tmp_path / layout.archive).write_bytes(b"")
    (tmp_path / layout.python_version[0]).mkdir()
    message = refusal(layout.name, tmp_path)
    assert message == (
        f"{layout.name}: {tmp_path / layout.archive} is not unpacked yet: "
        f"`eec data get {layout.name}` unpacks it"
    )


def test_what_lies_beside_a_whole_set_does_not_matter(layout: Layout, tmp_path: Path) -> None:
    write(layout, tmp_path)
    (tmp_path / layout.archive).write_bytes(b"")
    (tmp_path / layout.python_version[0]).mkdir()
    assert load_dataset(layout.name, tmp_path).classes == layout.classes


@pytest.mark.parametrize("cut", [-1, -3000, 1], ids=["a byte", "most of a row", "all but a byte"])
def test_truncated(cut: int, layout: Layout, tmp_path: Path) -> None:
    path, message = damage(layout, tmp_path, lambda content: content[:cut])
    assert message.startswith(f"{path} is truncated or another file")
    assert f"{path.stat().st_size:,} bytes are not whole rows of {layout.row:,}" in message
    assert message.endswith(f"move it away, then `eec data get {layout.name}` fetches it again")


def test_empty(layout: Layout, tmp_path: Path) -> None:
    path, message = damage(layout, tmp_path, lambda content: b"")
    assert message.startswith(f"{path} is empty: move it away, then `eec data get")


def test_a_label_out_of_range(layout: Layout, tmp_path: Path) -> None:
    classes, label = len(layout.classes), len(layout.labels) - 1

    def change(content: bytes) -> bytes:
        start = layout.row + label  # of the second row
        return content[:start] + bytes([classes]) + content[start + 1 :]

    path, message = damage(layout, tmp_path, change)
    assert message.startswith(f"{path} is damaged or another file, row 2 has the label {classes} ")
    assert f"where the largest is {classes - 1}: move it away" in message


def test_a_coarse_label_out_of_range(tmp_path: Path) -> None:
    _, message = damage(cifar100.LAYOUT, tmp_path, lambda content: b"\x14" + content[1:])
    assert "row 1 has the label 20 where the largest is 19" in message


@pytest.mark.parametrize("name", list(LAYOUTS))
def test_rows_of_the_other_set(name: str, tmp_path: Path) -> None:
    layout = LAYOUTS[name]
    other = LAYOUTS["cifar100" if name == "cifar10" else "cifar10"]
    _, message = damage(layout, tmp_path, lambda _: rows(other, range(20)))
    assert f"not whole rows of {layout.row:,}" in message


@pytest.mark.parametrize("name", list(LAYOUTS))
def test_rows_of_the_other_set_in_a_number_that_fits(name: str, tmp_path: Path) -> None:
    """The size is then that of whole rows: the labels tell."""
    layout = LAYOUTS[name]
    other = LAYOUTS["cifar100" if name == "cifar10" else "cifar10"]
    content = rows(other, range(layout.row))
    assert len(content) % layout.row == 0
    _, message = damage(layout, tmp_path, lambda _: content)
    assert re.search("is damaged or another file, row [0-9] has the label", message)


@pytest.mark.parametrize("whole", [False, True], ids=["any size", "whole rows"])
def test_a_renamed_pickle_is_refused_as_such(whole: bool, layout: Layout, tmp_path: Path) -> None:
    content = pickle.dumps({"data": b"x" * 5000, "labels": [1, 2, 3]}, protocol=2)
    content += bytes(-len(content) % layout.row) if whole else b""
    path, message = damage(layout, tmp_path, lambda _: content)
    assert message.startswith(f"{path} is a file of the python version, which is pickled and never")
    assert layout.archive in message


def test_no_pickle_is_ever_loaded(layout: Layout, tmp_path: Path) -> None:
    """What would be run on loading is not."""
    mark = tmp_path / "loaded"

    class Hostile:
        def __reduce__(self) -> tuple[object, ...]:
            return (Path.touch, (mark,))

    damage(layout, tmp_path, lambda _: pickle.dumps({"data": Hostile()}, protocol=2))
    assert not mark.exists()


def test_a_folder_in_place_of_a_file(layout: Layout, tmp_path: Path) -> None:
    path = write(layout, tmp_path) / layout.test
    path.unlink()
    path.mkdir()
    assert str(path) in refusal(layout.name, tmp_path)


def test_a_folder_without_rights(
    layout: Layout, tmp_path: Path, without_rights: WithoutRights
) -> None:
    folder = write(layout, tmp_path)
    with without_rights(folder):
        message = refusal(layout.name, tmp_path)
    assert message == (
        f"{folder / layout.train[0]} cannot be read (Permission denied): "
        "check the rights to it and its folders"
    )


def test_a_file_without_rights(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its size can be seen, but not its content."""
    forbidden = write(layout, tmp_path) / layout.test
    real: Callable[..., Any] = Path.open

    def refuse(path: Path, *arguments: Any) -> Any:
        if path == forbidden:
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *arguments)

    monkeypatch.setattr(Path, "open", refuse)
    message = refusal(layout.name, tmp_path)
    assert message.startswith(f"{forbidden} cannot be read (Permission denied): check the rights")


def test_a_file_that_shrinks_while_it_is_read(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shrinking = write(layout, tmp_path) / layout.test
    real: Callable[..., Any] = Path.open

    def cut(path: Path, *arguments: Any) -> Any:
        if path == shrinking:
            os.truncate(path, path.stat().st_size - 1)
        return real(path, *arguments)

    monkeypatch.setattr(Path, "open", cut)
    message = refusal(layout.name, tmp_path)
    assert message == f"{shrinking} was cut short while it was read: try again"


@settings(deadline=None, max_examples=50)
@given(content=st.binary(min_size=1, max_size=100), whole=st.booleans())
def test_any_bytes_are_a_row_or_refused_in_one_line(
    content: bytes, whole: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    data_dir = tmp_path_factory.mktemp("any")
    path = write(cifar10.LAYOUT, data_dir) / "test_batch.bin"
    content += bytes(3073 - len(content)) if whole else b""
    path.write_bytes(path.read_bytes() + content)
    if whole and content[0] < 10:
        dataset = load_dataset("cifar10", data_dir)
        assert dataset.test_labels[10:] == [cifar10.CLASSES[content[0]]]
        assert dataset.test_images[10].numpy().tobytes() == content[1:]
    else:
        assert str(path) in refusal("cifar10", data_dir)


# --- the real files ---


def test_real_cifar10(data_dir: Path) -> None:
    if not (data_dir / "cifar-10-batches-bin").is_dir():
        pytest.skip(f"no cifar-10-batches-bin in {data_dir}")
    dataset = load_dataset("cifar10", data_dir)
    assert dataset.train_images.shape == (50_000, 3, 32, 32)
    assert dataset.test_images.shape == (10_000, 3, 32, 32)
    assert Counter(dataset.train_labels) == dict.fromkeys(cifar10.CLASSES, 5_000)
    assert Counter(dataset.test_labels) == dict.fromkeys(cifar10.CLASSES, 1_000)
    assert dataset.train_labels[:5] == ["frog", "truck", "truck", "deer", "automobile"]
    assert dataset.test_labels[:5] == ["cat", "ship", "ship", "airplane", "frog"]
    names = np.array(dataset.test_labels)
    planes = dataset.test_images[torch.from_numpy(names == "airplane")].float()
    red, green, blue = planes.mean(dim=(0, 2, 3)).tolist()
    assert blue > green > red  # the sky
    top, bottom = planes[:, 2, :8].mean(), planes[:, 2, -8:].mean()
    assert top > bottom + 5  # it is above


def test_real_cifar100(data_dir: Path) -> None:
    folder = data_dir / "cifar-100-binary"
    if not folder.is_dir():
        pytest.skip(f"no cifar-100-binary in {data_dir}")
    dataset = load_dataset("cifar100", data_dir)
    assert Counter(dataset.train_labels) == dict.fromkeys(cifar100.CLASSES, 500)
    assert Counter(dataset.test_labels) == dict.fromkeys(cifar100.CLASSES, 100)
    assert tuple((folder / "fine_label_names.txt").read_text().split()) == cifar100.CLASSES
