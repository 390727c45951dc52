"""Batches by index from uint8 images in memory, cropped and mirrored in one gather."""

from __future__ import annotations

import torch
from torch import Tensor


def to_float(images: Tensor) -> Tensor:
    """uint8 0..255 to float -1..1, the range in which every net works."""
    return images.float().div_(127.5).sub_(1)


def to_uint8(images: Tensor) -> Tensor:
    """Float -1..1, clamped, to the nearest of 256 levels: the way images leave a decoder."""
    return images.float().clamp(-1, 1).add_(1).mul_(127.5).round_().to(torch.uint8)


class Batches:
    """A set of images, padded once, from which batches are cut.

    Each image of a batch is a window of its own, at random where `pad` or a `window` smaller than
    the image leaves room. Stored as [N, H, W, C]: a gather of single pixels then comes out
    channels-last, the layout in which convolutions are fastest on a CPU, with crop and mirror at no
    further cost.
    """

    def __init__(
        self, images: Tensor, *, pad: int = 0, window: int | None = None, flip: bool = False
    ) -> None:
        height, width = images.shape[2:]
        self.height, self.width = (height, width) if window is None else (window, window)
        self.room = (height + 2 * pad - self.height, width + 2 * pad - self.width)
        self.flip = flip
        pixels = images.permute(0, 2, 3, 1)
        if pad:
            pixels = torch.nn.functional.pad(pixels, (0, 0, pad, pad, pad, pad))
        self.pixels = pixels.contiguous()

    def __len__(self) -> int:
        return len(self.pixels)

    def take(self, index: Tensor, generator: torch.Generator) -> Tensor:
        """Float images [B, C, H, W] in channels-last memory, each with its own crop and mirror."""
        if self.room == (0, 0) and not self.flip:
            return to_float(self.pixels[index]).permute(0, 3, 1, 2)
        count, device = len(index), self.pixels.device
        top, left = (
            torch.randint(0, room + 1, (count, 1), generator=generator) for room in self.room
        )
        y = top + torch.arange(self.height)
        x = torch.arange(self.width).expand(count, -1)
        if self.flip:
            mirrored = torch.rand(count, 1, generator=generator) < 0.5
            x = torch.where(mirrored, self.width - 1 - x, x)
        x = left + x
        y, x, index = y.to(device), x.to(device), index.to(device)
        cut = self.pixels[index[:, None, None], y[:, :, None], x[:, None, :]]
        return to_float(cut).permute(0, 3, 1, 2)
