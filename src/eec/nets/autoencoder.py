"""The paper's convolutional autoencoder, `f_r`: an image to a small code and back."""

from __future__ import annotations

import math
import re

import torch
from torch import Tensor, nn

from eec.errors import UserError
from eec.nets.classifiers import Shape


def parse_code(code: str) -> tuple[int, int]:
    """`"16x8x8"` to 16 channels and a side of 8."""
    match = re.fullmatch(r"(\d+)x(\d+)x(\d+)", code)
    if not match or match[2] != match[3] or int(match[1]) * int(match[2]) == 0:
        raise UserError(f"code {code!r} is not of the form CHANNELSxSIDExSIDE, such as 16x8x8")
    return int(match[1]), int(match[2])


class Autoencoder(nn.Module):
    """3x3 convolutions of 64-32-16 channels with BatchNorm and ReLU, and their mirror image.

    The code of a 32x32 image is 16x4x4 as published, or what `code` asks for: the picture is halved
    as often as brings its short side nearest to the code's (28 pixels and `16x8x8` make 16x7x7);
    larger pictures get more layers of 64 channels in front, so the family stays one.

    `output="norm"` ends in BatchNorm, as published (pixels are clamped when they leave);
    `output="tanh"` ends in a bounded function of a plain convolution, which trains faster.
    """

    def __init__(self, image: Shape, code: str = "16x4x4", output: str = "norm") -> None:
        super().__init__()
        channels, side = parse_code(code)
        halvings = round(math.log2(min(image[1:]) / side)) if min(image[1:]) >= side else -1
        if halvings < 1:
            raise UserError(
                f"code {code} is not smaller than images of {image[1]}x{image[2]}: "
                f"use one of a smaller side, such as {channels}x4x4, or larger images"
            )
        depth = max(3, halvings)
        widths = [image[0], *[64] * (depth - 2), 32, channels]
        strides = [2] * halvings + [1] * (depth - halvings)
        sizes = [image[1:]]
        for stride in strides:
            sizes.append((-(-sizes[-1][0] // stride), -(-sizes[-1][1] // stride)))

        encoder: list[nn.Module] = []
        for i, stride in enumerate(strides):
            encoder += _block(nn.Conv2d(widths[i], widths[i + 1], 3, stride, 1), widths[i + 1])
        decoder: list[nn.Module] = []
        for i in reversed(range(depth)):
            # The transposed convolution must give back the size that the convolution was given.
            high, wide = (sizes[i][k] - (sizes[i + 1][k] - 1) * strides[i] - 1 for k in (0, 1))
            up = nn.ConvTranspose2d(widths[i + 1], widths[i], 3, strides[i], 1, (high, wide))
            last = [up, nn.BatchNorm2d(widths[0]) if output == "norm" else nn.Tanh()]
            decoder += _block(up, widths[i]) if i else last
        self.encoder = nn.Sequential(*encoder)
        self.decoder = nn.Sequential(*decoder)
        self.code_shape: Shape = (channels, *sizes[-1])

    def start_at(self, mean: Tensor, spread: Tensor) -> None:
        """Begin a last BatchNorm at the images' own mean and spread, one number a channel.

        From 0 and 1 it takes a thousand steps to get there, in which nothing else is learned.
        """
        last = self.decoder[-1]
        if isinstance(last, nn.BatchNorm2d):
            with torch.no_grad():
                last.bias.copy_(mean)
                last.weight.copy_(spread)

    def forward(self, images: Tensor) -> Tensor:
        out: Tensor = self.decoder(self.encoder(images))
        return out


def _block(convolution: nn.Module, channels: int) -> list[nn.Module]:
    return [convolution, nn.BatchNorm2d(channels), nn.ReLU()]
