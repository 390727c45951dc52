"""What an experiment of the paper is made of: lines, blocks of them, two scales. Free of torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from eec.errors import UserError

Shows = Literal["accuracy", "bytes", "pictures"]
SCALES = ("cpu", "full")
NO_TABLE = ""  # where the paper has no such numbers


@dataclass(frozen=True)
class Line:
    """One row of a table: a method with options, and the paper's row for it, if it has one."""

    name: str
    method: str
    options: Mapping[str, Any] = field(default_factory=dict)
    row: str = ""


@dataclass(frozen=True)
class Block:
    """Runs on one stream, to be compared with each other and with a table of the paper."""

    dataset: str
    lines: tuple[Line, ...]
    paper: str  # the data set of the published numbers
    table: str
    ks: tuple[int, ...]  # A_k that are told
    orders: tuple[tuple[str, str], ...] = ()  # names of lines: the first is said to be ahead
    average: bool = False  # the average incremental accuracy is what the paper has
    per_class: int | None = None
    size: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)  # of all lines


@dataclass(frozen=True)
class Protocol:
    """An experiment at one scale."""

    blocks: tuple[Block, ...]
    seeds: int


@dataclass(frozen=True)
class Experiment:
    description: str
    shows: Shows
    cpu: Protocol
    full: Protocol

    def at(self, scale: str) -> Protocol:
        if scale not in SCALES:
            raise UserError(f"unknown scale {scale!r}: choose one of {', '.join(SCALES)}")
        return self.cpu if scale == "cpu" else self.full
