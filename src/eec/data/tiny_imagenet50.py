"""Tiny ImageNet, 50 of its classes: colour 64x64, 25,000 training and 2,500 test images."""

from eec.data.catalog import Request
from eec.data.dataset import Dataset
from eec.data.folder import Parts, load_parts, refuse_different
from eec.data.image_files import find_classes
from eec.data.sources import missing_files

NAME = "tiny-imagenet-50"


def load(request: Request) -> Dataset:
    """From DATA_DIR/tiny-imagenet-50/{train,val}/<wnid>/*.JPEG; the labels are the wnids."""
    root = request.data_dir / NAME
    if missing := [part for part in ("train", "val") if not (root / part).is_dir()]:
        raise missing_files(NAME, root, missing)
    train, test = find_classes(root / "train"), find_classes(root / "val")
    refuse_different(train, test, root, "val")
    return load_parts(NAME, root, Parts(train, test), request, channels=3)
