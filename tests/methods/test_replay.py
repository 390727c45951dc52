"""Replay: a budget holds on disk, images come back, and the quality follows its rule."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from eec.data.stream import Task
from eec.errors import UserError
from eec.memory.image_forms import JPEG, PIXELS, WEBP, Form, qualities
from eec.methods.archive import load_learner, save_learner
from eec.methods.contract import Method
from eec.methods.registry import choose_options, make_method
from eec.methods.replay import Replay
from eec.training.recipes import Recipe
from eec.training.runtime import Runtime

Make = Callable[..., Replay]
TaskOf = Callable[..., Task]

NAMES = ("replay", "replay-webp", "replay-jpeg")


@pytest.fixture(autouse=True)
def _short(short_recipe: Recipe) -> None:
    """Nothing here asks how well it learns."""


@pytest.fixture
def make(cpu: Runtime) -> Make:
    def learner(name: str, **options: Any) -> Replay:
        method = make_method(name, choose_options(name, **options), 0, cpu)
        assert isinstance(method, Replay)
        return method

    return learner


def on_disk(learner: Method, folder: Path) -> int:
    """The saved learner without its classifier."""
    size = save_learner(learner, folder / "learner.eec").stat().st_size
    return size - learner.bytes_by_part()["classifier"]


def held(learner: Replay) -> list[int]:
    return [len(pile.images) for pile in learner.kept.piles]


# --- how images are written ---


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("size", [(32, 32), (27, 33)])
@pytest.mark.parametrize(("form", "quality"), [(WEBP, 60), (WEBP, 0), (JPEG, 75), (JPEG, 10)])
def test_compressed_images_come_back_in_their_shape_and_alike(
    form: Form, quality: int, size: tuple[int, int], channels: int, digit_images: Callable[..., Any]
) -> None:
    images = digit_images(3, 6).repeat(1, channels, 1, 2)[:, :, : size[0], : size[1]].clone()
    images[:, 0] //= 2  # in colour, not grey
    written = form.encode(images, quality)
    assert written is not None
    back = form.decode(*written, (channels, *size))
    assert back.shape == images.shape and back.dtype == torch.uint8
    error = (back.float() - images.float()).abs().mean()
    assert error < (8 if quality >= 60 else 40)
    assert sum(map(len, written[1])) < images.numel()


def test_pixels_come_back_to_the_bit(digit_images: Callable[..., Tensor]) -> None:
    images = digit_images(3, 6).transpose(2, 3)  # in another memory order
    written = PIXELS.encode(images, 0)
    assert written is not None
    assert torch.equal(PIXELS.decode(*written, (1, 32, 32)), images)


def test_what_would_be_too_large_is_given_up(digit_images: Callable[..., Tensor]) -> None:
    images = digit_images(3, 6)
    written = WEBP.encode(images, 40)
    assert written is not None
    size = sum(map(len, written[1]))
    assert WEBP.encode(images, 40, size) == written
    assert WEBP.encode(images, 40, size - 1) is None


# --- the quality ---


def test_the_rule_of_the_quality() -> None:
    def rule(form: Form, in_bytes: bool, dropped: bool = False, now: int | None = None) -> Any:
        return qualities(form, in_bytes=in_bytes, dropped=dropped, now=now)

    assert (rule(WEBP, False), rule(JPEG, False)) == ([40], [60])
    assert rule(WEBP, True) == [60, 40, 20, 10]
    assert rule(JPEG, True) == [75, 60, 40, 25]
    assert rule(WEBP, True, now=20) == [20, 10]
    assert rule(WEBP, True, dropped=True, now=10) == [10]
    assert rule(WEBP, False, dropped=True, now=10) == [10]
    assert rule(WEBP, True, dropped=True, now=40) == [40, 20, 10]  # for want of slots


def test_the_quality_falls_before_images_are_dropped(
    make: Make, task_of: TaskOf, tmp_path: Path
) -> None:
    learner = make("replay-webp", memory="11kB")
    qualities_seen: list[Any] = []
    for digit in range(5):
        report = learner.learn(task_of(digit, each=20))
        assert on_disk(learner, tmp_path) <= 11_000
        qualities_seen.append(learner.kept.quality)
        fallen = digit > 0 and qualities_seen[-1] != qualities_seen[-2]
        assert ("now kept at quality" in " ".join(report.notes)) == fallen
    before_dropping = qualities_seen[: qualities_seen.index(10)]
    assert before_dropping == sorted(before_dropping, reverse=True) and before_dropping[0] == 60
    assert learner.kept.dropped and learner.kept.quality == 10
    assert max(held(learner)) - min(held(learner)) <= 1


@pytest.mark.parametrize(
    ("name", "memory", "quality"), [("replay-webp", "17kB", 10), ("replay-jpeg", "20kB", 25)]
)
def test_the_first_task_is_in_the_quality_that_all_will_have_where_their_number_is_known(
    name: str, memory: str, quality: int, make: Make, task_of: TaskOf
) -> None:
    learner = make(name, memory=memory, expected=100)
    for digit in range(5):
        report = learner.learn(task_of(digit, each=20))
        # The file's header is there once: it takes no share of what each task is given.
        assert learner.kept.quality == quality and not report.notes[digit == 0 :]
    assert held(learner) == [20] * 5


def test_a_quality_asked_for_is_kept_to(make: Make, task_of: TaskOf, tmp_path: Path) -> None:
    learner = make("replay-jpeg", memory="7kB", quality=90)
    learner.learn(task_of(0, 1, each=30))
    assert learner.kept.quality == 90 and learner.kept.dropped
    with pytest.raises(UserError, match="quality is 101: use 1 to 100, or 0 to have it chosen"):
        choose_options("replay-webp", quality=101)
    with pytest.raises(UserError, match="method replay has no option quality"):
        choose_options("replay", quality=50)


# --- the budget ---


@pytest.mark.parametrize(
    ("name", "limit"), [("replay", 50_000), ("replay-webp", 9_000), ("replay-jpeg", 9_000)]
)
def test_bytes_on_disk_never_exceed_the_budget_and_use_it(
    name: str, limit: int, make: Make, task_of: TaskOf, tmp_path: Path
) -> None:
    learner = make(name, memory=f"{limit}B")
    for digits in ((0, 1), (2,), (0, 3)):
        learner.learn(task_of(*digits, each=30))
        assert on_disk(learner, tmp_path) <= limit
    assert min(held(learner)) > 3 and max(held(learner)) - min(held(learner)) <= 1
    assert [pile.seen for pile in learner.kept.piles] == [60, 30, 30, 30]
    largest = max(map(len, learner.kept.bodies))
    assert limit - on_disk(learner, tmp_path) < largest + 100
    back = load_learner(tmp_path / "learner.eec", learner.runtime)
    back.learn(task_of(4, each=5))
    assert on_disk(back, tmp_path) <= limit


@pytest.mark.parametrize("name", NAMES)
def test_slots_are_images_which_stand_for_those_let_go(
    name: str, make: Make, task_of: TaskOf, mixtures: list[tuple[Tensor, Tensor, Tensor]]
) -> None:
    learner = make(name, memory="5")
    learner.learn(task_of(0, 1, each=9))
    assert sorted(held(learner)) == [2, 3]
    learner.learn(task_of(2, each=9))
    _, targets, weights = mixtures[-1]
    assert targets.bincount().tolist() == [9, 9, 9] and set(weights.tolist()) == {1.0}
    assert sorted(held(learner)) == [1, 2, 2]


@pytest.mark.parametrize("name", NAMES)
def test_a_budget_too_small_is_refused_and_changes_nothing(
    name: str, make: Make, task_of: TaskOf, tmp_path: Path
) -> None:
    learner = make(name, memory="3")
    learner.learn(task_of(0, 1))
    before = save_learner(learner, tmp_path / "a.eec").read_bytes()
    with pytest.raises(UserError, match=r"memory 3 is too small .* 4 classes: use 4 or more"):
        learner.learn(task_of(2, 3))
    with pytest.raises(UserError, match=r"memory 2kB is too small .* use [0-9]+kB or more") as told:
        learner.set_memory("2kB")
    assert save_learner(learner, tmp_path / "b.eec").read_bytes() == before
    smallest = str(told.value).split("use ")[1].split(" or")[0]
    learner.set_memory(smallest)
    assert on_disk(learner, tmp_path) <= int(smallest.removesuffix("kB")) * 1000
    assert min(held(learner)) >= 1 and learner.options.memory == smallest


@pytest.mark.parametrize("name", NAMES)
def test_the_first_task_is_refused_before_it_is_learned(
    name: str, make: Make, task_of: TaskOf, tmp_path: Path
) -> None:
    learner = make(name, memory="1kB")
    with pytest.raises(UserError, match="memory 1kB is too small for one image of each") as told:
        learner.learn(task_of(0, 1))
    assert learner.classes == [] and learner.kept.piles == []
    smallest = str(told.value).split("use ")[1].split(" or")[0]
    learner.set_memory(smallest)
    learner.learn(task_of(0, 1))
    assert on_disk(learner, tmp_path) <= int(smallest.removesuffix("kB")) * 1000


def test_a_smaller_memory_lowers_the_quality_at_once(make: Make, task_of: TaskOf) -> None:
    learner = make("replay-webp", memory="1MB")
    learner.learn(task_of(0, 1, each=20))
    assert learner.kept.quality == 60
    learner.set_memory("10kB")
    assert learner.kept.quality is not None and learner.kept.quality < 60
    assert held(learner) == [20, 20]
    learner.set_memory("6")
    assert held(learner) == [3, 3]


# --- what is shown to the classifier ---


@pytest.mark.parametrize(("form", "count"), [("decoded", 4), ("real", 4), ("both", 8)])
def test_new_images_are_shown_as_asked_for(
    form: str,
    count: int,
    make: Make,
    task_of: TaskOf,
    mixtures: list[tuple[Tensor, Tensor, Tensor]],
) -> None:
    learner = make("replay-jpeg", new_images=form, quality=10)
    task = task_of(0, 1, each=2)
    learner.learn(task)
    images, _, weights = mixtures[-1]
    same = [any(torch.equal(image, real) for real in task.images) for image in images]
    assert len(images) == count and float(weights.sum()) == 4
    assert sum(same) == (0 if form == "decoded" else 4)
