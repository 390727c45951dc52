"""`eec predict BRAIN IMAGE|FOLDER...`: name pictures, or judge how well a learner names them."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, Literal, cast

import tyro

from eec.data.catalog import unseen
from eec.errors import UserError

if TYPE_CHECKING:
    import numpy as np

    from eec.cli.answers import Judgement
    from eec.methods.contract import Method

BATCH = 512  # images in memory at a time
LONGEST_PATH = 1 << 20  # bytes of a pipe without an end of line: these are no paths


@dataclass(frozen=True)
class Predict:
    """Name pictures with what a learner was taught: label and confidence for each."""

    brain: tyro.conf.Positional[
        Annotated[Path, tyro.conf.arg(metavar="BRAIN", help="Learner file, such as brain.eec.")]
    ]
    paths: tyro.conf.Positional[
        Annotated[
            tuple[Path, ...],
            tyro.conf.arg(
                metavar="[IMAGE|FOLDER...]",
                help="Images, and folders of them at any depth. - or nothing: one image, or paths "
                "of images, from a pipe.",
            ),
        ]
    ] = ()
    top: int = 1
    """So many labels for each image, the likeliest first."""
    format: Literal["table", "json", "csv"] = "table"
    """What to print; confidence is in percent in a table, from 0 to 1 elsewhere."""
    evaluate: bool = False
    """Take the names of the class folders in each FOLDER as the truth, and count what is right."""
    strict: bool = False
    """Refuse images that cannot be decoded, in place of leaving them out."""
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """Where to compute."""
    precision: Literal["auto", "float32", "bf16"] = "auto"
    """auto: bf16 where the hardware is fast at it, else float32."""

    def start(self, arguments: Sequence[str]) -> None:
        from eec.cli.answers import write_answers, write_judgement
        from eec.cli.pictures import Watch, check_paths
        from eec.methods.archive import load_learner
        from eec.training.runtime import choose_runtime

        piped = self._is_piped()
        check_paths(() if piped else self.paths)
        method = load_learner(self.brain, choose_runtime(self.device, self.precision))
        namer = Namer(method, self.brain, strict=self.strict)
        # Rows that appear on the terminal are progress enough.
        quiet = piped or (sys.stdout.isatty() and not self.evaluate)
        with Watch(quiet=quiet, lines=False) as watch:
            namer.progress = watch.phase("name images")
            if self.evaluate:
                result = _evaluate(namer, self.paths)
            else:
                named = namer.name(_from_pipe() if piped else _from_files(self.paths))
                answers = ([(picture.path, row) for picture, row in batch] for batch in named)
                # To refuse is to print nothing: with --strict all wait for the last image.
                rows = list(answers) if self.strict else answers
                write_answers(self.format, rows, method.classes, self.top)
        if self.evaluate:
            write_judgement(self.format, result)
        for notice in namer.notices():
            print(f"eec: {notice}", file=sys.stderr)

    def _is_piped(self) -> bool:
        """Whether pictures come from a pipe; refuses what does not go together."""
        piped = not self.paths or Path("-") in self.paths
        if self.top < 1:
            raise UserError(f"--top is {self.top}: ask for one label or more")
        if self.evaluate and self.top > 1:
            raise UserError("--evaluate judges the likeliest label only: leave --top out")
        if self.evaluate and piped:
            raise UserError("--evaluate needs to know the truth: give folders of class folders")
        if piped and len(self.paths) > 1:
            raise UserError("- stands for a pipe: give it alone, or give paths")
        if not self.paths and (sys.stdin is None or sys.stdin.isatty()):
            raise UserError("nothing to name: give images or folders, or send them by a pipe")
        return piped


# Where pictures come from.


@dataclass(frozen=True)
class Picture:
    path: str  # as it is shown
    source: Path | BinaryIO
    truth: int = -1  # its class index, where that is known


def _from_files(paths: Sequence[Path]) -> list[Picture]:
    from eec.cli.pictures import find_pictures

    return [Picture(str(path), path) for path in find_pictures(paths)]


def _from_pipe() -> Iterator[Picture | None]:
    """One image, known by its first bytes, or paths as they come; None where the pipe pauses."""
    pipe = cast(io.BufferedReader, sys.stdin.buffer)
    head = pipe.peek(64)
    if _is_image(head):
        yield Picture("-", io.BytesIO(pipe.read()))
        return
    end = b"\0" if b"\0" in head else b"\n"
    rest = b""
    while block := pipe.read1(1 << 16):
        *lines, rest = (rest + block).split(end)
        if len(rest) > LONGEST_PATH:
            raise UserError("the pipe holds neither an image nor paths of images: send these")
        for line in lines:
            yield from _from_line(line)
        yield None
    yield from _from_line(rest)


def _from_line(line: bytes) -> Iterator[Picture]:
    from eec.data.image_files import find_images

    said = line.strip(b"\r\n")
    if not said:
        return
    path = Path(os.fsdecode(said.replace(b"\0", b"?")))
    for image in find_images(path) if path.is_dir() else [path]:
        yield Picture(str(image), image)


def _is_image(head: bytes) -> bool:
    return (
        head.startswith((b"\xff\xd8\xff", b"\x89PNG\r\n", b"GIF8", b"II*\0", b"MM\0*"))
        or (head[:4] == b"RIFF" and head[8:12] == b"WEBP")
        # Letters that a path may begin with; the zeros after the size of the file are not.
        or (head[:2] == b"BM" and head[6:10] == bytes(4))
    )


def _batches(pictures: Iterable[Picture | None]) -> Iterator[list[Picture]]:
    batch: list[Picture] = []
    for picture in pictures:
        if picture is not None:
            batch.append(picture)
        if len(batch) == BATCH or (picture is None and batch):
            yield batch
            batch = []
    if batch:
        yield batch


# Naming them.


class Namer:
    """Reads and names pictures a batch at a time, so that memory does not bound their number."""

    def __init__(self, method: Method, brain: Path, *, strict: bool) -> None:
        from eec.cli.pictures import picture_shape

        self.method = method
        self.brain = brain
        self.strict = strict
        self.channels, self.side = picture_shape(method, brain)
        self.progress: Callable[[int, int], None] = unseen
        self.seen = 0
        self.skipped: list[str] = []
        self.lost: UserError | None = None  # what befell the last one skipped
        self.notes: list[str] = []

    def name(
        self, pictures: Iterable[Picture | None]
    ) -> Iterator[list[tuple[Picture, np.ndarray]]]:
        """Batches as they are ready; refuses in the end if not one picture could be decoded."""
        from eec.data.image_files import none_left

        total = len(pictures) if isinstance(pictures, list) else 0
        for batch in _batches(pictures):
            named = self._name(batch)
            self.seen += len(batch)
            self.progress(self.seen, max(total, self.seen))
            if named:
                yield named
        if not self.seen:
            raise UserError("the pipe is empty: send one image, or paths of images")
        if self.seen == 1 and self.lost is not None:
            raise self.lost
        if self.seen == len(self.skipped):
            raise UserError(none_left(f"none of the {self.seen:,} images", self.skipped))

    def notices(self) -> list[str]:
        from eec.data.image_files import skipped_notice

        return [*self.notes, *([skipped_notice(self.skipped)] if self.skipped else [])]

    def _name(self, batch: list[Picture]) -> list[tuple[Picture, np.ndarray]]:
        import numpy as np
        import torch

        from eec.data.image_files import Undecodable, map_in_threads, read_image, skipped_line

        def read(picture: Picture) -> np.ndarray | Undecodable:
            try:
                return read_image(picture.source, self.side, self.channels)
            except Undecodable as error:
                return error

        kept, images = [], []
        for picture, result in zip(batch, map_in_threads(read, batch), strict=True):
            if not isinstance(result, Undecodable):
                kept.append(picture)
                images.append(result)
            elif self.strict:
                raise result
            else:
                self.lost = result
                self.skipped.append(skipped_line(Path(picture.path), result.why))
        if not kept:
            return []
        probabilities = self.method.predict_proba(torch.from_numpy(np.stack(images)))
        return list(zip(kept, probabilities, strict=True))


def _evaluate(namer: Namer, paths: Sequence[Path]) -> Judgement:
    """How many pictures of each class are called by the name of their folder."""
    import numpy as np

    from eec.cli.answers import judgement
    from eec.cli.pictures import find_labelled, match_labels
    from eec.report.words import list_labels

    found, namer.notes = find_labelled(paths, "judge")
    classes = namer.method.classes
    labels = match_labels(found, classes)
    if unknown := [name for name, label in labels.items() if label not in classes]:
        raise UserError(
            f"{namer.brain} never learned {list_labels(unknown, 12)}: it knows "
            f"{list_labels(classes, 12)}"
        )
    index = {label: i for i, label in enumerate(classes)}
    pictures = [
        Picture(str(path), path, index[labels[name]])
        for name, images in found.items()
        for path in images
    ]
    counts = np.zeros((len(classes), len(classes)), np.int64)
    for batch in namer.name(pictures):
        for picture, probabilities in batch:
            counts[picture.truth, probabilities.argmax()] += 1
    return judgement(counts, classes, [index[labels[name]] for name in found])
