"""What `eec learn` and `eec predict` share: the user's own pictures, and the bar on stderr."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

from eec.data.image_files import SUFFIXES, class_folders, images_of_class
from eec.data.labels import Label
from eec.errors import UserError
from eec.report.words import human_seconds

if TYPE_CHECKING:
    from eec.methods.contract import Method
    from eec.training.loop import Progress as OnStep

Purpose = Literal["teach", "judge"]

REFRESH_SECONDS = 0.1
ENOUGH = 0.05  # of a phase, to tell from it how long the rest takes

_LOOSE = {
    "teach": "name their class with --label NAME, or give the folder above it",
    "judge": "give the folder above it, whose sub-folders are called as the classes",
}


def check_paths(paths: Iterable[Path]) -> None:
    """Refuse what is not there, before anything that takes time."""
    for path in paths:
        try:
            path.stat()
        except OSError as error:
            raise UserError(f"{path}: {error.strerror}: give images or folders of them") from None


def find_pictures(paths: Iterable[Path]) -> list[Path]:
    """Image files as they are given, and those at any depth of folders, each of them once."""
    found: list[Path] = []
    for path in paths:
        found += images_of_class(path) if path.is_dir() else [path]
    return _once(found)


def find_labelled(
    paths: Sequence[Path], purpose: Purpose
) -> tuple[dict[str, list[Path]], list[str]]:
    """The images of each class, by the name of its folder, and what the user should be told.

    The same name in two paths is one class.
    """
    classes: dict[str, list[Path]] = {}
    notices = []
    for path in paths:
        names, loose = _class_names(path, purpose)
        for name in names:
            classes.setdefault(name, []).extend(images_of_class(path / name))
        if loose:
            notices.append(
                f"{loose} images lie in {path} itself, in no class folder: they were left out"
            )
    return {name: _once(images) for name, images in classes.items()}, notices


def match_labels(names: Iterable[str], known: Sequence[Label]) -> dict[str, Label]:
    """The label that each folder's name means: folder `3` is the class 3 if 3 is a number there."""
    spelled = {str(label): label for label in known if not isinstance(label, str)}
    return {name: name if name in known else spelled.get(name, name) for name in names}


def picture_shape(method: Method, brain: Path) -> tuple[int, int]:
    """Channels and side of the images that a learner knows."""
    if method.image is None:
        raise UserError(f"{brain} has learned nothing yet: teach it first, with eec learn")
    channels, height, width = method.image
    if height != width:
        raise UserError(
            f"{brain} was taught images of {height}x{width} pixels, but pictures from files are "
            "made square: use it from Python"
        )
    return channels, width


class Watch:
    """What is going on: a bar on a terminal, one line a phase elsewhere.

    All of it goes to stderr: what a pipe gets are results.
    """

    def __init__(self, *, quiet: bool, lines: bool = True) -> None:
        self.console = Console(stderr=True)
        self.lines = lines and not quiet and not self.console.is_terminal
        self.bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            TaskProgressColumn(),
            TextColumn("{task.fields[left]}", style="dim"),
            console=self.console,
            transient=True,
            disable=quiet or not self.console.is_terminal,
            # Else what is printed to stdout meanwhile would come out here.
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self.last = ""

    def __enter__(self) -> Self:
        self.bars.start()
        return self

    def __exit__(self, *reason: object) -> None:
        self.bars.stop()

    def phase(self, name: str) -> OnStep:
        if self.lines and name != self.last:
            self.console.print(name, highlight=False, markup=False)
        self.last = name
        for old in self.bars.task_ids:
            self.bars.remove_task(old)
        bar = self.bars.add_task(name, left="", total=None)  # pulses until there is a count
        began, shown = time.monotonic(), 0.0

        def on_step(done: int, total: int) -> None:
            nonlocal shown
            now = time.monotonic()
            if self.bars.disable or (done < total and now - shown < REFRESH_SECONDS):
                return
            shown = now
            left = ""
            if ENOUGH * total <= done < total:
                left = f"{human_seconds((now - began) * (total - done) / done)} left"
            self.bars.update(bar, total=total, completed=done, left=left)

        return on_step


def _class_names(path: Path, purpose: Purpose) -> tuple[list[str], int]:
    """The class folders, and how many images lie beside them; refuses what has none."""
    if not path.is_dir():
        raise UserError(f"{path} is a file, and no folder of class folders: {_LOOSE[purpose]}")
    names = class_folders(path)
    loose = sum(
        entry.suffix.lower() in SUFFIXES and not entry.name.startswith(".") and entry.is_file()
        for entry in path.iterdir()
    )
    if not names:
        raise UserError(
            f"{path} holds images and no sub-folder: {_LOOSE[purpose]}"
            if loose
            else f"{path} is empty: give a folder with a sub-folder of images for each class"
        )
    parts = [name for name in ("train", "val", "test") if name in names]
    if "train" in parts and len(parts) > 1:
        part = parts[0 if purpose == "teach" else 1]
        raise UserError(
            f"{path} is a whole data set: {' and '.join(parts)} in it are no classes: "
            f"give {path / part}"
        )
    return names, loose


def _once(paths: list[Path]) -> list[Path]:
    return list({os.path.realpath(path): path for path in reversed(paths)}.values())[::-1]
