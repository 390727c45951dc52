"""CIFAR-100: photographs of a hundred kinds of objects, 32x32 colour, 50,000 + 10,000."""

from eec.data.catalog import Request
from eec.data.cifar import Layout, load_cifar
from eec.data.dataset import Dataset

_COARSE = 20  # the superclasses, which are not used

_NAMES = """
    apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle
    bowl boy bridge bus butterfly camel can castle caterpillar cattle
    chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur
    dolphin elephant flatfish forest fox girl hamster house kangaroo keyboard
    lamp lawn_mower leopard lion lizard lobster man maple_tree motorcycle mountain
    mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree
    plain plate poppy porcupine possum rabbit raccoon ray road rocket
    rose sea seal shark shrew skunk skyscraper snail snake spider
    squirrel streetcar sunflower sweet_pepper table tank telephone television tiger tractor
    train trout tulip turtle wardrobe whale willow_tree wolf woman worm
"""
CLASSES = tuple(_NAMES.split())

LAYOUT = Layout(
    name="cifar100",
    train=("train.bin",),
    test="test.bin",
    labels=(_COARSE, len(CLASSES)),
    classes=CLASSES,
    python_version=("cifar-100-python", "cifar-100-python.tar.gz"),
)


def load(request: Request) -> Dataset:
    """From the binary version in DATA_DIR/cifar-100-binary."""
    return load_cifar(LAYOUT, request.data_dir)
