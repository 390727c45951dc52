"""Where memory is small, the classifier of before has a say."""

from collections.abc import Callable
from typing import Any

import pytest
from torch import Tensor

from eec.data.stream import Task
from eec.errors import UserError
from eec.methods.options import EECOptions, ReplayOptions
from eec.methods.registry import choose_options, make_method
from eec.training.distillation import Teacher
from eec.training.recipes import Recipe
from eec.training.runtime import Runtime

TaskOf = Callable[..., Task]


@pytest.mark.parametrize("name", ["eec", "replay", "replay-webp"])
def test_the_classifier_of_before_counts_as_much_as_memory_has_lost(
    name: str,
    task_of: TaskOf,
    cpu: Runtime,
    short_recipe: Recipe,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    heard: list[float] = []
    original = Teacher.__call__

    def spy(self: Teacher, batch: Tensor, said: Tensor) -> Tensor:
        heard.append(self.heed)
        assert self.net.head is not None and self.net.head.out_features < said.shape[1]
        return original(self, batch, said)

    monkeypatch.setattr(Teacher, "__call__", spy)

    def heeds(**options: Any) -> list[float]:
        """By task, how much it counts in its training; those in which nobody was asked: 0."""
        learner = make_method(name, choose_options(name, **options), 0, cpu)
        found = []
        for digits in ((0, 1), (2,), (3,)):
            heard.clear()
            learner.learn(task_of(*digits, each=6))
            found.append(round(max(heard, default=0.0), 6))
        return found

    assert heeds() == [0, 0, 0]  # all images are kept
    assert heeds(memory="6") == [0, 0.5, round(1 - 6 / 18, 6)]
    assert heeds(memory="6", distil=2.0) == [0, 1.0, round(2 * (1 - 6 / 18), 6)]
    assert heeds(memory="6", distil=0.0) == [0, 0, 0]


@pytest.mark.parametrize("options", [EECOptions, ReplayOptions])
@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
def test_what_cannot_be_a_weight_is_refused(options: Any, value: float) -> None:
    with pytest.raises(UserError, match=r"distil is .*: use 0 or more"):
        options(distil=value)
