"""`eec paper NAME`: an experiment of the paper, done again.

To add one: a function that does it, and its line in EXPERIMENTS.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from eec.errors import UserError
from eec.methods.options import Linkage


@dataclass(frozen=True)
class Paper:
    """Do an experiment of the paper again, measure what it claims, and draw it."""

    name: tyro.conf.Positional[
        Annotated[
            str,
            tyro.conf.arg(metavar="NAME", help="Experiment: those that `eec paper list` lists."),
        ]
    ] = "list"
    data_dir: Path | None = None
    """Where the data sets lie [EEC_DATA, or eec in the user's cache folder]."""
    out: Path | None = None
    """Folder for picture and measures [runs/paper-NAME-LINKAGE-SEED]."""
    seed: int = 0
    """Decides all that is random."""
    linkage: Linkage = "ward"
    """Which episodes become one concept; the paper's is centroid."""

    def start(self, arguments: Sequence[str]) -> None:
        if self.name == "list":
            _list()
            return
        if self.name not in EXPERIMENTS:
            raise UserError(
                f"unknown experiment {self.name!r}: choose one of list, {', '.join(EXPERIMENTS)}"
            )
        EXPERIMENTS[self.name].act(self)

    @property
    def folder(self) -> Path:
        return self.out or Path("runs") / f"paper-{self.name}-{self.linkage}-{self.seed}"


@dataclass(frozen=True)
class Experiment:
    description: str
    act: Callable[[Paper], None]


def _list() -> None:
    width = max(map(len, EXPERIMENTS))
    for name, experiment in EXPERIMENTS.items():
        print(f"{name:<{width}}  {experiment.description}")


def _encoded(asked: Paper) -> None:
    """Figures 3 and 6: codes of two numbers, and what is drawn from concepts of them."""
    _check_folder(asked.folder)

    from rich.console import Console

    from eec.cli.pictures import Watch
    from eec.files import write_whole
    from eec.paper.encoded import figure3, figure6
    from eec.report.encoded import encoded_figure, encoded_table

    experiment = {"figure3": figure3, "figure6": figure6}[asked.name]
    with Watch(quiet=False) as watch:
        result = experiment(asked.data_dir, asked.linkage, asked.seed, watch.phase)
    facts = json.dumps(result.facts(), indent=2) + "\n"
    measures = write_whole(asked.folder / f"{asked.name}.json", facts.encode())
    picture = encoded_figure(result, asked.folder / f"{asked.name}.png")
    console = Console()
    console.print(encoded_table(result))
    for line in (*result.claims, f"measures  {measures}", f"picture   {picture}"):
        console.print(str(line), highlight=False, markup=False, soft_wrap=True)


def _check_folder(folder: Path) -> None:
    """Refuse a folder that cannot be written to, before a minute of work is lost."""
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not there.is_dir():
        raise UserError(f"--out {folder}: {there} is a file: choose a folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise UserError(f"--out {folder}: {there} cannot be written to: choose another folder")


EXPERIMENTS: dict[str, Experiment] = {
    "figure3": Experiment(
        "codes of two classes of MNIST, and pseudo-codes from 4000 to 200 concepts", _encoded
    ),
    "figure6": Experiment(
        "the same with 200 concepts, and with one centroid a class, as FearNet keeps", _encoded
    ),
}
