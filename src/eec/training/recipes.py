"""How long and how fast to train, as data: `paper`, epoch for epoch; `fast`, the default; `brief`,
the same in a quarter of the steps for `D`, to compare many runs."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any

from eec.errors import UserError

PIXELS = 64 * 64
FEWEST = {"adam": 4, "muon-adam": 4, "sgd": 32, "muon": 32}  # images in a batch


@dataclass(frozen=True)
class Plan:
    """One training: optimiser, batch, length and learning-rate schedule.

    The length is given in `steps` or in `epochs`. Few images need as many steps as many do to learn
    from: with epochs, `least_images` are shown if `most_epochs` are enough for it. Whatever comes
    out, `least_steps` keeps a tiny data set from being trained for next to nothing, and
    `most_steps` a large one from taking all day. With `milestones` (in epochs) the rate is
    multiplied by `factor` at each; without, it rises to `rate` over the first fifth and falls to 0
    in a line.
    """

    optimizer: str  # sgd, adam, muon, or muon-adam
    rate: float
    batch: int
    epochs: int = 0
    steps: int = 0
    least_images: int = 0
    most_epochs: int = 0
    least_steps: int = 0
    most_steps: int | None = None
    momentum: float = 0.9
    nesterov: bool = True
    weight_decay: float = 0.0
    milestones: tuple[int, ...] = ()
    factor: float = 0.1
    clip: float | None = None
    early: float = 0.0  # the share of the steps in which images are smaller: these take less time

    def batches_per_epoch(self, images: int) -> int:
        return math.ceil(images / self.batch)

    def total_steps(self, images: int) -> int:
        if self.steps:
            return self.steps
        epoch = self.batches_per_epoch(images)
        few = min(math.ceil(self.least_images / self.batch), self.most_epochs * epoch)
        steps = max(self.epochs * epoch, few, self.least_steps)
        return steps if self.most_steps is None else min(steps, self.most_steps)

    def for_classes(self, brought: int) -> Plan:
        """The same for a task that brings so many classes: the more, the longer.

        Bounds that are right for one class are added once more for each doubling: fifty classes
        from nothing were named right 51 % of the time after 96,000 images, and 58 % after 192,000.
        """
        times = 1 + math.log2(brought)
        most = None if self.most_steps is None else round(times * self.most_steps)
        return replace(self, least_images=round(times * self.least_images), most_steps=most)

    def for_pixels(self, pixels: int) -> Plan:
        """The same for images of this many pixels.

        Where the number of steps is given, or has a minimum, their cost grows with the image.
        Beyond 64x64 a batch holds fewer images, then, and about as many pixels: each image tells
        more. Gradients of fewer images are noisier: the rate falls with them, but for Adam.
        """
        if not (self.steps or self.least_steps) or pixels <= PIXELS:
            return self
        batch = max(FEWEST[self.optimizer], self.batch * PIXELS // pixels)
        share = batch / self.batch
        return replace(
            self,
            batch=batch,
            rate=self.rate * (1.0 if "adam" in self.optimizer else share),
            least_images=round(self.least_images * share),
        )

    def shortened(self, share: float) -> Plan:
        """The same with so many of its steps, whatever decides their number."""

        def some(count: int) -> int:
            return math.ceil(share * count)

        return replace(
            self,
            epochs=some(self.epochs),
            steps=some(self.steps),
            least_images=some(self.least_images),
            least_steps=some(self.least_steps),
            most_steps=None if self.most_steps is None else some(self.most_steps),
        )

    def rate_at(self, step: int, images: int) -> float:
        """The learning rate of the step with this number, from 0."""
        if self.milestones:
            epoch = step // self.batches_per_epoch(images)
            return self.rate * self.factor ** sum(epoch >= mark for mark in self.milestones)
        total = self.total_steps(images)
        rise = max(1, round(0.2 * total))
        if step < rise:
            return self.rate * (step + 1) / (rise + 1)
        return self.rate * (total - step) / (total - rise + 1)


# The paper does not tell how its GAN was trained. This momentum is that of DCGAN: with more, it
# swings.
_GAN = Plan("adam", rate=1e-3, batch=32, steps=1000, momentum=0.5)


@dataclass(frozen=True)
class Recipe:
    """The plans of one learner: `D` in the first increment and in later ones, the codec, or the
    GAN in its place."""

    first: Plan
    later: Plan
    autoencoder: Plan
    compressor: Plan
    crop: int  # pixels of padding for random crops
    mirrored: bool = False  # where images are mirrored in training, name them both ways round
    smoothing: float = 0.0  # the share of a label that all classes have alike
    gan: Plan = _GAN

    @property
    def plans(self) -> dict[str, Plan]:
        named = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: plan for name, plan in named.items() if isinstance(plan, Plan)}

    def shortened(self, **shares: float) -> Recipe:
        """The same with a share of the steps of some plans, by their names."""
        shorter: dict[str, Any] = {n: self.plans[n].shortened(share) for n, share in shares.items()}
        return replace(self, **shorter)


_PUBLISHED_SGD = Plan("sgd", rate=0.1, batch=128, nesterov=False, weight_decay=5e-4)
# The paper has no such net. Gradients are about 0.01; one of a million, where a divisor came near
# 0, would undo all that was learned.
_COMPRESSOR = Plan(
    "muon-adam", rate=4e-3, batch=32, epochs=384, least_steps=1000, most_steps=6000, clip=0.05
)

_FAST = Plan(
    "muon",
    rate=0.07,
    batch=128,
    epochs=4,
    least_images=27_000,
    most_epochs=20,
    least_steps=80,
    most_steps=850,
    weight_decay=5e-4,
    early=0.5,
)

_FAST_RECIPE = Recipe(
    first=_FAST,
    later=_FAST,
    autoencoder=Plan("muon-adam", rate=8e-3, batch=32, steps=1000, clip=1.0),
    compressor=_COMPRESSOR,
    crop=2,
    mirrored=True,
    smoothing=0.1,
)

RECIPES: dict[str, Recipe] = {
    "paper": Recipe(
        first=replace(_PUBLISHED_SGD, epochs=200, milestones=(60, 120, 160), factor=0.2),
        later=replace(_PUBLISHED_SGD, epochs=45, milestones=(37,), factor=0.1),
        autoencoder=Plan(
            "adam", rate=1e-3, batch=128, epochs=100, weight_decay=5e-4, milestones=(50,)
        ),
        compressor=_COMPRESSOR,
        gan=replace(_GAN, rate=4e-4, batch=64, epochs=200, steps=0),
        crop=4,
    ),
    "fast": _FAST_RECIPE,
    # Less is cut of what keeps images: starved autoencoders leave traces, by which methods would
    # differ more than by what they do. The compressor is trained once.
    "brief": _FAST_RECIPE.shortened(first=1 / 4, later=1 / 4, autoencoder=1 / 2, gan=1 / 2),
}


def find_recipe(name: str) -> Recipe:
    if name not in RECIPES:
        raise UserError(f"unknown recipe {name!r}: choose one of {', '.join(RECIPES)}")
    return RECIPES[name]
