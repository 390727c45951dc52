"""Sample decay (eq. 5): how much a decoded image still counts in the classifier's loss."""

from __future__ import annotations

import math


def decay_weight(decoded: float, original: float, alpha: float) -> float:
    """`exp(-gamma * alpha)` with `gamma = 1 - c / c_o`, kept within 0..1.

    `decoded` (c) and `original` (c_o) are accuracies of the old classifier on the decoded and on
    the original images of a task; `alpha` is how often an autoencoder was trained on decoded ones.
    A task that was never recognised (c_o = 0) cannot have lost anything.
    """
    gamma = 0.0 if original <= 0 else min(1.0, max(0.0, 1 - decoded / original))
    return math.exp(-gamma * alpha)
