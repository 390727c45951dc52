"""Untaught learners of EEC, and what classifiers are trained on."""

from collections.abc import Callable
from typing import Any

import pytest
from torch import Tensor

from eec.methods.contract import Method
from eec.methods.eec import EECMethod
from eec.methods.registry import choose_options, make_method
from eec.training.batches import Detail
from eec.training.runtime import Runtime


@pytest.fixture
def make(cpu: Runtime) -> Callable[..., EECMethod]:
    """`make("eec", codec="warm")`: an untaught learner with these options."""

    def learner(name: str = "eec", **options: Any) -> EECMethod:
        method = make_method(name, choose_options(name, **options), 0, cpu)
        assert isinstance(method, EECMethod)
        return method

    return learner


@pytest.fixture
def mixtures(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Images, targets and weights of each training of `D`."""
    return _watched(monkeypatch, lambda *given: given[:3])


@pytest.fixture
def details(monkeypatch: pytest.MonkeyPatch) -> list[Detail | None]:
    """What is lent in each training of `D`."""
    return _watched(monkeypatch, lambda *given: given[4] if len(given) > 4 else None)


def _watched(monkeypatch: pytest.MonkeyPatch, part: Callable[..., Any]) -> list[Any]:
    """A part of what each training of `D` is given."""
    seen: list[Any] = []
    original = Method._train_classifier

    def spy(self: Method, *given: Any) -> None:
        seen.append(part(*given))
        original(self, *given)

    monkeypatch.setattr(Method, "_train_classifier", spy)
    return seen
