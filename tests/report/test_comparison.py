"""Methods side by side, from run folders that were made by hand."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from eec.report.comparison import (
    Comparison,
    as_csv,
    as_json,
    as_markdown,
    compare,
    terminal_tables,
    write_comparison,
)
from eec.report.folder import RunRecord

Make = Callable[..., RunRecord]
LABELS = tuple(range(10))


def two(make_run: Make) -> Comparison:
    eec = {seed: make_run(LABELS, hit=hit) for seed, hit in enumerate((0.97, 0.98, 0.96))}
    joint = {seed: make_run(LABELS, method="joint", plain=True, hit=0.999) for seed in range(3)}
    return compare({"eec": eec, "joint": joint})


def shown(comparison: Comparison, width: int = 200) -> str:
    console = Console(width=width, file=io.StringIO())
    for table in terminal_tables(comparison):
        console.print(table)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_all_forms_tell_the_same(make_run: Make) -> None:
    result = two(make_run)
    eec, joint = result.rows
    values = [record.last["accuracy"] for record in eec.runs.values()]
    mean = sum(values) / 3
    assert eec.accuracy.mean == pytest.approx(mean) and eec.accuracy.n == 3
    line, other = csv.DictReader(io.StringIO(as_csv(result)))
    facts = json.loads(as_json(result))
    assert float(line["accuracy_mean"]) == facts["methods"][0]["accuracy"]["mean"]
    assert [run["accuracy"] for run in facts["methods"][0]["runs"]] == values
    assert (float(line["memory_bytes"]), float(line["classifier_bytes"])) == (5_244_000, 2_811_000)
    assert other["against"] == "eec" and line["against"] == ""
    assert other["accuracy_is"] == facts["differences"][0]["accuracy"]["is"] == "higher"
    assert float(other["accuracy_difference"]) == pytest.approx(joint.accuracy.mean - mean)
    for text in (shown(result), as_markdown(result)):
        assert f"{mean:.2f} ± {eec.accuracy.deviation:.2f}" in text
        assert "5.24 MB" in text and "2.81 MB" in text and "higher" in text


def test_the_papers_number_stands_beside_with_its_place(make_run: Make) -> None:
    result = two(make_run)
    text = as_markdown(result)
    assert "97.83 (Table 1, EEC, A_10)" in text and "99.24 (Table 1, JT, A_10)" in text
    assert "The paper's numbers: 50,000 images, mean of 10 runs." in text
    paper = json.loads(as_json(result))["methods"][0]["paper"]
    assert [(n["table"], n["column"], n["value"]) for n in paper] == [("Table 1", "A_10", 97.83)]
    unknown = compare({"eec": {0: make_run(LABELS, dataset="digits")}})
    assert unknown.rows[0].paper == () and "paper's" not in " ".join(unknown.notes)


def test_one_seed_says_that_it_decides_nothing(make_run: Make) -> None:
    result = compare(
        {"eec": {0: make_run(hit=0.9)}, "joint": {0: make_run(method="joint", hit=0.99)}}
    )
    assert result.rows[0].accuracy.deviation is None
    assert "One seed only (eec, joint): no deviation, no interval." in result.notes
    assert "±" not in shown(result) and "undecided" in shown(result)
    assert json.loads(as_json(result))["differences"][0]["accuracy"]["low"] is None


def test_methods_without_runs_or_common_seeds(make_run: Make) -> None:
    result = compare({"eecs": {}, "eec": {0: make_run()}, "joint": {1: make_run(method="joint")}})
    assert [row.method for row in result.rows] == ["eec", "joint"] and result.against == []
    with pytest.raises(ValueError, match="no run"):
        compare({"eec": {}})


def test_a_narrow_terminal_cuts_no_number(make_run: Make) -> None:
    result = two(make_run)
    text = shown(result, width=80)
    assert "…" not in text and max(map(len, text.splitlines())) <= 80
    assert f"{result.rows[0].average.mean:.2f} ± " in text and "higher" in text


def test_the_three_files(make_run: Make, tmp_path: Path) -> None:
    written = write_comparison(two(make_run), tmp_path / "new")
    assert [path.name for path in written] == [f"comparison.{end}" for end in ("md", "csv", "json")]
    assert written[0].read_text(encoding="utf-8").startswith("**mnist, 500 images a class")
