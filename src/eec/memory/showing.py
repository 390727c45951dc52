"""What memory holds of a class, as pictures: episodes, centroids, draws from concepts."""

from __future__ import annotations

import torch
from torch import Tensor

from eec.memory.episodes import Kept, Memory


def picture_rows(
    memory: Memory, target: int, most: int, generator: torch.Generator
) -> dict[str, Tensor]:
    """Up to `most` of each kind, evenly over what there is, by what they are called.

    What stands under a concept's centroid was drawn from that concept.
    """
    parts = [part for part in memory.kept if part.target == target]
    episodes = [(part, i) for part in parts for i in range(part.singles)]
    concepts = [(part, i) for part in parts for i in range(len(part.spreads))]
    few, fewer = ([found[i] for i in evenly(len(found), most)] for found in (episodes, concepts))
    rows = {
        _called(len(episodes), most, "episode"): [_episode(memory, *one) for one in few],
        _called(len(concepts), most, "concept"): [_concept(memory, *one, None) for one in fewer],
        "drawn, unfiltered": [_concept(memory, *one, generator) for one in fewer],
    }
    return {name: torch.cat(images) for name, images in rows.items() if images}


def evenly(count: int, most: int) -> list[int]:
    """Up to `most` of so many places, from the first to the last."""
    chosen: list[int] = torch.linspace(0, count - 1, min(most, count)).round().int().tolist()
    return chosen


def _called(count: int, most: int, what: str) -> str:
    if count == 1:
        return f"1 {what}"
    return f"{count} {what}s" if count <= most else f"{most} of {count:,} {what}s"


def _episode(memory: Memory, part: Kept, place: int) -> Tensor:
    return memory.decode(part, part.codes[place : place + 1])


def _concept(memory: Memory, part: Kept, place: int, random: torch.Generator | None) -> Tensor:
    """A concept's centroid, or an image drawn from the concept."""
    packing = memory.packings[part.task]
    codes = packing.unpack(part.codes[part.singles + place][None])
    if random is not None:
        noise = torch.randn(codes.shape, generator=random)
        spread = packing.unpack_spreads(part.spreads[place][None])
        codes = packing.possible(codes + noise * spread)
    return memory.codec_of(part.task).decode(codes)
