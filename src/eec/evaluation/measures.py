"""Measures of a class-incremental learner, all in percent.

Everything starts from a confusion matrix: rows are true classes, columns predicted ones, both in
order of arrival. A class without test images has no accuracy: it is None, and means leave it out.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Counts = NDArray[np.int64]
Row = Sequence[float | None]  # one row of R: the accuracy on each task known so far


def confusion(truth_index: ArrayLike, predicted_index: ArrayLike, k: int) -> Counts:
    """Count test images by true and predicted class: [k, k], rows truth, columns predicted."""
    truth = _indices(truth_index, k, "true")
    predicted = _indices(predicted_index, k, "predicted")
    if truth.shape != predicted.shape:
        raise ValueError(f"{truth.size} true classes but {predicted.size} predictions")
    flat = np.bincount(truth * k + predicted, minlength=k * k)
    return flat.reshape(k, k).astype(np.int64)


def accuracy(matrix: ArrayLike) -> float:
    """A_k: the share of all test images that are called by their own name."""
    counts = _counts(matrix)
    return _percent(int(np.trace(counts)), _total(counts))


def macro_accuracy(matrix: ArrayLike) -> float:
    """The mean of the accuracies of the classes, each weighing the same."""
    counts = _counts(matrix)
    _total(counts)
    return _mean([a for a in accuracy_by_class(counts) if a is not None])


def accuracy_by_class(matrix: ArrayLike) -> list[float | None]:
    """The accuracy of each class, in the order of the matrix."""
    counts = _counts(matrix)
    return [
        _percent(int(counts[i, i]), int(row.sum())) if row.sum() else None
        for i, row in enumerate(counts)
    ]


def accuracy_by_task(
    matrix: ArrayLike, classes_by_task: Sequence[Sequence[int]]
) -> list[float | None]:
    """One row of R: the accuracy on the test images of each task's classes.

    The head is shared: an image counts as right only if its own class is called among all classes
    seen. A class that came in several tasks counts, with all its test images, in each of them.
    """
    counts = _counts(matrix)
    k = len(counts)
    row: list[float | None] = []
    for task, classes in enumerate(classes_by_task):
        chosen = _members(classes, k, f"task {task + 1}")
        images = int(counts[chosen].sum())
        row.append(_percent(int(counts[chosen, chosen].sum()), images) if images else None)
    return row


def forgetting(history: Sequence[Row]) -> float | None:
    """Mean over old tasks of the best earlier accuracy minus the present one, in points.

    `history[t]` is the row of R after increment t and has t + 1 entries. None after the first
    increment: there is nothing yet that could have been forgotten, and 0 would look like a result.
    Below zero if old tasks got better than they ever were.
    """
    _check_history(history)
    losses = []
    for task in range(len(history) - 1):
        now = history[-1][task]
        earlier = [a for row in history[task:-1] if (a := row[task]) is not None]
        if now is not None and earlier:
            losses.append(max(earlier) - now)
    return _mean(losses) if losses else None


def backward_transfer(history: Sequence[Row]) -> float | None:
    """Mean over old tasks of the present accuracy minus the one right after learning, in points.

    None after the first increment, for the same reason as `forgetting`.
    """
    _check_history(history)
    changes = []
    for task in range(len(history) - 1):
        now, then = history[-1][task], history[task][task]
        if now is not None and then is not None:
            changes.append(now - then)
    return _mean(changes) if changes else None


def average_incremental_accuracy(accuracies: Sequence[float]) -> float:
    """The mean of A_k over the increments so far."""
    if len(accuracies) == 0:
        raise ValueError("no increment has been evaluated yet: there is no accuracy to average")
    return _mean(accuracies)


def newest_share(matrix: ArrayLike, newest_indices: Sequence[int]) -> dict[str, float]:
    """The share of test images called by a name of the newest task, beside its true share.

    A learner that tells old from new by the trace of a decoder calls far more than it should.
    """
    counts = _counts(matrix)
    total = _total(counts)
    newest = _members(newest_indices, len(counts), "the newest task")
    return {
        "called": _percent(int(counts[:, newest].sum()), total),
        "true": _percent(int(counts[newest].sum()), total),
    }


def _percent(part: int, whole: int) -> float:
    return 100.0 * part / whole


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))


def _indices(values: ArrayLike, k: int, what: str) -> NDArray[Any]:
    given = np.asarray(values)
    # an empty list becomes an array of floats, which is no fault of the caller
    indices = given.reshape(-1).astype(np.int64)
    if given.size and not np.issubdtype(given.dtype, np.integer):
        raise ValueError(f"{what} classes must be whole numbers, not {given.dtype}")
    if indices.size and (indices.min() < 0 or indices.max() >= k):
        raise ValueError(
            f"{what} classes lie in {indices.min()}..{indices.max()}, outside 0..{k - 1}"
        )
    return indices


def _counts(matrix: ArrayLike) -> Counts:
    counts = np.asarray(matrix)
    if counts.ndim != 2 or counts.shape[0] != counts.shape[1]:
        raise ValueError(f"a confusion matrix is square, this one has shape {counts.shape}")
    if not np.issubdtype(counts.dtype, np.integer) or (counts < 0).any():
        raise ValueError("a confusion matrix holds counts: whole numbers from 0 up")
    return counts.astype(np.int64)


def _total(counts: Counts) -> int:
    total = int(counts.sum())
    if total == 0:
        raise ValueError("the confusion matrix is empty: no test image was judged")
    return total


def _members(classes: Sequence[int], k: int, what: str) -> NDArray[np.int64]:
    """The distinct indices of some classes; one that the matrix has not grown to is refused."""
    chosen = np.unique(_indices(classes, k, f"{what}'s"))
    if chosen.size == 0:
        raise ValueError(f"{what} has no classes")
    return chosen


def _check_history(history: Sequence[Row]) -> None:
    if len(history) == 0:
        raise ValueError("no increment has been evaluated yet: R has no rows")
    for t, row in enumerate(history):
        if len(row) != t + 1:
            raise ValueError(f"row {t + 1} of R has {len(row)} tasks, it must have {t + 1}")
