from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from eec.memory.codec import Codec, CodecOptions, new_autoencoder
from eec.memory.episodes import Episodes, Memory
from eec.training.runtime import Runtime, seeded

OPTIONS = CodecOptions("16x8x8", "tanh", 0.0, "raw")


def make_codec(cpu: Runtime, seed: int) -> Codec:
    with seeded(seed):
        return Codec(new_autoencoder((1, 32, 32), OPTIONS), cpu)


@pytest.fixture(scope="module")
def codecs(cpu: Runtime) -> dict[int, Codec]:
    return {task: make_codec(cpu, task) for task in (1, 2, 3)}


@pytest.fixture(scope="module")
def episodes(codecs: dict[int, Codec], digit_images: Callable[..., Tensor]) -> list[Episodes]:
    """Two tasks: of nine 0s and two 1s, mingled; of five 2s."""
    first = torch.cat([digit_images(0, 9), digit_images(1, 2)])
    targets = torch.tensor([0] * 9 + [1] * 2)
    mingled = torch.randperm(11, generator=torch.Generator().manual_seed(0))
    return [
        Episodes(1, codecs[1].encode(first[mingled]), targets[mingled]),
        Episodes(2, codecs[2].encode(digit_images(2, 5)), torch.full((5,), 2)),
    ]


def test_each_task_has_its_codec(codecs: dict[int, Codec]) -> None:
    memory = Memory(codecs=codecs)
    assert [memory.codec_of(task) for task in (1, 2, 3)] == list(codecs.values())


def test_one_frozen_codec_serves_every_task(codecs: dict[int, Codec]) -> None:
    memory = Memory(codecs={1: codecs[1]})
    assert all(memory.codec_of(task) is codecs[1] for task in (1, 2, 9))


def test_a_task_never_gets_a_codec_that_is_younger(codecs: dict[int, Codec]) -> None:
    memory = Memory(codecs={1: codecs[1], 3: codecs[3]})
    assert memory.codec_of(2) is codecs[1] and memory.codec_of(4) is codecs[3]


def test_rehearsal_decodes_every_episode_with_the_codec_of_its_task(
    codecs: dict[int, Codec], episodes: list[Episodes]
) -> None:
    rehearsal = Memory(episodes, codecs).rehearse()
    assert [part.task for part in rehearsal] == [1, 2]
    for part, kept in zip(rehearsal, episodes, strict=True):
        assert torch.equal(part.images, codecs[kept.task].decode(kept.codes))
        assert torch.equal(part.targets, kept.targets)
    wrong = codecs[1].decode(episodes[1].codes)
    assert not torch.equal(rehearsal[1].images, wrong)  # the old mistake: one decoder for all


def test_an_empty_memory_rehearses_nothing() -> None:
    assert Memory().rehearse() == []


@pytest.mark.parametrize("most", [1, 2, 4, 8, 9, 100])
def test_rehearsal_of_at_most_some_of_each_class_and_task(
    codecs: dict[int, Codec], episodes: list[Episodes], most: int
) -> None:
    full = Memory(episodes, codecs).rehearse()
    some = Memory(episodes, codecs).rehearse(most)
    for whole, part in zip(full, some, strict=True):
        for label in whole.targets.unique():
            all_images = whole.images[whole.targets == label]
            images = part.images[part.targets == label]
            places = [_place(image, all_images) for image in images]
            assert len(images) == min(most, len(all_images))
            assert places == sorted(set(places))
            if most > 1:
                assert places[0] == 0 and places[-1] == len(all_images) - 1
        assert len(part.images) == len(part.targets)


def _place(image: Tensor, among: Tensor) -> int:
    (place,) = [i for i, other in enumerate(among) if torch.equal(image, other)]
    return place


def test_some_are_spread_over_all_there_are(
    codecs: dict[int, Codec], digit_images: Callable[..., Tensor]
) -> None:
    codes = codecs[1].encode(digit_images(0, 9))
    memory = Memory([Episodes(1, codes, torch.zeros(9, dtype=torch.long))], {1: codecs[1]})
    assert torch.equal(memory.rehearse(3)[0].images, codecs[1].decode(codes[[0, 4, 8]]))
