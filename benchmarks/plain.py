"""The plain way of the same work: what most people would write, for `speed.py` to compare with.

Images are PIL pictures, changed one at a time in a Dataset and gathered by a DataLoader: cropped,
turned, made a tensor and normalised by torchvision where it is installed, else by the same steps
written out, which takes less (docs/speed.md). Nets are float32 in the default memory format;
optimisers are torch's with their defaults, or Muon as published, a layer after the other; batch
sizes of evaluation are the training's. Nets, losses, steps and learning rates are those of the
package.
"""

from __future__ import annotations

import copy
import importlib
import math
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

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
from eec.training import muon
from eec.training.muon import filters_of
from eec.training.recipes import Plan, Recipe

transforms: Any
try:
    transforms = importlib.import_module("torchvision.transforms")
except (ImportError, RuntimeError):  # not there, or made for another torch
    transforms = None

Batch = list[Tensor]  # images, targets, weights
Loss = Callable[[Batch], Tensor]
Net = TypeVar("Net", bound=nn.Module)


def to_picture(image: Tensor) -> Image.Image:
    """A uint8 tensor [C, H, W]."""
    pixels = image.permute(1, 2, 0).numpy()
    return Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)


def to_tensor(picture: Image.Image) -> Tensor:
    """Floats in 0..1, channel by channel, then normalised to -1..1."""
    pixels = torch.from_numpy(np.array(picture))
    pixels = pixels[:, :, None] if pixels.ndim == 2 else pixels
    tensor = pixels.permute(2, 0, 1).contiguous().float().div(255)
    mean = std = torch.tensor([0.5] * len(tensor))[:, None, None]
    return (tensor - mean) / std


def uniform(low: float, high: float) -> float:
    return torch.empty(1).uniform_(low, high).item()


def changes(picture: Image.Image, crop: int, turn: int) -> Callable[[Image.Image], Tensor]:
    """What is done to pictures such as this one: padded and cropped, turned, made a tensor."""
    if transforms is None:
        return lambda picture: to_tensor(changed(picture, crop, turn))
    steps: list[object] = []
    if crop:
        steps.append(transforms.RandomCrop((picture.height, picture.width), padding=crop))
    if turn:
        scale, smooth = (1 - turn / 100, 1 + turn / 100), transforms.InterpolationMode.BILINEAR
        steps.append(transforms.RandomAffine(turn, None, scale, turn, smooth))
    half = [0.5] * len(picture.getbands())
    steps += [transforms.ToTensor(), transforms.Normalize(half, half)]
    done: Callable[[Image.Image], Tensor] = transforms.Compose(steps)
    return done


class Pictures(Dataset[tuple[Tensor, int, float]]):
    """One picture at a time."""

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
        self.change = changes(pictures[0], crop, turn)

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, index: int) -> tuple[Tensor, int, float]:
        return self.change(self.pictures[index]), self.targets[index], self.weights[index]


def changed(picture: Image.Image, crop: int, turn: int) -> Image.Image:
    """Padded, cropped and turned at random."""
    wide, high = picture.size
    if crop:
        left, top = (int(torch.randint(0, 2 * crop + 1, (1,))) for _ in range(2))
        picture = ImageOps.expand(picture, crop).crop((left, top, left + wide, top + high))
    return turned(picture, turn) if turn else picture


def turned(picture: Image.Image, most: int) -> Image.Image:
    """Turned, slanted and stretched around the middle, as the package does it to batches."""
    turn, slant = (math.radians(uniform(-most, most)) for _ in range(2))
    wide, high = (1 + uniform(-most, most) / 100 for _ in range(2))
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
        data,
        plan.batch,
        shuffle=True,
        num_workers=workers,
        persistent_workers=kept,
        multiprocessing_context=workers_from(workers),
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


def workers_from(workers: int) -> str | None:
    """How a program of one's own has them begin on Linux. Ours is itself begun by `spawn`, which
    they would take over: far slower."""
    return "fork" if workers and sys.platform == "linux" else None


def _optimizer(net: nn.Module, weights: list[nn.Parameter], plan: Plan) -> torch.optim.Optimizer:
    if plan.optimizer == "adam":
        return torch.optim.Adam(weights, plan.rate)
    if plan.optimizer == "muon-adam":
        return MuonAdam(weights, filters=filters_of(net), lr=plan.rate)
    kind = Muon if plan.optimizer == "muon" else torch.optim.SGD
    return kind(weights, plan.rate, plan.momentum, weight_decay=plan.weight_decay, nesterov=True)


class Muon(muon.Muon):
    """The package's, one layer after the other."""

    def _move(self, filters: Sequence[Tensor], rate: float) -> None:
        for weight in filters:
            momentum = _momentum(self, weight).mul_(muon.MOMENTUM).add_(_grad(weight))
            ahead = _grad(weight) + muon.MOMENTUM * momentum
            weight.mul_(len(weight) ** 0.5 / weight.norm().clamp_min(1e-12))
            weight.add_(orthogonal(ahead), alpha=-rate)


class MuonAdam(muon.MuonAdam):
    """The package's, one layer after the other."""

    def _move(self, filters: Sequence[Tensor], rate: float) -> None:
        for weight in filters:
            momentum = _momentum(self, weight).lerp_(_grad(weight), 1 - muon.STEADY)
            ahead = _grad(weight).lerp(momentum, muon.STEADY)
            longer = max(len(weight), weight[0].numel())
            weight.add_(orthogonal(ahead), alpha=-rate * muon.REACH * longer**0.5)


def _momentum(optimizer: torch.optim.Optimizer, weight: Tensor) -> Tensor:
    state = optimizer.state[weight]
    if "momentum_buffer" not in state:
        state["momentum_buffer"] = torch.zeros_like(weight)
    momentum: Tensor = state["momentum_buffer"]
    return momentum


def _grad(weight: Tensor) -> Tensor:
    assert weight.grad is not None
    return weight.grad


def orthogonal(filters: Tensor) -> Tensor:
    """As published: each round multiplies the matrix itself by a polynomial of it."""
    matrix = filters.flatten(1)
    tall = len(matrix) > matrix.shape[1]
    now: Tensor = matrix.T if tall else matrix
    now = now / (now.norm() + 1e-7)
    for _ in range(muon.ROUNDS):
        square = now @ now.T
        polynomial = muon.THIRD * square + muon.FIFTH * square @ square
        now = muon.FIRST * now + polynomial @ now
    return (now.T if tall else now).view_as(filters)


def classifier_loss(net: Classifier, smoothing: float = 0.0) -> Loss:
    def loss(batch: Batch) -> Tensor:
        images, targets, weights = batch
        losses: Tensor = cross_entropy(
            net(images), targets, reduction="none", label_smoothing=smoothing
        )
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
    loader = DataLoader(
        data, batch, num_workers=workers, multiprocessing_context=workers_from(workers)
    )
    for images, targets, _ in loader:
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
        self, images: Tensor, target: int, recipe: Recipe, turn: int, workers: int = 0
    ) -> None:
        """One increment of one new class, step by step as in `methods/eec.py`; codes stay floats,
        nothing is weighed in bytes, and nobody looks on."""
        batch = recipe.later.batch
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
        data = Pictures(mixture, targets, crop=recipe.crop, turn=turn)
        loss = classifier_loss(self.classifier, recipe.smoothing)
        train(self.classifier, data, recipe.later, loss, workers)
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
