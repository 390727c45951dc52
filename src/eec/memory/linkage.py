"""Which points of a class go together, so that the groups fit into a number of slots.

`ward` and `centroid` merge the closest two groups again and again; points have weights, since a
concept stands for many episodes. scipy's linkage knows no weights. `kmeans` looks for centres.
A group costs one slot if it is a single episode, two otherwise (a centroid and a variance).

Points must come sorted by content: ties fall to those that come first.

Memory is bounded. Up to MOST_POINTS, all distances are held at once; beyond, the class is cut into
parts along its longest directions, and groups may reach over the borders of parts only when half of
MOST_POINTS are left. k-means holds distances to centres only, block by block.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]
Integers = NDArray[np.int64]

LINKAGES = ("ward", "centroid", "kmeans")
# The distances of so many points, four bytes each, take 1 GiB.
MOST_POINTS = 16_384
# Points whose distances to all others are computed in one go, in double precision.
BLOCK = 256
# k-means holds the distances of points to centres in blocks of so many, whatever their number.
LLOYD_BLOCK = 1 << 24
LLOYD_ROUNDS = 100
KMEANS_FITS = 6


def slots(counts: Integers) -> int:
    """What episodes (count 1) and concepts (count above 1) cost together."""
    return int(len(counts) + np.count_nonzero(counts > 1))


def group(means: Floats, counts: Integers, target: int, linkage: str, seed: int) -> Integers:
    """A group number for each point, such that the groups cost at most `target` slots."""
    if linkage == "kmeans":
        return _k_means(means, counts, target, seed)
    return merges(means, counts, target, linkage).groups(len(means))


@dataclass(frozen=True)
class Merges:
    """Merges in their order: the group that holds point `second` joined that of point `first`."""

    first: Integers
    second: Integers
    heights: NDArray[np.float64]  # ward: scatter added; centroid: squared distance of the means

    def __len__(self) -> int:
        return len(self.first)

    def groups(self, points: int) -> Integers:
        """A group number for each of so many points: the number of one of its members."""
        root = np.arange(points)
        for first, second in zip(self.first[::-1], self.second[::-1], strict=True):
            # Backwards, the group that is joined has its own fate already.
            root[second] = root[first]
        return root

    def until(self, counts: Integers, target: int, groups: int) -> Merges:
        """The merges up to the first after which either goal is reached: slots or groups."""
        cost = np.where(counts > 1, 2, 1)
        held, done = int(cost.sum()), 0
        while done < len(self) and held > target and len(counts) - done > groups:
            first, second = self.first[done], self.second[done]
            held += 2 - int(cost[first] + cost[second])
            cost[first] = 2
            done += 1
        return self[:done]

    def __getitem__(self, part: slice | Integers) -> Merges:
        return Merges(self.first[part], self.second[part], self.heights[part])

    def renamed(self, names: Integers) -> Merges:
        return Merges(names[self.first], names[self.second], self.heights)


def merges(means: Floats, counts: Integers, target: int, linkage: str) -> Merges:
    """The merges that bring weighted points down to `target` slots, closest groups first."""
    centred = means - means.mean(0, dtype=np.float64)
    scale = float(np.abs(centred).max()) or 1.0
    centred /= scale  # so that no square can overflow
    found = _merge(centred, counts, target, linkage)
    return Merges(found.first, found.second, found.heights * scale * scale)


def _merge(points: Floats, counts: Integers, target: int, linkage: str) -> Merges:
    if len(points) <= MOST_POINTS:
        return _merge_closest(points, counts, target, linkage)
    early = _merge_in_parts(points, counts, linkage).until(counts, target, MOST_POINTS // 2)
    names, index = np.unique(early.groups(len(points)), return_inverse=True)
    totals = np.bincount(index, counts).astype(np.int64)
    if slots(totals) <= target:
        return early
    late = _merge(_group_means(points, counts, index), totals, target, linkage).renamed(names)
    return Merges(
        np.concatenate([early.first, late.first]),
        np.concatenate([early.second, late.second]),
        np.concatenate([early.heights, late.heights]),
    )


def _merge_in_parts(points: Floats, counts: Integers, linkage: str) -> Merges:
    """All merges inside of parts that are small enough, as if no group could reach beyond its part.

    The parts' own orders are woven into one by height. Heights of centroid linkage may fall: there
    a merge counts as high as the highest before it.
    """
    parts = [np.arange(len(points))]
    while max(map(len, parts)) > MOST_POINTS:
        parts = [half for part in parts for half in _halves(points, part)]
    found = [_merge_closest(points[part], counts[part], 0, linkage).renamed(part) for part in parts]
    together = Merges(
        np.concatenate([some.first for some in found]),
        np.concatenate([some.second for some in found]),
        np.concatenate([some.heights for some in found]),
    )
    level = np.concatenate([np.maximum.accumulate(some.heights) for some in found])
    return together[np.argsort(level, kind="stable")]


def _halves(points: Floats, part: Integers) -> tuple[Integers, Integers]:
    """The part cut in two across the direction in which it is longest."""
    centred = points[part] - points[part].mean(0)
    direction = centred[np.square(centred).sum(1).argmax()]
    for _ in range(10):
        direction = centred.T @ (centred @ direction)
        direction /= np.linalg.norm(direction) or 1.0
    place = np.argsort(centred @ direction, kind="stable")
    middle = len(part) // 2
    return part[np.sort(place[:middle])], part[np.sort(place[middle:])]


def _merge_closest(points: Floats, counts: Integers, target: int, linkage: str) -> Merges:
    """Merge the closest two groups until the slots fit, or only one group is left."""
    table = _Table(points, counts, linkage)
    cost = np.where(counts > 1, 2, 1)
    held = int(cost.sum())
    found: list[tuple[int, int, float]] = []
    while held > target and len(found) < len(points) - 1:
        first, second, height = table.merge()
        held += 2 - int(cost[first] + cost[second])
        cost[first] = 2
        found.append((first, second, height))
    first_ones, second_ones, heights = zip(*found, strict=True) if found else ((), (), ())
    return Merges(
        np.array(first_ones, np.int64),
        np.array(second_ones, np.int64),
        np.array(heights, np.float64),
    )


class _Table:
    """All distances between groups, and for each group the nearest of those that it has met.

    A new group meets all others, so of any two the younger has met the older: the closest two are
    never missed. When the nearest is merged away, the distance to it stays as a lower bound, and
    the row is searched again only if that bound is the smallest of all.
    """

    def __init__(self, points: Floats, counts: Integers, linkage: str) -> None:
        self.distances = _distances(points, counts, linkage)
        self.row_of_union = _ward_row if linkage == "ward" else _centroid_row
        self.weights = counts.astype(np.float64)
        self.names = np.arange(len(points))
        self.gone = np.zeros(len(points), np.float32)  # infinite for a group merged away
        self.left = len(points)
        self.nearest = self.distances.argmin(1)
        self.bound = self.distances[self.names, self.nearest]
        self.known = np.ones(len(points), bool)  # else `bound` is a lower bound only

    def merge(self) -> tuple[int, int, float]:
        """Merge the closest two groups; their names and the distance. The first name stays."""
        if self.left < len(self.names) // 2:
            self._shrink()
        one = int(self.bound.argmin())
        while not self.known[one]:
            self._search(one, self.distances[one] + self.gone)
            one = int(self.bound.argmin())
        other = int(self.nearest[one])
        a, b = min(one, other), max(one, other)
        height = float(self.distances[a, b])
        self._join(a, b, height)
        return int(self.names[a]), int(self.names[b]), height

    def _search(self, group: int, row: Floats) -> None:
        self.nearest[group] = row.argmin()
        self.bound[group] = row[self.nearest[group]]
        self.known[group] = True

    def _join(self, a: int, b: int, height: float) -> None:
        self.gone[b] = np.inf
        row = self.row_of_union(self.distances[a], self.distances[b], height, self.weights, a, b)
        row += self.gone
        row[a] = np.inf
        self.distances[a] = self.distances[:, a] = row
        self.known[(self.nearest == a) | (self.nearest == b)] = False
        self._search(a, row)
        self.bound[b] = np.inf
        self.weights[a] += self.weights[b]
        self.left -= 1

    def _shrink(self) -> None:
        """Forget the rows and columns of groups merged away."""
        stay = np.flatnonzero(self.gone == 0)
        places = np.cumsum(self.gone == 0) - 1
        self.nearest = places[self.nearest[stay]]  # wrong only where it is not known
        self.distances = self.distances[np.ix_(stay, stay)]
        self.weights, self.names, self.gone = self.weights[stay], self.names[stay], self.gone[stay]
        self.bound, self.known = self.bound[stay], self.known[stay]


def _distances(points: Floats, counts: Integers, linkage: str) -> NDArray[np.float32]:
    """What merging any two points would cost; infinite for a point with itself."""
    count = len(points)
    distances = np.empty((count, count), np.float32)
    squares = np.square(points).sum(1)
    for start in range(0, count, BLOCK):
        rows, rest = slice(start, start + BLOCK), slice(start, None)
        # Double precision: the difference of large squares would leave noise in single.
        block = points[rows] @ points[rest].T
        block *= -2
        block += squares[rows, None]
        block += squares[rest]
        np.maximum(block, 0, out=block)
        if linkage == "ward":
            ours, theirs = counts[rows, None], counts[rest]
            block *= ours * theirs / (ours + theirs)
        distances[rows, rest] = block
        distances[rest, rows] = block.T
    np.fill_diagonal(distances, np.inf)
    return distances


def _ward_row(
    to_a: Floats, to_b: Floats, between: float, weights: Floats, a: int, b: int
) -> Floats:
    """The scatter that merging each group with the union of `a` and `b` would add (Lance-Williams).

    `to_a` and `to_b` are what it would be with either alone, `between` what it is for the two.
    """
    row: Floats = (weights + weights[a]) * to_a + (weights + weights[b]) * to_b - weights * between
    row /= weights + (weights[a] + weights[b])
    return row.clip(min=0).astype(np.float32)


def _centroid_row(
    to_a: Floats, to_b: Floats, between: float, weights: Floats, a: int, b: int
) -> Floats:
    """The squared distance of each group's mean to the mean of the union of `a` and `b`."""
    share = weights[a] / (weights[a] + weights[b])
    row: Floats = (
        share * to_a.astype(np.float64) + (1 - share) * to_b - share * (1 - share) * between
    )
    return row.clip(min=0).astype(np.float32)


def _group_means(points: Floats, counts: Integers, index: Integers) -> Floats:
    """The weighted mean of each group, where `index` has every number from 0 to the highest."""
    order = np.argsort(index, kind="stable")
    firsts = np.flatnonzero(np.diff(index[order], prepend=-1))
    weighted = points[order] * counts[order, None].astype(points.dtype)
    sums: Floats = np.add.reduceat(weighted, firsts, axis=0)
    return sums / np.bincount(index, counts)[:, None].astype(points.dtype)


def _k_means(means: Floats, counts: Integers, target: int, seed: int) -> Integers:
    """Groups by k-means, with as many centres as fit, found by halving the interval of doubt."""
    centred = means - means.mean(0, dtype=np.float64)
    centred /= float(np.abs(centred).max()) or 1.0
    different, index = np.unique(centred, axis=0, return_inverse=True)
    weights = np.bincount(index, counts).astype(np.int64)
    points = different.astype(np.float32)
    low, high = 1, min(target, len(points))
    centres = _spread_centres(points, weights, high, seed)
    best = np.zeros(len(means), np.int64)
    # Twice as many slots as centres at most: this many always fit.
    k = min(max(1, target // 2), high)
    for _ in range(KMEANS_FITS):
        found = _lloyd(points, weights, centres[:k])[index]
        if _cost(found, counts) <= target:
            best, low = found, k
        else:
            high = k - 1
        if low >= high:
            break
        k = (low + high + 1) // 2
    return best


def _cost(groups: Integers, counts: Integers) -> int:
    totals = np.bincount(groups, counts)
    return slots(totals[totals > 0].astype(np.int64))


def _spread_centres(points: Floats, weights: Integers, k: int, seed: int) -> Integers:
    """k-means++: each further centre is drawn by its squared distance to those there are."""
    rng = np.random.default_rng(seed)
    squares = np.square(points).sum(1)
    chosen = [int(rng.choice(len(points), p=weights / weights.sum()))]
    far = np.full(len(points), np.inf, np.float32)
    while len(chosen) < k:
        newest = chosen[-1]
        far = np.minimum(far, squares + squares[newest] - 2 * (points @ points[newest]))
        far[chosen] = 0
        chances = np.cumsum(weights * np.maximum(far, 0, dtype=np.float64))
        if chances[-1] <= 0:  # what is left cannot be told apart in single precision
            break
        drawn = np.searchsorted(chances, rng.random() * chances[-1], "right")
        last = np.searchsorted(chances, chances[-1])  # that has a chance: rounding may pass it
        chosen.append(int(min(drawn, last)))
    return np.array(chosen)


def _lloyd(points: Floats, weights: Integers, centres: Integers) -> Integers:
    """The nearest centre of each point, when centres have moved to the mean of theirs."""
    where = points[centres]
    step = max(1, LLOYD_BLOCK // len(where))
    blocks = [points[start : start + step] for start in range(0, len(points), step)]
    before: Integers | None = None
    for _ in range(LLOYD_ROUNDS):
        half = np.square(where).sum(1) / 2
        nearest = np.concatenate([(half - block @ where.T).argmin(1) for block in blocks])
        if before is not None and np.array_equal(nearest, before):
            break
        before = nearest
        used, index = np.unique(nearest, return_inverse=True)
        where[used] = _group_means(points, weights, index)
    return nearest
