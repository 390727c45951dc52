"""A GAN for each task in place of codes."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from eec.data.stream import Task
from eec.errors import UserError
from eec.methods.archive import learner_bytes
from eec.methods.cgan import ConditionalGAN
from eec.methods.registry import choose_options, make_method
from eec.training.journal import Journal
from eec.training.loop import Progress, quiet
from eec.training.recipes import RECIPES, Recipe
from eec.training.runtime import Runtime

Make = Callable[..., ConditionalGAN]
TaskOf = Callable[..., Task]


@pytest.fixture(autouse=True)
def _short(short_recipe: Recipe) -> None:
    """Nothing here asks how well it learns."""


@pytest.fixture
def make(cpu: Runtime) -> Make:
    def learner(**options: Any) -> ConditionalGAN:
        method = make_method("eec-cgan", choose_options("eec-cgan", **options), 0, cpu)
        assert isinstance(method, ConditionalGAN)
        return method

    return learner


def test_as_many_images_are_generated_as_each_class_of_each_task_had(
    make: Make, task_of: TaskOf, mixtures: list[tuple[Tensor, Tensor, Tensor]]
) -> None:
    learner = make(decay=False)
    first = task_of(0, 1, each=5)
    learner.learn(Task(first.images[:8], first.labels[:8]))  # five zeros, three ones
    learner.learn(task_of(1, 2, each=2, skip=10))
    assert list(learner.kept) == [1, 2]
    assert [kept.counts for kept in learner.kept.values()] == [{0: 5, 1: 3}, {1: 2, 2: 2}]
    last = task_of(3, each=4)
    learner.learn(last)
    images, targets, weights = mixtures[-1]
    assert torch.equal(images[:4], last.images)
    assert targets.tolist() == [3] * 4 + [0] * 5 + [1] * 3 + [1] * 2 + [2] * 2
    assert set(weights.tolist()) == {1.0}
    assert len({image.numpy().tobytes() for image in images[4:]}) == 12


@pytest.mark.parametrize(
    ("new_images", "order", "count"),
    [
        ("real", ["rehearse", "train classifier", "train generator"], 4),
        ("decoded", ["rehearse", "train generator", "train classifier"], 4),
        ("both", ["rehearse", "train generator", "train classifier"], 8),
    ],
)
def test_new_images_are_shown_as_chosen(
    make: Make,
    task_of: TaskOf,
    mixtures: list[tuple[Tensor, Tensor, Tensor]],
    new_images: str,
    order: list[str],
    count: int,
) -> None:
    learner, task = make(new_images=new_images), task_of(0, 1, each=2)
    assert list(learner.learn(task).seconds) == order
    images, _, weights = mixtures[-1]
    assert len(images) == count and weights.sum() == 4
    real = {image.numpy().tobytes() for image in task.images}
    shown = sum(image.numpy().tobytes() in real for image in images)
    assert shown == (0 if new_images == "decoded" else 4)


def test_generated_images_are_weighed_by_their_decay(
    make: Make,
    task_of: TaskOf,
    mixtures: list[tuple[Tensor, Tensor, Tensor]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    learner = make()
    learner.learn(task_of(0, 1))
    learner.originals = {1: 80.0}
    monkeypatch.setattr(ConditionalGAN, "_accuracy", lambda self, images, targets: 60.0)
    report = learner.learn(task_of(2))
    assert report.decay is not None
    (told,) = report.decay
    weight = pytest.approx(torch.tensor(-0.25).exp().item())
    assert (told["original"], told["decoded"], told["weight"]) == (80.0, 60.0, weight)
    assert mixtures[-1][2].tolist() == [1.0] * 3 + [weight] * 6


def test_what_is_kept_is_generators(make: Make, task_of: TaskOf) -> None:
    learner = make()
    learner.learn(task_of(0, 1))
    one = learner.bytes_by_part()
    assert set(one) == {"classifier", "generators"} and learner.strict
    assert one["generators"] == learner.nets((1, 32, 32))["generator"]["bytes"] + 4 * 2048
    learner.learn(task_of(2))
    assert learner.bytes_by_part()["generators"] > 1.9 * one["generators"]


def test_a_budget_is_refused(make: Make) -> None:
    with pytest.raises(UserError, match="keeps generators, no episodes"):
        make().set_memory("5MB")
    with pytest.raises(UserError, match="eec-cgan has no option memory"):
        choose_options("eec-cgan", memory="5MB")


def test_its_training_goes_on_at_its_step_to_the_same_bits(
    make: Make,
    task_of: TaskOf,
    short_recipe: Recipe,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    longer = replace(short_recipe.gan, steps=5)
    monkeypatch.setitem(RECIPES, "fast", replace(short_recipe, gan=longer))
    straight, cut = make(), make()
    straight.learn(task_of(0, 1))
    journal, steps = Journal(tmp_path / "trainings"), list[int]()

    def stop(name: str) -> Progress:
        def stop_at_3(done: int, total: int) -> None:
            if done == 3:
                journal.stop()

        return stop_at_3 if name == "train generator" else quiet

    with pytest.raises(KeyboardInterrupt):
        cut.learn(task_of(0, 1), stop, journal)

    def count(name: str) -> Progress:
        return (lambda done, total: steps.append(done)) if "generator" in name else quiet

    cut.learn(task_of(0, 1), count, Journal(tmp_path / "trainings"))
    assert steps == [4, 5]
    assert learner_bytes(cut) == learner_bytes(straight)
