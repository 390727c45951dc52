"""Episodes and concepts as tensors of the learner's file.

Plain codes lie there as they are, task by task, as each task has scales of its own. Coded ones are
the bytes of the entropy coder, codec by codec: the more images in a stretch, the less it costs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from eec.errors import UserError
from eec.memory import entropy
from eec.memory.codec import Codec
from eec.memory.codes import Packing
from eec.memory.entropy import IntegerPrior
from eec.memory.episodes import Kept, Memory

Tensors = dict[str, Tensor]
Facts = list[list[int]]

COUNTS = (torch.uint8, torch.int16, torch.int32)  # the smallest that will do


def facts_of(memory: Memory) -> Facts:
    """Of each class of each task: task, class index, episodes, concepts."""
    return [[part.task, part.target, part.singles, len(part.spreads)] for part in memory.kept]


def tensors_of(memory: Memory) -> Tensors:
    """All codes: what `take_back` needs, with the facts and the codecs, to be this memory again."""
    known = [*memory.kept, *memory.codecs.values()]
    if memory.written is None or not _same(memory.written[0], known):
        memory.written = known, _write(memory)
    return dict(memory.written[1])


def _same(some: list[object], others: list[object]) -> bool:
    return len(some) == len(others) and all(a is b for a, b in zip(some, others, strict=True))


def _write(memory: Memory) -> Tensors:
    tensors: Tensors = {}
    groups: dict[int, list[Kept]] = {}
    for part in memory.kept:
        groups.setdefault(_group(memory, part.task), []).append(part)
    for group, parts in groups.items():
        packing = memory.packings[parts[0].task]
        prior = memory.codec_of(group).prior if packing.type == "coded" else None
        counts = torch.cat([part.counts for part in parts])
        spreads = torch.cat([part.spreads for part in parts])
        singles = torch.cat([part.codes[: part.singles] for part in parts])
        tensors[f"episodes.{group}"] = _written(singles, prior, packing.level)
        if len(spreads):
            centroids = torch.cat([part.codes[part.singles :] for part in parts])
            name = f"concepts.{group}"
            tensors[f"{name}.centroids"] = _written(centroids, prior, packing.level)
            tensors[f"{name}.spreads"] = _written_flat(spreads) if prior else spreads
        if (counts != 1).any():
            tensors[f"counts.{group}"] = counts.to(_smallest(counts))
        if packing.scale is not None:
            tensors[f"codecs.{group}.scale"] = packing.scale
    return tensors


def _group(memory: Memory, task: int) -> int:
    """What lies together in the file: tasks of one codec if coded, else each task by itself."""
    return memory.codec_key(task) if memory.packings[task].type == "coded" else task


def _smallest(counts: Tensor) -> torch.dtype:
    most = int(counts.max())
    return next(kind for kind in COUNTS if most <= torch.iinfo(kind).max)


def _written(codes: Tensor, prior: IntegerPrior | None, level: int) -> Tensor:
    if prior is None:
        return codes
    return _as_tensor(entropy.encode(prior, codes.numpy(), level))


def _written_flat(spreads: Tensor) -> Tensor:
    """Spreads have little context: a mean and a scale for each channel, told first."""
    prior = IntegerPrior.flat(spreads.numpy())
    told = np.stack([prior.mean_offset, prior.scale_offset]).astype("<i2").tobytes()
    return _as_tensor(told + entropy.encode(prior, spreads.numpy(), 0))


def _as_tensor(content: bytes) -> Tensor:
    return torch.from_numpy(np.frombuffer(content, np.uint8).copy())  # which may be of no bytes


def part_bytes(memory: Memory, part: Kept) -> int:
    """Bytes of what is kept of one class of a task; if coded, as the coder's tables say."""
    packing = memory.packings[part.task]
    prior = memory.codec_of(part.task).prior if packing.type == "coded" else None
    counts = tensors_of(memory).get(f"counts.{_group(memory, part.task)}")
    told = 0 if counts is None else len(part.counts) * counts.element_size()
    if prior is None:
        return int(part.codes.nbytes + part.spreads.nbytes) + told
    size = float(entropy.cost(prior, part.codes.numpy(), packing.level).sum())
    if len(part.spreads):
        flat = IntegerPrior.flat(part.spreads.numpy())
        size += float(entropy.cost(flat, part.spreads.numpy(), 0).sum())
    return round(size) + told


def take_back(memory: Memory, tensors: Tensors, facts: Facts, tasks: int, code_type: str) -> None:
    """Become the memory that gave these; its codecs are there already."""

    def packing(task: int) -> Packing:
        codec, scale = memory.codec_of(task), tensors.get(f"codecs.{task}.scale")
        level = codec.level if code_type == "coded" else 0
        return Packing(code_type, scale, level, codec.signed)

    memory.packings = {task: packing(task) for task in range(1, tasks + 1)}
    groups: dict[int, list[int]] = {}
    for place, (task, *_) in enumerate(facts):
        groups.setdefault(_group(memory, task), []).append(place)
    kept: dict[int, Kept] = {}
    for group, places in groups.items():
        singles, concepts = ([facts[place][k] for place in places] for k in (2, 3))
        stretch = _Stretch(memory.codec_of(group) if code_type == "coded" else None, tensors)
        whole = stretch.codes(f"episodes.{group}", sum(singles))
        episodes = whole.split(singles)
        centroids = spreads = [whole.new_empty((0, *whole.shape[1:]))] * len(places)
        if any(concepts):
            name = f"concepts.{group}"
            centroids = stretch.codes(f"{name}.centroids", sum(concepts)).split(concepts)
            spreads = stretch.spreads(f"{name}.spreads", sum(concepts)).split(concepts)
        codes = [torch.cat(pair) for pair in zip(episodes, centroids, strict=True)]
        ones = torch.ones(sum(map(len, codes)), dtype=torch.int32)
        counts = tensors.get(f"counts.{group}", ones).int().split([len(c) for c in codes])
        for i, place in enumerate(places):
            task, target, *_ = facts[place]
            kept[place] = Kept(task, target, codes[i], counts[i], spreads[i])
    memory.kept = [kept[place] for place in range(len(facts))]


@dataclass(frozen=True)
class _Stretch:
    """What lies together in the file, with its codec if it is coded."""

    codec: Codec | None
    tensors: Tensors

    def codes(self, name: str, count: int) -> Tensor:
        content = self.tensors[name]
        if self.codec is None or self.codec.prior is None:
            return content
        return self._read(content, self.codec.prior, count, self.codec.level)

    def spreads(self, name: str, count: int) -> Tensor:
        content = self.tensors[name]
        if self.codec is None:
            return content
        told = 4 * self.codec.net.code_shape[0]
        if len(content) < told:
            raise UserError("coded spreads are damaged (cut short): restore a copy")
        mean, scale = np.frombuffer(content[:told].numpy().tobytes(), "<i2").reshape(2, -1)
        prior = IntegerPrior.flat_of(mean.astype(np.int16), scale.astype(np.int16))
        return self._read(content[told:], prior, count, 0)

    def _read(self, content: Tensor, prior: IntegerPrior, count: int, level: int) -> Tensor:
        assert self.codec is not None
        shape = self.codec.net.code_shape
        symbols = entropy.decode(prior, content.numpy().tobytes(), shape, count, level)
        return torch.from_numpy(symbols)
