"""`eec learn BRAIN PATH...`: teach a learner your own pictures, once or again and again."""

from __future__ import annotations

import hashlib
import os
import shlex
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from eec.errors import UserError
from eec.methods.options import Net

if TYPE_CHECKING:
    from eec.cli.pictures import Watch
    from eec.data.labels import Label
    from eec.data.stream import Task
    from eec.methods.contract import Method, Report

SIZE = 32  # pixels a side, where nothing is said


@dataclass(frozen=True)
class Learn:
    """Teach your own pictures: each sub-folder of a PATH is a class, all of them one task. Makes
    the learner file BRAIN, or goes on with it: new classes, or more images of old ones."""

    brain: tyro.conf.Positional[
        Annotated[Path, tyro.conf.arg(metavar="BRAIN", help="Learner file, such as brain.eec.")]
    ]
    paths: tyro.conf.Positional[
        Annotated[
            tuple[Path, ...],
            tyro.conf.arg(
                metavar="PATH...", help="Folders of class folders; with --label, images or folders."
            ),
        ]
    ]
    label: str | None = None
    """All images of all PATHs are of this class."""
    memory: str | None = None
    """What may be kept of old classes: 5MB, 500kB, 5000 (episodes) or unlimited; it can be changed
    later [as the learner has it; unlimited]."""
    size: int | None = None
    """Pixels a side: short side to it, then the square in the centre [as the learner has it; 32].
    """
    code: str | None = None
    """Shape of an episode, channels x side x side [as the learner has it; by the images]."""
    net: Net | None = None
    """Classifier [as the learner has it; tiny for grey, small for colour images]."""
    flip: bool = False
    """A mirrored image is still of its class: not so with letters or digits."""
    seed: int | None = None
    """Decides all that is random [as the learner has it; 0]."""
    strict: bool = False
    """Refuse images that cannot be decoded, in place of leaving them out."""
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """Where to compute."""
    precision: Literal["auto", "float32", "bf16"] = "auto"
    """auto: bf16 where the hardware is fast at it, else float32."""
    quiet: bool = False
    """Print the result only."""

    def start(self, arguments: Sequence[str]) -> None:
        file = LearnerFile(self.brain)
        try:
            self._teach(file)
        except KeyboardInterrupt:
            print(f"eec: stopped; {file.fate()}", file=sys.stderr)
            raise

    def _teach(self, file: LearnerFile) -> None:
        from eec.cli.pictures import Watch, check_paths, find_labelled, find_pictures

        if not self.paths:
            raise UserError("nothing to learn: give a folder, as in eec learn BRAIN PATH")
        if self.label is not None and not (self.label.strip() and self.label.isprintable()):
            raise UserError(f"--label {self.label!a}: give the class a name that can be printed")
        check_paths(self.paths)
        method = self._go_on() if file.exists else self._begin()
        if self.label is None:
            found, notices = find_labelled(self.paths, "teach")
        else:
            found, notices = {self.label: find_pictures(self.paths)}, []
        began = time.monotonic()
        with Watch(quiet=self.quiet) as watch:
            task, skipped = self._read(method, found, watch)
            known = list(method.classes)
            reading = time.monotonic() - began
            report = method.learn(task, watch.phase)
        file.replace(method)
        for notice in (*notices, *skipped):
            print(f"eec: {notice}", file=sys.stderr)
        report.seconds = {"read images": reading, **report.seconds}
        _tell(self.brain, method, task, known, report)

    def _begin(self) -> Method:
        """A new learner, of the kind that measures best."""
        from eec.data.images import check_size
        from eec.methods.registry import choose_options, make_method
        from eec.training.runtime import choose_runtime

        if self.size is not None:
            check_size(self.size)
        if self.seed is not None and self.seed < 0:
            raise UserError(f"--seed is {self.seed}: use a whole number, 0 or more")
        options = choose_options(
            "eec", net=self.net, code=self.code, flip=self.flip or None, memory=self.memory
        )
        return make_method(
            "eec", options, self.seed or 0, choose_runtime(self.device, self.precision)
        )

    def _go_on(self) -> Method:
        """The learner in the file: what it was made with cannot be chosen again."""
        from eec.cli.pictures import picture_shape
        from eec.methods.archive import load_learner
        from eec.training.runtime import choose_runtime

        method = load_learner(self.brain, choose_runtime(self.device, self.precision))
        _, side = picture_shape(method, self.brain)
        chosen = {"net": self.net, "code": self.code, "flip": self.flip or None}
        made: dict[str, tuple[Any, Any]] = {
            "size": (self.size, side),
            "seed": (self.seed, method.seed),
            **{
                name: (value, getattr(method.options, name, None)) for name, value in chosen.items()
            },
        }
        for name, (asked, has) in made.items():
            if asked is not None and asked != has:
                raise UserError(
                    f"{self.brain} was made with {name} {has}, which stays: leave --{name} out, or "
                    "begin a learner of another name"
                )
        if self.memory is not None:
            method.set_memory(self.memory)
        return method

    def _read(
        self, method: Method, found: dict[str, list[Path]], watch: Watch
    ) -> tuple[Task, list[str]]:
        """The pictures in the learner's size and mode, and a line on those left out."""
        import torch

        from eec.cli.pictures import match_labels
        from eec.data.image_files import channels_of, none_left, read_images, skipped_notice
        from eec.data.stream import Task

        paths = [path for images in found.values() for path in images]
        names = [name for name, images in found.items() for _ in images]
        if method.image is None:
            channels, size = channels_of(paths), self.size or SIZE
        else:
            channels, size = method.image[0], method.image[1]
        # What cannot be learned is told now, not when all images have been read.
        labels = match_labels(found, method.classes)
        blank = torch.zeros(1, channels, size, size, dtype=torch.uint8)
        coming = [labels[name] for name in names]
        method.check(Task(blank.expand(len(names), -1, -1, -1), coming))
        progress = watch.phase("read images")
        reading = read_images(paths, size, channels, strict=self.strict, progress=progress)
        whole = set(reading.kept)
        kept = {names[i] for i in whole}
        lost = [name for i, name in enumerate(names) if i not in whole]
        for name in found:
            if name not in kept:
                why = [line for line, of in zip(reading.skipped, lost, strict=True) if of == name]
                raise UserError(none_left(f"class {name}: none of its images", why))
        task = Task(reading.images, [labels[names[i]] for i in reading.kept])
        return task, [skipped_notice(reading.skipped)] if reading.skipped else []


class LearnerFile:
    """The file that is to be made or replaced: only when all went well, and only if it is still as
    it was when the learning began."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.place = Path(os.path.realpath(path))  # a link stays a link
        self._check_place()
        self.before = self._print()

    @property
    def exists(self) -> bool:
        return self.before is not None

    def replace(self, method: Method) -> None:
        from eec.methods.archive import save_learner

        if self._print() != self.before:
            raise UserError(
                f"{self.path} was changed by another command meanwhile, and is left as that one "
                "made it: run this one again"
            )
        save_learner(method, self.place)

    def fate(self) -> str:
        """What an interruption did to it."""
        if self._print() != self.before:
            return f"{self.path} had been written already"
        return f"{self.path} is as it was" if self.exists else "nothing was written"

    def _print(self) -> str | None:
        try:
            return hashlib.sha256(self.place.read_bytes()).hexdigest()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise UserError(
                f"cannot read {self.path} ({error.strerror}): give a learner file that you can read"
            ) from None

    def _check_place(self) -> None:
        """Hours of learning must not end in a place that cannot be written."""
        if self.place.is_dir():
            raise UserError(
                f"{self.path} is a folder: name the learner file first, as in eec learn brain.eec "
                f"{shlex.quote(str(self.path))}"
            )
        if self.place.exists() and not os.access(self.place, os.W_OK):
            raise UserError(f"{self.path} is write-protected: choose a file that you can replace")
        folder = self.place.parent
        while not folder.exists():
            folder = folder.parent
        if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
            raise UserError(
                f"cannot write {self.path}: {folder} is no folder that you can write to; choose "
                "another place"
            )


def _tell(brain: Path, method: Method, task: Task, known: list[Label], report: Report) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from eec.report.words import human_bytes, human_seconds, list_labels, total

    console = Console()
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("class", overflow="fold")
    table.add_column("images", justify="right")
    table.add_column("")
    for label, count in Counter(task.labels).items():
        # as Text: a class called [red] is a name, not markup
        table.add_row(Text(str(label)), f"{count:,}", "returning" if label in known else "new")
    console.print(table)

    parts = method.bytes_by_part()
    classifier = parts.pop("classifier")
    kept = ", ".join(f"{part} {human_bytes(count)}" for part, count in parts.items() if count)
    spent = ", ".join(
        f"{phase} {human_seconds(seconds)}"
        for phase, seconds in report.seconds.items()
        if seconds >= 0.05
    )
    count = len(method.classes)
    lines = [
        *report.notes,
        f"known     {count} class{'es' if count > 1 else ''}: {list_labels(method.classes, 12)}",
        f"memory    {human_bytes(total(parts))} ({kept or 'nothing'}), "
        f"classifier {human_bytes(classifier)}",
        f"time      {human_seconds(total(report.seconds))} ({spent})",
        f"learner   {brain}, {human_bytes(brain.stat().st_size)}",
        f"ask       eec predict {shlex.quote(str(brain))} IMAGE",
    ]
    for line in lines:
        console.print(Text(line), soft_wrap=True)
