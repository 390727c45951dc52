from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from eec.memory.budget import paper_shares
from eec.memory.codes import Packing
from eec.memory.episodes import Memory
from eec.memory.integration import Points
from eec.memory.over_budget import POLICIES, shrink


def points(count: int, seed: int = 0, dims: int = 5) -> Points:
    return Points(np.abs(np.random.default_rng(seed).normal(size=(count, dims))))


def cost(kept: Points) -> int:
    return len(kept) + int(kept.scatter.any(1).sum())


@settings(max_examples=40, deadline=None)
@given(
    policy=st.sampled_from(sorted(POLICIES)),
    count=st.integers(1, 30),
    first=st.integers(2, 30),
    second=st.integers(2, 30),
    seed=st.integers(0, 9),
)
def test_every_policy_fits_and_forgets_no_image(
    policy: str, count: int, first: int, second: int, seed: int
) -> None:
    kept = points(count, seed)
    for slots in (first, min(first, second)):
        kept = POLICIES[policy].reduce(kept, slots, "ward", seed)
        assert cost(kept) <= slots
        assert kept.counts.sum() == count


@pytest.mark.parametrize("policy", ["spread", "drop"])
def test_episodes_are_kept_as_they_were(policy: str) -> None:
    before = points(40)
    kept = POLICIES[policy].reduce(before, 7, "ward", 0)
    assert len(kept) == 7 and not kept.scatter.any()
    rows = {row.tobytes() for row in before.means}
    assert all(row.tobytes() in rows for row in kept.means)
    assert len({row.tobytes() for row in kept.means}) == 7


def test_spread_leaves_no_part_of_a_class_out() -> None:
    rng = np.random.default_rng(0)
    centres = np.array([[0.0, 0], [50, 0], [0, 50], [50, 50]])
    sizes = [97, 1, 1, 1]
    clouds = np.concatenate([rng.normal(c, 1, (n, 2)) for c, n in zip(centres, sizes, strict=True)])
    kept = POLICIES["spread"].reduce(Points(clouds), 4, "ward", 0)
    away = np.linalg.norm(kept.means[:, None] - centres, axis=2).min(0)
    assert (away < 5).all()
    assert sorted(kept.counts) == [1, 1, 1, 97]


def test_one_that_stands_for_many_is_chosen_more_often() -> None:
    pair = Points([[0.0], [1.0]], [9, 1])
    chosen = [POLICIES["spread"].reduce(pair, 1, "ward", seed) for seed in range(200)]
    assert all(kept.counts.tolist() == [10] for kept in chosen)
    assert 160 <= sum(kept.means[0, 0] == 0 for kept in chosen) < 200


@pytest.mark.parametrize("policy", ["spread", "drop"])
def test_a_random_choice_is_the_seeds(policy: str) -> None:
    kept = [POLICIES[policy].reduce(points(40), 7, "ward", seed).means for seed in (0, 0, 1)]
    assert np.array_equal(kept[0], kept[1]) and not np.array_equal(kept[0], kept[2])


def memory_of(*parts: tuple[int, int, int]) -> Memory:
    """A memory of (task, class, episodes) parts, with a codec that nobody asks to code."""
    codec = SimpleNamespace(level=0, signed=False)
    memory = Memory(codecs={1: codec})  # type: ignore[dict-item]
    for task, target, count in parts:
        codes = torch.rand(count, 2, 2, 2, generator=torch.Generator().manual_seed(task))
        memory.store(task, codes, torch.full((count,), target), "float32")
    memory.packings = {task: Packing("float32") for task, *_ in parts}
    return memory


@pytest.mark.parametrize("policy", POLICIES)
def test_every_class_is_brought_to_its_share(policy: str) -> None:
    memory = memory_of((1, 0, 20), (2, 1, 20), (3, 0, 4), (4, 2, 3))
    shrink(memory, {0: 9, 1: 6, 2: 3}, policy, "ward", 0)
    held = memory.slots()
    assert held[0] <= 9 and held[1] <= 6 and held[2] == 3
    assert {part.task for part in memory.kept if part.target == 0} == {1, 3}
    assert sum(int(part.counts.sum()) for part in memory.kept) == 47


def test_a_class_with_more_tasks_than_slots_keeps_the_last() -> None:
    memory = memory_of((1, 0, 5), (2, 0, 5), (3, 0, 5))
    shrink(memory, {0: 2}, "spread", "ward", 0)
    assert [(part.task, part.slots) for part in memory.kept] == [(2, 1), (3, 1)]
    assert sum(int(part.counts.sum()) for part in memory.kept) == 15  # these stand for the others


@pytest.mark.parametrize("policy", POLICIES)
def test_parts_that_are_as_small_as_can_be_stay(policy: str) -> None:
    memory = memory_of((1, 0, 1), (2, 0, 7))
    shrink(memory, {0: 3}, policy, "ward", 0)
    assert [part.task for part in memory.kept] == [1, 2]
    assert sum(int(part.counts.sum()) for part in memory.kept) == 8


# --- the paper's shares ---


def test_new_classes_keep_all_and_old_ones_give_way_in_proportion() -> None:
    assert paper_shares({0: 100, 1: 50, 2: 40}, {2}, 1000, 2) == {0: 100, 1: 50, 2: 40}
    # N_y (1 - K_r / K_{t-1}) with K_r = 150 + 40 - 100 = 90: two fifths are left.
    assert paper_shares({0: 100, 1: 50, 2: 40}, {2}, 100, 2) == {0: 40, 1: 20, 2: 40}


def test_shares_that_cannot_hold() -> None:
    assert paper_shares({0: 100, 1: 50}, {1}, 40, 2) is None  # more new ones than slots
    assert paper_shares({0: 100, 1: 50}, {0, 1}, 140, 2) is None  # and nothing but new ones
    assert paper_shares({0: 100, 1: 50}, {1}, 51, 2) is None  # one slot is no concept
    assert paper_shares({0: 100, 1: 50}, {1}, 52, 2) == {0: 2, 1: 50}
