"""Archives are not trusted: what they may hold, and what they may not."""

import gzip
import io
import random
import resource
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eec.data.sources import TINY_IMAGENET_50
from eec.data.unpack import unpack
from eec.errors import UserError

TRAIN, TEST = "cifar-100-binary/train.bin", "cifar-100-binary/test.bin"
GOOD = {TRAIN: b"training" * 100, TEST: b"test" * 100}
TINY = "tiny-imagenet-200"
ANNOTATIONS = f"{TINY}/val/val_annotations.txt"


def member(name: str, content: bytes = b"", **facts: object) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for fact, value in facts.items():
        setattr(info, fact, value)
    return info, content


def tar(path: Path, *more: tuple[tarfile.TarInfo, bytes], first: bool = False) -> Path:
    """The archive of cifar100 with more members, after or before those that it needs."""
    members = [member(name, content) for name, content in GOOD.items()]
    with tarfile.open(path, "w:gz") as archive:
        for info, content in [*more, *members] if first else [*members, *more]:
            archive.addfile(info, io.BytesIO(content))
    return path


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return tmp_path / "archives" / "cifar-100-binary.tar.gz"


@pytest.fixture(autouse=True)
def folders(tmp_path: Path) -> None:
    (tmp_path / "archives").mkdir()


def refused(archive: Path, tmp_path: Path, name: str = "cifar100") -> str:
    """The one line in which an archive is refused; asserts that nothing of it is left."""
    with pytest.raises(UserError) as caught:
        unpack(name, archive, tmp_path / "data" / "set")
    assert not list(tmp_path.glob("data/**/*")) and archive.exists()
    assert not (tmp_path / "evil").exists()
    said = str(caught.value)
    assert said.startswith(str(archive)) and "\n" not in said
    return said


def complaint(name: str, archive: Path, folder: Path) -> str:
    """What is said of an archive, or nothing if it could be unpacked."""
    try:
        unpack(name, archive, folder)
    except UserError as error:
        return str(error)
    return ""


def contents(folder: Path) -> dict[str, bytes]:
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def test_only_what_is_wanted_comes_out(archive: Path, tmp_path: Path) -> None:
    tar(archive, member("cifar-100-binary/readme", b"x"), member("train.bin", b"y"), first=True)
    seen: list[tuple[int, int]] = []
    unpack("cifar100", archive, tmp_path / "data" / "set", lambda *step: seen.append(step))
    assert contents(tmp_path / "data") == {"set/train.bin": GOOD[TRAIN], "set/test.bin": GOOD[TEST]}
    assert seen == [(1, 2), (2, 2)]


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(
    "name",
    ["../evil", "a/../../evil", "/evil", "..\\evil", "C:\\evil", "C:evil", "\\evil", "a/.."],
)
def test_a_path_that_climbs_out_condemns_the_archive(
    name: str, first: bool, archive: Path, tmp_path: Path
) -> None:
    tar(archive, member(name, b"evil"), first=first)
    assert "climbs out of the folder: move it away" in refused(archive, tmp_path)


@pytest.mark.parametrize(
    "kind",
    [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE],
    ids=["symlink", "hard link", "device", "fifo"],
)
@pytest.mark.parametrize("name", [TRAIN, "cifar-100-binary/other"])
def test_links_and_devices_condemn_the_archive(
    name: str, kind: bytes, archive: Path, tmp_path: Path
) -> None:
    tar(archive, member(name, type=kind, linkname="../../evil"), first=True)
    assert "a link or device in place of a file" in refused(archive, tmp_path)


def test_a_member_beyond_its_known_size(archive: Path, tmp_path: Path) -> None:
    with tarfile.open(archive, "w:gz", compresslevel=1) as package:
        info = tarfile.TarInfo(TEST)
        info.size = 30_740_001
        package.addfile(info, io.BytesIO(bytes(info.size)))
    assert f"holds {TEST} with more than its 30,740,000 bytes" in refused(archive, tmp_path)


def test_a_bomb_beside_the_wanted_members(archive: Path, tmp_path: Path) -> None:
    with gzip.open(archive, "wb", compresslevel=1) as file:
        info = tarfile.TarInfo("cifar-100-binary/bomb")
        info.size = 1 << 40
        file.write(info.tobuf())
        for _ in range(300):
            file.write(bytes(1 << 20))
    assert archive.stat().st_size < 2_000_000
    assert "holds far more than the data set has" in refused(archive, tmp_path)


def test_a_member_twice(archive: Path, tmp_path: Path) -> None:
    tar(archive, member(TRAIN, b"another"))
    assert f"holds {TRAIN} twice" in refused(archive, tmp_path)


def test_a_missing_member(archive: Path, tmp_path: Path) -> None:
    with tarfile.open(archive, "w:gz"):
        pass
    assert f"lacks {TEST} and 1 more" in refused(archive, tmp_path)


@pytest.mark.parametrize(
    "content", [b"", b"<html>404</html>", gzip.compress(b"no tar at all", mtime=0)]
)
def test_what_is_no_archive(content: bytes, archive: Path, tmp_path: Path) -> None:
    archive.write_bytes(content)
    said = refused(archive, tmp_path)
    assert "truncated or damaged" in said or "lacks" in said
    assert "move it away, then `eec data get cifar100` fetches it" in said


def test_a_truncated_archive(archive: Path, tmp_path: Path) -> None:
    content = tar(archive).read_bytes()
    archive.write_bytes(content[: len(content) // 2])
    assert "truncated or damaged" in refused(archive, tmp_path)


@settings(deadline=None, max_examples=150)
@given(place=st.floats(0, 1, exclude_max=True), value=st.integers(1, 255), inside=st.booleans())
def test_damage_anywhere_ends_in_one_line(
    place: float, value: int, inside: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("damage")
    content = tar(folder / "good.tar.gz").read_bytes()
    content = gzip.decompress(content) if inside else content
    spot = int(place * len(content))
    content = content[:spot] + bytes([content[spot] ^ value]) + content[spot + 1 :]
    (folder / "bad.tar.gz").write_bytes(gzip.compress(content) if inside else content)
    said = complaint("cifar100", folder / "bad.tar.gz", folder / "data" / "set")
    assert "\n" not in said
    found = contents(folder / "data")
    if said:
        assert found == {}
    else:
        assert {name: len(content) for name, content in found.items()} == {
            "set/train.bin": 800,
            "set/test.bin": 400,
        }
        # What was damaged after compression would not have the right checksum in the end.
        assert inside or set(found.values()) == set(GOOD.values())


def test_damage_inside_a_member(archive: Path, tmp_path: Path) -> None:
    noise = random.Random(0).randbytes(100_000)  # does not shrink: most of the file is this member
    content = bytearray(tar(archive, member("noise", noise), first=True).read_bytes())
    content[len(content) // 2 :: 1000] = bytes(len(content[len(content) // 2 :: 1000]))
    archive.write_bytes(content)
    assert "truncated or damaged" in refused(archive, tmp_path)


@contextmanager
def no_file_larger_than(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_disk_that_takes_no_more(archive: Path, tmp_path: Path) -> None:
    tar(archive)
    with no_file_larger_than(500):
        said = refused(archive, tmp_path)
    assert "cannot be unpacked into" in said and "File too large" in said and "--data-dir" in said


def test_a_folder_that_cannot_be_made(archive: Path, tmp_path: Path) -> None:
    tar(archive)
    (tmp_path / "data").write_text("kept")
    with pytest.raises(UserError, match=r"cannot be unpacked into .*: (Not a d|File e)"):
        unpack("cifar100", archive, tmp_path / "data" / "set")
    assert (tmp_path / "data").read_text() == "kept"


# --- Tiny ImageNet ---


def annotations() -> str:
    """Fifty images of each class, and one of a class that is not wanted."""
    lines = [
        f"val_{number}.JPEG\t{TINY_IMAGENET_50[number % 50]}\t0\t0\t63\t63"
        for number in range(2500)
    ]
    return "\n".join([*lines, "val_9999.JPEG\tn04067472\t0\t0\t1\t1", ""])


def tiny_zip(path: Path, *more: tuple[zipfile.ZipInfo, bytes], listing: str = "") -> Path:
    """A small one: of most images the archive knows nothing."""
    with zipfile.ZipFile(path, "w") as package:
        package.writestr(ANNOTATIONS, listing or annotations())
        for info, content in more:
            package.writestr(info, content)
    return path


@pytest.fixture
def package(tmp_path: Path) -> Path:
    return tmp_path / "archives" / "tiny-imagenet-200.zip"


def test_tiny_imagenet_is_laid_out_by_class(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = TINY_IMAGENET_50[:3]  # all 50 would take their time
    monkeypatch.setattr("eec.data.unpack.TINY_IMAGENET_50", few)
    with zipfile.ZipFile(package, "w") as whole:
        whole.writestr(ANNOTATIONS, annotations())
        whole.writestr(f"{TINY}/test/images/test_0.JPEG", b"without a label")
        for wnid in [*few, "n04067472"]:
            for number in range(500):
                name = f"{wnid}_{number}.JPEG"
                whole.writestr(f"{TINY}/train/{wnid}/images/{name}", name)
            whole.writestr(f"{TINY}/train/{wnid}/{wnid}_boxes.txt", b"not needed")
        for number in [*range(2500), 9999]:
            whole.writestr(f"{TINY}/val/images/val_{number}.JPEG", f"val {number}")
    unpack("tiny-imagenet-50", package, tmp_path / "data" / "tiny-imagenet-50")
    found = contents(tmp_path / "data" / "tiny-imagenet-50")
    assert len(found) == 3 * 550
    for place, wnid in enumerate(few):
        assert found[f"train/{wnid}/{wnid}_499.JPEG"] == f"{wnid}_499.JPEG".encode()
        number = 2450 + place
        assert found[f"val/{wnid}/val_{number}.JPEG"] == f"val {number}".encode()
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["tiny-imagenet-50"]


@pytest.mark.parametrize("name", ["../evil", "/evil", "a/../../evil", "C:\\evil"])
def test_a_zip_that_climbs_out(name: str, package: Path, tmp_path: Path) -> None:
    tiny_zip(package, (zipfile.ZipInfo(name), b"evil"))
    assert "climbs out" in refused(package, tmp_path, "tiny-imagenet-50")


def test_a_link_in_a_zip(package: Path, tmp_path: Path) -> None:
    info = zipfile.ZipInfo(f"{TINY}/val/images/val_0.JPEG")
    info.external_attr = 0o120777 << 16
    tiny_zip(package, (info, b"../../../evil"))
    assert "a link or device" in refused(package, tmp_path, "tiny-imagenet-50")


def test_a_bomb_in_a_zip(package: Path, tmp_path: Path) -> None:
    info = zipfile.ZipInfo(f"{TINY}/val/images/val_0.JPEG")
    info.compress_type = zipfile.ZIP_DEFLATED
    tiny_zip(package, (info, bytes(1 << 24)))
    assert "val_0.JPEG with more than its 65,536 bytes" in refused(
        package, tmp_path, "tiny-imagenet-50"
    )


def test_a_bomb_in_place_of_the_list(package: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(package, "w", zipfile.ZIP_DEFLATED) as whole:
        whole.writestr(ANNOTATIONS, bytes(1 << 24))
    assert "val_annotations.txt with more than its" in refused(
        package, tmp_path, "tiny-imagenet-50"
    )


def test_a_zip_that_understates_a_bomb(package: Path, tmp_path: Path) -> None:
    """What the directory says of the size is not believed either."""
    info = zipfile.ZipInfo(f"{TINY}/val/images/val_0.JPEG")
    info.compress_type = zipfile.ZIP_DEFLATED
    tiny_zip(package, (info, bytes(1 << 20)))
    content = package.read_bytes()
    package.write_bytes(content.replace((1 << 20).to_bytes(4, "little"), bytes([9, 0, 0, 0])))
    refused(package, tmp_path, "tiny-imagenet-50")


def test_images_that_are_missing_are_counted(package: Path, tmp_path: Path) -> None:
    tiny_zip(package)
    assert "and 27,499 more" in refused(package, tmp_path, "tiny-imagenet-50")


@pytest.mark.parametrize(
    "listing",
    ["val_0.JPEG\tn01629819", "\n\t\n\0", annotations().replace("val_0.JPEG", "../../evil.JPEG")],
)
def test_a_list_that_names_too_few(listing: str, package: Path, tmp_path: Path) -> None:
    tiny_zip(package, listing=listing)
    said = refused(package, tmp_path, "tiny-imagenet-50")
    assert "does not name 50 images of each class" in said


def test_a_zip_without_the_list(package: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(package, "w"):
        pass
    assert f"lacks {ANNOTATIONS}" in refused(package, tmp_path, "tiny-imagenet-50")


@pytest.mark.parametrize("content", [b"", b"<html>404</html>", b"PK\x03\x04" + bytes(99)])
def test_what_is_no_zip(content: bytes, package: Path, tmp_path: Path) -> None:
    package.write_bytes(content)
    assert "truncated or damaged" in refused(package, tmp_path, "tiny-imagenet-50")


@pytest.mark.parametrize(
    ("place", "value"),
    [(8, 99), (8, zipfile.ZIP_BZIP2), (8, zipfile.ZIP_LZMA), (6, 1)],
    ids=["unknown method", "no bzip2", "no lzma", "encrypted"],
)
def test_a_zip_that_cannot_be_read(place: int, value: int, package: Path, tmp_path: Path) -> None:
    content = bytearray(tiny_zip(package).read_bytes())
    content[place] = value  # in the header of the list, and the same in the directory
    content[content.rindex(b"PK\x01\x02") + place + 2] = value
    package.write_bytes(content)
    assert "truncated or damaged" in refused(package, tmp_path, "tiny-imagenet-50")


def test_a_list_of_other_characters(package: Path, tmp_path: Path) -> None:
    tiny_zip(package, listing="\u00e9")
    assert "truncated or damaged" in refused(package, tmp_path, "tiny-imagenet-50")


@settings(deadline=None, max_examples=100)
@given(place=st.floats(0, 1, exclude_max=True), value=st.integers(1, 255))
def test_damage_in_a_zip_ends_in_one_line(
    place: float, value: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("damage")
    listing = "val_0.JPEG\tn01629819\n" * 3
    path = tiny_zip(folder / "bad.zip", (zipfile.ZipInfo("a"), b"b"), listing=listing)
    content = bytearray(path.read_bytes())
    content[int(place * len(content))] ^= value
    path.write_bytes(content)
    with pytest.raises(UserError) as caught:
        unpack("tiny-imagenet-50", path, folder / "data" / "set")
    assert "\n" not in str(caught.value)
    assert contents(folder / "data") == {}
