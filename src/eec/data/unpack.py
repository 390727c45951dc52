"""Unpacking the archives that data sets come in, without trusting them.

Only the members that a set needs are written, each under the name that this module gives it and up
to the size that is known for it. They are laid into a folder beside the final one, which is renamed
at the end: a set is unpacked whole or not at all.
"""

import gzip
import io
import re
import secrets
import shutil
import stat
import tarfile
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PureWindowsPath
from typing import IO, Literal

from eec.data.catalog import unseen
from eec.data.sources import TINY_IMAGENET_50
from eec.errors import UserError


@dataclass(frozen=True)
class Wanted:
    """A member of an archive that a set needs."""

    target: str  # its path in the folder of the set
    most: int  # bytes; no genuine one has more


_CIFAR10 = {
    f"cifar-10-batches-bin/{name}.bin": Wanted(f"{name}.bin", 30_730_000)
    for name in (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")
}
_CIFAR100 = {
    "cifar-100-binary/train.bin": Wanted("train.bin", 153_700_000),
    "cifar-100-binary/test.bin": Wanted("test.bin", 30_740_000),
}

_TINY = "tiny-imagenet-200"
_TINY_TRAIN, _TINY_VAL = 500, 50  # images a class
_ANNOTATIONS = f"{_TINY}/val/val_annotations.txt"
_SMALL_JPEG = 1 << 16  # 64x64 pixels take 2 to 3 kB

_SLACK = 1 << 26  # what a tar file may hold beside the wanted members
_CHUNK = 1 << 20


def unpack(
    name: str, archive: Path, folder: Path, progress: Callable[[int, int], None] = unseen
) -> None:
    """Lay the members of an archive that the set needs into its folder; what is there stays."""
    again = f"move it away, then `eec data get {name}` fetches it"
    try:
        plan = _plan(name, archive)
        with _staging(folder) as staging:
            _extract(_entries(archive, plan), plan, staging, progress)
            _lay(staging, folder)
    except UserError as error:
        raise UserError(f"{archive} is refused, it {error}: {again}") from None
    except Exception as error:  # on a damaged archive its readers stumble in whatever way
        if isinstance(error, OSError) and error.errno is not None:
            raise UserError(
                f"{archive} cannot be unpacked into {folder}: {error.strerror}; make room or "
                "choose another folder with --data-dir"
            ) from None
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UserError(f"{archive} is truncated or damaged ({reason}): {again}") from None


def _plan(name: str, archive: Path) -> Mapping[str, Wanted]:
    if name == "cifar10":
        return _CIFAR10
    if name == "cifar100":
        return _CIFAR100
    return _plan_of_tiny_imagenet(archive)


def _plan_of_tiny_imagenet(archive: Path) -> Mapping[str, Wanted]:
    """Training images have folders by class; of the others a list in the archive tells it."""
    classes = set(TINY_IMAGENET_50)
    plan = {}
    counts: Counter[str] = Counter()
    for line in _read_annotations(archive).splitlines():
        file, wnid, *_ = [*line.split("\t"), ""]
        if wnid in classes and re.fullmatch(r"val_\d{1,5}\.JPEG", file):
            plan[f"{_TINY}/val/images/{file}"] = Wanted(f"val/{wnid}/{file}", _SMALL_JPEG)
            counts[wnid] += 1
    if any(counts[wnid] != _TINY_VAL for wnid in classes):
        raise UserError(f"does not name {_TINY_VAL} images of each class in {_ANNOTATIONS}")
    for wnid in classes:
        for file in (f"{wnid}_{number}.JPEG" for number in range(_TINY_TRAIN)):
            name = f"{_TINY}/train/{wnid}/images/{file}"
            plan[name] = Wanted(f"train/{wnid}/{file}", _SMALL_JPEG)
    return plan


def _read_annotations(archive: Path) -> str:
    for entry in _zip_entries(archive):
        if entry.name == _ANNOTATIONS:
            content = io.BytesIO()
            _copy(entry, Wanted(entry.name, _CHUNK), content)
            return content.getvalue().decode("ascii")
    raise UserError(f"lacks {_ANNOTATIONS}")


@dataclass(frozen=True)
class _Entry:
    """What an archive says of a member."""

    name: str
    kind: Literal["file", "folder", "other"]
    open: Callable[[], IO[bytes] | None]


def _entries(archive: Path, plan: Mapping[str, Wanted]) -> Iterator[_Entry]:
    if archive.suffix == ".zip":
        return _zip_entries(archive)
    return _tar_entries(archive, _SLACK + sum(wanted.most for wanted in plan.values()))


class _Bounded(io.RawIOBase):
    """A stream that ends in an error where it grows beyond all that an archive should hold."""

    def __init__(self, stream: IO[bytes] | gzip.GzipFile, most: int) -> None:
        self.stream, self.left = stream, most

    def read(self, size: int = -1) -> bytes:
        content = self.stream.read(size)
        self.left -= len(content)
        if self.left < 0:
            raise UserError("holds far more than the data set has")
        return content


def _tar_entries(archive: Path, most: int) -> Iterator[_Entry]:
    with gzip.open(archive) as stream:
        bounded = _Bounded(stream, most)
        with tarfile.open(fileobj=bounded, mode="r|") as tar:
            for member in tar:
                plain = member.isreg() and not member.issparse()
                kind: Literal["file", "folder", "other"] = (
                    "file" if plain else "folder" if member.isdir() else "other"
                )
                # The stream stands at this member until the next one is asked for.
                yield _Entry(member.name, kind, partial(tar.extractfile, member))
        # tarfile may stop where it does not understand: only at its end gzip tells of damage.
        while bounded.read(_CHUNK):
            pass


def _zip_entries(archive: Path) -> Iterator[_Entry]:
    with zipfile.ZipFile(archive) as package:
        for info in package.infolist():
            mode = stat.S_IFMT(info.external_attr >> 16)
            kind: Literal["file", "folder", "other"] = "folder" if info.is_dir() else "file"
            if mode not in (0, stat.S_IFREG, stat.S_IFDIR):
                kind = "other"
            yield _Entry(info.filename, kind, partial(package.open, info))


def _extract(
    entries: Iterator[_Entry],
    plan: Mapping[str, Wanted],
    into: Path,
    progress: Callable[[int, int], None],
) -> None:
    done = set()
    # To the end, even if all is found: a bad path anywhere condemns the whole archive.
    for entry in entries:
        _refuse_escape(entry)
        wanted = plan.get(entry.name)
        if wanted is None or entry.kind == "folder":
            continue
        if entry.name in done:
            raise UserError(f"holds {entry.name} twice")
        with _new_file(into / wanted.target) as file:
            _copy(entry, wanted, file)
        done.add(entry.name)
        progress(len(done), len(plan))
    if missing := sorted(plan.keys() - done):
        more = f" and {len(missing) - 1:,} more" if len(missing) > 1 else ""
        raise UserError(f"lacks {missing[0]}{more}")


def _new_file(path: Path) -> IO[bytes]:
    try:
        return path.open("xb")
    except FileNotFoundError:  # the first in its folder
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("xb")


def _refuse_escape(entry: _Entry) -> None:
    path = PureWindowsPath(entry.name)  # knows both kinds of slashes, and drives
    if path.anchor or ".." in path.parts:
        raise UserError(f"holds {entry.name!r}, a path that climbs out of the folder")
    if entry.kind == "other":
        raise UserError(f"holds {entry.name!r}, a link or device in place of a file")


def _copy(entry: _Entry, wanted: Wanted, file: IO[bytes]) -> None:
    """Write a member, but never more of it than a genuine one has, whatever the archive says."""
    content = entry.open()
    assert content is not None, "only files are opened"
    written = 0
    with content:
        while chunk := content.read(_CHUNK):
            written += len(chunk)
            if written > wanted.most:
                raise UserError(f"holds {entry.name} with more than its {wanted.most:,} bytes")
            file.write(chunk)


@contextmanager
def _staging(folder: Path) -> Iterator[Path]:
    """An empty folder beside the given one, which is gone in the end."""
    staging = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.part")
    staging.mkdir(parents=True)
    try:
        yield staging
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _lay(staging: Path, folder: Path) -> None:
    if not folder.exists():
        staging.rename(folder)
        return
    for entry in sorted(staging.iterdir()):
        if not (folder / entry.name).exists():
            entry.rename(folder / entry.name)
