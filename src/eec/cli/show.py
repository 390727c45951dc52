"""`eec show RUN`: one run, as its folder has it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from eec.errors import UserError
from eec.methods.registry import METHODS

if TYPE_CHECKING:
    from eec.runs.found import FoundRun

FILES = {
    "measures": "measures.jsonl",
    "pictures": "pictures",
    "learner": "learner.eec",
    "report": "report.html",
}
ENVIRONMENT = (
    "revision", "eec", "torch", "python", "cpu", "cores", "threads", "device", "precision",
    "started",
)  # fmt: skip


@dataclass(frozen=True)
class Show:
    """Print one run: its table, what was chosen otherwise than the method has it, where it ran, and
    where its files are."""

    run: tyro.conf.Positional[
        Annotated[Path, tyro.conf.arg(metavar="RUN", help="Run folder, as `eec run` made it.")]
    ]

    def start(self, arguments: Sequence[str]) -> None:
        from eec.runs.found import look_at

        found = look_at(self.run)
        if found is None:
            raise UserError(
                f"{self.run} is not a run folder: give one that eec runs lists, such as "
                "runs/digits-eec-0"
            )

        from rich.console import Console

        console = Console()
        lines: list[str] = []
        if found.done:
            from eec.report.folder import read_run
            from eec.report.table import headline, run_table

            record = read_run(self.run)
            console.print(run_table(record))
            lines.append(headline(record))
        for line in (*lines, *_state(found), *_setup(found), *_files(found)):
            console.print(line, highlight=False, markup=False, soft_wrap=True)


def _state(run: FoundRun) -> list[str]:
    if run.in_use:
        return [f"running   {run.done} of {run.increments} increments done"]
    if run.finished:
        return []
    again = f"go on with: eec resume {shlex.quote(str(run.path))}"
    return [f"unfinished: {run.done} of {run.increments} increments done; {again}"]


def _setup(run: FoundRun) -> list[str]:
    known = run.environment
    told = [f"{name} {known[name]}" for name in ENVIRONMENT if known.get(name) is not None]
    return [
        f"options   {', '.join(_otherwise(run)) or 'as the method has them'}",
        f"stream    {', '.join(_stream(run.config['stream']))}",
        f"ran with  {', '.join(told) or 'nothing is written about it'}",
        f"command   {run.config.get('command') or 'unknown'}",
    ]


def _otherwise(run: FoundRun) -> list[str]:
    """What differs from the method's defaults, without what is the data set's."""
    of_set = {"flip"} if "--turn" in str(run.config.get("command")) else {"flip", "turn"}
    method = METHODS.get(str(run.config["method"]))
    plain = asdict(method.options) if method else {}
    options: dict[str, Any] = run.config.get("options") or {}
    return [
        f"{name} {value} (else {plain[name]})" if name in plain else f"{name} {value}"
        for name, value in options.items()
        if name not in of_set and (name not in plain or plain[name] != value)
    ]


def _stream(stream: dict[str, Any]) -> list[str]:
    sizes = stream.get("classes_per_increment")
    words = [
        f"{sizes} classes an increment" if isinstance(sizes, int) else f"increments of {sizes}",
        f"order {stream.get('order')}",
        "all images"
        if stream.get("per_class") is None
        else f"{stream['per_class']} images a class",
        f"judged on {stream.get('judged_on')} images",
    ]
    words += [
        f"{name} {stream[name]}" for name in ("size", "validation", "returning") if stream.get(name)
    ]
    return words


def _files(run: FoundRun) -> list[str]:
    places = {word: run.path / name for word, name in FILES.items()}
    return [f"{word:<9} {path}" for word, path in places.items() if path.exists()]
