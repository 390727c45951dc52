"""What cannot be learned is refused or given up, and the learner stays as it was."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from eec.data.labels import Label
from eec.data.stream import Task
from eec.errors import UserError
from eec.methods.contract import Method
from eec.training.loop import Progress

Make = Callable[..., Method]
TaskOf = Callable[..., Task]
SameState = Callable[..., bool]


def test_asking_before_learning_is_refused(make: Make, digit_images: Callable[..., Tensor]) -> None:
    for ask in (make().predict, make().predict_proba):
        with pytest.raises(UserError, match="nothing has been learned"):
            ask(digit_images(0, 2))


def test_images_of_another_size_or_mode_are_refused(taught: Method, same_state: SameState) -> None:
    before = taught.state()
    for shape, words in (
        ((4, 1, 28, 28), "grey 28x28"),
        ((4, 1, 32, 28), "grey 32x28"),
        ((4, 3, 32, 32), "RGB 32x32"),
    ):
        images = torch.zeros(shape, dtype=torch.uint8)
        for ask in (taught.predict, taught.predict_proba, lambda x: taught.learn(Task(x, [3] * 4))):
            with pytest.raises(UserError, match=f"{words} but grey 32x32 was learned"):
                ask(images)
    assert same_state(taught.state(), before)


@pytest.mark.parametrize(("learned", "given"), [(1, True), (0.0, 0)])
def test_a_label_that_equals_another_of_a_different_type_is_refused(
    make: Make, task_of: TaskOf, same_state: SameState, learned: Label, given: Label
) -> None:
    learner = make()
    learner.learn(task_of(0, each=1, name=lambda digit: learned))
    before = learner.state()
    with pytest.raises(UserError, match="use one type for this class"):
        learner.learn(task_of(0, each=1, name=lambda digit: given))
    assert same_state(learner.state(), before)


def test_an_empty_task_cannot_be_made() -> None:
    with pytest.raises(UserError, match="no images"):
        Task(torch.zeros(0, 1, 32, 32, dtype=torch.uint8), [])


class Watch:
    """Counts every phase that begins and every step that is done; stops learning at one of them."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.count = 0
        self.stop_at = stop_at

    def phase(self, name: str) -> Progress:
        self.event()
        return lambda done, total: self.event()

    def event(self) -> None:
        self.count += 1
        if self.count == self.stop_at:
            raise KeyboardInterrupt


def events_of(learner: Method, task: Task) -> int:
    watch = Watch()
    learner.learn(task, watch.phase)
    return watch.count


def test_an_interrupted_task_leaves_the_learner_as_it_was(
    make: Make, taught: Method, task_of: TaskOf, same_state: SameState
) -> None:
    before = taught.state()
    back = task_of(3, 0, each=2, skip=8)  # a new class, and one that comes back
    straight = make()
    straight.restore(*before)
    count = events_of(straight, back)
    for stop_at in sorted({1, count // 2, count - 1, count}):
        with pytest.raises(KeyboardInterrupt):
            taught.learn(back, Watch(stop_at).phase)
        assert same_state(taught.state(), before)
    taught.learn(back)
    assert same_state(taught.state(), straight.state())


def test_an_interrupted_first_task_leaves_an_untaught_learner(
    make: Make, task_of: TaskOf, same_state: SameState
) -> None:
    learner = make()
    with pytest.raises(KeyboardInterrupt):
        learner.learn(task_of(0, 1), Watch(3).phase)
    assert same_state(learner.state(), make().state())
    with pytest.raises(UserError, match="nothing has been learned"):
        learner.predict(task_of(0).images)
    learner.learn(task_of(0, 1))
    straight = make()
    straight.learn(task_of(0, 1))
    assert same_state(learner.state(), straight.state())
