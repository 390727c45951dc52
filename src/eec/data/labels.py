"""Labels as the user gave them: plain Python scalars, never remapped.

Free of torch, so that modules which only pass labels on stay quick to import.
"""

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from eec.errors import UserError

Label: TypeAlias = str | int | float | bool

_DTYPES = {str: np.str_, int: np.int64, float: np.float64, bool: np.bool_}


def as_labels(values: Any, *, name: str = "labels") -> list[Label]:
    """A list, tuple, range, 1-D array or tensor of labels as a list of plain Python scalars."""
    labels = [_plain(value, f"{name}[{i}]") for i, value in enumerate(_items(values, name))]
    _refuse_lookalikes(labels, name)
    return labels


def label_array(labels: Sequence[Label]) -> np.ndarray:
    """An array whose `tolist()` gives the labels back unchanged, of their natural dtype if any."""
    kinds = {type(label) for label in labels}
    if len(kinds) == 1:
        try:
            natural: np.ndarray = np.array(labels, dtype=_DTYPES[kinds.pop()])
        except OverflowError:  # an int that needs more than 64 bits
            natural = np.array([])
        # numpy drops NUL characters at the end of strings, hence the look back
        if natural.tolist() == list(labels):
            return natural
    array = np.empty(len(labels), dtype=object)
    array[:] = labels
    return array


def distinct(labels: Iterable[Label]) -> tuple[Label, ...]:
    """The distinct labels in order of first appearance."""
    return tuple(dict.fromkeys(labels))


def sorted_labels(labels: Iterable[Label]) -> tuple[Label, ...]:
    """The distinct labels sorted: numbers by value, then strings by alphabet."""
    # numbers and strings do not compare: the first part of the key keeps them apart
    return tuple(sorted(distinct(labels), key=lambda label: (isinstance(label, str), label)))


def _items(values: Any, name: str) -> Sequence[Any]:
    if isinstance(values, list | tuple | range):
        return values
    # arrays, tensors and data-frame columns; asked for by what they can do, to spare importing them
    if not (hasattr(values, "tolist") and hasattr(values, "ndim")):
        raise UserError(
            f"{name} is a {type(values).__name__}: pass a list, a 1-D array or a 1-D tensor"
        )
    if values.ndim != 1:
        raise UserError(
            f"{name} has shape {tuple(values.shape)}: pass one label for each image, shape [N]"
        )
    return values.tolist()  # type: ignore[no-any-return]


def _plain(value: Any, where: str) -> Label:
    # a number taken out of a numpy array or a tensor is still wrapped
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        value = value.item()
    # exact types: an enum member or other subclass would not come back from a file as itself
    if type(value) not in _DTYPES:
        raise UserError(
            f"{where} is of type {type(value).__name__}: a label is one str, int, float or bool"
        )
    if value != value:
        raise UserError(
            f"{where} is NaN, of type float: give every image a label that equals itself"
        )
    return value  # type: ignore[no-any-return]


def _refuse_lookalikes(labels: list[Label], name: str) -> None:
    """1, 1.0 and True are equal in Python: a mixture would melt into one class in silence."""
    first: dict[Label, int] = {}
    for i, label in enumerate(labels):
        j = first.setdefault(label, i)
        if type(labels[j]) is not type(label):
            raise UserError(
                f"{name}[{i}] is {label!r} of type {type(label).__name__} but equals {name}[{j}], "
                f"{labels[j]!r} of type {type(labels[j]).__name__}: use one type for this class"
            )
