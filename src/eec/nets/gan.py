"""A conditional GAN in the manner of DCGAN: noise and a class to an image, and a judge of both.

The judge's weights are divided by their largest singular value, and it sees the class as a
direction in its own features (a projection discriminator): of the forms that train on few images in
minutes, this is among the steadiest.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu, one_hot, relu
from torch.nn.utils.parametrizations import spectral_norm

from eec.nets.classifiers import Shape

NOISE = 64  # numbers that an image is made of, beside its class
WIDTH = 32  # channels next to the image; each halving doubles them, up to four times as many
SHORTEST = 8  # pixels: a shorter side is not halved any more


def _sizes(image: Shape) -> list[tuple[int, int]]:
    """The picture's height and width and their halves, down to sides of 4 to 7."""
    sizes = [image[1:]]
    while min(sizes[-1]) >= SHORTEST:
        sizes.append((sizes[-1][0] // 2, sizes[-1][1] // 2))
    return sizes


def _widths(image: Shape, halvings: int) -> list[int]:
    return [image[0], *(WIDTH * min(4, 2**i) for i in range(halvings))]


class Generator(nn.Module):
    """Transposed 4x4 convolutions of stride 2 with BatchNorm and ReLU, to an image in -1..1."""

    def __init__(self, image: Shape, classes: int) -> None:
        super().__init__()
        self.classes = classes
        sizes = _sizes(image)
        widths = _widths(image, len(sizes) - 1)
        self.start = (widths[-1], *sizes[-1])
        self.first = nn.Linear(NOISE + classes, widths[-1] * sizes[-1][0] * sizes[-1][1])
        stages: list[nn.Module] = []
        for i in reversed(range(len(sizes) - 1)):
            stages += [nn.BatchNorm2d(widths[i + 1]), nn.ReLU()]
            rest = (sizes[i][0] % 2, sizes[i][1] % 2)
            stages.append(nn.ConvTranspose2d(widths[i + 1], widths[i], 4, 2, 1, rest))
        self.stages = nn.Sequential(*stages, nn.Tanh())

    def forward(self, noise: Tensor, classes: Tensor) -> Tensor:
        told = torch.cat([noise, one_hot(classes, self.classes).to(noise)], 1)
        out: Tensor = self.stages(self.first(told).reshape(-1, *self.start))
        return out


class Discriminator(nn.Module):
    """The generator's mirror image: how real an image looks for one of its class."""

    def __init__(self, image: Shape, classes: int) -> None:
        super().__init__()
        sizes = _sizes(image)
        widths = _widths(image, len(sizes) - 1)
        self.stages = nn.ModuleList(
            spectral_norm(nn.Conv2d(widths[i], widths[i + 1], 4, 2, 1))
            for i in range(len(sizes) - 1)
        )
        features = widths[-1] * sizes[-1][0] * sizes[-1][1]
        self.score = spectral_norm(nn.Linear(features, 1))
        self.direction = spectral_norm(nn.Embedding(classes, features))

    def forward(self, images: Tensor, classes: Tensor) -> Tensor:
        for stage in self.stages:
            images = leaky_relu(stage(images), 0.2)
        features = images.flatten(1)
        out: Tensor = self.score(features)[:, 0] + (self.direction(classes) * features).sum(1)
        return out.float()


class GAN(nn.Module):
    """Both, as one net with one loss: each part gets the gradients of its own half alone."""

    def __init__(self, image: Shape, classes: int) -> None:
        super().__init__()
        self.generator = Generator(image, classes)
        self.discriminator = Discriminator(image, classes)

    def loss(self, images: Tensor, classes: Tensor, noise: Tensor) -> Tensor:
        """Of the judge, with a hinge, and of the generator, for images and made ones of the same
        classes. Both take their step at once, which is as if they had an optimiser each."""
        made = self.generator(noise, classes)
        judge = self.discriminator
        judged = relu(1 - judge(images, classes)) + relu(1 + judge(made.detach(), classes))
        with frozen(judge):
            fooled = -judge(made, classes)
        both: Tensor = judged.mean() + fooled.mean()
        return both


@contextmanager
def frozen(net: nn.Module) -> Iterator[None]:
    """Gradients flow through the net, not into it."""
    net.requires_grad_(False)
    try:
        yield
    finally:
        net.requires_grad_(True)
