"""Picture sheets: for each class some rows of images, such as test images and remembered ones."""

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eec.report import canvas
from eec.report.canvas import MUTED

Pixels = NDArray[np.uint8]  # [N, C, H, W]
Rows = Sequence[tuple[str, Any]]  # what each row of a class is called, and its images

COLUMNS = 10
CELL = 64  # pixels of the sheet for one image, about
GAP = 4
BETWEEN_CLASSES = 14
LABEL_WIDTH = 160
NAME_WIDTH = 140
LETTERS = 12  # of a label on one line


def draw_sheet(given: Sequence[tuple[object, Rows]], path: Path, title: str) -> Path | None:
    """For each label its rows, but for those without images; None if there is no image at all."""
    classes = [(label, _with_images(rows)) for label, rows in given]
    classes = [(label, parts) for label, parts in classes if parts]
    if not classes:
        return None
    cell = max(_cell(images) for _, parts in classes for _, images in parts)
    height = sum(len(parts) * (cell + GAP) + BETWEEN_CLASSES for _, parts in classes)
    left = LABEL_WIDTH + NAME_WIDTH
    sheet = np.full((height, left + COLUMNS * (cell + GAP) + GAP, 3), 255, dtype=np.uint8)
    words: list[tuple[float, float, str, bool]] = []
    top = BETWEEN_CLASSES // 2
    for label, parts in classes:
        middle = top + len(parts) * (cell + GAP) / 2
        words.append((8, middle, _wrapped(label), True))
        for name, images in parts:
            words.append((LABEL_WIDTH, top + cell / 2, name, False))
            _place(sheet, images[:COLUMNS], top, left, cell)
            top += cell + GAP
        top += BETWEEN_CLASSES
    return _draw(sheet, words, path, title)


def _draw(
    sheet: Pixels, words: list[tuple[float, float, str, bool]], path: Path, title: str
) -> Path:
    height, width = sheet.shape[:2]
    header = 60
    with canvas.drawing():
        figure = canvas.blank_figure(width / canvas.DPI, (height + header) / canvas.DPI)
        # one axes unit is one pixel of the file, so that no image is resampled
        axes = figure.add_axes((0, 0, 1, height / (height + header)))
        axes.set_axis_off()
        axes.imshow(sheet, interpolation="none", aspect="auto")
        top = 1 - 30 / (height + header)
        figure.text(8 / width, top, title, size=9, weight="bold", va="center")
        for x, y, text, strong in words:
            drawn = axes.text(x, y, text, va="center", size=8 if strong else 6)
            drawn.set(weight="bold") if strong else drawn.set(color=MUTED)
        return canvas.save(figure, path)


def _with_images(rows: Rows) -> list[tuple[str, Pixels]]:
    given = [(name, _checked(images, name)) for name, images in rows if images is not None]
    return [(name, images) for name, images in given if len(images)]


def _wrapped(label: object) -> str:
    return "\n".join(textwrap.wrap(str(label), LETTERS, max_lines=3, placeholder="…"))


def _checked(images: Any, name: str) -> Pixels:
    pixels = np.asarray(images)
    if pixels.dtype != np.uint8 or pixels.ndim != 4 or pixels.shape[1] not in (1, 3):
        raise ValueError(
            f"{name}: images must be uint8 [N, 1 or 3, H, W], not {pixels.dtype} {pixels.shape}"
        )
    return pixels


def _cell(images: Pixels) -> int:
    return int(max(_scaled(images[:1]).shape[1:3]))


def _scaled(images: Pixels) -> Pixels:
    """[N, C, H, W] to RGB [N, h, w, 3] near the cell's size, by whole factors only."""
    side = max(images.shape[2:])
    rgb = np.broadcast_to(images, (len(images), 3, *images.shape[2:])).transpose(0, 2, 3, 1)
    if side <= CELL:
        factor = CELL // side
        return rgb.repeat(factor, axis=1).repeat(factor, axis=2)
    factor = -(-side // (2 * CELL))
    n, h, w = len(rgb), rgb.shape[1] // factor, rgb.shape[2] // factor
    blocks = rgb[:, : h * factor, : w * factor].reshape(n, h, factor, w, factor, 3)
    small: Pixels = np.rint(blocks.mean(axis=(2, 4))).astype(np.uint8)
    return small


def _place(sheet: Pixels, images: Pixels, top: int, left: int, cell: int) -> None:
    for column, image in enumerate(_scaled(images)):
        x = left + column * (cell + GAP)
        sheet[top : top + image.shape[0], x : x + image.shape[1]] = image
