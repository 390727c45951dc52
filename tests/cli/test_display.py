"""What a run shows while it goes."""

import io
import time
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from eec.cli.display import Clock, Display
from eec.data.dataset import Dataset
from eec.data.stream import Stream, make_stream


@pytest.fixture
def stream(digits: Dataset) -> Stream:
    return make_stream(digits, per_class=3)


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, to be set by hand."""
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    return clock


def line(increment: int, **changes: Any) -> dict[str, Any]:
    return {
        "increment": increment,
        "classes_seen": increment,
        "accuracy": 98.765,
        "newest_share": {"called": 99.9, "true": 50.0},
        "bytes": {"episodes": 99_900_000, "classifier": 5},
        "seconds": {"train classifier": 719.0, "evaluate": 0.4},
        "note": None,
        **changes,
    }


def test_lines_fit_eighty_columns_and_notes_are_not_cut(stream: Stream, now: list[float]) -> None:
    sink = io.StringIO()
    with Display(Console(file=sink), quiet=False) as display:
        display.begin(stream, {})
        for increment in stream.increments:
            display.increment(increment)
            display.phase("train classifier")(1, 2)
            now[0] += 0.01 if increment.number == 1 else 1500.0
            display.measured(
                line(increment.number, note="long " * 30 if increment.number == 3 else None)
            )
    lines = sink.getvalue().splitlines()
    notes = [text for text in lines if "long" in text]
    assert notes == ["     " + "long " * 30]
    rest = [text for text in lines if text not in notes]
    assert len(rest) == 2 + 10 and max(map(len, rest)) <= 80
    assert rest[0] == "digits: 10 classes in 10 increments, judged on test images"
    assert rest[1] == "     images grey 32x32"
    assert rest[3] == (
        "  2/10  A_2  98.77 %  newest 99.9/50.0 %  99.9 MB  11 min 59 s  10 h 50 min left"
    )
    assert "left" not in rest[1] and "left" not in rest[-1]


def test_quiet_says_nothing(stream: Stream) -> None:
    sink = io.StringIO()
    with Display(Console(file=sink, force_terminal=True), quiet=True) as display:
        display.begin(stream, {})
        display.increment(stream.increments[0])
        display.phase("train classifier")(1, 2)
        display.measured(line(1, note="a note"))
    assert sink.getvalue() == ""


def test_a_terminal_sees_increment_phase_share_and_time_left(
    stream: Stream, now: list[float]
) -> None:
    sink = io.StringIO()
    console = Console(file=sink, force_terminal=True, width=80, color_system=None)
    with Display(console, quiet=False) as display:
        display.bars.live.auto_refresh = False
        display.begin(stream, {})
        display.increment(stream.increments[0])
        on_step = display.phase("train classifier")
        now[0] = 10.0
        on_step(1, 2)
        display.bars.refresh()
    text = sink.getvalue()
    assert "increment 1/10: 0" in text and "train classifier" in text
    # Half of the first of 55 equal parts took 10 s: 54.5 are left, 20 s each.
    assert "18 min 10 s left" in text and " 50%" in text


def test_the_clock_counts_work_by_the_images_replayed(now: list[float]) -> None:
    clock = Clock([10, 10, 20])  # work 10, 20, 40
    clock.start_increment()
    assert clock.seconds_left() is None and clock.share() == 0
    now[0] = 100.0
    clock.finish_increment()
    assert clock.seconds_left() is None  # of the first, nothing is concluded
    assert clock.share() == pytest.approx(10 / 70)
    clock.start_increment()
    clock.start_training()
    now[0] = 105.0
    clock.inside = 0.5
    assert clock.share() == pytest.approx(20 / 70)
    assert clock.seconds_left() == pytest.approx(25.0)  # 10 units in 5 s, 50 to go
    now[0] = 112.0
    clock.finish_increment()
    assert clock.seconds_left() == pytest.approx(24.0)  # 20 units in 12 s, 40 to go
    clock.start_increment()
    clock.finish_increment()
    assert clock.share() == 1 and clock.seconds_left() == 0


def test_what_looks_like_markup_is_shown_as_it_is(stream: Stream) -> None:
    sink = io.StringIO()
    odd = replace(stream, name="folder:photos [/b]")
    with Display(Console(file=sink, force_terminal=True, width=200), quiet=False) as display:
        display.begin(odd, {})
        display.bars.refresh()
    assert "folder:photos [/b]: 10 classes" in sink.getvalue()
