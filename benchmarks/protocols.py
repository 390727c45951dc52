"""The paper's four protocols on two cores: `eec`, all images kept (`joint`), EEC as published.

    python benchmarks/protocols.py DATA --seeds 3                    # all, a run after the other
    python benchmarks/protocols.py DATA cifar10 --methods eec,joint --jobs 2

Each cell is `eec run`, once for each seed, as a user would call it; `joint` has the same net as
`eec`, `eec-published` that of the paper's MNIST (`dcgan`), or what `--net` says; images and recipe
are the same. Runs that are there are not done again, and one that was stopped goes on. Minutes are
those of the increments, with the number of threads that a run had: only `--jobs 1` on a quiet
machine tells how long a run takes there.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from whole_runs import bytes_kept, carry_out_all, environment_of, finished, read, spread_words

from eec.paper.published import published_accuracy


@dataclass(frozen=True)
class Protocol:
    name: str  # as the results call it
    dataset: str
    per_class: int | None  # training images of a class; None: all
    marks: tuple[int, int]  # classes seen where accuracy is told
    paper: str  # the data set in the paper

    @property
    def options(self) -> list[str]:
        return [self.dataset, *(["--per-class", str(self.per_class)] if self.per_class else [])]


PROTOCOLS = (
    Protocol("mnist", "mnist", None, (5, 10), "mnist"),
    Protocol("svhn", "svhn", 1000, (5, 10), "svhn"),
    Protocol("cifar10", "cifar10", 1000, (5, 10), "cifar10"),
    Protocol("cifar10-all", "cifar10", None, (5, 10), "cifar10"),
    Protocol("tiny-imagenet-50", "tiny-imagenet-50", None, (30, 50), "imagenet50"),
)
METHODS = "eec,joint,eec-published"


@dataclass(frozen=True)
class Cell:
    """One method on one protocol, over seeds."""

    accuracies: dict[int, list[float]]  # by classes seen
    minutes: list[float]
    kept: float  # bytes without the classifier, mean
    threads: int

    @classmethod
    def of(cls, folders: Sequence[Path], marks: Sequence[int]) -> Cell:
        runs = [{line["classes_seen"]: line for line in read(folder)} for folder in folders]
        last = [lines[marks[-1]] for lines in runs]
        return cls(
            {mark: [lines[mark]["accuracy"] for lines in runs] for mark in marks},
            [sum(sum(line["seconds"].values()) for line in r.values()) / 60 for r in runs],
            statistics.mean(map(bytes_kept, last)),
            environment_of(folders[0])["threads"],
        )

    def mean(self, mark: int) -> float:
        return statistics.mean(self.accuracies[mark])


def words_of(protocol: Protocol, method: str, cell: Cell, joint: Cell | None) -> str:
    """A row of the table."""
    shown = [spread_words(cell.accuracies[mark]) for mark in protocol.marks]
    last = protocol.marks[-1]
    share = f"{cell.mean(last) / joint.mean(last):.3f}" if joint else ""
    paper = published_accuracy(protocol.paper, "JT" if method == "joint" else "EEC")
    said = " / ".join(f"{paper[mark].value:.2f}" for mark in protocol.marks)
    minutes = f"{statistics.mean(cell.minutes):.1f} ({cell.threads})"
    cells = [protocol.name, f"`{method}`", str(len(cell.minutes)), *shown, share, said]
    return "| " + " | ".join([*cells, f"{cell.kept / 1e6:,.2f}", minutes]) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data", type=Path, help="folder of the data sets")
    names = [protocol.name for protocol in PROTOCOLS]
    parser.add_argument("protocols", nargs="*", metavar="PROTOCOL", help=", ".join(names))
    parser.add_argument("--methods", default=METHODS)
    parser.add_argument("--net", help="of the classifier, for every method [the method's own]")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="runs side by side [1]")
    parser.add_argument("--out", type=Path, default=Path("runs") / "protocols")
    parser.add_argument("--show", action="store_true", help="what is finished; run nothing")
    asked = parser.parse_args()
    if unknown := set(asked.protocols) - set(names):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    chosen = [p for p in PROTOCOLS if p.name in (asked.protocols or names)]
    folders: dict[tuple[Protocol, str], list[Path]] = {}
    runs: list[tuple[Path, list[str]]] = []
    for seed in range(asked.seeds):
        for protocol in chosen:
            for method in asked.methods.split(","):
                net = f"-{asked.net}" if asked.net else ""
                folder = asked.out / f"{protocol.name}-{method}{net}-{seed}"
                folders.setdefault((protocol, method), []).append(folder)
                words = [*protocol.options, "--method", method, "--seed", str(seed)]
                words += ["--net", asked.net] if asked.net else []
                runs.append((folder, [*words, "--data-dir", str(asked.data)]))
    if not asked.show:
        carry_out_all(runs, asked.jobs)
    cells = {
        (protocol, method): Cell.of(done, protocol.marks)
        for (protocol, method), paths in folders.items()
        if (done := [path for path in paths if finished(path)])
    }
    heads = ["protocol", "method", "seeds", "A_5 or A_30", "A_10 or A_50", "of `joint`", "paper"]
    print("| " + " | ".join([*heads, "MB", "minutes (threads)"]) + " |")
    print("|---|---|" + "--:|" * 7)
    for (protocol, method), cell in cells.items():
        print(words_of(protocol, method, cell, cells.get((protocol, "joint"))))


if __name__ == "__main__":
    main()
