"""Image files: finding them in folders and decoding them, by one rule wherever images are read.

The rule: turn the image as its EXIF orientation says; lay what is transparent over white; make it
grey or RGB; scale the short side to `size` (bicubic, antialiased); take the square in the centre.
Sides and offsets are rounded as in `images.resize`, which does the same to images in memory; an
image that has this size already keeps its pixels. Pixels of 16 bits are divided by 257, so that
65535 becomes 255. Of an animation, the first frame counts. A large JPEG is decoded at 1/2, 1/4 or
1/8 of its size where at least 4 times `size` remains.
"""

import os
import re
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, TypeVar

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError
from torch import Tensor

from eec.data.catalog import unseen
from eec.data.decoding import has_grey_mode, pixels_of
from eec.data.images import CHANNELS, check_size
from eec.errors import UserError

FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "TIFF", "GIF")
SUFFIXES = frozenset(
    (".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".bmp", ".dib", ".tif", ".tiff", ".gif")
)
MOST_PIXELS = 89_478_485  # a quarter of a gigabyte in RGB; Pillow warns above it
NAMED = 3  # files that a notice lists before it only counts

_KINDS = f"{', '.join(FORMATS[:-1])} or {FORMATS[-1]}"
_UNFIT = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")  # control characters, and bytes not UTF-8
_ENDINGS = tuple(SUFFIXES)
_AT_ONCE = 8  # items that a thread takes: handing over one costs as much as opening a small image

Source = Path | BinaryIO
Item = TypeVar("Item")
Result = TypeVar("Result")


class Undecodable(UserError):
    """An image file that gives no image."""

    def __init__(self, name: object, why: str) -> None:
        super().__init__(f"{_shown(name)} cannot be decoded ({why}): replace or remove it")
        self.why = why


@dataclass(frozen=True, eq=False)
class Reading:
    """What came of a list of image files."""

    images: Tensor
    """uint8 [N, C, size, size]."""
    kept: list[int]
    """For each image, its position in the list of paths."""
    skipped: list[str]
    """Of the others, one line each: the path and why."""


def find_images(folder: Path) -> list[Path]:
    """Image files in a folder and those below it, in a fixed order; hidden ones are left out.

    Links to folders are followed, but no folder is entered twice: a loop of links ends there.
    """
    found = []
    seen = _itself_and_above(folder)
    waiting = [folder]
    while waiting:
        current = waiting.pop()
        below = []
        for entry in _entries(current):
            if not _is_folder(entry):
                if entry.name.lower().endswith(_ENDINGS) and _is_file(entry):
                    found.append(current / entry.name)
            elif (identity := _identity(entry.path)) not in seen:
                seen.add(identity)
                below.append(current / entry.name)
        waiting += reversed(below)
    return found


def find_classes(folder: Path) -> dict[str, list[Path]]:
    """For each sub-folder by name, class2 before class10, the images in it."""
    names = class_folders(folder)
    if not names:
        raise UserError(
            f"{folder} has no sub-folders: put the images of each class into one of its own, named "
            "as the class"
        )
    return {name: images_of_class(folder / name) for name in names}


def class_folders(folder: Path) -> list[str]:
    """Names of the sub-folders, numbers in them by value; hidden ones and loops are left out."""
    above = _itself_and_above(folder)
    names = [
        entry.name
        for entry in _entries(folder)
        if _is_folder(entry) and _identity(entry.path) not in above
    ]
    for name in names:
        if _UNFIT.search(name):
            raise UserError(
                f"a sub-folder of {folder} is called {name!a}: rename it, in UTF-8 and without "
                "control characters, since its name is the label of the class"
            )
    return sorted(names, key=_by_value)


def images_of_class(folder: Path) -> list[Path]:
    """As `find_images`, but at least one."""
    found = find_images(folder)
    if not found:
        raise UserError(
            f"the class folder {folder} has no {_KINDS} image: put some into it, or remove it"
        )
    return found


def read_image(source: Source, size: int, channels: int) -> np.ndarray:
    """The image as uint8 [channels, size, size], by the rule above."""
    check_extent(size, channels)
    return _opened(source, lambda image: pixels_of(image, size, channels))


def check_extent(size: int, channels: int) -> None:
    """Refuse what the nets could not work on."""
    check_size(size)
    if channels not in CHANNELS:
        raise UserError(f"{channels} channels: choose 1 (grey) or 3 (RGB)")


def is_grey(source: Source) -> bool:
    """Whether the file's header says so; a palette counts as colour."""
    return _opened(source, has_grey_mode)


def channels_of(paths: Iterable[Path]) -> int:
    """1 if every file that can be opened is grey, else 3."""
    grey = False
    for path in paths:
        with suppress(Undecodable):
            if not is_grey(path):
                return 3
            grey = True
    return 1 if grey else 3


def read_images(
    paths: Sequence[Path],
    size: int,
    channels: int,
    *,
    strict: bool = False,
    progress: Callable[[int, int], None] = unseen,
) -> Reading:
    """All images, in memory; what cannot be decoded is left out, or with `strict` refused."""
    if not paths:
        raise UserError("no image files were given: name at least one")
    check_extent(size, channels)

    def read(path: Path) -> np.ndarray | Undecodable:
        try:
            return read_image(path, size, channels)
        except Undecodable as error:
            return error

    images = torch.empty((len(paths), channels, size, size), dtype=torch.uint8)
    kept: list[int] = []
    skipped: list[str] = []
    for i, result in enumerate(map_in_threads(read, paths)):
        if isinstance(result, np.ndarray):
            images[len(kept)] = torch.from_numpy(result)
            kept.append(i)
        elif strict:
            raise result
        else:
            skipped.append(skipped_line(paths[i], result.why))
        progress(i + 1, len(paths))
    if not kept:
        raise UserError(none_left(f"none of the {len(paths)} images", skipped))
    return Reading(images[: len(kept)], kept, skipped)


def skipped_line(path: Path, why: str) -> str:
    return f"{_shown(path)} ({why})"


def skipped_notice(skipped: Sequence[str]) -> str:
    """One line that counts the images left out and names the first of them."""
    count = "1 image" if len(skipped) == 1 else f"{len(skipped):,} images"
    return f"left out {count} that cannot be decoded: {_listing(skipped)}"


def none_left(what: str, skipped: Sequence[str]) -> str:
    """The message where nothing of something could be decoded."""
    return f"{what} can be decoded: {_listing(skipped)}: replace the files"


def _shown(name: object) -> str:
    text = str(name)
    return text if text.isprintable() else ascii(text)  # a line break would break the notice


def _listing(lines: Sequence[str]) -> str:
    more = len(lines) - NAMED
    return "; ".join(lines[:NAMED]) + (f"; and {more:,} more" if more > 0 else "")


def map_in_threads(function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    """`function` of each item in order, on all cores; only a few results wait to be taken."""

    def several(part: Sequence[Item]) -> list[Result]:
        return [function(item) for item in part]

    threads = os.cpu_count() or 1
    with ThreadPoolExecutor(threads) as pool:
        under_way: deque[Future[list[Result]]] = deque()
        try:
            for start in range(0, len(items), _AT_ONCE):
                if len(under_way) == 2 * threads:
                    yield from under_way.popleft().result()
                under_way.append(pool.submit(several, items[start : start + _AT_ONCE]))
            while under_way:
                yield from under_way.popleft().result()
        finally:  # also when the one who asks has seen enough
            for future in under_way:
                future.cancel()


def _opened(source: Source, act: Callable[[Image.Image], Result]) -> Result:
    """`act` on the image whose header has been read; whatever goes wrong is Undecodable."""
    name = source if isinstance(source, Path) else getattr(source, "name", "the image")
    try:
        if isinstance(source, Path):
            with source.open("rb") as file:
                return _act(file, act)
        # A pipe cannot be rewound, which the decoders need.
        return _act(source if source.seekable() else BytesIO(source.read()), act)
    except UnidentifiedImageError:
        raise Undecodable(name, f"not a readable {_KINDS} file") from None
    except (_TooLarge, Image.DecompressionBombError):
        raise Undecodable(name, f"more than {MOST_PIXELS // 10**6} million pixels") from None
    except OSError as error:
        raise Undecodable(name, error.strerror or str(error)) from None
    # Decoders raise anything on malformed files: SyntaxError, struct.error, MemoryError, ...
    except Exception as error:
        why = " ".join(str(error).split())[:100] or type(error).__name__
        raise Undecodable(name, why) from None


class _TooLarge(Exception):
    pass


def _act(file: BinaryIO, act: Callable[[Image.Image], Result]) -> Result:
    file.seek(0)
    if not file.read(1):
        raise OSError("the file is empty")
    with _quiet, Image.open(file, formats=FORMATS) as image:
        if image.width * image.height > MOST_PIXELS:
            raise _TooLarge
        return act(image)


class _Quiet:
    """Silences Pillow, which warns of oddities in files that decode well.

    The filters of Python belong to the process and not to a thread: the first thread that comes
    sets them, the last one that goes puts them back.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._saved = warnings.catch_warnings()
                self._saved.__enter__()
                warnings.filterwarnings("ignore", module=r"PIL\b")

    def __exit__(self, *reason: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._saved.__exit__(None, None, None)


_quiet = _Quiet()


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """What is in a folder, sorted by name, without hidden things."""
    try:
        with os.scandir(folder) as entries:
            seen = [entry for entry in entries if not entry.name.startswith(".")]
    except FileNotFoundError:
        raise UserError(f"{folder} does not exist: correct the path") from None
    except NotADirectoryError:
        raise UserError(f"{folder} is not a folder: name the folder that holds it") from None
    except OSError as error:
        raise _unlisted(folder, error) from None
    return sorted(seen, key=lambda entry: entry.name)


def _unlisted(folder: object, error: OSError) -> UserError:
    return UserError(f"{folder} cannot be listed ({error.strerror}): give yourself the right to")


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself, or into a folder that is closed to us
        return False


def _is_file(entry: os.DirEntry[str]) -> bool:
    """A file, or a link to nothing, to be named later; no pipe or device, which never end."""
    try:
        return entry.is_file() or (entry.is_symlink() and not Path(entry.path).exists())
    except OSError:
        return True


def _identity(folder: str | Path) -> tuple[int, int]:
    try:
        status = Path(folder).stat()
    except OSError as error:
        raise _unlisted(folder, error) from None
    return status.st_dev, status.st_ino


def _itself_and_above(folder: Path) -> set[tuple[int, int]]:
    above = set()
    for path in (real := folder.resolve(), *real.parents):
        with suppress(UserError):  # where it is missing, the listing says so
            above.add(_identity(path))
    return above


def _by_value(name: str) -> tuple[list[str | int], str]:
    parts = re.split(r"([0-9]+)", name)
    return [int(part) if i % 2 else part for i, part in enumerate(parts)], name
