"""EEC, Encoding Episodes as Concepts: `_learn` is one increment, in the order of the paper.

As published (`eec-published`, `eecs`) and in the matched form (`eec`): only options differ.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import torch
from torch import Tensor
from torch.nn.functional import pad

from eec.data.labels import Label
from eec.data.stream import Task
from eec.errors import UserError
from eec.memory.budget import balanced_shares, parse_budget
from eec.memory.codec import Codec, CodecOptions, judge, new_autoencoder, train_codec
from eec.memory.decay import decay_weight
from eec.memory.episodes import Episodes, Memory, Rehearsal
from eec.methods.archive import learner_bytes
from eec.methods.contract import (
    Facts,
    Method,
    Report,
    Tensors,
    describe_net,
    load_weights,
    weights_of,
)
from eec.methods.options import EECOptions
from eec.nets.classifiers import Shape, shape_of
from eec.training.runtime import derive_seed, generator, seeded


@dataclass(frozen=True)
class Mixture:
    """What `D` is trained on: images, class indices and the weight of each."""

    images: Tensor
    targets: Tensor
    weights: Tensor


class EECMethod(Method):
    options: EECOptions

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.memory = Memory()
        self.originals: dict[int, float] = {}  # c_o: accuracy of `D` on a task's real images
        self.seen: dict[int, int] = {}  # images taught of each class, by class index

    def _learn(self, brought: Tensor, targets: Tensor, report: Report) -> None:
        images = self.view(brought)  # what is coded; their margin, if any, serves random crops
        rehearsal = self._rehearse(report)
        weights = self._measure_decay(rehearsal, report)
        matched = self.options.new_images != "real"
        if matched:  # `D` is to see new images as memory will show them: the codec comes first
            self._train_autoencoder(images, targets, rehearsal, report)
            if self.options.codec == "retrained":  # memory has a new decoder: old images, too
                rehearsal = self._rehearse(report)
        mixture = self._mix(brought, targets, rehearsal, weights)
        self._train_classifier(mixture.images, mixture.targets, mixture.weights, report)
        self.originals[self.tasks] = self._accuracy(images, targets)
        if not matched:
            self._train_autoencoder(images, targets, rehearsal, report)
        self._store(images, targets, report)
        self._judge_codec(images, targets, report)

    # 1. Decode memory.

    def _rehearse(self, report: Report) -> list[Rehearsal]:
        with report.phase("rehearse"):
            return self.memory.rehearse()

    # 2. How much has each old task decayed, as the old `D` sees it?

    def _measure_decay(self, rehearsal: list[Rehearsal], report: Report) -> dict[int, float]:
        with report.phase("rehearse"):
            report.decay = []
            for part in rehearsal:
                original = self.originals[part.task]
                decoded = self._accuracy(part.images, part.targets)
                alpha = self._times_retrained(part.task)
                weight = decay_weight(decoded, original, alpha) if self.options.decay else 1.0
                report.decay.append(
                    {"task": part.task, "original": original, "decoded": decoded, "weight": weight}
                )
            return {entry["task"]: entry["weight"] for entry in report.decay}

    def _times_retrained(self, task: int) -> int:
        """alpha: by its definition 0 for EEC, which would switch decay off; the authors have 1."""
        return self.tasks - task if self.options.codec == "retrained" else 1

    # 3. What `D` is trained on.

    def _mix(
        self,
        images: Tensor,
        targets: Tensor,
        rehearsal: list[Rehearsal],
        weights: dict[int, float],
    ) -> Mixture:
        shown = []
        if self.options.new_images != "decoded":
            shown.append(images)
        if self.options.new_images != "real":
            shown.append(self.memory.codec_of(self.tasks)(self.view(images)))
        # Shown twice, a new image counts half each time, or new classes would count double.
        new = [Mixture(s, targets, torch.full((len(s),), 1 / len(shown))) for s in shown]
        kept = self.memory.count()
        times = {target: self.seen[target] / count for target, count in kept.items()}
        old = [
            Mixture(part.images, part.targets, torch.full((len(part.images),), weights[part.task]))
            for part in (part.repeated(times) for part in rehearsal)
        ]
        return Mixture(
            torch.cat([self._with_margin(part.images) for part in new + old]),
            torch.cat([part.targets for part in new + old]),
            torch.cat([part.weights for part in new + old]),
        )

    def _with_margin(self, images: Tensor) -> Tensor:
        """Decoded images have no margin to crop in: they get a black one."""
        assert self.image is not None
        high, wide = (self.image[k] - images.shape[k + 1] for k in (1, 2))
        return pad(images, (wide // 2, wide - wide // 2, high // 2, high - high // 2))

    # 5. The autoencoder of this task.

    def _train_autoencoder(
        self, images: Tensor, targets: Tensor, rehearsal: list[Rehearsal], report: Report
    ) -> None:
        if self.options.codec == "frozen" and self.memory.codecs:
            return
        last = self.memory.codec_of(self.tasks) if self.memory.codecs else None
        start = last.net if last and self.options.codec in ("warm", "retrained") else None
        if self.options.codec == "retrained":
            images = torch.cat([images, *(part.images for part in rehearsal)])
            targets = torch.cat([targets, *(part.targets for part in rehearsal)])
        with report.phase("train autoencoder") as progress:
            codec = train_codec(
                images,
                self._codec_options(),
                self.recipe.autoencoder,
                self.runtime,
                derive_seed(self.seed, "autoencoder", self.tasks),
                classifier=self._taught,
                # Before its own increment `D` does not know the new names, and cannot judge.
                targets=targets if self.options.new_images == "real" else None,
                start=start,
                progress=progress,
                warn=report.notes.append,
            )
        if self.options.codec == "retrained":  # one codec for all: old episodes are encoded anew
            self.memory.codecs = {1: codec}
            self.memory.episodes = [
                Episodes(part.task, codec.encode(part.images), part.targets) for part in rehearsal
            ]
        else:
            self.memory.codecs = {**self.memory.codecs, self.tasks: codec}

    def check(self, task: Task) -> None:
        super().check(task)
        with seeded(0):  # a code that does not fit the images shows here
            net = new_autoencoder(self._seen_shape(shape_of(task.images)), self._codec_options())
        classes = len({*self.classes, *task.classes})
        budget = parse_budget(self.options.memory)
        episode = 4 * math.prod(net.code_shape)
        least = classes
        if budget.bytes is not None:  # a first estimate: what is stored in the end decides
            again = self.options.codec in ("per-task", "warm")
            codec = (
                0 if self.memory.codecs and not again else describe_net(net.decoder, "")["bytes"]
            )
            least = self._fixed_bytes() + codec + classes * episode
        if not budget.unlimited and least > (budget.bytes or budget.slots or 0):
            self._refuse_budget(classes, least)

    def nets(self, image: Shape) -> Facts:
        with seeded(0):
            net = new_autoencoder(self._seen_shape(image), self._codec_options())
        code = "x".join(map(str, net.code_shape))
        values = math.prod(net.code_shape)
        return {
            **super().nets(image),
            "autoencoder": {**describe_net(net, code), "bytes_an_episode": 4 * values},
        }

    def _codec_options(self) -> CodecOptions:
        o = self.options
        return CodecOptions(o.code, o.output, o.content, o.content_scale)

    # 6. Store.

    def _store(self, images: Tensor, targets: Tensor, report: Report) -> None:
        with report.phase("store"):
            codes = self.memory.codec_of(self.tasks).encode(images)
            episodes = Episodes(self.tasks, codes, targets)
            self.memory.episodes = [*self.memory.episodes, episodes]
            new = Counter(targets.tolist())
            self.seen = {t: self.seen.get(t, 0) + new[t] for t in {**self.seen, **new}}
            self._fit_budget()

    def _fit_budget(self) -> None:
        """Over budget, each class keeps an equal share of its episodes, drawn at random."""
        slots = self._slots()
        if slots is None:
            return
        counts = self.memory.count()
        if slots < len(counts):
            in_bytes = parse_budget(self.options.memory).bytes is not None
            needed = self._fixed_bytes() + len(counts) * self._episode_bytes()
            self._refuse_budget(len(counts), needed if in_bytes else len(counts))
        shares = balanced_shares(counts, slots)
        self.memory.keep(shares, generator(self.seed, "drop", self.tasks))

    def _slots(self) -> int | None:
        budget = parse_budget(self.options.memory)
        if budget.bytes is None:
            return budget.slots
        return max(0, (budget.bytes - self._fixed_bytes()) // self._episode_bytes())

    def _fixed_bytes(self) -> int:
        """What the file of this learner has besides the classifier and the episodes."""
        parts = self.bytes_by_part()
        beside = parts["classifier"] + parts["episodes"] + parts["labels"]
        return len(learner_bytes(self)) - beside

    def _episode_bytes(self) -> int:
        part = self.memory.episodes[0]
        return part.codes[0].numel() * part.codes.element_size() + part.targets.element_size()

    def _refuse_budget(self, classes: int, least: int) -> NoReturn:
        in_bytes = parse_budget(self.options.memory).bytes is not None
        raise UserError(
            f"memory {self.options.memory} is too small for the codec and one episode of each of "
            f"{classes} classes: use {f'{math.ceil(least / 1000)}kB' if in_bytes else least} "
            "or more"
        )

    def set_memory(self, memory: str) -> None:
        before = self.state()
        options, self.options = self.options, replace(self.options, memory=memory)
        try:
            self._fit_budget()
        except UserError:
            self.options = options
            self.restore(*before)
            raise

    def _judge_codec(self, images: Tensor, targets: Tensor, report: Report) -> None:
        """How well the codec of this task, which an earlier one may have trained, keeps it."""
        with report.phase("store"):
            codec = self.memory.codec_of(self.tasks)
            quality = judge(codec, images, self._taught, targets)
        trained = "train autoencoder" in report.seconds
        report.autoencoder = {
            **quality.record(),
            "trained": trained,
            "steps": codec.steps,
            "attempts": codec.attempts,
        }
        if not quality.good and not trained:
            report.notes.append(f"The codec of an earlier task keeps this one badly: {quality}.")

    # At test time, and for the measures.

    def _as_seen(self, images: Tensor) -> Tensor:
        if self.options.see == "real":
            return images
        return self.memory.codec_of(self.tasks)(self.view(images))

    def remember(self, most: int) -> list[tuple[Label, Tensor]]:
        rehearsal = self.memory.rehearse(most)
        if not rehearsal:
            return []
        images = torch.cat([part.images for part in rehearsal])
        targets = torch.cat([part.targets for part in rehearsal])
        return [(label, images[targets == i][:most]) for i, label in enumerate(self.classes)]

    def reconstruct(self, images: Tensor, label: Label) -> Tensor | None:
        target = self.classes.index(label)
        task = max(part.task for part in self.memory.episodes if (part.targets == target).any())
        codec = self.memory.codec_of(task)
        return codec(self.view(images)) if codec.encodes else None

    # The state.

    def _keep(self) -> tuple[Tensors, Facts]:
        tensors: Tensors = {}
        for part in self.memory.episodes:
            tensors[f"episodes.{part.task}"] = part.codes
            tensors[f"labels.{part.task}"] = part.targets
        for task, codec in self.memory.codecs.items():
            weights = weights_of(codec.net, f"codecs.{task}.")
            # A codec that will never encode again is kept as a decoder.
            encodes_later = self.options.codec != "per-task"
            tensors |= {n: t for n, t in weights.items() if encodes_later or ".decoder." in n}
        return tensors, {
            "originals": {str(t): c for t, c in self.originals.items()},
            "seen": {str(target): count for target, count in self.seen.items()},
            "codecs": {str(t): [c.steps, c.attempts] for t, c in self.memory.codecs.items()},
        }

    def _take_back(self, tensors: Tensors, facts: Facts) -> None:
        self.originals = {int(task): c for task, c in facts["originals"].items()}
        self.seen = {int(target): count for target, count in facts["seen"].items()}
        self.memory = Memory()
        for task in sorted(self.originals):
            if f"episodes.{task}" in tensors:  # else all of them were dropped
                codes, targets = tensors[f"episodes.{task}"], tensors[f"labels.{task}"]
                self.memory.episodes.append(Episodes(task, codes, targets))
        for task, training in facts["codecs"].items():
            self.memory.codecs[int(task)] = self._read_codec(tensors, f"codecs.{task}.", training)

    def _read_codec(self, tensors: Tensors, prefix: str, training: list[int]) -> Codec:
        assert self.image is not None
        net = new_autoencoder(self._seen_shape(self.image), self._codec_options())
        codec = Codec(net, self.runtime, *training)
        load_weights(codec.net.decoder, tensors, prefix + "decoder.")
        codec.encodes = any(name.startswith(prefix + "encoder.") for name in tensors)
        if codec.encodes:
            load_weights(codec.net.encoder, tensors, prefix + "encoder.")
        return codec

    def _parts(self) -> dict[str, int]:
        return {"episodes": 0, "codecs": 0, "labels": 0}
