"""Folders of image files: time to decode them, time from the cache, and memory while streaming.

    python benchmarks/folders.py DATA_DIR [--name tiny-imagenet-50] [--size 64] [--rounds 5]

Every measurement is a process of its own, after its imports; DATA_DIR itself is only read, the
cache goes to a temporary folder. Memory is the peak of the resident set, less what the imports
take; what the mapped images themselves can take of it is shown apart.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from eec.data import decoded, folder, tiny_imagenet50
from eec.data.catalog import load_dataset
from eec.data.stream import make_stream

CLASSES_PER_INCREMENT = 10


def resident(which: str) -> int:
    """VmRSS (now) or VmHWM (at most) in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(which)).split()[1])


def timed(module: object, name: str, parts: dict[str, float]) -> None:
    """Add the seconds spent in a function of a module to `parts`."""
    function: Callable[..., object] = getattr(module, name)

    def call(*arguments: object, **named: object) -> object:
        begin = time.perf_counter()
        result = function(*arguments, **named)
        parts[name] = parts.get(name, 0.0) + time.perf_counter() - begin
        return result

    setattr(module, name, call)


def measure(name: str, data_dir: Path, size: int, *, stream: bool) -> dict[str, float]:
    """Load the set, in this process; go through all tasks if asked to."""
    parts: dict[str, float] = {}
    for module, function in (
        (tiny_imagenet50, "find_classes"),
        (folder, "find_classes"),
        (decoded, "_stats"),
        (decoded, "_pixels_are_whole"),
        (folder, "Dataset"),
    ):
        timed(module, function, parts)
    Path("/proc/self/clear_refs").write_text("5")  # begin to look for the peak here
    before = resident("VmRSS")
    begin, computed = time.perf_counter(), time.process_time()
    dataset = load_dataset(name, data_dir, size)
    seconds, computed = time.perf_counter() - begin, time.process_time() - computed
    loaded = resident("VmHWM") - before
    images = dataset.train_images.numel() + dataset.test_images.numel()
    largest = 0
    if stream:
        for increment in make_stream(
            dataset, classes_per_increment=CLASSES_PER_INCREMENT
        ).increments:
            for task in (increment.task, increment.test):
                largest = max(largest, task.images.numel())
                int(task.images.max())  # looks at every pixel
    return {
        "seconds": seconds,
        "computing": computed,
        "loading": loaded,
        "streaming": resident("VmHWM") - before,
        "images": images,
        "largest task": largest,
        "count": len(dataset.train_labels) + len(dataset.test_labels),
        **parts,
    }


def in_a_process(name: str, data_dir: Path, size: int, *, stream: bool) -> dict[str, float]:
    command = [sys.executable, __file__, str(data_dir), "--name", name, "--size", str(size)]
    command += ["--child", "stream" if stream else "load"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data_dir", type=Path)
    parser.add_argument("--name", default="tiny-imagenet-50", help="a set of image files")
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--child", choices=["load", "stream"], help=argparse.SUPPRESS)
    choices = parser.parse_args()
    if choices.child:
        stream = choices.child == "stream"
        print(json.dumps(measure(choices.name, choices.data_dir, choices.size, stream=stream)))
        return
    with tempfile.TemporaryDirectory() as temporary:
        data_dir = Path(temporary)
        for path in choices.data_dir.resolve().iterdir():
            if path.name != decoded.FOLDER:
                (data_dir / path.name).symlink_to(path)
        first = in_a_process(choices.name, data_dir, choices.size, stream=False)
        cached = [
            in_a_process(choices.name, data_dir, choices.size, stream=False)
            for _ in range(choices.rounds)
        ]
        streamed = in_a_process(choices.name, data_dir, choices.size, stream=True)
    tell(first, cached, streamed)


def tell(
    first: dict[str, float], cached: list[dict[str, float]], streamed: dict[str, float]
) -> None:
    def middle(part: str) -> float:
        return statistics.median(one.get(part, 0.0) for one in cached)

    def megabytes(count: float) -> str:
        return f"{count / 1e6:.0f} MB"

    print(f"images       {first['count']:,} files, {megabytes(first['images'])} decoded")
    print(
        f"first time   {first['seconds']:.2f} s ({first['computing']:.2f} of all cores), "
        f"{megabytes(first['loading'])} resident"
    )
    print(
        f"from cache   {middle('seconds'):.2f} s ({middle('computing'):.2f} of all cores): "
        f"listing {middle('find_classes'):.2f}, stats {middle('_stats'):.2f}, "
        f"checksums {middle('_pixels_are_whole'):.2f}, labels {middle('Dataset'):.2f}"
    )
    beyond = streamed["streaming"] - streamed["images"]
    print(
        f"streaming    {megabytes(streamed['streaming'])} resident at most, {megabytes(beyond)} "
        f"beyond the images; the largest task is {megabytes(streamed['largest task'])}"
    )


if __name__ == "__main__":
    main()
