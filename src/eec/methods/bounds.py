"""The floor and the ceiling that every method is shown between."""

from __future__ import annotations

import torch
from torch import Tensor

from eec.methods.contract import Facts, Method, Report, Tensors


class Finetune(Method):
    """Trains on each task's images alone, and forgets."""

    def _learn(self, images: Tensor, targets: Tensor, report: Report) -> None:
        self._train_classifier(images, targets, None, report)


class Joint(Method):
    """JT: keeps every real image and trains on all of them, with the same net and recipe."""

    strict = False

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self.images = torch.empty(0, dtype=torch.uint8)
        self.targets = torch.empty(0, dtype=torch.int64)

    def _learn(self, images: Tensor, targets: Tensor, report: Report) -> None:
        own = images.clone(memory_format=torch.contiguous_format)  # the user may reuse theirs
        self.images = torch.cat([self.images, own]) if len(self.images) else own
        self.targets = torch.cat([self.targets, targets])
        self._train_classifier(self.images, self.targets, None, report)

    def _keep(self) -> tuple[Tensors, Facts]:
        return {"images.pixels": self.images, "labels.targets": self.targets}, {}

    def _take_back(self, tensors: Tensors, facts: Facts) -> None:
        self.images, self.targets = tensors["images.pixels"], tensors["labels.targets"]
