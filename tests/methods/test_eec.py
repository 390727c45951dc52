"""One increment in order, and what each option changes in it."""

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from eec.data.stream import Task
from eec.errors import UserError
from eec.memory.codec import Codec, train_codec
from eec.methods import eec as module
from eec.methods.archive import load_learner, save_learner
from eec.methods.contract import Report
from eec.methods.eec import EECMethod
from eec.methods.registry import choose_options, make_method
from eec.training.recipes import Recipe
from eec.training.runtime import Runtime

Make = Callable[..., EECMethod]
TaskOf = Callable[..., Task]


@pytest.fixture(autouse=True)
def _short(short_recipe: Recipe) -> None:
    """Nothing here asks how well it learns."""


@pytest.fixture
def make(cpu: Runtime) -> Make:
    """`make("eec", codec="warm")`: an untaught learner with these options."""

    def learner(name: str = "eec", **options: Any) -> EECMethod:
        method = make_method(name, choose_options(name, **options), 0, cpu)
        assert isinstance(method, EECMethod)
        return method

    return learner


@pytest.fixture
def mixtures(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Images, targets and weights of each training of `D`."""
    seen: list[tuple[Tensor, Tensor, Tensor]] = []
    original = EECMethod._train_classifier

    def spy(self: EECMethod, images: Tensor, targets: Tensor, weights: Tensor, r: Report) -> None:
        seen.append((images, targets, weights))
        original(self, images, targets, weights, r)

    monkeypatch.setattr(EECMethod, "_train_classifier", spy)
    return seen


@pytest.fixture
def trainings(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What each training of an autoencoder was given, and the codec that came of it."""
    seen: list[dict[str, Any]] = []
    original = train_codec

    def spy(images: Tensor, *rest: Any, **given: Any) -> Codec:
        head = given["classifier"].head.out_features if given["classifier"] else None
        codec = original(images, *rest, **given)
        seen.append({**given, "images": images, "head": head, "codec": codec})
        return codec

    monkeypatch.setattr(module, "train_codec", spy)
    return seen


def weights(codec: Codec) -> Tensor:
    return torch.cat([t.double().flatten() for t in codec.net.state_dict().values()])


def shown(learner: EECMethod, task: int) -> Tensor:
    """What memory shows of a task."""
    parts = [part for part in learner.memory.kept if part.task == task]
    return torch.cat([learner.memory.reconstruct(part) for part in parts])


# --- the order of an increment ---

PUBLISHED_ORDER = ["rehearse", "train classifier", "train autoencoder", "store"]
MATCHED_ORDER = ["rehearse", "train autoencoder", "store", "train classifier"]


@pytest.mark.parametrize(
    ("name", "options", "order"),
    [
        ("eec-published", {}, PUBLISHED_ORDER),
        ("eecs", {}, PUBLISHED_ORDER),
        ("eec", {"codec": "warm"}, MATCHED_ORDER),
        ("eec", {"codec": "retrained", "new_images": "both"}, MATCHED_ORDER),
        ("eec", {"codec": "warm", "new_images": "real"}, PUBLISHED_ORDER),
    ],
)
def test_the_codec_comes_first_where_new_images_are_shown_decoded(
    make: Make, task_of: TaskOf, name: str, options: dict[str, str], order: list[str]
) -> None:
    learner = make(name, **options)
    for task in (task_of(0, 1), task_of(2)):
        assert list(learner.learn(task).seconds) == order


def test_a_frozen_codec_is_trained_once(
    make: Make, task_of: TaskOf, trainings: list[dict[str, Any]]
) -> None:
    learner = make()
    first = learner.learn(task_of(0, 1))
    assert list(first.seconds) == MATCHED_ORDER
    assert first.autoencoder is not None and first.autoencoder["trained"]
    before = weights(learner.memory.codecs[1])
    for digit in (2, 3):
        report = learner.learn(task_of(digit))
        assert list(report.seconds) == ["rehearse", "store", "train classifier"]
        assert report.autoencoder is not None and not report.autoencoder["trained"]
    assert len(trainings) == 1 and list(learner.memory.codecs) == [1]
    assert torch.equal(weights(learner.memory.codecs[1]), before)


# --- the autoencoder: on what, with which classifier, from which start ---


@pytest.mark.parametrize(
    ("codec", "starts_from_the_last"), [("per-task", False), ("warm", True), ("retrained", True)]
)
def test_start_of_each_autoencoder(
    make: Make,
    task_of: TaskOf,
    trainings: list[dict[str, Any]],
    codec: str,
    starts_from_the_last: bool,
) -> None:
    learner = make("eec-published", codec=codec)
    for digits in ((0, 1), (2,), (3,)):
        learner.learn(task_of(*digits))
    assert trainings[0]["start"] is None
    for last, this in pairwise(trainings):
        assert this["start"] is (last["codec"].net if starts_from_the_last else None)


def test_only_the_single_codec_is_trained_on_old_images_too(
    make: Make, task_of: TaskOf, trainings: list[dict[str, Any]]
) -> None:
    for name in ("eec-published", "eecs"):
        learner = make(name)
        learner.learn(task_of(0, 1))
        old = shown(learner, 1)
        new = task_of(2).images
        learner.learn(task_of(2))
        wanted = new if name == "eec-published" else torch.cat([new, old])
        assert torch.equal(trainings[-1]["images"], wanted)
        assert len(trainings[-1]["targets"]) == len(wanted)


def test_published_content_loss_uses_the_classifier_of_this_task(
    make: Make, task_of: TaskOf, trainings: list[dict[str, Any]]
) -> None:
    learner = make("eec-published")
    for digits in ((0, 1), (2,)):
        learner.learn(task_of(*digits))
    assert [given["head"] for given in trainings] == [2, 3]


def test_matched_content_loss_uses_the_classifier_of_the_last_task(
    make: Make, task_of: TaskOf, trainings: list[dict[str, Any]]
) -> None:
    learner = make(codec="warm")
    for digits in ((0, 1), (2,), (3,)):
        learner.learn(task_of(*digits))
    assert [given["head"] for given in trainings] == [None, 2, 3]


@pytest.mark.parametrize(
    ("options", "heads"),
    [
        ({"codec": "warm", "new_images": "decoded"}, [None, None, 2]),
        ({"codec": "warm", "new_images": "real"}, [None, 2, 3]),
    ],
)
def test_a_classifier_of_one_class_has_no_say_in_the_content_loss(
    make: Make,
    task_of: TaskOf,
    trainings: list[dict[str, Any]],
    options: dict[str, str],
    heads: list[int | None],
) -> None:
    learner = make(**options)
    for digit in (0, 1, 2):
        learner.learn(task_of(digit))
    assert [given["head"] for given in trainings] == heads


# --- memory ---


def test_each_task_keeps_its_own_decoder_and_no_encoder(make: Make, task_of: TaskOf) -> None:
    learner = make("eec-published")
    for digits in ((0, 1), (2,), (3,)):
        learner.learn(task_of(*digits))
    assert list(learner.memory.codecs) == [1, 2, 3]
    names = [name for name in learner.state()[0] if name.startswith("codecs.")]
    assert {name.split(".")[1] for name in names} == {"1", "2", "3"}
    assert {name.split(".")[2] for name in names} == {"decoder"}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"codec": "warm"},
        {"codec": "retrained"},
        {"see": "coded"},
        {"code_type": "uint8"},
    ],
)
def test_a_codec_that_will_encode_again_is_kept_whole(
    make: Make, task_of: TaskOf, options: dict[str, str]
) -> None:
    learner = make(**options)
    learner.learn(task_of(0, 1))
    parts = {name.split(".")[2] for name in learner.state()[0] if name.startswith("codecs.")}
    how = "scale" if "code_type" in options else "prior"
    assert parts == {"encoder", "decoder", how}


def test_the_single_codec_encodes_old_episodes_anew(make: Make, task_of: TaskOf) -> None:
    learner = make("eecs")
    learner.learn(task_of(0, 1))
    before, decoded = learner.memory.kept[:2], shown(learner, 1)
    learner.learn(task_of(2))
    (codec,) = learner.memory.codecs.values()
    zeros, ones, twos = learner.memory.kept
    assert [part.task for part in (zeros, ones, twos)] == [1, 1, 2]
    assert [part.target for part in (zeros, ones, twos)] == [0, 1, 2]
    assert not torch.equal(zeros.codes, before[0].codes)
    anew = codec.encode(decoded)  # of decoded images, not of real ones
    assert torch.equal(torch.cat([zeros.codes, ones.codes]), anew)
    assert torch.equal(twos.codes, codec.encode(task_of(2).images))


@pytest.mark.parametrize(
    ("name", "options"), [("eec", {}), ("eec", {"codec": "warm"}), ("eec-published", {})]
)
def test_other_codecs_never_touch_an_episode(
    make: Make, task_of: TaskOf, name: str, options: dict[str, str]
) -> None:
    learner = make(name, **options)
    learner.learn(task_of(0, 1))
    before = learner.memory.kept[0].codes.clone()
    learner.learn(task_of(2))
    assert torch.equal(learner.memory.kept[0].codes, before)
    codes = learner.memory.codec_of(2).encode(task_of(2).images)
    packing = learner.memory.packings[2]
    assert torch.equal(learner.memory.kept[2].codes, packing.pack(codes))


@pytest.mark.parametrize(("code", "values"), [("16x4x4", 256), ("16x8x8", 1024)])
@pytest.mark.parametrize(("kind", "size"), [("uint8", 1), ("float16", 2), ("float32", 4)])
def test_bytes_are_those_of_the_codes(
    make: Make, task_of: TaskOf, code: str, values: int, kind: str, size: int
) -> None:
    learner = make(code=code, code_type=kind)
    learner.learn(task_of(0, 1, each=3))
    parts = learner.bytes_by_part()
    assert parts["episodes"] == 6 * size * values
    assert parts["concepts"] == parts["counts"] == 0
    weights = 4 if kind == "float32" else 2
    assert weights * 40_000 < parts["codecs"] < weights * 60_000


def test_memory_shows_a_class_from_all_its_tasks(make: Make, task_of: TaskOf) -> None:
    learner = make(code_type="float32")
    learner.learn(task_of(0, 1))
    learner.learn(task_of(1, skip=10))
    remembered = dict(learner.remember(100))
    assert [len(remembered[label]) for label in (0, 1)] == [3, 6]
    decoded = [learner.memory.codecs[1](task_of(1, skip=skip).images) for skip in (0, 10)]
    assert torch.equal(remembered[1], torch.cat(decoded))


@pytest.mark.parametrize(("name", "later"), [("eec", True), ("eec-published", False)])
def test_images_can_be_coded_and_decoded_while_there_is_an_encoder(
    make: Make, task_of: TaskOf, cpu: Runtime, tmp_path: Any, name: str, later: bool
) -> None:
    learner, images = make(name), task_of(0, skip=20).images
    learner.learn(task_of(0, 1))
    decoded = learner.reconstruct(images, 0)
    assert decoded is not None and torch.equal(decoded, learner.memory.codecs[1](images))
    again = load_learner(save_learner(learner, tmp_path / "a.eec"), cpu).reconstruct(images, 0)
    assert (again is not None and torch.equal(again, decoded)) if later else again is None


# --- what `D` is trained on ---


def check_mixture(
    mixture: tuple[Tensor, Tensor, Tensor], parts: list[Tensor], weights: list[float]
) -> None:
    images, targets, given = mixture
    assert torch.equal(images, torch.cat(parts))
    wanted = [w for part, w in zip(parts, weights, strict=True) for _ in part]
    assert given.tolist() == pytest.approx(wanted)
    assert len(targets) == len(images)


@pytest.mark.parametrize("new_images", ["real", "decoded", "both"])
def test_new_images_are_shown_as_chosen_beside_the_decoded_old_ones(
    make: Make,
    task_of: TaskOf,
    mixtures: list[tuple[Tensor, Tensor, Tensor]],
    new_images: str,
) -> None:
    learner = make(new_images=new_images, decay=False, code_type="float32")
    learner.learn(task_of(0, 1))
    old = shown(learner, 1)
    learner.learn(task_of(2))
    real = task_of(2).images
    decoded = learner.memory.codecs[1](real)
    parts, shares = {
        "real": ([real, old], [1.0, 1.0]),
        "decoded": ([decoded, old], [1.0, 1.0]),
        "both": ([real, decoded, old], [0.5, 0.5, 1.0]),
    }[new_images]
    check_mixture(mixtures[-1], parts, shares)
    assert mixtures[-1][1].tolist() == [2] * (len(parts) - 1) * 3 + [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize(
    ("policy", "memory", "drawn"),
    [("concepts", "8", 10), ("concepts", "unlimited", 0), ("spread", "8", 0)],
)
def test_a_class_that_will_be_concepts_is_shown_half_as_such(
    policy: str,
    memory: str,
    drawn: int,
    make: Make,
    task_of: TaskOf,
    mixtures: list[tuple[Tensor, Tensor, Tensor]],
) -> None:
    learner = make("eec", over_budget=policy, memory=memory, code_type="float32")
    learner.learn(task_of(0, each=20))
    learner.learn(task_of(1, each=20))
    images, targets, _ = mixtures[-1]
    new = images[targets == 1]
    assert len(new) == 20
    decoded = learner.memory.codec_of(2)(task_of(1, each=20).images)
    sharp = {image.numpy().tobytes() for image in decoded}
    assert sum(image.numpy().tobytes() not in sharp for image in new) == drawn


def decayed(learner: EECMethod, task_of: TaskOf, monkeypatch: pytest.MonkeyPatch) -> Report:
    """Learn three tasks, of the first two of which the old `D` recognises 60 and was 80 before."""
    learner.learn(task_of(0, 1))
    learner.learn(task_of(2))
    learner.originals = {1: 80.0, 2: 80.0}
    monkeypatch.setattr(EECMethod, "_accuracy", lambda self, images, targets: 60.0)
    return learner.learn(task_of(3))


@pytest.mark.parametrize(
    ("name", "options", "gammas"),
    [
        ("eec", {"decay": True}, [0.25, 0.25]),
        ("eec-published", {}, [0.25, 0.25]),
        ("eecs", {}, [0.5, 0.25]),  # alpha is t - i: 2 and 1
    ],
)
def test_old_tasks_are_weighed_by_their_decay(
    make: Make,
    task_of: TaskOf,
    mixtures: list[tuple[Tensor, Tensor, Tensor]],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    options: dict[str, Any],
    gammas: list[float],
) -> None:
    report = decayed(make(name, **options), task_of, monkeypatch)
    wanted = [math.exp(-gamma) for gamma in gammas]
    assert report.decay == [
        {
            "task": task,
            "original": 80.0,
            "decoded": 60.0,
            "weight": pytest.approx(weight),
            "drawn": None,
            "drawn_weight": 1.0,
        }
        for task, weight in zip((1, 2), wanted, strict=True)
    ]
    new, first, second = 3, 6, 3
    assert mixtures[-1][2].tolist() == pytest.approx(
        [1.0] * new + [wanted[0]] * first + [wanted[1]] * second
    )


@pytest.mark.parametrize(("name", "options"), [("eec", {}), ("eecs", {"decay": False})])
def test_without_decay_nothing_is_measured_and_all_weigh_the_same(
    make: Make,
    task_of: TaskOf,
    mixtures: list[tuple[Tensor, Tensor, Tensor]],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    options: dict[str, Any],
) -> None:
    assert decayed(make(name, **options), task_of, monkeypatch).decay is None
    assert set(mixtures[-1][2].tolist()) == {1.0}


def test_the_original_accuracy_is_that_on_the_real_training_images(
    make: Make, task_of: TaskOf
) -> None:
    for name in ("eec", "eec-published"):
        learner = make(name)
        for number, task in enumerate((task_of(0, 1), task_of(2, 3)), start=1):
            learner.learn(task)
            hits = [a == b for a, b in zip(learner.predict(task.images), task.labels, strict=True)]
            assert learner.originals[number] == pytest.approx(100 * np.mean(hits))


# --- at test time ---


def test_test_images_are_seen_coded_where_that_is_chosen(make: Make, task_of: TaskOf) -> None:
    coded, real = make(see="coded"), make(see="real")
    coded.learn(task_of(0, 1))
    real.restore(*coded.state())
    images = task_of(0, 1, skip=20).images
    decoded = coded.memory.codecs[1](images)
    assert np.array_equal(coded.predict_proba(images), real.predict_proba(decoded))
    assert not np.allclose(coded.predict_proba(images), real.predict_proba(images), atol=1e-6)


def test_a_code_that_does_not_fit_is_refused_and_nothing_is_learned(
    make: Make, task_of: TaskOf
) -> None:
    for code, words in (("16x32x32", "not smaller"), ("sixteen", "not of the form")):
        learner = make(code=code, code_type="uint8")
        with pytest.raises(UserError, match=words):
            learner.learn(task_of(0, 1))
        assert (learner.classes, learner.tasks, learner.state()[0]) == ([], 0, {})


def test_a_poor_autoencoder_is_told_of_in_the_notes(make: Make, task_of: TaskOf) -> None:
    learner = make()
    report = learner.learn(task_of(0, 1))
    assert report.autoencoder is not None and report.autoencoder["good"] is False
    assert sum("autoencoder stayed poor" in note for note in report.notes) == 1
    assert sum("keeps this one badly" in note for note in learner.learn(task_of(2)).notes) == 1


@pytest.mark.parametrize("name", ["eec", "eec-published"])
def test_the_codec_is_judged_by_the_classifier_that_knows_the_task(
    make: Make, task_of: TaskOf, name: str
) -> None:
    learner, task = make(name), task_of(0, 1)
    report = learner.learn(task)
    assert report.autoencoder is not None
    decoded = learner.memory.codecs[1](task.images)
    for key, images in (("recognised", decoded), ("recognised_real", task.images)):
        hits = [a == b for a, b in zip(learner.predict(images), task.labels, strict=True)]
        assert report.autoencoder[key] == pytest.approx(100 * np.mean(hits))
    assert (report.autoencoder["steps"], report.autoencoder["attempts"]) == (1, 1)


@pytest.mark.parametrize(("replay", "judged"), [(0, [6]), (2, [3]), (5, [5])])
def test_bounded_replay_bounds_what_decay_is_measured_on(
    make: Make, task_of: TaskOf, monkeypatch: pytest.MonkeyPatch, replay: int, judged: list[int]
) -> None:
    monkeypatch.setattr(module, "FEWEST_JUDGED", 3)
    learner = make(code_type="uint8", decay=True, replay_per_epoch=replay)
    learner.learn(task_of(0, 1, each=3))
    seen: list[int] = []
    original = learner._accuracy

    def spy(images: Tensor, targets: Tensor) -> float:
        seen.append(len(images))
        return original(images, targets)

    monkeypatch.setattr(learner, "_accuracy", spy)
    learner.learn(task_of(2, each=3))
    assert seen[:-1] == judged  # the last is of the new images, all of them
