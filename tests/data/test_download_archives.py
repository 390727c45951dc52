"""Sets that come in archives: fetched, unpacked, and what was there before."""

import gzip
import hashlib
import io
import re
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eec.data.download import get_dataset
from eec.data.sources import SOURCES
from eec.errors import UserError


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def tar_bytes(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


CIFAR = tar_bytes(
    {
        "cifar-100-binary/train.bin": b"training",
        "cifar-100-binary/test.bin": b"test",
        "cifar-100-binary/fine_label_names.txt": b"not needed",
    }
)


@pytest.fixture
def cifar(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The archive of cifar100, small, from the server."""
    urls = (server.offer("/cifar", CIFAR),)
    source = SOURCES["cifar100"]
    digest = hashlib.sha256(CIFAR).hexdigest()
    download = replace(source.downloads[0], size=len(CIFAR), sha256=digest, urls=urls)
    monkeypatch.setitem(SOURCES, "cifar100", replace(source, downloads=(download,), sums={}))


@pytest.mark.usefixtures("cifar")
def test_an_archive_is_fetched_unpacked_and_removed(tmp_path: Path) -> None:
    seen = []
    got = get_dataset("cifar100", tmp_path / "data", lambda *step: seen.append(step))
    assert got.fetched == got.unpacked == ("cifar-100-binary.tar.gz",)
    assert names(tmp_path / "data") == ["cifar-100-binary"]
    assert names(tmp_path / "data" / "cifar-100-binary") == ["test.bin", "train.bin"]
    assert (tmp_path / "data" / "cifar-100-binary" / "train.bin").read_bytes() == b"training"
    assert seen[-1] == ("unpacking cifar-100-binary.tar.gz", 2, 2)


@pytest.mark.usefixtures("cifar")
@pytest.mark.parametrize("official", [True, False])
def test_an_archive_that_was_put_there_is_used_and_kept(
    official: bool, server: Any, tmp_path: Path
) -> None:
    content = CIFAR if official else gzip.compress(gzip.decompress(CIFAR), 1)
    assert official or content != CIFAR
    archive = tmp_path / "cifar-100-binary.tar.gz"
    archive.write_bytes(content)
    got = get_dataset("cifar100", tmp_path)
    assert got.fetched == () and got.unpacked == ("cifar-100-binary.tar.gz",)
    assert got.doubtful == (() if official else ("cifar-100-binary.tar.gz",))
    assert names(tmp_path) == ["cifar-100-binary", "cifar-100-binary.tar.gz"]
    assert archive.read_bytes() == content
    assert server.asked == []


@pytest.mark.usefixtures("cifar")
def test_unpacking_replaces_nothing(tmp_path: Path) -> None:
    (tmp_path / "cifar-100-binary").mkdir()
    (tmp_path / "cifar-100-binary" / "test.bin").write_bytes(b"mine")
    get_dataset("cifar100", tmp_path)
    assert (tmp_path / "cifar-100-binary" / "test.bin").read_bytes() == b"mine"
    assert (tmp_path / "cifar-100-binary" / "train.bin").read_bytes() == b"training"
    assert names(tmp_path) == ["cifar-100-binary"]


@pytest.mark.usefixtures("cifar")
def test_a_set_that_is_there_needs_no_archive(server: Any, tmp_path: Path) -> None:
    get_dataset("cifar100", tmp_path)
    server.asked.clear()
    got = get_dataset("cifar100", tmp_path)
    assert got.fetched == got.unpacked == ()
    assert server.asked == []


@pytest.mark.usefixtures("cifar")
def test_offline_the_archive_is_named_with_its_place(server: Any, tmp_path: Path) -> None:
    server.files.clear()
    said = f"put cifar-100-binary.tar.gz from .*cifar.html into {re.escape(str(tmp_path))}$"
    with pytest.raises(UserError, match=said):
        get_dataset("cifar100", tmp_path)
