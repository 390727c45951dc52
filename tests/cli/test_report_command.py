"""`eec report`: the page, the figures and the events, and what is refused."""

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eec.report import events

Call = Callable[..., Any]

CONFIG = {
    "dataset": "digits",
    "method": "eec",
    "options": {},
    "seed": 0,
    "stream": {"per_class": 4, "classes_per_increment": 1, "increments": 2},
    "command": "eec run digits",
}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return make(tmp_path / "runs" / "one")


def make(folder: Path, **changes: Any) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(CONFIG | changes))
    (folder / "environment.json").write_text('{"started": "2025-03-01T12:00:00"}')
    lines = [
        {"increment": k, "classes_seen": k, "accuracy": 100.0 / k, "accuracy_by_task": [50.0] * k,
         "bytes": {"episodes": 1000 * k, "classifier": None}, "seconds": {"train": 1.5}}
        for k in (1, 2)
    ]  # fmt: skip
    (folder / "measures.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def test_the_page_of_one_run_goes_into_its_folder(call: Call, run: Path) -> None:
    answer = call("report", run)
    assert (answer.status, answer.err) == (0, "")
    assert answer.out == f"report       {run / 'report.html'}\n"
    assert "A_2" in (run / "report.html").read_text(encoding="utf-8")


def test_the_page_of_several_runs_goes_where_it_is_told(call: Call, run: Path) -> None:
    other = make(run.parent / "two", seed=1)
    assert call("report", run, other, "-o", "deep/page.html").status == 0
    assert "2 runs on digits" in Path("deep/page.html").read_text(encoding="utf-8")
    assert call("report", run, other).status == 0
    assert Path("report.html").exists() and not (run / "report.html").exists()


def test_figures_are_drawn_as_png_and_as_svg(call: Call, run: Path) -> None:
    assert call("report", run, "--figures", "f").status == 0
    names = ["accuracy.png", "accuracy.svg", "cost.png", "cost.svg"]
    assert sorted(path.name for path in Path("f").iterdir()) == names
    assert (Path("f") / "cost.png").read_bytes().startswith(b"\x89PNG")
    drawn = (Path("f") / "cost.svg").read_bytes()
    assert b"<svg" in drawn and b"<dc:date>" not in drawn  # the same run, the same bytes


def test_torch_is_not_needed(run: Path) -> None:
    program = (
        "import sys\nfrom eec.cli.main import main\nmain(sys.argv[1:])\n"
        "assert not {'torch', 'matplotlib', 'sklearn', 'pandas'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", program, "report", run], check=True)


def test_what_cannot_be_reported_on_is_refused(call: Call, run: Path) -> None:
    assert "nowhere is not a run folder" in call("report", "nowhere").mistake
    assert "is given twice: give each run once" in call("report", run, run).mistake
    assert "nothing to report on" in call("report").mistake
    folder = call("report", run, "-o", run.parent).mistake
    assert "is a folder: give the page a name" in folder
    (run / "measures.jsonl").write_text("")
    assert "has not finished its first increment" in call("report", run).mistake
    assert not (run / "report.html").exists()


def test_without_tensorboard_one_line_says_how_to_get_it(
    call: Call, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    answer = call("report", run, "--tensorboard", "events")
    assert "pip install 'eec[tensorboard]'" in answer.mistake
    assert not (run / "report.html").exists() and not Path("events").exists()


def test_events_hold_the_measures(call: Call, run: Path) -> None:
    pytest.importorskip("tensorboard", reason="eec[tensorboard] is not installed")
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    assert call("report", run, "--tensorboard", "events").status == 0
    (path,) = Path("events").iterdir()
    assert path.name == events.NAME
    found = [event for event in EventFileLoader(str(path)).Load() if event.HasField("summary")]
    assert [event.step for event in found] == [1, 2]
    last = {v.tag: v.tensor.float_val[0] for v in found[-1].summary.value}
    assert last["accuracy"] == 50.0 and last["bytes/episodes"] == 2000.0
    assert last["accuracy_by_task/002"] == 50.0 and "bytes/classifier" not in last
