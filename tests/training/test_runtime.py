import random

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from eec.errors import UserError
from eec.training.runtime import Runtime, choose_runtime, derive_seed, generator, seeded


@pytest.fixture
def bare_machine(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine with a plain CPU and nothing else, whatever the tests run on."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)
    return monkeypatch


def test_unknown_device_and_precision_are_refused_and_the_known_listed() -> None:
    with pytest.raises(UserError, match=r"'tpu'.*auto, cpu, cuda, mps"):
        choose_runtime("tpu")
    with pytest.raises(UserError, match=r"'float8'.*auto, float32, bf16"):
        choose_runtime("cpu", "float8")


@pytest.mark.parametrize("device", ["cuda", "mps"])
def test_absent_device_is_refused(bare_machine: pytest.MonkeyPatch, device: str) -> None:
    with pytest.raises(UserError, match=f"'{device}' is not available.*cpu"):
        choose_runtime(device)


def test_auto_takes_the_cpu_where_there_is_nothing_else(bare_machine: pytest.MonkeyPatch) -> None:
    assert choose_runtime() == Runtime(torch.device("cpu"), "float32")


@pytest.mark.parametrize(("here", "chosen"), [("cuda", "cuda"), ("mps", "mps")])
def test_auto_takes_an_accelerator(
    bare_machine: pytest.MonkeyPatch, here: str, chosen: str
) -> None:
    module = torch.cuda if here == "cuda" else torch.backends.mps
    bare_machine.setattr(module, "is_available", lambda: True)
    assert choose_runtime("auto", "float32").device.type == chosen


@pytest.mark.parametrize(
    ("precision", "dtype"), [("bf16", torch.bfloat16), ("float32", torch.float32)]
)
def test_autocast_follows_the_precision(
    bare_machine: pytest.MonkeyPatch, precision: str, dtype: torch.dtype
) -> None:
    with choose_runtime("cpu", precision).autocast():
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == dtype


def test_place_lays_convolutions_out_channels_last(cpu: Runtime) -> None:
    net = cpu.place(nn.Conv2d(3, 4, 3))
    assert net.weight.is_contiguous(memory_format=torch.channels_last)


# --- seeds ---


def drawn(seed: int) -> list[float]:
    with seeded(seed):
        return torch.rand(3).tolist()


def test_seeded_draws_from_its_seed_alone() -> None:
    assert drawn(5) == drawn(5) != drawn(6)


def test_seeded_leaves_the_generators_of_devices_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def reset(*_: object) -> None:
        raise AssertionError("a user's own noise on a GPU would begin anew with each task")

    monkeypatch.setattr(torch.cuda, "manual_seed_all", reset)
    with seeded(5):
        torch.rand(1)


def test_seeded_leaves_the_global_generators_as_they_were() -> None:
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()  # type: ignore[index]
    drawn(5)
    with pytest.raises(ZeroDivisionError), seeded(5):
        torch.rand(1 // 0)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]
    assert np.random.get_state()[1].tolist() == before[2]  # type: ignore[index]


Paths = st.lists(st.integers(0, 50) | st.sampled_from(["classifier", "batches"]), max_size=3)


@given(st.tuples(st.integers(0, 99), Paths), st.tuples(st.integers(0, 99), Paths))
def test_derived_seeds_differ_wherever_seed_or_path_do(
    one: tuple[int, list[int | str]], other: tuple[int, list[int | str]]
) -> None:
    seeds = [derive_seed(seed, *path) for seed, path in (one, other)]
    assert (seeds[0] == seeds[1]) == (one == other)
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_derived_seeds_are_the_same_in_every_version() -> None:
    # A changed derivation changes every result ever written down with a seed.
    assert derive_seed(0, "classifier", 1) == 51072933677597174


def test_generators_follow_the_path() -> None:
    first, again, other = (torch.rand(4, generator=generator(1, "a", k)) for k in (1, 1, 2))
    assert torch.equal(first, again) and not torch.equal(first, other)
