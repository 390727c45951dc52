"""Teach real photographs in three separate calls of `eec learn`, then ask about others.

    python benchmarks/photographs.py DATA_DIR [--images 300] [--options "--memory 1MB"]

Six classes from CIFAR-10 and tiny-imagenet-50 are written as photographs would come: JPEG, PNG and
WebP of 64 to 300 pixels, mixed sides, some turned by EXIF. Each call is a process of its own.
On the third day new classes come together with more images of an old one. Prints the time of each
call, what the learner takes on disk, and the accuracy on images never taught.
"""

from __future__ import annotations

import json
import random
import shlex
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import tyro
from PIL import Image
from torch import Tensor

from eec.data.catalog import load_dataset
from eec.data.dataset import Dataset

TURNED = 6  # EXIF: turn a quarter to the right
DAYS = [("automobile", "n01629819"), ("dog", "n01945685"), ("ship", "n01950731", "automobile")]


@dataclass(frozen=True)
class Photographs:
    data_dir: tyro.conf.Positional[Path]
    images: int = 300
    """To teach of each class; a third as many more when a class returns."""
    ask: int = 50
    """To ask of each class."""
    options: str = "--flip"
    """For the first call of eec learn."""
    seed: int = 0

    def run(self) -> None:
        sets = [
            load_dataset("cifar10", self.data_dir),
            load_dataset("tiny-imagenet-50", self.data_dir, 64),
        ]
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            brain = folder / "brain.eec"
            seen: set[str] = set()
            for number, classes in enumerate(DAYS, start=1):
                for name in classes:
                    start = self.images if name in seen else 0
                    count = self.images // 3 if name in seen else self.images
                    images = pictures_of(sets, name, train=True)[start : start + count]
                    self._write(images, folder / f"day{number}" / name)
                    if name not in seen:
                        test = pictures_of(sets, name, train=False)[: self.ask]
                        self._write(test, folder / "ask" / name)
                    seen.add(name)
                more = shlex.split(self.options) if number == 1 else []
                began = time.perf_counter()
                eec("learn", brain, folder / f"day{number}", "--quiet", *more)
                print(
                    f"day {number}: {', '.join(classes)}: {time.perf_counter() - began:.0f} s, "
                    f"{brain.stat().st_size / 1e6:.2f} MB on disk"
                )
            told = json.loads(
                eec("predict", brain, folder / "ask", "--evaluate", "--format", "json")
            )
            by_class = ", ".join(f"{row['label']} {row['accuracy']:.1%}" for row in told["classes"])
            print(f"accuracy on {told['images']} others: {told['accuracy']:.1%} ({by_class})")

    def _write(self, images: Tensor, folder: Path) -> None:
        rng = random.Random(f"{self.seed} {folder.name} {folder.parent.name}")
        folder.mkdir(parents=True, exist_ok=True)
        for i, pixels in enumerate(images.permute(0, 2, 3, 1).numpy()):
            size = (rng.randint(64, 300), rng.randint(64, 300))
            image = Image.fromarray(pixels).resize(size, Image.Resampling.BICUBIC)
            form = rng.choice(["jpg", "png", "webp"])
            exif = Image.Exif()
            if rng.random() < 0.1:
                image = image.transpose(Image.Transpose.ROTATE_90)
                exif[0x0112] = TURNED
            image.save(folder / f"{i}.{form}", exif=exif)


def pictures_of(sets: list[Dataset], name: str, *, train: bool) -> Tensor:
    source = next(dataset for dataset in sets if name in dataset.classes)
    labels = source.train_labels if train else source.test_labels
    images = source.train_images if train else source.test_images
    return images[[i for i, label in enumerate(labels) if label == name]]


def eec(*arguments: str | Path) -> str:
    command = [sys.executable, "-c", "from eec.cli.main import main; main()", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, encoding="utf-8")
    if done.returncode:
        sys.exit(done.stderr)
    return done.stdout


if __name__ == "__main__":
    tyro.cli(Photographs).run()
