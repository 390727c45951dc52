from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from eec.errors import UserError
from eec.memory.coarseness import SAMPLE, coarse_enough, mean_cost, sample
from eec.memory.codec import Codec, CodecOptions, new_autoencoder
from eec.memory.codes import CODE_TYPES
from eec.memory.episodes import Kept, Memory
from eec.memory.over_budget import shrink
from eec.memory.stored import facts_of, part_bytes, take_back, tensors_of
from eec.nets.compressor import LEVELS, Compressor
from eec.training.runtime import Runtime, seeded

TASKS = 3
MakeMemory = Callable[..., Memory]


@pytest.fixture(scope="module")
def codecs(cpu: Runtime) -> dict[int, Codec]:
    """One for each task, coded, with priors that see something; never trained."""
    return {task: make_codec(cpu, task) for task in range(1, TASKS + 1)}


def make_codec(cpu: Runtime, seed: int) -> Codec:
    options = CodecOptions("4x4x4", "tanh", 0.0, "raw", type="coded")
    with seeded(seed):
        net = new_autoencoder((1, 32, 32), options)
        assert isinstance(net, Compressor)
        for weight in net.prior.parameters():
            torch.nn.init.uniform_(weight, 0, 0.05)
        torch.nn.init.constant_(net.prior.scale_offset, 4.0)
    return Codec(net, cpu, level=seed)


@pytest.fixture
def make_memory(codecs: dict[int, Codec], cpu: Runtime) -> MakeMemory:
    """Two classes in the first task, one of them again in the second, one more in the third."""

    def make(code_type: str = "coded", *, per_task: bool = False, each: int = 20) -> Memory:
        chosen = codecs if per_task else {1: codecs[1]}
        # Codecs of their own, as their level may change.
        own = {task: Codec(codec.net, cpu, level=codec.level) for task, codec in chosen.items()}
        memory, rng = Memory(codecs=own), torch.Generator().manual_seed(0)
        for task, classes in ((1, (0, 1)), (2, (1,)), (3, (2,))):
            targets = torch.tensor(classes).repeat_interleave(each)
            codes = 6 * torch.randn(len(targets), 4, 4, 4, generator=rng)
            memory.store(task, codes if code_type == "coded" else codes.abs(), targets, code_type)
        return memory

    return make


def with_concepts(memory: Memory) -> Memory:
    """The first two classes are brought to fewer slots, the third stays."""
    slots = memory.slots()
    shares = {0: slots[0] // 2, 1: slots[1] // 3, 2: slots[2]}
    shrink(memory, shares, "concepts", "ward", 0)
    assert any(len(part.spreads) for part in memory.kept)
    return memory


def back(memory: Memory, tensors: dict[str, Tensor] | None = None) -> Memory:
    again = Memory(codecs=memory.codecs)
    code_type = memory.packings[1].type
    kept = tensors_of(memory) if tensors is None else tensors
    take_back(again, kept, facts_of(memory), TASKS, code_type)
    return again


def assert_same(some: Memory, others: Memory) -> None:
    for part, other in zip(some.kept, others.kept, strict=True):
        assert (part.task, part.target) == (other.task, other.target)
        for name in ("codes", "counts", "spreads"):
            one, two = getattr(part, name), getattr(other, name)
            assert one.dtype == two.dtype and torch.equal(one, two)
        packings = some.packings[part.task], others.packings[part.task]
        assert torch.equal(*(packing.unpack(part.codes) for packing in packings))


@pytest.mark.parametrize("per_task", [False, True])
@pytest.mark.parametrize("code_type", CODE_TYPES)
def test_memory_comes_back_exactly(make_memory: MakeMemory, code_type: str, per_task: bool) -> None:
    memory = make_memory(code_type, per_task=per_task)
    assert_same(memory, back(memory))
    with_concepts(memory)
    assert_same(memory, back(memory))
    assert any((part.counts > 2).any() for part in memory.kept)


def test_coded_episodes_lie_together_codec_by_codec(make_memory: MakeMemory) -> None:
    assert set(tensors_of(make_memory())) == {"episodes.1"}
    assert set(tensors_of(make_memory(per_task=True))) == {f"episodes.{n}" for n in (1, 2, 3)}
    assert set(tensors_of(with_concepts(make_memory()))) == {
        "episodes.1", "concepts.1.centroids", "concepts.1.spreads", "counts.1"
    }  # fmt: skip


@pytest.mark.parametrize("per_task", [False, True])
def test_concepts_alone_come_back(make_memory: MakeMemory, per_task: bool) -> None:
    memory = make_memory(per_task=per_task)
    shrink(memory, {0: 2, 1: 4, 2: 2}, "concepts", "ward", 0)
    assert all(part.singles == 0 for part in memory.kept)
    assert_same(memory, back(memory))


def test_a_task_of_which_nothing_is_left_is_no_hindrance(make_memory: MakeMemory) -> None:
    memory = make_memory("uint8")
    memory.kept = [part for part in memory.kept if part.task != 2]
    assert_same(memory, back(memory))


@pytest.mark.parametrize(
    ("most", "dtype"),
    [(2, torch.uint8), (255, torch.uint8), (256, torch.int16), (40_000, torch.int32)],
)
def test_counts_take_as_few_bytes_as_they_can(
    make_memory: MakeMemory, most: int, dtype: torch.dtype
) -> None:
    memory = make_memory()
    counts = memory.kept[1].counts.clone()
    counts[3] = most
    memory.kept[1] = replace(memory.kept[1], counts=counts)
    assert tensors_of(memory)["counts.1"].dtype == dtype
    assert_same(memory, back(memory))


def test_what_parts_take_adds_up_to_what_is_stored(make_memory: MakeMemory) -> None:
    memory = make_memory(each=100)
    for change in (lambda: None, lambda: with_concepts(memory)):
        change()
        stored = {n: t.nbytes for n, t in tensors_of(memory).items() if not n.startswith("counts")}
        total = sum(part_bytes(memory, part) for part in memory.kept)
        assert total == pytest.approx(sum(stored.values()), rel=0.03)
    plain = make_memory("uint8")
    kept = tensors_of(plain)
    wanted = sum(kept[f"episodes.{task}"].nbytes for task in (1, 2, 3))
    assert sum(part_bytes(plain, part) for part in plain.kept) == wanted


def test_what_was_written_is_written_anew_only_when_memory_changed(
    make_memory: MakeMemory,
) -> None:
    memory = make_memory()
    first = tensors_of(memory)
    assert tensors_of(memory)["episodes.1"] is first["episodes.1"]
    tensors_of(memory).clear()  # a caller's own
    assert set(tensors_of(memory)) == {"episodes.1"}
    memory.coarsen(9)
    assert tensors_of(memory)["episodes.1"].nbytes < first["episodes.1"].nbytes
    memory.kept.pop()
    assert_same(memory, back(memory))


# --- coarser ---


def test_coarser_codes_of_all_classes_alike(make_memory: MakeMemory) -> None:
    memory = with_concepts(make_memory())
    before, size = list(memory.kept), sum(t.nbytes for t in tensors_of(memory).values())
    old = dict(memory.packings)
    memory.coarsen(8)
    assert memory.codecs[1].level == 8
    assert {packing.level for packing in memory.packings.values()} == {8}
    for part, other in zip(before, memory.kept, strict=True):
        assert torch.equal(part.counts, other.counts)
        assert (part.singles, part.slots) == (other.singles, other.slots)
        now = memory.packings[part.task]
        away = now.unpack(other.codes) - old[part.task].unpack(part.codes)
        assert 0 < away.abs().max() <= 2.0  # half of a step of 4
        if len(part.spreads):
            spreads = old[part.task].unpack_spreads(part.spreads)
            assert (now.unpack_spreads(other.spreads) - spreads).abs().max() <= 0.5
    assert sum(t.nbytes for t in tensors_of(memory).values()) < 0.9 * size
    assert_same(memory, back(memory))


def test_codes_of_older_codecs_are_left_as_they_are(make_memory: MakeMemory) -> None:
    memory = make_memory(per_task=True)
    before = list(memory.kept)
    memory.coarsen(12)
    assert [codec.level for codec in memory.codecs.values()] == [1, 2, 12]
    assert all(a is b for a, b in zip(before[:3], memory.kept, strict=False))
    assert_same(memory, back(memory))


def test_a_level_is_as_fine_as_the_bytes_allow(make_memory: MakeMemory) -> None:
    memory = make_memory(each=60)
    codes, codec = sample(memory), memory.codecs[1]
    costs = [codec.bytes_of_codes(codes, level) for level in range(LEVELS)]
    assert costs == sorted(costs, reverse=True)
    assert coarse_enough(codec, codes, costs[6]) == 6
    assert coarse_enough(codec, codes, costs[6] - 0.01) == 7
    assert coarse_enough(codec, codes, 1e9) == 0
    assert coarse_enough(codec, codes, 0.0, end=9) == 9  # as near as it comes
    # The codes in memory are at level 1, and that is what they take.
    stored = sum(part_bytes(memory, part) for part in memory.kept)
    images = sum(len(part.codes) for part in memory.kept)
    assert mean_cost(memory, 1) == pytest.approx(stored / images, rel=0.01)


def test_a_sample_has_some_of_every_class(make_memory: MakeMemory) -> None:
    memory = make_memory(each=300)
    few = memory.kept[0]
    memory.kept[0] = Kept(few.task, few.target, few.codes[:1], few.counts[:1], few.spreads)
    codes = sample(memory)
    each = round(SAMPLE / len(memory.kept))
    assert len(codes) == 1 + each * (len(memory.kept) - 1)  # as many of each, if it has them
    packing = memory.packings[1]
    assert torch.equal(codes[0], packing.unpack(few.codes[:1])[0])


# --- damage ---


@pytest.mark.parametrize("name", ["episodes.1", "concepts.1.centroids", "concepts.1.spreads"])
def test_damaged_codes_are_refused(make_memory: MakeMemory, name: str) -> None:
    memory = with_concepts(make_memory(each=6))
    tensors = tensors_of(memory)
    content = tensors[name]
    rng = np.random.default_rng(0)
    for place in {*range(0, 20), *rng.integers(0, len(content), 10).tolist()}:
        other = content.clone()
        other[place] ^= 1 << (place % 8)
        with pytest.raises(UserError, match="restore a copy"):
            back(memory, {**tensors, name: other})
    for length in (0, 3, 11, 17, len(content) - 1):
        with pytest.raises(UserError, match="restore a copy"):
            back(memory, {**tensors, name: content[:length]})


def test_a_codec_other_than_the_one_it_was_coded_by_is_refused(
    make_memory: MakeMemory, codecs: dict[int, Codec]
) -> None:
    memory = make_memory()
    tensors = tensors_of(memory)
    memory.codecs = {1: codecs[2]}
    with pytest.raises(UserError, match="restore a copy"):
        back(memory, tensors)
