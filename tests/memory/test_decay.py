import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eec.memory.decay import decay_weight

Accuracy = st.floats(0, 100)
Alpha = st.floats(0, 50)


@pytest.mark.parametrize(
    ("decoded", "original", "alpha", "weight"),
    [
        (50, 100, 1, math.exp(-0.5)),
        (90, 100, 1, math.exp(-0.1)),
        (90, 100, 3, math.exp(-0.3)),
        (60, 80, 2, math.exp(-0.5)),
        (0, 100, 1, math.exp(-1)),
        (0, 40, 4, math.exp(-4)),
    ],
)
def test_equation_5(decoded: float, original: float, alpha: float, weight: float) -> None:
    assert decay_weight(decoded, original, alpha) == pytest.approx(weight, rel=1e-12)


@given(Accuracy, Accuracy, Alpha)
def test_a_weight_is_above_0_and_at_most_1(decoded: float, original: float, alpha: float) -> None:
    assert 0 < decay_weight(decoded, original, alpha) <= 1


@given(Accuracy, Accuracy, Alpha)
def test_nothing_is_lost_where_decoded_images_do_as_well(a: float, b: float, alpha: float) -> None:
    assert decay_weight(max(a, b), min(a, b), alpha) == 1


@given(Accuracy, Alpha)
def test_a_task_that_was_never_recognised_cannot_lose(decoded: float, alpha: float) -> None:
    assert decay_weight(decoded, 0.0, alpha) == 1


@given(Accuracy, Accuracy)
def test_alpha_0_switches_decay_off(decoded: float, original: float) -> None:
    assert decay_weight(decoded, original, 0) == 1


@given(st.tuples(Accuracy, Accuracy), Accuracy, Alpha)
def test_better_decoded_images_never_count_less(
    decoded: tuple[float, float], original: float, alpha: float
) -> None:
    low, high = sorted(decoded)
    assert decay_weight(low, original, alpha) <= decay_weight(high, original, alpha)


@given(Accuracy, Accuracy, st.tuples(Alpha, Alpha))
def test_more_retraining_never_counts_more(
    decoded: float, original: float, alphas: tuple[float, float]
) -> None:
    few, many = sorted(alphas)
    assert decay_weight(decoded, original, many) <= decay_weight(decoded, original, few)
