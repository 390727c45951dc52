"""Coded episodes in a learner: how coarse they are, and when their codec is trained again."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from eec.data.stream import Task
from eec.errors import UserError
from eec.memory.budget import parse_budget
from eec.memory.coarseness import mean_cost
from eec.memory.codec import Codec, new_autoencoder
from eec.memory.over_budget import POLICIES
from eec.methods import eec as module
from eec.methods.archive import learner_bytes, load_learner, save_learner
from eec.methods.eec import EECMethod
from eec.methods.keeper import OCTAVE, SPARE, _coarsest
from eec.methods.options import EECOptions
from eec.nets.compressor import CHANNELS, FINE_CHANNELS, LEVELS, WIDTH, Compressor
from eec.training.recipes import Recipe
from eec.training.runtime import Runtime

Make = Callable[..., EECMethod]
TaskOf = Callable[..., Task]


@pytest.fixture(autouse=True)
def _short(short_recipe: Recipe) -> None:
    """Nothing here asks how well it learns."""


def kept_bytes(learner: EECMethod) -> int:
    return len(learner_bytes(learner)) - learner.bytes_by_part()["classifier"]


def level(learner: EECMethod) -> int:
    (codec,) = learner.memory.codecs.values()
    return codec.level


@pytest.mark.parametrize("over_budget", POLICIES)
def test_bytes_on_disk_never_exceed_the_budget(
    over_budget: str, make: Make, task_of: TaskOf, tmp_path: Path
) -> None:
    free = make(memory="150kB")  # with nets as small as the budget below makes them
    free.learn(task_of(0, each=20))
    limit = free._fixed_bytes() + 2500
    learner = make(memory=f"{limit}B", over_budget=over_budget)
    for digits in ((0, 1), (2,), (0, 3)):
        learner.learn(task_of(*digits, each=40))
        assert kept_bytes(learner) <= limit
    assert sum(int(part.counts.sum()) for part in learner.memory.kept) == 200
    assert set(learner.memory.slots()) == {0, 1, 2, 3}
    save_learner(learner, tmp_path / "learner.eec")
    back = load_learner(tmp_path / "learner.eec", learner.runtime)
    assert learner_bytes(back) == learner_bytes(learner)
    back.learn(task_of(4, each=5))
    assert isinstance(back, EECMethod) and kept_bytes(back) <= limit


@pytest.mark.parametrize("over_budget", ["spread", "drop"])
def test_a_budget_is_filled_whatever_the_newest_class_takes(
    over_budget: str, make: Make, task_of: TaskOf
) -> None:
    free = make(memory="150kB")
    free.learn(task_of(0, each=20))
    limit = free._fixed_bytes() + 1000
    learner = make(memory=f"{limit}B", over_budget=over_budget)
    for digit in (0, 2, 1):  # the whole of the newest class is there when episodes are counted
        learner.learn(task_of(digit, each=60))
    assert sum(len(part.codes) for part in learner.memory.kept) < 180
    # What may be spare, and no more than an episode or two besides.
    assert 0 <= limit - kept_bytes(learner) <= SPARE * limit + 100


def test_a_budget_makes_all_codes_coarser_before_it_drops_any(make: Make, task_of: TaskOf) -> None:
    free = make(memory="150kB")
    free.learn(task_of(0, 1, each=20))
    free.memory.coarsen(0)
    fine = mean_cost(free.memory, 0)
    limit = free._fixed_bytes() + round(20 * fine)
    learner = make(memory=f"{limit}B")
    learner.learn(task_of(0, 1, each=20))
    assert level(learner) > 0
    # Nearly all of them, and not the half that fits as fine as they were.
    assert sum(part.singles for part in learner.memory.kept) >= 34
    assert {packing.level for packing in learner.memory.packings.values()} == {level(learner)}


def test_a_memory_that_is_far_too_large_gets_steps_twice_as_wide(
    make: Make, task_of: TaskOf
) -> None:
    free = make(memory="150kB")
    free.learn(task_of(0, 1, each=20))
    free.memory.coarsen(0)
    limit = free._fixed_bytes() + round(46 * mean_cost(free.memory, 0))
    learner = make(memory=f"{limit}B")
    learner.learn(task_of(0, 1, each=20))
    assert level(learner) == 0
    learner.learn(task_of(2, each=10))  # a little too large: some are let go
    assert level(learner) == 0 and sum(part.singles for part in learner.memory.kept) < 50
    learner.learn(task_of(3, 4, 5, each=30))
    assert level(learner) in (OCTAVE, 2 * OCTAVE)
    assert kept_bytes(learner) <= limit
    assert {packing.level for packing in learner.memory.packings.values()} == {level(learner)}


def test_a_stream_of_known_length_is_coded_for_it_from_the_start(
    make: Make, task_of: TaskOf
) -> None:
    limit = 50_000
    open_ended = make(memory=f"{limit}B")
    known = make(memory=f"{limit}B", expected=2000)
    for learner in (open_ended, known):
        learner.learn(task_of(0, 1, each=10))
    assert level(known) > level(open_ended)


def test_bytes_an_image_are_what_was_asked_for(make: Make, task_of: TaskOf) -> None:
    free = make()
    free.learn(task_of(0, 1, each=20))
    wanted = max(2, round(mean_cost(free.memory, LEVELS // 2)))
    learner = make(image_bytes=wanted)
    learner.learn(task_of(0, 1, each=20))
    assert mean_cost(learner.memory, level(learner)) <= wanted
    assert level(learner) == 0 or mean_cost(learner.memory, level(learner) - 1) > wanted


def test_bytes_an_image_that_cannot_be_had_are_told(make: Make, task_of: TaskOf) -> None:
    notes = make(image_bytes=1).learn(task_of(0, 1, each=10)).notes
    assert any("more than image_bytes=1" in note for note in notes)
    assert not any("image_bytes" in note for note in make().learn(task_of(0, each=10)).notes)


def test_a_budget_far_below_makes_steps_as_coarse_as_many_small_ones_do(
    make: Make, task_of: TaskOf
) -> None:
    learner = make(memory="9MB", code="64x4x4")
    learner.learn(task_of(0, 1, each=100))
    assert level(learner) == 0
    codes = kept_bytes(learner) - learner._fixed_bytes()
    learner.set_memory(f"{learner._fixed_bytes() + codes // 5}B")
    assert level(learner) >= 2 * OCTAVE


@pytest.mark.parametrize("memory", ["90kB", "290kB", "690kB"])
def test_a_budget_that_is_named_before_training_holds_its_own_codec(
    memory: str, make: Make
) -> None:
    real = int(parse_budget(memory).bytes or 0)
    count = real // (3 * 32 * 32)
    task = Task(torch.zeros(count, 3, 32, 32, dtype=torch.uint8), ["a"] * count)
    with pytest.raises(UserError, match=r"use (\d+kB) or more") as told:
        make(memory=memory, keep_real=1.0).check(task)
    named = re.search(r"use (\d+kB) or more", str(told.value))
    assert named is not None
    learner = make(memory=named[1], keep_real=1.0)
    learner.check(task)
    learner.image, learner.classes = (3, 32, 32), ["a"]
    net = new_autoencoder((3, 32, 32), learner._codec_options((3, 32, 32)))
    held = parse_budget(named[1]).bytes
    assert held is not None and learner._bytes_needed(net, count * 3 * 32 * 32)[1] <= held


def test_bytes_that_are_there_are_used(
    make: Make, task_of: TaskOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a bound codes lose next to nothing, which a budget may go beyond."""
    monkeypatch.setattr("eec.memory.codec.NEXT_TO_NOTHING", 2.0)
    levels = {}
    for memory in ("unlimited", "9MB"):
        learner = make(memory=memory)
        learner.learn(task_of(0, 1, each=10))
        levels[memory] = level(learner)
    assert levels == {"unlimited": LEVELS - 1, "9MB": 0}


@pytest.mark.parametrize(
    ("options", "side", "width", "channels"),
    [
        ({}, 32, WIDTH, FINE_CHANNELS),
        ({"memory": "2000"}, 32, WIDTH, FINE_CHANNELS),  # slots, of whatever size
        ({"image_bytes": 200}, 32, WIDTH, FINE_CHANNELS),
        ({"image_bytes": 90}, 32, WIDTH, FINE_CHANNELS),
        ({"image_bytes": 80}, 32, WIDTH, CHANNELS),
        ({"image_bytes": 200}, 64, WIDTH, CHANNELS),  # for four times the pixels
        ({"memory": "3MB", "expected": 10_000}, 32, WIDTH, FINE_CHANNELS),
        ({"memory": "3MB", "expected": 10_000, "image_bytes": 80}, 32, WIDTH, CHANNELS),
        ({"memory": "1MB", "expected": 10_000}, 32, WIDTH, FINE_CHANNELS),
        ({"memory": "1MB", "expected": 11_000}, 32, WIDTH, CHANNELS),
        ({"memory": "5MB"}, 32, WIDTH, FINE_CHANNELS),  # ten thousand are reckoned with
        ({"memory": "3MB"}, 64, WIDTH, CHANNELS),
        ({"memory": "900kB"}, 32, WIDTH, CHANNELS),
        ({"memory": "500kB", "expected": 10_000}, 32, 24, CHANNELS),
        ({"memory": "100kB", "expected": 300}, 32, 24, 20),  # finer nets would take most of it
        ({"memory": "100kB", "expected": 10}, 32, 24, 20),
        ({"memory": "400kB", "expected": 10}, 32, WIDTH, FINE_CHANNELS),
        ({"memory": "200kB", "expected": 10}, 96, 24, 20),  # one layer more
    ],
)
def test_the_size_of_a_codec_follows_from_the_bytes_that_an_image_may_take(
    options: dict[str, Any], side: int, width: int, channels: int, make: Make
) -> None:
    chosen = make(**options)._codec_options((3, side, side))
    assert (chosen.width, chosen.channels) == (width, channels)
    assert make(**options)._codec_options((1, side, side)).channels == min(channels, CHANNELS)


@pytest.mark.parametrize(("channels", "coarsest"), [(20, 8), (32, 8), (64, 12), (256, LEVELS - 1)])
def test_finer_codes_may_become_coarser_by_more_levels(
    channels: int, coarsest: int, cpu: Runtime
) -> None:
    net = Compressor((1, 8, 8), width=4, channels=channels)
    assert _coarsest(Codec(net, cpu)) == coarsest


def test_old_and_new_classes_are_shown_at_the_same_step(
    make: Make, task_of: TaskOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When a new class makes codes coarser, the classifier sees the old ones as coarse, too."""
    learner = make()
    learner.learn(task_of(0, 1, each=12))
    before = level(learner)

    def coarsen(self: EECMethod) -> bool:
        if level(self) == LEVELS - 1:
            return False
        self.memory.coarsen(LEVELS - 1)
        return True

    monkeypatch.setattr(EECMethod, "_coarsen", coarsen)
    seen: list[torch.Tensor] = []
    train = EECMethod._train_classifier

    def watch(self: Any, images: torch.Tensor, *rest: Any) -> None:
        seen.append(images)
        train(self, images, *rest)

    monkeypatch.setattr(EECMethod, "_train_classifier", watch)
    learner.learn(task_of(2, each=12))
    assert before < level(learner)
    coarse = torch.cat([learner.memory.reconstruct(part) for part in learner.memory.kept])
    shown = {image.numpy().tobytes() for image in seen[0]}
    assert shown == {image.numpy().tobytes() for image in coarse}


def test_a_task_that_drifts_is_told_of(
    make: Make, task_of: TaskOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "DRIFTED", 0.0)
    monkeypatch.setattr("eec.memory.codec.STARVED", 2.0)
    monkeypatch.setattr("eec.memory.codec.RECOGNISED", 0.0)
    learner = make()
    first = learner.learn(task_of(0, 1))
    second = learner.learn(task_of(2))
    assert not any("codec_refresh" in note for note in first.notes)
    assert any("codec_refresh" in note for note in second.notes)
    assert second.autoencoder is not None and second.autoencoder["drift"] > 0


def test_a_refreshed_codec_encodes_memory_anew(
    make: Make, task_of: TaskOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner = make(codec_refresh=True)
    learner.learn(task_of(0, 1, each=4))
    (codec,) = learner.memory.codecs.values()
    monkeypatch.setattr(module, "DRIFTED", 1e9)
    learner.learn(task_of(2, each=4))
    assert list(learner.memory.codecs.values()) == [codec]  # nothing drifted
    monkeypatch.setattr(module, "DRIFTED", 0.0)
    report = learner.learn(task_of(3, each=4))
    (newer,) = learner.memory.codecs.values()
    assert newer is not codec
    assert [part.singles for part in learner.memory.kept] == [4, 4, 4, 4]
    assert any("trained again" in note and "%" in note for note in report.notes)


def test_a_memory_of_concepts_alone_is_encoded_anew(
    make: Make, task_of: TaskOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner = make(codec_refresh=True, memory="4", over_budget="concepts")
    learner.learn(task_of(0, 1, each=6))
    assert [part.singles for part in learner.memory.kept] == [0, 0]
    monkeypatch.setattr(module, "DRIFTED", 0.0)
    report = learner.learn(Task(task_of(0).images, task_of(0).labels))
    assert any("trained again" in note for note in report.notes)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"image_bytes": -5}, "image_bytes is -5: use 1 or more"),
        ({"memory": "9" * 400 + "MB"}, "use a number of slots"),
        ({"image_bytes": 50, "code_type": "uint8"}, "code_type=coded"),
        ({"codec_refresh": True, "codec": "warm"}, "codec=frozen"),
        ({"output": "norm"}, "plain codes"),
    ],
)
def test_options_that_say_nothing_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        EECOptions(**options)
