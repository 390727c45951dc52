"""Codes as they are kept: in full, in half precision, in bytes with a scale for each channel, or as
symbols for the entropy coder."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from eec.errors import UserError
from eec.nets.compressor import step_of

CODE_TYPES = {
    "coded": torch.int8,
    "uint8": torch.uint8,
    "float16": torch.float16,
    "float32": torch.float32,
}
FINER = 4  # spreads of concepts are kept in quarters of a step


@dataclass(frozen=True)
class Packing:
    """How a task's codes are kept."""

    type: str
    scale: Tensor | None = None  # float32 [C]: what one step of a byte means; uint8 only
    level: int = 0  # of coarseness; coded only
    signed: bool = False  # codes may be negative: they do not leave a ReLU

    @classmethod
    def learn(cls, type: str, codes: Tensor, level: int = 0, *, signed: bool = False) -> Packing:
        """Bytes reach from 0 to the largest value that a channel has in these codes, or as far to
        both sides if they are signed."""
        if type not in CODE_TYPES:
            raise UserError(f"code type {type!r}: choose one of {', '.join(CODE_TYPES)}")
        if type != "uint8":
            return cls(type, level=level, signed=signed)
        most = codes.abs().amax((0, 2, 3)).clamp_min(1e-6)
        return cls(type, most / (127 if signed else 255), signed=signed)

    @property
    def _step(self) -> Tensor | float:
        if self.type == "coded":
            return step_of(self.level)
        return 1.0 if self.scale is None else self.scale[:, None, None]

    @property
    def _zero(self) -> int:
        """The byte that stands for 0."""
        return 128 if self.type == "uint8" and self.signed else 0

    def pack(self, codes: Tensor) -> Tensor:
        """Float codes [N, C, h, w] as they are kept."""
        return self._packed(codes, self._zero)

    def _packed(self, values: Tensor, zero: int) -> Tensor:
        if self.type in ("float32", "float16"):
            return values.to(CODE_TYPES[self.type])
        least, most = (-127, 127) if self.type == "coded" else (0, 255)
        steps = (values / self._step).round_() + zero
        return steps.clamp_(least, most).to(CODE_TYPES[self.type])

    def unpack(self, kept: Tensor) -> Tensor:
        """The float32 codes that these stand for."""
        return (kept.float() - self._zero) * self._step

    def pack_spreads(self, spreads: Tensor) -> Tensor:
        """Standard deviations, which are never negative and often less than a step."""
        return self._packed(spreads * FINER if self.type == "coded" else spreads, 0)

    def unpack_spreads(self, kept: Tensor) -> Tensor:
        spreads = kept.float() * self._step
        return spreads / FINER if self.type == "coded" else spreads

    def possible(self, codes: Tensor) -> Tensor:
        """Drawn codes, where they lie outside what an encoder gives, brought back inside."""
        return codes if self.type == "coded" or self.signed else codes.clamp_min(0)
