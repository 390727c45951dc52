"""`eec paper NAME`: an experiment of the paper, done again.

To add one that is made of runs: `paper/experiments.py` has them as data. Any other: a function that
does it, and its line in FIGURES.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

import tyro

from eec.cli.experiment import Asked, carry_out, show
from eec.cli.many_runs import check_folder
from eec.errors import UserError
from eec.methods.options import Linkage
from eec.paper import experiments
from eec.paper.protocol import SCALES

FIGURES = {
    "figure3": "codes of two classes of MNIST, and pseudo-codes from 4000 to 200 concepts",
    "figure6": "the same with 200 concepts, and with one centroid a class, as FearNet keeps",
}
RESULTS = Path("docs") / "results.md"


@dataclass(frozen=True)
class Paper:
    """Do an experiment of the paper again: say how long it will take, run what is missing, and set
    what was measured beside what was published."""

    name: tyro.conf.Positional[
        Annotated[
            str,
            tyro.conf.arg(
                metavar="NAME",
                help="Experiment: one that `eec paper list` lists; results gathers the tables of "
                "those that were done into docs/results.md.",
            ),
        ]
    ] = "list"
    scale: Annotated[str, tyro.conf.arg(metavar="cpu|full")] = "cpu"
    """full: the published protocol, for a GPU and days; cpu: a reduction of it for two cores, which
    says what it is and how long it will take before it starts."""
    seeds: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Seeds 0 to N-1 [as the scale has them: 10 in full]."""
    data_dir: Path | None = None
    """Where the data sets lie [EEC_DATA, or eec in the user's cache folder]."""
    jobs: Annotated[int, tyro.conf.arg(metavar="N")] = 1
    """Runs at a time, which share the cores: of small nets, two with a thread each are done sooner
    than one after the other with two."""
    show: bool = False
    """Run nothing: tables and page of what is finished so far."""
    out: Path | None = None
    """Folder of runs, table.md, report.html and pictures [runs/paper-NAME; figure3 and figure6:
    runs/paper-NAME-LINKAGE-SEED]. Runs that are finished in it, or in the folder of another
    experiment beside it, are taken, unfinished ones gone on with. Of results: the folder that
    holds those of the experiments [runs]."""
    seed: int = 0
    """Of figure3 and figure6: decides all that is random."""
    linkage: Linkage = "ward"
    """Of figure3 and figure6: which episodes become one concept; the paper's is centroid."""

    def start(self, arguments: Sequence[str]) -> None:
        if self.scale not in SCALES:
            known = ", ".join(SCALES)
            raise UserError(f"unknown scale {self.scale!r}: choose one of {known}")
        if self.name in ("list", "results"):
            self._check_plain()
            if self.name == "list":
                _list()
            else:
                _gather(self.out or Path("runs"))
        elif self.name in FIGURES:
            self._check(made_of_runs=False)
            _encoded(self, arguments)
        elif self.name in experiments.EXPERIMENTS:
            self._check(made_of_runs=True)
            check_folder(self.folder)
            asked = Asked(self.name, self.scale, self.seeds, self.folder, self.data_dir, self.jobs)
            (show if self.show else carry_out)(asked, arguments)
        else:
            known = ", ".join(("list", "results", *_all()))
            raise UserError(f"unknown experiment {self.name!r}: choose one of {known}")

    def _check_plain(self) -> None:
        """Nothing is run: there is nothing to choose, but for where results are gathered from."""
        plain = Paper(self.name, out=self.out if self.name == "results" else None)
        for field in fields(self):
            if getattr(self, field.name) != getattr(plain, field.name):
                raise UserError(
                    f"--{field.name.replace('_', '-')}: {self.name} runs nothing: leave it out"
                )

    def _check(self, *, made_of_runs: bool) -> None:
        if self.seed < 0:
            raise UserError(f"--seed {self.seed}: use a whole number, 0 or more")
        if made_of_runs and (self.seed or self.linkage != "ward"):
            raise UserError("--seed and --linkage are of figure3 and figure6: use --seeds")
        if not made_of_runs and self.jobs != 1:
            raise UserError(f"--jobs {self.jobs}: {self.name} is not made of runs: leave it out")
        if not made_of_runs and self.show:
            raise UserError(f"--show: {self.name} is not made of runs: leave it out")
        if not made_of_runs and self.scale != "cpu":
            raise UserError(f"--scale {self.scale}: {self.name} has one scale: leave it out")
        if not made_of_runs and self.seeds is not None:
            raise UserError(f"--seeds {self.seeds}: {self.name} has one seed: use --seed")

    @property
    def folder(self) -> Path:
        made = f"paper-{self.name}"
        if self.name in FIGURES:
            made += f"-{self.linkage}-{self.seed}"
        return self.out or Path("runs") / made


def _all() -> dict[str, str]:
    """Every experiment with its description."""
    made = {name: one.description for name, one in experiments.EXPERIMENTS.items()}
    return made | FIGURES


def _list() -> None:
    listed = _all()
    width = max(map(len, listed))
    for name, description in listed.items():
        print(f"{name:<{width}}  {description}")


def _gather(folder: Path) -> None:
    from eec.report.results import gather

    for table in gather(folder, list(_all()), RESULTS):
        print(f"taken    {table}")
    print(f"written  {RESULTS}")


def _encoded(asked: Paper, arguments: Sequence[str]) -> None:
    """Figures 3 and 6: codes of two numbers, and what is drawn from concepts of them."""
    check_folder(asked.folder)

    from rich.console import Console

    from eec.cli.pictures import Watch
    from eec.files import write_whole
    from eec.paper.encoded import figure3, figure6
    from eec.report.encoded import encoded_figure, encoded_markdown, encoded_table

    experiment = {"figure3": figure3, "figure6": figure6}[asked.name]
    with Watch(quiet=False) as watch:
        result = experiment(asked.data_dir, asked.linkage, asked.seed, watch.phase)
    facts = json.dumps(result.facts(), indent=2) + "\n"
    measures = write_whole(asked.folder / f"{asked.name}.json", facts.encode())
    picture = encoded_figure(result, asked.folder / "pictures" / f"{asked.name}.png")
    command = shlex.join(["eec", *arguments])
    write_whole(asked.folder / "table.md", encoded_markdown(result, command, picture))
    console = Console()
    console.print(encoded_table(result))
    for line in (*result.claims, f"measures  {measures}", f"picture   {picture}"):
        console.print(str(line), highlight=False, markup=False, soft_wrap=True)
