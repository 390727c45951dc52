"""Episodic memory: the codes of every task's images, and the images decoded from them."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from eec.memory.codec import Codec


@dataclass(frozen=True)
class Episodes:
    """The codes of one task, with the class index of each."""

    task: int  # from 1
    codes: Tensor  # float32 [N, C, h, w]
    targets: Tensor  # int64 [N]


@dataclass(frozen=True)
class Rehearsal:
    """Images decoded from one task's episodes."""

    task: int
    images: Tensor  # uint8 [N, C, H, W]
    targets: Tensor


@dataclass
class Memory:
    """Everything that is kept of old classes.

    `codecs` maps a task to its codec; where all tasks share one, it stands under the task that it
    was trained on, and `codec_of` says so.
    """

    episodes: list[Episodes] = field(default_factory=list)
    codecs: dict[int, Codec] = field(default_factory=dict)

    def codec_of(self, task: int) -> Codec:
        """The newest codec that is not younger than the task."""
        return self.codecs[max(key for key in self.codecs if key <= task)]

    def rehearse(self, most: int | None = None) -> list[Rehearsal]:
        """Decode every episode, or up to `most` of each class and task, evenly spread."""
        return [self._decode(part, most) for part in self.episodes]

    def _decode(self, part: Episodes, most: int | None) -> Rehearsal:
        codes, targets = part.codes, part.targets
        if most is not None:
            chosen = torch.cat(
                [_spread((targets == c).nonzero()[:, 0], most) for c in targets.unique()]
            )
            codes, targets = codes[chosen], targets[chosen]
        return Rehearsal(part.task, self.codec_of(part.task).decode(codes), targets)


def _spread(index: Tensor, most: int) -> Tensor:
    if len(index) <= most:
        return index
    return index[torch.linspace(0, len(index) - 1, most).round().long()]
