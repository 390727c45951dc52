"""Random crops in training, the central one at test: every method, in every form of EEC."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from eec.data.images import centre
from eec.data.stream import Task
from eec.errors import UserError
from eec.methods.registry import choose_options, make_method
from eec.training.batches import Batches
from eec.training.recipes import Recipe
from eec.training.runtime import Runtime
from small_runs import CODE_PATHS

TaskOf = Callable[..., Task]


@pytest.fixture(autouse=True)
def _short(short_recipe: Recipe) -> None:
    """Nothing here asks how well it learns."""


@pytest.mark.parametrize("name", CODE_PATHS)
def test_every_method_learns_crops(name: str, task_of: TaskOf, cpu: Runtime) -> None:
    learner = make_method(name, choose_options(name, crop=24), 0, cpu)
    learner.learn(task_of(0, 1))
    learner.learn(task_of(2))
    assert learner.image == (1, 32, 32)
    images = task_of(0, 1, 2, skip=3).images
    # Only the middle is looked at, and it may be brought alone.
    probabilities = learner.predict_proba(images)
    assert probabilities.tolist() == learner.predict_proba(centre(images, 24, 24)).tolist()
    framed = torch.full_like(images, 255)
    framed[:, :, 4:28, 4:28] = centre(images, 24, 24)
    assert learner.predict_proba(framed).tolist() == probabilities.tolist()
    for _, remembered in learner.remember(2):
        assert remembered.shape[1:] == (1, 24, 24)
    again = make_method(name, learner.options, 0, cpu)
    again.restore(*learner.state())
    assert again.predict_proba(images).tolist() == probabilities.tolist()
    with pytest.raises(UserError, match="images are grey 28x28 but grey 32x32 was learned"):
        learner.predict(centre(images, 28, 28))
    later = task_of(3)
    with pytest.raises(UserError, match="images are grey 24x24 but grey 32x32 was learned"):
        learner.learn(Task(centre(later.images, 24, 24).clone(), later.labels))


@pytest.mark.parametrize("form", ["real", "decoded", "both"])
def test_real_images_are_cropped_inside_their_own_margin(
    form: str, task_of: TaskOf, cpu: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Tensor] = []
    original = Batches.__init__

    def spy(self: Batches, images: Tensor, **options: Any) -> None:
        if "window" in options:
            assert options["window"] == 24
            seen.append(images)
        original(self, images, **options)

    monkeypatch.setattr(Batches, "__init__", spy)
    learner = make_method("eec", choose_options("eec", crop=24, new_images=form), 0, cpu)
    task = task_of(0, 1)
    task = Task(task.images.clamp_min(9), task.labels)  # no black pixel in a real image
    learner.learn(task)
    bare = [(image == 0)[0, 0].all() for image in seen[0]]
    assert sum(map(bool, bare)) == {"real": 0, "decoded": 6, "both": 6}[form]
    assert len(bare) == {"real": 6, "decoded": 6, "both": 12}[form]


@pytest.mark.parametrize("crop", [4, 40])
def test_a_crop_that_does_not_fit_is_refused(crop: int, task_of: TaskOf, cpu: Runtime) -> None:
    learner = make_method("eec", choose_options("eec", crop=crop), 0, cpu)
    with pytest.raises(UserError, match=f"crop is {crop} but images are grey 32x32: use 8 to 32"):
        learner.learn(task_of(0, 1))
    assert learner.classes == []
