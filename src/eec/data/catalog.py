"""The data sets by name.

To add one: write a module beside this one with `load(data_dir: Path) -> Dataset`, then add its line
to DATASETS. Modules are imported when they are asked for: listing the sets needs no torch.
"""

import importlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from eec.errors import UserError

if TYPE_CHECKING:
    from eec.data.dataset import Dataset


@dataclass(frozen=True)
class Entry:
    module: str
    description: str


DATASETS: dict[str, Entry] = {
    "digits": Entry("eec.data.digits", "embedded digits of scikit-learn, grey 32x32, 1,438 + 359"),
    "mnist": Entry("eec.data.mnist", "handwritten digits, grey 28x28, 60,000 + 10,000"),
    "fashion-mnist": Entry("eec.data.fashion_mnist", "clothes, grey 28x28, 60,000 + 10,000"),
}


def load_dataset(name: str, data_dir: Path | None = None, size: int | None = None) -> "Dataset":
    """The data set of that name, its images squared to `size` pixels (None: as they come)."""
    if name not in DATASETS:
        raise UserError(f"unknown data set {name!r}: the known ones are {', '.join(DATASETS)}")
    folder = default_data_dir() if data_dir is None else Path(data_dir)
    dataset: Dataset = importlib.import_module(DATASETS[name].module).load(folder)
    return dataset if size is None else dataset.resized(size)


def default_data_dir() -> Path:
    """EEC_DATA, or `eec` in the user's cache folder."""
    if chosen := os.environ.get("EEC_DATA"):
        return Path(chosen).expanduser()
    cache = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # the XDG standard says to ignore a relative path
    return (cache if cache.is_absolute() else Path.home() / ".cache") / "eec"
