"""Numbers from MATLAB 5 files (as MATLAB saves them with -v6 or -v7).

Not with scipy, whose reader builds objects of many kinds and takes the whole process down where a
damaged file names a type of number that does not exist. Here only arrays of real numbers are read.
"""

import math
import os
import struct
import zlib
from collections.abc import Collection
from typing import BinaryIO

import numpy as np

_HEADER = 128  # bytes: text, then the version and the order of bytes
_VERSION_5 = b"\x00\x01IM"
_VERSION_7_3 = b"\x00\x02IM"

# The types of the elements that a file is made of; numbers may be stored in fewer bytes than the
# array that they are meant for has.
_INT8, _INT32, _UINT32, _MATRIX, _COMPRESSED = 1, 5, 6, 14, 15
_STORED = {
    1: "<i1", 2: "<u1", 3: "<i2", 4: "<u2", 5: "<i4", 6: "<u4", 7: "<f4", 9: "<f8", 12: "<i8",
    13: "<u8",
}  # fmt: skip

_CLASSES = {
    1: "cell", 2: "struct", 3: "object", 4: "char", 5: "sparse",
    6: "double", 7: "single", 8: "int8", 9: "uint8", 10: "int16", 11: "uint16", 12: "int32",
    13: "uint32", 14: "int64", 15: "uint64",
}  # fmt: skip
_FIRST_NUMBER = 6
_LOGICAL, _COMPLEX = 0x200, 0x800

_CHUNK = 1 << 18
_LONGEST = 256  # bytes of a shape or a name
_PADDING = 8
_DENSEST = 1032  # bytes that deflate can put into one, at best


class Damaged(Exception):
    """What is wrong with a file, as the end of a sentence that starts with its name."""


def read_numbers(file: BinaryIO, names: Collection[str]) -> dict[str, np.ndarray]:
    """The variables of these names, in MATLAB's order of memory; all others are passed over."""
    length = file.seek(0, os.SEEK_END)
    file.seek(0)
    _check_header(file.read(_HEADER))
    found: dict[str, np.ndarray] = {}
    while tag := file.read(8):
        if len(tag) < 8:
            raise Damaged("is truncated")
        kind, size = struct.unpack("<II", tag)
        end = file.tell() + size
        content = _Content(file, min(end, length) - file.tell(), packed=kind == _COMPRESSED)
        if kind == _COMPRESSED:
            kind, _ = struct.unpack("<II", content.read(8))
        if kind != _MATRIX:
            raise Damaged(f"is damaged, type {kind} stands where a variable should")
        variable = _read_variable(content, names)
        if variable is not None:
            name, array = variable
            if name in found:
                raise Damaged(f"is damaged, it has two variables {name}")
            found[name] = array
        file.seek(end)
    for name in names:
        if name not in found:
            raise Damaged(f"is truncated or another file, it has no variable {name}")
    return found


def _check_header(header: bytes) -> None:
    if header.endswith(_VERSION_7_3):
        raise Damaged("is a MATLAB 7.3 file (HDF5), which is not read; in MATLAB, save with -v7")
    if not header:
        raise Damaged("is empty")
    if len(header) < _HEADER or not header.endswith(_VERSION_5):
        raise Damaged("is truncated, damaged or not a MATLAB 5 file")


class _Content:
    """The bytes of one variable, unpacked if they are packed, and never more than asked for."""

    def __init__(self, file: BinaryIO, size: int, *, packed: bool) -> None:
        self.most = size * _DENSEST if packed else size
        self._file = file
        self._left = size
        self._inflater = zlib.decompressobj() if packed else None

    def read(self, count: int) -> bytes:
        content = self._inflate(count) if self._inflater else self._take(count)
        if len(content) < count:
            raise Damaged("is truncated")
        return content

    def check_end(self) -> None:
        """Of packed content: its checksum is seen only when its end is reached."""
        if self._inflater:
            rest = self._inflate(_PADDING)
            if not self._inflater.eof:
                raise Damaged("is truncated" if len(rest) < _PADDING else "has trailing bytes")

    def _take(self, count: int) -> bytes:
        content = self._file.read(min(count, self._left))
        self._left -= len(content)
        return content

    def _inflate(self, count: int) -> bytes:
        assert self._inflater
        content = bytearray()
        while len(content) < count and not self._inflater.eof:
            source = self._inflater.unconsumed_tail or self._take(_CHUNK)
            try:
                part = self._inflater.decompress(source, count - len(content))
            except zlib.error as error:
                raise Damaged(f"is damaged ({error})") from None
            if not source and not part:
                break
            content += part
        return bytes(content)


def _read_variable(content: _Content, names: Collection[str]) -> tuple[str, np.ndarray] | None:
    """Its name and numbers, or None if it is not among the names."""
    flags, _ = struct.unpack("<II", _read_element(content, _UINT32, 8))
    kind = _CLASSES.get(flags & 0xFF)
    if kind is None:  # functions and the like, which go on in another way
        return None
    sizes = _read_element(content, _INT32)
    shape = struct.unpack(f"<{len(sizes) // 4}i", sizes[: len(sizes) // 4 * 4])
    name = _read_element(content, _INT8).decode("latin-1")
    if name not in names:
        return None
    if flags & _LOGICAL:
        kind = "logical"
    if flags & _COMPLEX:
        kind = "complex"
    if kind in ("logical", "complex") or flags & 0xFF < _FIRST_NUMBER:
        raise Damaged(f"is another file, its {name} is {kind} in place of real numbers")
    if len(shape) < 2 or min(shape) < 0:
        raise Damaged(f"is damaged, its {name} has the shape {list(shape)}")
    array = _read_array(content, name, math.prod(shape))
    content.check_end()
    return name, array.reshape(shape, order="F")


def _read_element(content: _Content, wanted: int, size: int | None = None) -> bytes:
    """A short element of a type, and of a size if that is known."""
    kind, count, small = _read_tag(content)
    if kind != wanted or count > _LONGEST or size not in (None, count):
        raise Damaged(f"is damaged, {count} bytes of type {kind} are in a variable's header")
    return content.read(count + -count % _PADDING)[:count] if small is None else small


def _read_tag(content: _Content) -> tuple[int, int, bytes | None]:
    """Type and size of an element, and what it holds if that is small enough to stand here."""
    tag = content.read(8)
    kind, size = struct.unpack("<HH", tag[:4])
    if size:
        if size > 4:
            raise Damaged(f"is damaged, {size} bytes are said to be in 4")
        return kind, size, tag[4 : 4 + size]
    kind, size = struct.unpack("<II", tag)
    return kind, size, None


def _read_array(content: _Content, name: str, total: int) -> np.ndarray:
    kind, size, small = _read_tag(content)
    if kind not in _STORED:
        raise Damaged(f"is damaged, the numbers of its {name} are of type {kind}")
    dtype = np.dtype(_STORED[kind])
    if size != total * dtype.itemsize:
        raise Damaged(f"is damaged, its {name} has {size:,} bytes for {total:,} numbers")
    if size > content.most:  # before memory is set aside for it
        raise Damaged("is truncated")
    array = np.empty(total, dtype)
    target = array.view(np.uint8).data
    if small is not None:
        target[:] = small
        return array
    for start in range(0, size, _CHUNK):
        part = target[start : start + _CHUNK]
        part[:] = content.read(len(part))
    return array
