"""Images in memory: uint8 tensors [N, C, H, W] with C = 1 (grey) or 3 (RGB)."""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from eec.errors import UserError

CHANNELS = (1, 3)
SMALLEST = 8  # pixels; below it the nets have nothing left to look at
LARGEST = 4096  # above it one batch would not fit into any memory

_RESIZE_BATCH = 2048  # bounds the float32 copies while a whole data set is resized


def as_images(values: Any, *, name: str = "images") -> Tensor:
    """A batch of images in any usual form as a uint8 tensor [N, C, H, W] of its own memory.

    Accepts numpy and torch, uint8 or float in 0..1, shapes [N, H, W] (grey), [N, H, W, C] and
    [N, C, H, W]. Three dimensions are always [N, H, W], so [3, H, W] is three grey images.
    """
    tensor = _channels_first(_as_tensor(values, name), name)
    if tensor.dtype == torch.uint8:
        return tensor.clone(memory_format=torch.contiguous_format)
    return _from_unit_floats(tensor, name)


def check_images(images: Tensor, *, name: str = "images") -> None:
    """Refuse what is not a filled uint8 batch [N, C, H, W]."""
    if not isinstance(images, Tensor) or images.dtype != torch.uint8 or images.ndim != 4:
        raise UserError(f"{name}: need a uint8 tensor [N, C, H, W]; as_images() makes one")
    if images.shape[1] not in CHANNELS:
        raise UserError(f"{name} has {images.shape[1]} channels: convert it to grey (1) or RGB (3)")
    _check_extent(images, name)


def check_size(size: int) -> None:
    if not SMALLEST <= size <= LARGEST:
        raise UserError(f"size is {size}: use {SMALLEST} to {LARGEST} pixels a side")


def resize(images: Tensor, size: int) -> Tensor:
    """Short side to `size`, then the square in the centre; no change if it is that already."""
    check_size(size)
    height, width = images.shape[2:]
    if height == width == size:
        return images
    scale = size / min(height, width)
    target = (max(size, round(height * scale)), max(size, round(width * scale)))
    out = torch.empty((*images.shape[:2], size, size), dtype=torch.uint8)
    for start in range(0, len(images), _RESIZE_BATCH):
        part = _interpolate(images[start : start + _RESIZE_BATCH], target)
        out[start : start + _RESIZE_BATCH] = centre(part, size, size)
    return out


def centre(images: Tensor, height: int, width: int) -> Tensor:
    """The part of that size in the middle: a view."""
    top, left = (images.shape[2] - height) // 2, (images.shape[3] - width) // 2
    return images[:, :, top : top + height, left : left + width]


def _interpolate(images: Tensor, target: tuple[int, int]) -> Tensor:
    if target == tuple(images.shape[2:]):
        return images
    pixels = functional.interpolate(images.float(), target, mode="bicubic", antialias=True)
    return pixels.round_().clamp_(0, 255).to(torch.uint8)  # bicubic overshoots at edges


def _as_tensor(values: Any, name: str) -> Tensor:
    if isinstance(values, Tensor):
        if values.dtype != torch.uint8 and not values.dtype.is_floating_point:
            raise _wrong_dtype(name, values.dtype)
        return values.detach().cpu()
    if not isinstance(values, np.ndarray):
        raise UserError(
            f"{name} is a {type(values).__name__}: pass one numpy array or torch tensor "
            "(np.stack makes one of a list)"
        )
    if values.dtype != np.uint8 and values.dtype.kind != "f":
        raise _wrong_dtype(name, values.dtype)
    dtype: type = np.uint8
    if values.dtype.kind == "f":
        dtype = np.float64 if values.dtype.itemsize >= 8 else np.float32
    # torch takes neither reversed, foreign-endian nor read-only memory
    return torch.from_numpy(np.require(values, dtype, ["C", "W"]))


def _wrong_dtype(name: str, dtype: object) -> UserError:
    return UserError(
        f"{name} has dtype {dtype}: convert to uint8 (0..255), or to float scaled to 0..1"
    )


def _channels_first(images: Tensor, name: str) -> Tensor:
    shape = tuple(images.shape)
    if images.ndim == 2 or (images.ndim == 3 and shape[2] in CHANNELS):
        raise UserError(
            f"{name} has shape {shape}, a single image: pass a batch, {name}[None] makes one of it"
        )
    if images.ndim == 3:
        images = images[:, None]
    elif images.ndim != 4:
        raise UserError(f"{name} has shape {shape}: pass [N, H, W], [N, H, W, C] or [N, C, H, W]")
    else:
        first, last = shape[1] in CHANNELS, shape[3] in CHANNELS
        if first and last:
            raise UserError(
                f"{name} has shape {shape}, where dimension 1 and dimension 3 could both be the "
                f"channels: pass images of at least {SMALLEST}x{SMALLEST} pixels"
            )
        if not first and not last:
            raise UserError(
                f"{name} has shape {shape}: channels must be 1 (grey) or 3 (RGB); "
                "convert to one of them and pass [N, H, W, C] or [N, C, H, W]"
            )
        images = images.permute(0, 3, 1, 2) if last else images
    _check_extent(images, name)
    return images


def _check_extent(images: Tensor, name: str) -> None:
    count, _, height, width = images.shape
    if count == 0:
        raise UserError(f"{name} holds no images: pass at least one")
    if min(height, width) < SMALLEST:
        raise UserError(
            f"{name} are {height}x{width} pixels: enlarge them to at least {SMALLEST}x{SMALLEST}"
        )


def _from_unit_floats(images: Tensor, name: str) -> Tensor:
    if images.dtype not in (torch.float32, torch.float64):
        images = images.float()  # 255 * x needs more bits than a half has
    low, high = (bound.item() for bound in images.aminmax())
    if not (low >= 0 and high <= 1):  # also when they are NaN
        raise _out_of_range(images, name)
    pixels = torch.mul(images, 255).round_()
    return pixels.to(torch.uint8, memory_format=torch.contiguous_format)


def _out_of_range(images: Tensor, name: str) -> UserError:
    bad = ~((images >= 0) & (images <= 1))
    place = int(bad.flatten(1).any(1).nonzero()[0])
    value = images[place][bad[place]][0].item()
    if math.isnan(value):
        return UserError(f"{name}[{place}] holds NaN: replace or drop such pixels")
    return UserError(
        f"{name}[{place}] holds {value:g}, but floats must lie in 0..1: "
        "pass uint8 for 0..255, or scale the floats to 0..1"
    )
