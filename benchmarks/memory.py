"""What a budget costs: accuracy by what is kept of each class when memory runs out.

    python benchmarks/memory.py DATA mnist --per-class 1000 --memory 1000 --seeds 3

Each row is `eec run` with other options, once for each seed, on the same images. `--jobs` runs go
side by side and share the cores: the seconds are then of no use, and the share of them that
integration takes is. Runs that are there are not done again, and one that was stopped goes on.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path
from typing import Any

from whole_runs import carry_out_all, read, spread_words

ROWS: dict[str, list[str]] = {
    "unlimited": [],
    "unlimited, float32 codes": ["--code-type", "float32"],
    "spread": ["--memory", "BUDGET"],
    "drop": ["--memory", "BUDGET", "--over-budget", "drop"],
    "concepts, ward": ["--memory", "BUDGET", "--over-budget", "concepts"],
    "concepts, centroid": [
        "--memory", "BUDGET", "--over-budget", "concepts", "--linkage", "centroid"
    ],
    "concepts, kmeans": ["--memory", "BUDGET", "--over-budget", "concepts", "--linkage", "kmeans"],
    "eec-published": ["--memory", "BUDGET", "--method", "eec-published"],
    "joint": ["--method", "joint"],
}  # fmt: skip


def row_words(name: str, runs: list[list[dict[str, Any]]], best: list[float]) -> str:
    """A_k, how far from unlimited on the same seed, bytes, newest over-called, integration."""
    last = [lines[-1] for lines in runs]
    accuracy = [line["accuracy"] for line in last]
    memory = statistics.mean(
        sum(n for part, n in line["bytes"].items() if part != "classifier") for line in last
    )
    too_often = statistics.mean(
        line["newest_share"]["called"] - line["newest_share"]["true"] for line in last
    )
    spent = sum(sum(line["seconds"].values()) for lines in runs for line in lines)
    merging = sum(line["seconds"].get("integrate", 0.0) for lines in runs for line in lines)
    less = [mine - theirs for mine, theirs in zip(accuracy, best, strict=False)]
    away = f"{statistics.mean(less):+.2f}" if less else ""
    return (
        f"| {name} | {spread_words(accuracy)} | {away} | {memory / 1000:,.0f} kB | "
        f"{too_often:+.1f} | {100 * merging / spent:.1f} % |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data", type=Path, help="folder of the data sets")
    parser.add_argument("dataset", help="such as mnist")
    parser.add_argument("--memory", default="1000", help="the budget [1000]")
    parser.add_argument("--per-class", default="1000", help="training images of a class [1000]")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", default=",".join(k for k in ROWS if "," not in k), help="names")
    parser.add_argument("--jobs", type=int, default=1, help="runs side by side [1]")
    parser.add_argument("--out", type=Path, default=Path("runs") / "memory")
    parser.epilog = "What is not known here, such as --code 16x4x4, is an option of eec run."
    asked, options = parser.parse_known_args()
    rows = asked.rows if asked.rows not in ROWS else f"{asked.rows};"
    names = [name.strip() for name in rows.split(";" if ";" in rows else ",") if name.strip()]
    if unknown := [name for name in names if name not in ROWS]:
        parser.error(f"unknown: {', '.join(unknown)}; there are {'; '.join(ROWS)}")
    place = asked.out / f"{asked.dataset}-{asked.per_class}-{asked.memory}"
    fixed = [asked.dataset, "--data-dir", str(asked.data), "--per-class", asked.per_class]
    folders: dict[tuple[str, int], Path] = {}
    runs: list[tuple[Path, list[str]]] = []
    for seed in range(asked.seeds):
        for name in names:
            folders[name, seed] = place / f"{name.replace(', ', '-').replace(' ', '-')}-{seed}"
            chosen = [word.replace("BUDGET", asked.memory) for word in ROWS[name]]
            words = [*fixed, *options, *chosen, "--seed", str(seed)]
            runs.append((folders[name, seed], words))
    carry_out_all(runs, asked.jobs)
    print("| kept | A_k | less than unlimited | memory | newest too often | integration |")
    print("|---|---|---|---|---|---|")
    best: list[float] = []
    for name in names:
        lines = [read(folders[name, seed]) for seed in range(asked.seeds)]
        if name == "unlimited":
            best = [run[-1]["accuracy"] for run in lines]
        print(row_words(name, lines, best))


if __name__ == "__main__":
    main()
