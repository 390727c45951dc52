"""iCaRL: exemplars by herding, targets that remember, the nearest mean, all within a budget."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from eec.data.stream import Task
from eec.errors import UserError
from eec.methods.archive import load_learner, save_learner
from eec.methods.contract import Report
from eec.methods.icarl import ICaRL, Lesson, distillation_targets, herd, nearest
from eec.methods.registry import choose_options, make_method
from eec.nets.classifiers import Classifier
from eec.training.batches import to_float
from eec.training.recipes import Recipe
from eec.training.runtime import Runtime, generator

Make = Callable[..., ICaRL]
TaskOf = Callable[..., Task]
ImagesOf = Callable[..., Tensor]


@pytest.fixture(autouse=True)
def _short(short_recipe: Recipe) -> None:
    """Nothing here asks how well it learns."""


@pytest.fixture
def make(cpu: Runtime) -> Make:
    def learner(**options: Any) -> ICaRL:
        method = make_method("icarl", choose_options("icarl", **options), 0, cpu)
        assert isinstance(method, ICaRL)
        return method

    return learner


def held(learner: ICaRL) -> list[int]:
    return [len(pile.images) for pile in learner.kept.piles]


def on_disk(learner: ICaRL, folder: Path) -> int:
    size = save_learner(learner, folder / "learner.eec").stat().st_size
    return size - learner.bytes_by_part()["classifier"]


def bundle(count: int = 60, width: int = 16) -> Tensor:
    """Rows of length 1 around two directions, as features of a class are."""
    random = generator(0, "features")
    centres = torch.randn(2, width, generator=random)[torch.arange(count) % 2]
    return normalize(centres + 0.5 * torch.randn(count, width, generator=random))


# --- herding ---


def test_few_herded_rows_have_the_mean_of_all_better_than_random_ones() -> None:
    features = bundle()
    ones = torch.ones(len(features))

    def away(places: list[int]) -> float:
        return float((features[places].mean(0) - features.mean(0)).norm())

    for most in (1, 2, 5, 10, 30):
        order = herd(features, ones, most)
        draws = [torch.randperm(len(features), generator=generator(i))[:most] for i in range(50)]
        assert len(set(order)) == most
        assert away(order) < np.quantile([away(draw.tolist()) for draw in draws], 0.1)


def test_each_place_is_the_best_that_can_follow_and_a_short_list_begins_a_long_one() -> None:
    features = bundle(12)
    ones = torch.ones(len(features))
    order = herd(features, ones, 99)
    assert sorted(order) == list(range(12))
    for count in range(12):
        assert herd(features, ones, count) == order[:count]
        rest = [place for place in range(12) if place not in order[:count]]
        missed = [
            float((features[[*order[:count], place]].mean(0) - features.mean(0)).norm())
            for place in rest
        ]
        assert rest[int(np.argmin(missed))] == order[count]


def test_a_row_that_stands_for_many_draws_the_choice_to_it() -> None:
    features = torch.eye(3)
    assert herd(features, torch.tensor([1, 1, 5]), 1) == [2]
    assert herd(features, torch.tensor([1, 5, 1]), 1) == [1]


# --- distillation ---


def test_old_outputs_are_what_the_net_said_and_new_ones_the_truth() -> None:
    before = torch.tensor([[2.0, -1.0], [-3.0, 0.5], [1.0, 1.0]])
    arrived = torch.tensor([False, True, True])
    wanted = distillation_targets(torch.tensor([0, 2, 1]), arrived, 4, before)
    said = before.sigmoid()
    assert wanted.shape == (3, 4)
    # An exemplar: all that the net said, and none of the new classes.
    assert torch.equal(wanted[0], torch.cat([said[0], torch.zeros(2)]))
    # Of a new class, and of an old one that came back: certainly of its own.
    assert torch.equal(wanted[1], torch.cat([said[1], torch.tensor([1.0, 0.0])]))
    assert torch.equal(wanted[2], torch.tensor([float(said[2, 0]), 1.0, 0.0, 0.0]))


def test_without_a_net_before_there_is_only_the_truth() -> None:
    wanted = distillation_targets(torch.tensor([1, 0]), torch.tensor([False, True]), 2, None)
    assert torch.equal(wanted, torch.tensor([[0.0, 1.0], [1.0, 0.0]]))


@pytest.fixture
def lessons(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Lesson, Tensor, Tensor]]:
    """Of every training: its lesson, its images and its class indices."""
    seen: list[tuple[Lesson, Tensor, Tensor]] = []
    train = ICaRL._train_classifier

    def spy(self: ICaRL, images: Tensor, targets: Tensor, weights: None, report: Report) -> None:
        assert self._lesson is not None
        seen.append((self._lesson, images, targets))
        train(self, images, targets, weights, report)

    monkeypatch.setattr(ICaRL, "_train_classifier", spy)
    return seen


def test_the_teacher_is_the_net_before_the_task_also_of_a_loaded_learner(
    make: Make,
    task_of: TaskOf,
    tmp_path: Path,
    lessons: list[tuple[Lesson, Tensor, Tensor]],
) -> None:
    learner = make(keep_head=False)
    learner.learn(task_of(0, 1, each=4))
    assert lessons[-1][0].teacher is None
    images = to_float(task_of(2, each=4).images)
    net = learner.classifier
    assert isinstance(net, Classifier)
    with torch.no_grad():
        said = net(images)
    loaded = load_learner(save_learner(learner, tmp_path / "a.eec"), learner.runtime)
    for each in (learner, loaded):
        each.learn(task_of(2, each=4))
        teacher = lessons[-1][0].teacher
        assert teacher is not None
        with torch.no_grad():
            assert torch.equal(teacher(images), said)
            assert each.classifier is not None and each.classifier(images).shape == (4, 3)


def test_exemplars_are_shown_once_each_beside_the_new_images(
    make: Make, task_of: TaskOf, lessons: list[tuple[Lesson, Tensor, Tensor]]
) -> None:
    learner = make(memory="6")
    learner.learn(task_of(0, 1, each=9))
    learner.learn(task_of(2, 0, each=5))
    lesson, images, targets = lessons[-1]
    assert targets.tolist() == [0] * 3 + [1] * 3 + [2] * 5 + [0] * 5
    assert len(images) == 16 and lesson.arrived.tolist() == [False] * 6 + [True] * 10


# --- prediction ---


def test_the_nearest_is_the_one_at_the_smallest_distance() -> None:
    means = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    found = nearest(torch.tensor([[0.6, 0.8], [1.0, 0.0]]), means)
    assert torch.allclose(found, torch.tensor([[-0.8, -0.4], [0.0, -2.0]]), atol=1e-6)


@pytest.mark.parametrize("flip", [False, True])
def test_images_are_named_by_the_nearest_mean_of_exemplars(
    flip: bool, make: Make, task_of: TaskOf, digit_images: ImagesOf
) -> None:
    learner = make(memory="10", flip=flip)
    learner.learn(task_of(0, 1, each=9))
    learner.learn(task_of(2, each=9))
    net = learner.classifier
    assert net is not None

    def features(images: Tensor) -> Tensor:
        with torch.no_grad():
            return normalize(net.stages(to_float(images)).amax((2, 3)))

    means = []
    for _, images in learner.remember(9):
        both = torch.cat([images, images.flip(3)]) if flip else images
        means.append(normalize(features(both).mean(0), dim=0))
    asked = torch.cat([digit_images(digit, 10, skip=30) for digit in range(3)])
    distances = (features(asked)[:, None] - torch.stack(means)).square().sum(2)
    wanted = (-distances).double().softmax(1).numpy()
    assert np.allclose(learner.predict_proba(asked), wanted, atol=1e-5)
    assert learner.predict(asked) == [int(i) for i in distances.argmin(1)]


# --- what is kept ---


def test_the_best_stay_when_classes_arrive_and_they_come_back_from_a_file(
    make: Make, task_of: TaskOf, tmp_path: Path
) -> None:
    learner = make(memory="12")
    learner.learn(task_of(0, 1, each=20))
    first = [pile.images for pile in learner.kept.piles]
    assert held(learner) == [6, 6]
    learner.learn(task_of(2, each=20))
    assert held(learner) == [4] * 3
    assert [pile.images for pile in learner.kept.piles][:2] == [images[:4] for images in first]
    loaded = load_learner(save_learner(learner, tmp_path / "a.eec"), learner.runtime)
    assert isinstance(loaded, ICaRL)
    loaded.set_memory("6")
    assert [pile.images for pile in loaded.kept.piles][:2] == [images[:2] for images in first]
    assert [pile.seen for pile in loaded.kept.piles] == [20] * 3


def test_exemplars_are_herded_by_the_features_after_the_task(
    make: Make, task_of: TaskOf, digit_images: ImagesOf
) -> None:
    learner = make(memory="8")
    learner.learn(task_of(0, 1, each=12))
    for digit in (0, 1):
        images = digit_images(digit, 12)
        features = learner._features(images)
        order = herd(features, torch.ones(12), 4)
        assert torch.equal(learner._read(learner.kept.piles[digit].images), images[order])


def test_a_class_that_comes_back_is_herded_anew_from_all_that_is_there(
    make: Make, task_of: TaskOf, digit_images: ImagesOf
) -> None:
    learner = make(memory="8")
    learner.learn(task_of(0, 1, each=12))
    before = [pile.images for pile in learner.kept.piles]
    learner.learn(task_of(0, each=12, skip=12))
    after = [pile.images for pile in learner.kept.piles]
    there = torch.cat([learner._read(before[0]), digit_images(0, 12, skip=12)])
    counts = torch.tensor([3] * 4 + [1] * 12)  # four exemplars stand for the first twelve
    order = herd(learner._features(there), counts, 4)
    assert torch.equal(learner._read(after[0]), there[order])
    assert after[1] == before[1] and learner.classes == [0, 1]
    assert [pile.seen for pile in learner.kept.piles] == [24, 12]


def test_bytes_on_disk_stay_within_the_budget_and_use_it(
    make: Make, task_of: TaskOf, tmp_path: Path
) -> None:
    learner = make(memory="50kB")
    for digits in ((0, 1), (2,), (0, 3)):
        learner.learn(task_of(*digits, each=30))
        assert 50_000 - 1024 - 100 < on_disk(learner, tmp_path) <= 50_000
    assert max(held(learner)) - min(held(learner)) <= 1


def test_2000_exemplars_are_kept_where_nothing_else_is_said(make: Make) -> None:
    assert make().options.memory == "2000"


def test_a_budget_too_small_is_refused_before_anything_is_trained(
    make: Make, task_of: TaskOf, lessons: list[tuple[Lesson, Tensor, Tensor]]
) -> None:
    for memory, enough in (("1", "use 2 or more"), ("3kB", r"use \d+kB or more")):
        learner = make(memory=memory)
        with pytest.raises(UserError, match=f"memory {memory} is too small .* {enough}"):
            learner.learn(task_of(0, 1))
        assert learner.classes == [] and not lessons


def test_one_class_alone_is_named_and_taught_no_lesson(
    make: Make,
    task_of: TaskOf,
    digit_images: ImagesOf,
    lessons: list[tuple[Lesson, Tensor, Tensor]],
) -> None:
    learner = make(memory="5")
    learner.learn(task_of(3, each=9))
    assert held(learner) == [5] and learner.predict(digit_images(1, 2)) == [3, 3]
    assert np.array_equal(learner.predict_proba(digit_images(1, 2)), np.ones((2, 1)))
    learner.learn(task_of(4, each=9))
    assert lessons[-1][0].teacher is None  # it had learned nothing
    assert held(learner) == [3, 2]
