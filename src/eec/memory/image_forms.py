"""Ways to write images: their pixels, or compressed as WebP or JPEG.

Small images of one size and quality have much in common: what their files begin with is as long as
what differs. It is kept once, or made again when they are read.
"""

from __future__ import annotations

import io
import math
import struct
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from eec.nets.classifiers import Shape

TOGETHER = 512  # images that are compressed before it is asked again whether they still fit


@dataclass(frozen=True)
class Form:
    """A way to write images. What all files of one quality begin with is kept once, as a header."""

    name: str
    write: Callable[[Tensor, int], tuple[bytes, bytes]]  # image, quality -> header, body
    read: Callable[[bytes, bytes, Shape], np.ndarray]  # the inverse, as [C, H, W]
    ladder: tuple[int, ...] = ()  # qualities for a budget in bytes, from the best
    usual: int = 0  # the quality where bytes do not count

    def encode(
        self, images: Tensor, quality: int, most: float = math.inf
    ) -> tuple[bytes, list[bytes]] | None:
        """The header and each image's body; None as soon as they take more bytes than `most`."""
        header, bodies, total = b"", list[bytes](), 0
        for some in images.split(TOGETHER) if len(images) else ():
            written = list(_at_once(lambda image: self.write(image, quality), some))
            bodies += [body for _, body in written]
            header = written[-1][0]
            total += sum(len(body) for _, body in written)
            if total > most:
                return None
        return header, bodies

    def decode(self, header: bytes, bodies: Sequence[bytes], shape: Shape) -> Tensor:
        """uint8 [N, C, H, W]."""
        images = np.empty((len(bodies), *shape), np.uint8)
        read = _at_once(lambda body: self.read(header, body, shape), bodies)
        for place, image in enumerate(read):
            images[place] = image
        return torch.from_numpy(images)


def _at_once(work: Callable[[Any], Any], things: Any) -> Iterator[Any]:
    """In as many threads as torch may use: Pillow works outside of Python's lock."""
    with ThreadPoolExecutor(torch.get_num_threads()) as threads:
        yield from threads.map(work, things)


def _write_pixels(image: Tensor, quality: int) -> tuple[bytes, bytes]:
    return b"", image.contiguous().numpy().tobytes()


def _read_pixels(header: bytes, body: bytes, shape: Shape) -> np.ndarray:
    return np.frombuffer(body, np.uint8).reshape(shape)


def _write_webp(image: Tensor, quality: int) -> tuple[bytes, bytes]:
    """Without the 27 bytes that say only that this is a lossy WebP image of this size."""
    content = _compress(image, mode="RGB", format="WEBP", quality=quality, method=6)
    frame = content[20 : 20 + int.from_bytes(content[16:20], "little")]
    return b"", frame[:3] + frame[10:]


def _read_webp(header: bytes, body: bytes, shape: Shape) -> np.ndarray:
    frame = body[:3] + b"\x9d\x01\x2a" + struct.pack("<HH", shape[2], shape[1]) + body[3:]
    chunk = b"WEBPVP8 " + struct.pack("<I", len(frame)) + frame + bytes(len(frame) % 2)
    return _decompress(b"RIFF" + struct.pack("<I", len(chunk)) + chunk, shape)


def _write_jpeg(image: Tensor, quality: int) -> tuple[bytes, bytes]:
    """With the standard tables, which are then the same in all images and kept once.

    Tables of its own (`optimize`) make the file of a small image shorter, but they are most of it.
    """
    content = _compress(
        image, mode="L" if len(image) == 1 else "RGB", format="JPEG", quality=quality
    )
    place = 2
    while content[place : place + 2] != b"\xff\xda":  # after the segment of the scan: the image
        place += 2 + int.from_bytes(content[place + 2 : place + 4], "big")
    place += 2 + int.from_bytes(content[place + 2 : place + 4], "big")
    return content[:place], content[place:-2]


def _read_jpeg(header: bytes, body: bytes, shape: Shape) -> np.ndarray:
    return _decompress(header + body + b"\xff\xd9", shape)


def _compress(image: Tensor, *, mode: str, **how: Any) -> bytes:
    pixels = image[0] if len(image) == 1 else image.permute(1, 2, 0).contiguous()
    file = io.BytesIO()
    Image.fromarray(pixels.numpy()).convert(mode).save(file, **how)
    return file.getvalue()


def _decompress(content: bytes, shape: Shape) -> np.ndarray:
    image = Image.open(io.BytesIO(content)).convert("L" if shape[0] == 1 else "RGB")
    return np.asarray(image).reshape(*shape[1:], shape[0]).transpose(2, 0, 1)


PIXELS = Form("pixels", _write_pixels, _read_pixels)
# Below the last rung of a ladder images are let go: more is learned from fewer, better ones. From
# as many at WebP 1 as at WebP 10, in two thirds of the bytes, a classifier learned 5 points less.
WEBP = Form("webp", _write_webp, _read_webp, (60, 40, 20, 10), usual=40)
JPEG = Form("jpeg", _write_jpeg, _read_jpeg, (75, 60, 40, 25), usual=60)


def qualities(form: Form, *, in_bytes: bool, dropped: bool, now: int | None) -> list[int]:
    """The qualities to try in turn, when none was asked for: the first at which all images fit.

    Whatever the last of them is, it is taken, and images are let go until they fit. `now` is the
    quality of what is kept, of which some may have been `dropped`. What was compressed harder gets
    no better by more bytes.
    """
    if not in_bytes:
        return [form.usual if now is None else min(form.usual, now)]
    *better, last = form.ladder
    if dropped and now is not None and now <= last:  # else what was dropped had no slots
        return [last]
    return [*(rung for rung in better if now is None or rung <= now), last]
