"""Every method of the registry, taught real digits by a short recipe.

A method is covered by being registered: all tests of this folder run for each name in METHODS that
is more than another one with a switch turned; of the switches, one changes what is saved.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eec.data.stream import Task
from eec.methods.archive import save_learner
from eec.methods.contract import Facts, Method, Tensors
from eec.methods.registry import find_method, make_method
from eec.training.recipes import Recipe
from eec.training.runtime import Runtime
from small_runs import CODE_PATHS

STATES: dict[str, tuple[Tensors, Facts]] = {}


@pytest.fixture(autouse=True)
def _short(short_recipe: Recipe) -> None:
    """Nothing here asks how well a method learns."""


@pytest.fixture(params=[*CODE_PATHS, "eec-vae"])
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def make(name: str, cpu: Runtime) -> Callable[..., Method]:
    """`make(seed=0)`: an untaught learner of the method under test."""

    def learner(seed: int = 0) -> Method:
        return make_method(name, find_method(name).options, seed, cpu)

    return learner


@pytest.fixture
def taught(name: str, make: Callable[..., Method], task_of: Callable[..., Task]) -> Method:
    """A learner of two tasks, of 2 and 0 and of 1: taught once, given back its state each time."""
    if name not in STATES:
        learner = make()
        learner.learn(task_of(2, 0))
        learner.learn(task_of(1))
        STATES[name] = learner.state()
    learner = make()
    learner.restore(*STATES[name])
    return learner


@pytest.fixture
def saved(tmp_path: Path) -> Callable[[Method], bytes]:
    """The bytes of the file that a learner is saved to."""

    def content(learner: Method) -> bytes:
        return save_learner(learner, tmp_path / "learner.eec").read_bytes()

    return content


@pytest.fixture
def same_state() -> Callable[[Any, Any], bool]:
    """Whether two states are equal bit for bit."""

    def same(one: tuple[Tensors, Facts], other: tuple[Tensors, Facts]) -> bool:
        (tensors, facts), (others, other_facts) = one, other
        return (
            facts == other_facts
            and tensors.keys() == others.keys()
            and all(
                tensor.dtype == others[key].dtype
                and tensor.shape == others[key].shape
                and tensor.numpy().tobytes() == others[key].numpy().tobytes()
                for key, tensor in tensors.items()
            )
        )

    return same
