"""What `D` is trained on, and what the real images among it can lend to those out of memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Mixture:
    """What `D` is trained on: images, class indices and the weight of each."""

    images: Tensor
    targets: Tensor
    weights: Tensor
    coded: Tensor  # bool: out of memory's codec, and without the detail that it loses

    @classmethod
    def of(
        cls, images: Tensor, targets: Tensor | int, weight: float, *, coded: bool = True
    ) -> Mixture:
        """Images that all weigh the same; `targets` is a number where they are of one class."""
        count = (len(images),)
        if isinstance(targets, int):
            targets = torch.full(count, targets)
        return cls(images, targets, torch.full(count, float(weight)), torch.full(count, coded))

    @classmethod
    def together(cls, parts: Sequence[Mixture]) -> Mixture:
        return cls(
            torch.cat([part.images for part in parts]),
            torch.cat([part.targets for part in parts]),
            torch.cat([part.weights for part in parts]),
            torch.cat([part.coded for part in parts]),
        )


def detail_of(images: Tensor, decoded: Tensor) -> Tensor:
    """What coding took from uint8 images, as int8: hardly a pixel is off by more than 127."""
    return (images.short() - decoded.short()).clamp(-128, 127).to(torch.int8)
