"""CIFAR-10: photographs of ten kinds of objects, 32x32 colour, 50,000 + 10,000."""

from eec.data.catalog import Request
from eec.data.cifar import Layout, load_cifar
from eec.data.dataset import Dataset

CLASSES = (
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
)

LAYOUT = Layout(
    name="cifar10",
    train=tuple(f"data_batch_{number}.bin" for number in range(1, 6)),
    test="test_batch.bin",
    labels=(len(CLASSES),),
    classes=CLASSES,
    python_version=("cifar-10-batches-py", "cifar-10-python.tar.gz"),
)


def load(request: Request) -> Dataset:
    """From the binary version in DATA_DIR/cifar-10-batches-bin."""
    return load_cifar(LAYOUT, request.data_dir)
