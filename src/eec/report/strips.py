"""The picture sheet of the page: one strip of images a row, small enough to be inside the page."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from safetensors import SafetensorError
from safetensors.numpy import load

from eec.errors import UserError
from eec.report.chart_style import class_names

Pixels = NDArray[np.uint8]  # [N, C, H, W]
Pictures = list[tuple[object, dict[str, Pixels]]]  # by class, what each row is called

ORIGINAL = "test image"
SIDE = 64  # pixels at most
GAP = 2
TRIED = 10  # strips, about
MOST_BYTES = 900_000  # of all strips together
# So many images a row, and WebP's quality (None: without loss), until the strips fit.
ATTEMPTS: Sequence[tuple[int, int | None]] = (
    (10, None), (10, 85), (8, 75), (5, 70), (3, 60), (2, 50), (1, 40),
)  # fmt: skip


@dataclass(frozen=True)
class Strip:
    """One row: images side by side, as a picture that needs no file."""

    name: str
    uri: str
    width: int
    height: int
    share: float  # of a row's width: images of all rows are of one size, however many there are


@dataclass(frozen=True)
class Sheet:
    """For each class its strips."""

    classes: list[tuple[str, list[Strip]]]
    originals: bool


def read_pictures(path: Path) -> Pictures:
    """What `eec run` kept for people to look at; read without torch."""
    try:
        content = path.read_bytes()
        tensors = load(content)
        size = int.from_bytes(content[:8], "little")
        names = json.loads(json.loads(content[8 : 8 + size])["__metadata__"]["eec"])
        return [
            (label, {name: tensors[f"{place}.{name}"] for name in rows})
            for place, (label, rows) in enumerate(names)
        ]
    except FileNotFoundError:
        return []  # a run that has none says as much
    except (OSError, SafetensorError, ValueError, KeyError, TypeError):
        raise UserError(f"{path} cannot be read: restore it, or run again") from None


def make_sheet(pictures: Pictures) -> Sheet:
    """As good as fits into the page: fewer and rougher images where there are many classes."""
    names = class_names(label for label, _ in pictures)
    scaled = [
        (name, {row: _rgb(images) for row, images in rows.items() if len(images)})
        for name, (_, rows) in zip(names, pictures, strict=True)
    ]
    everything = [images for _, rows in scaled for images in rows.values()]
    few = everything[:: max(1, len(everything) // TRIED)]
    for count, quality in ATTEMPTS:
        # A few tell how large all will be: to encode hundreds of strips takes seconds.
        guess = sum(len(_strip("", images[:count], count, quality).uri) for images in few)
        if guess * len(everything) > MOST_BYTES * len(few) and count > 1:
            continue
        classes = [
            (name, [_strip(row, images[:count], count, quality) for row, images in rows.items()])
            for name, rows in scaled
            if rows
        ]
        if sum(len(strip.uri) for _, strips in classes for strip in strips) <= MOST_BYTES:
            break
    originals = any(ORIGINAL in rows for _, rows in scaled)
    return Sheet(classes, originals)


def _rgb(images: Pixels) -> Pixels:
    """[N, C, H, W] to RGB [N, h, w, 3], no larger than a page has use for."""
    rgb = np.broadcast_to(images, (len(images), 3, *images.shape[2:])).transpose(0, 2, 3, 1)
    if max(rgb.shape[1:3]) <= SIDE:
        return np.ascontiguousarray(rgb)
    factor = SIDE / max(rgb.shape[1:3])
    size = max(1, round(rgb.shape[2] * factor)), max(1, round(rgb.shape[1] * factor))
    smaller = [
        np.asarray(Image.fromarray(image).resize(size, Image.Resampling.BOX))
        for image in np.ascontiguousarray(rgb)
    ]
    return np.stack(smaller)


def _strip(name: str, images: Pixels, most: int, quality: int | None) -> Strip:
    count, height, width, _ = images.shape
    # A gap of clear pixels beside each image, which takes the page's colour.
    clear = np.zeros((count, height, width + GAP, 4), np.uint8)
    clear[:, :, :width, :3] = images
    clear[:, :, :width, 3] = 255
    picture = Image.fromarray(np.concatenate(list(clear), axis=1))
    buffer = io.BytesIO()
    kind = {"lossless": True, "quality": 60} if quality is None else {"quality": quality}
    picture.save(buffer, "WEBP", method=2, **kind)
    uri = "data:image/webp;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")
    # Shown at twice its size where it is small.
    factor = 2 if height <= SIDE // 2 else 1
    share = round(100 * count / most, 2)
    return Strip(name, uri, picture.width * factor, picture.height * factor, share)
