from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eec.errors import UserError
from eec.training.recipes import RECIPES, Plan, find_recipe

PAPER = RECIPES["paper"]
IMAGES = 1000  # eight batches of 128 an epoch


def curve_of(plan: Plan, images: int) -> list[float]:
    return [plan.rate_at(step, images) for step in range(plan.total_steps(images))]


def changes(plan: Plan, images: int) -> list[tuple[int, float]]:
    """(epoch, rate) wherever the rate is not what it was a step before."""
    found: list[tuple[int, float]] = []
    for step, rate in enumerate(curve_of(plan, images)):
        if not found or rate != found[-1][1]:
            epoch, rest = divmod(step, plan.batches_per_epoch(images))
            assert rest == 0, "the rate changes within an epoch"
            found.append((epoch, rate))
    return found


# --- the published recipe, epoch for epoch ---


def test_published_first_increment() -> None:
    plan = PAPER.first
    assert plan.total_steps(IMAGES) == 200 * 8
    epochs, rates = zip(*changes(plan, IMAGES), strict=True)
    assert epochs == (0, 60, 120, 160)
    assert rates == pytest.approx((0.1, 0.02, 0.004, 0.0008), rel=1e-12)


def test_published_later_increments() -> None:
    plan = PAPER.later
    assert plan.total_steps(IMAGES) == 45 * 8
    assert changes(plan, IMAGES) == [(0, 0.1), (37, pytest.approx(0.01, rel=1e-12))]


@pytest.mark.parametrize("plan", [PAPER.first, PAPER.later])
def test_published_classifier_is_trained_by_plain_momentum(plan: Plan) -> None:
    assert (plan.optimizer, plan.batch, plan.momentum) == ("sgd", 128, 0.9)
    assert (plan.weight_decay, plan.nesterov, plan.clip) == (5e-4, False, None)


def test_published_autoencoder() -> None:
    plan = PAPER.autoencoder
    assert (plan.optimizer, plan.batch, plan.weight_decay) == ("adam", 128, 5e-4)
    assert plan.total_steps(IMAGES) == 100 * 8
    assert changes(plan, IMAGES) == [(0, 1e-3), (50, pytest.approx(1e-4, rel=1e-12))]


def test_fast_autoencoder_is_trained_by_steps_however_many_images_there_are() -> None:
    plan = RECIPES["fast"].autoencoder
    assert plan.total_steps(10) == plan.total_steps(10_000) == plan.steps > 0


def test_unknown_recipe_is_refused_and_the_known_are_listed() -> None:
    assert find_recipe("fast") is RECIPES["fast"]
    with pytest.raises(UserError, match=r"'slow'.*paper, fast"):
        find_recipe("slow")


# --- length ---


@pytest.mark.parametrize(
    ("plan", "images", "steps"),
    [
        (Plan("sgd", 0.1, batch=10, epochs=3), 100, 30),
        (Plan("sgd", 0.1, batch=10, epochs=3), 101, 33),
        (Plan("sgd", 0.1, batch=10, epochs=3), 1, 3),
        (Plan("sgd", 0.1, batch=10, epochs=3, least_steps=31), 100, 31),
        (Plan("sgd", 0.1, batch=10, epochs=3, least_steps=29), 100, 30),
        (Plan("sgd", 0.1, batch=10, epochs=3, least_images=901, most_epochs=18), 100, 91),
        (Plan("sgd", 0.1, batch=10, epochs=3, least_images=901, most_epochs=9), 100, 90),
        (Plan("sgd", 0.1, batch=10, epochs=9, least_images=900, most_epochs=18), 110, 99),
        (Plan("sgd", 0.1, batch=10, steps=7), 100, 7),
    ],
)
def test_total_steps(plan: Plan, images: int, steps: int) -> None:
    assert plan.total_steps(images) == steps


def test_each_doubling_of_the_classes_that_a_task_brings_adds_to_its_bounds() -> None:
    plan = Plan("sgd", 0.1, batch=10, epochs=1, least_images=300, most_epochs=9, most_steps=40)
    assert plan.for_classes(1) == plan
    assert [plan.for_classes(n).total_steps(100) for n in (1, 2, 8)] == [30, 60, 90]
    assert [plan.for_classes(n).total_steps(5000) for n in (1, 2, 8)] == [40, 80, 160]
    assert PAPER.later.for_classes(8) == PAPER.later  # which counts in epochs


# --- one cycle ---


@given(steps=st.integers(5, 2000), rate=st.floats(1e-4, 1.0))
def test_one_cycle_rises_for_a_fifth_and_falls_towards_nothing(steps: int, rate: float) -> None:
    curve = curve_of(Plan("adam", rate, batch=8, steps=steps), 100)
    rise = round(0.2 * steps)
    peak = curve.index(max(curve))
    assert abs(peak - rise) <= 1
    assert all(a < b for a, b in pairwise(curve[: peak + 1]))
    assert all(a > b for a, b in pairwise(curve[peak:]))
    assert 0 < curve[-1] <= rate / (steps - rise)
    assert max(curve) <= rate


def test_one_cycle_comes_within_a_percent_of_its_rate() -> None:
    assert max(curve_of(Plan("adam", 2e-3, batch=8, steps=600), 100)) > 0.99 * 2e-3


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_shortest_cycles_still_have_positive_rates(steps: int) -> None:
    assert all(0 < rate <= 0.1 for rate in curve_of(Plan("sgd", 0.1, batch=8, steps=steps), 5))


def test_large_images_come_in_smaller_batches_of_as_many_pixels() -> None:
    plan = RECIPES["fast"].autoencoder
    assert plan.for_pixels(28 * 28) is plan and plan.for_pixels(64 * 64) is plan
    assert plan.for_pixels(128 * 128).batch == plan.batch // 4
    assert plan.for_pixels(2000 * 2000).batch == 4
    assert plan.for_pixels(224 * 224).steps == plan.steps
    classifier = RECIPES["fast"].later.for_pixels(224 * 224)
    assert (classifier.batch, classifier.rate) == (32, RECIPES["fast"].later.rate / 4)
    assert classifier.least_images == RECIPES["fast"].later.least_images / 4  # as many steps
    for published in (PAPER.autoencoder, PAPER.first, PAPER.later):
        assert published.for_pixels(224 * 224) is published


def test_brief_is_fast_in_a_quarter_of_the_classifiers_steps() -> None:
    fast, brief = RECIPES["fast"], RECIPES["brief"]
    assert brief.plans.keys() == fast.plans.keys() == set(PAPER.plans)
    assert brief.compressor == fast.compressor
    for images in (40, 600, 2_000, 10_000, 1_000_000):
        for name, share in {"first": 0.25, "later": 0.25, "autoencoder": 0.5, "gan": 0.5}.items():
            plan = fast.plans[name]
            shorter = brief.plans[name].total_steps(images) / plan.total_steps(images)
            # A pass over all images is the least there is of some: of four, one is left.
            assert share - 0.01 <= shorter <= 0.75, (name, images)
            assert brief.plans[name].rate == plan.rate
    assert (brief.crop, brief.mirrored, brief.smoothing) == (2, True, 0.1)
