"""The order of merging, against scipy where it can say (no weights) and by duplicates where not."""

import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.cluster.hierarchy import linkage as scipy_linkage

from eec.memory import linkage
from eec.memory.linkage import Merges, group, merges, slots

Floats = NDArray[np.float64]
Partition = set[frozenset[int]]
EVERYTHING = 0  # slots that are never reached: merge to the end


def normal(count: int, dimensions: int, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).normal(size=(count, dimensions))


def ones(count: int) -> NDArray[np.int64]:
    return np.ones(count, np.int64)


def scipy_heights(tree: Floats, name: str) -> Floats:
    """scipy's distances as we measure them: added scatter, or squared distance."""
    return np.square(tree[:, 2]) / (2 if name == "ward" else 1)


def parts_of(found: Merges, points: int) -> Partition:
    groups = found.groups(points)
    return {frozenset(np.flatnonzero(groups == g).tolist()) for g in np.unique(groups)}


def scipy_parts(tree: Floats, done: int) -> Partition:
    """The partition after so many merges of a scipy tree, in its order."""
    points = len(tree) + 1
    parts = {i: frozenset([i]) for i in range(points)}
    for k in range(done):
        parts[points + k] = parts.pop(int(tree[k, 0])) | parts.pop(int(tree[k, 1]))
    return set(parts.values())


@pytest.mark.parametrize("name", ["ward", "centroid"])
@pytest.mark.parametrize(("count", "dimensions"), [(2, 3), (40, 1), (300, 20), (500, 2)])
def test_merges_are_those_of_scipy(name: str, count: int, dimensions: int) -> None:
    means = normal(count, dimensions)
    tree = scipy_linkage(means, name)
    found = merges(means, ones(count), EVERYTHING, name)
    np.testing.assert_allclose(found.heights, scipy_heights(tree, name), rtol=1e-5)
    for done in range(0, count, max(1, count // 20)):
        assert parts_of(found[:done], count) == scipy_parts(tree, done)


@pytest.mark.parametrize("name", ["ward", "centroid"])
def test_a_weighted_point_is_merged_like_so_many_points_in_its_place(name: str) -> None:
    means = normal(60, 4)
    counts = np.random.default_rng(1).integers(1, 9, 60)
    tree = scipy_linkage(means.repeat(counts, axis=0), name)
    found = merges(means, counts, EVERYTHING, name)
    heights = scipy_heights(tree, name)[counts.sum() - 60 :]  # the others put equals together
    np.testing.assert_allclose(found.heights, heights, rtol=1e-5)


def test_ward_heights_never_fall_and_centroid_heights_do() -> None:
    means = normal(200, 30)
    assert (np.diff(merges(means, ones(200), EVERYTHING, "ward").heights) >= 0).all()
    assert (np.diff(merges(means, ones(200), EVERYTHING, "centroid").heights) < 0).any()


@pytest.mark.parametrize("name", ["ward", "centroid"])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_far_from_the_origin_distances_stay_exact(name: str, offset: float) -> None:
    means = normal(100, 5)
    near = merges(means, ones(100), EVERYTHING, name)
    far = merges(means * 1e18 + offset * 1e18, ones(100), EVERYTHING, name)
    assert far.first.tolist() == near.first.tolist()
    np.testing.assert_allclose(far.heights, near.heights * 1e36, rtol=1e-4)


@pytest.mark.parametrize("name", ["ward", "centroid"])
def test_merging_stops_at_the_first_cut_that_fits(name: str) -> None:
    means, counts = normal(80, 3), np.random.default_rng(2).integers(1, 4, 80)
    whole = merges(means, counts, EVERYTHING, name)
    cost = [_cost(whole[:done], counts) for done in range(80)]
    assert sorted(cost, reverse=True) == cost
    for target in range(2, cost[0] + 1):
        done = len(merges(means, counts, target, name))
        assert cost[done] <= target
        assert done == 0 or cost[done - 1] > target


def _cost(found: Merges, counts: NDArray[np.int64]) -> int:
    totals = np.bincount(found.groups(len(counts)), counts)
    return slots(totals[totals > 0].astype(np.int64))


@pytest.fixture
def small_table(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Let only so many points be merged at once."""
    return lambda most: monkeypatch.setattr(linkage, "MOST_POINTS", most)


@pytest.mark.parametrize("name", ["ward", "centroid"])
def test_too_many_points_are_merged_in_parts(name: str, small_table: Callable[[int], None]) -> None:
    """Forty tight clusters are found whether or not all distances fit into memory."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 40, 1000)
    means = rng.normal(size=(40, 3))[truth] * 100 + rng.normal(size=(1000, 3)) * 0.01
    wanted = {frozenset(np.flatnonzero(truth == k).tolist()) for k in range(40)}
    whole = merges(means, ones(1000), 80, name)
    small_table(128)
    in_parts = merges(means, ones(1000), 80, name)
    assert parts_of(whole, 1000) == parts_of(in_parts, 1000) == wanted


@pytest.mark.parametrize("name", ["ward", "centroid"])
def test_the_parts_take_turns_by_height(name: str, small_table: Callable[[int], None]) -> None:
    """Two far clouds, one wider: in parts, the same merges in the same order."""
    clouds = [normal(100, 10, seed=1), 1e3 + 1.2 * normal(100, 10, seed=2)]
    means = np.concatenate(clouds)
    whole = merges(means, ones(200), 120, name)
    small_table(150)
    in_parts = merges(means, ones(200), 120, name)
    assert in_parts.first.tolist() == whole.first.tolist()
    assert in_parts.second.tolist() == whole.second.tolist()


@pytest.mark.parametrize("target", [2, 3, 50, 300, 900])
@pytest.mark.parametrize("name", ["ward", "centroid"])
def test_parts_lose_little(name: str, target: int, small_table: Callable[[int], None]) -> None:
    means = np.maximum(normal(1000, 10), 0)
    whole = merges(means, ones(1000), target, name)
    small_table(400)
    in_parts = merges(means, ones(1000), target, name)
    assert _cost(in_parts, ones(1000)) <= target < _cost(in_parts[:-1], ones(1000))
    if name == "ward":  # whose heights add up to the scatter inside of groups
        assert in_parts.heights.sum() < 1.15 * whole.heights.sum()


@pytest.mark.parametrize("name", ["ward", "centroid"])
def test_memory_is_bounded(name: str, small_table: Callable[[int], None]) -> None:
    means = normal(3000, 4)
    small_table(500)
    tracemalloc.start()
    try:
        merges(means, ones(3000), 150, name)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8e6  # all distances: 36 MB


@pytest.mark.parametrize("target", [2, 3, 20, 21, 100, 180, 199])
def test_k_means_uses_most_of_the_slots(target: int) -> None:
    counts = ones(200)
    groups = group(normal(200, 5), counts, target, "kmeans", seed=0)
    assert 0.9 * target - 2 <= slots(np.unique_counts(groups).counts) <= target


def test_k_means_finds_clusters() -> None:
    rng = np.random.default_rng(0)
    truth = np.arange(300) % 6
    means = rng.normal(size=(6, 4))[truth] * 50 + rng.normal(size=(300, 4)) * 0.01
    groups = group(means, ones(300), 12, "kmeans", seed=0)
    assert len(set(zip(truth.tolist(), groups.tolist(), strict=True))) == 6


def test_k_means_is_seeded() -> None:
    means, counts = normal(300, 8), ones(300)
    drawn = [group(means, counts, 40, "kmeans", seed).tolist() for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_k_means_ends_where_no_point_is_nearer_to_another_weighted_mean() -> None:
    means, counts = normal(400, 3), np.random.default_rng(1).integers(1, 50, 400)
    groups = group(means, counts, 30, "kmeans", seed=0)
    names = np.unique(groups)
    members = [groups == name for name in names]
    centres = np.array([np.average(means[m], axis=0, weights=counts[m]) for m in members])
    nearest = np.square(means[:, None] - centres).sum(2).argmin(1)
    assert (names[nearest] == groups).all()
