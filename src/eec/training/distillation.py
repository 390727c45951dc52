"""Distillation: of the classes that it knew, a classifier is to go on saying what it said before.

Where memory shows few of the many images of old classes, the features that told the others are
trained away, and most images are called by the newest names. What the classifier of before says of
new images, and of those few, holds them (Hinton et al., 2015; for classes that come one after
another: Li and Hoiem, 2016).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import kl_div

from eec.nets.classifiers import Classifier

TEMPERATURE = 2.0  # softens what is said, so that second choices count


@dataclass(frozen=True)
class Teacher:
    """The classifier of before, and how much it counts."""

    net: Classifier
    heed: float

    def __post_init__(self) -> None:
        self.net.eval().requires_grad_(False)

    def __call__(self, batch: Tensor, said: Tensor) -> Tensor:
        """What it costs to say these logits of a batch where the teacher would say others."""
        with torch.no_grad():
            before = self.net(batch).float() / TEMPERATURE
        now = said[:, : before.shape[1]] / TEMPERATURE
        away = kl_div(
            now.log_softmax(1), before.log_softmax(1), log_target=True, reduction="batchmean"
        )
        return self.heed * TEMPERATURE**2 * away
