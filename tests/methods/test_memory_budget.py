"""A budget holds on disk, and one that is too small changes nothing."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eec import EEC
from eec.data.stream import Task
from eec.errors import UserError
from eec.memory.over_budget import POLICIES
from eec.methods.archive import load_learner, save_learner
from eec.methods.contract import Method
from eec.methods.eec import EECMethod
from eec.methods.registry import choose_options, make_method
from eec.training.loop import Progress, quiet
from eec.training.recipes import Recipe
from eec.training.runtime import Runtime

Make = Callable[..., EECMethod]
TaskOf = Callable[..., Task]


@pytest.fixture(autouse=True)
def _short(short_recipe: Recipe) -> None:
    """Nothing here asks how well it learns."""


@pytest.fixture
def make(cpu: Runtime) -> Make:
    def learner(name: str = "eec", **options: Any) -> EECMethod:
        chosen = choose_options(name, code="16x4x4", **options)
        method = make_method(name, chosen, 0, cpu)
        assert isinstance(method, EECMethod)
        return method

    return learner


def on_disk(learner: Method, folder: Path) -> int:
    """The saved learner without its classifier."""
    size = save_learner(learner, folder / "learner.eec").stat().st_size
    return size - learner.bytes_by_part()["classifier"]


@pytest.mark.parametrize("kind", ["uint8", "float16", "float32"])
@pytest.mark.parametrize("over_budget", POLICIES)
@pytest.mark.parametrize("share", ["balanced", "paper"])
def test_bytes_on_disk_never_exceed_the_budget(
    kind: str, over_budget: str, share: str, make: Make, task_of: TaskOf, tmp_path: Path
) -> None:
    limit = {"uint8": 120_000, "float16": 130_000, "float32": 250_000}[kind]
    learner = make(
        memory=f"{limit}B", code_type=kind, over_budget=over_budget, share=share, linkage="ward"
    )
    for digits in ((0, 1), (2,), (0, 3)):
        learner.learn(task_of(*digits, each=30))
        assert on_disk(learner, tmp_path) <= limit
    held = learner.memory.slots()
    assert set(held) == {0, 1, 2, 3} and sum(held.values()) < 150
    assert sum(int(part.counts.sum()) for part in learner.memory.kept) == 150
    if share == "balanced":
        # The budget is used: less than two slots a class are left of it.
        one = learner.memory.kept[0].codes[0].nbytes + 4
        assert limit - on_disk(learner, tmp_path) < 8 * one + 600
    back = load_learner(tmp_path / "learner.eec", learner.runtime)
    back.learn(task_of(4, each=5))
    assert on_disk(back, tmp_path) <= limit


@pytest.mark.parametrize(("name", "limit"), [("eec-published", 450_000), ("eecs", 250_000)])
@pytest.mark.parametrize("linkage", ["ward", "centroid", "kmeans"])
def test_the_published_forms_keep_within_a_budget(
    name: str, limit: int, linkage: str, make: Make, task_of: TaskOf, tmp_path: Path
) -> None:
    learner = make(name, memory=f"{limit}B", linkage=linkage)
    for digits in ((0, 1), (2,), (0, 3), (4,)):
        report = learner.learn(task_of(*digits, each=50))
        assert on_disk(learner, tmp_path) <= limit
    assert sum(int(part.counts.sum()) for part in learner.memory.kept) == 300
    assert report.pseudo is not None and report.pseudo["images"] > 0
    assert report.pseudo["draws"] >= report.pseudo["images"]


def test_slots_are_episodes(make: Make, task_of: TaskOf) -> None:
    learner = make(memory="10")
    learner.learn(task_of(0, 1, each=4))
    assert learner.memory.slots() == {0: 4, 1: 4}
    learner.learn(task_of(2, each=4))
    assert sorted(learner.memory.slots().values()) == [3, 3, 4]


def test_what_is_kept_stands_for_what_was_dropped(
    make: Make, task_of: TaskOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner = make(memory="6")
    learner.learn(task_of(0, 1, each=9))
    shown: list[list[int]] = []
    train = type(learner)._train_classifier

    def spy(self: Any, images: Any, targets: Any, *rest: Any) -> None:
        shown.append([int((targets == target).sum()) for target in range(3)])
        train(self, images, targets, *rest)

    monkeypatch.setattr(type(learner), "_train_classifier", spy)
    learner.learn(task_of(2, each=9))
    assert shown == [[9, 9, 9]] and learner.memory.slots() == {0: 2, 1: 2, 2: 2}


def test_a_budget_too_small_is_refused_before_anything_is_trained(
    make: Make, task_of: TaskOf, saved_bytes: Callable[[Method], bytes]
) -> None:
    learner = make(memory="3")
    learner.learn(task_of(0, 1))
    before = saved_bytes(learner)
    phases: list[str] = []

    def on_phase(name: str) -> Progress:
        phases.append(name)
        return quiet

    with pytest.raises(UserError, match=r"memory 3 is too small .* 4 classes: use 4 or more"):
        learner.learn(task_of(2, 3), on_phase)
    assert not phases and saved_bytes(learner) == before
    with pytest.raises(
        UserError, match=r"memory 10kB is too small .* 2 classes: use \d+kB or more"
    ):
        make(memory="10kB").learn(task_of(0, 1))


@pytest.mark.parametrize("codec", ["frozen", "per-task"])
def test_the_smallest_budget_named_early_would_do(make: Make, task_of: TaskOf, codec: str) -> None:
    """A codec that will encode again is kept whole, and counted so before it is there."""
    task = task_of(0, 1, each=30)
    with pytest.raises(UserError, match="too small") as caught:
        make(memory="10kB", codec=codec, code_type="uint8").learn(task)
    smallest = str(caught.value).split("use ")[1].split(" or")[0]
    learner = make(memory=smallest, codec=codec, code_type="uint8")
    learner.learn(task)
    assert set(learner.memory.slots()) == {0, 1}


def test_the_smallest_budget_named_would_do(make: Make, task_of: TaskOf, tmp_path: Path) -> None:
    learner = make()
    learner.learn(task_of(0, 1, each=30))
    with pytest.raises(UserError, match="too small") as caught:
        learner.set_memory("20kB")
    smallest = str(caught.value).split("use ")[1].split(" or")[0]
    assert learner.memory.slots() == {0: 30, 1: 30} and learner.options.memory == "unlimited"
    learner.set_memory(smallest)
    assert set(learner.memory.slots()) == {0, 1}
    assert on_disk(learner, tmp_path) <= int(smallest.removesuffix("kB")) * 1000


def test_the_estimator_shrinks(task_of: TaskOf, tmp_path: Path) -> None:
    task = task_of(0, 1, each=40)
    brain = EEC(code="16x4x4").partial_fit(task.images, task.labels)
    brain.save(tmp_path / "before.eec")
    brain.shrink("115kB")
    assert brain.memory == "115kB"
    brain.save(tmp_path / "after.eec")
    classifier = brain.method_.bytes_by_part()["classifier"]
    assert (tmp_path / "after.eec").stat().st_size - classifier <= 115_000
    more = task_of(2, each=5)
    brain.partial_fit(more.images, more.labels)
    assert EEC.load(tmp_path / "after.eec").memory == "115kB"


def test_a_method_without_memory_has_no_budget(cpu: Runtime) -> None:
    joint = make_method("joint", choose_options("joint"), 0, cpu)
    with pytest.raises(UserError, match="method joint has no memory"):
        joint.set_memory("5MB")


@pytest.fixture
def saved_bytes(tmp_path: Path) -> Callable[[Method], bytes]:
    return lambda learner: save_learner(learner, tmp_path / "learner.eec").read_bytes()


@pytest.mark.parametrize(("net", "times"), [("auto", 2), ("resnet18", 1)])
def test_a_coded_learner_names_a_budget_that_does(
    net: str, times: int, task_of: TaskOf, cpu: Runtime
) -> None:
    """Before `D` is there, too: the names of its weights are bytes of the file."""

    def learner(memory: str) -> Method:
        return make_method("eec", choose_options("eec", net=net, memory=memory), 0, cpu)

    task = task_of(0, 1, each=10)
    memory = "10kB"
    for _ in range(times):
        with pytest.raises(UserError, match="too small") as caught:
            learner(memory).learn(task)
        named = str(caught.value).split("use ")[1].split(" or")[0]
        learner(named).learn(task)
        # One that is refused only when the codec is there is told what would do as exactly.
        memory = f"{int(named.removesuffix('kB')) * 3 // 5}kB"


def test_the_budget_that_is_named_is_never_the_one_that_was_refused(
    make: Make, task_of: TaskOf
) -> None:
    learner = make()
    learner.learn(task_of(0, 1, 2, each=15))
    before = learner.state()
    for longer in range(0, 1000, 90):  # wherever the bytes of the file fall between two kB
        learner.restore(*before)
        learner.classes = ["x" * (longer + 1), 1, 2]
        with pytest.raises(UserError, match="too small") as caught:
            learner.set_memory("1kB")
        learner.set_memory(str(caught.value).split("use ")[1].split(" or")[0])
        learner.options = make().options


def test_an_interrupted_change_of_the_budget_changes_nothing(
    task_of: TaskOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = task_of(0, 1, each=10)
    brain = EEC(code="16x4x4").partial_fit(task.images, task.labels)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("eec.methods.keeper.shrink", interrupt)
        with pytest.raises(KeyboardInterrupt):
            brain.shrink("4")
    assert isinstance(brain.method_, EECMethod)
    assert brain.method_.memory.slots() == {0: 10, 1: 10}
    more = task_of(2, each=5)
    brain.partial_fit(more.images, more.labels)
    with pytest.raises(UserError, match='memory is 5000: use a text such as "5000"'):
        brain.shrink(5000)  # type: ignore[arg-type]


def test_codes_that_were_let_go_take_no_memory(make: Make, task_of: TaskOf) -> None:
    learner = make()
    learner.learn(task_of(0, 1, each=10))
    held = [part.spreads.untyped_storage().nbytes() for part in learner.memory.kept]
    assert held == [0, 0]
    learner.restore(*learner.state())
    assert [part.spreads.untyped_storage().nbytes() for part in learner.memory.kept] == [0, 0]
