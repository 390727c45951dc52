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

    @classmethod
    def learn(cls, type: str, codes: Tensor, level: int = 0) -> Packing:
        """Bytes reach from 0 to the largest value that a channel has in these codes."""
        if type not in CODE_TYPES:
            raise UserError(f"code type {type!r}: choose one of {', '.join(CODE_TYPES)}")
        if type != "uint8":
            return cls(type, level=level)
        return cls(type, codes.amax((0, 2, 3)).clamp_min(1e-6) / 255)

    @property
    def _step(self) -> Tensor | float:
        if self.type == "coded":
            return step_of(self.level)
        return 1.0 if self.scale is None else self.scale[:, None, None]

    def pack(self, codes: Tensor) -> Tensor:
        """Float codes [N, C, h, w] as they are kept."""
        if self.type in ("float32", "float16"):
            return codes.to(CODE_TYPES[self.type])
        least, most = (-127, 127) if self.type == "coded" else (0, 255)
        return (codes / self._step).round_().clamp_(least, most).to(CODE_TYPES[self.type])

    def unpack(self, kept: Tensor) -> Tensor:
        """The float32 codes that these stand for."""
        return kept.float() * self._step

    def pack_spreads(self, spreads: Tensor) -> Tensor:
        """Standard deviations, which are never negative and often less than a step."""
        return self.pack(spreads * FINER if self.type == "coded" else spreads)

    def unpack_spreads(self, kept: Tensor) -> Tensor:
        spreads = self.unpack(kept)
        return spreads / FINER if self.type == "coded" else spreads

    def possible(self, codes: Tensor) -> Tensor:
        """Drawn codes, where they lie outside what an encoder gives, brought back inside."""
        return codes if self.type == "coded" else codes.clamp_min(0)  # they leave a ReLU
