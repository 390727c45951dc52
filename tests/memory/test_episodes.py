from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from eec.memory.codec import Codec, CodecOptions, new_autoencoder
from eec.memory.codes import CODE_TYPES, Packing
from eec.memory.episodes import Kept, Memory
from eec.memory.integration import Points, integrate
from eec.memory.stored import facts_of, take_back, tensors_of
from eec.training.runtime import Runtime, seeded

OPTIONS = CodecOptions("16x8x8", "tanh", 0.0, "raw")


def make_codec(cpu: Runtime, seed: int) -> Codec:
    with seeded(seed):
        return Codec(new_autoencoder((1, 32, 32), OPTIONS), cpu)


@pytest.fixture(scope="module")
def codecs(cpu: Runtime) -> dict[int, Codec]:
    return {task: make_codec(cpu, task) for task in (1, 2, 3)}


@pytest.fixture
def memory(codecs: dict[int, Codec], digit_images: Callable[..., Tensor]) -> Memory:
    """Two tasks: of nine 0s and two 1s, mingled; of five 2s."""
    memory = Memory(codecs=codecs)
    first = torch.cat([digit_images(0, 9), digit_images(1, 2)])
    targets = torch.tensor([0] * 9 + [1] * 2)
    mingled = torch.randperm(11, generator=torch.Generator().manual_seed(0))
    memory.store(1, codecs[1].encode(first[mingled]), targets[mingled], "float32")
    memory.store(2, codecs[2].encode(digit_images(2, 5)), torch.full((5,), 2), "float32")
    return memory


def test_each_task_has_its_codec(codecs: dict[int, Codec]) -> None:
    memory = Memory(codecs=codecs)
    assert [memory.codec_of(task) for task in (1, 2, 3)] == list(codecs.values())


def test_one_frozen_codec_serves_every_task(codecs: dict[int, Codec]) -> None:
    memory = Memory(codecs={1: codecs[1]})
    assert all(memory.codec_of(task) is codecs[1] for task in (1, 2, 9))


def test_a_task_never_gets_a_codec_that_is_younger(codecs: dict[int, Codec]) -> None:
    memory = Memory(codecs={1: codecs[1], 3: codecs[3]})
    assert memory.codec_of(2) is codecs[1] and memory.codec_of(4) is codecs[3]


def test_every_class_of_a_task_is_kept_apart(memory: Memory) -> None:
    assert [(part.task, part.target, len(part.codes)) for part in memory.kept] == [
        (1, 0, 9), (1, 1, 2), (2, 2, 5)
    ]  # fmt: skip
    assert memory.slots() == {0: 9, 1: 2, 2: 5}
    assert all((part.counts == 1).all() for part in memory.kept)


def test_episodes_are_decoded_by_the_codec_of_their_task(
    codecs: dict[int, Codec], memory: Memory
) -> None:
    for part in memory.kept:
        images = memory.reconstruct(part)
        assert torch.equal(images, codecs[part.task].decode(part.codes))
        # The old mistake: one decoder for all.
        assert not torch.equal(images, codecs[3].decode(part.codes))


@pytest.mark.parametrize("most", [1, 2, 4, 8, 9, 100])
def test_a_glimpse_is_spread_over_all_there_is(memory: Memory, most: int) -> None:
    part = memory.kept[0]
    whole = memory.reconstruct(part)
    places = [
        next(i for i, other in enumerate(whole) if torch.equal(image, other))
        for image in memory.glimpse(part, most)
    ]
    assert len(places) == min(most, 9) and places == sorted(set(places))
    if most > 1:
        assert places[0] == 0 and places[-1] == 8


def merged(memory: Memory, slots: int) -> Kept:
    part = memory.kept[0]
    packing = memory.packings[1]
    return part.become(integrate(part.points(packing), slots), packing)


def test_concepts_cost_two_slots_and_come_after_episodes(memory: Memory) -> None:
    part = merged(memory, 6)
    assert part.slots <= 6 and len(part.spreads) > 0
    assert (part.counts[: part.singles] == 1).all() and (part.counts[part.singles :] > 2).all()
    assert part.counts.sum() == 9
    again = part.points(memory.packings[1])
    before = memory.kept[0].points(memory.packings[1])
    np.testing.assert_allclose(
        np.average(again.means, 0, again.counts), before.means.mean(0), atol=1e-5
    )


def test_an_episode_that_stands_for_others_stays_an_episode(memory: Memory) -> None:
    part, packing = memory.kept[0], memory.packings[1]
    points = part.points(packing)
    kept = part.become(Points(points.means[:2], [4, 5]), packing)
    assert kept.slots == kept.singles == 2 and kept.counts.tolist() == [4, 5]


def test_memory_comes_back_from_its_tensors(codecs: dict[int, Codec], memory: Memory) -> None:
    memory.kept[0] = merged(memory, 6)
    back = Memory(codecs=codecs)
    take_back(back, tensors_of(memory), facts_of(memory), 2, "float32")
    for part, other in zip(memory.kept, back.kept, strict=True):
        assert (part.task, part.target) == (other.task, other.target)
        for name in ("codes", "counts", "spreads"):
            assert torch.equal(getattr(part, name), getattr(other, name))


def test_counts_of_one_take_no_bytes(memory: Memory) -> None:
    assert set(tensors_of(memory)) == {"episodes.1", "episodes.2"}


# --- how codes are kept ---


@pytest.mark.parametrize("kind", CODE_TYPES)
def test_packed_codes_are_near_and_stay_as_they_are(kind: str) -> None:
    codes = torch.rand(20, 3, 4, 4) * torch.tensor([0.1, 1, 50.0])[:, None, None]
    packing = Packing.learn(kind, codes)
    packed = packing.pack(codes)
    assert packed.dtype == CODE_TYPES[kind]
    back = packing.unpack(packed)
    step = {"float32": 0.0, "float16": 2.0**-11, "uint8": 1 / 500, "coded": 0.0}[kind]
    whole = 0.5 if kind == "coded" else 0.0  # half a step, which is 1 for every channel
    assert ((back - codes).abs().amax((0, 2, 3)) <= step * codes.amax((0, 2, 3)) + whole).all()
    assert torch.equal(packing.pack(back), packed)


@pytest.mark.parametrize("level", [0, 3, 14])
def test_symbols_are_off_by_half_a_step_and_cut_beyond_127(level: int) -> None:
    packing, step = Packing.learn("coded", torch.zeros(0, 1, 1, 1), level), 2 ** (level / 4)
    codes = torch.linspace(-127, 127, 999)[:, None, None, None] * step
    back = packing.unpack(packing.pack(codes))
    assert (back - codes).abs().max() <= 0.5001 * step
    assert packing.pack(torch.tensor([-1e4, 1e4])).tolist() == [-127, 127]
    spreads = codes.abs() / 5
    again = packing.unpack_spreads(packing.pack_spreads(spreads))
    assert (again - spreads).abs().max() <= 0.1251 * step  # they are kept in quarters of a step


def test_a_channel_that_is_always_zero_can_be_packed() -> None:
    codes = torch.zeros(2, 2, 3, 3)
    packing = Packing.learn("uint8", codes)
    assert torch.equal(packing.unpack(packing.pack(codes)), codes)


def test_values_beyond_those_the_scale_was_learned_from_are_cut_not_wrapped() -> None:
    packing = Packing.learn("uint8", torch.ones(1, 1, 2, 2))
    assert packing.pack(torch.full((1, 1, 2, 2), 7.0)).unique().tolist() == [255]
