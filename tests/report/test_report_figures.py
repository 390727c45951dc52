"""The figures are drawn, whole, whatever a run leaves unsaid."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
from PIL import Image

from eec.report import figures
from eec.report.canvas import BLUE, VERMILLION, percent_floor, percent_ticks
from eec.report.figures import accuracy_figure, cost_figure, gap_figure
from eec.report.folder import RunRecord
from eec.report.sheet import draw_sheet

Make = Callable[..., RunRecord]


def pixels(path: Path | None) -> Any:
    """The picture as an array, after checking that it is a PNG of a sensible size with content."""
    assert path is not None
    with Image.open(path) as image:
        image.load()
        assert image.format == "PNG"
        array = np.asarray(image.convert("RGB"))
    assert 200 <= array.shape[0] <= 8000 and 500 <= array.shape[1] <= 3000
    assert array.std() > 5
    return array


def has_colour(array: Any, code: str) -> bool:
    wanted = [int(code[i : i + 2], 16) for i in (1, 3, 5)]
    return bool((array == wanted).all(axis=-1).any())


def draw_all(record: RunRecord, folder: Path) -> list[Any]:
    drawn = [
        accuracy_figure(record, [], folder / "accuracy.png"),
        gap_figure(record, folder / "gap.png"),
        cost_figure(record, folder / "cost.png"),
    ]
    return [pixels(path) for path in drawn]


@pytest.mark.parametrize(
    "run",
    [
        {},
        {"labels": ["one"]},
        {"labels": ["a $x^$ label", "_hidden", "馬", "<b>", "a name that goes on and on and on"]},
        {"method": "finetune", "plain": True, "hit": 0.0},
        {"labels": [True, 2.5, "x"], "dataset": "digits", "per_class": None},
        {"labels": [f"class {i}" for i in range(50)], "dataset": "imagenet50", "hit": 0.6},
    ],
)
def test_every_kind_of_run_is_drawn(make_run: Make, tmp_path: Path, run: dict[str, Any]) -> None:
    draw_all(make_run(**run), tmp_path)


def test_accuracy_shows_the_run_its_references_and_the_paper(
    make_run: Make, tmp_path: Path
) -> None:
    record, joint = make_run(labels=range(10)), make_run(labels=range(10), method="joint", hit=0.99)
    full = pixels(accuracy_figure(record, [joint], tmp_path / "full.png"))
    colours = (BLUE, figures.REFERENCE_COLOURS[0], VERMILLION)
    assert all(has_colour(full, c) for c in colours)
    alone = pixels(accuracy_figure(make_run(dataset="digits"), [], tmp_path / "alone.png"))
    assert [has_colour(alone, c) for c in colours] == [True, False, False]


def test_the_gap_shows_what_a_method_has(make_run: Make, tmp_path: Path) -> None:
    series = [colour for _, _, colour, _ in figures.GAP_SERIES]
    full = pixels(gap_figure(make_run(), tmp_path / "full.png"))
    assert all(has_colour(full, c) for c in (*series, VERMILLION))
    plain = pixels(gap_figure(make_run(plain=True, hit=0.0), tmp_path / "plain.png"))
    shown = [has_colour(plain, c) for c in (*series, VERMILLION)]
    assert shown == [True, False, False, True]


def test_holes_in_the_gap_are_left_open(make_run: Make, tmp_path: Path) -> None:
    def pierce(lines: list[dict[str, Any]]) -> None:
        lines[-1]["gap"][0].update(real=None, remembered=None)
        lines[-1]["gap"][1] = {"class": 1, "real": None, "reconstructed": None, "remembered": None}

    assert gap_figure(make_run(alter=pierce), tmp_path / "gap.png")


def test_nothing_known_by_class_draws_no_gap(make_run: Make, tmp_path: Path) -> None:
    def strip(lines: list[dict[str, Any]]) -> None:
        for line in lines:
            line.update(gap=None, accuracy_by_class=None)

    assert gap_figure(make_run(alter=strip), tmp_path / "gap.png") is None
    assert not (tmp_path / "gap.png").exists()


def test_the_share_called_newest_is_counted_by_class() -> None:
    measures = {
        "classes": ["a", "b", "c"],
        "new_classes": ["c"],
        "confusion": [[6, 0, 4], [0, 0, 0], [0, 1, 9]],
    }
    assert figures._called_newest(measures) == {"'a'": 40.0}


def test_unknown_parts_and_phases_get_colours(make_run: Make, tmp_path: Path) -> None:
    def extend(lines: list[dict[str, Any]]) -> None:
        for line in lines:
            line["bytes"] = {f"part {i}": 10 for i in range(9)}
            line["seconds"] = {"sleep": None}

    array = pixels(cost_figure(make_run(alter=extend), tmp_path / "cost.png"))
    assert all(has_colour(array, c) for c in figures.SPARE_COLOURS)


def test_same_run_same_bytes_and_no_global_state(make_run: Make, tmp_path: Path) -> None:
    before = dict(matplotlib.rcParams)
    record = make_run()
    one = accuracy_figure(record, [], tmp_path / "1.png").read_bytes()
    assert accuracy_figure(record, [], tmp_path / "2.png").read_bytes() == one
    assert dict(matplotlib.rcParams) == before
    assert sorted(p.name for p in tmp_path.glob("*.p*")) == ["1.png", "2.png"]


@pytest.mark.parametrize(
    ("lowest", "start"), [(97.6, 97), (99.9, 99), (80, 75), (60, 50), (20, 0), (100, 99)]
)
def test_the_axis_starts_near_the_lowest_value(lowest: float, start: float) -> None:
    assert percent_floor([lowest, 100.0]) == start < lowest
    ticks = percent_ticks(start)
    assert ticks[-1] == 100 and ticks[0] >= start and len(ticks) >= 3


def test_the_sheet_shows_each_image_pixel_for_pixel(tmp_path: Path) -> None:
    test = np.full((12, 3, 32, 32), 0, np.uint8)
    test[:, 0] = 201
    grey = np.full((3, 1, 28, 28), 77, np.uint8)
    cat = [("test image", test), ("decoded", None), ("remembered", grey)]
    rows: list[tuple[object, Any]] = [
        ("<b>cat", cat),
        (7, [("test image", grey)]),
        ("no images", []),
    ]
    array = pixels(draw_sheet(rows, tmp_path / "sheet.png", "a title"))
    red = int((array == [201, 0, 0]).all(axis=-1).sum())
    assert red == 10 * 64 * 64  # ten of the twelve, each doubled in size
    assert int((array == 77).all(axis=-1).sum()) >= 6 * 56 * 56


def test_large_images_are_made_smaller(tmp_path: Path) -> None:
    images = np.zeros((10, 3, 224, 224), np.uint8)
    rows = [("a", [("test image", images), ("decoded", images)])]
    array = pixels(draw_sheet(rows, tmp_path / "sheet.png", "a title"))
    assert array.shape[1] < 1600


def test_a_sheet_of_nothing_is_not_drawn(tmp_path: Path) -> None:
    empty = [("test image", np.zeros((0, 1, 8, 8), np.uint8))]
    assert draw_sheet([("a", empty), ("b", [])], tmp_path / "sheet.png", "a title") is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "images",
    [np.zeros((1, 1, 4, 4)), np.zeros((1, 4, 4), np.uint8), np.zeros((1, 2, 4, 4), np.uint8)],
)
def test_what_are_no_images_is_refused(tmp_path: Path, images: Any) -> None:
    with pytest.raises(ValueError, match="uint8"):
        draw_sheet([("a", [("test image", images)])], tmp_path / "sheet.png", "a title")


def test_reports_need_neither_torch_nor_pyplot() -> None:
    program = (
        "import sys, eec.report.figures, eec.report.sheet, eec.report.page\n"
        "assert not {'torch', 'matplotlib.pyplot'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True)
