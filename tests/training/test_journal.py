from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from eec.nets.classifiers import CLASSIFIERS
from eec.training.batches import Batches
from eec.training.journal import Journal
from eec.training.loop import Progress, quiet, train
from eec.training.recipes import Plan
from eec.training.runtime import Runtime, seeded

STEPS = 11  # of 3 an epoch: the last epoch is cut short


class Killed(Exception):
    pass


def images(number: int = 11) -> Tensor:
    made = torch.Generator().manual_seed(1)
    return torch.randint(0, 256, (number, 1, 16, 16), dtype=torch.uint8, generator=made)


def teach(
    cpu: Runtime,
    optimizer: str,
    journal: Journal | None,
    progress: Progress = quiet,
    number: int = 11,
) -> nn.Module:
    with seeded(3):
        net = cpu.place(CLASSIFIERS["tiny"]((1, 16, 16)))
        net.grow(2)
    targets = torch.arange(number) % 2
    plan = Plan(optimizer, rate=0.01, batch=4, steps=STEPS, weight_decay=1e-3, clip=1.0)

    def loss(batch: Tensor, index: Tensor) -> Tensor:
        return cross_entropy(net(batch), targets[index])

    rng = torch.Generator().manual_seed(5)
    batches = Batches(images(number), pad=2)
    assert train(net, batches, loss, plan, cpu, rng, progress, journal) == STEPS
    return net


def killed_at(step: int) -> Progress:
    def progress(done: int, total: int) -> None:
        if done == step:
            raise Killed

    return progress


def alike(one: nn.Module, other: nn.Module) -> bool:
    pairs = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("step", [1, 3, 4, 8, STEPS])
@pytest.mark.parametrize("optimizer", ["sgd", "adam", "muon", "muon-adam"])
def test_a_training_killed_after_any_step_ends_with_the_same_bits(
    cpu: Runtime, tmp_path: Path, optimizer: str, step: int
) -> None:
    straight = teach(cpu, optimizer, None)
    with pytest.raises(Killed):
        teach(cpu, optimizer, Journal(tmp_path, every=0), killed_at(step))
    seen: list[int] = []
    assert alike(
        teach(cpu, optimizer, Journal(tmp_path), lambda done, _: seen.append(done)), straight
    )
    # The step after which it was killed had no time for its checkpoint.
    assert seen[0] == step


def test_a_lone_image_too(cpu: Runtime, tmp_path: Path) -> None:
    straight = teach(cpu, "sgd", None, number=1)
    with pytest.raises(Killed):
        teach(cpu, "sgd", Journal(tmp_path, every=0), killed_at(4), number=1)
    assert alike(teach(cpu, "sgd", Journal(tmp_path), number=1), straight)


def test_a_finished_training_is_not_done_again(cpu: Runtime, tmp_path: Path) -> None:
    straight = teach(cpu, "sgd", Journal(tmp_path))
    again = Journal(tmp_path)
    seen: list[int] = []
    assert alike(teach(cpu, "sgd", again, lambda done, _: seen.append(done)), straight)
    assert seen == [STEPS]
    assert again.regained > 0


def test_trainings_are_told_apart_by_their_number(cpu: Runtime, tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    first, second = teach(cpu, "sgd", journal), teach(cpu, "adam", journal)
    assert not alike(first, second)
    again = Journal(tmp_path)
    assert alike(teach(cpu, "sgd", again), first)
    assert alike(teach(cpu, "adam", again), second)


def _cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def _altered(content: bytes) -> bytes:
    return content[:-9] + bytes([content[-9] ^ 1]) + content[-8:]


def _of_another_kind(content: bytes) -> bytes:
    return b"not a checkpoint"


@pytest.mark.parametrize("damage", [_cut, _altered, _of_another_kind])
def test_a_damaged_checkpoint_costs_time_only(
    cpu: Runtime, tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    straight = teach(cpu, "sgd", None)
    with pytest.raises(Killed):
        teach(cpu, "sgd", Journal(tmp_path, every=0), killed_at(7))
    (path,) = tmp_path.iterdir()
    path.write_bytes(damage(path.read_bytes()))
    seen: list[int] = []
    assert alike(teach(cpu, "sgd", Journal(tmp_path), lambda done, _: seen.append(done)), straight)
    assert seen[0] == 1


def test_told_to_stop_it_stops_at_the_next_step_with_a_checkpoint(
    cpu: Runtime, tmp_path: Path
) -> None:
    straight = teach(cpu, "sgd", None)
    journal = Journal(tmp_path)

    def progress(done: int, total: int) -> None:
        if done == 5:
            journal.stop()

    with pytest.raises(KeyboardInterrupt):
        teach(cpu, "sgd", journal, progress)
    seen: list[int] = []
    assert alike(teach(cpu, "sgd", Journal(tmp_path), lambda done, _: seen.append(done)), straight)
    assert seen[0] == 6


def test_between_trainings_it_stops_at_once(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        Journal(tmp_path).stop()


def test_without_a_folder_nothing_is_written(
    cpu: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    teach(cpu, "sgd", Journal(every=0))
    assert not list(tmp_path.iterdir())
