"""ImageNet-50: 50 of the 1,000 classes of ILSVRC-2012, in colour, scaled down from photographs.

Which 50, there are two ways:

- `imagenet-50`: drawn by the seed, as the authors of EEC do. The names of the class folders are
  sorted, shuffled by numpy's `default_rng(seed)`, and the first 50 are taken in the order drawn.
  It works with any number of class folders from 50 on.
- `imagenet-50:fixed`: the list of the DGM paper, the same in every run. Counted from 0 in the
  sorted names of all 1,000 folders: 1, 15, 29, 45, 59, 65, 81, 89, 90 and 99, then the same plus
  100, plus 200, plus 300 and plus 400.

Either order is the natural order of the classes.
"""

from pathlib import Path

import numpy as np

from eec.data.catalog import Request
from eec.data.dataset import Dataset
from eec.data.folder import Parts, check_seed, load_parts, refuse_different
from eec.data.image_files import class_folders, find_images, images_of_class
from eec.data.sources import missing_files
from eec.errors import UserError

NAME = "imagenet-50"
CLASSES = 50
ALL_CLASSES = 1000
FIXED = tuple(100 * t + i for t in range(5) for i in (1, 15, 29, 45, 59, 65, 81, 89, 90, 99))


def load(request: Request) -> Dataset:
    """From DATA_DIR/imagenet/{train,val}/<wnid>/*; the labels are the wnids."""
    if request.argument not in ("", "fixed"):
        raise UserError(f"{NAME}:{request.argument}: write {NAME} or {NAME}:fixed")
    root = request.data_dir / "imagenet"
    if missing := [part for part in ("train", "val") if not (root / part).is_dir()]:
        raise missing_files(NAME, root, missing)
    chosen = _choose(root / "train", request)
    available = class_folders(root / "val")
    if not available and find_images(root / "val"):
        raise UserError(
            f"{root / 'val'} holds images but no class folders: move each image into the folder of "
            "its class, named as in train"
        )
    refuse_different(chosen, [name for name in available if name in chosen], root, "val")
    train, test = (
        {name: images_of_class(root / part / name) for name in chosen} for part in ("train", "val")
    )
    drawn = request.argument or f"drawn by seed {request.seed}"
    return load_parts(NAME, root, Parts(train, test, drawn), request, channels=3)


def _choose(folder: Path, request: Request) -> list[str]:
    names = sorted(class_folders(folder))
    if request.argument == "fixed":
        if len(names) != ALL_CLASSES:
            raise UserError(
                f"{folder} has {len(names)} class folders: the fixed list counts in all "
                f"{ALL_CLASSES:,} of ILSVRC-2012; add the others, or use {NAME} without :fixed"
            )
        return [names[i] for i in FIXED]
    if len(names) < CLASSES:
        raise UserError(
            f"{folder} has {len(names)} class folders, {CLASSES} are to be drawn from them: "
            "add those that are missing, or use folder:PATH"
        )
    check_seed(request.seed)
    order = np.random.default_rng(request.seed).permutation(len(names))
    return [names[i] for i in order[:CLASSES]]
