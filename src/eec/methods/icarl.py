"""iCaRL (Rebuffi et al., 2017): the best known of the methods that keep real images.

Exemplars are chosen by herding: so many of them, their features on average are as close to the mean
of the class as can be. The net learns by sigmoids, one a class: what it said of old classes before
the task is what it is to say after it, too. An image is named by the nearest mean of exemplars; the
head serves to train features. Exemplars are kept as `replay` keeps images, in the same bytes.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, normalize, one_hot

from eec.memory.budget import parse_budget
from eec.methods.contract import Report
from eec.methods.replay import Kept, Replay, equal_parts
from eec.nets.classifiers import Classifier
from eec.training.batches import to_float
from eec.training.distillation import Teacher
from eec.training.loop import Loss, apply


def herd(features: Tensor, counts: Tensor, most: int) -> list[int]:
    """Places of up to `most` rows: the mean of the first, of the first two, ... nears that of all.

    Rows are of length 1, and each counts for as many as it stands for. Each place is the best that
    can follow those before it, so that a shorter list is the beginning of a longer one.
    """
    share = (counts / counts.sum()).to(features.dtype)
    mean = share @ features
    # |k mean - sum - row| is least where row . (k mean - sum) is largest: rows are equally long.
    wanted = mean.clone()
    taken = torch.zeros(len(features), dtype=torch.bool)
    order: list[int] = []
    for _ in range(min(most, len(features))):
        place = int((features @ wanted).masked_fill(taken, -torch.inf).argmax())
        order.append(place)
        taken[place] = True
        wanted += mean - features[place]
    return order


def distillation_targets(
    targets: Tensor, arrived: Tensor, classes: int, before: Tensor | None
) -> Tensor:
    """What the sigmoids are to say of each image, [N, classes].

    Of old classes what the net said before the task (`before`, logits [N, old classes]), of new
    ones whether it is that. An image that arrived with this task is of its class for certain: also
    where that is an old one, which the paper does not have.
    """
    wanted = one_hot(targets, classes).float()
    if before is not None:
        certain = wanted[:, : before.shape[1]] * arrived[:, None]
        wanted[:, : before.shape[1]] = torch.maximum(before.sigmoid(), certain)
    return wanted


def nearest(features: Tensor, means: Tensor) -> Tensor:
    """Negative squared distances of each row to each mean."""
    return -torch.cdist(features, means, compute_mode="donot_use_mm_for_euclid_dist").square()


@dataclass(frozen=True)
class Lesson:
    """What training has to know of a task: the net before it, and which images came with it."""

    teacher: Classifier | None  # None where the net had not learned anything
    arrived: Tensor


class ICaRL(Replay):
    """Probabilities are a softmax of negative squared distances to the means: they order classes
    as nearest-mean does, but with features of length 1 none is ever near 0 or 1."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._lesson: Lesson | None = None  # while a task is learned
        self._found: tuple[Kept, Tensor] | None = None  # the means of what is kept

    def _learn(self, images: Tensor, targets: Tensor, report: Report) -> None:
        exemplars = [len(pile.images) for pile in self.kept.piles]
        old = torch.arange(len(exemplars)).repeat_interleave(torch.tensor(exemplars).long())
        with report.phase("store"):
            kept = self._with([images[targets == target] for target in range(len(self.classes))])
            self._fitting(kept)  # a budget too small is refused before training
        with report.phase("rehearse"):
            shown = torch.cat([self._read(self.kept.bodies), images])
        arrived = torch.arange(len(shown)) >= len(old)
        teacher = None if self._taught is None else copy.deepcopy(self._taught).eval()
        with self._taught_by(Lesson(teacher, arrived)):
            self._train_classifier(shown, torch.cat([old, targets]), None, report)
        with report.phase("herd"):
            self.kept = self._fitting(self._herded(kept, sorted(set(targets.tolist()))))

    # Training.

    @contextmanager
    def _taught_by(self, lesson: Lesson) -> Iterator[None]:
        self._lesson = lesson
        try:
            yield
        finally:
            self._lesson = None

    def _loss(
        self,
        net: Classifier,
        targets: Tensor,
        weights: Tensor | None,
        teacher: Teacher | None = None,
    ) -> Loss:
        """The binary cross entropy of all sigmoids, added up over classes as in the paper.

        The lesson has its teacher, who is heeded in another way: none is given here.
        Its code divides by the number of classes and has a rate that is larger by as much.
        """
        assert self._lesson is not None and teacher is None
        taught_by, arrived = self._lesson.teacher, self._lesson.arrived.to(targets.device)
        classes = len(self.classes)

        def loss(batch: Tensor, index: Tensor) -> Tensor:
            with torch.no_grad():
                before = None if taught_by is None else taught_by(batch).float()
                wanted = distillation_targets(targets[index], arrived[index], classes, before)
            said = net(batch).float()
            losses = binary_cross_entropy_with_logits(said, wanted, reduction="none").sum(1)
            return (losses if weights is None else losses * weights[index]).mean()

        return loss

    # Exemplars.

    def _herded(self, kept: Kept, arrived: list[int]) -> Kept:
        """The classes that have new images in the order of herding: others are in theirs."""
        budget = parse_budget(self.options.memory)
        piles = list(kept.piles)
        for target in arrived:
            pile = piles[target]
            most = len(pile.images)
            if budget.slots is not None:
                most = min(most, budget.slots)
            if budget.bytes is not None:
                most = min(most, budget.bytes // len(pile.images[0]))
            features = self._features(self._read(pile.images))
            order = herd(features, torch.from_numpy(pile.counts), most)
            piles[target] = equal_parts([pile.images[place] for place in order], pile.seen)
        return replace(kept, piles=piles)

    def _order(self, kept: Kept, target: int) -> list[int]:
        """A class that has to shrink loses the last that herding chose."""
        return list(range(len(kept.piles[target].images)))

    # Prediction.

    def _logits(self, images: Tensor) -> Tensor:
        return nearest(self._features(images), self._means())

    def _means(self) -> Tensor:
        """The mean of each class's exemplars, of length 1 again."""
        if self._found is None or self._found[0] is not self.kept:
            means = [self._mean(self._read(pile.images)) for pile in self.kept.piles]
            self._found = self.kept, torch.stack(means)
        return self._found[1]

    def _mean(self, images: Tensor) -> Tensor:
        """Where images are mirrored in training, mirrored exemplars count, too."""
        if self.options.flip:
            images = torch.cat([images, images.flip(3)])
        return normalize(self._features(images).mean(0), dim=0)

    def _features(self, images: Tensor) -> Tensor:
        """What the head is given, each row of length 1."""
        net = self.classifier
        assert net is not None
        net.eval()

        def call(part: Tensor) -> Tensor:
            floats = to_float(part).contiguous(memory_format=torch.channels_last)
            features: Tensor = net.pool(net.features(floats))
            return normalize(features.float())

        return apply(call, self.view(images), self.runtime)
