"""Algorithm 1: an autoencoder trained with a content loss, judged before it is used.

A codec turns uint8 images into codes and codes into uint8 images. Its net is the published
autoencoder or, for codes that are stored by an entropy coder, the compressor, which is trained for
rate and distortion together.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass

import torch
from torch import Tensor
from torch.nn.functional import mse_loss

from eec.memory.codes import Packing
from eec.memory.entropy import IntegerPrior, cost
from eec.memory.weights import round_weights
from eec.nets.autoencoder import Autoencoder
from eec.nets.classifiers import Classifier, Shape, shape_of
from eec.nets.compressor import CHANNELS, LEVELS, WIDTH, Compressor
from eec.training.batches import Batches, to_float, to_uint8
from eec.training.journal import Journal
from eec.training.loop import Progress, apply, quiet, train
from eec.training.recipes import Plan
from eec.training.runtime import Runtime, generator, seeded

Warn = Callable[[str], None]
CodecNet = Autoencoder | Compressor

# A net that leaves more of the pixels' variance unexplained than this is surely starved. Less is no
# promise: with real new images on MNIST, A_10 fell to 70 where 5 % was lost (docs/the-gap.md).
STARVED = 0.15
# Beyond this more steps do not help: training went astray, and another start is needed.
DIVERGED = 0.6
# The share of what `D` recognised in the originals that it must recognise in the reconstructions.
RECOGNISED = 0.8
ATTEMPTS = 3
FEATURE_CACHE_BYTES = 1 << 30
# Codes are no finer than to lose this share of the pixels' variance.
NEXT_TO_NOTHING = 0.01
# From this on the codec is said to keep a later task badly: twice the cost of its own images.
DRIFTED = 2.0
# What a byte for 32x32 pixels may cost in squared error at the finest step of codes of CHANNELS; it
# grows with the square of the step, as the error of rounding does.
BYTE_WEIGHT = 1.5e-5
# Noise of a denoising autoencoder, on pixels in -1..1.
NOISE = 0.25
# What a nat of a variational code costs, shared by all values of an image: twice the variance that
# is taken for noise in a pixel.
NAT_WEIGHT = 0.1
# Coarse steps have the larger losses: each counts less by this power of its step.
STEP_BALANCE = 1.3


@dataclass(frozen=True)
class Quality:
    """How an autoencoder was judged on the images it was trained for."""

    pixel_error: float  # mean square, pixels in -1..1
    unexplained: float  # the same as a share of the pixels' variance
    recognised: float | None  # percent of reconstructions that `D` calls by their name
    recognised_real: float | None  # the same of the originals
    bytes: float | None = None  # that one takes on average, if coded

    @property
    def diverged(self) -> bool:
        return not self.unexplained <= DIVERGED  # NaN too

    @property
    def good(self) -> bool:
        if self.recognised is None or self.recognised_real is None:
            return self.unexplained <= STARVED
        seen = self.recognised >= RECOGNISED * self.recognised_real
        return self.unexplained <= STARVED and seen

    def __str__(self) -> str:
        text = f"{100 * self.unexplained:.0f} % of the pixels' variance is lost"
        if self.recognised is not None:
            text += (
                f", and the classifier recognises {self.recognised:.0f} % of the reconstructions "
                f"but {self.recognised_real:.0f} % of the originals"
            )
        return text

    def record(self) -> dict[str, object]:
        return {**asdict(self), "good": self.good}


@dataclass(frozen=True)
class CodecOptions:
    """What an autoencoder is and what it is trained for."""

    code: str
    output: str  # of the decoder: norm, as published, or tanh
    content: float  # lambda, the share of the content loss
    content_scale: str  # raw, as published, or normalised by the features' own size
    type: str = "float32"  # how codes are kept; `coded` has a net of its own
    flip: bool = False  # the images may be mirrored
    kind: str = "plain"  # or variational, or denoising
    width: int = WIDTH  # of the compressor: channels inside
    channels: int = CHANNELS  # of its codes, if `code` is auto

    @property
    def coded(self) -> bool:
        return self.type == "coded"


class Codec:
    """An autoencoder in use. One that was read back without its encoder can only decode."""

    def __init__(
        self,
        net: CodecNet,
        runtime: Runtime,
        steps: int = 0,
        attempts: int = 0,
        level: int = 0,
        reference: float = 0.0,
    ) -> None:
        self.net = runtime.place(net).eval()
        self.runtime = runtime
        self.steps, self.attempts = steps, attempts  # that its training took
        self.encodes = True
        self.level = level  # of coarseness of the codes in memory; compressors only
        self.signed = net.signed  # codes may be negative
        self.prior = IntegerPrior.of(net.prior) if isinstance(net, Compressor) else None
        self.reference = reference  # what an image that it was trained on costs, see `drift`
        self.written: Tensor | None = None  # its weights as the file has them, once they are there

    def encode(self, images: Tensor) -> Tensor:
        """uint8 images to codes [N, C, h, w], float32 on the CPU."""
        assert self.encodes, "this codec was stored without its encoder"
        codes = apply(lambda part: self.net.encoder(_floats(part)).float(), images, self.runtime)
        return codes.contiguous()

    def decode(self, codes: Tensor) -> Tensor:
        """Codes to uint8 images on the CPU."""
        images = apply(lambda part: to_uint8(self.net.decoder(_last(part))), codes, self.runtime)
        return images.contiguous()

    def __call__(self, images: Tensor) -> Tensor:
        """Images as memory will show them: coded, rounded where codes are whole, and decoded."""
        codes = self.encode(images)
        if self.prior is not None:
            packing = Packing("coded", level=self.level)
            codes = packing.unpack(packing.pack(codes))
        return self.decode(codes)

    def bytes_of(self, images: Tensor, level: int) -> float | None:
        """What one of these takes on average, if coded."""
        return None if self.prior is None else self.bytes_of_codes(self.encode(images), level)

    def bytes_of_codes(self, codes: Tensor, level: int) -> float:
        """The same for float codes."""
        assert self.prior is not None, "codes of this codec all take the same"
        symbols = Packing("coded", level=level).pack(codes)
        return float(cost(self.prior, symbols.numpy(), level).mean())


def _last(batch: Tensor) -> Tensor:
    return batch.contiguous(memory_format=torch.channels_last)


def _floats(images: Tensor) -> Tensor:
    return _last(to_float(images))


def train_codec(
    images: Tensor,
    options: CodecOptions,
    plan: Plan,
    runtime: Runtime,
    seed: int,
    *,
    classifier: Classifier | None = None,
    targets: Tensor | None = None,
    start: CodecNet | None = None,
    progress: Progress = quiet,
    journal: Journal | None = None,
    warn: Warn = print,
) -> Codec:
    """Train an autoencoder on a task's images until it is fit to be their only memory.

    `classifier` is `D`, frozen, for the content loss and the judgement; None where it has not
    learned anything yet. A starved net is trained on, a diverged one begun anew.
    """
    net = _begin(images, options, runtime, seed, start)
    best: tuple[float, Codec, Quality] | None = None
    steps = 0
    for attempt in range(ATTEMPTS):
        again = seed + attempt
        steps += _fit(net, images, options, plan, runtime, again, classifier, progress, journal)
        _settle(net, options)
        codec = Codec(net, runtime)
        quality = judge(codec, images, classifier, targets)
        lost = math.inf if math.isnan(quality.unexplained) else quality.unexplained
        if best is None or quality.good or lost <= best[0]:  # good is more than few errors
            best = (lost, codec, quality)
        if quality.good:
            break
        net = _begin(images, options, runtime, again + 1, None if quality.diverged else net)
    assert best is not None
    _, codec, quality = best
    codec.steps, codec.attempts = steps, attempt + 1
    codec.reference = _cost(codec, images)
    if codec.prior is not None:
        codec.level = _fine_enough(codec, images)
    if not quality.good:
        warn(
            f"The autoencoder stayed poor after {ATTEMPTS} attempts ({steps} steps): {quality}; "
            "expect these classes to be forgotten sooner (a larger code, or more images, may help)."
        )
    return codec


def _settle(net: CodecNet, options: CodecOptions) -> None:
    """Round what was learned to what will be kept, so that nothing changes by saving it."""
    for part in (net.encoder, net.decoder):
        round_weights(part, options.type)
    if isinstance(net, Compressor):
        IntegerPrior.of(net.prior).put_into(net.prior)


def _begin(
    images: Tensor,
    options: CodecOptions,
    runtime: Runtime,
    seed: int,
    start: CodecNet | None,
) -> CodecNet:
    if start is not None:
        return copy.deepcopy(start)
    with seeded(seed):
        net = new_autoencoder(shape_of(images), options)
    pixels = to_float(images[:1000])
    net.start_at(pixels.mean((0, 2, 3)), pixels.std((0, 2, 3), correction=0))
    return runtime.place(net)


def new_autoencoder(image: Shape, options: CodecOptions) -> CodecNet:
    if options.coded:
        return Compressor(image, options.code, options.width, options.channels)
    code = "16x8x8" if options.code == "auto" else options.code
    return Autoencoder(image, code, options.output, variational=options.kind == "variational")


def _fit(
    net: CodecNet,
    images: Tensor,
    options: CodecOptions,
    plan: Plan,
    runtime: Runtime,
    seed: int,
    classifier: Classifier | None,
    progress: Progress,
    journal: Journal | None,
) -> int:
    content = None
    if classifier is not None and options.content > 0:
        normalised = options.content_scale == "normalised"
        # Images that are mirrored and patched are not those whose features could be kept.
        content = ContentLoss(classifier, images, runtime, normalised, keep=not options.coded)
    share = options.content if content is not None else 0.0

    def distortion(decoded: Tensor, batch: Tensor, index: Tensor) -> Tensor:
        """Of each image."""
        pixels = (decoded.float() - batch).square().mean((1, 2, 3))
        if content is None:
            return pixels
        return (1 - share) * pixels + share * content(decoded, batch, index)

    rng = generator(seed, "autoencoder")
    byte = _byte_weight(net, images)

    def plain_loss(net: Autoencoder, batch: Tensor, index: Tensor) -> Tensor:
        if options.kind == "variational":
            decoded, nats = net.sampled(batch, rng)
            away = distortion(decoded, batch, index) + NAT_WEIGHT * nats / batch[0].numel()
        else:
            away = distortion(net(given(batch)), batch, index)
        return away.mean()

    def given(batch: Tensor) -> Tensor:
        """What the encoder is to see of these."""
        if options.kind != "denoising":
            return batch
        return batch + NOISE * torch.randn(batch.shape, generator=rng).to(batch)

    def loss(batch: Tensor, index: Tensor) -> Tensor:
        if isinstance(net, Autoencoder):
            return plain_loss(net, batch, index)
        batch = patched(batch, rng)
        # Each image with a step of its own: one net then serves all.
        octaves = torch.rand(len(batch), generator=rng).to(batch.device) * ((LEVELS - 1) / 4)
        step = 2**octaves
        decoded, size = net(given(batch), step[:, None, None, None], rng)
        cost = distortion(decoded, batch, index) + byte * step**2 * size
        balanced: Tensor = (cost / step**STEP_BALANCE).mean()
        return balanced

    batches = Batches(images.to(runtime.device), flip=options.flip and options.coded)
    plan = plan.for_pixels(images.shape[2] * images.shape[3])
    return train(net, batches, loss, plan, runtime, rng, progress, journal)


def patched(batch: Tensor, generator: torch.Generator) -> Tensor:
    """Every image with a piece of another one, from elsewhere in it.

    A codec that is trained on one class is to keep others: pieces in new places make shapes that
    the class does not have. On MNIST a codec of zeros and ones lost a third as much of the other
    digits; on CIFAR-10 it made no difference.
    """

    def draw(most: int) -> int:
        return int(torch.randint(0, most + 1, (), generator=generator))

    height, width = batch.shape[2:]
    high, wide = 1 + draw(3 * height // 4), 1 + draw(3 * width // 4)
    here, there = ((draw(height - high), draw(width - wide)) for _ in range(2))
    others = batch[torch.randperm(len(batch), generator=generator)]
    made = batch.clone(memory_format=torch.channels_last)
    piece = others[:, :, there[0] : there[0] + high, there[1] : there[1] + wide]
    made[:, :, here[0] : here[0] + high, here[1] : here[1] + wide] = piece
    return made


class ContentLoss:
    """`|f_c(x) - f_c(x~)|^2`, the distance of two images as the classifier's convolutions see them.

    The features of the real images do not change while the autoencoder trains: they are computed
    once where they fit into memory. Raw features can have any scale and drown the pixel error
    (those of a young classifier do); normalised, they count as a share of their own mean square.
    """

    def __init__(
        self,
        classifier: Classifier,
        images: Tensor,
        runtime: Runtime,
        normalised: bool,
        *,
        keep: bool = True,
    ) -> None:
        self.classifier = classifier.eval().requires_grad_(False)
        sample = self._features(images[:256], runtime)
        self.scale = float(sample.square().mean().clamp_min(1e-8)) if normalised else 1.0
        size = sample[0].numel() * 4 * len(images)
        keep = keep and size <= FEATURE_CACHE_BYTES
        self.real = self._features(images, runtime) if keep else None
        self.device = runtime.device

    def _features(self, images: Tensor, runtime: Runtime) -> Tensor:
        return apply(lambda part: self.classifier.features(_floats(part)).float(), images, runtime)

    def __call__(self, decoded: Tensor, real: Tensor, index: Tensor) -> Tensor:
        """Of each image."""
        if self.real is not None:
            wanted = self.real[index].to(self.device)
        else:
            with torch.no_grad():
                wanted = self.classifier.features(real).float()
        away = self.classifier.features(decoded).float() - wanted
        return away.square().flatten(1).mean(1) / self.scale


def judge(
    codec: Codec,
    images: Tensor,
    classifier: Classifier | None,
    targets: Tensor | None,
) -> Quality:
    """Pixel error, and the share of reconstructions that `D` recognises, on up to 1,000 images."""
    chosen = torch.linspace(0, len(images) - 1, min(len(images), 1000)).round().long()
    real = images[chosen]
    decoded = codec(real)
    error = mse_loss(to_float(decoded), to_float(real)).item()
    if not all(weight.isfinite().all() for weight in codec.net.state_dict().values()):
        error = math.nan  # clamped to a uint8 image, a diverged net could pass for a grey one
    variance = max(to_float(real).var(correction=0).item(), 1e-3)
    recognised = recognised_real = None
    if classifier is not None and targets is not None:

        def share(pictures: Tensor) -> float:
            calls = apply(lambda part: classifier(_floats(part)).argmax(1), pictures, codec.runtime)
            return 100 * (calls == targets[chosen]).float().mean().item()

        recognised, recognised_real = share(decoded), share(real)
    size = codec.bytes_of(real[:: max(1, len(real) // 200)], codec.level)
    return Quality(error, error / variance, recognised, recognised_real, size)


def _fine_enough(codec: Codec, images: Tensor) -> int:
    """The coarsest level that loses next to nothing, or the finest."""
    low, high = 0, LEVELS - 1
    while low < high:
        codec.level = (low + high + 1) // 2
        if judge(codec, images, None, None).unexplained <= NEXT_TO_NOTHING:
            low = codec.level
        else:
            high = codec.level - 1
    return low


def drift(codec: Codec, images: Tensor) -> float:
    """How much more these images cost than those that the codec was trained on."""
    return _cost(codec, images) / max(codec.reference, 1e-6)


def _cost(codec: Codec, images: Tensor) -> float:
    """Squared error, and bytes if coded, at the finest step, of up to 200 images."""
    some = images[torch.linspace(0, len(images) - 1, min(len(images), 200)).round().long()]
    level, codec.level = codec.level, 0
    try:
        error = mse_loss(to_float(codec(some)), to_float(some)).item()
    finally:
        codec.level = level
    size = codec.bytes_of(some, 0)
    return error if size is None else error + _byte_weight(codec.net, some) * size


def _byte_weight(net: CodecNet, images: Tensor) -> float:
    if not isinstance(net, Compressor):
        return 0.0
    return BYTE_WEIGHT / 4**net.finer * 32 * 32 / (images.shape[2] * images.shape[3])
