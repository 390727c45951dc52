"""Batches by index from uint8 images in memory, cropped and mirrored in one gather."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import grid_sample, interpolate


def to_float(images: Tensor) -> Tensor:
    """uint8 0..255 to float -1..1, the range in which every net works."""
    return images.float().div_(127.5).sub_(1)


def to_uint8(images: Tensor) -> Tensor:
    """Float -1..1, clamped, to the nearest of 256 levels: the way images leave a decoder."""
    return images.float().clamp(-1, 1).add_(1).mul_(127.5).round_().to(torch.uint8)


def smaller(images: Tensor) -> Tensor:
    """Float images at three quarters of their size; under 24 pixels as they are: nets pool them."""
    if min(images.shape[2:]) < 24:
        return images
    size = [3 * side // 4 for side in images.shape[2:]]
    made = interpolate(images, size=size, mode="bilinear", antialias=True)
    return made.contiguous(memory_format=torch.channels_last)


@dataclass(frozen=True)
class Detail:
    """What a codec lost of some images, and to which images of a set it is lent."""

    lost: Tensor  # int8 [M, C, H, W], to be added to uint8 images
    wanting: Tensor  # bool, one for each image of the set


class Batches:
    """A set of images, padded once, from which batches are cut.

    Each image of a batch is a window of its own, at random where `pad` or a `window` smaller than
    the image leaves room. Stored as [N, H, W, C]: a gather of windows, which are views, then comes
    out channels-last, the layout in which convolutions are fastest on a CPU. With `turn`, each is
    also turned and slanted by up to so many degrees and stretched by up to so many percent, which
    costs a little. `drawn` are places of images of which an epoch has only so many, drawn anew each
    time. `detail` is lent to the images that want it half of the time, a piece drawn anew each
    time.
    """

    def __init__(
        self,
        images: Tensor,
        *,
        pad: int = 0,
        window: int | None = None,
        flip: bool = False,
        turn: int = 0,
        drawn: tuple[Tensor, int] | None = None,
        detail: Detail | None = None,
    ) -> None:
        height, width = images.shape[2:]
        self.height, self.width = (height, width) if window is None else (window, window)
        self.room = (height + 2 * pad - self.height, width + 2 * pad - self.width)
        self.flip = flip
        self.turn = turn
        self.windows = self._windows(images, pad)
        self.detail = detail
        if detail is not None:
            self.lost = self._windows(detail.lost.to(images.device), pad)
        none = torch.empty(0, dtype=torch.int64)
        self.drawn, self.most = (none, 0) if drawn is None else drawn
        self.count = len(images)
        always = torch.ones(self.count, dtype=torch.bool)
        always[self.drawn] = False
        self.always = always.nonzero()[:, 0]

    def __len__(self) -> int:
        """Images an epoch."""
        return len(self.always) + min(self.most, len(self.drawn))

    def epoch(self, generator: torch.Generator) -> Tensor:
        """The places of the images of one epoch, in random order."""
        if not len(self.drawn):
            return torch.randperm(self.count, generator=generator)
        some = self.drawn[torch.randperm(len(self.drawn), generator=generator)[: self.most]]
        shown = torch.cat([self.always, some])
        return shown[torch.randperm(len(shown), generator=generator)]

    def take(self, index: Tensor, generator: torch.Generator) -> Tensor:
        """Float images [B, C, H, W] in channels-last memory, each changed in its own way."""
        images = self._cut(index, generator)
        # What comes in from outside is 0 to the sampler: black, where black is 0.
        return (_turned(images, self.turn, generator) if self.turn else images).sub_(1)

    def _windows(self, images: Tensor, pad: int) -> Tensor:
        """All windows [N, top, left, H, W, C] of images in a margin of zeros; a view of these."""
        pixels = images.permute(0, 2, 3, 1)
        pixels = torch.nn.functional.pad(pixels, (0, 0, pad, pad, pad, pad)).contiguous()
        windows = pixels.unfold(1, self.height, 1).unfold(2, self.width, 1)
        return windows.permute(0, 1, 2, 4, 5, 3)

    def _cut(self, index: Tensor, generator: torch.Generator) -> Tensor:
        """Windows, as floats in 0..2."""
        count = len(index)
        top, left = (
            torch.randint(0, room + 1, (count,), generator=generator) for room in self.room
        )
        mirrored = torch.rand(count, generator=generator) < 0.5 * self.flip
        cut = _gathered(self.windows, torch.stack([index, top, left]), mirrored)
        if self.detail is not None:
            lent = self.detail.wanting[index] & (torch.rand(count, generator=generator) < 0.5)
            piece = torch.randint(0, len(self.lost), (count,), generator=generator)
            # Cut by the window of the image: what is outside of one is outside of the other.
            places = torch.stack([piece, top, left])[:, lent]
            added = _gathered(self.lost, places, mirrored[lent])
            lent = lent.to(cut.device)
            cut[lent] = (cut[lent] + added).clamp_(0, 2)
        return cut.permute(0, 3, 1, 2)


def _gathered(windows: Tensor, places: Tensor, mirrored: Tensor) -> Tensor:
    """Floats [B, H, W, C] of the windows at `places` [3, B]: which image, top and left."""
    cut = windows[tuple(places.to(windows.device))].float().div_(127.5)
    if mirrored.any():
        cut = torch.where(mirrored.to(cut.device)[:, None, None, None], cut.flip(2), cut)
    return cut


def _turned(images: Tensor, most: int, generator: torch.Generator) -> Tensor:
    """Images seen through maps of their own: a turn, a slant, a stretch of each side."""
    turn, slant, wide, high = 2 * torch.rand(4, len(images), 1, 1, generator=generator) - 1
    turn, slant = (angle * math.radians(most) for angle in (turn, slant))
    wide, high = (1 + share * (most / 100) for share in (wide, high))
    # Middles of pixels, where -1 and 1 are the edges of the picture.
    down, along = (torch.arange(1 - side, side, 2) / side for side in images.shape[2:])
    grid = torch.empty(len(images), len(down), len(along), 2)
    rows = (
        (turn.cos() * wide, (slant - turn.sin()) * high),
        (turn.sin() * wide, turn.cos() * high),
    )
    for axis, (by_x, by_y) in enumerate(rows):
        torch.add(by_x * along, by_y * down[:, None], out=grid[..., axis])
    seen = grid_sample(images, grid.to(images.device), align_corners=False)
    return seen.contiguous(memory_format=torch.channels_last)
