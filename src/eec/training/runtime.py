"""Where and how exactly to compute: device, precision, and seeded beginnings."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TypeVar

import torch

from eec.errors import UserError

Net = TypeVar("Net", bound=torch.nn.Module)

DEVICES = ("auto", "cpu", "cuda", "mps")
PRECISIONS = ("auto", "float32", "bf16")


@dataclass(frozen=True)
class Runtime:
    device: torch.device
    precision: str  # float32 or bf16

    def place(self, net: Net) -> Net:
        """Move a net to the device, in the layout in which convolutions are fastest."""
        return net.to(self.device).to(memory_format=torch.channels_last)  # type: ignore[no-any-return, call-overload]

    def autocast(self) -> AbstractContextManager[object]:
        return torch.autocast(
            self.device.type, dtype=torch.bfloat16, enabled=self.precision == "bf16"
        )


def choose_runtime(device: str = "auto", precision: str = "auto") -> Runtime:
    """The fastest device at hand, and bf16 only where the hardware computes it natively."""
    if device not in DEVICES:
        raise UserError(f"unknown device {device!r}: choose one of {', '.join(DEVICES)}")
    if precision not in PRECISIONS:
        raise UserError(f"unknown precision {precision!r}: choose one of {', '.join(PRECISIONS)}")
    present = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if device == "auto":
        device = next(name for name, here in present.items() if here)
    elif not present[device]:
        raise UserError(f"device {device!r} is not available on this machine: use --device cpu")
    if precision == "auto":
        precision = "bf16" if _native_bf16(device) else "float32"
    return Runtime(torch.device(device), precision)


def _native_bf16(device: str) -> bool:
    # A CPU without tile instructions emulates bf16 several times (without AVX-512, hundreds of
    # times) slower than float32, so "supported" is not enough.
    if device == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return device == "cpu" and bool(torch.cpu._is_amx_tile_supported())


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draw initial weights from `seed` without touching anybody else's random numbers."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def derive_seed(seed: int, *path: int | str) -> int:
    """An independent seed for each use (`"autoencoder", task 3, attempt 1`) of the one given."""
    text = "/".join(str(part) for part in (seed, *path))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big")


def generator(seed: int, *path: int | str) -> torch.Generator:
    return torch.Generator().manual_seed(derive_seed(seed, *path))
