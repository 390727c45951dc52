"""The three levels of certainty, and the failures below them."""

import gzip
import hashlib
import shutil
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from eec.data import check as module
from eec.data.catalog import DATASETS, load_dataset
from eec.data.check import KNOWN, Known, Level, check_dataset, content_hash
from eec.data.dataset import Dataset
from eec.data.sources import SOURCES
from eec.errors import UserError

TRAIN_IMAGES, TRAIN_LABELS, TEST_IMAGES, TEST_LABELS = SOURCES["mnist"].files


def write_idx(path: Path, array: np.ndarray) -> None:
    header = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    path.write_bytes(gzip.compress(header + array.tobytes(), mtime=0))


@pytest.fixture
def arrays() -> dict[str, np.ndarray]:
    pixels = np.random.default_rng(0).integers(0, 256, (50, 9, 9), dtype=np.uint8)
    labels = (np.arange(50) % 10).astype(np.uint8)
    return {
        TRAIN_IMAGES: pixels[:30],
        TRAIN_LABELS: labels[:30],
        TEST_IMAGES: pixels[30:],
        TEST_LABELS: labels[30:],
    }


@pytest.fixture
def mnist(arrays: dict[str, np.ndarray], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small MNIST, which is made the published one."""
    folder = tmp_path / "mnist"
    folder.mkdir()
    for name, array in arrays.items():
        write_idx(folder / name, array)
    sums = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
    monkeypatch.setitem(SOURCES, "mnist", replace(SOURCES["mnist"], sums=sums))
    content = content_hash(load_dataset("mnist", tmp_path))
    monkeypatch.setitem(KNOWN, "mnist", Known((3,) * 10, (2,) * 10, content))
    return folder


def test_official_checksums_are_enough(mnist: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "load_dataset", None)  # nothing is read
    assert check_dataset("mnist", mnist.parent).level is Level.CHECKSUM


@pytest.mark.parametrize("unpacked", [True, False])
def test_recompressed_files_have_the_content(unpacked: bool, mnist: Path) -> None:
    path = mnist / TRAIN_IMAGES
    content = gzip.decompress(path.read_bytes())
    path.unlink()
    path = mnist / TRAIN_IMAGES.removesuffix(".gz") if unpacked else path
    path.write_bytes(content if unpacked else gzip.compress(content, 1))
    finding = check_dataset("mnist", mnist.parent)
    assert finding.level is Level.CONTENT
    assert finding.notice == (
        f"every pixel and label is as published; the checksum of {path.name} differs"
    )


def test_one_pixel_is_enough_to_fail(mnist: Path, arrays: dict[str, np.ndarray]) -> None:
    arrays[TEST_IMAGES][3, 4, 5] ^= 1
    write_idx(mnist / TEST_IMAGES, arrays[TEST_IMAGES])
    with pytest.raises(UserError, match=r"^mnist: pixels or labels are not the published ones"):
        check_dataset("mnist", mnist.parent)


def test_two_labels_that_are_swapped_fail(mnist: Path, arrays: dict[str, np.ndarray]) -> None:
    labels = arrays[TRAIN_LABELS]
    labels[[0, 1]] = labels[[1, 0]]
    write_idx(mnist / TRAIN_LABELS, labels)
    with pytest.raises(UserError, match="pixels or labels are not the published ones"):
        check_dataset("mnist", mnist.parent)


def test_where_the_content_is_unknown_counts_must_do(
    mnist: Path, arrays: dict[str, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(KNOWN, "mnist", replace(KNOWN["mnist"], content=""))
    write_idx(mnist / TEST_IMAGES, 255 - arrays[TEST_IMAGES])
    finding = check_dataset("mnist", mnist.parent)
    assert finding.level is Level.COUNTS
    assert finding.notice == (
        "30 + 20 images of 10 classes, pixels not verified; "
        "the checksum of t10k-images-idx3-ubyte.gz differs"
    )


def test_wrong_counts_are_named(mnist: Path, arrays: dict[str, np.ndarray]) -> None:
    labels = arrays[TRAIN_LABELS]
    labels[0] = 7
    write_idx(mnist / TRAIN_LABELS, labels)
    with pytest.raises(UserError) as caught:
        check_dataset("mnist", mnist.parent)
    assert str(caught.value) == (
        "mnist: 2 training images of 0 in place of 3; 4 training images of 7 in place of 3: "
        "move its files away, then `eec data get mnist` fetches them"
    )


def test_many_wrong_counts_stay_one_line(mnist: Path, arrays: dict[str, np.ndarray]) -> None:
    write_idx(mnist / TEST_IMAGES, arrays[TEST_IMAGES][:10])
    write_idx(mnist / TEST_LABELS, arrays[TEST_LABELS][:10])
    with pytest.raises(UserError, match=r"1 test images of 2 in place of 2; 7 more classes wrong:"):
        check_dataset("mnist", mnist.parent)


def test_the_number_of_classes(mnist: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KNOWN, "mnist", Known((3,) * 9))
    (mnist / TEST_LABELS).write_bytes(
        gzip.compress(gzip.decompress((mnist / TEST_LABELS).read_bytes()))
    )
    with pytest.raises(UserError, match="10 classes in place of 9"):
        check_dataset("mnist", mnist.parent)


def test_missing_and_damaged_files(mnist: Path) -> None:
    (mnist / TEST_LABELS).write_bytes(b"")
    with pytest.raises(UserError, match=r"t10k-labels-idx1-ubyte.gz is truncated"):
        check_dataset("mnist", mnist.parent)
    (mnist / TEST_LABELS).unlink()
    with pytest.raises(UserError, match=r"^mnist: t10k-labels.* not found in .*eec data get mnist"):
        check_dataset("mnist", mnist.parent)


def test_bare_files_must_be_the_published_ones(tmp_path: Path) -> None:
    """Where nothing is compressed, other bytes are other pixels: no need to read them."""
    folder = tmp_path / "cifar-100-binary"
    folder.mkdir()
    for name in ("train.bin", "test.bin"):
        (folder / name).write_bytes(bytes(3074))
    with pytest.raises(UserError, match=r"^cifar100: train.bin, test.bin in .* differ from the"):
        check_dataset("cifar100", tmp_path)


def test_digits_are_counted(tmp_path: Path) -> None:
    finding = check_dataset("digits", tmp_path)
    assert finding.level is Level.COUNTS
    assert finding.notice == "1,438 + 359 images of 10 classes, pixels not verified"


def test_an_unknown_set(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="unknown data set 'minst'"):
        check_dataset("minst", tmp_path)


def test_a_folder_of_pictures_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = torch.zeros(4, 1, 8, 8, dtype=torch.uint8)
    own = Dataset("folder", images, ["a", "b"] * 2, images, ["a", "b"] * 2, flip=True)
    monkeypatch.setattr(module, "load_dataset", lambda *_, **__: own)
    finding = check_dataset("folder:mine", tmp_path)
    assert finding.level is Level.READ
    assert finding.notice == "4 + 4 images of 2 classes; there is nothing to compare it with"


def test_what_is_known_agrees_with_the_sources() -> None:
    assert set(KNOWN) == set(DATASETS) - {"folder"}
    for name, known in KNOWN.items():
        if known.train:
            assert sum(known.train) == SOURCES[name].train
            assert sum(known.test) == SOURCES[name].test
            assert len(known.train) == len(known.test)


def test_the_content_hash_sees_order_classes_and_parts() -> None:
    images = torch.arange(4 * 64, dtype=torch.uint8).reshape(4, 1, 8, 8)
    base = Dataset("x", images, [0, 1, 0, 1], images, [0, 1, 1, 0], flip=False)
    others = [
        replace(base, train_images=images.flip(0)),
        replace(base, train_labels=[1, 0, 0, 1]),
        replace(base, test_labels=[0, 1, 0, 1]),
        replace(base, classes=(1, 0)),
    ]
    assert len({content_hash(dataset) for dataset in [base, *others]}) == 5
    assert content_hash(replace(base, train_images=images.flip(0).flip(0))) == content_hash(base)


def test_a_check_by_checksum_imports_no_torch(data_dir: Path) -> None:
    present(data_dir, "mnist")
    program = (
        "import sys; from pathlib import Path; from eec.data.check import check_dataset;"
        "check_dataset('mnist', Path(sys.argv[1])); sys.exit('torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program, data_dir], check=True)


# --- the real sets ---


def present(data_dir: Path, name: str) -> None:
    if not SOURCES[name].present(data_dir):
        pytest.skip(f"no {name} in {data_dir}")


def test_real_mnist_in_either_form(data_dir: Path, tmp_path: Path) -> None:
    present(data_dir, "mnist")
    (tmp_path / "mnist").mkdir()
    for name in SOURCES["mnist"].files:
        shutil.copy(data_dir / "mnist" / name, tmp_path / "mnist" / name)
    assert check_dataset("mnist", tmp_path).level is Level.CHECKSUM
    labels = tmp_path / "mnist" / TRAIN_LABELS
    labels.with_suffix("").write_bytes(gzip.decompress(labels.read_bytes()))
    labels.unlink()
    assert check_dataset("mnist", tmp_path).level is Level.CONTENT


@pytest.mark.parametrize("name", ["fashion-mnist", "cifar10", "cifar100", "svhn"])
def test_real_sets(name: str, data_dir: Path) -> None:
    present(data_dir, name)
    finding = check_dataset(name, data_dir)
    # The crops of SVHN cannot be verified where they are not the published files.
    weakest = {"svhn": Level.COUNTS, "fashion-mnist": Level.CONTENT}.get(name, Level.CHECKSUM)
    assert finding.level in (Level.CHECKSUM, weakest)
