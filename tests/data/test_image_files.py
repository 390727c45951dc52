import io
import os
import struct
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageFile

from eec.data.image_files import (
    MOST_PIXELS,
    SUFFIXES,
    Undecodable,
    channels_of,
    find_classes,
    find_images,
    is_grey,
    map_in_threads,
    read_image,
    read_images,
    skipped_notice,
)
from eec.errors import UserError

NOISE = np.random.default_rng(0).integers(0, 256, (16, 16, 3), dtype=np.uint8)


def encoded(image: Image.Image | np.ndarray, kind: str = "PNG", **options: object) -> io.BytesIO:
    image = Image.fromarray(image) if isinstance(image, np.ndarray) else image
    file = io.BytesIO()
    image.save(file, kind, **options)
    file.seek(0)
    return file


def plain(mode: str, colour: object) -> Image.Image:
    return Image.new(mode, (16, 16), colour)  # type: ignore[arg-type]


def bomb(side: int) -> bytes:
    """A small PNG whose header speaks of many pixels."""
    content = bytearray(encoded(NOISE).read())
    content[16:24] = struct.pack(">II", side, side)
    content[29:33] = struct.pack(">I", zlib.crc32(content[12:29]))
    return bytes(content)


@contextmanager
def without_privileges() -> Iterator[None]:
    """To root, no file is closed."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)


@pytest.mark.parametrize(("size", "channels"), [(7, 3), (0, 1), (-3, 1), (32, 2), (32, 4)])
def test_extents_that_cannot_be(size: int, channels: int, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"size is|channels: choose"):
        read_image(encoded(NOISE), size, channels)
    with pytest.raises(UserError, match=r"size is|channels: choose"):
        read_images([tmp_path / "none.png"], size, channels)


def test_pipes_are_read() -> None:
    end, start = os.pipe()
    with os.fdopen(start, "wb") as file:
        file.write(encoded(NOISE).read())
    with os.fdopen(end, "rb") as pipe:
        assert np.array_equal(read_image(pipe, 16, 3), NOISE.transpose(2, 0, 1))


def test_grey_is_told_by_the_header(tmp_path: Path) -> None:
    for mode in ("1", "L", "LA", "I;16", "I"):
        assert is_grey(encoded(plain(mode, 0 if mode != "LA" else (0, 0)), "TIFF")), mode
    for mode in ("RGB", "RGBA", "P", "CMYK"):
        assert not is_grey(encoded(plain(mode, 0), "TIFF")), mode
    names = {"a.png": plain("L", 1), "b.png": plain("1", 1), "d.png": plain("RGB", 1)}
    for name, image in names.items():
        image.save(tmp_path / name)
    (tmp_path / "c.png").write_text("no image")
    assert channels_of([tmp_path / name for name in ("a.png", "b.png", "c.png")]) == 1
    assert channels_of([tmp_path / name for name in ("a.png", "c.png", "d.png")]) == 3
    assert channels_of([tmp_path / "c.png"]) == 3


# Files that give no image


def refusal(path: Path) -> str:
    with pytest.raises(Undecodable) as caught:
        read_image(path, 16, 3)
    message = str(caught.value)
    assert message.isprintable()
    assert message.endswith(f"cannot be decoded ({caught.value.why}): replace or remove it")
    return message


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "the file is empty"),
        (b"My holidays, by the sea.", "not a readable JPEG, PNG, WEBP, BMP, TIFF or GIF file"),
        (b"\xff\xd8\xff", "JPEG|Truncated"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "not a readable"),
        (encoded(NOISE, "PPM").read(), "not a readable"),  # a kind that is not asked for
        (encoded(plain("F", 0.5), "TIFF").read(), "floating point"),
        (encoded(plain("I", -5), "TIFF").read(), "more than 16 bits"),
        (encoded(plain("I", 1 << 20), "TIFF").read(), "more than 16 bits"),
    ],
)
def test_what_cannot_be_decoded(content: bytes, why: str, tmp_path: Path) -> None:
    path = tmp_path / "holiday.jpg"
    path.write_bytes(content)
    assert refusal(path).startswith(str(path))
    with pytest.raises(Undecodable, match=why):
        read_image(path, 16, 3)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "BMP", "TIFF", "GIF"])
@pytest.mark.parametrize("share", [0.02, 0.3, 0.6, 0.95])
def test_truncated_files(kind: str, share: float, tmp_path: Path) -> None:
    content = encoded(NOISE.repeat(6, 0).repeat(6, 1), kind).read()
    path = tmp_path / "cut"
    path.write_bytes(content[: int(share * len(content))])
    refusal(path)


@settings(deadline=None, max_examples=150)
@given(
    kind=st.sampled_from(["JPEG", "PNG", "WEBP", "BMP", "TIFF", "GIF"]),
    place=st.integers(0, 1 << 20),
    value=st.integers(0, 255),
)
def test_damage_gives_an_image_or_a_refusal(kind: str, place: int, value: int) -> None:
    content = bytearray(encoded(NOISE, kind).read())
    content[place % len(content)] = value
    with suppress(Undecodable):
        assert read_image(io.BytesIO(content), 16, 3).shape == (3, 16, 16)


def test_files_that_are_not_there_or_not_files(tmp_path: Path) -> None:
    assert "No such file" in refusal(tmp_path / "gone.png")
    assert "Is a directory" in refusal(tmp_path)


def test_a_name_with_line_breaks_stays_on_one_line(tmp_path: Path) -> None:
    path = tmp_path / "a\nb\udcff.png"
    path.write_bytes(b"")
    assert "a\\nb\\udcff.png" in refusal(path)
    good = tmp_path / "good.png"
    Image.fromarray(NOISE).save(good)
    assert skipped_notice(read_images([path, good], 16, 3).skipped).isprintable()


def test_misnamed_images_are_read(tmp_path: Path) -> None:
    path = tmp_path / "png.jpg"
    path.write_bytes(encoded(NOISE).read())
    assert np.array_equal(read_image(path, 16, 3), NOISE.transpose(2, 0, 1))


@pytest.mark.parametrize("side", [9_460, 13_000, 14_000, 60_000])
def test_bombs_are_refused_by_their_header(
    side: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert side**2 > MOST_PIXELS > (side - 1) ** 2 or side > 9_460
    path = tmp_path / "bomb.png"
    path.write_bytes(bomb(side))

    def decoded(*_: object) -> None:
        raise AssertionError("it was decoded")

    monkeypatch.setattr(ImageFile.ImageFile, "load", decoded)
    assert "more than 89 million pixels" in refusal(path)
    gif = tmp_path / "bomb.gif"
    gif.write_bytes(b"GIF89a" + struct.pack("<HH", side, side) + b"\0\0\0,")
    refusal(gif)


def test_pillow_is_silenced_and_the_filters_are_put_back(tmp_path: Path) -> None:
    paths = [tmp_path / f"{i}.png" for i in range(40)]
    for path in paths:
        path.write_bytes(bomb(9_460))  # Pillow warns of each
    Image.fromarray(NOISE).save(paths[0])
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        before = list(warnings.filters)
        assert len(read_images(paths, 16, 3).skipped) == 39
        assert warnings.filters == before
        warnings.warn("heard", stacklevel=1)
    assert [str(warning.message) for warning in heard] == ["heard"]


# Many files


@pytest.fixture
def album(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / f"{i:03}.png" for i in range(100)]
    for i, path in enumerate(paths):
        plain("L", i).save(path)
    return paths


def test_images_come_in_the_order_of_their_paths(album: list[Path]) -> None:
    calls = []
    reading = read_images(album, 16, 1, progress=lambda *call: calls.append(call))
    assert reading.images.dtype == torch.uint8 and reading.images.shape == (100, 1, 16, 16)
    assert reading.images[:, 0, 3, 5].tolist() == reading.kept == list(range(100))
    assert reading.skipped == []
    assert calls == [(i, 100) for i in range(1, 101)]


def test_undecodable_ones_are_left_out_and_named(album: list[Path]) -> None:
    bad = {5: b"", 17: b"text", 99: album[99].read_bytes()[:40]}
    for i, content in bad.items():
        album[i].write_bytes(content)
    reading = read_images(album, 16, 1)
    assert reading.kept == [i for i in range(100) if i not in bad]
    assert reading.images[:, 0, 0, 0].tolist() == reading.kept
    assert [line.split(" (")[0] for line in reading.skipped] == [str(album[i]) for i in bad]
    with pytest.raises(Undecodable, match=r"005\.png cannot be decoded \(the file is empty\)"):
        read_images(album, 16, 1, strict=True)


def test_nothing_left_is_refused(album: list[Path]) -> None:
    for path in album:
        path.write_bytes(b"")
    with pytest.raises(UserError, match=r"none of the 100 images can be decoded: .* 97 more"):
        read_images(album, 16, 1)
    with pytest.raises(UserError, match="no image files were given"):
        read_images([], 16, 1)


def test_notices_count_and_name() -> None:
    lines = [f"{i}.png (why)" for i in range(1200)]
    assert skipped_notice(lines[:1]) == "left out 1 image that cannot be decoded: 0.png (why)"
    notice = "left out 1,200 images that cannot be decoded: "
    assert skipped_notice(lines) == notice + "0.png (why); 1.png (why); 2.png (why); and 1,197 more"


def test_only_a_few_results_wait_to_be_taken() -> None:
    begun: list[int] = []

    def begin(i: int) -> int:
        begun.append(i)
        return i

    results = map_in_threads(begin, range(100_000))
    assert next(results) == 0
    assert len(begun) < 100_000 / 4
    results.close()  # type: ignore[attr-defined]
    assert len(begun) < 100_000 / 4


# Folders


def make(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")


def test_finding_images(tmp_path: Path) -> None:
    kinds = [f"kind{suffix}" for suffix in sorted(SUFFIXES)]
    make(tmp_path, "b.PNG", "a.JpEg", "deep/er/c.png", "d/e.png", *kinds)
    make(tmp_path, ".hidden.png", ".git/f.png", "notes.txt", "png", "archive.png.zip")
    (tmp_path / "empty").mkdir()
    expected = ["a.JpEg", "b.PNG", *kinds, "d/e.png", "deep/er/c.png"]
    assert find_images(tmp_path) == [tmp_path / name for name in expected]
    assert find_images(tmp_path / "empty") == []


def test_links(tmp_path: Path) -> None:
    make(tmp_path, "set/a/1.png", "set/a/deep/2.png", "set/b/3.png", "elsewhere/4.png")
    a = tmp_path / "set" / "a"
    (a / "round").symlink_to(a / "deep")
    (a / "deep" / "up").symlink_to(tmp_path / "set")
    (a / "out").symlink_to(tmp_path / "elsewhere")
    (a / "file.png").symlink_to(tmp_path / "elsewhere" / "4.png")
    (a / "gone.png").symlink_to(tmp_path / "nowhere")
    (a / "itself.png").symlink_to(a / "itself.png")
    (tmp_path / "set" / "loop").symlink_to(tmp_path)
    os.mkfifo(a / "pipe.png")
    names = ["1.png", "file.png", "gone.png", "itself.png", "deep/2.png", "out/4.png"]
    assert find_images(a) == [a / name for name in names]
    assert list(find_classes(tmp_path / "set")) == ["a", "b"]
    assert "No such file" in refusal(a / "gone.png")
    assert "symbolic links" in refusal(a / "itself.png")


def test_classes_come_by_the_value_of_numbers_in_their_names(tmp_path: Path) -> None:
    names = ["10", "2", "01", "class10", "class2", "class2b", "Class3", "größe", "1 000"]
    for name in names:
        make(tmp_path, f"{name}/x.png")
    make(tmp_path, "loose.png", ".hidden/x.png")
    ordered = ["01", "1 000", "2", "10", "Class3", "class2", "class2b", "class10", "größe"]
    assert list(find_classes(tmp_path)) == ordered
    assert find_classes(tmp_path)["10"] == [tmp_path / "10" / "x.png"]


def test_folders_that_are_no_classes(tmp_path: Path) -> None:
    make(tmp_path, "set/cat/1.png", "set/dog/notes.txt", "flat/1.png", "odd/a\nb/1.png")
    for folder, message in {
        "set": f"class folder {tmp_path / 'set' / 'dog'} has no JPEG, .* image: put some into it",
        "flat": "flat has no sub-folders: put the images of each class into one",
        "gone": "gone does not exist: correct the path",
        "flat/1.png": "1.png is not a folder",
        "odd": r"is called 'a\\nb': rename it",
    }.items():
        with pytest.raises(UserError, match=message):
            find_classes(tmp_path / folder)


def test_folders_without_rights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, "set/cat/1.png")
    tmp_path.chmod(0o755)
    (tmp_path / "set" / "cat").chmod(0)
    monkeypatch.chdir(tmp_path)  # whatever is closed above it
    with without_privileges():
        for find, name in ((find_images, "set/cat"), (find_images, "set"), (find_classes, "set")):
            with pytest.raises(
                UserError, match=r"^set/cat cannot be listed \(Permission denied\): "
            ):
                find(Path(name))


def test_files_without_rights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, "closed.png")
    tmp_path.chmod(0o755)
    (tmp_path / "closed.png").chmod(0)
    monkeypatch.chdir(tmp_path)
    with without_privileges():
        assert refusal(Path("closed.png")).startswith("closed.png cannot be decoded (Permission")
