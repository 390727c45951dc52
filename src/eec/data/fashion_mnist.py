"""Fashion-MNIST: pictures of clothes, 28x28 grey, 60,000 + 10,000."""

from eec.data.catalog import Request
from eec.data.dataset import Dataset
from eec.data.idx import load_idx_dataset

CLASSES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)


def load(request: Request) -> Dataset:
    """From the four original files in DATA_DIR/fashion-mnist."""
    folder = request.data_dir / "fashion-mnist"
    return load_idx_dataset("fashion-mnist", folder, CLASSES, flip=True)
