"""The pixels of one opened image, by the rule that `image_files` states."""

from contextlib import suppress

import numpy as np
from PIL import Image

_GREY_MODES = ("1", "L", "LA", "La", "I")  # and those of 16 bits
_LEAST = 4  # times the size asked for, that a JPEG is decoded at
_BICUBIC = Image.Resampling.BICUBIC
_ORIENTATION = 0x0112  # the EXIF tag
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}

Box = tuple[float, float, float, float]  # left, top, right, bottom


def has_grey_mode(image: Image.Image) -> bool:
    """Told by the header; a palette counts as colour."""
    return image.mode in _GREY_MODES or _has_16_bits(image)


def pixels_of(image: Image.Image, size: int, channels: int) -> np.ndarray:
    """uint8 [channels, size, size]."""
    drafted = image.draft(None, (_LEAST * size, _LEAST * size))  # None for all but JPEG
    image.load()
    # A side of 1607 becomes 200.875 pixels at an eighth: the last pixel counts in part.
    width, height = image.size if drafted is None else drafted[1][2:]
    image, box = _turned(image, width, height)
    return _squared(_in_channels(image, channels), box, size)


def _has_16_bits(image: Image.Image) -> bool:
    return image.mode.startswith("I;16")


def _turned(image: Image.Image, width: float, height: float) -> tuple[Image.Image, Box]:
    """The image as it is to be seen, and where in it the `width` x `height` of its picture lie."""
    orientation = None
    with suppress(Exception):  # a broken EXIF block is no reason to give the picture up
        orientation = image.getexif().get(_ORIENTATION)
    if orientation not in _TURNS:
        return image, (0, 0, width, height)
    left = image.width - width if orientation in (2, 3, 7, 8) else 0
    top = image.height - height if orientation in (3, 4, 6, 7) else 0
    box = (left, top, left + width, top + height)
    if orientation >= 5:  # rows become columns
        box = (top, left, top + height, left + width)
    return image.transpose(_TURNS[orientation]), box


def _in_channels(image: Image.Image, channels: int) -> Image.Image:
    """Grey or RGB, of 8 bits, with nothing transparent."""
    if image.mode == "I" or _has_16_bits(image):
        image = _from_16_bits(image)
    elif image.mode == "F":
        raise ValueError("pixels are floating point numbers")
    elif image.has_transparency_data:
        white = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(white, image.convert("RGBA"))
    if channels == 3:
        return image if image.mode == "RGB" else image.convert("RGB")
    # Pillow has no way from every mode to grey, but one from every mode to RGB.
    image = image if image.mode in ("1", "L") else image.convert("RGB")
    return image if image.mode == "L" else image.convert("L")


def _from_16_bits(image: Image.Image) -> Image.Image:
    pixels = np.asarray(image)
    if pixels.min() < 0 or pixels.max() > 65535:
        raise ValueError("pixels of more than 16 bits")
    wide = pixels.astype(np.uint32)
    wide += 128
    wide //= 257
    return Image.fromarray(wide.astype(np.uint8))


def _squared(image: Image.Image, box: Box, size: int) -> np.ndarray:
    """The short side of the box scaled to `size`, of that the square in the centre."""
    width, height = box[2] - box[0], box[3] - box[1]
    scale = size / min(width, height)
    wide, high = max(size, round(width * scale)), max(size, round(height * scale))
    left, top = (wide - size) // 2, (high - size) // 2
    if (wide, high) == image.size:
        pixels = np.asarray(image.crop((left, top, left + size, top + size)))
        return np.array(pixels.transpose(2, 0, 1) if pixels.ndim == 3 else pixels[None], order="C")
    # Only what the square shows is computed: the long side of a thin image would fill the memory.
    shown = (
        box[0] + left * width / wide,
        box[1] + top * height / high,
        box[0] + (left + size) * width / wide,
        box[1] + (top + size) * height / high,
    )
    # In floats, as `images.resize`: Pillow cuts off what overshoots 0..255 between its two passes.
    scaled = [
        np.asarray(image.getchannel(band).convert("F").resize((size, size), _BICUBIC, box=shown))
        for band in image.getbands()
    ]
    return np.rint(scaled).clip(0, 255).astype(np.uint8)
