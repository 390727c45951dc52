"""A data set: training and test images with their labels, held in memory."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from torch import Tensor

from eec.data.images import check_images, resize
from eec.data.labels import Label, as_labels, distinct, sorted_labels
from eec.errors import UserError


@dataclass(frozen=True, eq=False)
class Dataset:
    """Images are uint8 [N, C, H, W]; every class has training and test images."""

    name: str
    train_images: Tensor
    train_labels: list[Label]
    test_images: Tensor
    test_labels: list[Label]
    flip: bool
    """Whether a mirrored image is still of its class."""
    turn: int = 0
    """By how many degrees an image may be turned, and percent stretched, and be what it was."""
    classes: tuple[Label, ...] = ()
    """All labels in the natural order of the set; sorted if the set has no order of its own."""
    notices: tuple[str, ...] = ()
    """What the user should be told: images left out, a checksum that differs."""

    def __post_init__(self) -> None:
        check_images(self.train_images, name=f"training images of {self.name}")
        check_images(self.test_images, name=f"test images of {self.name}")
        train, test = self.train_images.shape[1:], self.test_images.shape[1:]
        if train != test:
            raise UserError(
                f"{self.name}: training images are {_extent(train)} but test images "
                f"{_extent(test)}: bring both to the same channels and size"
            )
        self._check_lengths()
        self._check_classes()

    def resized(self, size: int) -> "Dataset":
        """The same set with its images squared to `size` pixels."""
        if self.train_images.shape[2:] == (size, size):
            return self
        return replace(
            self,
            train_images=resize(self.train_images, size),
            test_images=resize(self.test_images, size),
        )

    def _check_lengths(self) -> None:
        for part, images, labels in (
            ("training", self.train_images, self.train_labels),
            ("test", self.test_images, self.test_labels),
        ):
            if len(images) != len(labels):
                raise UserError(
                    f"{self.name}: {len(images)} {part} images but {len(labels)} labels: "
                    "give each image one label"
                )

    def _check_classes(self) -> None:
        # in one go, so that a class cannot be 1 in one part and True in the other
        labels = as_labels([*self.train_labels, *self.test_labels], name=f"labels of {self.name}")
        train, test = labels[: len(self.train_labels)], labels[len(self.train_labels) :]
        classes = tuple(as_labels(self.classes or sorted_labels(labels)))
        if len(set(classes)) < len(classes):
            raise UserError(f"{self.name}: a class is listed twice in {_listing(classes)}")
        for part, present in (("training", distinct(train)), ("test", distinct(test))):
            if unknown := [label for label in present if label not in classes]:
                raise UserError(
                    f"{self.name}: {part} labels {_listing(unknown)} are not among its classes "
                    f"{_listing(classes)}: add them there, or drop these images"
                )
            if empty := [label for label in classes if label not in present]:
                raise UserError(
                    f"{self.name}: no {part} images of {_listing(empty)}: add some, "
                    "or leave these classes out"
                )
        object.__setattr__(self, "train_labels", train)
        object.__setattr__(self, "test_labels", test)
        object.__setattr__(self, "classes", classes)


def _extent(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


def _listing(labels: Iterable[Label]) -> str:
    return ", ".join(map(repr, labels))
