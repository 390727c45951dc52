"""Tables, headlines and the words in them."""

import io
import json
from collections.abc import Callable
from typing import Any

import pytest
from rich.console import Console

from eec.report.beside import differences, paper_accuracy, paper_points
from eec.report.folder import RunRecord, read_run
from eec.report.table import headline, increment_cells, markdown_table, run_table
from eec.report.words import human_bytes, human_seconds, mean_gap, points, short_label

Make = Callable[..., RunRecord]


def printed(record: RunRecord, width: int = 140) -> str:
    sink = io.StringIO()
    Console(file=sink, width=width, color_system=None).print(run_table(record))
    return sink.getvalue()


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (5_120_000, "5.12 MB"), (1.2e9, "1.2 GB"),
     (999_600, "1 MB"), (None, "–")],
)  # fmt: skip
def test_human_bytes(count: float | None, text: str) -> None:
    assert human_bytes(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.04, "0.0 s"), (9.96, "10 s"), (119, "119 s"), (201.4, "3 min 21 s"), (7320, "2 h 02 min")],
)
def test_human_seconds(seconds: float, text: str) -> None:
    assert human_seconds(seconds) == text


def test_signed_points_and_short_labels() -> None:
    assert (points(1.25), points(-0.8), points(None)) == ("+1.2", "−0.8", "–")
    assert short_label("a\n b") == "a b"
    assert short_label("x" * 40) == "x" * 17 + "…"


def test_the_table_has_a_row_for_each_increment(make_run: Make) -> None:
    record = make_run()
    assert run_table(record).row_count == 4
    assert increment_cells(record.last) == [
        "4", "3", "97.60", "27.4 / 25.0", "−0.8", "2.16 MB", "2.81 MB", "18 s"
    ]  # fmt: skip
    assert "97.60" in printed(record) and "gap:" in printed(record)


def test_no_cell_wraps_at_eighty_columns(make_run: Make) -> None:
    def enlarge(lines: list[dict[str, Any]]) -> None:
        for line in lines:
            line["newest_share"] = {"called": 100.0, "true": 100.0}
            line["bytes"] = {"episodes": 99_900_000, "classifier": 99_900_000}
            line["seconds"] = {"train classifier": 3599.0}
            line["new_classes"] = ["T-shirt/top", "Trouser", "Pullover", "Dress"]

    record = make_run(alter=enlarge)
    rows = [row.rstrip() for row in printed(record, 80).splitlines()]
    assert max(map(len, rows)) <= 80
    title, heading, rule, *cells, caption = rows
    assert title == "eec on mnist, seed 0" and caption.startswith("gap: ")
    assert heading.split() == [
        "seen", "new", "A_k", "%", "newest/true", "%", "gap", "memory", "net", "time"
    ]  # fmt: skip
    assert set(rule) == {"─"} and len(cells) == 4
    for row in cells:
        # Only the names give way.
        assert "T-shirt/" in row and "…" in row and "100.0 / 100.0" in row
        assert row.endswith("99.9 MB  99.9 MB  59 min 59 s")


def test_labels_are_not_read_as_markup(make_run: Make) -> None:
    record = make_run(labels=["[red]apple", "a|b", "c`d"])
    assert "[red]apple" in printed(record)
    rows = markdown_table(record).splitlines()
    assert len(rows) == 2 + 3
    assert "a\\|b" in rows[3] and "c\\`d" in rows[4]
    assert all(row.replace("\\|", "").count("|") == rows[0].count("|") for row in rows)


def test_the_gap_is_the_mean_over_old_classes_on_the_same_images(make_run: Make) -> None:
    record = make_run(labels=["a", "b", "c"])
    assert mean_gap(record.measures[0]) is None
    assert mean_gap(record.last) == pytest.approx(-0.8)


def test_the_headline_stands_beside_the_papers_number(make_run: Make) -> None:
    line = headline(make_run(labels=range(10)))
    assert line == (
        "eec on mnist, seed 0: A_10 96.58 %, average 97.57 %, memory 5.24 MB + classifier 2.81 MB,"
        " 4 min 32 s (paper: EEC 97.83, 50,000 images, mean of 10 runs)"
    )


def test_no_number_of_the_paper_where_it_has_none(make_run: Make) -> None:
    assert "paper" not in headline(make_run())  # the paper has no A_4
    assert "paper" not in headline(make_run(labels=range(10), dataset="digits"))
    floor = make_run(labels=range(10), method="finetune", plain=True)
    assert paper_accuracy(floor) is None
    assert list(paper_points(floor)) == ["EEC", "JT"]


def test_joint_stands_beside_the_papers_joint_alone(make_run: Make) -> None:
    record = make_run(labels=range(10), method="joint", plain=True)
    assert list(paper_points(record)) == ["JT"]
    assert "paper: JT 99.24" in headline(record)


def test_points_of_the_paper_stop_where_the_run_stopped(make_run: Make) -> None:
    assert {k for row in paper_points(make_run(labels=range(6))).values() for k in row} == {5}
    assert paper_points(make_run()) == {}


def test_a_method_that_says_less_still_has_a_table(make_run: Make) -> None:
    record = make_run(method="finetune", plain=True, hit=0.0)
    text = printed(record)
    assert "gap:" not in text
    assert increment_cells(record.last)[3:6] == ["100.0 / 25.0", "–", "8 kB"]
    assert headline(record).startswith("finetune on mnist, seed 0: A_4 25.00 %")


def test_bare_measures_are_enough(make_run: Make) -> None:
    def strip(lines: list[dict[str, Any]]) -> None:
        needed = {"increment", "classes_seen", "accuracy", "bytes", "seconds"}
        for line in lines:
            for key in set(line) - needed:
                del line[key]

    record = make_run(alter=strip)
    assert increment_cells(record.last)[1] == "–"
    assert "average 98.51 %" in headline(record)


def test_what_differs_from_the_paper_is_said(make_run: Make) -> None:
    record = make_run()
    path = record.path / "config.json"
    config = json.loads(path.read_text())
    config["stream"].update(classes_per_increment=2, judged_on="validation")
    path.write_text(json.dumps(config))
    said = " ".join(differences(read_run(record.path)))
    assert "50,000 MNIST images" in said and "500 images a class" in said
    assert "2 classes an increment" in said and "validation" in said and "eec-published" in said
    assert differences(make_run(dataset="digits")) == []
    assert "(validation images)" in headline(read_run(record.path))
