"""Whether the files of a data set are what its authors published.

Three things can be known, from strong to weak: the files have the official checksums; they differ,
as after recompression, but every pixel and label is the official one; or the numbers of images of
each class are right, and the pixels are not verified. The weakest is where it ends for sets whose
content is known by numbers only. Torch is imported when a set must be read.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from eec.data.catalog import find_dataset, load_dataset, unseen
from eec.data.sources import SOURCES, Source, find, missing_files
from eec.errors import UserError

if TYPE_CHECKING:
    from eec.data.dataset import Dataset
    from eec.data.labels import Label


class Level(Enum):
    """How far a set was found to be the official one."""

    CHECKSUM = "official checksum"
    CONTENT = "official content"
    COUNTS = "counts only"
    READ = "can be read"


@dataclass(frozen=True)
class Finding:
    level: Level
    notice: str  # one line: what that means for this set


@dataclass(frozen=True)
class Known:
    """What is known of a set beyond the checksums of its files."""

    train: tuple[int, ...] = ()  # images by class, in the order of the classes; (): unknown
    test: tuple[int, ...] = ()
    content: str = ""  # content_hash() of the official set
    bare: bool = False  # its files hold pixels and labels as such: other bytes, other content


KNOWN: dict[str, Known] = {
    "digits": Known(
        train=(142, 146, 142, 146, 145, 146, 145, 143, 139, 144),
        test=(36, 36, 35, 37, 36, 36, 36, 36, 35, 36),
    ),
    "mnist": Known(
        train=(5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949),
        test=(980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009),
        content="06b0d1f124c4e5fa796686ade41a9b778edacc8622f2195a352ef479ad44fc16",
    ),
    "fashion-mnist": Known(
        train=(6000,) * 10,
        test=(1000,) * 10,
        content="ca3ab2a37f845e1b8ae23cab1b51749a3011ba3bf1d9016176d75cbaabac376f",
    ),
    "svhn": Known(
        train=(4948, 13861, 10585, 8497, 7458, 6882, 5727, 5595, 5045, 4659),
        test=(1744, 5099, 4149, 2882, 2523, 2384, 1977, 2019, 1660, 1595),
    ),
    "cifar10": Known(train=(5000,) * 10, test=(1000,) * 10, bare=True),
    "cifar100": Known(train=(500,) * 100, test=(100,) * 100, bare=True),
    "imagenet-50": Known(test=(50,) * 50),  # of a class in training 732 to 1,300
    "tiny-imagenet-50": Known(train=(500,) * 50, test=(50,) * 50),
}

_NAMED = 3  # classes in a message, at most


def check_dataset(
    name: str, data_dir: Path, progress: Callable[[int, int], None] = unseen
) -> Finding:
    """How far the set is the official one; UserError if it is not, or cannot be read."""
    find_dataset(name)  # refuses what is no name
    stem = name.partition(":")[0]
    source, known = SOURCES[stem], KNOWN.get(stem)
    if missing := source.missing(data_dir):
        raise missing_files(stem, source.place(data_dir), missing)
    different = unofficial_files(source, data_dir)
    if source.sums and not different:
        return Finding(Level.CHECKSUM, "every file is as published")
    if known and known.bare:
        raise UserError(
            f"{name}: {', '.join(different)} in {source.place(data_dir)} differ from the published "
            f"files: move them away, then `eec data get {stem}` fetches them"
        )
    dataset = load_dataset(name, data_dir, strict=True, progress=progress)
    if known is None:
        return Finding(Level.READ, f"{_summary(dataset)}; there is nothing to compare it with")
    return _compare(dataset, known, different)


def unofficial_files(source: Source, data_dir: Path) -> list[str]:
    """The files of a set that are there but have not the official checksums."""
    there = {name: find(source.place(data_dir), name) for name in source.sums}
    return [
        path.name
        for name, path in there.items()
        if path is not None and sha256_of(path) != source.sums[name]
    ]


def sha256_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}): check the file") from None


def content_hash(dataset: "Dataset") -> str:
    """SHA-256 of the training pixels [N, C, H, W], their classes' numbers, then the test's."""
    number = {label: place for place, label in enumerate(dataset.classes)}
    digest = hashlib.sha256()
    for images, labels in (
        (dataset.train_images, dataset.train_labels),
        (dataset.test_images, dataset.test_labels),
    ):
        digest.update(images.contiguous().numpy().data)
        digest.update(bytes(number[label] for label in labels))
    return digest.hexdigest()


def _compare(dataset: "Dataset", known: Known, different: Sequence[str]) -> Finding:
    again = f"move its files away, then `eec data get {dataset.name}` fetches them"
    wrong = [
        *_wrong_counts("training", dataset.train_labels, dataset.classes, known.train),
        *_wrong_counts("test", dataset.test_labels, dataset.classes, known.test),
    ]
    if wrong:
        raise UserError(f"{dataset.name}: {'; '.join(wrong)}: {again}")
    differ = f"; the checksum of {', '.join(different)} differs" if different else ""
    if not known.content:
        return Finding(Level.COUNTS, f"{_summary(dataset)}, pixels not verified{differ}")
    if content_hash(dataset) != known.content:
        raise UserError(
            f"{dataset.name}: pixels or labels are not the published ones, though the number of "
            f"images of each class is right: {again}"
        )
    return Finding(Level.CONTENT, f"every pixel and label is as published{differ}")


def _wrong_counts(
    part: str, labels: Sequence["Label"], classes: Sequence["Label"], known: Sequence[int]
) -> list[str]:
    if not known:
        return []
    if len(classes) != len(known):
        return [f"{len(classes)} classes in place of {len(known)}"]
    counts = Counter(labels)
    wrong = [
        f"{counts[label]:,} {part} images of {label!r} in place of {number:,}"
        for label, number in zip(classes, known, strict=True)
        if counts[label] != number
    ]
    more = [f"{len(wrong) - _NAMED} more classes wrong"] if len(wrong) > _NAMED else []
    return wrong[:_NAMED] + more


def _summary(dataset: "Dataset") -> str:
    return (
        f"{len(dataset.train_labels):,} + {len(dataset.test_labels):,} images "
        f"of {len(dataset.classes)} classes"
    )
