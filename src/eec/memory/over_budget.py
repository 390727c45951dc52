"""What to keep of a class when memory runs out.

A policy is given the points of a class and a number of slots, and says which points are left. Every
point knows how many images it stands for: `spread` and `drop` keep episodes that stand for others,
`concepts` keeps centroids with variances, from which pseudo-images are drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from eec.memory.budget import balanced_shares
from eec.memory.episodes import Kept, Memory
from eec.memory.integration import Points, integrate
from eec.memory.linkage import merges

Reduce = Callable[[Points, int, str, int], Points]  # (points, slots, linkage, seed)


def concepts(points: Points, slots: int, linkage: str, seed: int) -> Points:
    """Algorithm 2: the closest are merged into centroids with variances. Pairs stay episodes."""
    return integrate(points, slots, linkage, seed)


def literal(points: Points, slots: int, linkage: str, seed: int) -> Points:
    """Algorithm 2 to the letter: a pair becomes a concept, too."""
    return integrate(points, slots, linkage, seed, literal=True)


def drop(points: Points, slots: int, linkage: str, seed: int) -> Points:
    """Points at random, which stand for all the others in equal parts."""
    chosen = np.sort(
        np.random.default_rng(seed).permutation(len(points))[: _fitting(points, slots)]
    )
    total = int(points.counts.sum())
    each = np.full(len(chosen), total // len(chosen))
    each[: total % len(chosen)] += 1
    return Points(points.means[chosen], each, points.scatter[chosen] * (each > 1)[:, None])


def spread(points: Points, slots: int, linkage: str, seed: int) -> Points:
    """Ward's groups, and of each one point at random, which stands for the group.

    No part of the class is left out, as it may be at random; and none is shown at its best only, as
    it would be if the point in the middle of each group were taken.
    """
    count = _fitting(points, slots)
    if len(points) <= count:
        return points
    tree = merges(points.means, points.counts, 0, "ward")[: len(points) - count]
    _, groups = np.unique(tree.groups(len(points)), return_inverse=True)
    # Who waits the shortest is chosen: more often one that stands for many.
    waits = np.random.default_rng(seed).exponential(1 / points.counts)
    order = np.lexsort((waits, groups))
    chosen = order[np.unique(groups[order], return_index=True)[1]]
    totals = np.bincount(groups, points.counts).astype(np.int64)
    return Points(points.means[chosen], totals, points.scatter[chosen])


def _fitting(points: Points, slots: int) -> int:
    """How many points fit, whichever they are; concepts of an earlier policy cost two each."""
    return slots // (2 if points.scatter.any() else 1)


@dataclass(frozen=True)
class Policy:
    reduce: Reduce
    least: int  # slots in which a class can be kept


POLICIES = {
    "spread": Policy(spread, 1),
    "concepts": Policy(concepts, 2),
    "literal": Policy(literal, 2),
    "drop": Policy(drop, 1),
}


def shrink(memory: Memory, shares: Mapping[int, int], policy: str, linkage: str, seed: int) -> None:
    """Bring every class to its share of the slots."""
    smaller: dict[tuple[int, int], Kept] = {}
    for target, share in shares.items():
        parts = [part for part in memory.kept if part.target == target]
        # A class that came in more tasks than it has slots for keeps what it was last, which then
        # stands for all of it.
        while sum(min(POLICIES[policy].least, part.slots) for part in parts) > share:
            gone = parts.pop(0)
            if parts:
                parts[0] = _standing_for(parts[0], int(gone.counts.sum()))
        wanted = {place: part.slots for place, part in enumerate(parts)}
        for place, slots in balanced_shares(wanted, share).items():
            part = parts[place]
            if part.slots > slots:
                part = _reduce(memory, part, slots, policy, linkage, seed)
            smaller[part.task, target] = part
    memory.kept = [
        smaller[part.task, part.target]
        for part in memory.kept
        if (part.task, part.target) in smaller
    ]


def _standing_for(part: Kept, more: int) -> Kept:
    """The same, whose episodes (or concepts, if it has no others) count for so many more images."""
    counts = part.counts.clone()
    mine = counts[: part.singles] if part.singles else counts
    mine += more // len(mine)
    mine[: more % len(mine)] += 1
    return replace(part, counts=counts)


def _reduce(memory: Memory, part: Kept, slots: int, policy: str, linkage: str, seed: int) -> Kept:
    packing = memory.packings[part.task]
    own = np.random.SeedSequence([seed, part.task, part.target]).generate_state(1)[0]
    points = POLICIES[policy].reduce(part.points(packing), slots, linkage, int(own))
    return part.become(points, packing)
