"""Going on with a run that was stopped."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eec.data.stream import Increment
from eec.errors import UserError
from eec.runs.config import RunConfig
from eec.runs.folder import RunFolder
from eec.runs.resume import is_finished, read_config
from eec.runs.run import go_on, prepare, run
from eec.training.journal import Journal
from eec.training.loop import Progress
from eec.training.recipes import RECIPES, Recipe
from small_runs import CODE_PATHS, Onlooker, config, keeps_codes, measures

pytestmark = pytest.mark.usefixtures("short_recipe")


class Cut(BaseException):
    """The process ends here."""


class Interrupted(Onlooker):
    """Ends the process when a phase of an increment begins, or at a step of it."""

    def __init__(self, increment: int, phase: str, step: int = 0) -> None:
        super().__init__()
        self.where, self.step, self.now = (increment, phase), step, 0

    def increment(self, increment: Increment) -> None:
        self.now = increment.number

    def phase(self, name: str) -> Progress:
        here = (self.now, name) == self.where
        if here and not self.step:
            raise Cut

        def progress(done: int, total: int) -> None:
            if here and done == self.step:
                raise Cut

        return progress


def begin(path: Path, asked: RunConfig, watcher: Onlooker, every: float = 0) -> None:
    stream, method = prepare(asked)
    folder = RunFolder.make(path, overwrite=False)
    try:
        run(asked, stream, method, folder, watcher, Journal(every=every))
    finally:
        folder.close()


def resume(path: Path, watcher: Onlooker | None = None, data_dir: Path | None = None) -> None:
    folder = RunFolder.open(path)
    try:
        asked = read_config(folder, data_dir)
        go_on(asked, *prepare(asked), folder, watcher or Onlooker(), Journal())
    finally:
        folder.close()


def result(path: Path) -> tuple[list[dict[str, Any]], bytes, bytes, list[str]]:
    """All that must not differ: not the seconds, which do."""
    lines = measures(path)
    for line in lines:
        del line["seconds"]
    files = sorted(entry.name for entry in path.iterdir())
    learner, samples = ((path / name).read_bytes() for name in ("learner.eec", SAMPLES))
    return lines, learner, samples, files


SAMPLES = "samples.safetensors"
SMALL: dict[str, Any] = {"options": {"code": "16x4x4"}}


@pytest.mark.parametrize("method", CODE_PATHS)
def test_every_method_goes_on_to_the_same_bytes(method: str, tmp_path: Path) -> None:
    asked = config(method, **(SMALL if keeps_codes(method) else {}))
    begin(tmp_path / "whole", asked, Onlooker())
    phases = ["train classifier", "evaluate"]
    if keeps_codes(method):
        phases += ["rehearse", "store"]
    if method == "eec-cgan":
        phases += ["train generator"]
    for number, phase in enumerate(phases):
        path = tmp_path / phase
        with pytest.raises(Cut):
            begin(path, asked, Interrupted(3 - number % 2, phase))
        seen = Onlooker()
        resume(path, seen)
        assert "recalled 1" in seen.seen and seen.seen[-1] == "measured 3"
        assert result(path) == result(tmp_path / "whole")


def test_a_training_goes_on_at_its_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, short_recipe: Recipe
) -> None:
    longer = replace(short_recipe.compressor, steps=6)
    monkeypatch.setitem(RECIPES, "fast", replace(short_recipe, compressor=longer))
    asked = config(**SMALL)
    begin(tmp_path / "whole", asked, Onlooker())
    with pytest.raises(Cut):
        begin(tmp_path / "cut", asked, Interrupted(1, "train autoencoder", 4))
    seen: list[int] = []

    class Counting(Onlooker):
        def phase(self, name: str) -> Progress:
            if name == "train autoencoder":
                return lambda done, total: seen.append(done)
            return super().phase(name)

    resume(tmp_path / "cut", Counting())
    assert seen[0] == 4
    assert result(tmp_path / "cut") == result(tmp_path / "whole")


def test_a_budget_and_shuffled_classes_go_on_too(tmp_path: Path) -> None:
    options = {"code": "16x4x4", "memory": "24", "over_budget": "concepts"}
    asked = config(options=options, class_order="shuffled", validation=0.2, returning=0.25)
    begin(tmp_path / "whole", asked, Onlooker())
    with pytest.raises(Cut):
        begin(tmp_path / "cut", asked, Interrupted(3, "integrate"))
    resume(tmp_path / "cut")
    assert result(tmp_path / "cut") == result(tmp_path / "whole")


def test_killed_between_the_line_and_the_tidying_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = config("finetune")
    begin(tmp_path / "whole", asked, Onlooker())

    settle = RunFolder.settle

    def cut(folder: RunFolder) -> None:
        if len(folder.lines) == 2:
            raise Cut
        settle(folder)

    monkeypatch.setattr(RunFolder, "settle", cut)
    with pytest.raises(Cut):
        begin(tmp_path / "cut", asked, Onlooker())
    monkeypatch.setattr(RunFolder, "settle", settle)
    resume(tmp_path / "cut")
    assert result(tmp_path / "cut") == result(tmp_path / "whole")


def test_a_finished_run_is_known(tmp_path: Path) -> None:
    begin(tmp_path / "whole", config("finetune"), Onlooker())
    with pytest.raises(Cut):
        begin(tmp_path / "cut", config("finetune"), Interrupted(3, "train classifier", 2))
    for name, finished in (("whole", True), ("cut", False)):
        folder = RunFolder.open(tmp_path / name)
        assert is_finished(folder) == finished
        folder.close()


def test_seconds_of_the_stopped_process_count(tmp_path: Path) -> None:
    with pytest.raises(Cut):
        begin(tmp_path, config("finetune"), Interrupted(2, "evaluate"))
    spent = next((tmp_path / "checkpoint" / "increment-2").glob("training-*"))
    content = spent.read_bytes()
    size = int.from_bytes(content[:8], "little")
    told = json.loads(json.loads(content[8 : 8 + size])["__metadata__"]["eec"])
    resume(tmp_path)
    assert measures(tmp_path)[1]["seconds"]["train classifier"] >= told["seconds"] > 0


def test_data_that_changed_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Cut):
        begin(tmp_path / "run", config("finetune"), Interrupted(2, "train classifier", 2))
    (tmp_path / "run" / "checkpoint" / "increment-2" / "images.json").write_text("[1, 2]")
    before = sorted((tmp_path / "run").rglob("*"))
    with pytest.raises(UserError, match="images of increment 2 have changed"):
        resume(tmp_path / "run")
    assert sorted((tmp_path / "run").rglob("*")) == before


def test_what_cannot_go_on(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not a run folder"):
        RunFolder.open(tmp_path)
    begin(tmp_path / "run", config("finetune"), Onlooker())
    told = json.loads((tmp_path / "run" / "config.json").read_text())
    (tmp_path / "run" / "learner.eec").unlink()
    with pytest.raises(UserError, match="there is no learner file"):
        resume(tmp_path / "run")
    del told["place"]
    (tmp_path / "run" / "config.json").write_text(json.dumps(told))
    with pytest.raises(UserError, match=r"another version of eec \('place'"):
        resume(tmp_path / "run")


def test_another_process_is_refused_until_the_folder_is_free(tmp_path: Path) -> None:
    begin(tmp_path / "run", config("finetune"), Onlooker())
    holder = RunFolder.open(tmp_path / "run")
    with pytest.raises(UserError, match=r"in use by process \d+ on "):
        RunFolder.open(tmp_path / "run")
    with pytest.raises(UserError, match="in use by process"):
        RunFolder.make(tmp_path / "run", overwrite=True)
    holder.close()
    RunFolder.open(tmp_path / "run").close()


def test_a_folder_that_went_away_does_not_come_back_in_part(tmp_path: Path) -> None:
    class Remove(Onlooker):
        def phase(self, name: str) -> Progress:
            if name == "train classifier" and (tmp_path / "run" / "measures.jsonl").exists():
                shutil.rmtree(tmp_path / "run")
            return super().phase(name)

    with pytest.raises(UserError, match="was removed"):
        begin(tmp_path / "run", config("finetune"), Remove())
    assert not (tmp_path / "run" / "measures.jsonl").exists()


@pytest.mark.parametrize(
    ("asked_for", "cpu", "expected"),
    [("auto", None, "bf16"), ("auto", "another", "auto"), ("float32", None, "float32")],
)
def test_the_precision_that_was_found_on_this_machine_stays(
    tmp_path: Path, short_recipe: Recipe, asked_for: str, cpu: str | None, expected: str
) -> None:
    begin(tmp_path / "run", config("finetune", precision=asked_for), Onlooker())
    path = tmp_path / "run" / "environment.json"
    told = json.loads(path.read_text())
    path.write_text(json.dumps({**told, "precision": "bf16", "cpu": cpu or told["cpu"]}))
    folder = RunFolder.open(tmp_path / "run")
    try:
        assert read_config(folder).precision == expected
    finally:
        folder.close()


def test_a_checkpoint_without_decoded_images_costs_that_column_only(tmp_path: Path) -> None:
    asked = config("eec-published")
    begin(tmp_path / "whole", asked, Onlooker())
    with pytest.raises(Cut):
        begin(tmp_path / "cut", asked, Interrupted(3, "train classifier", 2))
    (tmp_path / "cut" / "checkpoint" / "decoded.safetensors").unlink()
    resume(tmp_path / "cut")
    whole, cut = measures(tmp_path / "whole"), measures(tmp_path / "cut")
    assert [line["confusion"] for line in cut] == [line["confusion"] for line in whole]
    assert "decoded.safetensors" in cut[2]["note"]
    known = [entry["reconstructed"] is not None for entry in cut[2]["gap"]]
    assert known == [False] * 7 + [True] * 3
    assert all(entry["reconstructed"] is not None for entry in whole[2]["gap"])


def test_a_run_killed_as_it_tidied_up_at_its_end_is_finished(tmp_path: Path) -> None:
    begin(tmp_path / "run", config("eec-published"), Onlooker())
    before = result(tmp_path / "run")
    (tmp_path / "run" / "checkpoint").mkdir()
    resume(tmp_path / "run")
    assert result(tmp_path / "run") == before


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"place": None}, "config.json is damaged"),
        ({"options": []}, "config.json is damaged"),
        ({"stream": []}, "not a run folder"),
    ],
)
def test_a_damaged_configuration_is_told_in_a_line(
    change: dict[str, Any], words: str, tmp_path: Path
) -> None:
    begin(tmp_path / "run", config("finetune"), Onlooker())
    path = tmp_path / "run" / "config.json"
    told = json.loads(path.read_text())
    path.write_text(json.dumps({**told, **change}))
    with pytest.raises(UserError, match=words):
        resume(tmp_path / "run")
    path.write_text(json.dumps(told))
    (tmp_path / "run" / "environment.json").write_text("[]")
    with pytest.raises(UserError, match=r"environment\.json cannot be read"):
        resume(tmp_path / "run")


def test_the_users_own_folder_is_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shell leaves the tilde of folder:~/photos to us."""
    begin(tmp_path / "run", config("finetune"), Onlooker())
    path = tmp_path / "run" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "dataset": "folder:~/photos"}))
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = RunFolder.open(tmp_path / "run")
    assert read_config(folder).dataset == f"folder:{tmp_path}/photos"
    folder.close()
