import gzip
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from eec.data.idx import read_idx
from eec.errors import UserError


def idx_bytes(array: np.ndarray) -> bytes:
    return (
        bytes([0, 0, 8, array.ndim])
        + struct.pack(f">{array.ndim}I", *array.shape)
        + array.tobytes()
    )


ARRAY = np.random.default_rng(0).integers(0, 256, (5, 9, 7), dtype=np.uint8)
GOOD = idx_bytes(ARRAY)
PACKED = gzip.compress(GOOD, mtime=0)  # ids of tests have it: no time of day


@settings(deadline=None)
@given(
    array=hnp.arrays(np.uint8, hnp.array_shapes(min_dims=1, max_dims=4, max_side=6)),
    compressed=st.booleans(),
)
def test_arrays_come_back(
    array: np.ndarray, compressed: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "array"
    path.write_bytes(gzip.compress(idx_bytes(array)) if compressed else idx_bytes(array))
    read = read_idx(path)
    assert read.dtype == np.uint8
    assert np.array_equal(read, array)


def altered(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is truncated: 0 bytes, no header"),
        (GOOD[:3], "is truncated: 3 bytes, no header"),
        (GOOD[:10], "is truncated inside its header"),
        (GOOD[:-1], "is truncated: its header promises 315 bytes, 314 are there"),
        (
            gzip.compress(GOOD[:-1], mtime=0),
            "is truncated: its header promises 315 bytes, 314 are there",
        ),
        (GOOD + b"x", "has trailing bytes after the 315"),
        (gzip.compress(GOOD + b"x", mtime=0), "has trailing bytes after the 315"),
        (PACKED + PACKED, "has trailing bytes after the 315"),
        (PACKED + b"rest", "is corrupt gzip data"),
        (PACKED[:-20], "is truncated inside its gzip data"),
        (PACKED[:6], "is truncated inside its gzip data"),
        (altered(PACKED, len(PACKED) // 2), "is corrupt gzip data"),
        (altered(PACKED, len(PACKED) - 6), "is corrupt gzip data .CRC"),
        (b"<html>not found</html>", "is not an IDX file of unsigned bytes .it starts with 3c 68"),
        (b"\0\0\x0d\x01" + bytes(8), "is not an IDX file of unsigned bytes"),
        (b"\0\0\x08\0" + bytes(8), "is not an IDX file of unsigned bytes"),
        (b"\0\0\x08\xff" + bytes(2000), "is not an IDX file of unsigned bytes"),
        (b"\0\0\x08\x02" + struct.pack(">2I", 0, 5), r"is empty: .* \[0, 5\]"),
    ],
)
def test_bad_files_are_refused_in_one_line(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "some-idx3-ubyte"
    path.write_bytes(content)
    with pytest.raises(UserError, match=message) as caught:
        read_idx(path)
    assert str(path) in str(caught.value)
    assert str(caught.value).endswith("fetch the file again")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("compressed", [False, True])
def test_a_hostile_header_costs_no_memory(compressed: bool, tmp_path: Path) -> None:
    content = b"\0\0\x08\x04" + struct.pack(">4I", *[0xFFFFFFFF] * 4) + bytes(100)
    path = tmp_path / "hostile"
    path.write_bytes(gzip.compress(content) if compressed else content)
    tracemalloc.start()
    try:
        with pytest.raises(UserError, match=r"is truncated: .* 100 are there"):
            read_idx(path)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_no_more_is_read_than_promised(tmp_path: Path) -> None:
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(b"\0\0\x08\x01" + struct.pack(">I", 10) + bytes(50 << 20), 1))
    tracemalloc.start()
    try:
        with pytest.raises(UserError, match="trailing bytes after the 10"):
            read_idx(path)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_missing_file_and_folder_in_its_place(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nothing-here does not exist"):
        read_idx(tmp_path / "nothing-here")
    with pytest.raises(UserError, match=r"cannot be read \(Is a directory"):
        read_idx(tmp_path)
