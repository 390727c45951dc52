"""Methods over several seeds: mean and deviation, and what a difference of two is worth."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation of a measure; a single value has no deviation."""

    n: int
    mean: float
    deviation: float | None


@dataclass(frozen=True)
class Difference:
    """A measure of one method minus that of another, seed by seed, with its interval.

    The same seed is the same images in the same order, so differences of one seed vary less than
    the values do, and few seeds can decide. One seed decides nothing.
    """

    n: int
    mean: float
    low: float | None
    high: float | None

    @property
    def verdict(self) -> str:
        if self.low is not None and self.low > 0:
            return "higher"
        if self.high is not None and self.high < 0:
            return "lower"
        return "undecided"


def spread(values: Sequence[float]) -> Spread:
    if not values:
        raise ValueError("no values: there is no mean")
    n, mean = len(values), math.fsum(values) / len(values)
    if n == 1:
        return Spread(1, mean, None)
    squares = math.fsum((value - mean) ** 2 for value in values)
    return Spread(n, mean, math.sqrt(squares / (n - 1)))


def paired_difference(
    ours: Mapping[int, float], others: Mapping[int, float], confidence: float = CONFIDENCE
) -> Difference | None:
    """`ours` minus `others` over the seeds that both have; None where they share none."""
    both = [seed for seed in ours if seed in others]
    if not both:
        return None
    found = spread([ours[seed] - others[seed] for seed in both])
    if found.deviation is None:
        return Difference(1, found.mean, None, None)
    half = t_quantile(found.n - 1, confidence) * found.deviation / math.sqrt(found.n)
    return Difference(found.n, found.mean, found.mean - half, found.mean + half)


def t_quantile(freedom: int, confidence: float) -> float:
    """So many standard errors either side hold a mean with this confidence (Student's t)."""
    from scipy.special import stdtrit  # a third of a second: only where an interval is asked for

    return float(stdtrit(freedom, 0.5 + confidence / 2))
