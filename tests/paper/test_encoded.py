"""Figures 3 and 6: what is kept, what is drawn, and the measures that judge it."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from eec.data.dataset import Dataset
from eec.errors import UserError
from eec.paper import encoded
from eec.paper.encoded import (
    Encoded,
    concepts,
    distance,
    draw,
    draw_whole_class,
    encode,
    figure3,
    figure6,
    shares,
    spread,
    two_classes,
    wrong_neighbours,
    wrong_side,
)
from eec.training.loop import Progress, quiet
from eec.training.recipes import Plan


def phase(name: str) -> Progress:
    return quiet


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(3)


@pytest.fixture
def rings(rng: np.random.Generator) -> Encoded:
    """Two half-circles, one inside the other: no ellipse is like either."""
    angle = rng.uniform(0, np.pi, 1000)
    radius = np.where(np.arange(1000) < 600, 10.0, 6.0) + rng.normal(0, 0.3, 1000)
    codes = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
    return Encoded(codes, (np.arange(1000) >= 600).astype(np.int64))


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch, rings: Encoded) -> None:
    """The experiments without images: their codes are the half-circles."""
    monkeypatch.setattr(encoded, "two_classes", lambda data_dir: (torch.zeros(0), rings.targets))
    monkeypatch.setattr(encoded, "encode", lambda *given: (rings, 0.25))
    monkeypatch.setattr(encoded, "COUNTS", (400, 200, 40))
    monkeypatch.setattr(encoded, "FEWEST", 100)


# --- codes ---


def test_the_images_are_those_of_the_paper(data_dir: Path) -> None:
    if not (data_dir / "mnist").exists():
        pytest.skip("no MNIST in the data folder")
    images, targets = two_classes(data_dir)
    assert np.bincount(targets).tolist() == [5958, 5421]
    assert images.shape == (11_379, 1, 28, 28)


def test_without_mnist_the_mistake_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="eec data get mnist"):
        two_classes(tmp_path)


def two_digits(digits: Dataset) -> tuple[Tensor, np.ndarray]:
    found = [(i, int(label == 5)) for i, label in enumerate(digits.train_labels) if label in (2, 5)]
    places, targets = zip(*found, strict=True)
    return digits.train_images[list(places)][:, :, ::2, ::2], np.array(targets)


def test_the_autoencoder_tells_classes_apart_and_repeats_itself(
    digits: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoded, "PLAN", Plan("adam", rate=2e-3, batch=32, epochs=6))
    images, targets = two_digits(digits)
    real, loss = encode(images, targets, seed=1)
    assert real.codes.shape == (len(images), 2) and (real.codes < 0).any()
    assert wrong_neighbours(real) < 15 and loss < 0.5
    again, _ = encode(images, targets, seed=1)
    assert np.array_equal(real.codes, again.codes)
    other, _ = encode(images, targets, seed=2)
    assert not np.array_equal(real.codes, other.codes)


# --- concepts and draws ---


def test_concepts_are_split_in_proportion_to_the_images(rings: Encoded) -> None:
    assert shares(rings, 200) == (120, 80)
    assert sum(shares(rings, 77)) == 77


@pytest.mark.parametrize("linkage", ["ward", "centroid"])
def test_so_many_concepts_stand_for_every_episode(rings: Encoded, linkage: str) -> None:
    codes = rings.of(0)
    many, few = concepts(codes, [100, 7], linkage, seed=0)
    assert (len(many), len(few)) == (100, 7)
    for kept in (many, few):
        assert kept.counts.sum() == 600
        centre = (kept.means * kept.counts[:, None]).sum(0) / 600
        assert np.allclose(centre, codes.mean(0))


def test_k_means_stays_within_the_slots_of_so_many_concepts(rings: Encoded) -> None:
    (kept,) = concepts(rings.of(0), [50], "kmeans", seed=0)
    assert len(kept) >= 50 and kept.slots <= 100 and kept.counts.sum() == 600


def test_draws_have_the_number_the_mean_and_the_spread(
    rings: Encoded, rng: np.random.Generator
) -> None:
    codes = rings.of(0)
    (kept,) = concepts(codes, [1], "ward", seed=0)
    pseudo = draw(kept, rng)
    assert pseudo.shape == codes.shape and (pseudo < 0).any()
    assert np.allclose(pseudo.mean(0), codes.mean(0), atol=1)
    assert np.allclose(pseudo.std(0), codes.std(0), rtol=0.1)


def test_an_episode_alone_is_drawn_as_it_was(rings: Encoded, rng: np.random.Generator) -> None:
    codes = rings.of(0)
    (kept,) = concepts(codes, [len(codes)], "ward", seed=0)
    assert np.array_equal(np.sort(draw(kept, rng), axis=0), np.sort(codes, axis=0))


def test_a_whole_class_keeps_how_its_dimensions_go_together(rng: np.random.Generator) -> None:
    first = rng.normal(size=5000)
    codes = np.column_stack([first, first + 0.1 * rng.normal(size=5000)])
    pseudo = draw_whole_class(codes, rng)
    assert np.cov(pseudo.T)[0, 1] > 0.9  # of variances near 1


# --- measures ---


def test_the_distance_of_a_shift_is_known(rings: Encoded) -> None:
    codes = rings.of(0)
    assert distance(codes, codes[::-1]) == 0
    # The mean of |cos| over the circle is 2 / pi.
    assert distance(codes, codes + np.array([3, 0])) == pytest.approx(6 / np.pi, rel=1e-3)


def test_the_spread_is_that_around_the_centre() -> None:
    corners = np.array([[3.0, 4.0], [-3.0, -4.0]]) + 100
    assert spread(corners) == pytest.approx(5)


def test_the_wrong_side_is_where_the_other_class_is_nearer() -> None:
    real = Encoded(np.array([[0.0, 0], [1, 0], [9, 0], [10, 0]]), np.array([0, 0, 1, 1]))
    assert wrong_neighbours(real) == 0
    pseudo = Encoded(np.array([[2.0, 0], [8, 0], [10, 1], [6, 0]]), np.array([0, 0, 1, 1]))
    assert wrong_side(real, pseudo) == 25
    mixed = Encoded(real.codes, np.array([0, 1, 1, 1]))
    assert wrong_neighbours(mixed) == 50


def test_codes_in_the_same_place_are_neighbours() -> None:
    real = Encoded(np.zeros((2, 2)), np.array([0, 1]))
    assert wrong_neighbours(real) == 100


# --- the figures ---


@pytest.mark.usefixtures("short")
def test_figure_3_comes_closer_with_more_concepts() -> None:
    result = figure3(None, "ward", 0, phase)
    assert [row.name for row in result.rows] == ["400 concepts", "200 concepts", "40 concepts"]
    assert [len(panel.codes) for panel in result.panels] == [1000] * 4
    assert result.rows[0].largest < result.rows[-1].largest
    assert result.rows[0].of_one > result.rows[-1].of_one
    assert result.claims[0].holds and "more centroids are closer" in str(result.claims[0])


@pytest.mark.usefixtures("short")
def test_figure_3_says_so_where_a_claim_does_not_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoded, "COUNTS", (200, 400, 2))
    result = figure3(None, "ward", 0, phase)
    assert [claim.holds for claim in result.claims] == [False, False]
    assert all(str(claim).startswith("Does not hold: ") for claim in result.claims)


@pytest.mark.usefixtures("short")
def test_figure_6_shows_what_one_centroid_cannot() -> None:
    result = figure6(None, "ward", 0, phase)
    kept, fearnet = result.rows
    assert (kept.concepts, fearnet.concepts, fearnet.largest) == (100, 2, 600)
    assert kept.wrong < 2 and fearnet.wrong > 15
    assert fearnet.mean_distance > 2 * kept.mean_distance
    # The half-circles are apart: no real code is on the wrong side, and some draws are.
    assert [claim.holds for claim in result.claims if "one centroid" in claim.paper] == [True, True]


@pytest.mark.usefixtures("short")
def test_the_same_seed_gives_the_same_facts() -> None:
    first, again, other = (figure3(None, "ward", seed, phase).facts() for seed in (4, 4, 5))
    assert first == again and first["rows"] != other["rows"]
    assert first["images"] == {"2": 600, "5": 400} and first["reconstruction_loss"] == 0.25
