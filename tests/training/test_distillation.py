"""What a classifier said before is to stay."""

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from eec.nets.classifiers import CLASSIFIERS
from eec.training.distillation import Teacher
from eec.training.runtime import seeded


def teacher(heed: float = 1.0) -> Teacher:
    with seeded(3):
        net = CLASSIFIERS["tiny"]((1, 16, 16))
        net.grow(3)
    return Teacher(net, heed)


BATCH = torch.rand(5, 1, 16, 16, generator=torch.Generator().manual_seed(0)) * 2 - 1


def test_saying_the_same_costs_nothing_whatever_is_said_of_new_classes() -> None:
    asked = teacher()
    with torch.no_grad():
        before = asked.net(BATCH)
    new = torch.full((5, 2), 7.0)
    for same in (before, before + 3.0):  # only differences between logits say anything
        assert asked(BATCH, torch.cat([same, new], 1)).item() == pytest.approx(0, abs=1e-6)


@given(st.floats(0.1, 10), st.integers(0, 99))
def test_saying_something_else_costs_in_proportion(heed: float, seed: int) -> None:
    said = torch.randn(5, 4, generator=torch.Generator().manual_seed(seed))
    once, times = (teacher(h)(BATCH, said).item() for h in (1.0, heed))
    assert once > 0 and times == pytest.approx(heed * once, rel=1e-5)


def test_only_the_pupil_learns() -> None:
    asked = teacher()
    before = copy.deepcopy(asked.net.state_dict())
    said = torch.zeros(5, 4, requires_grad=True)
    asked(BATCH, said).backward()
    assert said.grad is not None and said.grad[:, :3].abs().sum() > 0
    assert said.grad[:, 3].abs().sum() == 0  # of classes that it did not know it says nothing
    assert not any(weight.requires_grad for weight in asked.net.parameters())
    after = asked.net.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
