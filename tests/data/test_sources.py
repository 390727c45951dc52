import re
import subprocess
import sys
from pathlib import Path

import pytest

from eec.data.catalog import DATASETS
from eec.data.sources import SOURCES, TINY_IMAGENET_50, find, missing_files

DOWNLOADS = [(name, download) for name, source in SOURCES.items() for download in source.downloads]


def test_every_set_has_a_source_and_in_the_same_order() -> None:
    assert list(SOURCES) == list(DATASETS)


def test_counts_are_those_of_the_catalog() -> None:
    for name, source in SOURCES.items():
        if source.train is not None:
            assert f"{source.train:,} + {source.test:,}" in DATASETS[name].description


def test_a_set_is_downloaded_or_there_is_a_way_by_hand() -> None:
    for name, source in SOURCES.items():
        assert bool(source.downloads) != bool(source.by_hand), name
        assert source.licence and source.home


@pytest.mark.parametrize(("name", "download"), DOWNLOADS)
def test_downloads_are_pinned(name: str, download: object) -> None:
    facts = vars(download)
    assert re.fullmatch(r"[0-9a-f]{64}", facts["sha256"])
    assert facts["size"] > 1000
    assert facts["urls"]
    for url in facts["urls"]:
        assert re.match(r"https?://", url) and url.endswith("/" + facts["name"])


def test_what_is_downloaded_as_it_is_has_the_same_sum_in_the_folder() -> None:
    for source in SOURCES.values():
        assert set(source.sums) <= set(source.files)
        for download in source.downloads:
            if not download.archive:
                assert source.sums[download.name] == download.sha256


def test_no_two_files_are_confused() -> None:
    sums = [download.sha256 for _, download in DOWNLOADS]
    assert len(set(sums)) == len(sums)


def test_tiny_imagenet_has_fifty_classes() -> None:
    assert len(set(TINY_IMAGENET_50)) == 50
    assert list(TINY_IMAGENET_50) == sorted(TINY_IMAGENET_50)
    assert all(re.fullmatch(r"n\d{8}", wnid) for wnid in TINY_IMAGENET_50)


def test_the_fifty_classes_are_those_on_disk(data_dir: Path) -> None:
    folder = data_dir / "tiny-imagenet-50"
    if not folder.is_dir():
        pytest.skip(f"no tiny-imagenet-50 in {data_dir}")
    for part in ("train", "val"):
        found = sorted(path.name for path in (folder / part).iterdir() if path.is_dir())
        assert found == list(TINY_IMAGENET_50)


def test_a_file_may_be_unpacked(tmp_path: Path) -> None:
    assert find(tmp_path, "a.gz") is None
    (tmp_path / "a").touch()
    assert find(tmp_path, "a.gz") == tmp_path / "a"
    (tmp_path / "a.gz").touch()
    assert find(tmp_path, "a.gz") == tmp_path / "a.gz"


def test_presence(tmp_path: Path) -> None:
    source = SOURCES["svhn"]
    assert source.missing(tmp_path) == ["train_32x32.mat", "test_32x32.mat"]
    (tmp_path / "svhn").mkdir()
    (tmp_path / "svhn" / "train_32x32.mat").touch()
    assert source.missing(tmp_path) == ["test_32x32.mat"]
    assert not source.present(tmp_path)
    (tmp_path / "svhn" / "test_32x32.mat").touch()
    assert source.present(tmp_path)
    assert SOURCES["digits"].present(tmp_path)


def test_one_missing_file() -> None:
    folder = Path("data") / "cifar-10-batches-bin"
    assert str(missing_files("cifar10", folder, ["data_batch_1.bin"])) == (
        f"cifar10: data_batch_1.bin not found in {folder}: `eec data get cifar10` fetches it, or "
        "put it there from https://www.cs.toronto.edu/~kriz/cifar.html, or name the folder above "
        "it with --data-dir or EEC_DATA"
    )


def test_several_missing_files() -> None:
    said = str(missing_files("svhn", Path("x"), ["a.mat", "b.mat"]))
    assert said.startswith("svhn: a.mat, b.mat not found in x: `eec data get svhn` fetches them")


def test_what_cannot_be_fetched_is_not_promised() -> None:
    said = str(missing_files("imagenet-50", Path("data/imagenet"), ["train", "val"]))
    assert "eec data get" not in said
    assert "ILSVRC2012_img_train.tar" in said and "ILSVRC2012_img_val.tar" in said
    assert "image-net.org" in said and "imagenet/val/" in said and "--data-dir" in said


def test_sources_import_no_torch() -> None:
    program = "import sys, eec.data.sources; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
