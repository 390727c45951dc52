"""What a run shows while it goes: a live display on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
from rich.text import Text

from eec.data.stream import Increment, Stream
from eec.methods.contract import size_words
from eec.nets.classifiers import shape_of
from eec.report.words import (
    human_bytes,
    human_seconds,
    list_labels,
    memory_bytes,
    short_label,
    total,
)
from eec.training.loop import Progress as OnStep
from eec.training.loop import quiet as ignore

REFRESH_SECONDS = 0.1
ENOUGH = 0.1  # of a training, to tell from it how long the rest takes


class Display:
    def __init__(self, console: Console, *, quiet: bool) -> None:
        self.console = console
        self.quiet = quiet
        self.bars = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            TaskProgressColumn(),
            TextColumn("{task.fields[left]}", style="dim"),
            console=console,
            transient=True,
            disable=quiet or not console.is_terminal,
        )
        self.clock = Clock()
        self.computes = ""  # where and how exactly

    def __enter__(self) -> Self:
        self.bars.start()
        self.whole = self.bars.add_task("", left="")
        self.part = self.bars.add_task("", left="", visible=False)
        return self

    def __exit__(self, *reason: object) -> None:
        self.bars.stop()

    def reading(self, done: int, total: int) -> None:
        """Progress of image files that are decoded before a run begins."""
        self.bars.update(self.part, description="  read images", visible=True)
        self.bars.update(self.part, total=total, completed=done)

    def begin(self, stream: Stream, nets: dict[str, Any]) -> None:
        self.clock = Clock([len(i.train) for i in stream.increments])
        self.count = len(stream.increments)
        self.bars.update(self.whole, total=1.0, description=f"{stream.name}: increment 1")
        if self.quiet:
            return
        first = stream.increments[0].train
        lines = [
            Text(
                f"{stream.name}: {len(stream.class_order)} classes in {self.count} increments, "
                f"judged on {stream.judged_on} images"
            ),
            *(Text(notice, style="dim") for notice in stream.notices),
            Text(f"     images {size_words(shape_of(first.images))}", style="dim"),
            *(Text(f"     {part} {_size(net)}", style="dim") for part, net in nets.items()),
            *([Text(f"     computes on {self.computes}", style="dim")] if self.computes else []),
        ]
        for line in lines:
            self.console.print(line, highlight=False, soft_wrap=True)

    def increment(self, increment: Increment) -> None:
        self.clock.start_increment()
        new = short_label(list_labels(increment.new_classes))
        self.bars.update(
            self.whole, description=f"increment {increment.number}/{self.count}: {new}"
        )

    def phase(self, name: str) -> OnStep:
        self.bars.update(self.part, description=f"  {name}", completed=0, visible=True)
        if self.bars.disable:
            return ignore
        shown = 0.0
        measure = name == "train classifier"  # where nearly all the time goes
        if measure:
            self.clock.start_training()

        def on_step(done: int, total: int) -> None:
            nonlocal shown
            if measure and self.clock.entered is None:
                self.clock.entered = (done - 1) / total
            now = time.monotonic()
            if done < total and now - shown < REFRESH_SECONDS:
                return
            shown = now
            if measure:
                self.clock.inside = done / total
            self.bars.update(self.part, total=total, completed=done)
            self.bars.update(
                self.whole, completed=self.clock.share(), left=_left(self.clock.seconds_left())
            )

        return on_step

    def measured(self, line: dict[str, Any]) -> None:
        self.clock.finish_increment()
        self._show(line)

    def recalled(self, line: dict[str, Any]) -> None:
        """An increment that was done before."""
        self.clock.finish_increment(total(line["seconds"]))
        self._show(line)

    def _show(self, line: dict[str, Any]) -> None:
        self.bars.update(
            self.whole, completed=self.clock.share(), left=_left(self.clock.seconds_left())
        )
        if self.quiet:
            return
        left = self.clock.seconds_left()
        share = line["newest_share"]
        # Fits 80 columns; where it does not, the terminal may break it, but a file must not.
        text = (
            f"{line['increment']:>3}/{self.count}  A_{line['classes_seen']} "
            f"{line['accuracy']:6.2f} %  newest {share['called']:.1f}/{share['true']:.1f} %  "
            f"{human_bytes(memory_bytes(line))}  {human_seconds(total(line['seconds']))}"
        )
        self.console.print(Text(text + (f"  {_left(left)}" if left else "")), soft_wrap=True)
        if line["note"]:
            self.console.print(Text(f"     {line['note']}", style="dim"), soft_wrap=True)


def _size(net: dict[str, Any]) -> str:
    text = f"{net['name']}: {net['parameters']:,} parameters, {human_bytes(net['bytes'])}"
    if "bytes_an_episode" in net:
        text += f"; an episode takes {net['bytes_an_episode']:,} bytes"
    return text


def _left(seconds: float | None) -> str:
    return "" if seconds is None else f"{human_seconds(seconds)} left"


class Clock:
    """Time left, from the work done: an increment replays all images seen so far."""

    def __init__(self, images: list[int] | None = None) -> None:
        seen, self.work = 0, [0.0]
        for count in images or []:
            seen += count
            self.work.append(self.work[-1] + seen)  # work done after each increment
        self.finished = 0
        self.inside = 0.0
        self.entered: float | None = None  # where in a training, which may go on from a checkpoint
        self.rate: float | None = None  # seconds for a unit of work
        self.began = self.trained = time.monotonic()

    def start_increment(self) -> None:
        self.began, self.inside = time.monotonic(), 0.0

    def start_training(self) -> None:
        self.trained, self.inside, self.entered = time.monotonic(), 0.0, None

    def finish_increment(self, seconds: float | None = None) -> None:
        """After `seconds`, or after the time since it was started."""
        self.finished, self.inside = self.finished + 1, 0.0
        # The first increment trains no classifier on one class but may train the codec: it tells
        # nothing of the others.
        if self.finished > 1:
            seconds = time.monotonic() - self.began if seconds is None else seconds
            self.rate = seconds / self._unit(self.finished)

    def done(self) -> float:
        if self.finished + 1 == len(self.work):
            return self.work[-1]
        return self.work[self.finished] + self.inside * self._unit(self.finished + 1)

    def share(self) -> float:
        return self.done() / self.work[-1]

    def seconds_left(self) -> float | None:
        rate = self.rate if self.rate is not None else self._first_guess()
        return None if rate is None else rate * (self.work[-1] - self.done())

    def _first_guess(self) -> float | None:
        """Before an increment tells the rate: from the training that is going on."""
        inside = self.inside - (self.entered or 0.0)
        if inside < ENOUGH:
            return None
        done = inside * self._unit(self.finished + 1)
        return (time.monotonic() - self.trained) / done

    def _unit(self, increment: int) -> float:
        return self.work[increment] - self.work[increment - 1]
