"""What `Method` does for every method: the classifier, its head, its plans and its weights."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from eec.data.stream import Task
from eec.methods.contract import Method, Report
from eec.methods.options import ClassifierOptions
from eec.methods.registry import choose_options, make_method
from eec.training.recipes import RECIPES, Plan, Recipe
from eec.training.runtime import Runtime

TaskOf = Callable[..., Task]


class Weighted(Method):
    """All that a new method must have; every image weighs what `weights` says."""

    weights: Tensor | None = None

    def _learn(self, images: Tensor, targets: Tensor, report: Report) -> None:
        self._train_classifier(images, targets, self.weights, report)


def learned(task: Task, weights: list[float] | None, cpu: Runtime) -> dict[str, Tensor]:
    learner = Weighted("weighted", ClassifierOptions(), 0, cpu)
    learner.weights = None if weights is None else torch.tensor(weights)
    learner.learn(task)
    return learner.state()[0]


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return all(torch.equal(one[key], other[key]) for key in one)


def test_an_image_of_weight_0_teaches_nothing(
    task_of: TaskOf, cpu: Runtime, short_recipe: Recipe
) -> None:
    task = task_of(0, 1)
    wrong = Task(task.images, [0, 0, 1, 1, 1, 0])  # the third and the last by a wrong name
    mute = [1.0, 1.0, 0.0, 1.0, 1.0, 0.0]
    assert same(learned(task, mute, cpu), learned(wrong, mute, cpu))
    assert not same(learned(task, None, cpu), learned(wrong, None, cpu))


def test_weights_of_1_are_no_weights(task_of: TaskOf, cpu: Runtime, short_recipe: Recipe) -> None:
    task = task_of(0, 1)
    assert same(learned(task, [1.0] * 6, cpu), learned(task, None, cpu))
    assert not same(learned(task, [1.0, 0.5] * 3, cpu), learned(task, None, cpu))


@pytest.fixture
def idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """A recipe that trains for one step (later for two) at rate 0: weights stay as they begin."""
    first = Plan("sgd", rate=0.0, batch=6, steps=1, milestones=(9,))
    recipe = Recipe(first, replace(first, steps=2), first, first, crop=0)
    monkeypatch.setitem(RECIPES, "fast", recipe)


@pytest.mark.parametrize("keep_head", [True, False])
@pytest.mark.usefixtures("idle")
def test_the_head_keeps_its_old_rows_unless_told_otherwise(
    task_of: TaskOf, cpu: Runtime, keep_head: bool
) -> None:
    learner = make_method("finetune", choose_options("finetune", keep_head=keep_head), 0, cpu)
    learner.learn(task_of(0, 1))
    before = learner.state()[0]
    learner.learn(task_of(2))
    after = learner.state()[0]
    assert after["classifier.head.weight"].shape[0] == 3
    kept = torch.equal(after["classifier.head.weight"][:2], before["classifier.head.weight"])
    assert kept == keep_head
    # the rest of `D` goes on from where it was, either way
    first = "classifier.stages.0.weight"
    assert torch.equal(after[first], before[first])


@pytest.mark.usefixtures("idle")
def test_the_first_increment_has_a_plan_of_its_own(task_of: TaskOf, cpu: Runtime) -> None:
    learner = make_method("finetune", ClassifierOptions(), 0, cpu)
    calls = list[tuple[int, int]]()
    for digits in ((0, 1), (2,), (3,)):
        learner.learn(task_of(*digits), lambda phase: lambda *call: calls.append(call))
    assert calls == [(1, 1), (1, 2), (2, 2), (1, 2), (2, 2)]


@pytest.mark.parametrize(
    ("net", "channels", "width"), [("auto", 1, 64), ("auto", 3, 128), ("dcgan", 1, 128 * 16)]
)
def test_the_classifier_suits_the_images_unless_it_is_named(
    task_of: TaskOf, cpu: Runtime, short_recipe: Recipe, net: str, channels: int, width: int
) -> None:
    learner = make_method("finetune", choose_options("finetune", net=net), 0, cpu)
    task = task_of(0, 1)
    learner.learn(Task(task.images.expand(-1, channels, -1, -1), task.labels))
    assert learner.state()[0]["classifier.head.weight"].shape == (2, width)


def test_flips_happen_only_where_they_are_asked_for(
    task_of: TaskOf, cpu: Runtime, short_recipe: Recipe
) -> None:
    def state(flip: bool | None) -> dict[str, Tensor]:
        learner = make_method("finetune", choose_options("finetune", flip=flip), 0, cpu)
        learner.learn(task_of(0, 1))
        return learner.state()[0]

    assert same(state(None), state(False))
    assert not same(state(None), state(True))


def test_bounded_replay_shows_some_old_images_an_epoch_and_weighs_them_more(
    task_of: TaskOf, cpu: Runtime
) -> None:
    learner = Weighted("weighted", ClassifierOptions(replay_per_epoch=2), 0, cpu)
    learner.arrived = [1, 2]
    targets = torch.tensor([0, 1, 0, 2, 0, 0, 0, 1])  # five old images, three new ones
    drawn, weights = learner._draw(targets, torch.full((8,), 3.0))
    assert drawn is not None and weights is not None
    places, most = drawn
    assert (places.tolist(), most) == ([0, 2, 4, 5, 6], 2)
    new, old = weights[1], weights[0]
    assert torch.allclose(old / new, torch.tensor(5 / 2))  # two of them stand for five
    assert torch.allclose(3 * new + 2 * old, torch.tensor(3.0 * 5))  # in an epoch as ever
    for enough in (0, 5, 9):
        learner.options = ClassifierOptions(replay_per_epoch=enough)
        assert learner._draw(targets, None) == (None, None)


def test_images_are_named_both_ways_round_where_mirrors_are_trained_on(
    task_of: TaskOf, cpu: Runtime, short_recipe: Recipe
) -> None:
    task = task_of(0, 1)
    learner = Weighted("weighted", ClassifierOptions(flip=True), 0, cpu)
    learner.recipe = replace(learner.recipe, mirrored=True)
    learner.learn(task)
    mirrored = learner.predict_proba(task.images.flip(3))
    assert np.allclose(learner.predict_proba(task.images), mirrored)
    learner.recipe = replace(learner.recipe, mirrored=False)
    assert not np.allclose(learner.predict_proba(task.images), mirrored)
