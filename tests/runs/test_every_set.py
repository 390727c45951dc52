"""EEC on every real data set: a few images a class, two increments, a short recipe."""

from pathlib import Path

import pytest

from eec.data.catalog import DATASETS
from eec.errors import UserError
from eec.methods.options import EECOptions
from eec.runs.config import RunConfig
from eec.runs.run import prepare
from eec.training.recipes import Recipe

SHAPES = {
    "digits": (1, 32, 32),
    "mnist": (1, 28, 28),
    "fashion-mnist": (1, 28, 28),
    "svhn": (3, 32, 32),
    "cifar10": (3, 32, 32),
    "cifar100": (3, 32, 32),
    "imagenet-50": (3, 32, 32),
    "tiny-imagenet-50": (3, 32, 32),
}


def test_every_named_set_is_here() -> None:
    assert SHAPES.keys() == DATASETS.keys() - {"folder"}


@pytest.mark.parametrize("name", SHAPES)
def test_eec_learns_it(name: str, data_dir: Path, short_recipe: Recipe) -> None:
    config = RunConfig(
        name, "eec", EECOptions(), data_dir=data_dir, per_class=3, device="cpu", precision="float32"
    )
    try:
        stream, method = prepare(config)
    except UserError as error:
        if "not found in" not in str(error):
            raise
        pytest.skip(f"{name} is not there: {error}")
    assert len(stream.increments[0].new_classes) == DATASETS[name].classes_per_increment
    for increment in stream.increments[:2]:
        method.learn(increment.task)
    assert method.image == SHAPES[name]
    assert method.classes == list(stream.class_order[: len(method.classes)])
    test = stream.increments[1].judged
    calls = method.predict(test.images[test.index[:5]])
    assert len(calls) == 5 and set(calls) <= set(method.classes)
    assert dict(method.remember(2)).keys() == set(method.classes)
