"""Tasks of every shape, and what a method tells after them."""

import random
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from eec.data.labels import Label
from eec.data.stream import Task
from eec.methods.contract import Method, Report
from eec.training.loop import Progress

Make = Callable[..., Method]
TaskOf = Callable[..., Task]
ImagesOf = Callable[..., Tensor]


def check_answers(learner: Method, images: Tensor, classes: list[Label]) -> None:
    """Probabilities over all classes in order of arrival, and labels that follow from them."""
    assert learner.classes == classes
    chances = learner.predict_proba(images)
    assert chances.shape == (len(images), len(classes))
    assert np.isfinite(chances).all() and (chances >= 0).all()
    assert np.allclose(chances.sum(1), 1, atol=1e-12)
    assert learner.predict(images) == [classes[i] for i in chances.argmax(1)]


def test_unequal_increments(make: Make, task_of: TaskOf, digit_images: ImagesOf) -> None:
    learner = make()
    learner.learn(task_of(0, 1))
    check_answers(learner, digit_images(4, 5), [0, 1])
    learner.learn(task_of(2))
    check_answers(learner, digit_images(4, 5), [0, 1, 2])
    assert learner.tasks == 2


def test_one_class_increments(make: Make, task_of: TaskOf, digit_images: ImagesOf) -> None:
    learner = make()
    arrived: list[Label] = [6, 3, 8]
    for number, digit in enumerate((6, 3, 8), start=1):
        report = learner.learn(task_of(digit))
        check_answers(learner, digit_images(4, 5), arrived[:number])
        assert any("one class" in note for note in report.notes) == (number == 1)


def test_a_single_image_of_a_class(make: Make, task_of: TaskOf, digit_images: ImagesOf) -> None:
    learner = make()
    learner.learn(task_of(0, each=1))
    learner.learn(task_of(1, each=1))
    learner.learn(Task(digit_images(2, 4)[:4], [2, 2, 2, 3]))
    check_answers(learner, digit_images(4, 3), [0, 1, 2, 3])


def test_batches_that_do_not_come_out_even(make: Make, task_of: TaskOf) -> None:
    learner = make()
    learner.learn(task_of(0, each=7))  # one more than a batch
    learner.learn(task_of(1, each=7))
    check_answers(learner, task_of(2).images, [0, 1])


def test_a_class_that_comes_back_with_new_images(
    make: Make, task_of: TaskOf, digit_images: ImagesOf
) -> None:
    learner = make()
    learner.learn(task_of(0, 1))
    learner.learn(task_of(1, skip=10))
    check_answers(learner, digit_images(4, 3), [0, 1])
    learner.learn(task_of(2, 0, skip=20))
    check_answers(learner, digit_images(4, 3), [0, 1, 2])


def test_classes_stand_in_order_of_arrival(taught: Method, digit_images: ImagesOf) -> None:
    check_answers(taught, digit_images(4, 3), [2, 0, 1])


@pytest.mark.parametrize(
    "labels",
    [("cat", 3, 2.5), ("", "ü/\n", True)],
)
def test_labels_come_back_as_they_were_given(
    make: Make, task_of: TaskOf, digit_images: ImagesOf, labels: tuple[Label, ...]
) -> None:
    learner = make()
    learner.learn(task_of(0, 1, each=2, name=labels.__getitem__))
    learner.learn(task_of(2, each=2, name=labels.__getitem__))
    called = learner.predict(digit_images(4, 8))
    assert learner.classes == list(labels) and set(called) <= set(labels)
    types = {label: type(label) for label in labels}
    assert all(type(label) is types[label] for label in [*learner.classes, *called])


def test_colour_images_of_an_odd_size(make: Make, digit_images: ImagesOf) -> None:
    images = digit_images(0, 4).expand(-1, 3, -1, -1)[:, :, :27, :]
    learner = make()
    learner.learn(Task(images, [0, 0, 1, 1]))
    learner.learn(Task(images, [2] * 4))
    check_answers(learner, images, [0, 1, 2])


def test_images_in_any_memory_order_can_be_learned_and_saved(
    make: Make, task_of: TaskOf, saved: Callable[[Method], bytes]
) -> None:
    task = task_of(0, 1)
    turned = task.images.transpose(2, 3).contiguous().transpose(2, 3)
    assert torch.equal(turned, task.images) and not turned.is_contiguous()
    learner = make()
    learner.learn(Task(turned, task.labels))
    assert saved(learner)
    assert np.allclose(learner.predict_proba(turned), learner.predict_proba(task.images), atol=1e-5)


def test_the_images_stay_the_users_own(
    make: Make,
    task_of: TaskOf,
    same_state: Callable[..., bool],
) -> None:
    task = task_of(0, 1)
    before = task.images.clone()
    learner = make()
    learner.learn(task)
    assert torch.equal(task.images, before)
    state = {key: tensor.clone() for key, tensor in learner.state()[0].items()}
    task.images.zero_()
    assert same_state(learner.state(), (state, learner.state()[1]))


def test_a_state_once_given_does_not_change(
    taught: Method, task_of: TaskOf, same_state: Callable[..., bool]
) -> None:
    tensors, facts = taught.state()
    copy = {key: tensor.clone() for key, tensor in tensors.items()}
    taught.learn(task_of(3))
    assert same_state((tensors, facts), (copy, facts))
    assert not same_state(taught.state(), (tensors, facts))


def test_asking_changes_nothing(
    taught: Method, digit_images: ImagesOf, same_state: Callable[..., bool]
) -> None:
    before = taught.state()
    first = taught.predict_proba(digit_images(4, 6))
    taught.bytes_by_part()
    taught.remember(3)
    taught.reconstruct(digit_images(2, 2), 2)
    assert np.array_equal(first, taught.predict_proba(digit_images(4, 6)))
    assert same_state(taught.state(), before)


def test_the_global_generators_are_left_alone(
    make: Make, task_of: TaskOf, digit_images: ImagesOf
) -> None:
    def generators() -> tuple[object, ...]:
        numpy = np.random.get_state(legacy=False)["state"]
        return torch.get_rng_state().tolist(), random.getstate(), str(numpy)

    before = generators()
    learner = make()
    learner.learn(task_of(0, 1))
    learner.learn(task_of(2))
    make().restore(*learner.state())
    learner.predict(digit_images(4, 3))
    assert generators() == before


# --- what it tells ---


def test_bytes_by_part_are_the_bytes_of_the_tensors(taught: Method) -> None:
    parts = taught.bytes_by_part()
    tensors, _ = taught.state()
    assert sum(parts.values()) == sum(t.numel() * t.element_size() for t in tensors.values())
    classifier = [t for key, t in tensors.items() if key.startswith("classifier.")]
    assert parts["classifier"] == sum(4 * t.numel() for t in classifier) > 100_000


def test_an_untaught_learner_weighs_nothing(make: Make) -> None:
    parts = make().bytes_by_part()
    assert "classifier" in parts and set(parts.values()) == {0}


def test_the_parts_are_named_alike_before_and_after(make: Make, taught: Method) -> None:
    # `joint` alone has parts that appear with its first image.
    assert set(make().bytes_by_part()) <= set(taught.bytes_by_part())


def test_memory_shows_at_most_what_was_asked_for_of_each_class(taught: Method) -> None:
    remembered = taught.remember(3)
    if remembered:
        assert [label for label, _ in remembered] == taught.classes
        for _, images in remembered:
            assert images.dtype == torch.uint8 and images.shape == (3, 1, 32, 32)


def test_untaught_learner_remembers_nothing(make: Make) -> None:
    assert make().remember(3) == []


def test_the_report_times_its_phases_and_shows_progress(make: Make, task_of: TaskOf) -> None:
    begun, steps = list[str](), list[tuple[str, int, int]]()

    def on_phase(phase: str) -> Progress:
        begun.append(phase)
        return lambda done, total: steps.append((phase, done, total))

    report: Report = make().learn(task_of(0, 1), on_phase)
    assert list(report.seconds) == list(dict.fromkeys(begun))
    assert "train classifier" in begun
    assert all(seconds >= 0 for seconds in report.seconds.values())
    assert [step for step in steps if step[0] == "train classifier"] == [
        ("train classifier", done, 2) for done in (1, 2)
    ]
