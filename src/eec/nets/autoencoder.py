"""The paper's convolutional autoencoder, `f_r`: an image to a small code and back."""

from __future__ import annotations

import math
import re

import torch
from torch import Tensor, nn
from torch.nn.functional import conv_transpose2d

from eec.errors import UserError
from eec.nets.classifiers import Shape


def parse_code(code: str) -> tuple[int, int]:
    """`"16x8x8"` to 16 channels and a side of 8."""
    match = re.fullmatch(r"(\d+)x(\d+)x(\d+)", code)
    if not match or match[2] != match[3] or int(match[1]) * int(match[2]) == 0:
        raise UserError(f"code {code!r} is not of the form CHANNELSxSIDExSIDE, such as 16x8x8")
    return int(match[1]), int(match[2])


class Enlarged(nn.ConvTranspose2d):
    """A transposed convolution that makes as many rows and columns as it can, and drops the last.

    Where they are not a multiple of the stride (28 pixels halved twice are 7), oneDNN takes up to
    eight times as long in bf16.
    """

    def forward(self, values: Tensor, output_size: list[int] | None = None) -> Tensor:
        most, edge = self.stride[0] - 1, int(self.padding[0])
        high, wide = (more - most for more in self.output_padding)
        if high == wide == 0:
            return super().forward(values, output_size)
        made = conv_transpose2d(values, self.weight, self.bias, self.stride, edge, most)
        last = made.is_contiguous(memory_format=torch.channels_last)
        layout = torch.channels_last if last else torch.contiguous_format
        return made[:, :, : high or None, : wide or None].contiguous(memory_format=layout)


class Autoencoder(nn.Module):
    """3x3 convolutions of 64-32-16 channels with BatchNorm and ReLU, and their mirror image.

    The code of a 32x32 image is 16x4x4 as published, or what `code` asks for: the picture is halved
    as often as brings its short side nearest to the code's (28 pixels and `16x8x8` make 16x7x7);
    larger pictures get more layers of 64 channels in front, so the family stays one.

    `output="norm"` ends in BatchNorm, as published (pixels are clamped when they leave);
    `output="tanh"` ends in a bounded function of a plain convolution, which trains faster.

    `variational`: the encoder ends in a plain convolution to the mean of a distribution of codes,
    and one to its variance, which only training asks for. Codes are the means.
    """

    def __init__(
        self,
        image: Shape,
        code: str = "16x4x4",
        output: str = "norm",
        *,
        variational: bool = False,
    ) -> None:
        super().__init__()
        self.signed = variational  # its codes may be negative: they do not leave a ReLU
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
            if variational and i == depth - 1:
                encoder.append(Gaussian(widths[i], widths[i + 1], stride))
            else:
                encoder += _block(nn.Conv2d(widths[i], widths[i + 1], 3, stride, 1), widths[i + 1])
        decoder: list[nn.Module] = []
        for i in reversed(range(depth)):
            # The transposed convolution must give back the size that the convolution was given.
            high, wide = (sizes[i][k] - (sizes[i + 1][k] - 1) * strides[i] - 1 for k in (0, 1))
            up = Enlarged(widths[i + 1], widths[i], 3, strides[i], 1, (high, wide))
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

    def sampled(self, images: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Images as decoded from codes drawn around their means, and the nats of each: how far its
        distribution is from the standard one (Kullback-Leibler)."""
        last = self.encoder[-1]
        assert isinstance(last, Gaussian)
        mean, log_variance = last.both(self.encoder[:-1](images))
        noise = torch.randn(mean.shape, generator=generator).to(mean)
        decoded: Tensor = self.decoder(mean + noise * (log_variance / 2).exp())
        return decoded, divergence(mean, log_variance)


class Gaussian(nn.Module):
    """Two convolutions of the same features: the mean of each value of a code, and its variance."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.mean = nn.Conv2d(inside, outside, 3, stride, 1)
        self.log_variance = nn.Conv2d(inside, outside, 3, stride, 1)

    def forward(self, features: Tensor) -> Tensor:
        out: Tensor = self.mean(features)
        return out

    def both(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and logarithm of the variance; within bounds, as one step astray would be enough to
        reach infinity."""
        return self.mean(features), self.log_variance(features).clamp(-12, 6)


def divergence(mean: Tensor, log_variance: Tensor) -> Tensor:
    """Nats from the standard normal distribution to these, summed over each image's values."""
    nats = (mean.square() + log_variance.exp() - log_variance - 1) / 2
    return nats.float().sum((1, 2, 3))


def _block(convolution: nn.Module, channels: int) -> list[nn.Module]:
    return [convolution, nn.BatchNorm2d(channels), nn.ReLU()]
