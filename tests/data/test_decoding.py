import io
import struct
import zlib

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from PIL.JpegImagePlugin import JpegImageFile
from sklearn.datasets import load_sample_image

from eec.data.image_files import read_image
from eec.data.images import resize

NOISE = np.random.default_rng(0).integers(0, 256, (16, 16, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def photographs() -> list[np.ndarray]:
    """Two real ones, 427x640 RGB, with what they have of edges and of glaring white."""
    return [np.asarray(load_sample_image(name)) for name in ("china.jpg", "flower.jpg")]


def encoded(image: Image.Image | np.ndarray, kind: str = "PNG", **options: object) -> io.BytesIO:
    image = Image.fromarray(image) if isinstance(image, np.ndarray) else image
    file = io.BytesIO()
    image.save(file, kind, **options)
    file.seek(0)
    return file


def plain(mode: str, colour: object) -> Image.Image:
    return Image.new(mode, (16, 16), colour)  # type: ignore[arg-type]


def png(width: int, height: int, depth: int, kind: int, row: bytes, *chunks: bytes) -> bytes:
    """Made by hand, since Pillow writes no colour of 16 bits."""

    def chunk(name: bytes, content: bytes) -> bytes:
        checked = name + content
        return struct.pack(">I", len(content)) + checked + struct.pack(">I", zlib.crc32(checked))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, 0))
    extra = b"".join(chunk(content[:4], content[4:]) for content in chunks)
    pixels = chunk(b"IDAT", zlib.compress(b"".join(b"\0" + row for _ in range(height))))
    return b"\x89PNG\r\n\x1a\n" + header + extra + pixels + chunk(b"IEND", b"")


def difference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    gap: np.ndarray = np.abs(a.astype(int) - b.astype(int))
    return gap


# The rule of scaling


def resized(pixels: np.ndarray, size: int) -> np.ndarray:
    channels_first = pixels.transpose(2, 0, 1) if pixels.ndim == 3 else pixels[None]
    scaled: np.ndarray = resize(torch.from_numpy(channels_first.copy())[None], size)[0].numpy()
    return scaled


@pytest.mark.parametrize("size", [8, 32, 100, 427, 600])
def test_photographs_are_scaled_as_images_in_memory(
    photographs: list[np.ndarray], size: int
) -> None:
    for photograph in photographs:
        for pixels in (photograph, photograph[100:160, 200:270], photograph[..., 1]):
            channels = 3 if pixels.ndim == 3 else 1
            read = read_image(encoded(pixels), size, channels)
            assert read.shape == (channels, size, size) and read.dtype == np.uint8
            assert difference(read, resized(pixels, size)).max() <= 1


@settings(deadline=None, max_examples=60)
@given(
    height=st.integers(1, 50),
    width=st.integers(1, 50),
    size=st.integers(8, 40),
    seed=st.integers(0, 9),
)
def test_any_shape_is_scaled_as_images_in_memory(
    height: int, width: int, size: int, seed: int
) -> None:
    # Black and white only: nothing overshoots more.
    pixels = np.random.default_rng(seed).integers(0, 2, (height, width), dtype=np.uint8) * 255
    assert difference(read_image(encoded(pixels), size, 1), resized(pixels, size)).max() <= 1


@pytest.mark.parametrize("shape", [(5000, 3), (3, 5000), (1, 60000), (1, 1)])
def test_thin_images(shape: tuple[int, int]) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    read = read_image(encoded(pixels), 32, 1)
    if max(shape) < 60000:  # beyond, it is what the square avoids: 15 GB of a scaled image
        assert difference(read, resized(pixels, 32)).max() <= 1
    else:
        assert len(np.unique(read)) > 1


def test_images_of_that_size_keep_their_pixels() -> None:
    assert np.array_equal(read_image(encoded(NOISE), 16, 3), NOISE.transpose(2, 0, 1))
    wider = np.concatenate([NOISE, NOISE[:, :5]], axis=1)
    assert np.array_equal(read_image(encoded(wider), 16, 3), wider[:, 2:18].transpose(2, 0, 1))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_large_jpegs_decoded_at_a_part_of_their_size_stay_close(
    photographs: list[np.ndarray], orientation: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    large = Image.fromarray(photographs[0]).resize((1283, 1001))
    file = encoded(large, "JPEG", quality=90, exif=exif)
    drafted = [read_image(file, size, 3) for size in (31, 100, 126)]
    monkeypatch.setattr(JpegImageFile, "draft", lambda *_: None)
    whole = [read_image(file, size, 3) for size in (31, 100, 126)]
    for some, all_of_it in zip(drafted, whole, strict=True):
        assert difference(some, all_of_it).max() <= 5
        assert difference(some, all_of_it).mean() <= 0.4
    assert not np.array_equal(drafted[0], whole[0])
    # A half would leave less than 4 times 126 pixels: nothing is saved.
    assert np.array_equal(drafted[2], whole[2])


# Kinds of images


@pytest.mark.parametrize(
    ("kind", "options", "within"),
    [
        ("PNG", {}, 0),
        ("BMP", {}, 0),
        ("TIFF", {}, 0),
        ("TIFF", {"compression": "tiff_lzw"}, 0),
        ("WEBP", {"lossless": True}, 0),
        ("WEBP", {"quality": 95}, 80),
        ("JPEG", {"quality": 95}, 80),
        ("JPEG", {"quality": 95, "progressive": True}, 80),
        ("GIF", {}, 80),
    ],
)
def test_formats(
    photographs: list[np.ndarray], kind: str, options: dict[str, object], within: int
) -> None:
    pixels = photographs[0][:200, :200]
    read = read_image(encoded(pixels, kind, **options), 200, 3)
    assert difference(read, pixels.transpose(2, 0, 1)).max() <= within
    assert difference(read, pixels.transpose(2, 0, 1)).mean() <= within / 10


PALETTE = plain("P", 7)
PALETTE.putpalette([0, 0, 0] * 7 + [10, 200, 30])
HALF_RED = (255, 127, 127)
FINE = struct.pack(">3H", 0, 100 * 257, 65535) * 16


@pytest.mark.parametrize(
    ("file", "colour"),
    [
        (encoded(plain("1", 1)), (255, 255, 255)),
        (encoded(plain("L", 90)), (90, 90, 90)),
        (encoded(plain("LA", (90, 255))), (90, 90, 90)),
        (encoded(plain("LA", (90, 0))), (255, 255, 255)),
        (encoded(plain("RGBA", (255, 0, 0, 128))), HALF_RED),
        (encoded(plain("RGBA", (255, 0, 0, 128)), "WEBP", lossless=True), HALF_RED),
        (encoded(plain("RGBA", (255, 0, 0, 128)), "TIFF"), HALF_RED),
        (encoded(PALETTE), (10, 200, 30)),
        (encoded(PALETTE, "BMP"), (10, 200, 30)),
        (encoded(PALETTE, transparency=7), (255, 255, 255)),
        (encoded(PALETTE, transparency=b"\xff" * 7 + b"\x80"), (132, 227, 142)),
        (encoded(plain("RGB", (9, 8, 7)), transparency=(9, 8, 7)), (255, 255, 255)),
        (encoded(plain("L", 90), transparency=90), (255, 255, 255)),
        (encoded(plain("CMYK", (0, 255, 255, 0)), "TIFF"), (255, 0, 0)),
        (encoded(plain("CMYK", (0, 255, 255, 0)), "JPEG", quality=100), (254, 0, 0)),
        (encoded(plain("YCbCr", (76, 85, 255)), "TIFF"), (254, 0, 0)),
        (encoded(plain("I;16", 0)), (0, 0, 0)),
        (encoded(plain("I;16", 257)), (1, 1, 1)),
        (encoded(plain("I;16", 100 * 257 + 128)), (100, 100, 100)),
        (encoded(plain("I;16", 100 * 257 + 129)), (101, 101, 101)),
        (encoded(plain("I;16", 65535)), (255, 255, 255)),
        (encoded(plain("I;16B", 100 * 257), "TIFF"), (100, 100, 100)),
        (encoded(plain("I", 100 * 257), "TIFF"), (100, 100, 100)),
        (io.BytesIO(png(16, 16, 16, 2, FINE)), (0, 100, 255)),
        (io.BytesIO(png(16, 16, 16, 0, b"\x64\x64" * 16)), (100, 100, 100)),
        (io.BytesIO(png(16, 16, 16, 2, FINE, b"tRNS" + bytes(6))), (0, 100, 255)),
    ],
)
def test_modes(file: io.BytesIO, colour: tuple[int, int, int]) -> None:
    read = read_image(file, 16, 3)
    assert (read == read[:, :1, :1]).all()
    assert difference(read[:, 0, 0], np.array(colour)).max() <= 1
    file.seek(0)
    grey = read_image(file, 16, 1)
    luma = 0.299 * colour[0] + 0.587 * colour[1] + 0.114 * colour[2]
    assert grey.shape == (1, 16, 16)
    assert np.abs(grey - luma).max() <= 1.5


def test_16_bits_are_rounded_to_8_and_not_cut_off() -> None:
    every = np.arange(65536, dtype=np.uint16).reshape(256, 256)
    for kind in ("PNG", "TIFF"):
        read = read_image(encoded(every, kind), 256, 1)[0]
        assert np.array_equal(read, np.rint(every / 257))


SHOWN = {
    1: lambda stored: stored,
    2: np.fliplr,
    3: lambda stored: np.rot90(stored, 2),
    4: np.flipud,
    5: lambda stored: stored.transpose(1, 0, 2),
    6: lambda stored: np.rot90(stored, -1),
    7: lambda stored: np.rot90(stored, 2).transpose(1, 0, 2),
    8: lambda stored: np.rot90(stored, 1),
}


@pytest.mark.parametrize("orientation", [*SHOWN, 0, 9])
@pytest.mark.parametrize("kind", ["PNG", "TIFF", "WEBP", "JPEG"])
def test_images_are_turned_as_exif_says(orientation: int, kind: str) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored = Image.fromarray(NOISE[:, :10]).resize((160, 256), Image.Resampling.NEAREST)
    options = {"lossless": True} if kind == "WEBP" else {}
    file = encoded(stored, kind, exif=exif, **options)
    shown = SHOWN.get(orientation, SHOWN[1])(np.asarray(stored))
    expected = read_image(encoded(np.ascontiguousarray(shown)), 64, 3)
    assert difference(read_image(file, 64, 3), expected).mean() <= (6 if kind == "JPEG" else 0)


def test_broken_exif_is_no_reason_to_give_a_picture_up() -> None:
    for exif in (
        b"Exif\0\0MM\0*\0\0\0\x08\0\xff\x01",
        b"Exif\0\0II*\0\xff\xff\xff\xff",
        b"Exif\0\0",
    ):
        assert read_image(encoded(NOISE, "JPEG", exif=exif), 16, 3).shape == (3, 16, 16)


def test_the_first_frame_of_an_animation_counts() -> None:
    frames = [plain("RGB", colour) for colour in ("red", "lime")]
    for kind, options in (("GIF", {}), ("PNG", {}), ("WEBP", {"lossless": True}), ("TIFF", {})):
        file = encoded(frames[0], kind, save_all=True, append_images=frames[1:], **options)
        assert read_image(file, 16, 3)[:, 0, 0].tolist() == [255, 0, 0]
