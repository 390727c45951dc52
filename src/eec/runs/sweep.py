"""Several runs in one folder: which are there already, which go on, which are to be done.

A run is known by what it was asked to do (its config.json, without the command and the place where
it was begun) and by the code revision (environment.json). All runs under the folder are looked
through, whatever they are called. One that is the same is taken, or gone on with if it is not
finished; all others stay as they are, and a new run goes to METHOD-SEED, or to the first free of
METHOD-SEED-2, METHOD-SEED-3, ... where that name is taken. Runs of other folders are taken as well
where these are named, but only finished ones: those belong to somebody else.

Free of torch: where nothing is to be done, the answer is there at once.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import Any

from eec.methods.options import OF_THE_STREAM
from eec.runs.config import RunConfig
from eec.runs.folder import is_only_begun
from eec.runs.found import FoundRun, find_runs, in_use

NAMED_ORDERS = ("natural", "shuffled")
IN_STREAM = ("per_class", "validation", "returning", "size")


@dataclass(frozen=True)
class Job:
    """A run that is asked for, and its folder."""

    config: RunConfig
    path: Path
    done: int = 0  # increments
    finished: bool = False

    @property
    def name(self) -> str:
        return f"{self.config.method}, seed {self.config.seed}"


@dataclass(frozen=True)
class Sweep:
    jobs: list[Job]  # in the order asked for
    others: int  # runs in the folder that are of another configuration or code

    @property
    def left(self) -> list[Job]:
        return [job for job in self.jobs if not job.finished]


def plan(
    configs: Sequence[RunConfig],
    folder: Path,
    stem: str | None = None,
    elsewhere: Sequence[Path] = (),
) -> Sweep:
    """A folder for each configuration: that of a run which is the same, or a free one.

    New ones are called after their seed and `stem`, which is the method's name if not given.
    """
    mine = list(find_runs(folder))
    there = mine + [run for place in elsewhere for run in find_runs(place) if run.finished]
    keys = [run_key(run) for run in there]
    taken: set[Path] = set()
    jobs = []
    for config in configs:
        key = config_key(config)
        same = [run for run, its in zip(there, keys, strict=True) if its == key and run.is_of_now]
        if same:
            best = max(same, key=lambda run: (run.finished, run.done))
            taken.add(best.path)
            jobs.append(Job(config, best.path, best.done, best.finished))
        else:
            jobs.append(Job(config, _free(folder, stem or config.method, config.seed)))
    return Sweep(jobs, others=sum(run.path not in taken for run in mine))


def config_key(config: RunConfig) -> dict[str, Any]:
    """What a run is known by, as far as it is known before the data are read."""
    order: Any = config.class_order
    if isinstance(order, str) and order not in NAMED_ORDERS:
        order = _read_order(Path(order))
    key = {
        "dataset": _dataset(config.dataset, Path.cwd()),
        "method": config.method,
        "seed": config.seed,
        "options": _options(asdict(config.options)),
        "classes_per_increment": config.increments,
        "order": order,
        "originals": config.originals,
        "turn": config.turn,
        **{name: getattr(config, name) for name in IN_STREAM},
    }
    plain: dict[str, Any] = json.loads(json.dumps(key))  # tuples are lists there
    return plain


def run_key(run: FoundRun) -> dict[str, Any] | None:
    """The same of a run that is there; None where its config.json is of another making."""
    told, stream = run.config, run.config["stream"]
    try:
        order = stream["order"]
        if order not in NAMED_ORDERS:  # the file may have changed since: this is what it said
            order = [str(label) for label in stream["class_order"]]
        return {
            "dataset": _dataset(told["dataset"], Path(told["place"]["folder"])),
            "method": told["method"],
            "seed": told["seed"],
            "options": _options(told["options"]),
            "classes_per_increment": stream["classes_per_increment"],
            "order": order,
            "originals": told["originals"],
            # config.json has what came of it: whether it was asked for stands in the command.
            "turn": told["options"]["turn"] if "--turn" in told["command"] else None,
            **{name: stream[name] for name in IN_STREAM},
        }
    except (KeyError, TypeError):
        return None


def _options(options: dict[str, Any]) -> dict[str, Any]:
    """Without those that are not known before the data set is read."""
    return {name: value for name, value in options.items() if name not in OF_THE_STREAM}


def _dataset(name: str, place: Path) -> str:
    """`folder:birds` is the one in the folder where the run was begun."""
    stem, colon, argument = name.partition(":")
    if not colon or stem != "folder":
        return name
    return f"{stem}:{os.path.realpath(place / Path(argument).expanduser())}"


def _read_order(path: Path) -> list[str] | str:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return str(path)  # the run itself will say what is wrong with it
    return [line.strip() for line in lines if line.strip()]


def _free(folder: Path, stem: str, seed: int) -> Path:
    name = f"{stem}-{seed}"
    names = (name if n == 1 else f"{name}-{n}" for n in count(1))
    return next(path for path in (folder / name for name in names) if _is_free(path))


def _is_free(path: Path) -> bool:
    """Or held by nothing but a run that never began, which `RunFolder.make` clears away."""
    return not path.exists() or (path.is_dir() and not in_use(path) and is_only_begun(path))
