"""Episodic memory: the codes of every task's images, and the images decoded from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
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

    def repeated(self, times: Mapping[int, float]) -> Rehearsal:
        """Each class's images this many times, on average: those kept stand for those dropped."""
        if all(factor == 1 for factor in times.values()):
            return self
        chosen = []
        for target in self.targets.unique().tolist():
            members = (self.targets == target).nonzero()[:, 0]
            chosen.append(members[torch.arange(round(len(members) * times[target])) % len(members)])
        index = torch.cat(chosen)
        return Rehearsal(self.task, self.images[index], self.targets[index])


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

    def count(self) -> dict[int, int]:
        """Episodes of each class, by class index."""
        counts: Counter[int] = Counter()
        for part in self.episodes:
            counts.update(part.targets.tolist())
        return dict(counts)

    def keep(self, shares: Mapping[int, int], generator: torch.Generator) -> None:
        """Drop episodes at random until no class has more than its share."""
        targets = torch.cat([part.targets for part in self.episodes])
        kept = torch.zeros(len(targets), dtype=torch.bool)
        for target, share in shares.items():
            members = (targets == target).nonzero()[:, 0]
            kept[members[torch.randperm(len(members), generator=generator)[:share]]] = True
        parts = kept.split([len(part.targets) for part in self.episodes])
        self.episodes = [
            Episodes(part.task, part.codes[chosen], part.targets[chosen])
            for part, chosen in zip(self.episodes, parts, strict=True)
            if chosen.any()
        ]

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
