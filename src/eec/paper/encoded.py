"""Figures 3 and 6 of the paper: codes in two dimensions, and what concepts make of them.

An autoencoder of two numbers an image is trained on two classes of MNIST. All codes are merged into
concepts, pseudo-codes are drawn from these, and both are compared: figure 3 with fewer and fewer
concepts, figure 6 with one centroid and covariance matrix a class, as FearNet keeps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from torch import Tensor, nn

from eec.data.catalog import load_dataset
from eec.memory.integration import Points, integrate, merged
from eec.memory.linkage import merges
from eec.training.batches import Batches, to_float
from eec.training.loop import Progress, apply, quiet, train
from eec.training.recipes import Plan
from eec.training.runtime import choose_runtime, derive_seed, generator, seeded

Doubles = NDArray[np.float64]
Integers = NDArray[np.int64]
Phase = Callable[[str], Progress]  # the name of what begins -> its progress callback

CLASSES = (2, 5)
COUNTS = (4000, 2000, 1000, 200)  # of figure 3, both classes together
FEWEST = 200  # of figure 6
PLAN = Plan("adam", rate=2e-3, batch=128, epochs=25)
DIRECTIONS = 90  # on which distributions are compared: every two degrees
SPLITS = 10  # of the real codes into halves
# What still counts as the same shape, or no more overlap: so many times what real codes show.
ALIKE = 2.0


@dataclass(frozen=True)
class Encoded:
    """Codes of both classes: of real images, or drawn from concepts."""

    codes: Doubles  # [N, 2]
    targets: Integers  # [N]: places in CLASSES

    def of(self, target: int) -> Doubles:
        chosen: Doubles = self.codes[self.targets == target]
        return chosen


@dataclass(frozen=True)
class Row:
    """What was measured of one panel."""

    name: str
    concepts: int
    of_one: int  # concepts of a single episode: these have no variance, and stay what they were
    largest: int  # episodes in the largest concept
    wrong: float  # percent whose nearest real code is of the other class
    distance: tuple[float, ...]  # to the real codes of each class, in percent of its spread

    @property
    def mean_distance(self) -> float:
        return sum(self.distance) / len(self.distance)


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, and what was found."""

    paper: str
    holds: bool
    found: str

    def __str__(self) -> str:
        return f"{'Holds' if self.holds else 'Does not hold'}: {self.paper}: {self.found}."


@dataclass(frozen=True)
class Result:
    """All that a picture shows and a table says; `panels` has the real codes first."""

    figure: int
    seed: int
    linkage: str
    loss: float  # mean squared error of a pixel, in the range -1..1
    panels: list[Encoded]
    real: Row
    rows: list[Row]
    claims: list[Claim]

    def facts(self) -> dict[str, Any]:
        """Everything but the points, as JSON can have it."""
        counts = np.bincount(self.panels[0].targets).tolist()
        return {
            "figure": self.figure,
            "seed": self.seed,
            "linkage": self.linkage,
            "images": {str(label): n for label, n in zip(CLASSES, counts, strict=True)},
            "reconstruction_loss": self.loss,
            "real": asdict(self.real),
            "rows": [asdict(row) for row in self.rows],
            "claims": [asdict(claim) for claim in self.claims],
        }


# The codes.


class FlatAutoencoder(nn.Module):
    """Dense layers between an image and two numbers.

    The code is the output of a linear layer: it can be negative, and draws near it are not to be
    cut at 0, as those are that come from a ReLU.
    """

    def __init__(self, image: Sequence[int], sizes: Sequence[int] = (512, 128, 2)) -> None:
        super().__init__()
        all_sizes = [math.prod(image), *sizes]
        self.encoder = nn.Sequential(nn.Flatten(), *_layers(all_sizes))
        self.decoder = nn.Sequential(
            *_layers(all_sizes[::-1]), nn.Tanh(), nn.Unflatten(1, tuple(image))
        )

    def forward(self, images: Tensor) -> Tensor:
        decoded: Tensor = self.decoder(self.encoder(images))
        return decoded


def _layers(sizes: Sequence[int]) -> list[nn.Module]:
    """Linear layers with ReLUs between them, and none at the end."""
    layers: list[nn.Module] = []
    for wide, narrow in pairwise(sizes):
        layers += [nn.Linear(wide, narrow), nn.ReLU()]
    return layers[:-1]


def two_classes(data_dir: Path | None) -> tuple[Tensor, Integers]:
    """The training images of MNIST's twos and fives, and their places in CLASSES."""
    dataset = load_dataset("mnist", data_dir)
    labels = np.array(dataset.train_labels)
    chosen = np.isin(labels, CLASSES)
    targets: Integers = np.searchsorted(CLASSES, labels[chosen])
    return dataset.train_images[torch.from_numpy(chosen)], targets


def encode(
    images: Tensor, targets: Integers, seed: int, progress: Progress = quiet
) -> tuple[Encoded, float]:
    """Train the autoencoder on all images, then encode them; also the loss that is left.

    On the CPU in full precision, wherever it is run: the same seed gives both figures the same
    codes.
    """
    runtime = choose_runtime("cpu", "float32")
    with seeded(derive_seed(seed, "encoded", "weights")):
        net = FlatAutoencoder(images.shape[1:])

    def loss(batch: Tensor, index: Tensor) -> Tensor:
        return _errors(net, batch).mean()

    order = generator(seed, "encoded", "batches")
    train(net, Batches(images), loss, PLAN, runtime, order, progress)
    codes = apply(lambda part: net.encoder(to_float(part)), images, runtime)
    errors = apply(lambda part: _errors(net, to_float(part)), images, runtime)
    return Encoded(codes.numpy().astype(np.float64), targets), errors.mean().item()


def _errors(net: nn.Module, images: Tensor) -> Tensor:
    errors: Tensor = (net(images) - images).square().mean(dim=(1, 2, 3))
    return errors


# What is kept, and what is drawn from it.


def shares(real: Encoded, count: int) -> tuple[int, int]:
    """So many concepts, split over the classes in proportion to their images."""
    first = round(count * len(real.of(0)) / len(real.codes))
    return first, count - first


def concepts(codes: Doubles, counts: Sequence[int], linkage: str, seed: int) -> list[Points]:
    """Memory integration of one class down to each number of concepts, and nothing beside them.

    A budget in slots would leave episodes among the concepts; here the merges go on until so many
    groups are left, and a pair is a concept, too. k-means knows no merges: it is given the slots of
    so many concepts, and may find more where some are of one episode.
    """
    points = Points(codes)
    if linkage == "kmeans":
        return [integrate(points, 2 * n, linkage, seed, literal=True) for n in counts]
    tree = merges(points.means, points.counts, 0, linkage)
    found = []
    for n in counts:
        groups = tree[: max(0, len(points) - n)].groups(len(points))
        found.append(merged(points, np.unique(groups, return_inverse=True)[1]))
    return found


def draw(kept: Points, rng: np.random.Generator) -> Doubles:
    """As many pseudo-codes as each concept has episodes."""
    means, deviations = (
        np.repeat(part, kept.counts, axis=0) for part in (kept.means, np.sqrt(kept.variances))
    )
    pseudo: Doubles = means + deviations * rng.standard_normal(means.shape)
    return pseudo


def draw_whole_class(codes: Doubles, rng: np.random.Generator) -> Doubles:
    """As many pseudo-codes as there are codes, from their mean and full covariance matrix."""
    covariance = np.cov(codes, rowvar=False)
    return rng.multivariate_normal(codes.mean(0), covariance, len(codes), method="eigh")


# Measures.


def wrong_side(real: Encoded, pseudo: Encoded) -> float:
    """Percent of pseudo-codes whose nearest real code is of the other class."""
    nearest = cKDTree(real.codes).query(pseudo.codes)[1]
    return 100 * float((real.targets[nearest] != pseudo.targets).mean())


def wrong_neighbours(real: Encoded) -> float:
    """Percent of real codes whose nearest other real code is of the other class."""
    nearest = cKDTree(real.codes).query(real.codes, k=2)[1]
    own = np.arange(len(nearest))
    # Of two codes in the same place, each may be found before the other.
    other = np.where(nearest[:, 0] == own, nearest[:, 1], nearest[:, 0])
    return 100 * float((real.targets[other] != real.targets).mean())


def distance(one: Doubles, other: Doubles) -> float:
    """Sliced Wasserstein distance of two sets of as many points.

    Seen along one direction, the cheapest way to move one set onto the other is in sorted order;
    this is the mean of the way that a point goes, over directions all around.
    """
    angles = np.arange(DIRECTIONS) * np.pi / DIRECTIONS
    directions = np.stack([np.cos(angles), np.sin(angles)])
    ways = np.sort(one @ directions, axis=0) - np.sort(other @ directions, axis=0)
    return float(np.abs(ways).mean())


def spread(codes: Doubles) -> float:
    """Root mean square distance from the centre: the unit in which distances are told."""
    return math.sqrt(codes.var(0).sum())


def distance_of_halves(codes: Doubles, rng: np.random.Generator) -> float:
    """Between random halves of the same codes: what chance alone does."""
    half = len(codes) // 2
    found = []
    for _ in range(SPLITS):
        mixed = rng.permutation(codes)
        found.append(distance(mixed[:half], mixed[half : 2 * half]))
    return sum(found) / SPLITS


# The experiments.


def figure3(data_dir: Path | None, linkage: str, seed: int, phase: Phase) -> Result:
    """Codes, and pseudo-codes from fewer and fewer concepts."""
    real, loss = _learn(data_dir, seed, phase)
    panels, rows = _integrate(real, COUNTS, linkage, seed, phase)
    row = _real_row(real, seed)
    claims = [_more_is_closer(rows), _shape_is_kept(row, rows[-1])]
    return Result(3, seed, linkage, loss, [real, *panels], row, rows, claims)


def figure6(data_dir: Path | None, linkage: str, seed: int, phase: Phase) -> Result:
    """Codes, pseudo-codes from concepts, and from one centroid and full covariance a class."""
    real, loss = _learn(data_dir, seed, phase)
    panels, rows = _integrate(real, [FEWEST], linkage, seed, phase)
    parts = [
        draw_whole_class(real.of(target), _rng(seed, "fearnet", target))
        for target in range(len(CLASSES))
    ]
    whole = _together(parts)
    fearnet = Row(
        f"{len(CLASSES)} centroids, FearNet",
        concepts=len(CLASSES),
        of_one=0,
        largest=max(map(len, parts)),
        wrong=wrong_side(real, whole),
        distance=_distances(real, whole),
    )
    row = _real_row(real, seed)
    claims = [
        _shape_is_kept(row, rows[0]),
        _apart(f"{rows[0].concepts:,} centroids keep the classes apart", True, row, rows[0]),
        _resembles("one centroid a class does not resemble the original", False, row, fearnet),
        _apart("one centroid a class makes the classes overlap", False, row, fearnet),
    ]
    return Result(6, seed, linkage, loss, [real, *panels, whole], row, [*rows, fearnet], claims)


def _learn(data_dir: Path | None, seed: int, phase: Phase) -> tuple[Encoded, float]:
    phase("read MNIST")
    images, targets = two_classes(data_dir)
    return encode(images, targets, seed, phase("train autoencoder"))


def _integrate(
    real: Encoded, counts: Sequence[int], linkage: str, seed: int, phase: Phase
) -> tuple[list[Encoded], list[Row]]:
    """A panel and a row for each number of concepts."""
    progress = phase("integrate memory")
    split = [shares(real, count) for count in counts]
    kept = []
    for target in range(len(CLASSES)):
        wanted = [share[target] for share in split]
        own = derive_seed(seed, "encoded", "kmeans", target)
        kept.append(concepts(real.of(target), wanted, linkage, own))
        progress(target + 1, len(CLASSES))
    panels, rows = [], []
    for place, count in enumerate(counts):
        parts = [each[place] for each in kept]
        draws = [draw(part, _rng(seed, count, target)) for target, part in enumerate(parts)]
        panels.append(_together(draws))
        sizes = np.concatenate([part.counts for part in parts])
        rows.append(
            Row(
                f"{len(sizes):,} concepts",
                concepts=len(sizes),
                of_one=int((sizes == 1).sum()),
                largest=int(sizes.max()),
                wrong=wrong_side(real, panels[-1]),
                distance=_distances(real, panels[-1]),
            )
        )
    return panels, rows


def _rng(seed: int, *purpose: int | str) -> np.random.Generator:
    return np.random.default_rng(derive_seed(seed, "encoded", *purpose))


def _together(parts: Sequence[Doubles]) -> Encoded:
    targets = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    return Encoded(np.concatenate(parts), targets)


def _distances(real: Encoded, pseudo: Encoded) -> tuple[float, ...]:
    return tuple(
        100 * distance(real.of(target), pseudo.of(target)) / spread(real.of(target))
        for target in range(len(CLASSES))
    )


def _real_row(real: Encoded, seed: int) -> Row:
    classes = [real.of(target) for target in range(len(CLASSES))]
    halves = tuple(
        100 * distance_of_halves(codes, _rng(seed, "halves", target)) / spread(codes)
        for target, codes in enumerate(classes)
    )
    count = len(real.codes)
    return Row(f"{count:,} episodes", count, count, 1, wrong_neighbours(real), halves)


# The claims.


def _more_is_closer(rows: Sequence[Row]) -> Claim:
    far = [row.mean_distance for row in rows]
    listed = ", ".join(f"{d:.2f} % with {row.concepts:,}" for d, row in zip(far, rows, strict=True))
    ordered = all(more < fewer for more, fewer in pairwise(far))
    return Claim(
        "more centroids are closer to the original", ordered, f"the distance is {listed} concepts"
    )


def _shape_is_kept(real: Row, row: Row) -> Claim:
    paper = f"the overall shape is preserved with {row.concepts:,} centroids"
    return _resembles(paper, True, real, row)


def _resembles(paper: str, expected: bool, real: Row, row: Row) -> Claim:
    times = row.mean_distance / real.mean_distance
    found = (
        f"the distance is {row.mean_distance:.2f} %, {times:.1f} times that of two halves of the "
        f"real codes (up to {ALIKE:g} counts as alike)"
    )
    return Claim(paper, (times <= ALIKE) == expected, found)


def _apart(paper: str, expected: bool, real: Row, row: Row) -> Claim:
    found = (
        f"{row.wrong:.1f} % lie on the wrong side, and {real.wrong:.1f} % of the real codes do "
        f"(up to {ALIKE:g} times as many counts as alike)"
    )
    return Claim(paper, (row.wrong <= ALIKE * real.wrong) == expected, found)
