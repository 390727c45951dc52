"""Real images, the real recipe: does it learn, and does it keep what it learned?"""

import numpy as np
import pytest
import torch

from eec.data.dataset import Dataset
from eec.data.stream import Stream, make_stream
from eec.methods.contract import Method
from eec.methods.registry import find_method, make_method
from eec.training.runtime import Runtime


@pytest.fixture(scope="module")
def stream(digits: Dataset) -> Stream:
    """Sixty images a class, one class an increment; smaller than they come, to be quick."""
    return make_stream(digits.resized(24), per_class=60)


def teach(name: str, stream: Stream, increments: int, cpu: Runtime) -> Method:
    learner = make_method(name, find_method(name).options, 0, cpu)
    for increment in stream.increments[:increments]:
        learner.learn(increment.task)
    return learner


def by_class(learner: Method, stream: Stream) -> list[float]:
    """Percent of each class's test images that are called by their name."""
    tests = [increment.test for increment in stream.increments[: learner.tasks]]
    return [
        100 * sum(c == y for c, y in zip(learner.predict(t.images), t.labels, strict=True)) / len(t)
        for t in tests
    ]


def test_eec_keeps_old_classes(stream: Stream, cpu: Runtime) -> None:
    learner = teach("eec", stream, 4, cpu)
    accuracies = by_class(learner, stream)
    assert np.mean(accuracies) > 90
    assert min(accuracies) > 70  # chance is 25, and forgetting leaves nothing of the oldest
    # memory is recognisable to the classifier, too, and by the right names
    for label, images in learner.remember(20):
        called = learner.predict(images)
        assert sum(c == label for c in called) >= 0.9 * len(called)


def test_finetune_knows_the_newest_class_only(stream: Stream, cpu: Runtime) -> None:
    learner = teach("finetune", stream, 2, cpu)
    tests = torch.cat([increment.test.images for increment in stream.increments[:2]])
    share = np.mean([called == 1 for called in learner.predict(tests)])
    assert share > 0.9
    assert np.mean(by_class(learner, stream)) == pytest.approx(50, abs=8)


def test_joint_learns_what_it_keeps(stream: Stream, cpu: Runtime) -> None:
    assert min(by_class(teach("joint", stream, 2, cpu), stream)) > 90
