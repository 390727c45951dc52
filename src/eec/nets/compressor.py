"""A rate-distortion autoencoder: codes of whole numbers, and a prior that says how likely each is.

Two transforms with divisive normalisation (GDN), shallow, because on two cores many cheap steps
beat few dear ones, and because their weights are kept beside the codes. Codes are divided by a step
and rounded; a larger step makes coarser codes in fewer bytes, and one net serves all steps, since
it is trained with all of them. The prior predicts each symbol's mean and scale from symbols that
are known by then: linear, so that it can be computed in whole numbers, exactly alike everywhere.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, pad, pixel_shuffle, softplus

from eec.errors import UserError
from eec.nets.autoencoder import Enlarged, parse_code
from eec.nets.classifiers import Shape

LEVELS = 15  # of coarseness: steps of 1 to 11.3, in quarters of an octave
CHANNELS = 32  # of a code
# Of a code that is to keep fine detail. With 32 channels for a patch of 8x8 pixels most directions
# are lost at any step: a classifier never sees them in training, and real images have them all.
FINE_CHANNELS = 64
WIDTH = 48  # channels inside: of 96, twice as dear in time and bytes, little more came
SMALLEST_SCALE = 0.06  # of a symbol's distribution: below it a symbol costs nothing anyway


def step_of(level: int) -> float:
    """What one unit of a symbol means at a level of coarseness, 0 to LEVELS - 1."""
    return float(2.0 ** (level / 4))


class Normalisation(nn.Module):
    """GDN: a channel is divided by a weighted sum of the sizes of all; or multiplied, to undo."""

    def __init__(self, channels: int, *, undo: bool = False) -> None:
        super().__init__()
        self.undo = undo
        self.offset = nn.Parameter(torch.ones(channels))
        self.weight = nn.Parameter(0.1 * torch.eye(channels)[:, :, None, None])

    def forward(self, values: Tensor) -> Tensor:
        size = conv2d(values.abs(), self.weight.abs(), self.offset.abs() + 1e-3)
        return values * size if self.undo else values / size


class BlocksToImage(nn.ConvTranspose2d):
    """A transposed convolution to few channels, computed as an ordinary one to blocks of pixels.

    With a kernel of twice the stride, each block of the image depends on four positions. What comes
    out is the same; on a CPU it takes a third of the time.
    """

    def forward(self, values: Tensor, output_size: list[int] | None = None) -> Tensor:
        assert self.bias is not None and output_size is None
        side, edge, more = self.stride[0], int(self.padding[0]), self.output_padding
        high, wide = (side * (values.shape[2 + k] + 1) - 2 * edge + more[k] for k in (0, 1))
        inside, channels = self.weight.shape[:2]
        # [in, out, 2, side, 2, side] to [out x side x side, in, 2, 2]: convolutions do not flip.
        weight = self.weight.view(inside, channels, 2, side, 2, side).flip(2, 4)
        weight = weight.permute(1, 3, 5, 0, 2, 4).reshape(-1, inside, 2, 2)
        made = pixel_shuffle(conv2d(values, weight, padding=1), side)
        made = pad(made, (-edge, edge + wide - made.shape[3], -edge, edge + high - made.shape[2]))
        return made + self.bias[:, None, None]


class Prior(nn.Module):
    """The distribution of every symbol: a Laplace whose mean and scale follow from its context.

    The context is what was coded before: the position above with its two neighbours, the one to the
    left, and the channels before it at its own position. The scale is a sum of sizes with positive
    weights: where the picture is busy, symbols are expected to be large, also in pictures of a kind
    that was never seen.
    """

    mask: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        mask = torch.ones(channels, channels, 3, 3)
        mask[:, :, 2] = 0
        mask[:, :, 1, 2] = 0
        mask[:, :, 1, 1] = torch.ones(channels, channels).tril(-1)
        self.register_buffer("mask", mask, persistent=False)
        self.mean_weight = nn.Parameter(torch.zeros_like(mask))
        self.mean_offset = nn.Parameter(torch.zeros(channels))
        self.scale_weight = nn.Parameter(torch.full_like(mask, 1e-3))
        self.scale_offset = nn.Parameter(torch.ones(channels))

    def forward(self, symbols: Tensor, step: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and scale of each symbol, in units of the step [B, 1, 1, 1]."""
        mean = conv2d(symbols, self.mean_weight * self.mask, padding=1)
        scale = conv2d(symbols.abs(), self.scale_weight.abs() * self.mask, padding=1)
        mean = mean + self.mean_offset[:, None, None] / step
        scale = scale + softplus(self.scale_offset)[:, None, None] / step
        return mean, scale.clamp_min(SMALLEST_SCALE)


def laplace_bits(values: Tensor, mean: Tensor, scale: Tensor) -> Tensor:
    """What it takes to tell a value to the nearest whole number."""
    away = (values - mean).abs()
    share = _below(0.5 - away, scale) - _below(-0.5 - away, scale)
    return -torch.log2(share.clamp_min(1e-9))


def _below(values: Tensor, scale: Tensor) -> Tensor:
    """Cumulative distribution of a Laplace around 0."""
    return 0.5 - 0.5 * values.sign() * torch.expm1(-values.abs() / scale)


class Compressor(nn.Module):
    """Images of 8 to a few hundred pixels to codes and back.

    A 32x32 image becomes 4x4 positions of `channels` numbers: a wide convolution of stride 4 (2 for
    images under 24 pixels), then one of stride 2, and another one for images over 64 pixels. `code`
    gives other `channels` or is `auto`; the side follows from the image.
    """

    signed = True  # its codes may be negative

    def __init__(
        self, image: Shape, code: str = "auto", width: int = WIDTH, channels: int = CHANNELS
    ) -> None:
        super().__init__()
        short = min(image[1:])
        if short < 4:
            raise UserError(f"images of {image[1]}x{image[2]} are too small to be coded: use 4x4")
        first = 4 if short >= 24 else 2
        strides = [first, 2] if short <= 64 else [first, 2, 2]
        sizes = [image[1:]]
        for stride in strides:
            reach = 0 if stride == first and len(sizes) == 1 else stride - 1
            high, wide = ((side + reach) // stride for side in sizes[-1])
            sizes.append((high, wide))
        if code != "auto":
            channels, side = parse_code(code)
            if side != min(sizes[-1]):
                raise UserError(
                    f"code {code}: images of {image[1]}x{image[2]} are coded to a side of "
                    f"{min(sizes[-1])} with code-type coded: use {channels}x{min(sizes[-1])}x"
                    f"{min(sizes[-1])}, or auto"
                )
        widths = [image[0], *[width] * (len(strides) - 1), channels]
        encoder: list[nn.Module] = []
        decoder: list[nn.Module] = []
        for i, stride in enumerate(strides):
            # The first sees twice its stride, for soft edges between patches; the others 3x3.
            kernel, edge = (2 * stride, stride // 2) if i == 0 else (3, 1)
            down = nn.Conv2d(widths[i], widths[i + 1], kernel, stride, edge)
            back = [(sizes[i + 1][k] - 1) * stride + kernel - 2 * edge for k in (0, 1)]
            rest = (sizes[i][0] - back[0], sizes[i][1] - back[1])
            kind = BlocksToImage if i == 0 else Enlarged
            up = kind(widths[i + 1], widths[i], kernel, stride, edge, rest)
            last = i == len(strides) - 1
            encoder += [down] if last else [down, Normalisation(width)]
            decoder = ([up] if i == 0 else [up, Normalisation(width, undo=True)]) + decoder
        self.encoder = nn.Sequential(*encoder)
        self.decoder = nn.Sequential(*decoder)
        self.prior = Prior(channels)
        self.code_shape: Shape = (channels, *sizes[-1])
        # Octaves by which its steps are finer than those of CHANNELS: more channels are for more
        # detail, and where a byte is dear they would stay empty.
        self.finer = max(0.0, math.log2(channels / CHANNELS))

    def start_at(self, mean: Tensor, spread: Tensor) -> None:
        """Begin with the images' own mean colour."""
        last = self.decoder[-1]
        assert isinstance(last, nn.ConvTranspose2d) and last.bias is not None
        with torch.no_grad():
            last.bias.copy_(mean)

    def forward(
        self, images: Tensor, step: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """Images as decoded, and the bytes of each; `step` is [B, 1, 1, 1].

        Rounding has no gradient: the decoder and the context see rounded symbols as if rounding
        were nothing, the rate is that of symbols with noise of the same size.
        """
        codes = self.encoder(images) / step
        symbols = codes + (codes.round() - codes).detach()
        mean, scale = self.prior(symbols, step)
        noise = torch.rand(codes.shape, generator=generator).to(codes) - 0.5
        size = laplace_bits(codes + noise, mean, scale).sum((1, 2, 3)) / 8
        return _within(self.decoder(symbols * step)), size


def _within(images: Tensor) -> Tensor:
    """Clamped, as images leave the decoder; with a little of the gradient from outside.

    Black may then be darker than black: noise on it vanishes, and with it a trace of the codec.
    """
    inside = images.clamp(-1, 1)
    return inside + 0.01 * (images - inside)
