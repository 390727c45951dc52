"""Handwritten digits that come with scikit-learn: 1,797 images of 8x8 pixels, scaled to 32x32."""

import numpy as np
import torch

from eec.data.catalog import Request
from eec.data.dataset import Dataset
from eec.data.images import resize

SIZE = 32
TEST_SHARE = 0.2
_SPLIT_SEED = 20210503  # fixed: the test images must not change with the seed of a run


def load(request: Request) -> Dataset:
    """Embedded: the data folder is not looked at."""
    from sklearn.datasets import load_digits

    values, labels = load_digits(return_X_y=True)  # values 0..16
    pixels = np.rint(values * (255 / 16)).astype(np.uint8).reshape(-1, 1, 8, 8)
    images = resize(torch.from_numpy(pixels), SIZE)
    train, test = split(labels)
    return Dataset(
        name="digits",
        train_images=images[torch.from_numpy(train)],
        train_labels=labels[train].tolist(),
        test_images=images[torch.from_numpy(test)],
        test_labels=labels[test].tolist(),
        flip=False,
        turn=12,
        classes=tuple(range(10)),
    )


def split(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sorted indices of the training and the test images, the same share of every class in each."""
    rng = np.random.default_rng(_SPLIT_SEED)
    is_test = np.zeros(len(labels), dtype=bool)
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        is_test[rng.permutation(members)[: round(TEST_SHARE * len(members))]] = True
    return np.flatnonzero(~is_test), np.flatnonzero(is_test)
