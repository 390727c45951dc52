"""Pseudo-rehearsal (Algorithm 4): images drawn from concepts and filtered by the old classifier."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from eec.memory.episodes import Kept, Memory

ROUNDS = 5  # of draws, before the best of those refused have to do

Logits = Callable[[Tensor], Tensor]  # of the old `D`, for uint8 images


@dataclass(frozen=True)
class Drawn:
    """Pseudo-images of one class, as many as its concepts stand for."""

    images: Tensor  # uint8 [N, C, H, W]
    draws: int
    rejected: int  # by the filter
    filled: int  # images that the filter refused and that are here for want of better ones
    recognised: float | None  # percent of the first round called by their name, before the filter


def draw_pseudo_images(
    memory: Memory, part: Kept, logits: Logits | None, generator: torch.Generator
) -> Drawn:
    """For each concept as many images as it counts, which the old `D` calls by their name.

    Drawn in rounds of twice as many as are wanting; `logits` is None where `D` knows one class
    only, and everything passes.
    """
    packing = memory.packings[part.task]
    centroids = packing.unpack(part.codes[part.singles :])
    spreads = packing.unpack_spreads(part.spreads)
    wanting = part.counts[part.singles :].long()
    taken, refused = _Pile(), _Pile()
    draws = rejected = 0
    recognised = None
    for _ in range(ROUNDS if logits is not None else 1):
        times = 2 * wanting if logits is not None else wanting
        concept = torch.repeat_interleave(torch.arange(len(wanting)), times)
        noise = torch.randn((len(concept), *centroids.shape[1:]), generator=generator)
        codes = packing.possible(centroids[concept] + noise * spreads[concept])
        images = memory.codec_of(part.task).decode(codes)
        scores = torch.ones(len(images))
        right = torch.ones(len(images), dtype=torch.bool)
        if logits is not None:
            out = logits(images)
            scores, right = out.softmax(1)[:, part.target], out.argmax(1) == part.target
        if recognised is None and logits is not None:
            recognised = 100 * right.float().mean().item()
        draws, rejected = draws + len(images), rejected + int((~right).sum())
        chosen = _first(concept, right, wanting)
        taken.add(images[chosen], concept[chosen])
        refused.add(images[~right], concept[~right], scores[~right])
        wanting = wanting - torch.bincount(concept[chosen], minlength=len(wanting))
        if not wanting.any():
            break
    filled = int(wanting.sum())
    if filled:
        taken.add(*refused.best(wanting))
    return Drawn(taken.images(), draws, rejected, filled, recognised)


def _first(concept: Tensor, passed: Tensor, wanted: Tensor) -> Tensor:
    """Of each concept the first images that passed, no more than are wanted; `concept` is sorted.

    The rank among those of the same concept is the running count less the count before it.
    """
    running = passed.cumsum(0)
    counts = torch.bincount(concept, weights=passed.double(), minlength=len(wanted)).long()
    before = counts.cumsum(0) - counts
    rank = running - 1 - before[concept]
    return passed & (rank < wanted[concept])


class _Pile:
    """Images with the concept that each was drawn from, and a score."""

    def __init__(self) -> None:
        self.parts: list[tuple[Tensor, Tensor, Tensor]] = []

    def add(self, images: Tensor, concept: Tensor, scores: Tensor | None = None) -> None:
        self.parts.append((images, concept, torch.zeros(len(images)) if scores is None else scores))

    def images(self) -> Tensor:
        return torch.cat([images for images, _, _ in self.parts])

    def best(self, wanted: Tensor) -> tuple[Tensor, Tensor]:
        """Of each concept the best-scored, as many as are wanted."""
        images, concept, scores = (torch.cat(part) for part in zip(*self.parts, strict=True))
        order = scores.argsort(descending=True, stable=True)
        order = order[concept[order].argsort(stable=True)]
        everything = torch.ones(len(order), dtype=torch.bool)
        chosen = order[_first(concept[order], everything, wanted)]
        return images[chosen], concept[chosen]
