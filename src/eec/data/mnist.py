"""MNIST: handwritten digits, 28x28 grey, 60,000 + 10,000."""

from pathlib import Path

from eec.data.dataset import Dataset
from eec.data.idx import load_idx_dataset

SOURCE = (
    "http://yann.lecun.com/exdb/mnist/ (mirror: https://ossci-datasets.s3.amazonaws.com/mnist/)"
)


def load(data_dir: Path) -> Dataset:
    """From the four original files in DATA_DIR/mnist."""
    return load_idx_dataset("mnist", data_dir / "mnist", range(10), flip=False, source=SOURCE)
