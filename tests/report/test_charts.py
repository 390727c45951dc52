"""The charts say what the measures say; labels are data in them, never code."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from eec.report.chart_style import Chart, class_names
from eec.report.charts import accuracy_chart, bytes_chart, gap_chart, run_charts, seconds_chart
from eec.report.folder import RunRecord
from eec.report.groups import group_runs
from eec.report.heat_maps import confusion_chart, decay_chart, task_chart
from eec.report.several import cost_chart, curves_chart

Make = Callable[..., RunRecord]


def rows(chart: Chart | None, layer: int = 0) -> list[dict[str, Any]]:
    """The data that a layer draws."""
    assert chart is not None
    data = chart.spec["layer"][layer].get("data", chart.spec.get("data"))
    name = data.get("name")
    found: list[dict[str, Any]] = chart.spec["datasets"][name] if name else data["values"]
    return found


def test_classes_are_told_apart() -> None:
    assert class_names([1, "1", True, "a" * 40]) == ["1", "1 (2)", "True", "a" * 23 + "…"]
    long = class_names(["b" * 40 + "1", "b" * 40 + "2"])
    assert len(set(long)) == 2


def test_accuracy_has_the_run_its_joint_and_the_papers_points(make_run: Make) -> None:
    record = make_run(labels=range(10))
    joint = make_run(labels=range(10), method="joint", plain=True, hit=0.99)
    chart = accuracy_chart(record, [joint])
    drawn = rows(chart)
    assert [r["accuracy"] for r in drawn[:10]] == [m["accuracy"] for m in record.measures]
    assert drawn[10]["series"] == f"joint, 500 images a class, seed {joint.seed}"
    printed = rows(chart, 2)
    assert {(p["series"], p["k"], p["where"]) for p in printed} == {
        ("paper: EEC", 5, "Table 1, A_5"), ("paper: EEC", 10, "Table 1, A_10"),
        ("paper: JT", 5, "Table 1, A_5"), ("paper: JT", 10, "Table 1, A_10"),
    }  # fmt: skip


def test_tasks_and_confusion_are_cells(make_run: Make) -> None:
    record = make_run()
    cells = rows(task_chart(record))
    assert len(cells) == 4 + 3 + 2 + 1
    value = round(record.last["accuracy_by_task"][0], 4)
    assert {"x": "4", "y": "1", "value": value, "text": f"{value:.0f}"} in cells
    cells = rows(confusion_chart(record.last))
    counts = record.last["confusion"]
    assert len(cells) == sum(count > 0 for row in counts for count in row)  # none is left empty
    assert {(c["y"], c["x"]): c["count"] for c in cells}["0", "3"] == counts[0][3]


def test_a_hundred_classes_stay_readable(make_run: Make) -> None:
    record = make_run(labels=[f"class {i}" for i in range(100)], hit=0.6)
    for chart in (confusion_chart(record.last), task_chart(record), gap_chart(record.last)):
        assert chart is not None and chart.spec["height"] <= 720
    confusion = confusion_chart(record.last)
    assert confusion is not None and len(confusion.spec["layer"]) == 1  # no numbers in the cells
    assert len(json.dumps([c.spec for c in run_charts(record, [])])) < 1_500_000


def test_a_matrix_that_does_not_fit_its_classes_is_not_drawn(make_run: Make) -> None:
    last = make_run().last
    assert confusion_chart(last | {"confusion": [[1, 2]]}) is None
    assert confusion_chart(last | {"confusion": None}) is None
    assert confusion_chart(last | {"confusion": [[0] * 4] * 4}) is None


def test_holes_are_left_open(make_run: Make) -> None:
    def pierce(lines: list[dict[str, Any]]) -> None:
        lines[-1]["gap"][0].update(real=None, remembered=None)
        lines[-1]["accuracy_by_task"][1] = None
        lines[-1]["decay"][0]["weight"] = None

    record = make_run(alter=pierce)
    assert len(rows(gap_chart(record.last))) == 3 * 4 - 2
    assert len(rows(task_chart(record))) == 10 - 1
    assert len(rows(decay_chart(record))) == 6 - 1


@pytest.mark.parametrize(
    ("memory", "limit"),
    [("5MB", 5_000_000), ("5000", None), ("unlimited", None), (None, None), ("much", None)],
)
def test_a_budget_in_bytes_is_a_line(make_run: Make, memory: str | None, limit: int | None) -> None:
    record = make_run()
    record.config["options"]["memory"] = memory
    chart = bytes_chart(record)
    assert chart is not None
    assert len(chart.spec["layer"]) == (1 if limit is None else 2)
    if limit is not None:
        assert rows(chart, 1)[0]["value"] == limit and "budget, 5 MB" in chart.caption


def test_the_classifier_waits_in_the_legend(make_run: Make) -> None:
    chart = bytes_chart(make_run())
    assert chart is not None
    (choice,) = chart.spec["params"]
    assert [one["series"] for one in choice["value"]] == ["episodes", "codecs", "labels"]
    assert "classifier" in {row["series"] for row in rows(chart)}
    seconds = seconds_chart(make_run())
    assert seconds is not None and "value" not in seconds.spec["params"][0]


def test_bands_are_drawn_over_seeds_only(make_run: Make) -> None:
    records = [make_run(hit=hit) for hit in (0.9, 0.97)]
    records[1].config["seed"] = 1
    (group,) = group_runs(records)
    last = rows(curves_chart([group]), 1)[-1]
    reached = [record.last["accuracy"] for record in records]
    assert last["accuracy"] == pytest.approx(sum(reached) / 2)
    assert last["low"] < min(reached) + 1 and last["high"] <= 100 and "n = 2" in last["spread"]
    alone = curves_chart(group_runs(records[:1]))
    assert all("low" not in row for row in rows(alone))


def test_a_run_that_keeps_nothing_has_no_place_among_bytes(make_run: Make) -> None:
    def forget(lines: list[dict[str, Any]]) -> None:
        for line in lines:
            line["bytes"] = {"classifier": 10}

    nothing = make_run(method="finetune", plain=True, alter=forget)
    chart = cost_chart(group_runs([make_run(), nothing]))
    assert [row["series"] for row in rows(chart)] == ["eec"]
    assert chart is not None and "no place on this axis" in chart.caption
    assert cost_chart(group_runs([nothing])) is None


def test_runs_beside_are_told_apart(make_run: Make) -> None:
    record = make_run()
    others = [make_run(method="joint", plain=True) for _ in range(2)]
    drawn = rows(accuracy_chart(record, others))
    names = {row["series"] for row in drawn}
    assert len(names) == 3 and all(
        sum(row["series"] == name for row in drawn) == len(record.measures) for name in names
    )
