"""Images drawn from concepts: as many as each counts, those that the old `D` recognises."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from eec.memory.codes import Packing
from eec.memory.episodes import Kept, Memory
from eec.memory.pseudo import ROUNDS, draw_pseudo_images


class Brightness:
    """A codec of one number: an image is as bright as its code."""

    def decode(self, codes: Tensor) -> Tensor:
        return codes.round().clamp(0, 255).to(torch.uint8).expand(-1, 1, 8, 8).contiguous()


def memory_of(
    centroids: list[float], spreads: list[float], counts: list[int]
) -> tuple[Memory, Kept]:
    codes = torch.tensor([9.0, *centroids]).view(-1, 1, 1, 1)
    part = Kept(
        1, 1, codes, torch.tensor([1, *counts]).int(), torch.tensor(spreads).view(-1, 1, 1, 1)
    )
    memory = Memory([part], {1: Brightness()}, {1: Packing("float32")})  # type: ignore[dict-item]
    return memory, part


def brighter_than(level: float) -> Callable[[Tensor], Tensor]:
    """A classifier that calls brighter images by the name 1, the surer the brighter."""

    def logits(images: Tensor) -> Tensor:
        bright = (images.float().mean((1, 2, 3)) - level) / 10
        return torch.stack([torch.zeros(len(images)), bright], 1)

    return logits


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_as_many_images_as_the_concepts_count_near_their_centroids() -> None:
    memory, part = memory_of([50, 200], [3.0, 3.0], [40, 10])
    drawn = draw_pseudo_images(memory, part, None, rng())
    levels = drawn.images.float().mean((1, 2, 3))
    assert len(levels) == 50 == drawn.draws
    assert int((levels < 100).sum()) == 40 and int((levels > 150).sum()) == 10
    assert levels[levels < 100].std().item() == pytest.approx(3, rel=0.4)
    assert drawn.rejected == drawn.filled == 0 and drawn.recognised is None


def test_what_the_old_classifier_does_not_recognise_is_refused() -> None:
    memory, part = memory_of([100, 100], [10.0, 0.0], [30, 20])
    drawn = draw_pseudo_images(memory, part, brighter_than(95), rng())
    levels = drawn.images.float().mean((1, 2, 3))
    assert len(levels) == 50 and (levels > 95).all()
    assert drawn.filled == 0 and drawn.rejected > 0
    # Before the filter: all of one concept, and seven tenths of the other.
    assert drawn.recognised == pytest.approx(100 * (20 + 0.69 * 30) / 50, abs=8)


def test_after_the_rounds_the_best_of_those_refused_fill_up() -> None:
    memory, part = memory_of([50, 200], [5.0, 5.0], [10, 10])
    drawn = draw_pseudo_images(memory, part, brighter_than(120), rng())
    levels = drawn.images.float().mean((1, 2, 3))
    assert len(levels) == 20 and drawn.filled == 10
    assert drawn.draws == 40 + (ROUNDS - 1) * 20 and drawn.rejected == ROUNDS * 20
    filled = levels[levels < 120]
    assert len(filled) == 10 and filled.min() > 50  # the brightest of a hundred


def test_codes_are_never_negative_and_draws_repeat_by_seed() -> None:
    memory, part = memory_of([0, 0], [40.0, 40.0], [50, 50])
    levels = draw_pseudo_images(memory, part, None, rng()).images.float().mean((1, 2, 3))
    assert (levels == 0).float().mean().item() == pytest.approx(0.5, abs=0.15)
    one, same, other = (draw_pseudo_images(memory, part, None, rng(s)).images for s in (1, 1, 2))
    assert torch.equal(one, same) and not torch.equal(one, other)
