"""How coarse codes have to be: bytes an image against the error of its reconstruction.

A compressor codes at any of LEVELS steps. Memory has one step for all its classes: were old ones
coarser than new ones, the classifier could tell them apart by that.
"""

from __future__ import annotations

import torch
from torch import Tensor

from eec.memory.codec import Codec
from eec.memory.episodes import Memory
from eec.nets.compressor import LEVELS

SAMPLE = 400  # codes by which an average is judged


def mean_cost(memory: Memory, level: int) -> float:
    """Bytes that a code in memory takes on average at a level, if classes had as many."""
    return memory.codecs[max(memory.codecs)].bytes_of_codes(sample(memory), level)


def sample(memory: Memory) -> Tensor:
    """Some float codes of the newest codec, as many of each class, if it has them."""
    newest = max(memory.codecs)
    parts = [part for part in memory.kept if memory.codec_key(part.task) == newest]
    each = max(1, round(SAMPLE / len(parts)))
    chosen = []
    for part in parts:
        places = torch.linspace(0, len(part.codes) - 1, min(each, len(part.codes)))
        chosen.append(memory.packings[part.task].unpack(part.codes[places.round().long()]))
    return torch.cat(chosen)


def coarse_enough(codec: Codec, codes: Tensor, most: float, end: int = LEVELS - 1) -> int:
    """The finest level, up to `end`, at which a code takes no more than `most` bytes."""
    low, high = 0, end
    while low < high:
        middle = (low + high) // 2
        if codec.bytes_of_codes(codes, middle) <= most:
            high = middle
        else:
            low = middle + 1
    return low
