import io
import random
import struct
import tracemalloc
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.io import savemat

from eec.data.matlab import Damaged, read_numbers

NUMBERS = st.sampled_from(
    ["u1", "i1", "<u2", "<i2", "<u4", "<i4", "<u8", "<i8", "<f4", "<f8", ">f8", ">i2"]
)


def mat(*, packed: bool = False, **variables: Any) -> bytes:
    file = io.BytesIO()
    savemat(file, variables, do_compression=packed)
    return file.getvalue()


def read(content: bytes, *names: str) -> dict[str, np.ndarray]:
    return read_numbers(io.BytesIO(content), names)


def refusal(content: bytes, *names: str) -> str:
    with pytest.raises(Damaged) as caught:
        read(content, *names)
    return str(caught.value)


X = np.random.default_rng(0).integers(0, 256, (4, 5, 3, 7), dtype=np.uint8)
Y = np.arange(7.0)[:, None]
PLAIN = mat(X=X, y=Y)
PACKED = mat(packed=True, X=X, y=Y)
PIXELS = PLAIN.index(struct.pack("<II", 2, X.size))  # the tag before the numbers of X


@settings(deadline=None)
@given(
    array=hnp.arrays(NUMBERS, hnp.array_shapes(min_dims=2, max_dims=5, max_side=5)),
    name=st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,30}", fullmatch=True),
    packed=st.booleans(),
)
def test_what_scipy_writes_comes_back(array: np.ndarray, name: str, packed: bool) -> None:
    found = read(mat(packed=packed, **{name: array}), name)[name]
    assert found.dtype == array.dtype.newbyteorder("<")
    assert found.shape == array.shape
    assert found.tobytes() == array.astype(found.dtype).tobytes()


def test_more_than_is_read_at_a_time() -> None:
    large = np.random.default_rng(0).integers(0, 2**32, (3, 300_001), dtype=np.uint32)
    for packed in (False, True):
        assert np.array_equal(read(mat(packed=packed, a=large), "a")["a"], large)


def test_an_array_without_numbers() -> None:
    assert read(mat(a=np.empty((0, 3))), "a")["a"].shape == (0, 3)


def test_the_others_are_passed_over() -> None:
    cell = np.empty((1, 2), dtype=object)
    cell[:] = "text"
    for packed in (False, True):
        content = mat(packed=packed, c=cell, s={"a": 1}, t="text", l=Y > 3, z=Y + 1j, X=X, w=Y)
        assert list(read(content, "X")) == ["X"]


def test_kinds_without_a_name_are_passed_over() -> None:
    """Functions and the like: after their flags nothing is as in other variables."""
    body = struct.pack("<IIII", 6, 8, 17, 0) + b"anything"
    content = PLAIN[:128] + struct.pack("<II", 14, len(body)) + body + PLAIN[128:]
    assert np.array_equal(read(content, "X")["X"], X)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (np.empty((1, 1), dtype=object), "cell"),
        ({"a": 1}, "struct"),
        ("text", "char"),
        (Y > 3, "logical"),
        (Y + 1j, "complex"),
    ],
)
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
def test_only_real_numbers_are_read(value: Any, kind: str, packed: bool) -> None:
    if kind == "cell":
        value[:] = "text"
    message = refusal(mat(packed=packed, v=value), "v")
    assert message == f"is another file, its v is {kind} in place of real numbers"


def changed(place: int, value: bytes, content: bytes = PLAIN) -> bytes:
    return content[:place] + value + content[place + len(value) :]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (PLAIN[:127], "is truncated, damaged or not a MATLAB 5 file"),
        (bytes(200), "is truncated, damaged or not a MATLAB 5 file"),
        (b"\x89HDF\r\n\x1a\n" + bytes(200), "is truncated, damaged or not a MATLAB 5 file"),
        (changed(124, b"\x01\x00MI"), "is truncated, damaged or not a MATLAB 5 file"),
        (changed(124, b"\x00\x02IM"), "is a MATLAB 7.3 file (HDF5), which is not read"),
        (PLAIN[:128], "is truncated or another file, it has no variable X"),
        (PLAIN[:130], "is truncated"),
        (PLAIN[:300], "is truncated"),
        (PACKED[:-3], "is truncated"),
        (changed(128, b"\x07"), "is damaged, type 7 stands where a variable should"),
        (changed(136, b"\x05"), "is damaged, 8 bytes of type 5 are in a variable's header"),
        (changed(156, b"\x90\x01"), "is damaged, 400 bytes of type 5 are in a variable's header"),
        (changed(160, struct.pack("<i", -4)), "is damaged, its X has the shape [-4, 5, 3, 7]"),
        (changed(160, struct.pack("<i", 9)), "is damaged, its X has 420 bytes for 945 numbers"),
        (changed(154, b"\x09"), "is damaged, 9 bytes are said to be in 4"),
        (changed(PIXELS, b"\x08"), "is damaged, the numbers of its X are of type 8"),
        (changed(PIXELS, b"\x02\x01"), "is damaged, the numbers of its X are of type 258"),
        (changed(PIXELS, b"\x03"), "is damaged, its X has 420 bytes for 420 numbers"),
        (PLAIN + PLAIN[128:], "is damaged, it has two variables X"),
        (changed(136, b"\0\0", PACKED), "is damaged (Error -3 while decompressing data"),
    ],
)
def test_damage_is_named(content: bytes, message: str) -> None:
    assert refusal(content, "X", "y").startswith(message)


def test_a_wrong_checksum_of_packed_numbers() -> None:
    (size,) = struct.unpack("<I", PACKED[132:136])
    last = 136 + size - 1
    content = changed(last, bytes([PACKED[last] ^ 1]), PACKED)
    assert refusal(content, "X").startswith("is damaged (Error -3")


def test_packed_content_that_goes_on_behind_its_end() -> None:
    (size,) = struct.unpack("<I", PACKED[132:136])
    longer = zlib.compress(zlib.decompress(PACKED[136 : 136 + size]) + bytes(100))
    content = PACKED[:132] + struct.pack("<I", len(longer)) + longer
    assert refusal(content, "X") == "has trailing bytes"


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
def test_a_false_size_costs_no_memory(packed: bool) -> None:
    """Shape and size agree on 3 GB, of which a few bytes are there."""
    content = changed(160, struct.pack("<4i", 2**16, 2**14, 1, 3))
    content = changed(PIXELS + 4, struct.pack("<I", 3 * 2**30), content)
    if packed:
        body = zlib.compress(content[128:])
        content = content[:128] + struct.pack("<II", 15, len(body)) + body
    tracemalloc.start()
    try:
        assert refusal(content, "X") == "is truncated"
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


@settings(deadline=None, max_examples=500)
@given(seed=st.integers(0, 2**32), packed=st.booleans())
def test_nothing_else_comes_of_any_damage(seed: int, packed: bool) -> None:
    """Some bytes are changed, most of them in the headers, and the end may be cut off."""
    rng = random.Random(seed)
    content = bytearray(PACKED if packed else PLAIN)
    for _ in range(rng.choice([1, 2, 5])):
        place = rng.choice([rng.randrange(124, 210), rng.randrange(len(content))])
        content[place] = rng.choice([0, 1, 14, 15, 255, rng.randrange(256)])
    if rng.random() < 0.3:
        del content[rng.randrange(len(content)) :]
    try:
        said, found = "", read(bytes(content), "X", "y")
    except Damaged as error:
        said, found = str(error), {}
    assert "\n" not in said
    assert all(array.dtype.kind in "iuf" for array in found.values())
    assert bool(said) != bool(found)
