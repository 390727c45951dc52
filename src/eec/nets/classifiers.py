"""The classifiers `D`: three of the paper and two small ones of ours.

Every one has a single head over all classes seen, grows it when classes arrive, and gives its last
convolutional features (`f_c` of the content loss) by `features`. Sizes follow from the image shape.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

Shape = tuple[int, int, int]  # channels, height, width


def shape_of(images: Tensor) -> Shape:
    channels, height, width = images.shape[1:]
    return channels, height, width


def feature_shape(stages: nn.Module, image: Shape) -> Shape:
    """The shape that `stages` gives for one image, found by trying."""
    training = stages.training
    with torch.no_grad():
        shape = shape_of(stages.eval()(torch.zeros(1, *image)))
    stages.train(training)
    return shape


class Classifier(nn.Module):
    """Convolutional stages, a pooling to a vector, and one linear head."""

    def __init__(self, stages: nn.Module, pool: nn.Module, image: Shape) -> None:
        super().__init__()
        self.stages = stages
        self.pool = pool
        with torch.no_grad():
            self.width = pool(torch.zeros(1, *feature_shape(stages, image))).shape[1]
        self.head: nn.Linear | None = None

    @property
    def any_size(self) -> bool:
        """Whether images may be larger or smaller than those it was made for."""
        return isinstance(self.pool, GlobalPool)

    def features(self, images: Tensor) -> Tensor:
        """The last convolutional stage before pooling: `f_c`."""
        out: Tensor = self.stages(images)
        return out

    def forward(self, images: Tensor) -> Tensor:
        assert self.head is not None, "grow the head before use"
        out: Tensor = self.head(self.pool(self.features(images)))
        return out

    def grow(self, classes: int, *, keep: bool = True) -> None:
        """Give the head one row a class; rows of old classes are kept unless `keep` is False."""
        old = self.head
        if old is not None and old.out_features == classes and keep:
            return
        new = nn.Linear(self.width, classes).to(next(self.parameters()).device)
        if old is not None and keep:
            with torch.no_grad():
                new.weight[: old.out_features] = old.weight
                new.bias[: old.out_features] = old.bias
        self.head = new


class GlobalPool(nn.Module):
    """One number a channel: the mean or the maximum over the picture."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how

    def forward(self, features: Tensor) -> Tensor:
        return features.amax((2, 3)) if self.how == "max" else features.mean((2, 3))


def conv(inside: int, outside: int, stride: int = 1, kernel: int = 3) -> nn.Conv2d:
    return nn.Conv2d(inside, outside, kernel, stride, kernel // 2, bias=False)


def dcgan(image: Shape) -> Classifier:
    """The DCGAN discriminator at 32x32, the paper's classifier for MNIST and SVHN."""
    stages = nn.Sequential(
        conv(image[0], 32, 2, 5),
        nn.LeakyReLU(0.2),
        conv(32, 64, 2, 5),
        nn.BatchNorm2d(64),
        nn.LeakyReLU(0.2),
        conv(64, 128, 2, 5),
        nn.BatchNorm2d(128),
        nn.LeakyReLU(0.2),
    )
    return Classifier(stages, nn.Flatten(), image)


class DiscriminatorBlock(nn.Module):
    """Residual block of the improved-WGAN discriminator, with BatchNorm: norm, ReLU, conv, twice.

    The first block of the net works on pixels, so nothing is normalised or rectified before it.
    """

    def __init__(self, inside: int, outside: int, *, down: bool, first: bool = False) -> None:
        super().__init__()
        before = [] if first else [nn.BatchNorm2d(inside), nn.ReLU()]
        self.residual = nn.Sequential(
            *before,
            conv(inside, outside),
            nn.BatchNorm2d(outside),
            nn.ReLU(),
            conv(outside, outside),
        )
        self.shortcut = conv(inside, outside, kernel=1) if down else nn.Identity()
        self.down = nn.AvgPool2d(2) if down else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        # Convolving 1x1 after averaging gives the same as before it, at a quarter of the cost.
        out: Tensor = self.down(self.residual(x)) + self.shortcut(self.down(x))
        return out


def wgan(image: Shape) -> Classifier:
    """The residual discriminator of the improved WGAN, the paper's classifier for CIFAR-10."""
    stages = nn.Sequential(
        DiscriminatorBlock(image[0], 128, down=True, first=True),
        DiscriminatorBlock(128, 128, down=True),
        DiscriminatorBlock(128, 128, down=False),
        DiscriminatorBlock(128, 128, down=False),
        nn.BatchNorm2d(128),
        nn.ReLU(),
    )
    return Classifier(stages, GlobalPool("mean"), image)


class BasicBlock(nn.Module):
    """ResNet's basic block; the shortcut is convolved where the shape changes."""

    def __init__(self, inside: int, outside: int, stride: int = 1) -> None:
        super().__init__()
        self.residual = nn.Sequential(
            conv(inside, outside, stride),
            nn.BatchNorm2d(outside),
            nn.ReLU(),
            conv(outside, outside),
            nn.BatchNorm2d(outside),
        )
        same = stride == 1 and inside == outside
        self.shortcut = (
            nn.Identity()
            if same
            else nn.Sequential(conv(inside, outside, stride, 1), nn.BatchNorm2d(outside))
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.residual(x) + self.shortcut(x))


LARGE = 128  # pixels, from which an image is brought to a quarter of its side at once


def stem(image: Shape, width: int) -> list[nn.Module]:
    """The first layers: a 3x3 convolution, or, for large images, ResNet's own (7x7 with stride 2,
    then a pooling), without which everything after it would cost sixteen times as much."""
    large = min(image[1:]) >= LARGE
    first = conv(image[0], width, 2, 7) if large else conv(image[0], width)
    pooling = [nn.MaxPool2d(3, 2, 1)] if large else []
    return [first, nn.BatchNorm2d(width), nn.ReLU(), *pooling]


def resnet18(image: Shape) -> Classifier:
    """ResNet-18, for ImageNet-50 and CIFAR-100; in its 32x32 form for small images."""
    stages = stem(image, 64)
    inside = 64
    for outside, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        stages += [BasicBlock(inside, outside, stride), BasicBlock(outside, outside)]
        inside = outside
    return Classifier(nn.Sequential(*stages), GlobalPool("mean"), image)


def _pooled(inside: int, outside: int) -> list[nn.Module]:
    """A convolution, halved before it is normalised: what comes after costs a quarter."""
    return [conv(inside, outside), nn.MaxPool2d(2), nn.BatchNorm2d(outside), nn.ReLU()]


class RoundTrip(nn.Module):
    """Two convolutions of the same width, added to what went in."""

    def __init__(self, width: int) -> None:
        super().__init__()
        layers = [[conv(width, width), nn.BatchNorm2d(width), nn.ReLU()] for _ in range(2)]
        self.residual = nn.Sequential(*layers[0], *layers[1])

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.residual(x)
        return out


def _few_layers(image: Shape, widths: tuple[int, int, int]) -> Classifier:
    """Seven convolutions, most of them on small maps: ours, for two cores.

    Where time is short, epochs are worth more than width: on CIFAR-10 a net of twice the cost
    learned less in the same minutes.
    """
    large = min(image[1:]) >= LARGE
    first = [*stem(image, widths[0]), nn.MaxPool2d(2)] if large else _pooled(image[0], widths[0])
    stages = nn.Sequential(
        *first,
        *_pooled(widths[0], widths[1]),
        RoundTrip(widths[1]),
        *_pooled(widths[1], widths[2]),
        RoundTrip(widths[2]),
    )
    return Classifier(stages, GlobalPool("max"), image)


def small(image: Shape) -> Classifier:
    """For colour images: 0.5 M parameters."""
    return _few_layers(image, (32, 64, 128))


def tiny(image: Shape) -> Classifier:
    """For grey images: a quarter of `small`, about three times as fast, as accurate on digits."""
    return _few_layers(image, (16, 32, 64))


CLASSIFIERS: dict[str, Callable[[Shape], Classifier]] = {
    "dcgan": dcgan,
    "wgan": wgan,
    "resnet18": resnet18,
    "small": small,
    "tiny": tiny,
}
