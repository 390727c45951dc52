"""Codes as they are kept: in full, in half precision, or in bytes with a scale for each channel."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from eec.errors import UserError

CODE_TYPES = {"float32": torch.float32, "float16": torch.float16, "uint8": torch.uint8}


@dataclass(frozen=True)
class Packing:
    """How a task's codes are kept. Codes come out of a ReLU: they are never negative."""

    type: str
    scale: Tensor | None = None  # float32 [C]: what one step of a byte means; uint8 only

    @classmethod
    def learn(cls, type: str, codes: Tensor) -> Packing:
        """Bytes reach from 0 to the largest value that a channel has in these codes."""
        if type not in CODE_TYPES:
            raise UserError(f"code type {type!r}: choose one of {', '.join(CODE_TYPES)}")
        if type != "uint8":
            return cls(type)
        return cls(type, codes.amax((0, 2, 3)).clamp_min(1e-6) / 255)

    def pack(self, codes: Tensor) -> Tensor:
        """Float codes [N, C, h, w] as they are kept."""
        if self.scale is None:
            return codes.to(CODE_TYPES[self.type])
        steps = codes / self.scale[:, None, None]
        return steps.round_().clamp_(0, 255).to(torch.uint8)

    def unpack(self, kept: Tensor) -> Tensor:
        """The float32 codes that these stand for."""
        return kept.float() if self.scale is None else kept * self.scale[:, None, None]
