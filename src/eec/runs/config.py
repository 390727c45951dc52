"""What a run is asked to do. Free of torch, so that it can be checked before anything is loaded.

Sizes and increments that are not given are those of the data set's entry in the catalog, which are
the paper's.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from eec.data.catalog import find_dataset
from eec.methods.options import ClassifierOptions

if TYPE_CHECKING:
    from eec.data.labels import Label


@dataclass(frozen=True)
class RunConfig:
    dataset: str
    method: str
    options: ClassifierOptions
    seed: int = 0
    data_dir: Path | None = None
    size: int | None = None
    strict: bool = False  # refuse images that cannot be decoded, in place of leaving them out
    classes_per_increment: int | tuple[int, ...] | None = None
    class_order: str | tuple[Label, ...] = "natural"
    per_class: int | None = None
    validation: float = 0.0
    returning: float = 0.0
    turn: int | None = None  # degrees by which images are turned in training; None: as the set has
    device: str = "auto"
    precision: str = "auto"
    originals: bool = True  # keep a few test images for people to look at
    beside: tuple[Path, ...] = ()  # run folders that are drawn in the same figure
    command: str = ""

    @property
    def increments(self) -> int | tuple[int, ...]:
        """Classes an increment, as asked or as the paper has them for this data set."""
        if self.classes_per_increment is not None:
            return self.classes_per_increment
        return find_dataset(self.dataset)[0].classes_per_increment
