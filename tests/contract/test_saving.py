"""The same seed gives the same bytes; a learner that was saved goes on as if it had not been."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from eec.data.stream import Task
from eec.methods.archive import load_learner, save_learner
from eec.methods.contract import Method
from eec.training.batches import to_float
from eec.training.runtime import Runtime

Make = Callable[..., Method]
TaskOf = Callable[..., Task]
Saved = Callable[[Method], bytes]


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(
    make: Make, task_of: TaskOf, saved: Saved
) -> None:
    def learned(seed: int) -> bytes:
        learner = make(seed)
        learner.learn(task_of(0, 1))
        torch.rand(3)  # whatever the user draws in between
        learner.learn(task_of(2))
        return saved(learner)

    first = learned(7)
    assert learned(7) == first
    assert learned(8) != first


def test_the_seed_shows_in_the_weights_and_not_only_in_the_manifest(
    make: Make, task_of: TaskOf
) -> None:
    weights = []
    for seed in (7, 8):
        learner = make(seed)
        learner.learn(task_of(0, 1))
        weights.append(learner.state()[0]["classifier.head.weight"])
    assert not torch.equal(*weights)


def test_a_loaded_learner_is_the_one_that_was_saved(
    taught: Method, cpu: Runtime, tmp_path: Path, digit_images: Callable[..., Tensor]
) -> None:
    path = save_learner(taught, tmp_path / "a.eec")
    loaded = load_learner(path, cpu)
    images = torch.cat([digit_images(digit, 4) for digit in range(5)])
    assert np.array_equal(loaded.predict_proba(images), taught.predict_proba(images))
    assert loaded.predict(images) == taught.predict(images)
    assert loaded.bytes_by_part() == taught.bytes_by_part()
    assert (loaded.name, loaded.seed, loaded.options) == (taught.name, taught.seed, taught.options)
    assert save_learner(loaded, tmp_path / "b.eec").read_bytes() == path.read_bytes()


def test_going_on_after_loading_equals_going_on_without(
    make: Make, task_of: TaskOf, cpu: Runtime, tmp_path: Path, saved: Saved
) -> None:
    straight = make()
    straight.learn(task_of(0, 1))
    straight.learn(task_of(2))
    loaded = load_learner(save_learner(straight, tmp_path / "middle.eec"), cpu)
    for learner in (straight, loaded):
        learner.learn(task_of(3, 1, skip=8))
        learner.learn(task_of(4))
    assert saved(loaded) == saved(straight)


def test_an_untaught_learner_can_be_saved_and_taught_later(
    make: Make, task_of: TaskOf, cpu: Runtime, tmp_path: Path, saved: Saved
) -> None:
    straight = make()
    loaded = load_learner(save_learner(straight, tmp_path / "empty.eec"), cpu)
    for learner in (straight, loaded):
        learner.learn(task_of(0, 1))
    assert saved(loaded) == saved(straight)


def test_labels_keep_their_types_in_the_file(
    make: Make, task_of: TaskOf, cpu: Runtime, tmp_path: Path
) -> None:
    names = ("1", 1, 2.0)
    learner = make()
    learner.learn(task_of(0, 1, 2, name=names.__getitem__))
    loaded = load_learner(save_learner(learner, tmp_path / "a.eec"), cpu)
    assert [(type(c), c) for c in loaded.classes] == [(str, "1"), (int, 1), (float, 2.0)]


# --- strict: no real image is left behind ---


def test_strict_methods_save_no_training_image_and_others_say_that_they_do(
    name: str, make: Make, task_of: TaskOf, saved: Saved
) -> None:
    learner = make()
    tasks = [task_of(0, 1), task_of(2)]
    for task in tasks:
        learner.learn(task)
    content = saved(learner)
    images = torch.cat([task.images for task in tasks])
    found = [
        bool(form.contiguous().numpy().tobytes() in content)
        for image in images
        for form in (image, image.permute(1, 2, 0), to_float(image), image.float() / 255)
    ]
    if learner.strict:
        assert not any(found)
    elif name in ("replay-webp", "replay-jpeg"):  # other bytes, but still these images
        shown = torch.cat([kept for _, kept in learner.remember(3)])
        assert shown.shape == images.shape and not any(found)
        assert (shown.float() - images.float()).abs().mean() < 12
    else:
        assert sum(found) >= len(images)
