"""A few images of each class, kept in the run folder for people to look at.

Test images only, never ones that were trained on; `--no-originals` leaves those out as well.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from eec.data.labels import Label
from eec.data.stream import Increment
from eec.errors import UserError
from eec.files import write_whole
from eec.methods.contract import Method

IMAGES = 10  # of each class
LASTING = TEST, DECODED = "test image", "coded and decoded"


@dataclass(frozen=True)
class Sample:
    """Images of one class, by what they are; uint8 [N, C, H, W]."""

    label: Label
    rows: dict[str, Tensor]


def add_samples(path: Path, method: Method, increment: Increment, *, originals: bool) -> None:
    """Those of the new classes, and of all what memory shows now."""
    earlier = read_samples(path) if increment.number > 1 else []
    # An increment that was cut short may have added its own: they are made again.
    known = [sample for sample in earlier if sample.label not in increment.new_classes]
    write_samples(path, _with_memories(method, known + _take(method, increment, originals)))


def _take(method: Method, increment: Increment, originals: bool) -> list[Sample]:
    """While the task's own codec can still encode."""
    samples = []
    images, labels = increment.judged.images, increment.judged.labels
    for label in increment.new_classes:
        chosen = [i for i, other in enumerate(labels) if other == label][:IMAGES]
        test = method.view(images[increment.judged.index[chosen]])
        rows = {TEST: test} if originals else {}
        decoded = method.reconstruct(test, label)
        if decoded is not None:
            rows[DECODED] = decoded
        samples.append(Sample(label, rows))
    return samples


def _with_memories(method: Method, samples: Iterable[Sample]) -> list[Sample]:
    """What memory showed earlier makes room for what it shows now."""
    held = method.pictures(IMAGES)
    return [
        Sample(s.label, {n: s.rows[n] for n in LASTING if n in s.rows} | held.get(s.label, {}))
        for s in samples
    ]


def write_samples(path: Path, samples: Sequence[Sample]) -> None:
    tensors = {
        f"{place}.{name}": images.contiguous()
        for place, sample in enumerate(samples)
        for name, images in sample.rows.items()
    }
    names = [[sample.label, list(sample.rows)] for sample in samples]
    write_whole(path, save(tensors, {"eec": json.dumps(names)}))


def read_samples(path: Path) -> list[Sample]:
    try:
        content = path.read_bytes()
        tensors = load(content)
        size = int.from_bytes(content[:8], "little")
        names = json.loads(json.loads(content[8 : 8 + size])["__metadata__"]["eec"])
    except (OSError, SafetensorError, ValueError, KeyError):
        raise UserError(f"{path} cannot be read: restore it, or run again") from None
    return [
        Sample(label, {name: tensors[f"{place}.{name}"] for name in rows})
        for place, (label, rows) in enumerate(names)
    ]
