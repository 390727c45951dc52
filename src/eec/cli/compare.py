"""`eec compare DATASET --methods a,b,c --seeds N`: methods side by side, over seeds.

Nothing is done twice: a run that is there already, with the same configuration and code, is taken
as it is, and torch is not even loaded if all of them are.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from eec.cli.many_runs import (
    RETRIES,
    check_folder,
    do_in_sequence,
    how_far,
    run_config,
    say,
    tell_outcomes,
)
from eec.cli.run import DATASET_NAMES, file_name
from eec.errors import UserError
from eec.methods.options import Net, RecipeName
from eec.methods.registry import METHODS, find_method
from eec.runs.config import RunConfig
from eec.runs.sweep import Sweep, plan

if TYPE_CHECKING:
    from eec.report.folder import RunRecord

STREAM = (
    "data_dir", "size", "classes_per_increment", "class_order", "per_class", "validation",
    "returning",
)  # fmt: skip
OF_METHODS = ("memory", "net", "recipe", "code", "crop")
AT_ONCE = 2


@dataclass(frozen=True)
class Compare:
    """Run several methods over several seeds, or take runs that are there, and compare them: mean
    and deviation, differences with their interval, the paper's numbers beside them."""

    dataset: tyro.conf.Positional[
        Annotated[str, tyro.conf.arg(metavar="DATASET", help=f"Data set: {DATASET_NAMES}.")]
    ]
    methods: Annotated[str, tyro.conf.arg(metavar="NAME,NAME,...")] = "eec,joint,finetune"
    """Methods, as `eec run --help` explains them; the others are held against the first."""
    seeds: Annotated[int, tyro.conf.arg(metavar="N")] = 3
    """Seeds 0 to N-1 for each method. The same seed is the same stream."""
    out: Path | None = None
    """Folder of the runs, METHOD-SEED, and of comparison.md, .csv and .json
    [runs/compare-DATASET]. A run in it with the same configuration and code revision is taken, an
    unfinished one gone on with, any other left alone."""
    engine: Literal["sequence", "processes", "ray"] = "sequence"
    """One run after the other, in local processes, or on a Ray cluster (pip install
    'eec[cluster]'). A training uses all cores: on few of them, two trainings at once are slower
    than one after the other."""
    jobs: int | None = None
    """Processes at a time, which share the cores [2]."""
    address: str | None = None
    """Ray cluster, HOST:PORT or auto; --out must be on a disk that all its machines share [a Ray of
    this machine, started for the purpose]."""
    retries: int = RETRIES
    """So many times a run whose process or machine died is begun again, from its checkpoint."""
    format: Literal["table", "markdown", "csv", "json"] = "table"
    """What is printed; all of them are written to the folder."""

    # The stream, as `eec run` has it.
    data_dir: Path | None = None
    """Where the data sets lie [EEC_DATA, or eec in the user's cache folder]."""
    size: int | None = None
    """Scale images to this many pixels a side [32 for image files, else as they are]."""
    classes_per_increment: str | None = None
    """New classes an increment: one number, or one for each increment as in 2,3,5 [as in the
    paper]."""
    class_order: Annotated[str, tyro.conf.arg(metavar="natural|shuffled|FILE")] = "natural"
    """Classes in their natural order, shuffled by the seed, or as a text file has them, one a
    line."""
    per_class: int | None = None
    """At most this many training images of a class [all]."""
    validation: float = 0.0
    """Hold this share of the training images out and judge on it, not on the test images."""
    returning: float = 0.0
    """This share of each class's images comes one increment later, with the next classes."""

    # For those of the methods that have the choice.
    memory: str | None = None
    """What may be kept of old classes: slots (5000), bytes (5MB), or unlimited."""
    net: Net | None = None
    """Classifier [by method]."""
    recipe: RecipeName | None = None
    """Training: fast, brief or paper [fast]."""
    code: str | None = None
    """Shape of an episode, channels x side x side [by method]."""
    crop: int | None = None
    """Train on random crops of this many pixels, judge on the central one [whole images]."""

    def start(self, arguments: Sequence[str]) -> None:
        methods = self._check()
        folder = self.out or Path("runs") / f"compare-{file_name(self.dataset)}"
        seeds = range(self.seeds)
        check_folder(folder)
        sweep = plan([self._config(m, seed) for m in methods for seed in seeds], folder)
        if sweep.left and self.engine != "ray":  # whose machines may have the data elsewhere
            _try(sweep)
        self._tell(methods, sweep, folder)
        try:
            failed = self._do(sweep)
        except KeyboardInterrupt:
            again = shlex.join(["eec", *arguments])
            print(f"eec: stopped; go on with: {again}", file=sys.stderr)
            raise
        self._conclude(sweep, folder, failed)
        if failed:
            sys.exit(1)

    def _check(self) -> list[str]:
        """What cannot be done is refused before anything is; gives the methods."""
        methods = list(dict.fromkeys(name.strip() for name in self.methods.split(",")))
        for name in methods:
            find_method(name)
        if self.seeds < 1:
            raise UserError(f"--seeds {self.seeds}: compare over 1 seed or more")
        if self.retries < 0:
            raise UserError(f"--retries {self.retries}: use 0 or more")
        if self.jobs is not None and (self.engine != "processes" or self.jobs < 1):
            raise UserError(f"--jobs {self.jobs}: use 1 or more, with --engine processes")
        if self.address is not None and self.engine != "ray":
            raise UserError(f"--address {self.address}: it is of --engine ray")
        for option in self._chosen(OF_METHODS):
            if all(option in _lacking(method) for method in methods):
                raise UserError(f"--{option}: none of {', '.join(methods)} has it: leave it out")
        return methods

    def _chosen(self, names: Sequence[str]) -> dict[str, Any]:
        """What was given, and differs from what it is if not given."""
        plain = {field.name: field.default for field in fields(self)}
        values = {name: getattr(self, name) for name in names}
        return {name: value for name, value in values.items() if value != plain[name]}

    def _config(self, method: str, seed: int) -> RunConfig:
        chosen = self._chosen((*STREAM, *OF_METHODS))
        for name in _lacking(method):
            chosen.pop(name, None)
        return run_config(self.dataset, method, seed, chosen)

    def _tell(self, methods: list[str], sweep: Sweep, folder: Path) -> None:
        """What will be done, and what is not as it may seem. All but the result: to stderr."""
        for option in self._chosen(OF_METHODS):
            if without := [method for method in methods if option in _lacking(method)]:
                verb = "have" if len(without) > 1 else "has"
                say(f"{', '.join(without)} {verb} no {option}: run without it")
        say(f"{len(sweep.jobs)} runs in {folder}: {how_far(sweep)}")
        if sweep.others:
            say(
                f"{sweep.others} more there, of another configuration, seed or code, "
                "stay as they are"
            )

    def _do(self, sweep: Sweep) -> int:
        """Carry out what is left; gives how many failed."""
        if not sweep.left:
            return 0
        if self.engine == "sequence":
            return do_in_sequence(sweep)
        from eec.runs.engines import in_processes, on_ray

        if self.engine == "processes":
            outcomes = in_processes(sweep.left, self.retries, self.jobs or AT_ONCE)
        else:
            outcomes = on_ray(sweep.left, self.retries, self.address)
        return tell_outcomes(outcomes, of=len(sweep.left))

    def _conclude(self, sweep: Sweep, folder: Path, failed: int) -> None:
        """The result, from the folders of the runs that are finished."""
        from eec.report.comparison import FORMS, compare, terminal_tables, write_comparison
        from eec.report.folder import read_run
        from eec.runs.found import look_at

        runs: dict[str, dict[int, RunRecord]] = {job.config.method: {} for job in sweep.jobs}
        for job in sweep.jobs:
            found = look_at(job.path)
            if found and found.finished:
                runs[job.config.method][job.config.seed] = read_run(job.path)
        if not any(runs.values()):
            return
        result = compare(runs)
        written = write_comparison(result, folder)
        if self.format != "table":
            form = FORMS["md" if self.format == "markdown" else self.format]
            print(form(result), end="")
            return
        from rich.console import Console

        console = Console()
        for table in terminal_tables(result):
            console.print(table)
        lines = [*result.notes, f"written   {', '.join(map(str, written))}"]
        if failed:
            lines.insert(0, f"{failed} of {len(sweep.jobs)} runs failed and are not in it.")
        for line in lines:
            console.print(line, highlight=False, markup=False, soft_wrap=True)


def _try(sweep: Sweep) -> None:
    """What none of the runs could read or learn is told once, before the first."""
    from eec.runs.run import read_stream, untaught

    stream = read_stream(sweep.left[0].config)
    firsts = {job.config.method: job.config for job in reversed(sweep.left)}
    for config in firsts.values():
        untaught(config, stream)


def _lacking(method: str) -> list[str]:
    """Which of the choices for methods this one does not have."""
    known = {field.name for field in fields(METHODS[method].options)}
    return [name for name in OF_METHODS if name not in known]
