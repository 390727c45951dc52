"""What can be chosen about each method. Free of torch: the shell door reads it for its help."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args, get_origin, get_type_hints

from eec.errors import UserError
from eec.memory.budget import parse_budget

Net = Literal["auto", "tiny", "small", "dcgan", "wgan", "resnet18"]
RecipeName = Literal["fast", "brief", "paper"]
CodecKind = Literal["frozen", "per-task", "warm", "retrained"]
AutoencoderKind = Literal["plain", "variational", "denoising"]
NewImages = Literal["decoded", "real", "both"]
See = Literal["real", "coded"]
Output = Literal["tanh", "norm"]
ContentScale = Literal["normalised", "raw"]
CodeType = Literal["coded", "uint8", "float16", "float32"]
OverBudget = Literal["spread", "concepts", "literal", "drop"]
Linkage = Literal["ward", "centroid", "kmeans"]
Share = Literal["balanced", "paper"]

# What a run takes from its stream: nobody chooses it.
OF_THE_STREAM = ("flip", "turn", "expected")


@dataclass(frozen=True)
class ClassifierOptions:
    """The classifier `D` and its training: the same for every method."""

    net: Net = "auto"
    """Classifier: auto (tiny for grey images, small for colour), dcgan, wgan, resnet18."""
    recipe: RecipeName = "fast"
    """Training lengths and rates: fast; brief (a quarter of the classifier's steps, half of
    the published autoencoder's, to compare many runs); paper (as published, epoch for epoch)."""
    keep_head: bool = True
    """Keep the head's rows of old classes when new ones arrive, or begin the head anew."""
    flip: bool = False
    """Mirror images at random in training; never for digits. `eec run` knows it of each set."""
    turn: int = 0
    """Turn, stretch and slant images at random in training, by up to so many degrees and percent.
    `eec run` knows it of each set."""
    replay_per_epoch: int = 0
    """Images of old classes that `D` is shown an epoch, drawn anew each time, which bounds the time
    that a task takes; 0: all."""
    crop: int = 0
    """Train on random crops of this many pixels a side, judge on the central one; 0: whole images
    (moved by a few pixels in training)."""

    def __post_init__(self) -> None:
        for name, kind in get_type_hints(type(self)).items():
            value, known = getattr(self, name), get_args(kind)
            if get_origin(kind) is Literal and value not in known:
                raise UserError(f"{name} is {value!r}: choose one of {', '.join(known)}")
        if not 0 <= self.turn <= 45:
            raise UserError(f"turn is {self.turn!r}: use 0 to 45 degrees")
        if self.replay_per_epoch < 0:
            raise UserError(
                f"replay_per_epoch is {self.replay_per_epoch!r}: use a number of images, or 0 for "
                "all"
            )


@dataclass(frozen=True)
class EECOptions(ClassifierOptions):
    """EEC's choices (docs/the-gap.md, docs/codec.md); the defaults measured best."""

    codec: CodecKind = "frozen"
    """Autoencoder: frozen (trained on the first task, then kept), per-task (EEC as published), warm
    (per task, each started from the last), retrained (EECS: one, trained again at each task)."""
    autoencoder: AutoencoderKind = "plain"
    """What an autoencoder is trained to be: plain (as published), variational (codes are the means
    of distributions), denoising (images are given to it with noise)."""
    new_images: NewImages = "decoded"
    """How `D` is shown new classes: decoded (like old ones), real (as published), both."""
    detail: bool = True
    """Lend decoded images, half of the time, what the codec loses of new ones, so that real images
    do not surprise `D`. Not with new_images=real: these are coded after `D` has learned."""
    see: See = "real"
    """How `D` is shown images at test time: real, or coded and decoded first."""
    code: str = "auto"
    """Shape of an episode, channels x side x side; auto: 16x8x8, or if coded by the image."""
    output: Output = "tanh"
    """How the decoder ends: tanh, or norm (BatchNorm, as published); coded ones have neither."""
    content: float = 0.7
    """lambda, the content loss's share in the autoencoder's loss."""
    content_scale: ContentScale = "normalised"
    """Content loss: normalised by the features' own size, or raw (as published)."""
    decay: bool = False
    """Weigh decoded images by how much they have decayed (eq. 5): for codecs that change. Under a
    frozen one nothing decays, and the weights would punish classes that are hard."""
    memory: str = "unlimited"
    """What may be kept of old classes: slots (5000: an episode takes one, a concept two), bytes on
    disk (5MB, all but the classifier), or unlimited."""
    over_budget: OverBudget = "spread"
    """Over budget: keep episodes that stand for others (spread), merge into concepts, the same to
    the letter of the paper (literal), or drop at random."""
    linkage: Linkage = "ward"
    """Which episodes become one concept, with over_budget concepts or literal."""
    share: Share = "balanced"
    """An equal share of the budget for each class, or the paper's (eq. 4)."""
    code_type: CodeType = "coded"
    """How codes are kept: coded (by a net trained for it and an entropy coder; its weights are kept
    as bytes), or plain numbers of the published autoencoder (weights as float16, or as float32)."""
    image_bytes: int = 0
    """Bytes that an image may take on average, with coded; 0: as memory allows."""
    expected: int = 0
    """Training images that will come in all, to divide a budget in bytes by; 0: not known.
    `eec run` knows it."""
    codec_refresh: bool = False
    """Train the codec again, and encode memory anew, when it keeps a later task badly."""
    keep_real: float = 0.0
    """Share of each class's real images that is kept on top of the episodes: not strict if any."""
    distil: float = 1.0
    """How much `D` is to go on saying what it said before of the classes that it knew, times the
    share of old images that memory has let go: nothing where all are kept."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_distil(self.distil)
        if not 0 <= self.content <= 1:
            raise UserError(f"content is {self.content!r}: use a share from 0 to 1")
        if not 0 <= self.keep_real <= 1:
            raise UserError(f"keep_real is {self.keep_real!r}: use a share from 0 to 1")
        parse_budget(self.memory)
        if self.autoencoder == "variational" and self.code_type == "coded":
            raise UserError(
                "autoencoder=variational is for plain codes, as rounding is the noise of coded "
                "ones: use code_type=uint8, or autoencoder=plain"
            )
        if self.image_bytes < 0:
            raise UserError(
                f"image_bytes is {self.image_bytes!r}: use 1 or more, or 0 for as many "
                "as memory allows"
            )
        if self.image_bytes and self.code_type != "coded":
            raise UserError("image_bytes is for coded episodes: use code_type=coded")
        if self.output == "norm" and self.code_type == "coded":
            raise UserError("output=norm is for plain codes: use code_type=uint8, or output=tanh")
        if self.codec_refresh and self.codec != "frozen":
            raise UserError("codec_refresh is for a frozen codec: use codec=frozen")
        if self.see == "coded" and self.codec in ("per-task", "warm"):
            raise UserError(
                "see=coded needs one codec for all tasks: use codec=frozen or codec=retrained"
            )


@dataclass(frozen=True)
class GANOptions(ClassifierOptions):
    """EEC with a conditional GAN for each task in place of an autoencoder and its codes."""

    new_images: NewImages = "decoded"
    """How `D` is shown new classes: decoded (generated, like old ones), real (as published), both.
    """
    decay: bool = True
    """Weigh generated images by how well they are recognised (eq. 5)."""


@dataclass(frozen=True)
class ExemplarOptions(ClassifierOptions):
    """Real images of old classes, within a budget."""

    memory: str = "unlimited"
    """What may be kept of old classes: slots (5000: so many images), bytes on disk (5MB, all but
    the classifier), or unlimited."""
    expected: int = 0
    """Training images that will come in all, to divide a budget in bytes by; 0: not known.
    `eec run` knows it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        parse_budget(self.memory)


@dataclass(frozen=True)
class ReplayOptions(ExemplarOptions):
    """The same, shown as often as they stand for others."""

    distil: float = 1.0
    """How much `D` is to go on saying what it said before of the classes that it knew, times the
    share of old images that memory has let go: nothing where all are kept."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_distil(self.distil)


@dataclass(frozen=True)
class CompressedReplayOptions(ReplayOptions):
    """The same, compressed."""

    new_images: NewImages = "decoded"
    """How `D` is shown new classes: decoded (compressed and decompressed like old ones), real, or
    both."""
    detail: bool = True
    """Lend images out of memory, half of the time, what compression takes from new ones, so that
    real images do not surprise `D`. Not with new_images=real."""
    quality: int = 0
    """Quality of compression, 1 to 100; 0: the best at which all images fit a budget in bytes."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.quality <= 100:
            raise UserError(
                f"quality is {self.quality!r}: use 1 to 100, or 0 to have it chosen by the budget"
            )


def _check_distil(value: float) -> None:
    if not 0 <= value < math.inf:
        raise UserError(f"distil is {value!r}: use 0 or more, such as 1")


PUBLISHED = EECOptions(
    net="dcgan",
    codec="per-task",
    new_images="real",
    detail=False,
    code="16x4x4",
    output="norm",
    content_scale="raw",
    decay=True,
    over_budget="literal",
    linkage="centroid",
    share="paper",
    code_type="float32",
    distil=0.0,
)
