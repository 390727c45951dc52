"""`eec paper NAME` for experiments made of runs, with a small one in place of the first table."""

import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eec.cli.display import Display
from eec.paper import experiments
from eec.paper.protocol import Block, Experiment, Line, Protocol, Shows
from eec.runs import expected_time

Call = Callable[..., Any]

BLOCK = Block(
    "digits",
    (
        Line("joint", "joint", row="JT"),
        Line("finetune", "finetune"),
        Line("eec-nowhere", "eec-nowhere", row="EEC"),
        Line("joint, r=0.1", "joint", {"keep_some": 0.1}),
    ),
    paper="mnist",
    table="Table 1",
    ks=(5, 10),
    orders=(("joint", "finetune"),),
    per_class=3,
    size=8,
    options={"classes_per_increment": "5"},
)


def small(*blocks: Block, shows: Shows = "accuracy") -> Experiment:
    protocol = Protocol(blocks, seeds=1)
    return Experiment("a small one", shows, protocol, replace(protocol, seeds=3))


@pytest.fixture
def asked(call: Call, short_recipe: object, monkeypatch: pytest.MonkeyPatch) -> Call:
    """`asked("table1")`, which is small."""
    monkeypatch.setattr(expected_time, "STEPS", 3)
    monkeypatch.setitem(experiments.EXPERIMENTS, "table1", small(BLOCK))
    return lambda *arguments: call("paper", *arguments)


def test_the_time_is_stated_first_and_numbers_stand_side_by_side(asked: Call) -> None:
    answer = asked("table1", "--data-dir", "somewhere", "--seeds", "2")
    assert answer.status == 0, answer.err
    before, _, after = answer.err.partition("run 1 of 4")
    assert "eec: 4 runs in runs/paper-table1: 4 to do\n" in before
    assert "eec: scale cpu: digits, 3 images a class, 8 pixels a side, recipe fast\n" in before
    assert re.search(r"eec: expected time: [\d.]+ s, until about \d\d:\d\d", before)
    assert "digits-8, finetune, seed 1; " in after and " to go\n" in after

    folder = Path("runs/paper-table1")
    table = (folder / "table.md").read_text()
    for text in (answer.out, table):
        for words in (
            "99.87",  # JT's A_5 on MNIST
            "[b]: about 10 real exemplars a class and five tasks of two classes.",
            "[c]: measures something else: a classifier trained on real data scores generated",
            "eec-nowhere on digits is left out: there is no method eec-nowhere.",
            "joint, r=0.1 on digits is left out: joint has no option keep_some.",
            "digits, 8 pixels: 3 images a class; the paper had 50,000 in all.",
            "2 seeds here; the paper averaged 10 runs.",
        ):
            assert " ".join(words.split()) in " ".join(text.split()), words
    assert re.search(r"\| joint \(JT\) \[a\] \| 2 \| \d+\.\d\d ± \d+\.\d\d \| 99\.87 \|", table)
    assert re.search(r"\| joint \| finetune \| A_10 \| – \|.*\| 2 \| (holds|undecided|does)", table)
    # Where the data lie is nobody else's business.
    assert "`eec paper table1 --seeds 2`" in table and "seeds 0, 1; " in table
    assert "4 runs: " in table and "were expected" in table
    assert "a small one" in (folder / "report.html").read_text()
    assert {path.name for path in (folder / "digits-8").iterdir()} == {
        f"{name}-{seed}" for name in ("joint", "finetune") for seed in (0, 1)
    }


def test_stopped_and_gone_on_with(asked: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []
    measured = Display.measured

    def third_stops(self: Display, line: dict[str, Any]) -> None:
        measured(self, line)
        told.append(line["increment"])
        if len(told) == 3:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Display, "measured", third_stops)
        stopped = asked("table1", "--scale", "cpu")
    assert stopped.status == 130
    assert stopped.err.endswith("eec: stopped; go on with: eec paper table1 --scale cpu\n")
    first = Path("runs/paper-table1/digits-8/joint-0/measures.jsonl")
    done, taken = first.read_bytes(), first.stat().st_mtime_ns
    assert not Path("runs/paper-table1/table.md").exists()
    shown = asked("table1", "--show")
    assert shown.status == 0 and "joint (JT)" in shown.out and "finetune" not in shown.out
    assert shown.err == ("eec: 2 runs in runs/paper-table1: 1 finished before, 1 to go on with\n")
    assert "`eec paper table1`" in Path("runs/paper-table1/table.md").read_text()

    again = asked("table1", "--scale", "cpu")
    assert again.status == 0, again.err
    assert "2 runs in runs/paper-table1: 1 finished before, 1 to go on with" in again.err
    assert (first.read_bytes(), first.stat().st_mtime_ns) == (done, taken)
    last = asked("table1", "--scale", "cpu")
    assert last.err == "eec: 2 runs in runs/paper-table1: 2 finished before\n"
    assert last.out == again.out


def test_runs_of_another_experiment_are_taken(asked: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    assert asked("table1").status == 0
    line = Line("replay, 20 kB", "replay", {"memory": "20kB"})
    wider = replace(BLOCK, lines=(*BLOCK.lines[:2], line))
    monkeypatch.setitem(experiments.EXPERIMENTS, "methods", small(wider))
    answer = asked("methods")
    assert answer.status == 0, answer.err
    assert "3 runs in runs/paper-methods: 2 finished before, 1 to do" in answer.err
    assert [path.name for path in Path("runs/paper-methods/digits-8").iterdir()] == [
        "replay-20-kb-0"
    ]
    table = Path("runs/paper-methods/table.md").read_text()
    assert "| joint (JT) [a] | 1 |" in table and "1 run: " in table


def test_two_at_a_time(asked: Call) -> None:
    answer = asked("table1", "--jobs", "2")  # processes of their own: the real recipe
    assert answer.status == 0, answer.err
    assert "eec: expected time: " in answer.err
    assert "2 of 2 done: " in answer.err and answer.err.count(" to go\n") == 2
    assert "2 runs: " in answer.out
    environments = Path("runs/paper-table1/digits-8").glob("*/environment.json")
    threads = {json.loads(path.read_text())["threads"] for path in environments}
    assert threads == {max(1, (os.cpu_count() or 1) // 2)}


def test_pictures_are_side_by_side_and_results_are_gathered(
    asked: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = tuple(
        Line(f"lambda {share:g}", "eec-published", {"content": share, "code": "16x2x2"})
        for share in (0.7, 0.0)
    )
    block = replace(BLOCK, lines=lines, orders=(("lambda 0.7", "lambda 0"),))
    monkeypatch.setitem(experiments.EXPERIMENTS, "figure2", small(block, shows="pictures"))
    assert "no table of an experiment under runs: make one" in asked("results").mistake
    answer = asked("figure2")
    assert answer.status == 0, answer.err
    folder = Path("runs/paper-figure2")
    picture = (folder / "pictures" / "digits-8.png").read_bytes()
    page = (folder / "report.html").read_text()
    for row in ("test image (original)", "lambda 0.7", "lambda 0<"):
        assert row in page

    Path("docs").mkdir()
    Path("docs/results.md").write_text("# Mine\n\nWritten by hand.\n")
    assert asked("results").status == 0
    text = Path("docs/results.md").read_text()
    assert text.startswith("# Mine\n\nWritten by hand.\n") and "## figure2: a small one" in text
    assert "](pictures/paper-figure2-digits-8.png)" in text
    assert Path("docs/pictures/paper-figure2-digits-8.png").read_bytes() == picture
    Path("docs/results.md").write_text(text + "\nAnd more.\n")
    asked("results")
    assert Path("docs/results.md").read_text() == text + "\nAnd more.\n"


@pytest.mark.parametrize(
    ("arguments", "mistake"),
    [
        (["table9"], "unknown experiment 'table9': choose one of list, results, table1, "),
        (["table1", "--scale", "huge"], "unknown scale 'huge': choose one of cpu, full"),
        (["list", "--scale", "huge"], "unknown scale 'huge'"),
        (["figure3", "--scale", "huge"], "unknown scale 'huge'"),
        (["table1", "--seeds", "0"], "--seeds 0: use 1 seed or more"),
        (["table1", "--seed", "1"], "--seed and --linkage are of figure3 and figure6"),
        (["table1", "--jobs", "0"], "--jobs 0: use 1 or more"),
        (["figure6", "--seeds", "2"], "--seeds 2: figure6 has one seed: use --seed"),
        (["table1", "--show"], "--show: no run in runs/paper-table1 is finished: run some"),
        (["figure6", "--show"], "--show: figure6 is not made of runs: leave it out"),
        (["figure6", "--jobs", "2"], "--jobs 2: figure6 is not made of runs: leave it out"),
    ],
    ids=str,
)
def test_mistakes_in_one_line(asked: Call, arguments: list[str], mistake: str) -> None:
    assert mistake in asked(*arguments).mistake
    assert not Path("runs").exists()


def test_a_missing_data_set_is_told_before_anything(call: Call, tmp_path: Path) -> None:
    answer = call("paper", "cifar100", "--data-dir", tmp_path / "none")
    assert "eec data get cifar100" in answer.mistake
    assert not Path("runs").exists()


def test_a_run_that_fails_is_told_and_the_others_stand(asked: Call) -> None:
    assert asked("table1").status == 0
    damaged = Path("runs/paper-table1/digits-8/finetune-0")
    (damaged / "checkpoint").mkdir()  # as if it were not finished
    (damaged / "learner.eec").write_bytes(b"no learner")
    config = json.loads((damaged / "config.json").read_text())
    lines = (damaged / "measures.jsonl").read_text().splitlines(keepends=True)
    (damaged / "measures.jsonl").write_text(lines[0])
    answer = asked("table1")
    assert answer.status == 1 and config["method"] == "finetune"
    assert "digits-8/finetune-0 failed: " in answer.err
    assert "1 of 2 runs failed and are not in it" in answer.err
    assert "joint" in answer.out
