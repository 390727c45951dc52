"""One increment in order, and what each option changes in it."""

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
from eec.memory.weights import decompressed
from eec.methods import eec as module
from eec.methods.archive import load_learner, save_learner
from eec.methods.eec import EECMethod
from eec.training.recipes import Recipe
from eec.training.runtime import Runtime

Make = Callable[..., EECMethod]
TaskOf = Callable[..., Task]


@pytest.fixture(autouse=True)
def _short(short_recipe: Recipe) -> None:
    """Nothing here asks how well it learns."""


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
    names = [name for name in learner.state()[0] if name.startswith("codecs.1.")]
    if "code_type" in options:
        assert {name.split(".")[2] for name in names} == {"encoder", "decoder", "scale"}
    else:
        assert names == ["codecs.1.together"]
        together = decompressed(learner.state()[0][names[0]])
        assert {name.split(".")[0] for name in together} == {"encoder", "decoder", "prior"}


def test_a_codec_of_an_earlier_file_is_read_piece_by_piece(make: Make, task_of: TaskOf) -> None:
    learner = make()
    learner.learn(task_of(0, 1))
    tensors, facts = learner.state()
    pieces = decompressed(tensors["codecs.1.together"])
    earlier = {n: t for n, t in tensors.items() if n != "codecs.1.together"}
    earlier |= {f"codecs.1.{name}": piece for name, piece in pieces.items()}
    again = make()
    again.restore(earlier, facts)
    assert shown(again, 1).equal(shown(learner, 1))
    assert again.state()[0].keys() == tensors.keys()  # and written as they are now


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
