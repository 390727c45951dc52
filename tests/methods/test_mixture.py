"""What `D` is trained on: new images as chosen, old ones decoded, and what each weighs."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from eec.data.stream import Task
from eec.methods import eec as module
from eec.methods.contract import Report
from eec.methods.eec import EECMethod
from eec.methods.mixture import detail_of
from eec.methods.registry import choose_options, make_method
from eec.training.batches import Detail
from eec.training.recipes import Recipe
from eec.training.runtime import Runtime

Make = Callable[..., EECMethod]
TaskOf = Callable[..., Task]


@pytest.fixture(autouse=True)
def _short(short_recipe: Recipe) -> None:
    """Nothing here asks how well it learns."""


def check_mixture(
    mixture: tuple[Tensor, Tensor, Tensor], parts: list[Tensor], weights: list[float]
) -> None:
    images, targets, given = mixture
    assert torch.equal(images, torch.cat(parts))
    wanted = [w for part, w in zip(parts, weights, strict=True) for _ in part]
    assert given.tolist() == pytest.approx(wanted)
    assert len(targets) == len(images)


@pytest.mark.parametrize("new_images", ["real", "decoded", "both"])
def test_new_images_are_shown_as_chosen_beside_the_decoded_old_ones(
    make: Make,
    task_of: TaskOf,
    mixtures: list[tuple[Tensor, Tensor, Tensor]],
    new_images: str,
) -> None:
    learner = make(new_images=new_images, decay=False, code_type="float32")
    learner.learn(task_of(0, 1))
    old = torch.cat([learner.memory.reconstruct(part) for part in learner.memory.kept])
    learner.learn(task_of(2))
    real = task_of(2).images
    decoded = learner.memory.codecs[1](real)
    parts, shares = {
        "real": ([real, old], [1.0, 1.0]),
        "decoded": ([decoded, old], [1.0, 1.0]),
        "both": ([real, decoded, old], [0.5, 0.5, 1.0]),
    }[new_images]
    check_mixture(mixtures[-1], parts, shares)
    assert mixtures[-1][1].tolist() == [2] * (len(parts) - 1) * 3 + [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize(
    ("options", "wanting"),
    [
        ({}, [True] * 3 + [True] * 6),
        ({"new_images": "both"}, [False] * 3 + [True] * 3 + [True] * 6),
        ({"keep_real": 0.1}, [True] * 3 + [True] * 6 + [False] * 3),
    ],
)
def test_what_the_codec_loses_of_new_images_is_lent_to_decoded_ones(
    make: Make,
    task_of: TaskOf,
    details: list[Detail | None],
    options: dict[str, Any],
    wanting: list[bool],
) -> None:
    learner = make(code_type="float32", **options)
    learner.learn(task_of(0, 1))
    learner.learn(task_of(2))
    real, detail = task_of(2).images, details[-1]
    assert detail is not None
    assert detail.wanting.tolist() == wanting
    assert torch.equal(detail.lost, detail_of(real, learner.memory.codecs[1](real)))


def test_detail_makes_a_decoded_image_real_again() -> None:
    real, decoded = torch.tensor([[5, 9, 255], [0, 30, 255]], dtype=torch.uint8)
    assert (decoded.int() + detail_of(real, decoded)).tolist() == real.tolist()
    assert detail_of(decoded - decoded, decoded).tolist() == [0, -30, -128]  # as far as it goes


@pytest.mark.parametrize("options", [{"detail": False}, {"new_images": "real"}])
def test_nothing_is_lent_where_that_is_not_wanted_or_not_known_yet(
    make: Make, task_of: TaskOf, details: list[Detail | None], options: dict[str, Any]
) -> None:
    learner = make(**options)
    learner.learn(task_of(0, 1))
    learner.learn(task_of(2))
    assert details == [None, None]


def test_compressed_replay_lends_what_compression_takes(
    task_of: TaskOf, cpu: Runtime, details: list[Detail | None]
) -> None:
    for name, lends in (("replay-webp", True), ("replay", False)):
        learner = make_method(name, choose_options(name), 0, cpu)
        learner.learn(task_of(0, 1))
        learner.learn(task_of(2, 3))
        detail, real = details[-1], task_of(2, 3).images
        assert (detail is not None) == lends
        if detail is not None:
            kept = [learner.reconstruct(real[i : i + 3], "") for i in (0, 3)]
            assert torch.equal(detail.lost, detail_of(real, torch.cat(kept)))  # type: ignore[arg-type]
            assert detail.wanting.all() and len(detail.wanting) == 12


@pytest.mark.parametrize(
    ("policy", "memory", "drawn"),
    [("concepts", "8", 10), ("concepts", "unlimited", 0), ("spread", "8", 0)],
)
def test_a_class_that_will_be_concepts_is_shown_half_as_such(
    policy: str,
    memory: str,
    drawn: int,
    make: Make,
    task_of: TaskOf,
    mixtures: list[tuple[Tensor, Tensor, Tensor]],
) -> None:
    learner = make("eec", over_budget=policy, memory=memory, code_type="float32")
    learner.learn(task_of(0, each=20))
    learner.learn(task_of(1, each=20))
    images, targets, _ = mixtures[-1]
    new = images[targets == 1]
    assert len(new) == 20
    decoded = learner.memory.codec_of(2)(task_of(1, each=20).images)
    sharp = {image.numpy().tobytes() for image in decoded}
    assert sum(image.numpy().tobytes() not in sharp for image in new) == drawn


def decayed(learner: EECMethod, task_of: TaskOf, monkeypatch: pytest.MonkeyPatch) -> Report:
    """Learn three tasks, of the first two of which the old `D` recognises 60 and was 80 before."""
    learner.learn(task_of(0, 1))
    learner.learn(task_of(2))
    learner.originals = {1: 80.0, 2: 80.0}
    monkeypatch.setattr(EECMethod, "_accuracy", lambda self, images, targets: 60.0)
    return learner.learn(task_of(3))


@pytest.mark.parametrize(
    ("name", "options", "gammas"),
    [
        ("eec", {"decay": True}, [0.25, 0.25]),
        ("eec-published", {}, [0.25, 0.25]),
        ("eecs", {}, [0.5, 0.25]),  # alpha is t - i: 2 and 1
    ],
)
def test_old_tasks_are_weighed_by_their_decay(
    make: Make,
    task_of: TaskOf,
    mixtures: list[tuple[Tensor, Tensor, Tensor]],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    options: dict[str, Any],
    gammas: list[float],
) -> None:
    report = decayed(make(name, **options), task_of, monkeypatch)
    wanted = [math.exp(-gamma) for gamma in gammas]
    assert report.decay == [
        {
            "task": task,
            "original": 80.0,
            "decoded": 60.0,
            "weight": pytest.approx(weight),
            "drawn": None,
            "drawn_weight": 1.0,
        }
        for task, weight in zip((1, 2), wanted, strict=True)
    ]
    new, first, second = 3, 6, 3
    assert mixtures[-1][2].tolist() == pytest.approx(
        [1.0] * new + [wanted[0]] * first + [wanted[1]] * second
    )


@pytest.mark.parametrize(("name", "options"), [("eec", {}), ("eecs", {"decay": False})])
def test_without_decay_nothing_is_measured_and_all_weigh_the_same(
    make: Make,
    task_of: TaskOf,
    mixtures: list[tuple[Tensor, Tensor, Tensor]],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    options: dict[str, Any],
) -> None:
    assert decayed(make(name, **options), task_of, monkeypatch).decay is None
    assert set(mixtures[-1][2].tolist()) == {1.0}


def test_the_original_accuracy_is_that_on_the_real_training_images(
    make: Make, task_of: TaskOf
) -> None:
    for name in ("eec", "eec-published"):
        learner = make(name)
        for number, task in enumerate((task_of(0, 1), task_of(2, 3)), start=1):
            learner.learn(task)
            hits = [a == b for a, b in zip(learner.predict(task.images), task.labels, strict=True)]
            assert learner.originals[number] == pytest.approx(100 * np.mean(hits))


@pytest.mark.parametrize(("replay", "judged"), [(0, [6]), (2, [3]), (5, [5])])
def test_bounded_replay_bounds_what_decay_is_measured_on(
    make: Make, task_of: TaskOf, monkeypatch: pytest.MonkeyPatch, replay: int, judged: list[int]
) -> None:
    monkeypatch.setattr(module, "FEWEST_JUDGED", 3)
    learner = make(code_type="uint8", decay=True, replay_per_epoch=replay)
    learner.learn(task_of(0, 1, each=3))
    seen: list[int] = []
    original = learner._accuracy

    def spy(images: Tensor, targets: Tensor) -> float:
        seen.append(len(images))
        return original(images, targets)

    monkeypatch.setattr(learner, "_accuracy", spy)
    learner.learn(task_of(2, each=3))
    assert seen[:-1] == judged  # the last is of the new images, all of them
