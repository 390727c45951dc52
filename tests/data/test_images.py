from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from eec.data import images as images_module
from eec.data.images import as_images, check_images, resize
from eec.errors import UserError

RNG = np.random.default_rng(0)
RGB = RNG.integers(0, 256, (5, 3, 10, 12), dtype=np.uint8)  # NCHW
GREY = RNG.integers(0, 256, (4, 9, 8), dtype=np.uint8)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (RGB, RGB),
        (torch.from_numpy(RGB), RGB),
        (RGB.transpose(0, 2, 3, 1), RGB),
        (torch.from_numpy(RGB).permute(0, 2, 3, 1), RGB),
        (torch.from_numpy(RGB).contiguous(memory_format=torch.channels_last), RGB),
        (RGB[:, :, ::-1], RGB[:, :, ::-1].copy()),
        (GREY, GREY[:, None]),
        (GREY[:3], GREY[:3, None]),
        (GREY[:, None], GREY[:, None]),
        (GREY[..., None], GREY[:, None]),
        (RGB / 255, RGB),
        ((RGB / 255).astype(">f4"), RGB),
        ((RGB / 255).astype(np.longdouble), RGB),
        ((GREY / 255).astype(np.float16), GREY[:, None]),
        (torch.from_numpy(RGB / 255).float().requires_grad_(), RGB),
    ],
)
def test_usual_forms_become_uint8_nchw(values: Any, expected: np.ndarray) -> None:
    images = as_images(values)
    assert images.dtype == torch.uint8
    assert images.is_contiguous()
    assert np.array_equal(images.numpy(), expected)


def test_read_only_input_is_accepted_without_a_warning() -> None:
    frozen = RGB.copy()
    frozen.setflags(write=False)
    assert np.array_equal(as_images(frozen).numpy(), RGB)


@pytest.mark.parametrize("wrap", [np.array, torch.tensor])
def test_images_have_their_own_memory(wrap: Any) -> None:
    source = wrap(RGB)
    images = as_images(source)
    source[:] = 0
    assert np.array_equal(images.numpy(), RGB)


def test_floats_are_rounded_not_cut() -> None:
    values = np.full((1, 8, 8), 0.999)
    assert as_images(values).unique().tolist() == [255]


def with_value(value: float) -> np.ndarray:
    values = np.full((3, 8, 8), 0.5, np.float32)
    values[1, 2, 3] = value
    return values


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (with_value(np.nan), r"pictures\[1\] holds NaN"),
        (with_value(255), r"pictures\[1\] holds 255, .*pass uint8 for 0..255"),
        (with_value(-0.25), r"pictures\[1\] holds -0.25, .*scale the floats to 0..1"),
        (with_value(np.inf), r"pictures\[1\] holds inf"),
        (RGB.astype(np.int64), "pictures has dtype int64: convert to uint8"),
        (torch.from_numpy(RGB).int(), "pictures has dtype torch.int32: convert to uint8"),
        (RGB > 9, "pictures has dtype bool: convert to uint8"),
        (GREY.astype(object), "pictures has dtype object: convert to uint8"),
        (GREY[0], r"a single image: pass a batch, pictures\[None\]"),
        (RGB[0].transpose(1, 2, 0), r"a single image: pass a batch, pictures\[None\]"),
        (RGB[:0], "pictures holds no images"),
        (GREY[:0], "pictures holds no images"),
        (np.zeros((2, 3, 9, 3), np.uint8), "could both be the channels"),
        (np.zeros((2, 4, 9, 9), np.uint8), "channels must be 1 .grey. or 3 .RGB."),
        (np.zeros((2, 9, 9, 4), np.uint8), "channels must be 1 .grey. or 3 .RGB."),
        (np.zeros((1, 2, 3, 9, 9), np.uint8), r"pass \[N, H, W\]"),
        (np.zeros(9, np.uint8), r"pass \[N, H, W\]"),
        (np.zeros((2, 1, 7, 9), np.uint8), "are 7x9 pixels: enlarge them to at least 8x8"),
        (np.zeros((2, 9, 7), np.uint8), "are 9x7 pixels: enlarge them to at least 8x8"),
        ([GREY[0], GREY[1]], "pictures is a list: .*np.stack"),
        (None, "pictures is a NoneType"),
    ],
)
def test_bad_images_are_refused_in_one_line(values: Any, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        as_images(values, name="pictures")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (torch.zeros(2, 1, 8, 8), "need a uint8 tensor"),
        (torch.zeros(2, 8, 8, dtype=torch.uint8), "need a uint8 tensor"),
        (RGB, "need a uint8 tensor"),
        (torch.zeros(2, 2, 8, 8, dtype=torch.uint8), "has 2 channels"),
        (torch.zeros(0, 1, 8, 8, dtype=torch.uint8), "holds no images"),
        (torch.zeros(2, 1, 8, 4, dtype=torch.uint8), "are 8x4 pixels"),
    ],
)
def test_check_images_refuses_what_is_not_a_batch(images: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        check_images(images)


@settings(deadline=None)
@given(
    size=st.integers(8, 40),
    height=st.integers(8, 40),
    width=st.integers(8, 40),
    value=st.integers(0, 255),
)
def test_resize_gives_squares_and_keeps_flat_images_flat(
    size: int, height: int, width: int, value: int
) -> None:
    flat = torch.full((2, 3, height, width), value, dtype=torch.uint8)
    out = resize(flat, size)
    assert out.shape == (2, 3, size, size)
    assert out.dtype == torch.uint8
    assert out.unique().tolist() == [value]


def test_resize_leaves_the_right_size_alone() -> None:
    square = torch.from_numpy(RGB[:, :, :, :10].copy())
    assert resize(square, 10) is square


def test_resize_crops_the_centre_when_the_short_side_fits() -> None:
    out = resize(torch.from_numpy(RGB), 10)
    assert np.array_equal(out.numpy(), RGB[:, :, :, 1:11])


def test_resize_does_not_wrap_around_at_sharp_edges() -> None:
    edge = torch.zeros(1, 1, 8, 8, dtype=torch.uint8)
    edge[..., 4:] = 255
    out = resize(edge, 32)
    assert out[..., :14].max() < 40  # bicubic undershoots here: wrapped, it would be near 255
    assert out[..., 18:].min() > 215


def test_resize_antialiases_when_it_shrinks() -> None:
    stripes = torch.zeros(1, 1, 32, 32, dtype=torch.uint8)
    stripes[..., ::2] = 255
    inner = resize(stripes, 8)[..., 1:-1].float()
    assert inner.sub(127.5).abs().max() < 15


def test_resize_is_the_same_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = torch.from_numpy(RGB)
    whole = resize(batch, 16)
    monkeypatch.setattr(images_module, "_RESIZE_BATCH", 2)
    assert torch.equal(resize(batch, 16), whole)
    expected = functional.interpolate(batch.float(), (16, 19), mode="bicubic", antialias=True)
    expected = expected.round().clamp(0, 255).to(torch.uint8)[..., 1:17]
    assert torch.equal(whole, expected)


def test_resize_refuses_tiny_sizes() -> None:
    with pytest.raises(UserError, match="size is 4: use 8 to 4096 pixels a side"):
        resize(torch.from_numpy(RGB), 4)
