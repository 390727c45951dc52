"""Episodic memory: codes of every task's images, single ones and concepts that stand for many."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from eec.memory.codec import Codec
from eec.memory.codes import Packing
from eec.memory.integration import Points


@dataclass(frozen=True)
class Kept:
    """What is kept of one class of one task, as packed: episodes, then concepts."""

    task: int  # from 1
    target: int  # class index
    codes: Tensor  # [N, C, h, w]: episodes, then the centroids of concepts
    counts: Tensor  # int32 [N]: images that each stands for
    spreads: Tensor  # [M, C, h, w]: the concepts' standard deviations

    @property
    def singles(self) -> int:
        """Episodes: codes without a spread, though one may stand for several that were let go."""
        return len(self.codes) - len(self.spreads)

    @property
    def slots(self) -> int:
        """An episode costs one, a concept two."""
        return len(self.codes) + len(self.spreads)

    def points(self, packing: Packing) -> Points:
        """In double precision, for integration."""
        means = packing.unpack(self.codes).flatten(1).double().numpy()
        counts = self.counts.long().numpy()
        scatter = np.zeros(means.shape)
        spreads = packing.unpack_spreads(self.spreads).flatten(1).double().numpy()
        scatter[self.singles :] = np.square(spreads) * (counts[self.singles :, None] - 1)
        return Points(means, counts, scatter)

    def become(self, points: Points, packing: Packing) -> Kept:
        """The same class, kept as these points; one without scatter is an episode."""
        spread = points.scatter.any(1)
        order = np.argsort(spread, kind="stable")  # episodes come first
        shape = self.codes.shape[1:]

        def floats(values: np.ndarray) -> Tensor:
            return torch.from_numpy(values).float().reshape(-1, *shape)

        return replace(
            self,
            codes=packing.pack(floats(points.means[order])),
            counts=torch.from_numpy(points.counts[order]).int(),
            spreads=packing.pack_spreads(floats(np.sqrt(points.variances[spread]))),
        )

    def repacked(self, now: Packing, then: Packing) -> Kept:
        """The same, packed in another way."""
        return replace(
            self,
            codes=then.pack(now.unpack(self.codes)),
            spreads=then.pack_spreads(now.unpack_spreads(self.spreads)),
        )


@dataclass
class Memory:
    """Everything that is kept of old classes.

    `codecs` maps a task to its codec; where all tasks share one, it stands under the task that it
    was trained on, and `codec_of` says so. `packings` says how each task's codes are kept.
    """

    kept: list[Kept] = field(default_factory=list)
    codecs: dict[int, Codec] = field(default_factory=dict)
    packings: dict[int, Packing] = field(default_factory=dict)
    # The last that was written of it, and of what: coding takes a second, and is asked for often.
    written: tuple[list[object], dict[str, Tensor]] | None = None

    def codec_key(self, task: int) -> int:
        """The task that its codec was trained on: the last that is not after it."""
        return max(key for key in self.codecs if key <= task)

    def codec_of(self, task: int) -> Codec:
        return self.codecs[self.codec_key(task)]

    def store(self, task: int, codes: Tensor, targets: Tensor, code_type: str) -> None:
        """Keep the codes of a task as episodes, class by class."""
        codec = self.codec_of(task)
        level = codec.level if code_type == "coded" else 0
        packing = Packing.learn(code_type, codes, level, signed=codec.signed)
        self.packings[task] = packing
        packed = packing.pack(codes)
        none = packed.new_empty((0, *packed.shape[1:]))  # not a view, which would hold all of them
        for target in targets.unique().tolist():
            mine = packed[targets == target]
            ones = torch.ones(len(mine), dtype=torch.int32)
            self.kept.append(Kept(task, target, mine, ones, none))

    def coarsen(self, level: int) -> None:
        """Round the codes of the newest codec to larger steps, all of them alike."""
        newest = max(self.codecs)
        self.codecs[newest].level = level
        then = Packing("coded", level=level)
        mine = [task for task in self.packings if self.codec_key(task) == newest]
        self.kept = [
            part.repacked(self.packings[part.task], then) if part.task in mine else part
            for part in self.kept
        ]
        self.packings |= dict.fromkeys(mine, then)

    def decode(self, part: Kept, codes: Tensor) -> Tensor:
        """uint8 images of codes as they are kept for this class."""
        return self.codec_of(part.task).decode(self.packings[part.task].unpack(codes))

    def reconstruct(self, part: Kept) -> Tensor:
        """The images of all episodes of a class."""
        return self.decode(part, part.codes[: part.singles])

    def glimpse(self, part: Kept, most: int) -> Tensor:
        """Up to `most` images of a class, evenly spread over its episodes and centroids."""
        count = len(part.codes)
        chosen = torch.linspace(0, count - 1, min(most, count)).round().long()
        return self.decode(part, part.codes[chosen])

    def slots(self) -> dict[int, int]:
        """Slots taken by each class, by class index."""
        taken: dict[int, int] = {}
        for part in self.kept:
            taken[part.target] = taken.get(part.target, 0) + part.slots
        return taken
