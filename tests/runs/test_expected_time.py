"""The time that runs are said to take: counted from plans, in units that are measured."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from eec.runs import expected_time
from eec.runs.expected_time import (
    Forecast,
    Rates,
    Size,
    images_trained_on,
    seconds,
    seconds_of,
    sizes_of,
    steps,
)
from eec.runs.run import prepare
from eec.runs.sweep import Job, plan
from eec.training.recipes import RECIPES
from small_runs import config

TASK = Size(classes=7, brought=6, new=24, seen=4, judged=100, each=256)


@pytest.fixture(autouse=True)
def quick(short_recipe: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expected_time, "STEPS", 3)


def test_sizes_are_those_of_the_stream() -> None:
    stream, _ = prepare(config("finetune"))
    first, second, third = sizes_of(stream)
    assert (first.classes, first.new, first.seen) == (1, 4, 0)
    assert (second.classes, second.new, second.seen) == (7, 24, 4)
    assert (third.classes, third.new, third.seen) == (10, 12, 28)
    assert third.judged == sum(len(i.judged) for i in stream.increments)


@pytest.mark.parametrize(
    ("method", "options", "plan", "images"),
    [
        ("finetune", {}, "later", 24),
        ("joint", {}, "later", 28),
        ("replay", {"memory": "12"}, "later", 28),
        ("icarl", {}, "later", 28),
        ("eec", {}, "later", 28),
        ("eec", {"new_images": "both"}, "later", 52),
        ("eec", {"memory": "10", "over_budget": "drop"}, "later", 28),
        ("eec", {}, "compressor", 24),
        ("eec-published", {}, "autoencoder", 24),
        ("eecs", {}, "autoencoder", 28),
    ],
    ids=str,
)
def test_steps_are_the_plans_own(
    method: str,
    options: dict[str, object],
    plan: str,
    images: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recipe = RECIPES["fast"]
    by_epochs = replace(getattr(recipe, plan), steps=0, epochs=5, batch=8)
    monkeypatch.setitem(RECIPES, "fast", replace(recipe, **{plan: by_epochs}))
    _, untaught = prepare(config(method, options=options))
    count, batch = steps(untaught, plan, TASK, 16 * 16)
    assert count == by_epochs.total_steps(images) == 5 * math.ceil(images / 8)
    assert count * batch == pytest.approx(5 * images)


@pytest.mark.parametrize(("memory", "images"), [("12", 36), ("9kB", 24 + 35), ("unlimited", 124)])
def test_exemplars_are_shown_once_each(memory: str, images: int) -> None:
    _, untaught = prepare(config("icarl", options={"memory": memory}))
    assert images_trained_on(untaught, "later", replace(TASK, seen=100)) == images


def test_what_is_not_trained_later_is_not_counted_later() -> None:
    _, method = prepare(config("eec"))
    rates = Rates({"compressor": 1.0, "later": 0.0}, frozenset({"later"}), 0.0, 0.0, 0.0)
    assert seconds(rates, method, replace(TASK, seen=0), 256) == pytest.approx(6.0)
    assert seconds(rates, method, TASK, 256) == 0.0
    each_task = replace(rates, lasting=frozenset({"later", "compressor"}))
    assert seconds(each_task, method, TASK, 256) == pytest.approx(6.0)


def test_the_published_autoencoder_is_expected_to_need_more_than_one_attempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, method = prepare(config("eec-published"))
    rates = Rates({"autoencoder": 1.0}, frozenset({"autoencoder"}), 0.0, 0.0, 0.0)
    expected = seconds(rates, method, TASK, 256)
    monkeypatch.setattr(expected_time, "ATTEMPTS", 1)
    assert expected == pytest.approx(2 * seconds(rates, method, TASK, 256)) and expected > 0


def test_one_class_trains_no_classifier() -> None:
    _, method = prepare(config("joint"))
    rates = Rates({"later": 1.0}, frozenset({"later"}), 0.0, 0.0, 0.0)
    assert seconds(rates, method, Size(1, 1, 4, 0, 10, 256), 256) == 0.0
    assert seconds(rates, method, TASK, 256) > 0.0


def test_more_steps_are_more_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    small = {"net": "tiny", "code": "16x2x2"}
    asked = [config("eec-published", options=small), config("joint")]
    jobs = plan(asked, tmp_path).jobs
    told: list[str] = []
    expected = Forecast(jobs).measure(told.append)
    assert expected.keys() == {job.path for job in jobs}
    assert all(0 < value < 1000 for value in expected.values())
    assert told == ["eec-published on digits", "joint on digits"]
    recipe = RECIPES["fast"]
    longer = {
        name: replace(getattr(recipe, name), steps=2000)
        for name in ("first", "later", "autoencoder", "compressor")
    }
    monkeypatch.setitem(RECIPES, "fast", replace(recipe, **longer))
    again = Forecast(jobs).measure()
    assert all(again[path] > 5 * expected[path] for path in expected)
    assert list(tmp_path.iterdir()) == []


def test_finished_runs_and_increments_are_subtracted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "done").mkdir()
    text = '{"seconds": {"a": 2.5, "b": null}}\n{"seconds": {"a": 4.0}}\n'
    (tmp_path / "done" / "measures.jsonl").write_text(text)
    assert seconds_of(tmp_path / "done") == 6.5
    done = Job(config("joint"), tmp_path / "done", done=3, finished=True)
    same = Job(config("joint", seed=1), tmp_path / "same")
    assert Forecast([done, same]).measure() == {same.path: 6.5}

    rates = Rates({"first": 0.1, "later": 0.1}, frozenset({"later"}), 0.0, 0.0, 0.0)
    monkeypatch.setattr(expected_time, "measure_rates", lambda method, stream: rates)
    whole = Job(config("joint", options={"net": "small"}), tmp_path / "whole")
    begun = replace(whole, path=tmp_path / "begun", done=2)
    expected = Forecast([whole, begun]).measure()
    # Two steps of six images in each of two increments; the first has one class.
    assert expected[whole.path] == pytest.approx(0.1 * 2 * (28 / 5 + 40 / 7))
    assert expected[begun.path] == pytest.approx(0.1 * 2 * (40 / 7))
