"""Where and how exactly to compute: device, precision, and seeded beginnings."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

import torch

from eec.errors import UserError
from eec.training import calibration

Net = TypeVar("Net", bound=torch.nn.Module)

DEVICES = ("auto", "cpu", "cuda", "mps")
PRECISIONS = ("auto", "float32", "bf16")


@dataclass(frozen=True)
class Runtime:
    device: torch.device
    precision: str  # float32 or bf16
    why: str = field(default="asked for", compare=False)  # this precision

    def place(self, net: Net) -> Net:
        """Move a net to the device, in the layout in which convolutions are fastest."""
        return net.to(self.device).to(memory_format=torch.channels_last)  # type: ignore[no-any-return, call-overload]

    def __str__(self) -> str:
        return f"{self.device}, {self.precision} ({self.why})"

    def autocast(self) -> AbstractContextManager[object]:
        return torch.autocast(
            self.device.type, dtype=torch.bfloat16, enabled=self.precision == "bf16"
        )


def choose_runtime(device: str = "auto", precision: str = "auto") -> Runtime:
    """The fastest device at hand, and bf16 only where it is faster there than float32."""
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
        return Runtime(torch.device(device), *_faster_precision(device))
    if (device, precision) == ("cpu", "bf16"):
        _refuse_broken_bf16()
    return Runtime(torch.device(device), precision)


def _refuse_broken_bf16() -> None:
    if calibration.claims_bf16() and not calibration.calibrate().works:
        raise UserError(
            "bf16 does not work here: the CPU claims it, but a process that tried it came to a bad "
            "end; use --precision float32"
        )


def _faster_precision(device: str) -> tuple[str, str]:
    """The precision, and why."""
    if device == "cpu" and calibration.claims_bf16():
        measured = calibration.calibrate()
        return measured.precision, str(measured)
    if device == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False):
        return "bf16", "the device has it"
    return "float32", "the device has no bf16"


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draw initial weights from `seed` without touching anybody else's random numbers."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(
            seed
        )  # nets are made on the CPU; no device's is touched
        yield


def derive_seed(seed: int, *path: int | str) -> int:
    """An independent seed for each use (`"autoencoder", task 3, attempt 1`) of the one given."""
    text = "/".join(str(part) for part in (seed, *path))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big")


def generator(seed: int, *path: int | str) -> torch.Generator:
    return torch.Generator().manual_seed(derive_seed(seed, *path))
