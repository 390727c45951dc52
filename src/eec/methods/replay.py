"""Replay: images of old classes themselves, as they are or compressed, within the same budget.

What an engineer would do first, so that EEC can be held against it byte for byte. These are real
images: not one of these methods is strict.
"""

from __future__ import annotations

import copy
import io
import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NoReturn

import numpy as np
import torch
from torch import Tensor

from eec.data.labels import Label
from eec.data.stream import Task
from eec.errors import BudgetTooSmall
from eec.memory.budget import balanced_shares, parse_budget
from eec.memory.image_forms import JPEG, PIXELS, WEBP, Form, qualities
from eec.memory.showing import evenly
from eec.methods.archive import learner_bytes
from eec.methods.contract import Facts, Method, Report, Tensors
from eec.methods.mixture import Mixture, detail_of
from eec.methods.options import CompressedReplayOptions, ExemplarOptions, ReplayOptions
from eec.nets.classifiers import shape_of
from eec.training.batches import Detail
from eec.training.runtime import derive_seed


@dataclass(frozen=True)
class Pile:
    """The images of one class, and how many each stands for."""

    images: list[bytes]
    counts: np.ndarray

    @property
    def seen(self) -> int:
        return int(self.counts.sum())

    def choose(self, count: int, seed: int) -> list[int]:
        """Places of so many at random, in the order in which they would be taken."""
        # Who waits the shortest is chosen: more often one that stands for many.
        waits = np.random.default_rng(seed).exponential(1 / self.counts)
        chosen: list[int] = np.argsort(waits, kind="stable")[:count].tolist()
        return chosen


def equal_parts(images: list[bytes], seen: int) -> Pile:
    """Images which stand for all that were seen, each for as many as the others."""
    if not images:
        return Pile(images, np.zeros(0, np.int64))
    counts = np.full(len(images), seen // len(images))
    counts[: seen % len(images)] += 1
    return Pile(images, counts)


@dataclass(frozen=True)
class Kept:
    """All images that are kept, by class index, in one quality."""

    piles: list[Pile]
    header: bytes = b""
    quality: int | None = None

    @property
    def bodies(self) -> list[bytes]:
        return [image for pile in self.piles for image in pile.images]

    @property
    def dropped(self) -> bool:
        return any(len(pile.images) < pile.seen for pile in self.piles)


class Replay(Method):
    """Keeps pixels as they are."""

    strict = False
    form: ClassVar[Form] = PIXELS
    options: ExemplarOptions

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.kept = Kept([])

    def check(self, *tasks: Task) -> None:
        super().check(*tasks)
        budget, after = parse_budget(self.options.memory), self._after(tasks)
        classes = len(after.classes)
        if budget.slots is not None and budget.slots < classes:
            self._refuse(classes, classes)
        if budget.bytes is not None:
            least, most = after._bytes_needed(tasks[0].images[:1])
            if least > budget.bytes:
                self._refuse(classes, most)

    def _bytes_needed(self, image: Tensor) -> tuple[int, int]:
        """What one image of each class takes at the least and at the most: exactly where they are
        all alike, else by a guess from this one and those that are kept. `self` has all classes."""
        written = self.form.encode(image, self._qualities()[-1])
        assert written is not None
        header, bodies = written
        held = dict.fromkeys(range(len(self.kept.piles)), 1)
        piles = self._of(self.kept, held).piles
        piles += [equal_parts(bodies, 1)] * (len(self.classes) - len(piles))
        kept = Kept(piles, self.kept.header or header, 0)
        guessed = sum(map(len, kept.bodies)) if self.form.ladder else 0
        weight = self._weigh(kept)
        return weight - guessed // 2, weight + guessed

    def _learn(self, images: Tensor, targets: Tensor, report: Report) -> None:
        new = [images[targets == target] for target in range(len(self.classes))]
        with report.phase("store"):
            before = self.kept
            self.kept = self._with(new)
            left = self._fitting(self.kept)
            if before.quality not in (None, self.kept.quality):
                report.notes.append(f"Images are now kept at quality {self.kept.quality}.")
        with report.phase("rehearse"):
            mixture = self._mix(new)
            detail = self._detail(new, mixture)
        assert isinstance(self.options, ReplayOptions)  # iCaRL learns in another way
        heed = self.options.distil * _share_lost(before)
        self._train_classifier(
            mixture.images, mixture.targets, mixture.weights, report, detail, heed
        )
        self.kept = left

    def _mix(self, new: list[Tensor]) -> Mixture:
        form = self._new_images
        share = 0.5 if form == "both" else 1.0  # shown twice, an image counts half each time
        parts = []
        for target, (pile, real) in enumerate(zip(self.kept.piles, new, strict=True)):
            old = len(pile.images) - len(real)
            if old:
                # One is shown as often as it stands for others: moved and mirrored anew.
                times = torch.from_numpy(pile.counts[:old])
                shown = self._read(pile.images[:old]).repeat_interleave(times, 0)
                parts.append(Mixture.of(shown, target, 1.0))
            if len(real) and form != "real":
                parts.append(Mixture.of(self._read(pile.images[old:]), target, share))
            if len(real) and form != "decoded":
                parts.append(Mixture.of(real, target, share, coded=False))
        return Mixture.together(parts)

    def _detail(self, new: list[Tensor], mixture: Mixture) -> Detail | None:
        """Pixels lose none."""
        return None

    @property
    def _new_images(self) -> str:
        """Pixels are kept as they were: there is nothing to choose."""
        return "real"

    def _qualities(self) -> list[int]:
        return [0]

    # Adding images.

    def _with(self, new: list[Tensor]) -> Kept:
        """What is kept and the new images of each class, all of them, in one quality."""
        limit = parse_budget(self.options.memory).bytes
        # With room for those that will come: else these would be compressed again later.
        here = sum(pile.seen for pile in self.kept.piles) + sum(map(len, new))
        times = max(1.0, self.options.expected / here)
        *others, last = self._qualities()
        for quality in others:
            kept = self._in_quality(quality, new, math.inf if limit is None else limit / times)
            if kept is not None and (limit is None or self._weigh_all(kept, times) <= limit):
                return kept
        kept = self._in_quality(last, new, math.inf)
        assert kept is not None
        return kept

    def _in_quality(self, quality: int, new: list[Tensor], most: float) -> Kept | None:
        """The same in a given quality, unless its images take more bytes than `most`."""
        piles = [*self.kept.piles, *([equal_parts([], 0)] * (len(new) - len(self.kept.piles)))]
        old = [pile.images for pile in piles]
        added = self.form.encode(torch.cat(new), quality, most)
        if added is None:
            return None
        header, bodies = added
        if self.kept.quality is not None and not bodies:
            header = self.kept.header
        if self.kept.quality is not None and (quality, header) != (
            self.kept.quality,
            self.kept.header,
        ):
            # Anew, and first: it is the header of all.
            again = self.form.encode(self._read(self.kept.bodies), quality, most)
            if again is None:
                return None
            header, rest = again[0], iter(again[1])
            old = [[next(rest) for _ in pile.images] for pile in piles]
        arrived = iter(bodies)
        return Kept(
            [
                Pile(
                    [*images, *(next(arrived) for _ in some)],
                    np.concatenate([pile.counts, np.ones(len(some), np.int64)]),
                )
                for pile, images, some in zip(piles, old, new, strict=True)
            ],
            header,
            quality,
        )

    def _read(self, bodies: Sequence[bytes]) -> Tensor:
        assert self.image is not None
        return self.form.decode(self.kept.header, bodies, self.image)

    # The budget.

    def set_memory(self, memory: str) -> None:
        options = self.options
        self.options = replace(options, memory=memory)
        if not self.kept.piles:
            return
        assert self.image is not None
        none = torch.empty((0, *self.image), dtype=torch.uint8)
        try:
            self.kept = self._fitting(self._with([none] * len(self.classes)))
        except BaseException:
            self.options = options
            raise

    def _fitting(self, kept: Kept) -> Kept:
        """As many images as the budget has room for, an equal share for each class."""
        budget = parse_budget(self.options.memory)
        held = {target: len(pile.images) for target, pile in enumerate(kept.piles)}
        if budget.bytes is None:
            count = sum(held.values()) if budget.slots is None else budget.slots
            if count < len(held):
                self._refuse(len(held), len(held))
            return self._of(kept, balanced_shares(held, count))
        nothing = self._weigh(self._of(kept, dict.fromkeys(held, 0)))
        length = self._length_bytes(kept)
        sums = [self._running_bytes(kept, target, length) for target in held]

        def cost(count: int) -> int:
            shares = balanced_shares(held, count)
            return nothing + sum(sums[target][share] for target, share in shares.items())

        room = budget.bytes
        while True:
            # The most images that take no more: a cost never falls when one more is kept.
            count = bisect_right(range(sum(held.values()) + 1), room, key=cost) - 1
            if count < len(held):
                one_each = self._of(kept, balanced_shares(held, len(held)))
                self._refuse(len(held), self._weigh(one_each))
            left = self._of(kept, balanced_shares(held, count))
            over = self._weigh(left) - budget.bytes
            if over <= 0:
                return left
            room -= over  # the digits of sizes in the file's header: seldom, a second round

    def _of(self, kept: Kept, shares: dict[int, int]) -> Kept:
        """So many images of each class, which stand for all that were seen."""
        piles = []
        for target, pile in enumerate(kept.piles):
            chosen = sorted(self._order(kept, target)[: shares[target]])
            piles.append(equal_parts([pile.images[place] for place in chosen], pile.seen))
        return replace(kept, piles=piles)

    def _order(self, kept: Kept, target: int) -> list[int]:
        pile = kept.piles[target]
        seed = derive_seed(self.seed, "replay", self.tasks, target)
        return pile.choose(len(pile.images), seed)

    def _running_bytes(self, kept: Kept, target: int, length: int) -> list[int]:
        """What the first of a class, the first two, ... take: with the length of each."""
        images = kept.piles[target].images
        sizes = [len(images[place]) + length for place in self._order(kept, target)]
        return [0, *np.cumsum(sizes).tolist()]

    def _length_bytes(self, kept: Kept) -> int:
        """What it takes to say how long an image is."""
        return _length_type(kept.bodies).itemsize if self.form.ladder else 0

    def _weigh(self, kept: Kept) -> int:
        """What the learner's file will have besides the classifier if this is kept."""
        twin = copy.copy(self)
        twin.kept, twin.classifier = kept, self._grown()
        return len(learner_bytes(twin)) - twin.bytes_by_part()["classifier"]

    def _weigh_all(self, kept: Kept, times: float) -> float:
        """The same for so many times the images: all else is there once."""
        each = self._length_bytes(kept)
        return self._weigh(kept) + (times - 1) * sum(len(body) + each for body in kept.bodies)

    def _refuse(self, classes: int, least: int) -> NoReturn:
        memory, in_bytes = self.options.memory, parse_budget(self.options.memory).bytes is not None
        # The budget stands in the file, too: some bytes more for one of more digits.
        enough = f"{math.ceil((least + 16) / 1000)}kB" if in_bytes else least
        raise BudgetTooSmall(
            f"memory {memory} is too small for one image of each of {classes} classes: "
            f"use {enough} or more"
        )

    # What memory shows. No pictures: in a run's folder people are shown test images only.

    def remember(self, most: int) -> list[tuple[Label, Tensor]]:
        return [
            (label, self.view(self._read([pile.images[i] for i in evenly(len(pile.images), most)])))
            for label, pile in zip(self.classes, self.kept.piles, strict=True)
        ]

    # The state.

    def _keep(self) -> tuple[Tensors, Facts]:
        if self.kept.quality is None:
            return {}, {"quality": None}
        kept, bodies = self.kept, self.kept.bodies
        content = _bytes_tensor(b"".join(bodies))
        tensors = {
            "labels.held": torch.tensor([len(p.images) for p in kept.piles], dtype=torch.int32),
            "counts.seen": torch.tensor([pile.seen for pile in kept.piles], dtype=torch.int32),
        }
        if self.form.ladder:
            lengths = np.array([len(body) for body in bodies], _length_type(bodies))
            tensors["images.lengths"] = torch.from_numpy(lengths)
        else:
            assert self.image is not None
            content = content.reshape(-1, *self.image)
        if kept.header:
            tensors["images.header"] = _bytes_tensor(kept.header)
        return {f"images.{self.form.name}": content, **tensors}, {"quality": kept.quality}

    def _take_back(self, tensors: Tensors, facts: Facts) -> None:
        self.kept = Kept([])
        if facts["quality"] is None:
            return
        content = tensors[f"images.{self.form.name}"]
        joined = io.BytesIO(content.numpy().tobytes())
        each = len(content) and content[0].numel()
        lengths = tensors.get("images.lengths")
        sizes = iter([each] * len(content) if lengths is None else lengths.tolist())
        held, seen = tensors["labels.held"].tolist(), tensors["counts.seen"].tolist()
        self.kept = Kept(
            [
                equal_parts([joined.read(next(sizes)) for _ in range(count)], stands_for)
                for count, stands_for in zip(held, seen, strict=True)
            ],
            tensors["images.header"].numpy().tobytes() if "images.header" in tensors else b"",
            facts["quality"],
        )

    def _parts(self) -> dict[str, int]:
        return {"images": 0, "labels": 0, "counts": 0}


def _share_lost(kept: Kept) -> float:
    """Of all images of the classes that are kept, the share that was let go."""
    seen = sum(pile.seen for pile in kept.piles)
    return 1 - len(kept.bodies) / seen if seen else 0.0


def _bytes_tensor(content: bytes) -> Tensor:
    return torch.from_numpy(np.frombuffer(content, np.uint8).copy())


def _length_type(bodies: Sequence[bytes]) -> np.dtype[Any]:
    return np.dtype(np.uint16 if max(map(len, bodies), default=0) < 2**16 else np.uint32)


class CompressedReplay(Replay):
    """Keeps images compressed; when the quality has to fall, all are compressed again."""

    options: CompressedReplayOptions

    @property
    def _new_images(self) -> str:
        return self.options.new_images

    def _qualities(self) -> list[int]:
        if self.options.quality:
            return [self.options.quality]
        in_bytes = parse_budget(self.options.memory).bytes is not None
        kept = self.kept
        return qualities(self.form, in_bytes=in_bytes, dropped=kept.dropped, now=kept.quality)

    def _detail(self, new: list[Tensor], mixture: Mixture) -> Detail | None:
        if not self.options.detail or self.options.new_images == "real":
            return None
        added: list[bytes] = []  # the new images, as they are kept
        for pile, real in zip(self.kept.piles, new, strict=True):
            added += pile.images[len(pile.images) - len(real) :]
        return Detail(detail_of(torch.cat(new), self._read(added)), mixture.coded)

    def reconstruct(self, images: Tensor, label: Label) -> Tensor | None:
        assert self.kept.quality is not None
        written = self.form.encode(images, self.kept.quality)
        assert written is not None
        return self.form.decode(*written, shape_of(images))


class ReplayWebP(CompressedReplay):
    form: ClassVar[Form] = WEBP


class ReplayJPEG(CompressedReplay):
    form: ClassVar[Form] = JPEG
