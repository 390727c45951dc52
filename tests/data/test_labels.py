import enum
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from eec.data.labels import as_labels, distinct, label_array, sorted_labels
from eec.errors import UserError

WORDS = st.text(st.characters(codec="utf-8"), max_size=5)
FLOATS = st.floats(allow_nan=False)
LABELS = st.one_of(
    st.lists(WORDS),
    st.lists(st.integers()),
    st.lists(FLOATS),
    st.lists(st.booleans()),
    st.lists(st.one_of(WORDS, st.integers())),
)


def typed(labels: Any) -> list[tuple[type, Any]]:
    """With the types, since 1 == True == 1.0."""
    return [(type(label), label) for label in labels]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["cat", "dog"], ["cat", "dog"]),
        ((3, 1), [3, 1]),
        (range(2), [0, 1]),
        (["one", 1, 2.5], ["one", 1, 2.5]),
        ([np.int8(3), np.str_("a"), np.float32(0.5)], [3, "a", 0.5]),
        ([torch.tensor(4), np.array(5)], [4, 5]),
        (np.array([2, 7], np.uint8), [2, 7]),
        (np.array(["a", "b"]), ["a", "b"]),
        (np.array([True, False]), [True, False]),
        (np.array(["a", 1, np.int64(2)], object), ["a", 1, 2]),
        (torch.tensor([5, 6]), [5, 6]),
        (torch.tensor([0.5, 1.5]), [0.5, 1.5]),
        (torch.tensor([True]), [True]),
        ([], []),
    ],
)
def test_labels_become_plain_python_scalars(values: Any, expected: list[Any]) -> None:
    assert typed(as_labels(values)) == typed(expected)


class Colour(enum.IntEnum):
    RED = 1


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["a", ["b"]], r"labels\[1\] is of type list"),
        ([1, np.array([2])], r"labels\[1\] is of type ndarray"),
        ([1, 2, None], r"labels\[2\] is of type NoneType"),
        (np.array([None], object), r"labels\[0\] is of type NoneType"),
        ([1.0, float("nan")], r"labels\[1\] is NaN, of type float"),
        (np.array([np.nan], np.float32), r"labels\[0\] is NaN, of type float"),
        ([b"a"], r"labels\[0\] is of type bytes"),
        ([1j], r"labels\[0\] is of type complex"),
        ([Colour.RED], r"labels\[0\] is of type Colour"),
        (np.array(["2020-01-01"], "datetime64[D]"), r"labels\[0\] is of type date"),
        (np.zeros((3, 1)), r"labels has shape \(3, 1\)"),
        (torch.tensor(3), r"labels has shape \(\)"),
        ("cats", "labels is a str: pass a list"),
        ({1, 2}, "labels is a set: pass a list"),
        (None, "labels is a NoneType: pass a list"),
        ([0, 1, True], r"labels\[2\] is True of type bool but equals labels\[1\], 1 of type int"),
        ([2.0, 2], r"labels\[1\] is 2 of type int but equals labels\[0\], 2.0 of type float"),
    ],
)
def test_bad_labels_are_refused_in_one_line(values: Any, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        as_labels(values)
    assert "\n" not in str(caught.value)


@settings(deadline=None)
@given(LABELS)
def test_label_array_gives_the_labels_back(labels: list[Any]) -> None:
    array = label_array(labels)
    assert array.shape == (len(labels),)
    assert typed(array.tolist()) == typed(labels)
    assert typed(as_labels(array)) == typed(labels)


@pytest.mark.parametrize(
    ("labels", "kind"),
    [(["a", "bc"], "U"), ([1, -2], "i"), ([0.5], "f"), ([True, False], "b"), (["a", 1], "O")],
)
def test_label_array_has_the_natural_dtype(labels: list[Any], kind: str) -> None:
    assert label_array(labels).dtype.kind == kind


@pytest.mark.parametrize("labels", [["a\0", "b"], [2**63, -1], [2**70]])
def test_label_array_keeps_what_numpy_would_change(labels: list[Any]) -> None:
    assert typed(label_array(labels).tolist()) == typed(labels)


def test_distinct_keeps_first_appearance_and_sorted_puts_numbers_first() -> None:
    assert distinct(["b", "a", "b", 10, 9]) == ("b", "a", 10, 9)
    assert sorted_labels(["b", "a", "b", 10, 9]) == (9, 10, "a", "b")
