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
        spreads = packing.unpack(self.spreads).flatten(1).double().numpy()
        scatter[self.singles :] = np.square(spreads) * (counts[self.singles :, None] - 1)
        return Points(means, counts, scatter)

    def become(self, points: Points, packing: Packing) -> Kept:
        """The same class, kept as these points; one without scatter is an episode."""
        spread = points.scatter.any(1)
        order = np.argsort(spread, kind="stable")  # episodes come first
        shape = self.codes.shape[1:]

        def packed(values: np.ndarray) -> Tensor:
            return packing.pack(torch.from_numpy(values).float().reshape(-1, *shape))

        return replace(
            self,
            codes=packed(points.means[order]),
            counts=torch.from_numpy(points.counts[order]).int(),
            spreads=packed(np.sqrt(points.variances[spread])),
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

    def codec_of(self, task: int) -> Codec:
        """The newest codec that is not younger than the task."""
        return self.codecs[max(key for key in self.codecs if key <= task)]

    def store(self, task: int, codes: Tensor, targets: Tensor, code_type: str) -> None:
        """Keep the codes of a task as episodes, class by class."""
        packing = self.packings[task] = Packing.learn(code_type, codes)
        packed = packing.pack(codes)
        for target in targets.unique().tolist():
            mine = packed[targets == target]
            ones = torch.ones(len(mine), dtype=torch.int32)
            self.kept.append(Kept(task, target, mine, ones, packed[:0]))

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

    def tensors(self) -> dict[str, Tensor]:
        """All codes, by task: what `take_back` needs, with `facts`, to be this memory again."""
        tensors: dict[str, Tensor] = {}
        for task, packing in self.packings.items():
            parts = [part for part in self.kept if part.task == task]
            if not parts:
                continue
            counts = torch.cat([part.counts for part in parts])
            spreads = torch.cat([part.spreads for part in parts])
            tensors[f"episodes.{task}"] = torch.cat([p.codes[: p.singles] for p in parts])
            if len(spreads):
                centroids = torch.cat([part.codes[part.singles :] for part in parts])
                tensors[f"concepts.{task}.centroids"] = centroids
                tensors[f"concepts.{task}.spreads"] = spreads
            if (counts != 1).any():
                tensors[f"counts.{task}"] = counts
            if packing.scale is not None:
                tensors[f"codecs.{task}.scale"] = packing.scale
        return tensors

    def facts(self) -> list[list[int]]:
        """Of each class of each task: task, class index, episodes, concepts."""
        return [[part.task, part.target, part.singles, len(part.spreads)] for part in self.kept]

    def take_back(
        self, tensors: dict[str, Tensor], facts: list[list[int]], tasks: int, code_type: str
    ) -> None:
        """Become the memory that gave these."""
        self.packings = {
            task: Packing(code_type, tensors.get(f"codecs.{task}.scale"))
            for task in range(1, tasks + 1)
        }
        self.kept = []
        taken: dict[int, tuple[int, int]] = {}
        for task, target, singles, concepts in facts:
            start, place = taken.get(task, (0, 0))
            taken[task] = start + singles, place + concepts
            codes = tensors[f"episodes.{task}"][start : start + singles]
            spreads = codes[:0]
            if concepts:
                chosen = slice(place, place + concepts)
                codes = torch.cat([codes, tensors[f"concepts.{task}.centroids"][chosen]])
                spreads = tensors[f"concepts.{task}.spreads"][chosen]
            counts = torch.ones(len(codes), dtype=torch.int32)
            if f"counts.{task}" in tensors:
                counts = tensors[f"counts.{task}"][start + place :][: len(codes)]
            self.kept.append(Kept(task, target, codes, counts, spreads))
