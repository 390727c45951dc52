"""Experiments of the paper as tables, from run folders that were made by hand."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from PIL import Image

from eec.paper.experiments import EXPERIMENTS
from eec.paper.protocol import NO_TABLE, Block, Line, Protocol
from eec.paper.published import IN_MEMORY_TEXT
from eec.report import canvas
from eec.report.experiment import (
    Part,
    Result,
    accuracy_grid,
    bytes_grid,
    differences_of,
    grids,
    order_grid,
)
from eec.report.folder import RunRecord
from eec.report.memory_curves import memory_chart, memory_figure
from eec.report.words import NOTHING, memory_bytes

Make = Callable[..., RunRecord]
LINES = (
    Line("eec-published", "eec-published", row="EEC"),
    Line("eecs", "eecs", row="EECS"),
    Line("joint", "joint", row="JT"),
)
BLOCK = Block("mnist", LINES, "mnist", "Table 1", (5, 10))


def part(make_run: Make, hits: dict[str, list[float]], block: Block = BLOCK) -> Part:
    runs = {
        name: {
            seed: make_run(range(10), method=name, dataset=block.dataset, hit=hit)
            for seed, hit in enumerate(values)
        }
        for name, values in hits.items()
    }
    return Part(block, runs)


def result(*parts: Part) -> Result:
    protocol = Protocol(tuple(one.block for one in parts), 3)
    experiment = replace(EXPERIMENTS["table1"], cpu=protocol)
    return Result("table1", experiment, "cpu", 3, list(parts), [], "eec paper table1")


@pytest.mark.parametrize(
    ("ours", "others", "verdict"),
    [
        ([0.97, 0.96, 0.98], [0.90, 0.89, 0.91], "holds"),
        ([0.90, 0.89, 0.91], [0.97, 0.96, 0.98], "does not hold"),
        ([0.90, 0.95, 0.91], [0.93, 0.90, 0.92], "undecided"),
        ([0.97], [0.90], "undecided"),
    ],
)
def test_an_ordering_holds_or_not_or_is_undecided(
    make_run: Make, ours: list[float], others: list[float], verdict: str
) -> None:
    block = replace(BLOCK, orders=(("eec-published", "eecs"),))
    grid = order_grid(part(make_run, {"eec-published": ours, "eecs": others}, block))
    assert [row[2] for row in grid.rows] == ["A_5", "A_10"]
    assert grid.rows[1][3] == "+1.57"  # 97.83 - 96.26
    assert [row[-1] for row in grid.rows] == [verdict] * 2
    assert [row[-2] for row in grid.rows] == [str(len(ours))] * 2


def test_how_much_too_often_the_newest_name_is_given_stands_in_each_row(make_run: Make) -> None:
    """And nothing where the paper alone has a row."""
    found = part(make_run, {"eecs": [0.9, 0.8]})
    for seed, called in enumerate((90.0, 60.0)):
        found.runs["eecs"][seed].last["newest_share"] = {"called": called, "true": 10.0}
    grid = accuracy_grid(found)
    place = list(grid.columns).index("newest")
    ours, papers = grid.rows[0], grid.rows[-1]
    assert ours[0].startswith("eecs") and ours[place] == "+65.00"
    assert papers[0].startswith("the paper's") and papers[place] == NOTHING
    assert {len(row) for row in grid.rows} == {len(grid.columns)}


def test_an_ordering_without_runs_of_both_is_left_out(make_run: Make) -> None:
    block = replace(BLOCK, orders=(("eec-published", "eecs"),))
    found = result(part(make_run, {"eec-published": [0.9], "eecs": []}, block))
    assert [grid.title for grid in grids(found)] == ["mnist"]


def test_rows_of_the_paper_alone_keep_their_marks(make_run: Make) -> None:
    (grid,) = grids(result(part(make_run, {"joint": [0.99, 0.98]})))
    own, *others = grid.rows
    assert own[0] == "joint (JT) [a]" and own[1] == "2" and own[3] == "99.87"
    assert "[a]: taken over from the table of the earlier work on DGM." in grid.caption
    by_name = {row[0]: row for row in others}
    assert by_name["the paper's DGR [c]"][2:6] == ["–", "90.39", "–", "85.40"]
    assert "[c]: measures something else: a classifier trained on real data" in grid.caption
    assert by_name["the paper's EEC"][5] == "97.83"  # there is no run of ours beside it


def test_what_differs_is_said(make_run: Make) -> None:
    tiny = replace(BLOCK, dataset="tiny-imagenet-50", paper="imagenet50", ks=(5,))
    told = differences_of(
        result(
            part(make_run, {"joint": [0.9]}),
            part(make_run, {"joint": [0.9, 0.8]}, tiny),
        )
    )
    assert "tiny-imagenet-50 stands in for ImageNet-50, which is larger." in told
    assert "mnist: 500 images a class; the paper had 50,000 in all." in told
    assert "tiny-imagenet-50: 1 class an increment; the paper's had 10 classes." in told
    assert "1 to 2 seeds here; the paper averaged 10 runs." in told


def test_bytes_stand_beside_the_papers_megabytes(make_run: Make) -> None:
    block = replace(BLOCK, paper="imagenet50", table=IN_MEMORY_TEXT, ks=(10,))
    found = part(make_run, {"eec-published": [0.9]}, block)
    for record in found.records:
        record.config["options"]["expected"] = 5000
    first, *others = bytes_grid(found).rows
    assert first[:4] == ["eec-published", "5,000", "5.12 MB", "1,024 B"]
    assert first[4] == "104 kB" and first[6] == "2.81 MB"
    assert "111.56 MB everything" in first[-1] and "66.56 MB encoded episodes" in first[-1]
    assert any("50.12 MB everything" in row[-1] for row in others)


def test_accuracy_against_slots_needs_three_budgets(make_run: Make) -> None:
    lines = tuple(Line(f"eec, K={k}", "eec") for k in ("20", "40", "unlimited"))
    found = part(make_run, {line.name: [0.9, 0.8] for line in lines}, replace(BLOCK, lines=lines))
    assert memory_chart(found) is None
    for line, runs in found.lines:
        for record in runs.values():
            record.config["options"] |= {"memory": line.name.partition("K=")[2], "expected": 99}
    chart = memory_chart(found)
    assert chart is not None
    rows = chart.spec["data"]["values"]
    assert {(row["series"], row["slots"]) for row in rows} == {
        (f"eec, {name}", slots) for name in ("A_5", "A_10") for slots in (20, 40, 99)
    }


BUDGETS = ("30kB", "100kB", "1MB")


def within_budgets(make_run: Make, budgets: Sequence[str]) -> Part:
    lines = tuple(
        Line(f"{name}, {memory}", name, {"memory": memory})
        for name in ("eec", "replay")
        for memory in budgets
    )
    block = replace(BLOCK, lines=lines, table=NO_TABLE)
    found = part(make_run, {line.name: [0.9, 0.8] for line in lines}, block)
    for line, runs in found.lines:
        for record in runs.values():
            record.config["options"] |= line.options
    return found


def test_accuracy_against_bytes_has_a_curve_for_each_method(make_run: Make, tmp_path: Path) -> None:
    found = within_budgets(make_run, BUDGETS)
    chart = memory_chart(found)
    assert chart is not None
    rows = chart.spec["data"]["values"]
    assert {(row["series"], row["budget"]) for row in rows} == {
        (name, memory) for name in ("eec", "replay") for memory in BUDGETS
    }
    kept = memory_bytes(found.records[0].last)
    assert {row["bytes"] for row in rows} == {kept}  # those that were kept, whatever was allowed
    path = memory_figure(found, "bytes", tmp_path / "bytes.png")
    assert path is not None
    with Image.open(path) as drawn:
        assert drawn.size[0] > 500


def test_an_axis_of_slots_names_the_budgets(
    make_run: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Figure] = []
    save = canvas.save

    def kept(figure: Figure, path: Path) -> Path:
        drawn.append(figure)
        return save(figure, path)

    monkeypatch.setattr(canvas, "save", kept)
    memory_figure(within_budgets(make_run, ("231", "450", "1800")), "slots", tmp_path / "slots.png")
    axis = drawn[0].axes[0].xaxis
    assert [label.get_text() for label in axis.get_ticklabels()] == ["231", "450", "1,800"]
    assert {label.get_text() for label in axis.get_ticklabels(minor=True)} <= {""}


def test_one_budget_makes_no_curve(make_run: Make, tmp_path: Path) -> None:
    found = within_budgets(make_run, BUDGETS[:1])
    assert memory_chart(found) is None
    assert memory_figure(found, "bytes", tmp_path / "bytes.png") is None


def test_where_the_paper_has_no_numbers_there_is_no_column_for_them(make_run: Make) -> None:
    grid = accuracy_grid(within_budgets(make_run, BUDGETS))
    assert list(grid.columns) == ["", "n", "A_5", "A_10", "newest", "memory", "time"]
    assert {len(row) for row in grid.rows} == {7} and "paper" not in grid.caption
