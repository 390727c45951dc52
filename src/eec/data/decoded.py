"""Decoded image files, kept as one file that is mapped into memory and read where it is needed.

The cache of a folder lies in DATA_DIR/decoded and may be deleted at any time. It holds the pixels
[N, C, size, size], then a manifest in JSON, then the manifest's SHA-256 and length, and a magic.

It is believed only if it was made of the same files and is still what was written. The files are
the same if their stats are (path, size, times, inode); where these differ, as after a copy, a hash
over all contents decides. Every pixel is under a CRC-32, compared at each opening: this guards
against accidents, not against forgery. What is not believed is built anew.
"""

import errno
import hashlib
import json
import math
import mmap
import os
import re
import secrets
import shutil
import sys
import threading
import time
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import BinaryIO

import numpy as np
import PIL
import torch
from torch import Tensor

from eec.data.catalog import unseen
from eec.data.image_files import (
    Reading,
    Undecodable,
    channels_of,
    check_extent,
    map_in_threads,
    none_left,
    read_image,
    skipped_line,
)
from eec.errors import UserError

FOLDER = "decoded"  # in the data folder

_MAGIC = b"eec-px01"
_DECODER = f"Pillow {PIL.__version__}"
_END = 32 + 8 + len(_MAGIC)  # SHA-256 of the manifest, its length, magic
_BLOCK = 8 << 20  # bytes that are written and summed at once
_UNREADABLE = b"unreadable"  # in place of a digest
_NO_STATS = "0" * 64  # equals the stats of no files
_AT_REST = 2_000_000_000  # nanoseconds: the coarsest clock of a file system
_ABANDONED = 24 * 3600  # seconds without a write: the process that began this file is gone


@dataclass(frozen=True)
class Files:
    """Image files below a folder, in the order in which they are kept."""

    root: Path
    paths: Sequence[Path]
    size: int
    channels: int | None = None
    """None: grey if every file is, else RGB."""
    variant: str = ""
    """Tells caches of one folder and size apart, such as splits by different seeds."""

    def key(self) -> str:
        where = ascii(self.root.resolve())  # not every path can be written as UTF-8
        settings = [where, self.size, self.channels, self.variant]
        return hashlib.sha256(json.dumps(settings).encode()).hexdigest()

    def cache_name(self) -> str:
        """Not of the contents: a new cache takes the place of the old one."""
        readable = re.sub(r"[^A-Za-z0-9-]+", "_", self.root.resolve().name)[:40]
        return f"{readable}-{self.size}-{self.key()[:16]}.pixels"

    def within(self, path: Path) -> bytes:
        return os.fsencode(str(path).removeprefix(str(self.root)))


@dataclass(frozen=True)
class _Stats:
    digest: str
    at_rest: bool
    """Whether any later change would show: times tell nothing of what happens within a tick."""


@dataclass(frozen=True)
class _Manifest:
    key: str
    decoder: str
    """Two versions of Pillow may decode a file differently."""
    stats: str
    contents: str
    files: int
    size: int
    channels: int
    skipped: list[int]
    """Positions of the files that could not be decoded."""
    reasons: list[str]
    """Why, for each of them."""
    blocks: list[list[int]]
    """Length and CRC-32 of each stretch of pixels."""

    def shape(self) -> tuple[int, int, int, int]:
        return self.files - len(self.skipped), self.channels, self.size, self.size


def read_decoded(
    files: Files,
    data_dir: Path,
    *,
    strict: bool = False,
    progress: Callable[[int, int], None] = unseen,
) -> Reading:
    """As `read_images`, but the images are a map of the cache, which is built if need be."""
    check_extent(files.size, files.channels or 3)
    cache = data_dir / FOLDER / files.cache_name()
    _remove_abandoned(cache.parent)
    with ThreadPoolExecutor(1) as pool:  # both mostly wait for the system, and so do not wait twice
        looking = pool.submit(_stats, files)
        found = _open_whole(cache, files)
        stats = looking.result()
    if found is not None and not _is_of(files, stats, found[1], cache):
        found = None
    images, manifest = found or _build(cache, files, stats, strict, progress)
    if strict and manifest.skipped:
        raise Undecodable(files.paths[manifest.skipped[0]], manifest.reasons[0])
    skipped = set(manifest.skipped)
    kept = [i for i in range(len(files.paths)) if i not in skipped]
    return Reading(images, kept, _lines(files, manifest.skipped, manifest.reasons))


def _lines(files: Files, skipped: list[int], reasons: list[str]) -> list[str]:
    pairs = zip(skipped, reasons, strict=True)
    return [skipped_line(files.paths[i], why) for i, why in pairs]


def _remove_abandoned(folder: Path) -> None:
    with suppress(OSError):
        for path in folder.glob(".*.part"):
            if time.time() - path.stat().st_mtime > _ABANDONED:
                path.unlink()


def _stats(files: Files) -> _Stats:
    digest = hashlib.sha256()
    newest = 0
    for path in files.paths:
        try:
            s = path.stat()
        except OSError:
            facts = "none"
        else:
            facts = f"{s.st_size} {s.st_mtime_ns} {s.st_ctime_ns} {s.st_ino}"
            newest = max(newest, s.st_ctime_ns)
        digest.update(files.within(path) + f"\0{facts}\0".encode())
    return _Stats(digest.hexdigest(), newest < time.time_ns() - _AT_REST)


def _contents(files: Files) -> str:
    whole = hashlib.sha256()
    for path, digest in zip(files.paths, map_in_threads(_digest, files.paths), strict=True):
        whole.update(files.within(path) + b"\0" + digest)
    return whole.hexdigest()


def _digest(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return _digest_of(file)
    except OSError:
        return _UNREADABLE


def _digest_of(file: BinaryIO) -> bytes:
    return hashlib.file_digest(file, "sha256").digest()  # type: ignore[arg-type]


def _open_whole(cache: Path, files: Files) -> tuple[Tensor, _Manifest] | None:
    """None unless the cache is what was written for such files."""
    try:
        with cache.open("rb") as file:
            manifest = _read_manifest(file)
            if manifest is None or (manifest.key, manifest.decoder) != (files.key(), _DECODER):
                return None
            if not _pixels_are_whole(file, manifest):
                return None
            return _map(file, manifest), manifest
    except OSError:  # not there, or not for us to read
        return None


def _is_of(files: Files, stats: _Stats, manifest: _Manifest, cache: Path) -> bool:
    """Whether the cache was made of the files as they are now."""
    if stats.digest == manifest.stats:
        return True
    if _contents(files) != manifest.contents:
        return False
    if stats.at_rest:
        _refresh(cache, manifest, stats)
    return True


def _read_manifest(file: BinaryIO) -> _Manifest | None:
    length = file.seek(0, os.SEEK_END)
    file.seek(max(0, length - _END))
    end = file.read(_END)
    start = length - _END - int.from_bytes(end[32:40], "little")
    if end[40:] != _MAGIC or start < 0:
        return None
    file.seek(start)
    text = file.read(length - _END - start)
    if hashlib.sha256(text).digest() != end[:32]:
        return None
    try:
        manifest = _Manifest(**json.loads(text))
    except TypeError:  # it has other fields, in a version that is not this one
        return None
    return manifest if math.prod(manifest.shape()) == start else None


def _tail(manifest: _Manifest) -> bytes:
    text = json.dumps(asdict(manifest)).encode()
    return text + hashlib.sha256(text).digest() + len(text).to_bytes(8, "little") + _MAGIC


def _pixels_are_whole(file: BinaryIO, manifest: _Manifest) -> bool:
    """Read in turn, summed in two threads; through the map, all pages would count as memory."""
    reading = threading.Lock()

    def is_whole(start: int, length: int, crc: int) -> bool:
        with reading:
            file.seek(start)
            content = file.read(length)
        return zlib.crc32(content) == crc

    lengths, sums = zip(*manifest.blocks, strict=True)
    with ThreadPoolExecutor(2) as pool:
        return all(pool.map(is_whole, accumulate(lengths, initial=0), lengths, sums))


def _map(file: BinaryIO, manifest: _Manifest) -> Tensor:
    length = math.prod(manifest.shape())
    if sys.platform == "linux":
        # Unless told to set no memory aside (MAP_NORESERVE), the system refuses a map that could be
        # written to and is larger than the memory. Writes go to a copy, never to the cache.
        pages = mmap.mmap(file.fileno(), length, flags=mmap.MAP_PRIVATE | 0x4000)
    else:
        pages = mmap.mmap(file.fileno(), length, access=mmap.ACCESS_COPY)
    return torch.frombuffer(pages, dtype=torch.uint8).view(manifest.shape())


def _refresh(cache: Path, manifest: _Manifest, stats: _Stats) -> None:
    """Note the new stats of the same files. Torn by a power loss, it costs a rebuild."""
    with suppress(OSError), cache.open("r+b") as file:  # a cache that is read-only stays as it is
        if _read_manifest(file) == manifest:  # and no other process was quicker
            tail = _tail(replace(manifest, stats=stats.digest))
            file.seek(-len(tail), os.SEEK_END)
            file.write(tail)


def _build(
    cache: Path, files: Files, stats: _Stats, strict: bool, progress: Callable[[int, int], None]
) -> tuple[Tensor, _Manifest]:
    """Decode into a temporary file, which takes the name of the cache when it is complete."""
    channels = files.channels or channels_of(files.paths)
    needed = len(files.paths) * channels * files.size**2
    temporary = cache.with_name(f".{cache.name}.{secrets.token_hex(4)}.part")
    try:
        cache.parent.mkdir(parents=True, exist_ok=True)
        if needed > shutil.disk_usage(cache.parent).free:  # better now than in an hour
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        try:
            with temporary.open("x+b") as file:
                manifest = _decode(file, files, channels, stats, strict, progress)
                file.write(_tail(manifest))
                file.flush()
                os.fsync(file.fileno())
                images = _map(file, manifest)
            temporary.replace(cache)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise UserError(
            f"cannot keep the decoded images in {cache.parent} ({error.strerror or error}): they "
            f"take {needed:,} bytes; make room there, or name another folder with --data-dir"
        ) from error
    return images, manifest


def _decode(
    file: BinaryIO,
    files: Files,
    channels: int,
    stats: _Stats,
    strict: bool,
    progress: Callable[[int, int], None],
) -> _Manifest:
    """Write the pixels of all files, and tell what was written."""
    pixels = _Pixels(file, channels, files.size)
    contents = hashlib.sha256()
    skipped: list[int] = []
    reasons: list[str] = []

    def read(path: Path) -> tuple[bytes, np.ndarray | Undecodable]:
        return _read(path, files.size, channels)

    trusted = stats.at_rest
    for i, (digest, image) in enumerate(map_in_threads(read, files.paths)):
        trusted = trusted and digest != _UNREADABLE  # a disk that failed may do better next time
        contents.update(files.within(files.paths[i]) + b"\0" + digest)
        if isinstance(image, np.ndarray):
            pixels.add(image)
        elif strict:
            raise image
        else:
            skipped.append(i)
            reasons.append(image.why)
        progress(i + 1, len(files.paths))
    pixels.write()
    if len(skipped) == len(files.paths):
        lines = _lines(files, skipped, reasons)
        raise UserError(none_left(f"none of the {len(skipped):,} images in {files.root}", lines))
    if _stats(files).digest != stats.digest:
        raise UserError(
            f"files in {files.root} changed while they were read: try again when all are in place"
        )
    return _Manifest(
        key=files.key(),
        decoder=_DECODER,
        stats=stats.digest if trusted else _NO_STATS,
        contents=contents.hexdigest(),
        files=len(files.paths),
        size=files.size,
        channels=channels,
        skipped=skipped,
        reasons=reasons,
        blocks=pixels.blocks,
    )


def _read(path: Path, size: int, channels: int) -> tuple[bytes, np.ndarray | Undecodable]:
    digest = _UNREADABLE
    try:
        with path.open("rb") as file:
            digest = _digest_of(file)
            file.seek(0)
            return digest, read_image(file, size, channels)
    except Undecodable as error:
        return digest, error
    except OSError as error:
        return digest, Undecodable(path, error.strerror or str(error))


class _Pixels:
    """Writes images block by block, whatever their number."""

    def __init__(self, file: BinaryIO, channels: int, size: int) -> None:
        self.blocks: list[list[int]] = []
        self._file = file
        per_block = max(1, _BLOCK // (channels * size**2))
        self._block = np.empty((per_block, channels, size, size), np.uint8)
        self._filled = 0

    def add(self, image: np.ndarray) -> None:
        self._block[self._filled] = image
        self._filled += 1
        if self._filled == len(self._block):
            self.write()

    def write(self) -> None:
        """Write what has come in since the last block."""
        if self._filled:
            pixels = self._block[: self._filled].data
            self._file.write(pixels)
            self.blocks.append([pixels.nbytes, zlib.crc32(pixels)])
            self._filled = 0
