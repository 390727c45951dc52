"""Memory integration: time and memory beside scipy's linkage, and what each linkage makes of codes.

    python benchmarks/integration.py [--dataset mnist --data-dir DIR] [--code 16x4x4]

With a data folder the codes are real: an autoencoder is trained on the first class, as `eec` does,
and encodes the training images. Without, they are drawn: 20 hidden directions and noise, cut at 0
as by a ReLU. Each timing is taken in a fresh process, which first does a small one to warm up.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from eec.memory.integration import Points, integrate
from eec.memory.linkage import LINKAGES

Codes = NDArray[np.float32]
SHARE = 0.05  # of the slots, in the table of time and memory


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--dataset", default="mnist")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--code", default="16x4x4")
    parser.add_argument("--sizes", default="1000,2000,5000,6742,10000,13861,20000")
    parser.add_argument("--linkages", default=",".join(LINKAGES))
    parser.add_argument("--shares", default="0.5,0.1,0.05", help="of the slots, in the last table")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS, metavar=("FILE", "N", "WAY"))
    chosen = parser.parse_args()
    if chosen.one:
        measure(chosen.one[0], int(chosen.one[1]), chosen.one[2])
        return
    sizes = [int(size) for size in chosen.sizes.split(",")]
    linkages = chosen.linkages.split(",")
    with tempfile.TemporaryDirectory() as folder:
        file, one_class = Path(folder) / "codes.npy", Path(folder) / "class.npy"
        if chosen.data_dir is None:
            every = drawn(
                max([*sizes, 6742]), int(np.prod([int(n) for n in chosen.code.split("x")]))
            )
            np.save(file, every)
            np.save(one_class, every[:6742])
            origin = "drawn codes"
        else:
            origin = encode(chosen.dataset, chosen.data_dir, chosen.code, file, one_class)
        print(f"{origin}, {np.load(file, mmap_mode='r').shape[1]} dimensions", flush=True)
        time_table(file, sizes, linkages)
        quality_table(np.load(one_class), linkages, [float(s) for s in chosen.shares.split(",")])


def drawn(count: int, dimensions: int) -> Codes:
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(count, 20)) @ rng.normal(size=(20, dimensions))
    noise = rng.normal(size=(count, dimensions))
    return np.maximum(0.3 * hidden + 0.5 * noise, 0).astype(np.float32)


def encode(name: str, data_dir: Path, code: str, file: Path, one_class: Path) -> str:
    """Save the codes of all training images, and those of the largest class."""
    # Here, since torch would count as memory in the processes that are measured.
    from eec.data.catalog import load_dataset
    from eec.memory.codec import CodecOptions, judge, train_codec
    from eec.training.recipes import RECIPES
    from eec.training.runtime import choose_runtime

    dataset = load_dataset(name, data_dir)
    labels = np.array([dataset.classes.index(label) for label in dataset.train_labels])
    first = dataset.train_images[labels == 0][:1000]
    options = CodecOptions(code, "tanh", content=0, content_scale="normalised")
    codec = train_codec(first, options, RECIPES["fast"].autoencoder, choose_runtime(), seed=0)
    codes = codec.encode(dataset.train_images).flatten(1).numpy()
    largest = int(np.bincount(labels).argmax())
    np.save(file, codes)
    np.save(one_class, codes[labels == largest])
    lost = judge(codec, dataset.train_images[labels == largest], None, None).unexplained
    return (
        f"codes of {name} (autoencoder trained on {len(first)} images of {dataset.classes[0]}; "
        f"it loses {100 * lost:.1f} % of the variance of {dataset.classes[largest]})"
    )


def time_table(file: Path, sizes: list[int], linkages: list[str]) -> None:
    print(f"\nto {100 * SHARE:.0f} % of the slots: seconds / MB at the peak, of the whole process")
    ways = [*linkages, *(f"scipy-{name}" for name in linkages if name != "kmeans")]
    print(f"{'points':>8}" + "".join(f"{way:>18}" for way in ways))
    for size in sizes:
        print(f"{size:8}", end="", flush=True)
        for way in ways:
            command = [sys.executable, __file__, "--one", str(file), str(size), way]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
            print(f"{done.stdout.strip() or 'failed':>18}", end="", flush=True)
        print()


def measure(file: str, size: int, way: str) -> None:
    """One timing, and the most memory that this process ever had."""
    codes = np.array(np.load(file, mmap_mode="r")[:size])
    if len(codes) < size:
        print("too few")
        return
    integrate_or_link(codes[:50], way)
    began = time.perf_counter()
    integrate_or_link(codes, way)
    print(f"{time.perf_counter() - began:.1f} / {peak_megabytes():.0f}")


def integrate_or_link(codes: Codes, way: str) -> None:
    if way.startswith("scipy-"):
        from scipy.cluster.hierarchy import linkage

        linkage(codes, way.removeprefix("scipy-"))
    else:
        integrate(Points(codes), max(2, int(SHARE * len(codes))), way)


def peak_megabytes() -> float:
    # Not getrusage: after an exec it still has the peak of the process that started this one.
    status = Path("/proc/self/status")
    if not status.exists():
        return float("nan")
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def quality_table(codes: Codes, linkages: list[str], shares: list[float]) -> None:
    """How evenly a class is divided, and how much of its scatter is inside of concepts."""
    print(f"\none class of {len(codes)} episodes")
    print(f"{'slots':>8}{'linkage':>10}{'concepts':>10}{'episodes':>10}", end="")
    print(f"{'largest concept':>17}{'scatter inside':>16}{'seconds':>9}")
    every = Points(codes)
    whole = np.square(every.means - every.means.mean(0)).sum()
    for share in shares:
        for name in linkages:
            began = time.perf_counter()
            kept = integrate(every, max(2, int(share * len(codes))), name)
            took = time.perf_counter() - began
            concepts = int(np.count_nonzero(kept.counts > 1))
            print(
                f"{kept.slots:8}{name:>10}{concepts:10}{len(kept) - concepts:10}"
                f"{kept.counts.max():17}{100 * kept.scatter.sum() / whole:14.1f} %{took:9.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
