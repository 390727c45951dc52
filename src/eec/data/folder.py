"""Your own pictures: a folder with a sub-folder of image files for each class.

Either PATH/train/CLASS/* and PATH/test/CLASS/* (or val in place of test), or PATH/CLASS/* (or
PATH/train/CLASS/* without a test folder): then a fifth of each class, drawn by the seed, becomes
the test part. Labels are the names of the class folders; their natural order is by name, class2
before class10.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from eec.data.catalog import Request
from eec.data.dataset import Dataset
from eec.data.decoded import Files, read_decoded
from eec.data.image_files import Reading, class_folders, find_classes, none_left, skipped_notice
from eec.data.labels import Label
from eec.errors import UserError

SIZE = 32  # pixels a side, where nothing is said
TEST_SHARE = 0.2
NAMED = 5  # classes that a message lists before it only counts

ByClass = dict[str, list[Path]]


@dataclass(frozen=True)
class Parts:
    """Image files by class; the training and the test part have the same classes."""

    train: ByClass
    """In the natural order of the classes."""
    test: ByClass
    drawn: str = ""
    """What else decided which files these are, such as the seed."""
    notices: tuple[str, ...] = ()


def load(request: Request) -> Dataset:
    """From the folder that `folder:PATH` names."""
    if not request.argument:
        raise UserError("folder: write folder:PATH, where PATH holds a folder for each class")
    try:
        root = Path(request.argument).expanduser()
    except RuntimeError:  # ~name, where nobody has that name
        raise UserError(f"{request.argument} does not exist: correct the path") from None
    if request.data_dir.resolve() == root.resolve():
        raise UserError(
            f"{root} is the data folder too, where decoded images would lie among its classes: "
            "name another with --data-dir"
        )
    parts = _find_parts(root, request.seed)
    if len(parts.train) == 1:
        raise UserError(
            f"{root} has a single class, {_listing(parts.train)}: add a folder for each class that "
            "is to be told apart from it"
        )
    return load_parts(f"folder:{request.argument}", root, parts, request)


def load_parts(
    name: str, root: Path, parts: Parts, request: Request, channels: int | None = None
) -> Dataset:
    """The data set of these files below `root`, as a map of their decoded cache."""
    labels: list[Label] = []
    paths: list[Path] = []
    for part in (parts.train, parts.test):
        for label in parts.train:
            labels += [label] * len(part[label])
            paths += part[label]
    size = SIZE if request.size is None else request.size
    reading = read_decoded(
        Files(root, paths, size, channels, parts.drawn),
        request.data_dir,
        strict=request.strict,
        progress=request.progress,
    )
    training = sum(map(len, parts.train.values()))
    if reading.skipped:
        _refuse_lost(labels, training, reading)
    labels = [labels[i] for i in reading.kept]
    # Training images come first: both parts are stretches of the map, and nothing is copied.
    count = bisect_left(reading.kept, training)
    skipped = (skipped_notice(reading.skipped),) if reading.skipped else ()
    return Dataset(
        name=name,
        train_images=reading.images[:count],
        train_labels=labels[:count],
        test_images=reading.images[count:],
        test_labels=labels[count:],
        flip=True,
        classes=tuple(parts.train),
        notices=parts.notices + skipped,
    )


def refuse_different(train: Iterable[str], test: Iterable[str], root: Path, other: str) -> None:
    """Refuse parts that do not have the same classes; `other` is the test part's folder."""
    sides = {other: set(train) - set(test), "train": set(test) - set(train)}
    if faults := [f"{side} lacks {_listing(sorted(lost))}" for side, lost in sides.items() if lost]:
        raise UserError(
            f"the classes in {root} differ ({'; '.join(faults)}): add the missing folders, or "
            "remove those that the other part lacks"
        )


def check_seed(seed: int) -> None:
    if seed < 0:
        raise UserError(f"seed is {seed}: use a whole number, 0 or more")


def _find_parts(root: Path, seed: int) -> Parts:
    names = class_folders(root)
    others = [name for name in ("test", "val") if name in names]
    if "train" in names and others:
        return _given_parts(root, others)
    # A class may be called train: then images lie in its folder, and not class folders.
    if "train" in names and class_folders(root / "train"):
        return _split(find_classes(root / "train"), seed)
    if names == ["train"]:
        return _split(find_classes(root), seed)
    for name in others:
        if class_folders(root / name):
            raise UserError(
                f"{root} has a folder {name} but no folder train: name the folder of the training "
                "images train"
            )
    return _split(find_classes(root), seed)


def _given_parts(root: Path, others: Sequence[str]) -> Parts:
    train, test = find_classes(root / "train"), find_classes(root / others[0])
    refuse_different(train, test, root, others[0])
    notices = tuple(
        f"{root / name} is left alone: the test images are those of {root / others[0]}"
        for name in others[1:]
    )
    return Parts(train, test, notices=notices)


def _split(classes: ByClass, seed: int) -> Parts:
    check_seed(seed)
    train, test = {}, {}
    for name, paths in classes.items():
        if len(paths) == 1:
            raise UserError(
                f"class {name!r} has a single image, {paths[0]}, which cannot be in the training "
                "and in the test part: add images, or remove the class"
            )
        count = max(1, round(TEST_SHARE * len(paths)))
        # The name is part of the seed: another class more or less changes nothing in this one.
        order = np.random.default_rng([seed, *name.encode()]).permutation(len(paths))
        train[name] = [paths[i] for i in sorted(order[count:])]
        test[name] = [paths[i] for i in sorted(order[:count])]
    return Parts(train, test, drawn=f"split by seed {seed}")


def _refuse_lost(labels: list[Label], training: int, reading: Reading) -> None:
    """A class with no image left is an error, and not a notice."""
    places = [("training" if i < training else "test", label) for i, label in enumerate(labels)]
    left = {places[i] for i in reading.kept}
    lost = next((place for place in places if place not in left), None)
    if lost is not None:
        kept = set(reading.kept)
        skipped = [place for i, place in enumerate(places) if i not in kept]
        lines = [
            line for place, line in zip(skipped, reading.skipped, strict=True) if place == lost
        ]
        part, label = lost
        raise UserError(none_left(f"none of the {len(lines):,} {part} images of {label!r}", lines))


def _listing(names: Iterable[str]) -> str:
    names = list(names)
    more = len(names) - NAMED
    return ", ".join(map(repr, names[:NAMED])) + (f" and {more:,} more" if more > 0 else "")
