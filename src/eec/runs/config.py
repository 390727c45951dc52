"""What a run is asked to do. Free of torch, so that it can be checked before anything is loaded."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from eec.methods.options import ClassifierOptions


@dataclass(frozen=True)
class RunConfig:
    dataset: str
    method: str
    options: ClassifierOptions
    seed: int = 0
    data_dir: Path | None = None
    size: int | None = None
    classes_per_increment: int | tuple[int, ...] = 1
    class_order: str = "natural"
    per_class: int | None = None
    validation: float = 0.0
    device: str = "auto"
    precision: str = "auto"
    command: str = ""
