import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from eec.memory.weights import (
    compressed,
    decompressed,
    pack_weights,
    round_weights,
    unpack_weights,
)

KINDS = ("float32", "uint8", "coded")  # half precision beside uint8 and float16 alike


def weights_of(seed: int, size: float = 0.3) -> dict[str, Tensor]:
    rng = torch.Generator().manual_seed(seed)
    return {
        "conv.weight": size * torch.randn(4, 3, 2, 2, generator=rng),
        "conv.bias": size * torch.randn(4, generator=rng),
        "seen": torch.tensor(12),  # counters of batches and their like
    }


def once(weights: dict[str, Tensor], kind: str) -> dict[str, Tensor]:
    return unpack_weights(pack_weights(weights, kind))


@pytest.mark.parametrize(
    ("kind", "dtypes"),
    [
        ("float32", {"conv.weight": torch.float32, "conv.bias": torch.float32}),
        ("float16", {"conv.weight": torch.float16, "conv.bias": torch.float16}),
        ("uint8", {"conv.weight": torch.float16, "conv.bias": torch.float16}),
        (
            "coded",
            {
                "conv.weight": torch.int8,
                "conv.weight.scale": torch.float16,
                "conv.bias": torch.float16,
            },
        ),
    ],
)
def test_how_weights_are_kept(kind: str, dtypes: dict[str, torch.dtype]) -> None:
    weights = weights_of(0)
    packed = pack_weights(weights, kind)
    assert {name: kept.dtype for name, kept in packed.items()} == {**dtypes, "seen": torch.int64}
    back = unpack_weights(packed)
    assert back.keys() == weights.keys() and torch.equal(back["seen"], weights["seen"])
    for name, weight in back.items():
        assert weight.dtype == weights[name].dtype and weight.shape == weights[name].shape


@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 10**6), size=st.floats(1e-6, 30))
@settings(deadline=None, max_examples=25)
def test_rounding_twice_is_rounding_once(kind: str, seed: int, size: float) -> None:
    first = once(weights_of(seed, size), kind)
    again = once(first, kind)
    assert all(torch.equal(first[name], again[name]) for name in first)


@given(st.floats(1e-7, 2e-3))
@example(0.0007461307370324166)  # whose step half precision can hold but roughly
@settings(deadline=None, max_examples=100)
def test_small_weights_are_rounded_once_too(size: float) -> None:
    weights = {"weight": torch.tensor([[size, -size / 3, size / 2]])}
    first = once(weights, "coded")
    assert torch.equal(once(first, "coded")["weight"], first["weight"])


@given(seed=st.integers(0, 10**6), size=st.floats(1e-3, 30))
@settings(deadline=None, max_examples=30)
def test_bytes_are_off_by_half_a_step_of_their_own_slice(seed: int, size: float) -> None:
    weight = weights_of(seed, size)["conv.weight"]
    weight[1] *= 100  # no other slice loses by this
    back = once({"w": weight}, "coded")["w"]
    most = weight.abs().flatten(1).amax(1).clamp_min(1e-3)
    # The step itself is rounded, too: the largest weight is off by a little more than a half.
    assert ((back - weight).abs().flatten(1).amax(1) <= 0.6 * most / 127).all()


def test_half_precision_and_full() -> None:
    weight = weights_of(3)["conv.weight"]
    assert torch.equal(once({"w": weight}, "float32")["w"], weight)
    torch.testing.assert_close(once({"w": weight}, "uint8")["w"], weight, rtol=2**-11, atol=1e-7)


@pytest.mark.parametrize("kind", KINDS)
def test_weights_of_zero_stay_zero(kind: str) -> None:
    weights = {"w": torch.zeros(3, 2, 1, 1), "b": torch.zeros(3)}
    weights["w"][1] = 0.5  # beside a slice that is not
    back = once(weights, kind)
    assert not back["w"][[0, 2]].any() and not back["b"].any()
    torch.testing.assert_close(back["w"][1], weights["w"][1], rtol=1e-3, atol=0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("broken", [float("nan"), float("inf")])
def test_a_net_that_diverged_does_not_look_sound_after_rounding(kind: str, broken: float) -> None:
    weight = torch.ones(2, 2)
    weight[0, 1] = broken
    assert not once({"w": weight}, kind)["w"].isfinite().all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_net_is_rounded_to_what_is_kept_of_it(kind: str) -> None:
    net = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3))
    wanted = once(net.state_dict(), kind)
    changed = [not torch.equal(wanted[name], w) for name, w in net.state_dict().items()]
    assert any(changed) == (kind != "float32")
    round_weights(net, kind)
    assert all(torch.equal(wanted[name], w) for name, w in net.state_dict().items())
    assert all(weight.requires_grad for weight in net.parameters())  # it can be trained on


def test_weights_that_are_mostly_small_take_fewer_bytes_together() -> None:
    rng = torch.Generator().manual_seed(0)
    weights = {
        "conv.weight": torch.randn(32, 16, 3, 3, generator=rng).mul(20).round().to(torch.int8),
        "conv.weight.scale": torch.rand(32, generator=rng).half(),
        "prior": torch.zeros(32, 160, dtype=torch.uint8),
    }
    content = compressed(weights)
    assert content.dtype == torch.uint8
    assert len(content) < 0.7 * sum(weight.nbytes for weight in weights.values())
    back = decompressed(content)
    assert back.keys() == weights.keys()
    assert all(back[name].equal(weights[name]) for name in weights)
    assert all(back[name].dtype == weights[name].dtype for name in weights)
