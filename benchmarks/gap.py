"""The gap between real and decoded images: every way to show images to `D`, over seeds.

    python benchmarks/gap.py --dataset fashion-mnist --increments 5 --seeds 3 --out runs/gap

Judged on training images held out (never on the test images, since defaults are chosen by it).
Finished runs in --out are not done again. docs/the-gap.md is written from what this prints.
"""

from __future__ import annotations

import argparse
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from eec.cli.display import Display
from eec.errors import UserError
from eec.methods.registry import choose_options
from eec.report.folder import RunRecord, read_run
from eec.report.write import write_report
from eec.runs.config import RunConfig
from eec.runs.folder import RunFolder
from eec.runs.run import prepare, run

# name -> method and what differs from its defaults; the net is the same for all but `-dcgan`
ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "published": ("eec-published", {"net": "auto"}),
    "published-dcgan": ("eec-published", {"net": "dcgan"}),
    "eecs": ("eecs", {"net": "auto"}),
    "per-task-real": ("eec", {"codec": "per-task", "new_images": "real"}),
    "frozen-real": ("eec", {"new_images": "real"}),
    "per-task-decoded": ("eec", {"codec": "per-task"}),
    "warm-decoded": ("eec", {"codec": "warm"}),
    "retrained-decoded": ("eec", {"codec": "retrained"}),
    "frozen-both": ("eec", {"new_images": "both"}),
    "frozen-coded": ("eec", {"see": "coded"}),
    "frozen-small": ("eec", {"code": "16x4x4"}),
    "frozen": ("eec", {}),
    "frozen-dcgan": ("eec", {"net": "dcgan"}),
    "joint": ("joint", {}),
    "joint-dcgan": ("joint", {"net": "dcgan"}),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--dataset", default="fashion-mnist")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--per-class", type=int, default=500)
    parser.add_argument("--increments", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", default=",".join(ROWS))
    parser.add_argument("--out", type=Path, default=Path("runs/gap"))
    chosen = parser.parse_args()
    names = chosen.rows.split(",")
    if unknown := [name for name in names if name not in ROWS]:
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(ROWS)}")
    for seed in range(chosen.seeds):
        for name in names:
            once(chosen, name, seed)
    table(chosen, names)


def once(chosen: argparse.Namespace, name: str, seed: int) -> None:
    """One run, unless its folder says that it was finished."""
    out = where(chosen, name, seed)
    if (out / "report.html").is_file():
        return
    method, options = ROWS[name]
    config = RunConfig(
        dataset=chosen.dataset,
        method=method,
        options=choose_options(method, **options),
        seed=seed,
        data_dir=chosen.data_dir,
        per_class=chosen.per_class,
        validation=0.1,
        command=f"python benchmarks/gap.py --rows {name}",
    )
    stream, learner = prepare(config)
    stream = replace(stream, increments=stream.increments[: chosen.increments])
    folder = RunFolder.make(out, overwrite=True)
    console = Console()
    console.print(f"[bold]{name}, seed {seed}")
    try:
        with Display(console, quiet=False) as display:
            run(config, stream, learner, folder, display)
    finally:
        folder.close()
    write_report(out)


def where(chosen: argparse.Namespace, name: str, seed: int) -> Path:
    images = f"{chosen.dataset}-{chosen.per_class}-{chosen.increments}"
    folder: Path = chosen.out / images / f"{name}-{seed}"
    return folder


def table(chosen: argparse.Namespace, names: list[str]) -> None:
    """Mean and standard deviation over seeds, as Markdown."""
    print("| row | A_k | newest called (true) | on reconstructions | seconds |")
    print("|---|--:|--:|--:|--:|")
    for name in names:
        records: list[RunRecord] = []
        for seed in range(chosen.seeds):
            try:
                records.append(read_run(where(chosen, name, seed)))
            except UserError:
                continue
        if not records:
            continue
        last = [record.last for record in records]
        accuracy = [line["accuracy"] for line in last]
        called = [line["newest_share"]["called"] for line in last]
        seconds = [sum(sum(m["seconds"].values()) for m in r.measures) for r in records]
        remembered = [
            statistics.mean(entry["remembered"] for entry in line["gap"]) if line["gap"] else None
            for line in last
        ]
        shown = spread([r for r in remembered if r is not None])
        true = last[0]["newest_share"]["true"]
        print(
            f"| {name} | {spread(accuracy)} | {spread(called)} ({true:.1f}) | {shown} "
            f"| {statistics.mean(seconds):.0f} |"
        )


def spread(values: list[float]) -> str:
    if not values:
        return "–"
    deviation = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.2f}{deviation}"


if __name__ == "__main__":
    main()
