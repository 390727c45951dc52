"""Means, deviations and intervals, against numbers worked out by hand or printed in tables."""

import math

import pytest

from eec.evaluation.compare import paired_difference, spread, t_quantile


def test_mean_and_sample_deviation() -> None:
    found = spread([97.0, 98.0, 99.0])
    assert (found.n, found.mean, found.deviation) == (3, 98.0, 1.0)


def test_one_value_has_no_deviation_and_none_has_no_mean() -> None:
    assert spread([97.5]).deviation is None
    with pytest.raises(ValueError, match="no values"):
        spread([])


# Two-sided 95 %, as tables of Student's t print them.
@pytest.mark.parametrize(("freedom", "printed"), [(1, 12.706), (2, 4.303), (9, 2.262)])
def test_the_quantile_is_that_of_the_tables(freedom: int, printed: float) -> None:
    assert t_quantile(freedom, 0.95) == pytest.approx(printed, abs=5e-4)


def test_differences_are_paired_by_seed() -> None:
    first = {0: 90.0, 1: 80.0, 2: 70.0}  # they spread widely, the differences do not
    ours = {2: 69.0, 0: 88.0, 1: 77.0, 5: 0.0}
    found = paired_difference(ours, first)
    assert found is not None and found.n == 3 and found.mean == -2.0
    half = 4.3027 * 1.0 / math.sqrt(3)
    assert (found.low, found.high) == pytest.approx((-2 - half, -2 + half), abs=1e-3)
    assert found.verdict == "undecided"


@pytest.mark.parametrize(
    ("differences", "verdict"),
    [
        ([5.0, 5.1, 4.9], "higher"),
        ([-5.0, -5.1, -4.9], "lower"),
        ([5.0, -5.0, 5.0], "undecided"),
        ([0.0, 0.0], "undecided"),
    ],
)
def test_plain_words(differences: list[float], verdict: str) -> None:
    found = paired_difference(dict(enumerate(differences)), dict.fromkeys(range(9), 0.0))
    assert found is not None and found.verdict == verdict


def test_one_seed_decides_nothing_and_none_is_no_difference() -> None:
    found = paired_difference({3: 99.0}, {3: 1.0})
    assert found is not None
    assert (found.mean, found.low, found.high, found.verdict) == (98.0, None, None, "undecided")
    assert paired_difference({3: 99.0}, {4: 1.0}) is None
