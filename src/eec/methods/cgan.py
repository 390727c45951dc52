"""EEC with a conditional GAN for each task: a generator is kept in place of codes.

Of each old task as many images are generated as it had; the rest is EEC's: their weights by sample
decay, the classifier's training, new images shown real (as published) or generated like old ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from eec.data.labels import Label
from eec.errors import UserError
from eec.memory.decay import decay_weight
from eec.methods.contract import (
    Facts,
    Method,
    Report,
    Tensors,
    describe_net,
    load_weights,
    weights_of,
)
from eec.methods.mixture import Mixture
from eec.methods.options import GANOptions
from eec.nets.classifiers import Shape, shape_of
from eec.nets.gan import GAN, NOISE, Generator
from eec.training.batches import Batches, to_uint8
from eec.training.loop import apply, train
from eec.training.runtime import Runtime, derive_seed, generator, seeded


@dataclass(frozen=True)
class KeptTask:
    """A task's generator, and how many images each of its classes had, by class index."""

    net: Generator
    counts: dict[int, int]

    def generate(
        self, target: int, count: int, random: torch.Generator, runtime: Runtime
    ) -> Tensor:
        """So many uint8 images of a class."""
        noise = torch.randn(count, NOISE, generator=random)
        place = list(self.counts).index(target)

        def images(part: Tensor) -> Tensor:
            classes = torch.full((len(part),), place, device=part.device)
            return to_uint8(self.net(part, classes))

        return apply(images, noise, runtime).contiguous()


class ConditionalGAN(Method):
    options: GANOptions

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.kept: dict[int, KeptTask] = {}  # by task
        self.originals: dict[int, float] = {}  # c_o: accuracy of `D` on a task's real images

    def nets(self, image: Shape) -> Facts:
        with seeded(0):
            net = Generator(self._seen_shape(image), 1)
        return {**super().nets(image), "generator": describe_net(net, "dcgan, of one class")}

    def set_memory(self, memory: str) -> None:
        raise UserError(
            f"method {self.name} keeps generators, no episodes that a budget could bound: use eec"
        )

    def _learn(self, brought: Tensor, targets: Tensor, report: Report) -> None:
        images = self.view(brought)
        old = self._rehearse(report)
        matched = self.options.new_images != "real"
        if matched:  # `D` is to see new images as they will be generated: the GAN comes first
            self._train_gan(images, targets, report)
        mixture = self._mix(brought, targets, old, matched=matched)
        self._train_classifier(mixture.images, mixture.targets, mixture.weights, report)
        self.originals = {**self.originals, self.tasks: self._accuracy(images, targets)}
        if not matched:
            self._train_gan(images, targets, report)

    # Old tasks.

    def _rehearse(self, report: Report) -> list[Mixture]:
        """Each old task as its generator shows it, with the weight that decay leaves it."""
        with report.phase("rehearse"):
            old, report.decay = [], []
            for task in self.kept:
                images, targets = self._show(task)
                recognised = self._accuracy(images, targets)
                original = self.originals[task]
                weight = decay_weight(recognised, original, 1) if self.options.decay else 1.0
                old.append(Mixture.of(images, targets, weight))
                report.decay.append(
                    {
                        "task": task,
                        "original": original,
                        "decoded": recognised,
                        "weight": weight,
                        "drawn": None,
                        "drawn_weight": 1.0,
                    }
                )
            return old

    def _show(self, task: int) -> tuple[Tensor, Tensor]:
        """As many generated images of each class as the task had, and their class indices."""
        kept = self.kept[task]
        shown = []
        for target, count in kept.counts.items():
            random = generator(self.seed, "generated", self.tasks, task, target)
            shown.append(kept.generate(target, count, random, self.runtime))
        targets = torch.tensor(list(kept.counts)).repeat_interleave(
            torch.tensor(list(kept.counts.values()))
        )
        return torch.cat(shown), targets

    # The new task.

    def _mix(
        self, brought: Tensor, targets: Tensor, old: list[Mixture], *, matched: bool
    ) -> Mixture:
        # Shown twice, a new image counts half each time.
        share = 0.5 if self.options.new_images == "both" else 1.0
        parts = []
        if self.options.new_images != "decoded":
            parts.append(Mixture.of(brought, targets, share, coded=False))
        if matched:
            made, of = self._show(self.tasks)
            parts.append(Mixture.of(made, of, share))
        parts += old
        return Mixture.together(
            [replace(part, images=self._with_margin(part.images)) for part in parts]
        )

    def _train_gan(self, images: Tensor, targets: Tensor, report: Report) -> None:
        present = targets.unique().tolist()
        counts = {target: int((targets == target).sum()) for target in present}
        place = {target: i for i, target in enumerate(present)}
        classes = torch.tensor([place[target] for target in targets.tolist()])
        seed = derive_seed(self.seed, "gan", self.tasks)
        with seeded(seed):
            net = self.runtime.place(GAN(shape_of(images), len(present)))
        rng = generator(seed, "batches")
        device = self.runtime.device

        def loss(batch: Tensor, index: Tensor) -> Tensor:
            noise = torch.randn(len(batch), NOISE, generator=rng).to(device)
            return net.loss(batch, classes[index].to(device), noise)

        with report.phase("train generator") as progress:
            train(
                net,
                Batches(images.to(device), flip=self.options.flip),
                loss,
                self.recipe.gan.for_pixels(images.shape[2] * images.shape[3]),
                self.runtime,
                rng,
                progress,
                report.journal,
            )
        self.kept = {**self.kept, self.tasks: KeptTask(net.generator, counts)}

    # What memory shows, and the state.

    def remember(self, most: int) -> list[tuple[Label, Tensor]]:
        return [(label, self._glimpse(i, most)) for i, label in enumerate(self.classes)]

    def pictures(self, most: int) -> dict[Label, Tensors]:
        shown = self.remember(most)
        return {label: {f"{len(images)} generated": images} for label, images in shown}

    def _glimpse(self, target: int, most: int) -> Tensor:
        """Of all tasks that the class came in."""
        parts = []
        for task, kept in self.kept.items():
            if target in kept.counts:
                count = min(most, kept.counts[target])
                random = generator(self.seed, "glimpse", task, target)
                parts.append(kept.generate(target, count, random, self.runtime))
        return torch.cat(parts)[:most]

    def _keep(self) -> tuple[Tensors, Facts]:
        tensors: Tensors = {}
        for task, kept in self.kept.items():
            tensors |= weights_of(kept.net, f"generators.{task}.")
        return tensors, {
            "originals": {str(task): c for task, c in self.originals.items()},
            "generators": {str(task): list(k.counts.items()) for task, k in self.kept.items()},
        }

    def _take_back(self, tensors: Tensors, facts: Facts) -> None:
        self.originals = {int(task): c for task, c in facts["originals"].items()}
        self.kept = {}
        for task, counts in facts["generators"].items():
            assert self.image is not None
            net = Generator(self._seen_shape(self.image), len(counts))
            load_weights(net, tensors, f"generators.{task}.")
            kept = KeptTask(self.runtime.place(net).eval(), dict(counts))
            self.kept[int(task)] = kept

    def _parts(self) -> dict[str, int]:
        return {"generators": 0}
