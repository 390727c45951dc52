"""Integration keeps counts, means and scatter, fits its slots, and merges in the right order."""

from collections.abc import Callable
from random import Random

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from eec.errors import UserError
from eec.memory import linkage as linkage_module
from eec.memory.integration import Points, choose_groups, integrate, merged
from eec.memory.linkage import LINKAGES

Floats = NDArray[np.float64]

Linkage = st.sampled_from(LINKAGES)
# Few values make duplicates and ties; many orders of magnitude make hard sums.
Grid = st.integers(0, 2).map(float)
Wild = st.floats(-(2.0**100), 2.0**100, width=32)
Mild = st.floats(-10, 10, width=32)


@st.composite
def points(draw: st.DrawFn, most: int = 12) -> Points:
    """Episodes and concepts of a class, up to `most`."""
    count, dimensions = draw(st.integers(1, most)), draw(st.integers(1, 3))
    value = draw(st.sampled_from([Grid, Mild, Wild]))
    rows = st.lists(value, min_size=dimensions, max_size=dimensions)
    table = st.lists(rows, min_size=count, max_size=count)
    means = np.array(draw(table), draw(st.sampled_from([np.float32, np.float64])))
    if draw(st.booleans()):
        return Points(means)
    counts = np.array(draw(st.lists(st.integers(1, 5), min_size=count, max_size=count)))
    scatter = np.abs(np.array(draw(table))) * (counts > 1)[:, None]
    return Points(means, counts, scatter)


@st.composite
def tasks(draw: st.DrawFn) -> tuple[Points, int]:
    """Points, and a number of slots that is not too small for them."""
    some = draw(points())
    return some, draw(st.integers(min(2, some.slots), some.slots))


def totals(some: Points) -> tuple[int, Floats, Floats]:
    """Count, mean, and scatter by dimension: inside of the points and between them."""
    count = some.counts.sum()
    mean = (some.counts[:, None] * some.means).sum(0) / count
    between = (some.counts[:, None] * np.square(some.means - mean)).sum(0)
    return int(count), mean, some.scatter.sum(0) + between


def assert_same_totals(one: Points, other: Points) -> None:
    size = max(float(np.abs(one.means).max()), 1e-30)
    (count, mean, scatter), (count_2, mean_2, scatter_2) = totals(one), totals(other)
    assert count == count_2
    np.testing.assert_allclose(mean, mean_2, rtol=0, atol=1e-12 * size)
    np.testing.assert_allclose(scatter, scatter_2, rtol=1e-9, atol=1e-12 * count * size**2)


def as_set(some: Points) -> list[tuple[float, ...]]:
    """The points in an order of their own."""
    return sorted(map(tuple, np.column_stack([some.counts, some.means, some.scatter]).tolist()))


# Laws


@settings(deadline=None)
@given(tasks(), Linkage, st.booleans())
def test_count_mean_and_scatter_never_change(
    task: tuple[Points, int], linkage: str, literal: bool
) -> None:
    some, target = task
    assert_same_totals(some, integrate(some, target, linkage, literal=literal))


@settings(deadline=None)
@given(tasks(), Linkage, st.booleans())
def test_slots_are_never_above_the_target(
    task: tuple[Points, int], linkage: str, literal: bool
) -> None:
    some, target = task
    assert integrate(some, target, linkage, literal=literal).slots <= target


@settings(deadline=None)
@given(tasks(), Linkage, st.booleans())
def test_what_is_not_merged_is_not_changed(
    task: tuple[Points, int], linkage: str, literal: bool
) -> None:
    some, target = task
    groups = choose_groups(some, target, linkage, literal=literal)
    result = integrate(some, target, linkage, literal=literal)
    for place in range(len(result)):
        members = np.flatnonzero(groups == place)
        if len(members) == 1:
            for field in ("means", "counts", "scatter"):
                kept, before = getattr(result, field)[place], getattr(some, field)[members[0]]
                assert np.array_equal(kept, before)
        else:
            assert result.counts[place] == some.counts[members].sum()


@settings(deadline=None)
@given(tasks(), Linkage)
def test_places_follow_the_first_to_come(task: tuple[Points, int], linkage: str) -> None:
    some, target = task
    groups = choose_groups(some, target, linkage)
    assert list(dict.fromkeys(groups.tolist())) == list(range(groups.max() + 1))
    assert len(integrate(some, target, linkage)) == groups.max() + 1


@settings(deadline=None)
@given(tasks(), Linkage, st.data())
def test_a_second_integration_keeps_the_totals(
    task: tuple[Points, int], linkage: str, data: st.DataObject
) -> None:
    some, target = task
    once = integrate(some, target, linkage)
    smaller = data.draw(st.integers(min(2, once.slots), once.slots))
    twice = integrate(once, smaller, data.draw(Linkage))
    assert twice.slots <= smaller
    assert_same_totals(some, twice)


@settings(deadline=None)
@given(tasks(), Linkage, st.booleans(), st.randoms(use_true_random=False))
def test_the_order_of_points_does_not_matter(
    task: tuple[Points, int], linkage: str, literal: bool, random: Random
) -> None:
    some, target = task
    order = list(range(len(some)))
    random.shuffle(order)
    other = Points(some.means[order], some.counts[order], some.scatter[order])
    results = [integrate(p, target, linkage, literal=literal) for p in (some, other)]
    assert as_set(results[0]) == as_set(results[1])


@settings(deadline=None)
@given(tasks(), Linkage)
def test_no_episode_is_lost_for_nothing(task: tuple[Points, int], linkage: str) -> None:
    """A concept of two is never made of episodes; the literal mode makes it, at the same cost."""
    some, target = task
    assume((some.counts == 1).all())
    kept = integrate(some, target, linkage)
    literal = integrate(some, target, linkage, literal=True)
    assert not (kept.counts == 2).any()
    assert kept.slots == literal.slots
    assert len(kept) == len(literal) + np.count_nonzero(literal.counts == 2)


# Against plain words


def merge_two(a: Points, b: Points) -> Points:
    """Section 4, word for word."""
    na, nb = a.counts[0], b.counts[0]
    n = na + nb
    d = b.means - a.means
    return Points(a.means + d * nb / n, [n], a.scatter + b.scatter + d * d * na * nb / n)


def slowly(some: Points, target: int, linkage: str) -> list[Points]:
    """The literal algorithm: look at all pairs, merge the closest, until the slots fit."""
    left = [Points(some.means[[i]], some.counts[[i]], some.scatter[[i]]) for i in range(len(some))]

    def distance(a: Points, b: Points) -> float:
        square = float(np.square(a.means - b.means).sum())
        na, nb = int(a.counts[0]), int(b.counts[0])
        return square * na * nb / (na + nb) if linkage == "ward" else square

    while sum(p.slots for p in left) > target:
        pairs = [(i, j) for j in range(len(left)) for i in range(j)]
        i, j = min(pairs, key=lambda pair: distance(left[pair[0]], left[pair[1]]))
        left[i] = merge_two(left[i], left.pop(j))
    return left


@pytest.mark.parametrize("linkage", ["ward", "centroid"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("target", [2, 3, 7, 20, 29])
def test_it_is_the_published_algorithm(linkage: str, weighted: bool, target: int) -> None:
    rng = np.random.default_rng(target)
    counts = rng.integers(1, 6, 30) if weighted else np.ones(30, np.int64)
    some = Points(rng.normal(size=(30, 4)), counts, rng.random((30, 4)) * (counts > 1)[:, None])
    wanted = [as_set(p)[0] for p in slowly(some, target, linkage)]
    found = as_set(integrate(some, target, linkage, literal=True))
    np.testing.assert_allclose(found, sorted(wanted), rtol=1e-9)


@settings(deadline=None)
@given(points(), st.randoms(use_true_random=False))
def test_groups_are_merged_as_if_one_after_another(some: Points, random: Random) -> None:
    whole = merged(some, np.zeros(len(some), np.int64))
    singles = [
        Points(some.means[[i]], some.counts[[i]], some.scatter[[i]]) for i in range(len(some))
    ]
    random.shuffle(singles)
    total = singles[0]
    for single in singles[1:]:
        total = merge_two(total, single)
    size = max(float(np.abs(some.means).max()), 1e-30)
    assert whole.counts.tolist() == total.counts.tolist()
    np.testing.assert_allclose(whole.means, total.means, rtol=0, atol=1e-12 * size)
    np.testing.assert_allclose(whole.scatter, total.scatter, rtol=1e-9, atol=1e-12 * size**2)


def test_the_variance_is_that_of_the_episodes() -> None:
    codes = np.random.default_rng(0).normal(size=(50, 3))
    concept = integrate(Points(codes), 2)
    np.testing.assert_allclose(concept.means[0], codes.mean(0))
    np.testing.assert_allclose(concept.variances[0], codes.var(0, ddof=1))
    assert not Points(codes).variances.any()


# Cases worked out by hand


def test_slots_by_hand() -> None:
    """0 and 1 pair up first, then 10 and 11.5, then 14 joins the second pair."""
    some = Points([[0.0], [1.0], [10.0], [11.5], [14.0]])
    three = integrate(some, 4)
    assert three.counts.tolist() == [1, 1, 3]  # 1 + 1 + 2 slots; the near pair stays apart
    assert three.means[:, 0].tolist() == pytest.approx([0, 1, 35.5 / 3])
    assert integrate(some, 4, literal=True).counts.tolist() == [2, 3]
    assert integrate(some, 5).counts.tolist() == [1] * 5
    assert integrate(some, 3).counts.tolist() == [5]  # 3 slots cannot be reached, 2 can
    assert integrate(some, 2).counts.tolist() == [5]


def test_a_stored_pair_stays_a_concept() -> None:
    some = Points([[0.0], [0.1], [9.0]], [2, 1, 1], [[0.5], [0.0], [0.0]])
    assert integrate(some, 3).counts.tolist() == [3, 1]


@pytest.mark.parametrize("linkage", LINKAGES)
def test_equal_points_have_no_scatter(linkage: str) -> None:
    value = [0.1, 3e7, -2.0]
    result = integrate(Points(np.tile(value, (40, 1))), 5, linkage)
    assert result.slots <= 5 and result.counts.sum() == 40
    assert (result.means == value).all() and not result.scatter.any()


@pytest.mark.parametrize("linkage", LINKAGES)
def test_one_point_and_two_points(linkage: str) -> None:
    for some in (Points([[1.0, 2.0]]), Points([[1.0], [5.0]]), Points([[1.0]], [7], [[3.0]])):
        assert as_set(integrate(some, some.slots, linkage)) == as_set(some)
    both = integrate(Points([[1.0], [5.0]], [1, 3], [[0.0], [2.0]]), 2, linkage)
    assert both.counts.tolist() == [4] and both.means.tolist() == [[4.0]]
    assert both.scatter.tolist() == [[2 + 16 * 3 / 4]]


def test_nothing_to_keep_takes_no_slots() -> None:
    assert len(integrate(Points(np.empty((0, 4))), 0)) == 0


def test_in_many_dimensions_closest_pairs_collapse_and_ward_does_not() -> None:
    codes = np.maximum(np.random.default_rng(0).normal(size=(1000, 64)), 0)
    assert integrate(Points(codes), 100, "centroid").counts.max() > 800
    assert integrate(Points(codes), 100, "ward").counts.max() < 100


def test_too_many_points_for_one_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linkage_module, "MOST_POINTS", 64)
    codes = np.random.default_rng(0).normal(size=(500, 6)).astype(np.float32)
    order = np.random.default_rng(1).permutation(500)
    for linkage in LINKAGES:
        results = [integrate(Points(c), 60, linkage) for c in (codes, codes[order])]
        assert_same_totals(Points(codes), results[0])
        assert results[0].slots <= 60
        assert as_set(results[0]) == as_set(results[1])


# Refusals


@pytest.mark.parametrize(
    ("some", "target", "message"),
    [
        (Points([[1.0]]), 0, "too few slots for a class: 0 given, at least 1 needed"),
        (Points(np.eye(9)), 1, "too few slots for a class: 1 given, at least 2 needed"),
        (Points([[1.0]], [5]), 1, "too few slots for a class: 1 given, at least 2 needed"),
        (Points([[1.0]]), -3, "too few slots for a class: -3 given, at least 1 needed"),
    ],
)
def test_too_few_slots_are_refused(some: Points, target: int, message: str) -> None:
    with pytest.raises(UserError, match=message):
        integrate(some, target)


def test_an_unknown_linkage_is_refused() -> None:
    with pytest.raises(UserError, match="unknown linkage 'single': choose one of ward, centroid"):
        integrate(Points([[1.0]]), 1, "single")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Points([1.0, 2.0]), "must be"),
        (lambda: Points([[1.0]], [1, 2]), "must be"),
        (lambda: Points([[1.0]], [2], [[1.0, 2.0]]), "must be"),
        (lambda: Points([[np.nan]]), "finite"),
        (lambda: Points([[1.0]], [2], [[np.inf]]), "finite"),
        (lambda: Points([[1.0]], [0]), "counts start at 1"),
        (lambda: Points([[1.0]], [2], [[-1.0]]), "scatter at 0"),
        (lambda: Points([[1.0]], [1], [[1.0]]), "an episode has no scatter"),
    ],
)
def test_what_are_no_points(make: Callable[[], Points], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
