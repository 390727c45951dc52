"""The class-incremental stream: a data set cut into tasks of new classes.

A task's images are gathered when it is asked for, not before: a data set that is a map of a file
may be larger than memory.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from eec.data.dataset import Dataset
from eec.data.images import check_images
from eec.data.labels import Label, as_labels, distinct
from eec.errors import UserError

JudgedOn = Literal["test", "validation"]
ORDERS = ("natural", "shuffled")

# Each random choice has a source of its own: changing one option leaves the other choices alone.
_CLASS_ORDER, _HOLD_OUT, _CAP, _RETURN = 0, 1, 2, 3


@dataclass(frozen=True, eq=False)
class Task:
    """Images that arrive together, uint8 [N, C, H, W], with one label each."""

    images: Tensor
    labels: list[Label]

    def __post_init__(self) -> None:
        check_images(self.images, name="images of the task")
        object.__setattr__(self, "labels", as_labels(self.labels))
        if len(self.images) != len(self.labels):
            raise UserError(
                f"the task has {len(self.images)} images but {len(self.labels)} labels: "
                "give each image one label"
            )

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def classes(self) -> tuple[Label, ...]:
        """Distinct labels in order of first appearance."""
        return distinct(self.labels)


@dataclass(frozen=True, eq=False)
class Selection:
    """Some images of a set, which stay where they are until they are gathered."""

    images: Tensor
    index: Tensor  # int64 [N]
    labels: list[Label]

    def __len__(self) -> int:
        return len(self.labels)

    def gather(self) -> Task:
        return Task(self.images[self.index], self.labels)


@dataclass(frozen=True, eq=False)
class Increment:
    """One step of a stream."""

    number: int
    """Counts from 1."""
    new_classes: tuple[Label, ...]
    train: Selection
    """Images of the new classes, and of an earlier one that returns."""
    judged: Selection
    """Images of the new classes to judge by; never trained on."""

    @property
    def task(self) -> Task:
        """Gathered anew each time: take it once."""
        return self.train.gather()

    @property
    def test(self) -> Task:
        return self.judged.gather()


@dataclass(frozen=True, eq=False)
class Stream:
    name: str
    flip: bool
    turn: int
    increments: tuple[Increment, ...]
    class_order: tuple[Label, ...]
    judged_on: JudgedOn
    notices: tuple[str, ...] = ()
    """What the user should be told of the data set."""


def make_stream(
    dataset: Dataset,
    *,
    classes_per_increment: int | Sequence[int] = 1,
    order: Literal["natural", "shuffled"] | Sequence[Label] = "natural",
    seed: int = 0,
    per_class: int | None = None,
    validation: float = 0.0,
    returning: float = 0.0,
) -> Stream:
    """Cut a data set into increments; within a task, images come class by class.

    `per_class` caps the training images of a class. `validation` is the share of each class's
    training images that is held out before the cap and judged on in place of the test images.
    `returning` is the share that comes one increment later than its class, with the next classes.
    """
    if not _is_whole(seed, at_least=0):
        raise UserError(f"seed is {seed!r}: use a whole number, 0 or more")
    if per_class is not None and not _is_whole(per_class, at_least=1):
        raise UserError(f"per_class is {per_class!r}: use a whole number, 1 or more, or None")
    for name, share in (("validation", validation), ("returning", returning)):
        if not 0 <= share < 1:
            raise UserError(f"{name} is {share!r}: use a share from 0 to below 1, such as 0.1")
    sizes = _increment_sizes(classes_per_increment, len(dataset.classes))
    class_order = _class_order(dataset, order, seed)
    train, held_out = _choose_training_images(dataset, seed, per_class, validation)
    at_once, later = _hold_back(dataset, train, seed, returning)
    if validation:
        judged, judged_images = held_out, dataset.train_images
    else:
        judged, judged_images = _indices_by_class(dataset.test_labels), dataset.test_images

    increments: list[Increment] = []
    for number, size in enumerate(sizes, start=1):
        start = sum(sizes[: number - 1])
        classes = class_order[start : start + size]
        before = increments[-1].new_classes if increments else ()
        # What the last increment holds back could never come: it holds nothing back.
        arriving = train if number == len(sizes) else at_once
        chosen = {c: arriving[c] for c in classes} | {c: later[c] for c in before if len(later[c])}
        increments.append(
            Increment(
                number,
                classes,
                _select(dataset.train_images, chosen),
                _select(judged_images, {c: judged[c] for c in classes}),
            )
        )
    return Stream(
        name=dataset.name,
        flip=dataset.flip,
        turn=dataset.turn,
        increments=tuple(increments),
        class_order=class_order,
        judged_on="validation" if validation else "test",
        notices=dataset.notices,
    )


def read_class_order(path: Path, classes: Sequence[Label]) -> list[Label]:
    """The classes in the order in which a text file names them, one a line."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise UserError(
            f"class order {path} cannot be read ({error.strerror}): use natural, shuffled, or a "
            "text file with one class a line"
        ) from None
    except UnicodeDecodeError:
        raise UserError(f"class order {path} is not a text file: write one class a line") from None
    names = {str(label): label for label in classes}
    wanted = [line.strip() for line in lines if line.strip()]
    # A name that is no class stays as it is, for `make_stream` to refuse with the others.
    return [names.get(name, name) for name in wanted]


def _is_whole(value: object, *, at_least: int) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= at_least


def _rng(seed: int, *purpose: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(int(seed), spawn_key=purpose))


def _increment_sizes(wanted: int | Sequence[int], total: int) -> list[int]:
    each = list(wanted) if isinstance(wanted, Iterable) else [wanted]
    if not each or not all(_is_whole(size, at_least=1) for size in each):
        raise UserError(
            f"classes_per_increment is {wanted!r}: use whole numbers, 1 or more, such as 2 or 2,3,5"
        )
    if not isinstance(wanted, Iterable):
        return [min(wanted, total - start) for start in range(0, total, wanted)]
    if sum(each) != total:
        raise UserError(
            f"classes_per_increment {tuple(each)} sums to {sum(each)} but the data set has {total} "
            f"classes: change the increments so that they sum to {total}"
        )
    return each


def _class_order(
    dataset: Dataset, order: Literal["natural", "shuffled"] | Sequence[Label], seed: int
) -> tuple[Label, ...]:
    classes = dataset.classes
    if isinstance(order, str):
        if order == "natural":
            return classes
        if order == "shuffled":
            return tuple(classes[i] for i in _rng(seed, _CLASS_ORDER).permutation(len(classes)))
        raise UserError(f"order is {order!r}: use natural, shuffled or a list of all classes")
    wanted = as_labels(order, name="order")
    wrong = {
        "unknown": [label for label in wanted if label not in classes],
        "missing": [label for label in classes if label not in wanted],
        "repeated": [label for label in distinct(wanted) if wanted.count(label) > 1],
    }
    if any(wrong.values()):
        faults = "; ".join(f"{what}: {labels}" for what, labels in wrong.items() if labels)
        raise UserError(
            f"order must name each class of {dataset.name} once ({faults}): "
            f"the classes are {list(classes)}"
        )
    return tuple(classes[classes.index(label)] for label in wanted)


def _choose_training_images(
    dataset: Dataset, seed: int, per_class: int | None, validation: float
) -> tuple[dict[Label, np.ndarray], dict[Label, np.ndarray]]:
    """Indices by class of the images to train on and of those held out."""
    members_of = _indices_by_class(dataset.train_labels)
    train, held_out = {}, {}
    for position, label in enumerate(dataset.classes):
        members = members_of[label]
        is_held = np.zeros(len(members), dtype=bool)
        if validation:
            count = _held_out_count(len(members), validation, label)
            is_held[_rng(seed, _HOLD_OUT, position).permutation(len(members))[:count]] = True
        # Drawn over all members, held out or not: a larger cap, or no hold-out, keeps the choice.
        drawn = _rng(seed, _CAP, position).permutation(len(members))
        drawn = drawn[~is_held[drawn]][:per_class]
        train[label] = members[np.sort(drawn)]
        held_out[label] = members[is_held]
    return train, held_out


def _held_out_count(members: int, share: float, label: Label) -> int:
    if members < 2:
        raise UserError(
            f"class {label!r} has a single training image, none can be held out: "
            "use validation 0, or add images"
        )
    return min(max(1, round(share * members)), members - 1)


def _indices_by_class(labels: Sequence[Label]) -> dict[Label, np.ndarray]:
    indices: dict[Label, list[int]] = {}
    for i, label in enumerate(labels):
        indices.setdefault(label, []).append(i)
    return {label: np.array(members) for label, members in indices.items()}


def _hold_back(
    dataset: Dataset, train: dict[Label, np.ndarray], seed: int, share: float
) -> tuple[dict[Label, np.ndarray], dict[Label, np.ndarray]]:
    """Indices by class of the images that come with their class, and of those that come later."""
    at_once, later = {}, {}
    for position, label in enumerate(dataset.classes):
        members = train[label]
        held = np.zeros(len(members), dtype=bool)
        # At least one image comes at once: without any, the class would be new later.
        count = min(round(share * len(members)), len(members) - 1)
        held[_rng(seed, _RETURN, position).permutation(len(members))[:count]] = True
        at_once[label], later[label] = members[~held], members[held]
    return at_once, later


def _select(images: Tensor, chosen: dict[Label, np.ndarray]) -> Selection:
    index = torch.from_numpy(np.concatenate(list(chosen.values())))
    return Selection(images, index, [label for label, members in chosen.items() for _ in members])
