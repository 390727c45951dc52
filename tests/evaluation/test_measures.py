"""The measures, against small cases worked out by hand and laws that always hold."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from eec.evaluation import measures as m

HAND = np.array([[8, 2, 0], [1, 3, 0], [2, 0, 4]])  # 20 images of 3 classes


@st.composite
def judged(draw: st.DrawFn) -> tuple[list[int], list[int], int]:
    """True and predicted classes of at least one image, and how many classes there are."""
    k = draw(st.integers(1, 6))
    pairs = draw(
        st.lists(st.tuples(st.integers(0, k - 1), st.integers(0, k - 1)), min_size=1, max_size=60)
    )
    return [t for t, _ in pairs], [p for _, p in pairs], k


def test_confusion_counts_rows_as_truth_and_columns_as_predicted() -> None:
    counts = m.confusion([0, 0, 1, 2], [0, 1, 1, 0], 3)
    assert counts.tolist() == [[1, 1, 0], [0, 1, 0], [1, 0, 0]]


def test_confusion_of_no_images_is_empty_and_has_no_accuracy() -> None:
    counts = m.confusion([], [], 2)
    assert counts.tolist() == [[0, 0], [0, 0]]
    for measure in (m.accuracy, m.macro_accuracy, lambda c: m.newest_share(c, [0])):
        with pytest.raises(ValueError, match="no test image"):
            measure(counts)


@pytest.mark.parametrize(
    ("truth", "predicted", "message"),
    [
        ([0, 1], [0], "2 true classes but 1 predictions"),
        ([0, 3], [0, 0], "outside 0..2"),
        ([0, 1], [0, -1], "outside 0..2"),
        ([0.5], [0], "whole numbers"),
    ],
)
def test_confusion_refuses_what_it_cannot_count(
    truth: list[int], predicted: list[int], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        m.confusion(truth, predicted, 3)


def test_by_hand() -> None:
    assert m.accuracy(HAND) == 75.0
    assert m.accuracy_by_class(HAND) == [80.0, 75.0, pytest.approx(200 / 3)]
    assert m.macro_accuracy(HAND) == pytest.approx((80 + 75 + 200 / 3) / 3)
    assert m.accuracy_by_task(HAND, [[0, 1], [2]]) == [
        pytest.approx(1100 / 14),
        pytest.approx(200 / 3),
    ]
    assert m.newest_share(HAND, [2]) == {"called": 20.0, "true": 30.0}


def test_a_class_without_test_images_has_no_accuracy_and_is_left_out_of_the_mean() -> None:
    counts = [[3, 1], [0, 0]]
    assert m.accuracy_by_class(counts) == [75.0, None]
    assert m.accuracy_by_task(counts, [[0], [1]]) == [75.0, None]
    assert m.macro_accuracy(counts) == 75.0


def test_a_class_that_returns_counts_in_each_of_its_tasks() -> None:
    first, second = m.accuracy_by_task(HAND, [[0, 1], [2, 0]])
    assert first == pytest.approx(100 * 11 / 14)
    assert second == pytest.approx(100 * 12 / 16)
    assert m.accuracy_by_task(HAND, [[0, 0]]) == [80.0]


def test_a_matrix_that_has_not_grown_to_a_task_is_refused() -> None:
    with pytest.raises(ValueError, match=r"task 2's classes lie in 2\.\.3, outside 0\.\.2"):
        m.accuracy_by_task(HAND, [[0, 1], [2, 3]])
    with pytest.raises(ValueError, match="newest"):
        m.newest_share(HAND, [3])
    with pytest.raises(ValueError, match="task 1 has no classes"):
        m.accuracy_by_task(HAND, [[]])


@pytest.mark.parametrize("wrong", [[[1, 2]], [[0.5]], [[-1]], [1, 2]])
def test_what_is_no_confusion_matrix_is_refused(wrong: list[object]) -> None:
    with pytest.raises(ValueError, match="confusion matrix"):
        m.accuracy(wrong)  # type: ignore[arg-type]


def test_forgetting_and_backward_transfer_by_hand() -> None:
    history = [[90.0], [95.0, 80.0], [70.0, 85.0, 99.0]]
    assert m.forgetting(history) == pytest.approx(((95 - 70) + (80 - 85)) / 2)
    assert m.backward_transfer(history) == pytest.approx(((70 - 90) + (85 - 80)) / 2)


def test_nothing_is_forgotten_at_the_first_increment() -> None:
    assert m.forgetting([[100.0]]) is None
    assert m.backward_transfer([[100.0]]) is None


def test_tasks_without_test_images_do_not_count_as_forgotten() -> None:
    assert m.forgetting([[None], [None, 80.0], [None, 70.0, 90.0]]) == 10.0
    assert m.backward_transfer([[None], [50.0, 80.0]]) is None


@pytest.mark.parametrize("history", [[], [[1.0, 2.0]], [[1.0], [1.0]]])
def test_a_history_that_is_no_triangle_is_refused(history: list[list[float]]) -> None:
    for measure in (m.forgetting, m.backward_transfer):
        with pytest.raises(ValueError, match="R"):
            measure(history)


def test_average_incremental_accuracy() -> None:
    assert m.average_incremental_accuracy([100.0, 90.0, 80.0]) == 90.0
    with pytest.raises(ValueError, match="no increment"):
        m.average_incremental_accuracy([])


@given(judged())
def test_micro_is_the_mean_of_the_classes_weighted_by_their_images(
    case: tuple[list[int], list[int], int],
) -> None:
    counts = m.confusion(*case)
    sizes = counts.sum(axis=1)
    by_class = [a if a is not None else 0.0 for a in m.accuracy_by_class(counts)]
    assert m.accuracy(counts) == pytest.approx(np.average(by_class, weights=sizes))


@given(judged())
def test_one_task_of_all_classes_has_the_micro_accuracy(
    case: tuple[list[int], list[int], int],
) -> None:
    counts = m.confusion(*case)
    assert m.accuracy_by_task(counts, [range(case[2])]) == [pytest.approx(m.accuracy(counts))]


@given(judged())
def test_all_percentages_stay_between_0_and_100(case: tuple[list[int], list[int], int]) -> None:
    counts = m.confusion(*case)
    shares = m.newest_share(counts, [case[2] - 1])
    values = [m.accuracy(counts), m.macro_accuracy(counts), *shares.values()]
    values += [a for a in m.accuracy_by_class(counts) if a is not None]
    assert all(0 <= value <= 100 for value in values)


@given(judged(), st.randoms())
def test_the_order_of_the_images_does_not_matter(
    case: tuple[list[int], list[int], int], random: object
) -> None:
    truth, predicted, k = case
    order = list(range(len(truth)))
    random.shuffle(order)  # type: ignore[attr-defined]
    shuffled = m.confusion([truth[i] for i in order], [predicted[i] for i in order], k)
    assert (shuffled == m.confusion(truth, predicted, k)).all()


@given(judged())
def test_shares_of_the_classes_add_up_to_all_images(
    case: tuple[list[int], list[int], int],
) -> None:
    counts = m.confusion(*case)
    shares = [m.newest_share(counts, [i]) for i in range(case[2])]
    assert sum(s["called"] for s in shares) == pytest.approx(100)
    assert sum(s["true"] for s in shares) == pytest.approx(100)
    assert m.newest_share(counts, range(case[2])) == {"called": 100.0, "true": 100.0}


@given(judged())
def test_a_perfect_learner_calls_each_class_as_often_as_it_is_there(
    case: tuple[list[int], list[int], int],
) -> None:
    truth, _, k = case
    counts: NDArray[np.int64] = m.confusion(truth, truth, k)
    assert m.accuracy(counts) == m.macro_accuracy(counts) == 100
    share = m.newest_share(counts, [k - 1])
    assert share["called"] == share["true"]


@given(st.integers(1, 5).flatmap(lambda n: st.lists(st.floats(0, 100), min_size=n, max_size=n)))
def test_forgetting_is_never_less_than_the_loss_since_learning(last: list[float]) -> None:
    history: list[list[float]] = [[50.0] * (t + 1) for t in range(len(last) - 1)] + [last]
    lost, change = m.forgetting(history), m.backward_transfer(history)
    if lost is None or change is None:
        assert len(history) == 1
    else:
        assert lost >= -change - 1e-9
