"""EEC, Encoding Episodes as Concepts: `_learn` is one increment, in the order of the paper.

As published (`eec-published`, `eecs`) and in the matched form (`eec`): only options differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from eec.data.labels import Label
from eec.data.stream import Task
from eec.memory.codec import Codec, CodecOptions, judge, new_autoencoder, train_codec
from eec.memory.decay import decay_weight
from eec.memory.episodes import Episodes, Memory, Rehearsal
from eec.methods.contract import Facts, Method, Report, Tensors, load_weights, weights_of
from eec.methods.options import EECOptions
from eec.nets.classifiers import shape_of
from eec.training.runtime import derive_seed, seeded


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

    def _learn(self, images: Tensor, targets: Tensor, report: Report) -> None:
        rehearsal = self._rehearse(report)
        weights = self._measure_decay(rehearsal, report)
        matched = self.options.new_images != "real"
        if matched:  # `D` is to see new images as memory will show them: the codec comes first
            self._train_autoencoder(images, targets, rehearsal, report)
            if self.options.codec == "retrained":  # memory has a new decoder: old images, too
                rehearsal = self._rehearse(report)
        mixture = self._mix(images, targets, rehearsal, weights)
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
            shown.append(self.memory.codec_of(self.tasks)(images))
        # Shown twice, a new image counts half each time, or new classes would count double.
        new = [Mixture(s, targets, torch.full((len(s),), 1 / len(shown))) for s in shown]
        old = [
            Mixture(part.images, part.targets, torch.full((len(part.images),), weights[part.task]))
            for part in rehearsal
        ]
        return Mixture(
            torch.cat([part.images for part in new + old]),
            torch.cat([part.targets for part in new + old]),
            torch.cat([part.weights for part in new + old]),
        )

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
            new_autoencoder(shape_of(task.images), self._codec_options())

    def _codec_options(self) -> CodecOptions:
        o = self.options
        return CodecOptions(o.code, o.output, o.content, o.content_scale)

    # 6. Store.

    def _store(self, images: Tensor, targets: Tensor, report: Report) -> None:
        with report.phase("store"):
            codes = self.memory.codec_of(self.tasks).encode(images)
            episodes = Episodes(self.tasks, codes, targets)
            self.memory.episodes = [*self.memory.episodes, episodes]

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
        return self.memory.codec_of(self.tasks)(images) if self.options.see == "coded" else images

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
        return codec(images) if codec.encodes else None

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
            "codecs": {str(t): [c.steps, c.attempts] for t, c in self.memory.codecs.items()},
        }

    def _take_back(self, tensors: Tensors, facts: Facts) -> None:
        self.originals = {int(task): c for task, c in facts["originals"].items()}
        self.memory = Memory()
        for task in sorted(self.originals):
            codes, targets = tensors[f"episodes.{task}"], tensors[f"labels.{task}"]
            self.memory.episodes.append(Episodes(task, codes, targets))
        for task, training in facts["codecs"].items():
            self.memory.codecs[int(task)] = self._read_codec(tensors, f"codecs.{task}.", training)

    def _read_codec(self, tensors: Tensors, prefix: str, training: list[int]) -> Codec:
        assert self.image is not None
        net = new_autoencoder(self.image, self._codec_options())
        codec = Codec(net, self.runtime, *training)
        load_weights(codec.net.decoder, tensors, prefix + "decoder.")
        codec.encodes = any(name.startswith(prefix + "encoder.") for name in tensors)
        if codec.encodes:
            load_weights(codec.net.encoder, tensors, prefix + "encoder.")
        return codec

    def _parts(self) -> dict[str, int]:
        return {"episodes": 0, "codecs": 0, "labels": 0}
