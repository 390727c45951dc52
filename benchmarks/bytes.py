"""Accuracy against bytes: what each method makes of the same budget.

    python benchmarks/bytes.py DATA cifar10 --per-class 300 --budgets 100kB,300kB,1MB

Each cell is `eec run` with another method and `--memory`, once for each seed, on the same images; a
method may bring options of its own (`--methods "eec,eec --code-type uint8,replay"`). The bytes are
those of what is kept without the classifier; the file's header is within the budget, too. A budget
that a method cannot work within is left empty. Runs that are there are not done again, and one that
was stopped goes on. Beside the table, a figure is drawn into `--out`.
"""

from __future__ import annotations

import argparse
import re
import shlex
import statistics
from dataclasses import dataclass
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from whole_runs import bytes_kept, carry_out, carry_out_all, finished, read, spread_words

from eec.memory.budget import parse_budget

REFUSED = "is too small"


@dataclass(frozen=True)
class Cell:
    """One method within one budget, over seeds."""

    accuracies: list[float]
    kept: float  # bytes without the classifier, mean

    def __str__(self) -> str:
        return f"{spread_words(self.accuracies)} ({self.kept / 1000:,.0f} kB)"


def cell_of(folders: list[Path]) -> Cell | None:
    if not all(map(finished, folders)):  # a budget may be refused in the midst of a run
        return None
    last = [read(folder)[-1] for folder in folders]
    return Cell([line["accuracy"] for line in last], statistics.mean(map(bytes_kept, last)))


def try_out(folder: Path, options: list[str], threads: int) -> None:
    try:
        carry_out(folder, options, threads)
    except SystemExit as refusal:
        if REFUSED not in str(refusal):
            raise


def draw(cells: dict[tuple[str, str], Cell], title: str, path: Path) -> None:
    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for method in dict.fromkeys(method for method, _ in cells):
        mine = sorted((cell.kept, cell) for (name, _), cell in cells.items() if name == method)
        means = [statistics.mean(cell.accuracies) for _, cell in mine]
        axes.plot([kept for kept, _ in mine], means, marker="o", label=method)
    axes.set(xscale="log", xlabel="bytes kept, without the classifier", ylabel="accuracy (%)")
    axes.set_title(title, loc="left", fontsize=10)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data", type=Path, help="folder of the data sets")
    parser.add_argument("dataset", help="such as cifar10")
    parser.add_argument("--methods", default="eec,replay-webp")
    parser.add_argument("--budgets", default="100kB,300kB,1MB,3MB,10MB")
    parser.add_argument("--per-class", default="300", help="training images of a class [300]")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="runs side by side [1]")
    parser.add_argument("--out", type=Path, default=Path("runs") / "bytes")
    parser.epilog = "What is not known here is an option of eec run."
    asked, options = parser.parse_known_args()
    methods, budgets = asked.methods.split(","), asked.budgets.split(",")
    for budget in budgets:
        parse_budget(budget)
    place = asked.out / f"{asked.dataset}-{asked.per_class}"
    fixed = [asked.dataset, "--data-dir", str(asked.data), "--per-class", asked.per_class]
    folders: dict[tuple[str, str], list[Path]] = {}
    runs: list[tuple[Path, list[str]]] = []
    for seed in range(asked.seeds):
        for budget in budgets:
            for method in methods:
                folder = place / f"{re.sub(r'[^a-z0-9]+', '-', method)}-{budget}-{seed}"
                folders.setdefault((method, budget), []).append(folder)
                words = [*fixed, *options, "--method", *shlex.split(method), "--memory", budget]
                runs.append((folder, [*words, "--seed", str(seed)]))
    carry_out_all(runs, asked.jobs, try_out)
    found = {key: cell_of(paths) for key, paths in folders.items()}
    print("| budget | " + " | ".join(methods) + " |\n|---|" + "--:|" * len(methods))
    for budget in budgets:
        shown = [str(found[method, budget] or "too small") for method in methods]
        print(f"| {budget} | " + " | ".join(shown) + " |")
    cells = {key: cell for key, cell in found.items() if cell is not None}
    title = f"{asked.dataset}, {asked.per_class} images a class, one class an increment"
    draw(cells, title, place / "bytes.png")
    print(f"figure  {place / 'bytes.png'}")


if __name__ == "__main__":
    main()
