"""What a learner holds, as facts and as a sheet of pictures."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from eec.data.stream import Task
from eec.methods.archive import learner_bytes
from eec.methods.contract import Facts, Method
from eec.methods.keeper import Keeper
from eec.methods.registry import choose_options, make_method
from eec.report import inside, sheet
from eec.report.inside import look_inside, memory_sheet
from eec.training.recipes import Recipe
from eec.training.runtime import Runtime

TaskOf = Callable[..., Task]


@pytest.fixture
def make(cpu: Runtime, short_recipe: Recipe) -> Callable[..., Method]:
    def learner(*tasks: Task, method: str = "eec", **options: str) -> Method:
        if method == "eec":  # whose codes, if not coded, take what can be told beforehand
            options = {"code_type": "uint8", **options}
        made = make_method(method, choose_options(method, **options), 3, cpu)
        for task in tasks:
            made.learn(task)
        return made

    return learner


def facts_of(method: Method) -> Facts:
    """After checking that the bytes by part add up to the file, and those by class to the codes."""
    size = len(learner_bytes(method))
    facts = look_inside(method, size)
    parts = dict(facts["bytes"])
    assert parts.pop("file") == size == sum(parts.values())
    assert 0 < parts["header"] < 10_000
    if facts["codes"]:
        codes = parts["episodes"] + parts["concepts"] + parts["counts"]
        assert sum(row["bytes"] for row in facts["classes"]) == codes
    return facts


def test_every_code_is_told_under_its_class(make: Callable[..., Method], task_of: TaskOf) -> None:
    facts = facts_of(make(task_of(3, 7, name=str), task_of(7, 1, each=5, name=str)))
    one = {"episodes": 3, "concepts": 0, "images": 3, "slots": 3, "bytes": 3 * 1024}
    assert facts["classes"] == [
        {"label": "3", "tasks": [1], **one},
        {"label": "7", "tasks": [1, 2], **dict.fromkeys(one, 8), "concepts": 0, "bytes": 8 * 1024},
        {"label": "1", "tasks": [2], **dict.fromkeys(one, 5), "concepts": 0, "bytes": 5 * 1024},
    ]
    assert facts["budget"] == {"unit": "slots", "limit": None, "used": 16}
    assert facts["codes"] == {
        "type": "uint8",
        "shape": [16, 8, 8],
        "bytes_an_episode": 1024.0,
        "bytes_a_concept": None,
        "codecs": 1,
    }
    assert (facts["method"], facts["seed"], facts["tasks"]) == ("eec", 3, 2)
    assert (facts["image"], facts["options"]["codec"]) == ([1, 32, 32], "frozen")


def test_coded_episodes_are_told_by_what_they_take(
    make: Callable[..., Method], task_of: TaskOf
) -> None:
    made = make(task_of(0, 1, each=6), code_type="coded", memory="9", over_budget="concepts")
    size = len(learner_bytes(made))
    facts = look_inside(made, size)
    assert facts["codes"]["type"] == "coded"
    stored = facts["bytes"]["episodes"] + facts["bytes"]["concepts"] + facts["bytes"]["counts"]
    told = sum(row["bytes"] for row in facts["classes"])
    # Each stretch has a head and, for spreads, two numbers a channel; and each class is rounded.
    assert told < stored < told + 400


def test_a_budget_in_slots_shows_in_concepts_and_in_their_counts(
    make: Callable[..., Method], task_of: TaskOf
) -> None:
    options = {"memory": "9", "over_budget": "concepts", "code_type": "float32"}
    facts = facts_of(make(task_of(0, 1, each=6), **options))
    for row in facts["classes"]:
        assert row["images"] == 6 and row["concepts"] and row["slots"] <= 5
        assert row["slots"] == row["episodes"] + 2 * row["concepts"]
        assert row["bytes"] == 4096 * row["slots"] + row["episodes"] + row["concepts"]
    used = sum(row["slots"] for row in facts["classes"])
    assert facts["budget"] == {"unit": "slots", "limit": 9, "used": used}


def test_a_budget_in_bytes_is_told_as_all_but_the_classifier(
    make: Callable[..., Method], task_of: TaskOf
) -> None:
    facts = facts_of(make(task_of(0, 1, each=40), memory="150kB"))
    used = facts["bytes"]["file"] - facts["bytes"]["classifier"]
    assert facts["budget"] == {"unit": "bytes", "limit": 150_000, "used": used}
    assert 140_000 < used <= 150_000


def test_real_images_within_a_budget_are_told_by_class(
    make: Callable[..., Method], task_of: TaskOf
) -> None:
    facts = facts_of(make(task_of(0, 1, each=6), method="replay", memory="8"))
    one = {"kept": 4, "images": 6, "bytes": 4 * 1024}
    assert facts["classes"] == [{"label": 0, **one}, {"label": 1, **one}]
    assert facts["budget"] == {"unit": "slots", "limit": 8, "used": 8}
    assert facts["keeps_real_images"] and facts["codes"] is None


@pytest.mark.parametrize(("method", "real"), [("finetune", False), ("joint", True)])
def test_a_method_without_codes_has_labels_and_bytes(
    make: Callable[..., Method], task_of: TaskOf, tmp_path: Path, method: str, real: bool
) -> None:
    made = make(task_of(0, 1), method=method)
    facts = facts_of(made)
    assert facts["classes"] == [{"label": 0}, {"label": 1}]
    assert (facts["budget"], facts["codes"], facts["keeps_real_images"]) == (None, None, real)
    assert facts["bytes"].get("images", 0) == (6 * 32 * 32 if real else 0)
    assert memory_sheet(made, tmp_path / "sheet.png", "") == 0
    assert list(tmp_path.iterdir()) == []


def test_a_learner_that_knows_nothing_has_nothing_to_show(
    make: Callable[..., Method], tmp_path: Path
) -> None:
    facts = facts_of(make())
    assert (facts["classes"], facts["image"], facts["codes"]) == ([], None, None)
    assert memory_sheet(make(), tmp_path / "sheet.png", "") == 0


def rows_drawn(
    method: Method, path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[object, dict[str, Tensor]]:
    """By label, the rows that are given to the sheet."""
    given: dict[object, dict[str, Tensor]] = {}
    draw = sheet.draw_sheet

    def watch(classes: list[tuple[object, list[tuple[str, Tensor]]]], *rest: object) -> object:
        for label, rows in classes:
            given[label] = {name: images for name, images in rows if images is not None}
        return draw(classes, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(inside, "draw_sheet", watch)
    assert memory_sheet(method, path, "a title") == len(given)
    return given


def test_the_sheet_shows_episodes_concepts_and_what_is_drawn_from_them(
    make: Callable[..., Method],
    task_of: TaskOf,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = make(task_of(0, each=12), task_of(1, each=1), memory="7", over_budget="concepts")
    assert isinstance(made, Keeper)
    many, single = made.memory.kept
    assert (len(many.spreads), many.singles, single.singles) == (3, 0, 1)
    given = rows_drawn(made, tmp_path / "sheet.png", monkeypatch)
    assert list(given[0]) == ["3 concepts", "drawn, unfiltered"]
    assert list(given[1]) == ["1 episode"]
    centroids, drawn = given[0].values()
    assert torch.equal(centroids, made.memory.decode(many, many.codes))
    assert torch.equal(given[1]["1 episode"], made.memory.reconstruct(single))
    assert not torch.equal(drawn, centroids)
    # The same learner gives the same picture.
    memory_sheet(made, tmp_path / "again.png", "a title")
    assert (tmp_path / "again.png").read_bytes() == (tmp_path / "sheet.png").read_bytes()
    # A concept without any spread can show its centroid only.
    made.memory.kept[0] = replace(many, spreads=torch.zeros_like(many.spreads))
    drawn = rows_drawn(made, tmp_path / "sheet.png", monkeypatch)[0]["drawn, unfiltered"]
    assert torch.equal(drawn, centroids)


def test_many_episodes_are_counted_and_ten_of_them_shown(
    make: Callable[..., Method],
    task_of: TaskOf,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = make(task_of(0, each=12), task_of(0, each=8, skip=12))
    assert isinstance(made, Keeper)
    (row,) = rows_drawn(made, tmp_path / "sheet.png", monkeypatch)[0].items()
    first, second = (made.memory.reconstruct(part) for part in made.memory.kept)
    assert row[0] == "10 of 20 episodes"
    assert torch.equal(row[1][0], first[0]) and torch.equal(row[1][-1], second[-1])


def test_a_sheet_of_a_hundred_classes_is_bounded_and_says_so(
    make: Callable[..., Method], digit_images: Callable[..., Tensor], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    images = torch.cat([digit_images(digit, 20) for digit in range(5)])
    made = make(Task(images, list(range(100))))
    given = rows_drawn(made, tmp_path / "sheet.png", monkeypatch)
    assert len(given) == inside.MOST_ROWS
    assert {0, 99} < set(given)
    with Image.open(tmp_path / "sheet.png") as picture:
        assert picture.height < 6000
        # Two lines of title: the second says how many classes are shown.
        ink = np.asarray(picture.convert("L"))[:60].min(1) < 128
    assert int(np.diff(ink.astype(int), prepend=0).clip(0).sum()) >= 2
