"""The Python door: EEC with scikit-learn's habits."""

import errno
import inspect
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from eec import EEC, UserError
from eec.data.stream import Task
from eec.methods.archive import save_learner
from eec.methods.options import EECOptions
from eec.methods.registry import choose_options, make_method
from eec.training import calibration
from eec.training.recipes import RECIPES, Plan, Recipe
from eec.training.runtime import Runtime

MakeTask = Callable[..., Task]

pytestmark = pytest.mark.usefixtures("short_recipe")


def taught(task_of: MakeTask) -> EEC:
    """Knows 0 to 3 after two tasks."""
    learner = EEC(seed=3)
    for task in (task_of(0, 1), task_of(2, 3)):
        learner.partial_fit(task.images, task.labels)
    return learner


@pytest.fixture(scope="module")
def brain_file(task_of: MakeTask, tmp_path_factory: pytest.TempPathFactory) -> Path:
    plan = Plan("sgd", rate=0.05, batch=8, steps=3)
    path = tmp_path_factory.mktemp("brain") / "brain.eec"
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(RECIPES, "fast", Recipe(plan, plan, plan, plan, crop=2))
        taught(task_of).save(path)
    return path


@pytest.fixture
def brain(brain_file: Path) -> EEC:
    """A learner of one's own, as `taught` has it: taught once, to save time."""
    return EEC.load(brain_file)


def asked(task_of: MakeTask) -> torch.Tensor:
    return task_of(0, 1, 2, 3, each=5, skip=30).images


def refusal(act: Callable[..., Any], *arguments: Any, **named: Any) -> str:
    with pytest.raises(UserError) as caught:
        act(*arguments, **named)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# Learning and asking.


def test_classes_come_in_order_of_arrival_and_of_the_users_type(task_of: MakeTask) -> None:
    learner = EEC()
    task = task_of(7, 2)
    assert learner.partial_fit(task.images, task.labels) is learner
    assert learner.classes_.tolist() == [7, 2] and learner.classes_.dtype == np.int64
    more = task_of(5)
    learner.partial_fit(more.images, more.labels)
    assert learner.classes_.tolist() == [7, 2, 5]
    assert set(learner.predict(more.images).tolist()) <= {7, 2, 5}


def test_probabilities_predictions_and_score_agree(brain: EEC, task_of: MakeTask) -> None:
    images = asked(task_of)
    shares = brain.predict_proba(images)
    assert shares.shape == (20, 4)
    np.testing.assert_allclose(shares.sum(1), 1)
    calls = brain.predict(images)
    assert calls.tolist() == brain.classes_[shares.argmax(1)].tolist()
    truth = [0] * 10 + [3] * 10
    hits = calls == np.array(truth)
    assert brain.score(images, truth) == pytest.approx(hits.mean())
    weights = np.arange(1.0, 21.0)
    assert brain.score(images, truth, weights) == pytest.approx((hits * weights).sum() / 210)
    assert brain.score(images, calls) == 1.0


@pytest.mark.parametrize(
    "name",
    [str, float, lambda digit: digit + 0.5, lambda digit: "two words" if digit else 0],
    ids=["strings", "whole floats", "floats", "mixed"],
)
def test_labels_of_any_kind_can_be_scored(name: Callable[[int], Any], task_of: MakeTask) -> None:
    task = task_of(0, 1, name=name)
    learner = EEC().fit(task.images, task.labels)
    assert learner.score(task.images, learner.predict(task.images)) == 1.0
    assert [type(label) for label in learner.classes_.tolist()] == [type(name(0)), type(name(1))]


def test_a_class_that_was_never_taught_counts_as_wrong(brain: EEC, task_of: MakeTask) -> None:
    assert brain.score(asked(task_of), [8] * 20) == 0.0


def test_labels_read_as_text_are_not_counted_as_wrong_in_silence(
    brain: EEC, task_of: MakeTask
) -> None:
    images = asked(task_of)
    said = refusal(brain.score, images, [str(label) for label in brain.predict(images)])
    assert "y holds strings but numbers were learned" in said
    assert "20 images but 3 labels" in refusal(brain.score, images, [0, 1, 2])


def test_fit_begins_anew_and_partial_fit_goes_on(brain: EEC, task_of: MakeTask) -> None:
    task = task_of(4, 5)
    brain.partial_fit(task.images, task.labels)
    assert brain.classes_.tolist() == [0, 1, 2, 3, 4, 5]
    brain.fit(task.images, task.labels)
    assert brain.classes_.tolist() == [4, 5]
    fresh = EEC(seed=3).fit(task.images, task.labels)
    images = asked(task_of)
    np.testing.assert_array_equal(brain.predict_proba(images), fresh.predict_proba(images))


def test_the_seed_decides(task_of: MakeTask) -> None:
    task, images = task_of(0, 1), asked(task_of)
    first, same, other = (
        EEC(seed=seed).fit(task.images, task.labels).predict_proba(images) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, same)
    assert not np.array_equal(first, other)


FORMS: dict[str, Callable[[torch.Tensor], Any]] = {
    "torch uint8": lambda x: x,
    "numpy uint8": lambda x: x.numpy(),
    "torch float": lambda x: x.float() / 255,
    "numpy float": lambda x: x.numpy().astype(np.float64) / 255,
    "channels last": lambda x: x.permute(0, 2, 3, 1).numpy(),
    "floats, channels last": lambda x: x.permute(0, 2, 3, 1) / 255,
    "reversed twice": lambda x: x.numpy()[::-1][::-1],
}


@pytest.mark.parametrize("channels", [1, 3])
def test_the_same_pictures_in_any_form_give_the_same_predictions(
    channels: int, task_of: MakeTask
) -> None:
    def pictures(task: Task) -> torch.Tensor:
        tinted = [task.images, 255 - task.images, task.images // 2]
        return torch.cat(tinted[:channels], 1)[:, :, ::2, ::2].contiguous()

    task, question = task_of(0, 1, each=3), pictures(task_of(0, 1, each=2, skip=30))
    forms = dict(FORMS)
    if channels == 1:
        forms["no channel"] = lambda x: x[:, 0]
    expected = EEC(code="16x4x4").fit(pictures(task), task.labels).predict_proba(question)
    for form, change in forms.items():
        learner = EEC(code="16x4x4").fit(change(pictures(task)), np.array(task.labels))
        np.testing.assert_array_equal(learner.predict_proba(change(question)), expected, form)


@pytest.mark.parametrize(
    "given",
    [
        lambda labels: labels,
        lambda labels: tuple(np.int32(label) for label in labels),
        lambda labels: np.array(labels, np.uint8),
        lambda labels: torch.tensor(labels),
        lambda labels: np.array([f"no. {label}" for label in labels]),
        lambda labels: [f"no. {label}" for label in labels],
    ],
)
def test_the_kind_of_labels_changes_their_names_only(
    given: Callable[[list[Any]], Any], task_of: MakeTask
) -> None:
    task, images = task_of(4, 6), task_of(4, 6, skip=30).images
    plain = EEC().fit(task.images, task.labels)
    learner = EEC().fit(task.images, given(task.labels))
    np.testing.assert_array_equal(learner.predict_proba(images), plain.predict_proba(images))
    names = [str(name).removeprefix("no. ") for name in learner.predict(images).tolist()]
    assert names == [str(label) for label in plain.predict(images).tolist()]


# Refusals, which leave the learner as it was.


def altered(images: torch.Tensor, value: float) -> torch.Tensor:
    floats = images.float() / 255
    floats[1, 0, 5, 5] = value
    return floats


BAD_TASKS: dict[str, tuple[Callable[[torch.Tensor, list[Any]], tuple[Any, Any]], str]] = {
    "NaN": (lambda x, y: (altered(x, np.nan), y), "X[1] holds NaN"),
    "above 1": (lambda x, y: (altered(x, 1.5), y), "X[1] holds 1.5"),
    "below 0": (lambda x, y: (altered(x, -0.1), y), "X[1] holds -0.1"),
    "infinite": (lambda x, y: (altered(x, np.inf), y), "X[1] holds inf"),
    "0..255 as floats": (lambda x, y: (x.float(), y), "floats must lie in 0..1"),
    "integers": (lambda x, y: (x.long(), y), "dtype torch.int64"),
    "too few labels": (lambda x, y: (x, y[:-1]), "4 images but 3 labels"),
    "no images": (lambda x, y: (x[:0], y[:0]), "holds no images"),
    "other size": (lambda x, y: (x[:, :, :28, :28], y), "grey 28x28 but grey 32x32 was learned"),
    "other channels": (lambda x, y: (x.expand(-1, 3, -1, -1), y), "RGB 32x32 but grey 32x32"),
    "two channels": (lambda x, y: (x.expand(-1, 2, -1, -1), y), "channels must be 1"),
    "one image": (lambda x, y: (x[0, 0], y[:1]), "a single image"),
    "a list": (lambda x, y: ([x], y), "X is a list"),
    "a NaN label": (lambda x, y: (x, [*y[:-1], float("nan")]), "y[3] is NaN"),
    "a missing label": (lambda x, y: (x, [*y[:-1], None]), "y[3] is of type NoneType"),
    "a lookalike": (lambda x, y: (x, [1.0] * 4), "equals a learned label"),
    "labels of two dimensions": (lambda x, y: (x, np.eye(4)), "y has shape (4, 4)"),
}


@pytest.mark.parametrize("case", BAD_TASKS)
def test_a_bad_task_is_refused_and_changes_nothing(
    case: str, brain: EEC, task_of: MakeTask, tmp_path: Path
) -> None:
    brain.save(tmp_path / "before.eec")
    spoil, words = BAD_TASKS[case]
    task = task_of(5, each=4)
    assert words in refusal(brain.partial_fit, *spoil(task.images, list(task.labels)))
    if "learned" not in words and "RGB" not in words:  # fit may begin with any size and type
        assert words in refusal(brain.fit, *spoil(task.images, list(task.labels)))
    brain.save(tmp_path / "after.eec")
    assert (tmp_path / "after.eec").read_bytes() == (tmp_path / "before.eec").read_bytes()


def test_bad_questions_are_refused(brain: EEC, task_of: MakeTask) -> None:
    images = asked(task_of)
    for ask in (brain.predict, brain.predict_proba):
        assert "NaN" in refusal(ask, altered(images, np.nan))
        assert "grey 28x28" in refusal(ask, images[:, :, :28, :28])
        assert "holds no images" in refusal(ask, images[:0])


def test_an_interrupted_task_changes_nothing(
    brain: EEC, task_of: MakeTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    brain.save(tmp_path / "before.eec")
    method, task = brain.method_, task_of(5)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(method, "_store", interrupt)
    with pytest.raises(KeyboardInterrupt):
        brain.partial_fit(task.images, task.labels)
    monkeypatch.undo()
    brain.save(tmp_path / "after.eec")
    assert (tmp_path / "after.eec").read_bytes() == (tmp_path / "before.eec").read_bytes()


def test_nothing_can_be_asked_of_one_who_has_learned_nothing(
    task_of: MakeTask, tmp_path: Path
) -> None:
    learner, images = EEC(), asked(task_of)
    for ask in (learner.predict, learner.predict_proba):
        with pytest.raises(NotFittedError, match="call partial_fit first"):
            ask(images)
    with pytest.raises(NotFittedError):
        learner.score(images, [0] * 20)
    with pytest.raises(NotFittedError):
        learner.save(tmp_path / "brain.eec")
    with pytest.raises(NotFittedError):
        check_is_fitted(learner)
    assert not hasattr(learner, "classes_") and list(tmp_path.iterdir()) == []


# Parameters.

WRONG: list[tuple[str, Any, str]] = [
    ("net", "resnet50", "choose one of auto, tiny"),
    ("net", 3, "use a string"),
    ("recipe", "slow", "choose one of fast, brief, paper"),
    ("codec", None, "use a string"),
    ("codec", np.array(["frozen", "warm"]), "use a string"),
    ("new_images", "fake", "choose one of decoded, real, both"),
    ("see", "nothing", "choose one of real, coded"),
    ("output", "relu", "choose one of tanh, norm"),
    ("content_scale", "", "choose one of normalised, raw"),
    ("content", 1.5, "a share from 0 to 1"),
    ("content", float("nan"), "a share from 0 to 1"),
    ("content", "0.7", "use a number"),
    ("content", True, "use a number"),
    ("code", "16x8", "CHANNELSxSIDExSIDE"),
    ("code", "16x64x64", "coded to a side of 4"),
    ("code", 256, "use a string"),
    ("keep_head", "no", "True or False"),
    ("decay", 0, "True or False"),
    ("flip", None, "True or False"),
    ("seed", -1, "whole number"),
    ("seed", 1.0, "whole number"),
    ("seed", True, "whole number"),
    ("seed", None, "whole number"),
    ("device", "tpu", "unknown device"),
    ("precision", "float16", "unknown precision"),
]


@pytest.mark.parametrize(("name", "value", "words"), WRONG)
def test_a_wrong_parameter_is_refused_in_one_line(
    name: str, value: Any, words: str, task_of: MakeTask
) -> None:
    task = task_of(0, 1)
    learner = EEC(**{name: value})
    said = refusal(learner.fit, task.images, task.labels)
    assert said.startswith((name, "unknown " + name)) and words in said
    assert not hasattr(learner, "method_")


def test_numbers_out_of_numpy_are_good_parameters(task_of: MakeTask, tmp_path: Path) -> None:
    task = task_of(0, 1)
    odd = EEC(seed=np.int64(4), content=np.float32(0.5), decay=np.bool_(True))  # type: ignore[arg-type]
    odd.fit(task.images, task.labels).save(tmp_path / "brain.eec")
    assert EEC.load(tmp_path / "brain.eec").get_params()["content"] == 0.5
    odd.partial_fit(task.images, task.labels)


def test_the_parameters_are_the_options_of_the_method_with_its_defaults() -> None:
    given = EEC().get_params()
    options = EECOptions()
    assert {name: given[name] for name in given if name not in ("seed", "device", "precision")} == {
        field.name: getattr(options, field.name) for field in fields(options)
    }
    kinds = {p.kind for p in inspect.signature(EEC).parameters.values()}
    assert kinds == {inspect.Parameter.KEYWORD_ONLY}


def test_get_params_set_params_and_clone(brain: EEC, task_of: MakeTask) -> None:
    assert brain.get_params()["seed"] == 3
    copy = clone(brain)
    assert type(copy) is EEC and copy.get_params() == brain.get_params()
    assert not hasattr(copy, "classes_") and brain.classes_.tolist() == [0, 1, 2, 3]
    assert brain.set_params(codec="per-task") is brain and brain.codec == "per-task"
    with pytest.raises(ValueError, match="Invalid parameter"):
        brain.set_params(memory_of_an_elephant=True)


@pytest.mark.parametrize(
    "change", [{"seed": 4}, {"codec": "warm"}, {"content": 0.1}, {"precision": "bf16"}]
)
def test_parameters_changed_after_learning_are_refused(
    change: dict[str, Any], task_of: MakeTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibration, "claims_bf16", lambda: False)  # else it would be tried
    task, images = task_of(0, 1, each=2), task_of(0, 1, each=2, skip=30).images
    learner = EEC(precision="float32").fit(task.images, task.labels)
    before = learner.predict_proba(images)
    learner.set_params(**change)
    said = refusal(learner.partial_fit, task.images, task.labels)
    assert "use fit to begin anew" in said
    np.testing.assert_array_equal(learner.predict_proba(images), before)
    learner.set_params(precision="float32")
    learner.fit(task.images, task.labels).partial_fit(task.images, task.labels)


# Files.


def test_a_new_process_predicts_the_same_bit_for_bit(task_of: MakeTask, tmp_path: Path) -> None:
    brain = taught(task_of)
    brain.save(str(tmp_path / "brain.eec"))
    np.save(tmp_path / "images.npy", asked(task_of).numpy())
    program = """
import sys
import numpy as np
from eec import EEC
brain = EEC.load(sys.argv[1])
images = np.load(sys.argv[2])
np.save(sys.argv[3], brain.predict_proba(images))
print(brain.predict(images).tolist(), brain.classes_.dtype, brain.seed)
"""
    shown = subprocess.run(
        [sys.executable, "-W", "error", "-c", program, "brain.eec", "images.npy", "shares.npy"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
    )
    images = asked(task_of)
    np.testing.assert_array_equal(np.load(tmp_path / "shares.npy"), brain.predict_proba(images))
    assert shown.stdout == f"{brain.predict(images).tolist()} int64 3\n"


def test_a_learner_read_back_goes_on_as_if_it_had_never_left(
    task_of: MakeTask, tmp_path: Path
) -> None:
    task, later = task_of(0, 1, name=str), task_of(1, 2, skip=10, name=str)
    stayed = EEC(codec="retrained", see="coded", content=0.3, seed=8)
    stayed.fit(task.images, task.labels).save(tmp_path / "brain.eec")
    back = EEC.load(tmp_path / "brain.eec")
    assert back.get_params() == stayed.get_params()
    for learner in (stayed, back):
        learner.partial_fit(later.images, later.labels)
    assert back.classes_.tolist() == ["0", "1", "2"]
    images = asked(task_of)
    np.testing.assert_array_equal(back.predict_proba(images), stayed.predict_proba(images))


def test_the_file_holds_no_pickle_and_no_training_image(
    brain_file: Path, task_of: MakeTask
) -> None:
    content = brain_file.read_bytes()
    with safe_open(brain_file, "np") as file:  # raises for anything but safetensors
        kinds = {name: file.get_slice(name).get_dtype() for name in file.keys()}  # noqa: SIM118
    # Pixels would be bytes: only codes are, and the weights of their codec, compressed.
    assert {n for n, kind in kinds.items() if kind != "F32"} == {"episodes.1", "codecs.1.together"}
    for image in task_of(0, 1, 2, 3).images:
        middle = image[0, 12:20].contiguous()
        for form in (middle, middle.float(), middle.float() / 255, middle.float() / 127.5 - 1):
            assert form.numpy().tobytes() not in content
            assert form[3:5].numpy().tobytes() not in content


@pytest.mark.parametrize("where", ["a file/brain.eec", "folder", "a file/deeper/brain.eec"])
def test_a_place_that_cannot_be_written_is_refused(where: str, brain: EEC, tmp_path: Path) -> None:
    (tmp_path / "a file").write_text("kept")
    (tmp_path / "folder").mkdir()
    assert "cannot write" in refusal(brain.save, tmp_path / where)
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["a file", "folder"]
    assert (tmp_path / "a file").read_text() == "kept"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES, errno.EIO])
def test_a_full_disk_leaves_the_earlier_file_whole(
    number: int, brain: EEC, task_of: MakeTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "brain.eec"
    brain.save(path)
    before = path.read_bytes()
    task = task_of(6)
    brain.partial_fit(task.images, task.labels)

    def fail(_: int) -> None:
        raise OSError(number, "the disk says no")

    monkeypatch.setattr(os, "fsync", fail)
    assert "the disk says no" in refusal(brain.save, path)
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


def test_a_missing_folder_is_made(brain: EEC, tmp_path: Path) -> None:
    brain.save(tmp_path / "new" / "folder" / "brain.eec")
    assert EEC.load(tmp_path / "new" / "folder" / "brain.eec").classes_.tolist() == [0, 1, 2, 3]


def test_bad_files_are_refused_through_this_door_too(brain: EEC, tmp_path: Path) -> None:
    path = tmp_path / "brain.eec"
    assert "there is no learner file" in refusal(EEC.load, path)
    brain.save(path)
    path.write_bytes(path.read_bytes()[:-1])
    assert "altered or damaged" in refusal(EEC.load, str(path))
    assert "unknown device" in refusal(EEC.load, path, device="tpu")


def test_the_learner_of_another_method_is_not_taken_for_eec(
    cpu: Runtime, short_recipe: Recipe, task_of: MakeTask, tmp_path: Path
) -> None:
    for name, taken in (("eec-published", True), ("joint", False), ("finetune", False)):
        method = make_method(name, choose_options(name), 0, cpu)
        method.learn(task_of(0, 1))
        path = save_learner(method, tmp_path / f"{name}.eec")
        if taken:
            assert EEC.load(path).net == "dcgan"
        else:
            assert f"method {name}" in refusal(EEC.load, path)
