"""Memory integration (Algorithm 2): episodes of a class become concepts when memory runs out.

A class in memory is a set of weighted points. Merging keeps their total count, their mean and their
total scatter exactly; what is lost is which episode was where inside a concept.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eec.errors import UserError
from eec.memory.linkage import LINKAGES, Integers, group, slots

Doubles = NDArray[np.float64]


@dataclass(frozen=True, init=False)
class Points:
    """The episodes and concepts of one class, in double precision.

    An episode is a concept of one: count 1, no scatter.
    """

    means: Doubles  # [N, D]: codes of episodes, centroids of concepts
    counts: Integers  # [N]: episodes that each stands for
    scatter: Doubles  # [N, D]: summed squares of their deviations from the mean, by dimension

    def __init__(
        self, means: ArrayLike, counts: ArrayLike | None = None, scatter: ArrayLike | None = None
    ) -> None:
        """Without counts, all are episodes; without scatter, nothing deviates from the means."""
        means = np.asarray(means, np.float64)
        counts = np.ones(len(means), np.int64) if counts is None else np.asarray(counts, np.int64)
        scatter = np.zeros(means.shape) if scatter is None else np.asarray(scatter, np.float64)
        if means.ndim != 2 or counts.shape != means.shape[:1] or scatter.shape != means.shape:
            raise ValueError(
                f"means {means.shape}, counts {counts.shape} and scatter {scatter.shape} must be "
                "[N, D], [N] and [N, D]"
            )
        if not (np.isfinite(means).all() and np.isfinite(scatter).all()):
            raise ValueError("means and scatter must be finite")
        if (counts < 1).any() or (scatter < 0).any() or (scatter.any(1) & (counts == 1)).any():
            raise ValueError("counts start at 1, scatter at 0, and an episode has no scatter")
        object.__setattr__(self, "means", means)
        object.__setattr__(self, "counts", counts)
        object.__setattr__(self, "scatter", scatter)

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def slots(self) -> int:
        """What it costs to keep them: 1 for an episode, 2 for a concept."""
        return slots(self.counts)

    @property
    def variances(self) -> Doubles:
        """Of the episodes behind each point, by dimension; 0 for an episode."""
        return self.scatter / np.maximum(self.counts - 1, 1)[:, None]


def integrate(
    points: Points,
    target_slots: int,
    linkage: str = "ward",
    seed: int = 0,
    literal: bool = False,
) -> Points:
    """Merge points until they fit into `target_slots`.

    The result has the order in which the first member of each came. `seed` matters to `kmeans`
    only. `literal` makes a concept of every merge, as published; otherwise a pair of episodes is
    kept as it is, at the same cost.
    """
    return merged(points, choose_groups(points, target_slots, linkage, seed, literal))


def choose_groups(
    points: Points,
    target_slots: int,
    linkage: str = "ward",
    seed: int = 0,
    literal: bool = False,
) -> Integers:
    """For each point the place of what it becomes part of, in the result of `integrate`.

    It does not depend on the order of the points, but for those of the same content.
    """
    if linkage not in LINKAGES:
        raise UserError(f"unknown linkage {linkage!r}: choose one of {', '.join(LINKAGES)}")
    smallest = min(points.slots, 2)
    if target_slots < smallest:
        raise UserError(
            f"too few slots for a class: {target_slots} given, at least {smallest} needed"
        )
    if points.slots <= target_slots:
        return np.arange(len(points))
    order = _content_order(points)
    groups = np.empty(len(points), np.int64)
    groups[order] = group(points.means[order], points.counts[order], target_slots, linkage, seed)
    if not literal:
        groups = _pairs_apart(groups, points.counts)
    return _by_arrival(groups)


def merged(points: Points, groups: Integers) -> Points:
    """One point for each group, numbered from 0: its exact count, mean and scatter."""
    ranked = _content_order(points)  # sums are rounded alike, whichever point came first
    order = ranked[np.argsort(groups[ranked], kind="stable")]
    firsts = np.flatnonzero(np.diff(groups[order], prepend=-1))
    means, scatter = points.means[order[firsts]], points.scatter[order[firsts]]
    counts = points.counts[order[firsts]]
    for place, members in enumerate(np.split(order, firsts[1:])):
        if len(members) > 1:
            weights = points.counts[members, None]
            # Deviations are taken from a member: small numbers, whatever the size of the codes.
            away = points.means[members] - means[place]
            counts[place] = weights.sum()
            shift = (weights * away).sum(0) / counts[place]
            means[place] += shift
            between = (weights * np.square(away - shift)).sum(0)
            scatter[place] = points.scatter[members].sum(0) + between
    return Points(means, counts, scatter)


def _content_order(points: Points) -> Integers:
    """An order of the points by what they are, not by when they came."""
    parts = [points.counts, points.means]
    if points.scatter.any():
        parts.append(points.scatter)
    rows = np.column_stack(parts)
    rows += 0.0  # of two zeros it makes one: rows are compared as strings of bytes
    return np.argsort(rows.view(f"V{rows.shape[1] * rows.itemsize}")[:, 0], kind="stable")


def _pairs_apart(groups: Integers, counts: Integers) -> Integers:
    """The same groups, but each member of a pair of episodes has its own."""
    members, episodes = np.bincount(groups), np.bincount(groups, counts)
    pairs = (members == 2) & (episodes == 2)
    alone = pairs[groups]
    return np.where(alone, len(members) + np.arange(len(groups)), groups)


def _by_arrival(groups: Integers) -> Integers:
    """The same groups, numbered from 0 by their first members."""
    _, firsts, index = np.unique(groups, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(firsts))[index]
