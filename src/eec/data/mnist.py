"""MNIST: handwritten digits, 28x28 grey, 60,000 + 10,000."""

from eec.data.catalog import Request
from eec.data.dataset import Dataset
from eec.data.idx import load_idx_dataset


def load(request: Request) -> Dataset:
    """From the four original files in DATA_DIR/mnist."""
    return load_idx_dataset("mnist", request.data_dir / "mnist", range(10), turn=12)
