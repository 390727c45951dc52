"""`eec paper NAME` for experiments that are made of runs: state the time, do what is left, tell."""

from __future__ import annotations

import datetime
import json
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eec.cli.many_runs import RETRIES, do_in_sequence, how_far, run_config, say, tell_outcomes
from eec.cli.run import Run
from eec.errors import UserError
from eec.methods.registry import METHODS
from eec.paper.experiments import EXPERIMENTS
from eec.paper.protocol import Block, Line
from eec.runs.sweep import Job, Sweep, plan

if TYPE_CHECKING:
    from eec.runs.engines import Outcome

EXPECTED = "expected.json"


@dataclass(frozen=True)
class Asked:
    """An experiment as it was asked for."""

    name: str
    scale: str
    seeds: int | None
    folder: Path
    data_dir: Path | None
    jobs: int = 1  # runs at a time


@dataclass(frozen=True)
class Planned:
    """A line of a block with its runs, one a seed."""

    block: Block
    line: Line
    jobs: list[Job]


@dataclass(frozen=True)
class Plan:
    """An experiment with its runs, and the lines that cannot be run, each with the reason."""

    seeds: int
    lines: list[Planned]
    left_out: list[str]

    @property
    def jobs(self) -> list[Job]:
        """The first seed of all lines comes first: half-way there is something to compare."""
        return [one.jobs[seed] for seed in range(self.seeds) for one in self.lines]


def carry_out(asked: Asked, arguments: Sequence[str]) -> None:
    planned = _plan(asked)
    try:
        failed = _do(asked, planned)
    except KeyboardInterrupt:
        print(f"eec: stopped; go on with: {shlex.join(['eec', *arguments])}", file=sys.stderr)
        raise
    _conclude(asked, planned, arguments)
    if failed:
        say(f"{failed} of {len(planned.jobs)} runs failed and are not in it")
        sys.exit(1)


def show(asked: Asked, arguments: Sequence[str]) -> None:
    """What is finished so far."""
    planned = _plan(asked)
    if not any(job.finished for job in planned.jobs):
        raise UserError(f"--show: no run in {asked.folder} is finished: run some, without --show")
    say(f"{len(planned.jobs)} runs in {asked.folder}: {how_far(Sweep(planned.jobs, others=0))}")
    _conclude(asked, planned, [word for word in arguments if word != "--show"])


# What is to be run.


def _plan(asked: Asked) -> Plan:
    protocol = EXPERIMENTS[asked.name].at(asked.scale)
    seeds = protocol.seeds if asked.seeds is None else asked.seeds
    if seeds < 1:
        raise UserError(f"--seeds {seeds}: use 1 seed or more")
    if asked.jobs < 1:
        raise UserError(f"--jobs {asked.jobs}: use 1 or more")
    planned = Plan(seeds, [], [])
    for block in protocol.blocks:
        for line in block.lines:
            if missing := _missing(line):
                planned.left_out.append(f"{line.name} on {block.dataset} is left out: {missing}.")
            else:
                planned.lines.append(_plan_line(asked, block, line, range(seeds)))
    return planned


def _missing(line: Line) -> str:
    """Why a line cannot be run here; nothing if it can."""
    if line.method not in METHODS:
        return f"there is no method {line.method}"
    known = {field.name for field in fields(METHODS[line.method].options)}
    known &= {field.name for field in fields(Run)}
    lacking = [name for name in line.options if name not in known]
    return f"{line.method} has no option {', '.join(lacking)}" if lacking else ""


def _plan_line(asked: Asked, block: Block, line: Line, seeds: Sequence[int]) -> Planned:
    chosen: dict[str, Any] = {**block.options, **line.options}
    if asked.data_dir is not None:
        chosen["data_dir"] = asked.data_dir
    for name in ("per_class", "size"):
        if (value := getattr(block, name)) is not None:
            chosen[name] = value
    configs = [run_config(block.dataset, line.method, seed, chosen) for seed in seeds]
    stem = re.sub(r"[^a-z0-9.-]+", "-", line.name.lower())
    place = asked.folder / _place(block)
    others = sorted(set(asked.folder.parent.glob(f"paper-*/{place.name}")) - {place})
    return Planned(block, line, plan(configs, place, stem, others).jobs)


def _place(block: Block) -> str:
    return block.dataset if block.size is None else f"{block.dataset}-{block.size}"


# Doing it.


def _do(asked: Asked, planned: Plan) -> int:
    """State the time, then carry out what is left; gives how many failed."""
    sweep = Sweep(planned.jobs, others=0)
    names = {job.path: (one.block, one.line) for one in planned.lines for job in one.jobs}
    if not sweep.left:
        say(f"{len(sweep.jobs)} runs in {asked.folder}: {how_far(sweep)}")
        return 0

    from eec.cli.pictures import Watch
    from eec.report.words import human_seconds
    from eec.runs.engines import as_one_of, in_processes
    from eec.runs.expected_time import Forecast, seconds_of
    from eec.runs.found import look_at

    def in_all(times: Iterable[float]) -> float:
        """Of runs that go side by side; the longest has nobody to share its time with."""
        some = list(times)
        return max(sum(some) / asked.jobs, max(some, default=0.0))

    with Watch(quiet=False, lines=False) as watch:
        forecast = Forecast(sweep.jobs, watch.phase("reading the data sets"))
        say(f"{len(sweep.jobs)} runs in {asked.folder}: {how_far(sweep)}")
        for words in (*_words(asked, sweep), *planned.left_out):
            say(words)
        say("measuring how fast this machine is")
        with as_one_of(asked.jobs):
            expected = forecast.measure(lambda name: watch.phase(f"measuring {name}"))
    total = in_all(expected.values())
    until = datetime.datetime.now().astimezone() + datetime.timedelta(seconds=total)
    say(f"expected time: {human_seconds(total)}, until about {until:%H:%M on %d %B}")
    _note(asked.folder, expected)

    def to_go(done: Sequence[Job]) -> str:
        # What whole runs took, held against what was expected of them, corrects the rest.
        told = [j for j in done if not j.done and (run := look_at(j.path)) and run.finished]
        before = sum(expected[job.path] for job in told)
        times = sum(seconds_of(job.path) for job in told) / before if before else 1.0
        paths = {job.path for job in done}
        left = in_all(value for path, value in expected.items() if path not in paths)
        return f"{human_seconds(times * left)} to go"

    def name(job: Job) -> str:
        block, line = names[job.path]
        done = sweep.left[: sweep.left.index(job)]
        return f"{_place(block)}, {line.name}, seed {job.config.seed}; {to_go(done)}"

    if asked.jobs == 1:
        return do_in_sequence(sweep, name, pages=False)  # `eec report RUN` draws what is wanted

    def telling_time(outcomes: Iterator[Outcome]) -> Iterator[Outcome]:
        done = []
        for outcome in outcomes:
            yield outcome
            done.append(outcome.job)
            say(to_go(done))

    outcomes = telling_time(in_processes(sweep.left, RETRIES, asked.jobs))
    return tell_outcomes(outcomes, of=len(sweep.left), pages=False)


def _words(asked: Asked, sweep: Sweep) -> list[str]:
    """What the scale is, data set by data set."""
    found = []
    for config in (job.config for job in sweep.jobs):
        images = "all images" if config.per_class is None else f"{config.per_class} images a class"
        size = "" if config.size is None else f", {config.size} pixels a side"
        found.append(
            f"scale {asked.scale}: {config.dataset}, {images}{size}, recipe {config.options.recipe}"
        )
    return list(dict.fromkeys(found))


def _note(folder: Path, expected: dict[Path, float]) -> None:
    """Keep what was first said of each run, to be held against what it took."""
    from eec.files import write_whole

    said = {str(path.relative_to(folder)): round(value, 1) for path, value in expected.items()}
    write_whole(folder / EXPECTED, json.dumps({**said, **_said(folder)}, indent=2).encode())


def _said(folder: Path) -> dict[str, float]:
    try:
        said = json.loads((folder / EXPECTED).read_bytes())
    except (OSError, ValueError):
        return {}
    return said if isinstance(said, dict) else {}


# Telling.


def _conclude(asked: Asked, planned: Plan, arguments: Sequence[str]) -> None:
    """Tables, page and pictures, from the folders of the runs that are finished."""
    from rich.console import Console

    from eec.report.experiment import Part, Result
    from eec.report.experiment_page import notes, terminal_tables, write_result
    from eec.report.folder import RunRecord, read_run
    from eec.runs.found import look_at

    finished: dict[int, dict[str, dict[int, RunRecord]]] = {}  # by block, then by line
    blocks = {id(one.block): one.block for one in planned.lines}
    for one in planned.lines:
        runs = finished.setdefault(id(one.block), {}).setdefault(one.line.name, {})
        for job in one.jobs:
            found = look_at(job.path)
            if found and found.finished:
                runs[job.config.seed] = read_run(job.path)
    result = Result(
        asked.name,
        EXPERIMENTS[asked.name],
        asked.scale,
        planned.seeds,
        [Part(block, finished[key]) for key, block in blocks.items()],
        planned.left_out,
        shlex.join(["eec", *_anywhere(arguments)]),
    )
    if not result.records:
        return
    result = replace(result, timing=_timing(asked.folder, result.records))
    written = write_result(result, asked.folder)
    console = Console()
    for table, caption in terminal_tables(result):
        console.print(table)
        console.print(caption, style="dim", highlight=False, markup=False)
    for line in (*notes(result), result.timing, f"written   {', '.join(map(str, written))}"):
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def _anywhere(arguments: Sequence[str]) -> list[str]:
    """Without the place of the data, which is another one for everybody who repeats it."""
    words = [word for word in arguments if not word.startswith("--data-dir=")]
    if "--data-dir" in words:
        place = words.index("--data-dir")
        del words[place : place + 2]
    return words


def _timing(folder: Path, records: Sequence[Any]) -> str:
    from eec.report.words import human_seconds, run_seconds

    said = _said(folder)
    taken = {
        str(record.path.relative_to(folder)): run_seconds(record)
        for record in records
        if record.path.is_relative_to(folder)  # others are of another experiment
    }
    both = [path for path in taken if path in said]
    if not both:
        return ""
    expected, took = (sum(times[path] for path in both) for times in (said, taken))
    runs = "run" if len(both) == 1 else "runs"
    return (
        f"{len(both)} {runs}: {human_seconds(expected)} were expected, {human_seconds(took)} "
        "were taken, added up over the runs."
    )
