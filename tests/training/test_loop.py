from dataclasses import replace
from itertools import count

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from eec.nets.classifiers import CLASSIFIERS
from eec.training.batches import Batches
from eec.training.loop import apply, train
from eec.training.recipes import Plan
from eec.training.runtime import Runtime, seeded

PLAIN = Plan("sgd", rate=0.1, batch=4, steps=10, momentum=0.0, nesterov=False, milestones=(99,))


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def noise(number: int) -> Tensor:
    return torch.randint(0, 256, (number, 1, 8, 8), dtype=torch.uint8, generator=generator())


def linear() -> nn.Sequential:
    with seeded(0):
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 1))


def weights(net: nn.Module) -> Tensor:
    return torch.cat([weight.detach().flatten() for weight in net.parameters()])


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "muon", "muon-adam"])
def test_loss_falls(cpu: Runtime, optimizer: str) -> None:
    images, losses = noise(16), list[float]()
    wanted = (images.float().mean((1, 2, 3)) > 127).float()
    net = linear()

    def loss(batch: Tensor, index: Tensor) -> Tensor:
        value: Tensor = (net(batch)[:, 0] - wanted[index]).square().mean()
        losses.append(value.item())
        return value

    plan = replace(PLAIN, optimizer=optimizer, rate=0.01, batch=16, steps=60)
    assert train(net, Batches(images), loss, plan, cpu, generator()) == 60
    assert losses[-1] < 0.2 * losses[0]


def teach(cpu: Runtime, seed: int) -> Tensor:
    images, targets = noise(20), torch.arange(20) % 2
    with seeded(7):
        net = cpu.place(CLASSIFIERS["tiny"]((1, 8, 8)))
        net.grow(2)
    plan = Plan("sgd", rate=0.05, batch=8, steps=6, weight_decay=5e-4, clip=1.0)
    batches = Batches(images, pad=2, flip=True)

    def loss(batch: Tensor, index: Tensor) -> Tensor:
        return cross_entropy(net(batch), targets[index])

    train(net, batches, loss, plan, cpu, generator(seed))
    return torch.cat([part.double().flatten() for part in net.state_dict().values()])


def test_the_same_seed_gives_the_same_weights_bit_for_bit(cpu: Runtime) -> None:
    first = teach(cpu, 3)
    torch.rand(5)  # whatever others draw from the global generator
    assert torch.equal(first, teach(cpu, 3))
    assert not torch.equal(first, teach(cpu, 4))


def test_progress_is_called_after_each_step(cpu: Runtime) -> None:
    net, calls = linear(), list[tuple[int, int]]()
    train(
        net,
        Batches(noise(10)),
        lambda batch, index: net(batch).square().mean(),
        replace(PLAIN, steps=7),
        cpu,
        generator(),
        lambda done, total: calls.append((done, total)),
    )
    assert calls == [(step, 7) for step in range(1, 8)]


def index_parts(cpu: Runtime, number: int, plan: Plan) -> list[Tensor]:
    net, parts = linear(), list[Tensor]()

    def loss(batch: Tensor, index: Tensor) -> Tensor:
        assert len(batch) == len(index)
        parts.append(index)
        value: Tensor = net(batch).square().mean()
        return value

    train(net, Batches(noise(number)), loss, plan, cpu, generator())
    return parts


@given(number=st.integers(1, 70), batch=st.integers(3, 20))
@settings(deadline=None, max_examples=40)
def test_an_epoch_takes_every_image_once_and_never_one_alone(
    cpu: Runtime, number: int, batch: int
) -> None:
    plan = replace(PLAIN, batch=batch, steps=0, epochs=2, rate=1e-3)
    parts = index_parts(cpu, number, plan)
    sizes = [len(part) for part in parts]
    assert max(sizes) <= max(batch, 2)
    assert min(sizes) > 1
    every = list(range(number)) if number > 1 else [0, 0]  # a lone image is shown twice
    first, second = torch.cat(parts[: len(parts) // 2]), torch.cat(parts[len(parts) // 2 :])
    assert first.sort()[0].tolist() == second.sort()[0].tolist() == every
    assert number < 8 or not torch.equal(first, second)  # shuffled anew


def test_steps_may_end_within_an_epoch(cpu: Runtime) -> None:
    assert len(index_parts(cpu, 40, replace(PLAIN, batch=4, steps=13))) == 13


def move(cpu: Runtime, plan: Plan, loudness: float = 1.0) -> float:
    """How far training moves the weights."""
    net = linear()
    before = weights(net)
    batches = Batches(noise(8))
    train(net, batches, lambda b, i: loudness * net(b).square().mean(), plan, cpu, generator())
    return float((weights(net) - before).norm())


def test_gradient_norm_is_clipped(cpu: Runtime) -> None:
    once = replace(PLAIN, rate=0.1, batch=8, steps=1)
    assert move(cpu, once, loudness=1e4) > 100
    assert move(cpu, replace(once, clip=0.5), loudness=1e4) == pytest.approx(0.05, rel=1e-3)
    gentle = move(cpu, once, loudness=1e-3)
    assert move(cpu, replace(once, clip=0.5), loudness=1e-3) == pytest.approx(gentle)


def test_the_schedule_is_followed(cpu: Runtime) -> None:
    stop = replace(PLAIN, batch=8, steps=0, milestones=(2,), factor=0.0)
    two, ten = (move(cpu, replace(stop, epochs=epochs)) for epochs in (2, 10))
    assert 0 < two == ten


def test_weight_decay_shrinks_weights_that_have_no_gradient(cpu: Runtime) -> None:
    net = linear()
    before = weights(net)
    plan = replace(PLAIN, rate=0.1, batch=8, steps=1, weight_decay=0.5)
    train(net, Batches(noise(8)), lambda b, i: 0 * net(b).sum(), plan, cpu, generator())
    assert torch.allclose(weights(net), 0.95 * before)


def test_frozen_weights_stay_and_the_net_is_left_in_evaluation_mode(cpu: Runtime) -> None:
    frozen, head = nn.Conv2d(1, 2, 3).requires_grad_(False), nn.Linear(72, 1)
    net = nn.Sequential(frozen, nn.BatchNorm2d(2), nn.Flatten(), head)
    before = weights(frozen), weights(head)
    modes = set[bool]()

    def loss(batch: Tensor, index: Tensor) -> Tensor:
        modes.add(net.training)
        out: Tensor = net(batch).square().mean()
        return out

    train(net, Batches(noise(8)), loss, PLAIN, cpu, generator())
    assert torch.equal(weights(frozen), before[0]) and not torch.equal(weights(head), before[1])
    assert modes == {True} and not net.training


def test_an_exception_from_progress_goes_through(cpu: Runtime) -> None:
    net, steps = linear(), count(1)

    def stop(done: int, total: int) -> None:
        if next(steps) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(net, Batches(noise(8)), lambda b, i: net(b).mean(), PLAIN, cpu, generator(), stop)
    assert next(steps) == 4


@pytest.mark.parametrize("number", [0, 1, 5, 11])
def test_apply_goes_over_all_items_in_order_and_in_batches(cpu: Runtime, number: int) -> None:
    sizes = list[int]()

    def double(part: Tensor) -> Tensor:
        assert not torch.is_grad_enabled()
        sizes.append(len(part))
        return 2 * part

    out = apply(double, torch.arange(number), cpu, batch=5)
    assert out.tolist() == [2 * i for i in range(number)]
    assert max(sizes) <= 5


def test_images_are_smaller_in_the_early_steps(cpu: Runtime) -> None:
    sides: list[int] = []
    images = torch.zeros(8, 1, 24, 24, dtype=torch.uint8)
    net = nn.Conv2d(1, 1, 3)

    def loss(batch: Tensor, index: Tensor) -> Tensor:
        sides.append(batch.shape[2])
        value: Tensor = net(batch).square().mean()
        return value

    train(net, Batches(images), loss, replace(PLAIN, early=0.5), cpu, generator())
    assert sides == [18] * 5 + [24] * 5
