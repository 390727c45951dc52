"""One experiment: what is learned, judged and written down."""

import json
import os
import re
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from eec.data.stream import Increment, Stream
from eec.errors import UserError
from eec.methods.archive import load_learner
from eec.methods.contract import Method
from eec.runs.config import RunConfig
from eec.runs.folder import RunFolder
from eec.runs.run import prepare, run
from eec.runs.samples import Sample, read_samples
from eec.training.runtime import Runtime
from small_runs import CODE_PATHS, Onlooker, config, keeps_codes, measures

pytestmark = pytest.mark.usefixtures("short_recipe")

KEYS = {
    "increment", "classes_seen", "classes", "new_classes", "accuracy", "macro_accuracy",
    "average_incremental_accuracy", "accuracy_by_class", "accuracy_by_task", "forgetting",
    "backward_transfer", "confusion", "newest_share", "gap", "decay", "autoencoder", "pseudo",
    "strict", "bytes", "seconds", "note",
}  # fmt: skip


def go(
    path: Path, asked: RunConfig, onlooker: Onlooker | None = None
) -> tuple[Stream, Method, list[Sample], list[dict[str, Any]]]:
    stream, method = prepare(asked)
    folder = RunFolder.make(path, overwrite=False)
    try:
        run(asked, stream, method, folder, onlooker or Onlooker())
    finally:
        folder.close()
    return stream, method, read_samples(folder.samples), measures(path)


@pytest.mark.parametrize("method", CODE_PATHS)
def test_every_method_fills_the_measures(method: str, tmp_path: Path, cpu: Runtime) -> None:
    options = {"code": "16x4x4"} if keeps_codes(method) else {}
    stream, learner, samples, lines = go(tmp_path / "run", config(method, options=options))
    assert all(line.keys() == KEYS for line in lines)
    assert [line["increment"] for line in lines] == [1, 2, 3]
    assert [line["classes_seen"] for line in lines] == [1, 7, 10]
    assert lines[1]["new_classes"] == [1, 2, 3, 4, 5, 6] and lines[2]["classes"] == list(range(10))
    assert lines[0]["accuracy"] == 100 and "one class" in lines[0]["note"]

    # The learner in the folder is the one that was judged, on all test images seen.
    images = torch.cat([increment.test.images for increment in stream.increments])
    truth = [label for increment in stream.increments for label in increment.test.labels]
    back = load_learner(tmp_path / "run" / "learner.eec", cpu)
    calls = back.predict(images)
    last = lines[-1]
    assert last["accuracy"] == pytest.approx(100 * np.mean(np.array(calls) == np.array(truth)))
    assert np.sum(last["confusion"]) == len(truth) == 359
    assert sum(row[7] + row[8] + row[9] for row in last["confusion"]) == sum(
        call in (7, 8, 9) for call in calls
    )
    assert last["average_incremental_accuracy"] == pytest.approx(
        np.mean([line["accuracy"] for line in lines])
    )
    assert len(last["accuracy_by_task"]) == 3 and len(last["accuracy_by_class"]) == 10
    assert last["bytes"] == learner.bytes_by_part()
    assert {"train classifier", "evaluate"} <= last["seconds"].keys()
    assert all(seconds >= 0 for seconds in last["seconds"].values())

    codes, replays = keeps_codes(method), method.startswith(("replay", "icarl"))
    generates = method == "eec-cgan"
    assert [sample.label for sample in samples] == list(range(10))
    shown = ["test image"] + ["coded and decoded"] * (codes or method.startswith("replay-"))
    shown += ["4 episodes"] * codes + ["4 generated"] * generates
    assert all(list(sample.rows) == shown for sample in samples)
    assert (last["gap"] is None) == (not codes and not replays and not generates)
    if codes:
        assert [entry["class"] for entry in last["gap"]] == list(range(10))
        assert lines[0]["autoencoder"].keys() >= {"pixel_error", "recognised", "steps", "good"}
    else:
        assert last["autoencoder"] is None
    if method != "eec" and (codes or generates):
        assert [entry["task"] for entry in last["decay"]] == [1, 2]
    else:
        assert last["decay"] is None


def test_configuration_and_environment_are_written(tmp_path: Path, cpu: Runtime) -> None:
    asked = config("finetune", seed=7, class_order="shuffled", command="eec run digits")
    stream, method, _, _ = go(tmp_path / "run", asked)
    assert json.loads((tmp_path / "run" / "config.json").read_text()) == {
        "dataset": "digits",
        "method": "finetune",
        "strict": True,
        "options": asdict(method.options),
        "seed": 7,
        "stream": {
            "classes_per_increment": [1, 6, 3],
            "order": "shuffled",
            "class_order": list(stream.class_order),
            "increments": 3,
            "per_class": 4,
            "validation": 0.0,
            "returning": 0.0,
            "size": 16,
            "judged_on": "test",
            "notices": [],
        },
        "nets": method.nets((1, 16, 16)),
        "originals": True,
        "place": {
            "data_dir": None,
            "folder": str(Path.cwd()),
            "strict": False,
            "device": "cpu",
            "precision": "float32",
            "beside": [],
        },
        "command": "eec run digits",
    }
    environment = json.loads((tmp_path / "run" / "environment.json").read_text())
    assert environment["torch"] == torch.__version__ and environment["numpy"] == np.__version__
    assert re.match(r"3\.\d+\.\d+", environment["python"])
    assert environment["device"] == "cpu" and environment["precision"] == "float32"
    assert environment["cores"] == os.cpu_count()
    assert environment["threads"] == torch.get_num_threads()
    assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00$", environment["started"])
    assert {"eec", "platform", "cpu", "revision"} <= environment.keys()


def test_the_shuffled_order_is_the_seeds(tmp_path: Path) -> None:
    orders = [
        prepare(config("finetune", class_order="shuffled", seed=seed))[0].class_order
        for seed in (1, 1, 2)
    ]
    assert orders[0] == orders[1] != orders[2]
    assert orders[0] != tuple(range(10)) and sorted(map(int, orders[0])) == list(range(10))


def test_validation_judges_on_held_out_training_images(tmp_path: Path) -> None:
    stream, _, _, lines = go(tmp_path / "run", config("finetune", validation=0.1))
    assert stream.judged_on == "validation"
    assert np.sum(lines[-1]["confusion"]) == sum(len(i.test) for i in stream.increments) != 359
    assert json.loads((tmp_path / "run" / "config.json").read_text())["stream"]["judged_on"] == (
        "validation"
    )


def test_those_who_look_on_are_told(tmp_path: Path) -> None:
    onlooker = Onlooker()
    go(tmp_path / "run", config(classes_per_increment=(4, 6), options={"code": "16x4x4"}), onlooker)
    # A phase may be entered twice in a row; the first task has nothing to rehearse.
    assert [what for what, _ in groupby(onlooker.seen) if what != "rehearse"] == [
        "begin digits", "increment 1", "train autoencoder", "store", "train classifier", "store",
        "evaluate", "measured 1", "increment 2", "store", "train classifier", "store", "evaluate",
        "measured 2",
    ]  # fmt: skip


class Stop(Onlooker):
    """Ends a run in the given increment."""

    def __init__(self, number: int, with_: BaseException) -> None:
        super().__init__()
        self.number, self.error = number, with_

    def increment(self, increment: Increment) -> None:
        if increment.number == self.number:
            raise self.error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), UserError("no"), RuntimeError("a bug")])
def test_a_run_that_ends_early_keeps_whole_increments(
    error: BaseException, tmp_path: Path, cpu: Runtime
) -> None:
    with pytest.raises(type(error)):
        go(tmp_path / "run", config("finetune"), Stop(3, error))
    assert [line["increment"] for line in measures(tmp_path / "run")] == [1, 2]
    assert load_learner(tmp_path / "run" / "learner.eec", cpu).classes == list(range(7))

    with pytest.raises(type(error)):
        go(tmp_path / "other", config("finetune"), Stop(1, error))
    assert not (tmp_path / "other").exists()


def test_the_same_configuration_gives_the_same_run(tmp_path: Path) -> None:
    asked = config(options={"code": "16x4x4"})
    *_, first = go(tmp_path / "a", asked)
    *_, second = go(tmp_path / "b", asked)
    for line in (*first, *second):
        del line["seconds"]
    assert first == second
    assert (tmp_path / "a" / "learner.eec").read_bytes() == (
        tmp_path / "b" / "learner.eec"
    ).read_bytes()
    go(tmp_path / "c", config(options={"code": "16x4x4"}, seed=1))
    assert (tmp_path / "a" / "learner.eec").read_bytes() != (
        tmp_path / "c" / "learner.eec"
    ).read_bytes()
