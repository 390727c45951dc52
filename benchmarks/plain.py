"""The plain way of the same work: what most people would write, for `speed.py` to compare with.

Images are PIL pictures, changed one at a time in a Dataset and gathered by a DataLoader; nets are
float32 in the default memory format; optimisers and batch sizes of evaluation are torch's defaults
and the training's. Nets, losses, steps and learning rates are those of the package.
"""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss
from torch.utils.data import DataLoader, Dataset, TensorDataset

from eec.memory.codec import BYTE_WEIGHT, STEP_BALANCE
from eec.methods.eec import EECMethod
from eec.nets.autoencoder import Autoencoder
from eec.nets.classifiers import Classifier
from eec.nets.compressor import LEVELS, Compressor, step_of
from eec.training.muon import Muon, MuonAdam, filters_of
from eec.training.recipes import Plan

Batch = list[Tensor]  # images, targets, weights
Loss = Callable[[Batch], Tensor]
Net = TypeVar("Net", bound=nn.Module)


def to_picture(image: Tensor) -> Image.Image:
    """A uint8 tensor [C, H, W]."""
    pixels = image.permute(1, 2, 0).numpy()
    return Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)


def to_tensor(picture: Image.Image) -> Tensor:
    """Floats in -1..1."""
    pixels = np.asarray(picture, dtype=np.float32) / 127.5 - 1
    tensor = torch.from_numpy(pixels)
    return tensor[None] if tensor.ndim == 2 else tensor.permute(2, 0, 1)


class Pictures(Dataset[tuple[Tensor, int, float]]):
    """One picture at a time: padded, cropped and turned at random, then made a tensor."""

    def __init__(
        self,
        pictures: Sequence[Image.Image],
        targets: Sequence[int],
        weights: Sequence[float] | None = None,
        *,
        crop: int = 0,
        turn: int = 0,
    ) -> None:
        self.pictures, self.targets = pictures, targets
        self.weights = [1.0] * len(targets) if weights is None else weights
        self.crop, self.turn = crop, turn

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, index: int) -> tuple[Tensor, int, float]:
        picture = self.pictures[index]
        if self.crop:
            wide, high = picture.size
            left, top = random.randint(0, 2 * self.crop), random.randint(0, 2 * self.crop)
            picture = ImageOps.expand(picture, self.crop)
            picture = picture.crop((left, top, left + wide, top + high))
        if self.turn:
            picture = turned(picture, self.turn)
        return to_tensor(picture), self.targets[index], self.weights[index]


def turned(picture: Image.Image, most: int) -> Image.Image:
    """Turned, slanted and stretched around the middle, as the package does it to batches."""
    turn, slant = (math.radians(random.uniform(-most, most)) for _ in range(2))
    wide, high = (1 + random.uniform(-most, most) / 100 for _ in range(2))
    x, y = picture.width / 2, picture.height / 2
    a, b = math.cos(turn) * wide, (slant - math.sin(turn)) * high
    d, e = math.sin(turn) * wide, math.cos(turn) * high
    way = (a, b, x - a * x - b * y, d, e, y - d * x - e * y)
    return picture.transform(picture.size, Image.Transform.AFFINE, way, Image.Resampling.BILINEAR)


def train(net: nn.Module, data: Pictures, plan: Plan, loss: Loss, workers: int = 0) -> None:
    weights = [w for w in net.parameters() if w.requires_grad]
    optimizer = _optimizer(net, weights, plan)
    total = plan.total_steps(len(data))
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: plan.rate_at(min(step, total - 1), len(data)) / plan.rate
    )
    # Workers that stay: started anew for each epoch, as by default, they would take most of the
    # time of epochs as short as these.
    kept = workers > 0
    loader = DataLoader(
        data, plan.batch, shuffle=True, num_workers=workers, persistent_workers=kept
    )
    net.train()
    done = 0
    while done < total:
        for batch in loader:
            optimizer.zero_grad()
            value = loss(batch)
            value.backward()
            if plan.clip is not None:
                nn.utils.clip_grad_norm_(weights, plan.clip)
            optimizer.step()
            scheduler.step()
            done += 1
            if done == total:
                break
    net.eval()


def _optimizer(net: nn.Module, weights: list[nn.Parameter], plan: Plan) -> torch.optim.Optimizer:
    if plan.optimizer == "adam":
        return torch.optim.Adam(weights, plan.rate)
    if plan.optimizer == "muon-adam":
        return MuonAdam(weights, filters=filters_of(net), lr=plan.rate)
    kind = Muon if plan.optimizer == "muon" else torch.optim.SGD
    return kind(weights, plan.rate, plan.momentum, weight_decay=plan.weight_decay, nesterov=True)


def classifier_loss(net: Classifier) -> Loss:
    def loss(batch: Batch) -> Tensor:
        images, targets, weights = batch
        losses: Tensor = cross_entropy(net(images), targets, reduction="none")
        return (losses * weights.float()).mean()

    return loss


def autoencoder_loss(net: Autoencoder, classifier: Classifier, share: float, scale: float) -> Loss:
    """Pixels and content, the latter with the features of the real images computed each time."""

    def loss(batch: Batch) -> Tensor:
        images = batch[0]
        decoded = net(images)
        with torch.no_grad():
            wanted = classifier.features(images)
        content = mse_loss(classifier.features(decoded), wanted) / scale
        return (1 - share) * mse_loss(decoded, images) + share * content

    return loss


def compressor_loss(net: Compressor, generator: torch.Generator) -> Loss:
    """Rate and distortion, at a random step for each image; a piece of another one in each."""

    def loss(batch: Batch) -> Tensor:
        images = batch[0]
        height, width = images.shape[2:]
        high, wide = random.randint(1, 3 * height // 4), random.randint(1, 3 * width // 4)
        top, left, up, aside = (
            random.randint(0, room) for room in (height - high, width - wide) * 2
        )
        made = images.clone()
        others = images[torch.randperm(len(images))]
        piece = others[:, :, up : up + high, aside : aside + wide]
        made[:, :, top : top + high, left : left + wide] = piece
        step = 2 ** (torch.rand(len(images)) * (LEVELS - 1) / 4)
        decoded, size = net(made, step[:, None, None, None], generator)
        pixels = (decoded - made).square().mean((1, 2, 3))
        byte = BYTE_WEIGHT * 32 * 32 / (height * width)
        value: Tensor = ((pixels + byte * step**2 * size) / step**STEP_BALANCE).mean()
        return value

    return loss


@torch.no_grad()
def decode(decoder: nn.Module, codes: Tensor, batch: int) -> list[Image.Image]:
    pictures = []
    for (part,) in DataLoader(TensorDataset(codes), batch):
        for image in decoder(part):
            pixels = ((image.clamp(-1, 1) + 1) * 127.5).round().to(torch.uint8)
            pictures.append(to_picture(pixels))
    return pictures


@torch.no_grad()
def encode(encoder: nn.Module, pictures: Sequence[Image.Image], batch: int) -> Tensor:
    loader = DataLoader(Pictures(pictures, [0] * len(pictures)), batch)
    return torch.cat([encoder(images) for images, _, _ in loader])


@torch.no_grad()
def evaluate(net: Classifier, data: Pictures, batch: int, workers: int = 0) -> float:
    """Percent that is called by its name."""
    net.eval()
    right = 0
    for images, targets, _ in DataLoader(data, batch, num_workers=workers):
        right += int((net(images).argmax(1) == targets).sum())
    return 100 * right / len(data)


@dataclass
class Learner:
    """What a method has learned so far, in the plain layout: nets, and codes of old classes."""

    classifier: Classifier
    encoder: nn.Module
    decoder: nn.Module
    step: float  # of codes
    memory: dict[int, Tensor]  # class index -> float codes
    originals: dict[int, float]  # class index -> accuracy of `D` on its real images

    @classmethod
    def of(cls, method: EECMethod) -> Learner:
        """The same as `method`, after tasks of one class each."""
        assert method.classifier is not None
        codec = method.memory.codec_of(method.tasks)
        packings = method.memory.packings
        return cls(
            default_layout(method.classifier),
            default_layout(codec.net.encoder),
            default_layout(codec.net.decoder),
            step_of(codec.level),
            {k.target: packings[k.task].unpack(k.codes) for k in method.memory.kept},
            {part.target: method.originals[part.task] for part in method.memory.kept},
        )

    def learn(
        self, images: Tensor, target: int, plan: Plan, crop: int, turn: int, workers: int = 0
    ) -> None:
        """One increment of one new class, step by step as in `methods/eec.py`; codes stay floats,
        nothing is weighed in bytes, and nobody looks on."""
        batch = plan.batch
        mixture: list[Image.Image] = []
        targets: list[int] = []

        def add(pictures: list[Image.Image], name: int) -> None:
            mixture.extend(pictures)
            targets.extend([name] * len(pictures))

        for old, codes in self.memory.items():
            add(decode(self.decoder, codes, batch), old)
        real = [to_picture(image) for image in images]
        codes = encode(self.encoder, real, batch)
        codes = (codes / self.step).round() * self.step
        self.memory[target] = codes
        shown = decode(self.decoder, codes, batch)
        add(shown, target)
        self.classifier.grow(target + 1)
        data = Pictures(mixture, targets, crop=crop, turn=turn)
        train(self.classifier, data, plan, classifier_loss(self.classifier), workers)
        self.originals[target] = evaluate(self.classifier, same_target(real, target), batch)
        some = slice(0, None, max(1, len(real) // 1000))
        errors = [
            float(mse_loss(to_tensor(coded), to_tensor(picture)))
            for picture, coded in zip(real[some], shown[some], strict=True)
        ]
        self.error = sum(errors) / len(errors)


def same_target(pictures: Sequence[Image.Image], target: int) -> Pictures:
    return Pictures(pictures, [target] * len(pictures))


def default_layout(net: Net) -> Net:
    """A copy in the default memory format."""
    copied = copy.deepcopy(net)
    return copied.to(memory_format=torch.contiguous_format)  # type: ignore[no-any-return, call-overload]
