"""How long runs will take on this machine, said before they begin.

The work is counted: each increment's trainings from the plans of the recipe, and the images that
are coded, decoded and judged besides. What a unit of it takes is measured: every method learns a
few images for a few steps, by the clock. A run that was finished earlier tells better than both.
"""

from __future__ import annotations

import json
import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from eec.data.labels import distinct
from eec.data.stream import Increment, Selection, Stream, Task
from eec.memory.budget import parse_budget
from eec.methods.contract import Method
from eec.methods.options import ExemplarOptions, ReplayOptions
from eec.nets.classifiers import Shape, shape_of
from eec.runs.judge import GAP_IMAGES
from eec.runs.run import read_stream, untaught
from eec.runs.sweep import Job, config_key
from eec.training.loop import Progress, quiet
from eec.training.recipes import Plan
from eec.training.runtime import choose_runtime

STEPS = 8  # of a training that is timed; each plan has its own number, which tells them apart
BATCHES = 2  # of images that a timed task has
JUDGED = 64  # images that are named and coded by the clock
CLASSIFIER = ("first", "later")  # plans of a recipe; the others are of what keeps the images
# That the published autoencoder is expected to need. On MNIST it was seen to need one for a task,
# on CIFAR-10 all three: with two, neither is told a wholly wrong time.
ATTEMPTS = 2
LOOKS = 3  # times that a codec codes a new task: to keep it, to be judged, to be compared


@dataclass(frozen=True)
class Rates:
    """Seconds: of an image in a training step, by plan, and of one that is only looked at."""

    plans: dict[str, float]
    lasting: frozenset[str]  # plans that a later task is trained by, too
    naming: float
    recalling: float
    coding: float


@dataclass(frozen=True)
class Size:
    """One increment, in images."""

    classes: int  # seen by then
    brought: int  # classes of which there are new images
    new: int
    seen: int  # earlier
    judged: int  # test images of all classes by then
    each: int  # bytes of an image as it is


class Forecast:
    """What is left of some runs, in seconds.

    Reading the data sets comes first, so that one which is missing is told before anything else.
    Runs that differ in the seed alone are taken to be of one length.
    """

    def __init__(self, jobs: Sequence[Job], progress: Progress = quiet) -> None:
        self.jobs = list(jobs)
        self.streams: dict[str, Stream] = {}
        self.methods: dict[str, Method] = {}  # by line
        self.known: dict[str, float] = {}  # seconds of a whole run, by line
        for job in self.jobs:
            if job.finished:
                self.known.setdefault(_line(job), seconds_of(job.path))
        for job in self.left:
            if _line(job) in self.known or _line(job) in self.methods:
                continue
            choose_runtime(job.config.device, job.config.precision)
            if _stream(job) not in self.streams:
                self.streams[_stream(job)] = read_stream(job.config, progress)
            self.methods[_line(job)] = untaught(job.config, self.streams[_stream(job)])

    @property
    def left(self) -> list[Job]:
        return [job for job in self.jobs if not job.finished]

    def measure(self, tell: Callable[[str], object] = str) -> dict[Path, float]:
        """Seconds that each unfinished run will take, by its folder."""
        rates: dict[str, Rates] = {}
        expected = {}
        for job in self.left:
            if _line(job) in self.known:
                expected[job.path] = self.known[_line(job)]  # of the whole: a little too long
                continue
            method, stream = self.methods[_line(job)], self.streams[_stream(job)]
            key = _stream(job) + _kind(method, stream)
            if key not in rates:
                tell(f"{job.config.method} on {job.config.dataset}")
                rates[key] = measure_rates(untaught(job.config, stream), stream)
            sizes = sizes_of(stream)[job.done :]
            expected[job.path] = sum(
                seconds(rates[key], method, size, _pixels(method, stream)) for size in sizes
            )
        return expected


def _line(job: Job) -> str:
    """What runs have in common that differ in the seed alone."""
    return json.dumps({**config_key(job.config), "seed": None}, sort_keys=True)


def _stream(job: Job) -> str:
    key = config_key(job.config)
    return json.dumps({**key, "seed": None, "method": None, "options": None}, sort_keys=True)


def _kind(method: Method, stream: Stream) -> str:
    """What the rates depend on: nets and options, but not how much is kept; a method without nets
    of its own is as fast as any other such."""
    nets = method.nets(_shape(stream))
    options = {**asdict(method.options), "memory": None, "expected": None}
    recipe = method.options.recipe
    return json.dumps([nets, recipe if len(nets) == 1 else options], sort_keys=True)


def seconds_of(run: Path) -> float:
    """What a finished run took, by its own measures."""
    lines = (run / "measures.jsonl").read_text(encoding="utf-8").splitlines()
    return float(sum(part or 0 for line in lines for part in json.loads(line)["seconds"].values()))


# Counting.


def sizes_of(stream: Stream) -> list[Size]:
    sizes: list[Size] = []
    for increment in stream.increments:
        before = sizes[-1] if sizes else Size(0, 0, 0, 0, 0, 0)
        sizes.append(
            Size(
                classes=before.classes + len(increment.new_classes),
                brought=len(distinct(increment.train.labels)),
                new=len(increment.train),
                seen=before.seen + before.new,
                judged=before.judged + len(increment.judged),
                each=math.prod(_shape(stream)),
            )
        )
    return sizes


def images_trained_on(method: Method, plan: str, size: Size) -> int:
    """How many images an epoch of this training has."""
    options: Any = method.options
    if plan not in CLASSIFIER:
        return size.new + (size.seen if getattr(options, "codec", "") == "retrained" else 0)
    if not keeps(method):
        return size.new
    old = size.seen  # whatever is kept is shown as often as it stands for
    if isinstance(options, ExemplarOptions) and not isinstance(options, ReplayOptions):
        old = min(old, _exemplars(options.memory, size))  # or once, as by iCaRL
    if method.options.replay_per_epoch:
        old = min(old, method.options.replay_per_epoch)
    twice = getattr(options, "new_images", "") == "both"
    return old + (2 if twice else 1) * size.new


def _exemplars(memory: str, size: Size) -> int:
    budget = parse_budget(memory)
    if budget.bytes is not None:
        return budget.bytes // size.each
    return size.seen if budget.slots is None else budget.slots


def steps(method: Method, plan: str, size: Size, pixels: int) -> tuple[int, float]:
    """The steps of one training, and the images in each."""
    chosen: Plan = getattr(method.recipe, plan)
    if plan in CLASSIFIER:
        chosen = chosen.for_classes(size.brought)
    chosen = chosen.for_pixels(pixels)
    images = images_trained_on(method, plan, size)
    return chosen.total_steps(images), images / chosen.batches_per_epoch(images)


def keeps(method: Method) -> bool:
    """Whether anything but the classifier outlasts a task."""
    return method.bytes_by_part().keys() != {"classifier"}


def seconds(rates: Rates, method: Method, size: Size, pixels: int) -> float:
    """What one increment takes."""
    first = size.seen == 0
    classifier = "first" if first else "later"
    wanted = [] if size.classes == 1 else [classifier]
    wanted += [name for name in rates.plans if name not in CLASSIFIER]
    total = 0.0
    for plan in wanted:
        if first or plan in rates.lasting or plan in CLASSIFIER:
            count, batch = steps(method, plan, size, pixels)
            times = ATTEMPTS if plan == "autoencoder" else 1
            rate = rates.plans.get(plan, rates.plans.get("later", 0.0))
            total += times * count * batch * rate
    compared = min(size.judged, GAP_IMAGES * size.classes) if rates.recalling else 0
    named = size.judged + 2 * compared + (size.seen + size.new if rates.recalling else 0)
    return (
        total
        + named * rates.naming
        + (compared + size.seen) * rates.recalling
        + (compared + LOOKS * size.new) * rates.coding
    )


# Measuring.


class Stopwatch:
    """Looks on at trainings: how long each step took, by the number of steps in all."""

    def __init__(self) -> None:
        self.taken: dict[int, list[float]] = {}

    def phase(self, name: str) -> Progress:
        before = 0.0

        def on_step(done: int, total: int) -> None:
            nonlocal before
            now = time.perf_counter()
            if done > 1:
                self.taken.setdefault(total, []).append(now - before)
            before = now

        return on_step


def measure_rates(method: Method, stream: Stream) -> Rates:
    """Teach it a few images of the first tasks, with every plan cut to a few steps."""
    recipe = method.recipe
    names = {STEPS + i: name for i, name in enumerate(recipe.plans)}
    cut: dict[str, Any] = {name: _cut(recipe.plans[name], count) for count, name in names.items()}
    method.recipe = replace(recipe, **cut)
    pixels = _pixels(method, stream)
    batch = max(plan.for_pixels(pixels).batch for plan in cut.values())
    rates: dict[str, float] = {}
    lasting: set[str] = set()
    sizes: list[Size] = []
    tasks = [_few(increment, BATCHES * batch) for increment in stream.increments[:2]]
    for number, task in enumerate(tasks):
        watch = Stopwatch()
        method.learn(task, watch.phase)
        seen = sum(map(len, tasks[:number]))
        each = math.prod(shape_of(task.images))
        sizes.append(Size(len(method.classes), len(task.classes), len(task), seen, 0, each))
        for count, taken in watch.taken.items():
            name = names[count]
            _, images = steps(method, name, sizes[-1], pixels)
            rates[name] = statistics.median(taken) / images
            if number:
                lasting.add(name)
    return Rates(rates, frozenset(lasting), *_looking(method, tasks[-1]))


def _cut(plan: Plan, steps: int) -> Plan:
    return replace(plan, steps=steps, epochs=0, least_images=0, least_steps=0, most_steps=None)


def _looking(method: Method, task: Task) -> tuple[float, float, float]:
    """Seconds an image: to name it, to recall it from memory, to code and decode it."""
    few = _few_of(task, JUDGED)
    # Once before it counts: the first call of anything takes longer.
    named = min(_seconds(lambda: method.predict_proba(few.images)) for _ in range(2)) / len(few)
    shown = sum(len(images) for _, images in method.remember(JUDGED))
    if not shown:
        return named, 0.0, 0.0
    recalled = _seconds(lambda: method.remember(JUDGED)) / shown
    mine = [i for i, label in enumerate(few.labels) if label == few.labels[0]]
    coded = _seconds(lambda: method.reconstruct(few.images[mine], few.labels[0])) / len(mine)
    return named, recalled, coded


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _few(increment: Increment, most: int) -> Task:
    """Images from all over the task, so that each class has some."""
    part = increment.train
    chosen = torch.linspace(0, len(part) - 1, min(len(part), most)).round().long()
    return Selection(part.images, part.index[chosen], [part.labels[i] for i in chosen]).gather()


def _few_of(task: Task, most: int) -> Task:
    chosen = torch.linspace(0, len(task) - 1, min(len(task), most)).round().long()
    return Task(task.images[chosen], [task.labels[i] for i in chosen])


def _shape(stream: Stream) -> Shape:
    return shape_of(stream.increments[0].train.images)


def _pixels(method: Method, stream: Stream) -> int:
    """Of what the nets see."""
    side = method.options.crop
    _, height, width = _shape(stream)
    return side * side if side else height * width
