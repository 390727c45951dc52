"""EEC, Encoding Episodes as Concepts: `_learn` is one increment, in the order of the paper.

As published (`eec-published`, `eecs`) and in the matched form (`eec`): only options differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from eec.memory.codec import DRIFTED, Codec, drift, judge, train_codec
from eec.memory.decay import decay_weight
from eec.memory.episodes import Kept
from eec.memory.over_budget import shrink
from eec.memory.pseudo import Drawn, draw_pseudo_images
from eec.methods.contract import Facts, Report
from eec.methods.keeper import Keeper
from eec.methods.mixture import Mixture, detail_of
from eec.nets.classifiers import shape_of
from eec.training.batches import Detail
from eec.training.runtime import derive_seed, generator

FEWEST_JUDGED = 100  # of a task's images, to tell how much it has decayed
LENDERS = 1000  # new images, at most, whose detail is lent to others


@dataclass(frozen=True)
class Rehearsal:
    """One class of one task as memory shows it: episodes decoded, images drawn from concepts."""

    part: Kept
    images: Tensor  # uint8 [N, C, H, W], one for each episode
    drawn: Drawn | None


class EECMethod(Keeper):
    """Options choose the form; what is kept, and in how many bytes, is `Keeper`'s business."""

    def _learn(self, brought: Tensor, targets: Tensor, report: Report) -> None:
        images = self.view(brought)  # what is coded; their margin, if any, serves random crops
        rehearsal = self._rehearse(report)
        weights = self._measure_decay(rehearsal, report)
        left: list[Kept] = []
        matched = self.options.new_images != "real"
        if matched:  # `D` is to see new images as memory will show them: the codec comes first
            anew = self._train_autoencoder(images, targets, rehearsal, report)
            self._store(images, targets, report)
            self._keep_real(brought, targets)
            # Where memory has a new decoder, or coarser codes, old images look different, too.
            if self._coarsen() or anew:
                rehearsal = self._rehearse(report)
            left = self._plan_budget(report)
        mixture = self._mix(brought, targets, rehearsal, weights, left)
        detail = self._detail(images, mixture, report) if matched else None
        heed = self.options.distil * _share_lost(rehearsal)
        self._train_classifier(
            mixture.images, mixture.targets, mixture.weights, report, detail, heed
        )
        self.originals[self.tasks] = self._accuracy(images, targets)
        if not matched:
            self._train_autoencoder(images, targets, rehearsal, report)
            self._store(images, targets, report)
            self._keep_real(brought, targets)
            self._coarsen()
            left = self.memory.kept
        self._fit_budget(left, report)
        self._judge_codec(images, targets, report)

    # 1. Decode memory.

    def _rehearse(self, report: Report) -> list[Rehearsal]:
        """Each episode once, and from each concept as many images as it stands for."""
        with report.phase("rehearse"):
            rehearsal = []
            for part in self.memory.kept:
                if part.task == self.tasks:
                    continue
                drawn = None
                if len(part.spreads):
                    rng = generator(self.seed, "pseudo", self.tasks, part.task, part.target)
                    # With a single class the old `D` has nothing to tell apart.
                    logits = self._logits if self._taught else None
                    drawn = draw_pseudo_images(self.memory, part, logits, rng)
                rehearsal.append(Rehearsal(part, self.memory.reconstruct(part), drawn))
            report.pseudo = _sums([r.drawn for r in rehearsal if r.drawn is not None])
            return rehearsal

    # 2. How much has each old task decayed, as the old `D` sees it?

    def _measure_decay(
        self, rehearsal: list[Rehearsal], report: Report
    ) -> dict[int, tuple[float, float]]:
        """By task, the weight of reconstructions and that of pseudo-images."""
        if not self.options.decay:
            return {r.part.task: (1.0, 1.0) for r in rehearsal}
        weights = {}
        with report.phase("rehearse"):
            report.decay = []
            old = sorted({r.part.task for r in rehearsal})
            for task in old:
                mine = [r for r in rehearsal if r.part.task == task]
                decoded = self._share_recognised(mine, len(old))
                drawn = _recognised([r.drawn for r in mine if r.drawn is not None])
                weights[task] = self._weight(task, decoded), self._weight(task, drawn)
                report.decay.append(
                    {
                        "task": task,
                        "original": self.originals[task],
                        "decoded": decoded,
                        "weight": weights[task][0],
                        "drawn": drawn,
                        "drawn_weight": weights[task][1],
                    }
                )
        return weights

    def _share_recognised(self, rehearsal: list[Rehearsal], tasks: int) -> float | None:
        """Percent of a task's reconstructions that `D` calls by their name."""
        images = torch.cat([r.images for r in rehearsal])
        targets = torch.cat([torch.full((len(r.images),), r.part.target) for r in rehearsal])
        most = max(FEWEST_JUDGED, self.options.replay_per_epoch // tasks)
        if self.options.replay_per_epoch and most < len(images):
            # Else this would be most of what an increment costs where replay is bounded.
            some = torch.linspace(0, len(images) - 1, most).round().long()
            images, targets = images[some], targets[some]
        return self._accuracy(images, targets) if len(images) else None

    def _weight(self, task: int, recognised: float | None) -> float:
        if recognised is None:
            return 1.0
        return decay_weight(recognised, self.originals[task], self._times_retrained(task))

    def _times_retrained(self, task: int) -> int:
        """alpha: by its definition 0 for EEC, which would switch decay off; the authors have 1."""
        return self.tasks - task if self.options.codec == "retrained" else 1

    # 3. What `D` is trained on.

    def _mix(
        self,
        images: Tensor,
        targets: Tensor,
        rehearsal: list[Rehearsal],
        weights: dict[int, tuple[float, float]],
        left: list[Kept],
    ) -> Mixture:
        parts = []
        # Shown twice, a new image counts half each time, or new classes would count double.
        share = 0.5 if self.options.new_images == "both" else 1.0
        if self.options.new_images != "decoded":
            parts.append(Mixture.of(images, targets, share, coded=False))
        if self.options.new_images != "real":
            new = [part for part in self.memory.kept if part.task == self.tasks]
            parts += [Mixture.of(self._as_kept(part, left), part.target, share) for part in new]
        for old in rehearsal:
            decoded, drawn = weights[old.part.task]
            # An episode is shown as often as it stands for images: moved and mirrored anew.
            times = old.part.counts[: old.part.singles]
            shown = old.images.repeat_interleave(times, 0)
            parts.append(Mixture.of(shown, old.part.target, decoded))
            if old.drawn is not None:
                parts.append(Mixture.of(old.drawn.images, old.part.target, drawn))
        # Real ones that are kept beside; those of new classes too, where they are shown decoded:
        # else `D` would take a real image for one of an old class.
        parts += [Mixture.of(kept, target, 1.0, coded=False) for target, kept in self.real]
        return Mixture.together(
            [replace(part, images=self._with_margin(part.images)) for part in parts]
        )

    def _detail(self, images: Tensor, mixture: Mixture, report: Report) -> Detail | None:
        """What the codec loses of the new images, to be lent to all that came out of it.

        Decoded images have no fine detail. A `D` that was trained on them alone is surprised by
        that of real ones, and calls ships cars; lent at random, it tells no class from another.
        """
        if not self.options.detail:
            return None
        with report.phase("rehearse"):
            some = images[torch.linspace(0, len(images) - 1, min(len(images), LENDERS)).long()]
            lost = detail_of(some, self.memory.codec_of(self.tasks)(some))
            return Detail(self._with_margin(lost), mixture.coded)

    def _as_kept(self, part: Kept, left: list[Kept]) -> Tensor:
        """A new class as memory shows it now and, where it will be concepts, half as later on.

        Else `D` would tell sharp images from drawn ones, and call new classes too often.
        """
        images = self.memory.reconstruct(part)
        later = [p for p in left if (p.task, p.target) == (part.task, part.target)]
        if not any(len(p.spreads) for p in later):
            return images
        rng = generator(self.seed, "as kept", self.tasks, part.target)
        shown = [self.memory.reconstruct(p) for p in later]
        # The old `D` has never heard of this class: it cannot filter.
        shown += [draw_pseudo_images(self.memory, p, None, rng).images for p in later]
        pool, half = torch.cat(shown), len(images) // 2
        sharp, drawn = (torch.randperm(len(some), generator=rng) for some in (images, pool))
        return torch.cat([images[sharp[half:]], pool[drawn[:half]]])

    # 5. The autoencoder of this task.

    def _train_autoencoder(
        self,
        images: Tensor,
        targets: Tensor,
        rehearsal: list[Rehearsal],
        report: Report,
    ) -> bool:
        """Whether memory was encoded anew, by a codec that replaces the old one."""
        last = self.memory.codec_of(self.tasks) if self.memory.codecs else None
        again = last is not None and self._retrains(last, images, report)
        if self.options.codec == "frozen" and last and not again:
            return False
        start = last.net if last and (again or self.options.codec == "warm") else None
        if again:
            images = torch.cat([images, *(_pictures(r) for r in rehearsal)])
            targets = torch.cat([targets, *(_targets(r) for r in rehearsal)])
        options, recipe = self._codec_options(shape_of(images)), self.recipe
        with report.phase("train autoencoder") as progress:
            codec = train_codec(
                images,
                options,
                recipe.compressor if options.coded else recipe.autoencoder,
                self.runtime,
                derive_seed(self.seed, "autoencoder", self.tasks),
                classifier=self._taught,
                # Before its own increment `D` does not know the new names, and cannot judge.
                targets=targets if self.options.new_images == "real" else None,
                start=start,
                progress=progress,
                journal=report.journal,
                warn=report.notes.append,
            )
        if not again:
            self.memory.codecs = {**self.memory.codecs, self.tasks: codec}
            return False
        assert last is not None
        codec.level = last.level
        self.memory.codecs = {1: codec}
        self._encode_anew(rehearsal, report)
        return True

    def _retrains(self, codec: Codec, images: Tensor, report: Report) -> bool:
        """Whether the codec is to be trained again, with all of memory."""
        if self.options.codec == "retrained":
            return True
        if not self.options.codec_refresh:
            return False
        with report.phase("store"):
            return drift(codec, images) > DRIFTED

    def _encode_anew(self, rehearsal: list[Rehearsal], report: Report) -> None:
        """EECS has one codec for all: what it decodes, of concepts too, is encoded by its next."""
        with report.phase("store"):
            slots = self.memory.slots()
            self.memory.kept = []
            for task in sorted({r.part.task for r in rehearsal}):
                mine = [r for r in rehearsal if r.part.task == task]
                codes = self.memory.codecs[1].encode(torch.cat([_pictures(r) for r in mine]))
                targets = torch.cat([_targets(r) for r in mine])
                self.memory.store(task, codes, targets, self.options.code_type)
            counts = {(r.part.task, r.part.target): _counts(r) for r in rehearsal}
            self.memory.kept = [
                replace(part, counts=counts[part.task, part.target]) for part in self.memory.kept
            ]
            o, seed = self.options, derive_seed(self.seed, "encode anew", self.tasks)
            shrink(self.memory, slots, o.over_budget, o.linkage, seed)
            if self.options.codec_refresh:
                lost = self._lost_anew(rehearsal)
                report.notes.append(
                    "The codec kept this task badly and was trained again; memory was encoded "
                    f"anew, which lost {100 * lost:.1f} % of its pixels' variance."
                )

    def _lost_anew(self, rehearsal: list[Rehearsal]) -> float:
        """The share of the variance of what memory showed that its new codec does not keep."""
        shown = torch.cat([_pictures(r)[:100] for r in rehearsal])
        return judge(self.memory.codecs[1], shown, None, None).unexplained

    # 6. Store.

    def _store(self, images: Tensor, targets: Tensor, report: Report) -> None:
        with report.phase("store"):
            codec = self.memory.codec_of(self.tasks)
            codes = codec.encode(images)
            if self.memory.codec_key(self.tasks) == self.tasks:  # nothing is coded by it yet
                codec.level = self._first_level(codes)
                self._tell_image_bytes(codes, report)
            self.memory.store(self.tasks, codes, targets, self.options.code_type)

    def _plan_budget(self, report: Report) -> list[Kept]:
        """What will be left of each class when it fits into its share of the slots."""
        whole = self.memory.kept
        try:
            self._fit_budget(whole, report)
            return self.memory.kept
        finally:
            self.memory.kept = whole

    def _fit_budget(self, left: list[Kept], report: Report) -> None:
        """Over budget, each class is integrated into its share of the slots."""
        self.memory.kept = left
        if self.options.memory != "unlimited":
            with report.phase("integrate"):
                # A budget in bytes is held on disk, where `D` has grown since it was planned.
                self._shrink(report.notes)

    def _judge_codec(self, images: Tensor, targets: Tensor, report: Report) -> None:
        """How well the codec of this task, which an earlier one may have trained, keeps it."""
        with report.phase("store"):
            codec = self.memory.codec_of(self.tasks)
            quality = judge(codec, images, self._taught, targets)
            away = drift(codec, images)
        trained = "train autoencoder" in report.seconds
        report.autoencoder = {
            **quality.record(),
            "drift": away,
            "level": codec.level if codec.prior else None,
            "trained": trained,
            "steps": codec.steps,
            "attempts": codec.attempts,
        }
        if trained:
            return
        if not quality.good:
            report.notes.append(f"The codec of an earlier task keeps this one badly: {quality}.")
        elif away > DRIFTED:
            report.notes.append(
                "The codec of an earlier task keeps this one badly: in error and bytes it costs "
                f"{away:.1f} times as much as what the codec was trained on; a learner begun with "
                "codec_refresh trains it again in such a case."
            )


def _share_lost(rehearsal: list[Rehearsal]) -> float:
    """Of all old images, the share that memory has no episode of any more."""
    seen = sum(int(r.part.counts.sum()) for r in rehearsal)
    return 1 - sum(r.part.singles for r in rehearsal) / seen if seen else 0.0


def _pictures(rehearsal: Rehearsal) -> Tensor:
    """All images of a class, decoded and drawn."""
    drawn = rehearsal.drawn
    return rehearsal.images if drawn is None else torch.cat([rehearsal.images, drawn.images])


def _targets(rehearsal: Rehearsal) -> Tensor:
    return torch.full((len(_pictures(rehearsal)),), rehearsal.part.target)


def _counts(rehearsal: Rehearsal) -> Tensor:
    """How many images each of them stands for: one drawn stands for itself."""
    counts = torch.ones(len(_pictures(rehearsal)), dtype=torch.int32)
    counts[: rehearsal.part.singles] = rehearsal.part.counts[: rehearsal.part.singles]
    return counts


def _recognised(drawn: Sequence[Drawn]) -> float | None:
    """Percent of pseudo-images that `D` recognised, before the filter."""
    told = [(d.recognised, len(d.images)) for d in drawn if d.recognised is not None]
    images = sum(count for _, count in told)
    return sum(share * count for share, count in told) / images if images else None


def _sums(drawn: Sequence[Drawn]) -> Facts | None:
    """What the filter did, over all classes."""
    if not drawn:
        return None
    return {
        "images": sum(len(d.images) for d in drawn),
        "draws": sum(d.draws for d in drawn),
        "rejected": sum(d.rejected for d in drawn),
        "filled": sum(d.filled for d in drawn),
    }
