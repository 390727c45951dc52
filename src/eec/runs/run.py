"""One class-incremental experiment: learn, judge, write down, increment by increment."""

from __future__ import annotations

import json
import time
import zlib
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Protocol

from eec.data.catalog import load_dataset
from eec.data.stream import ORDERS, Increment, Stream, Task, make_stream, read_class_order
from eec.errors import UserError
from eec.files import write_whole
from eec.methods.archive import load_learner, save_learner
from eec.methods.contract import Facts, Method
from eec.methods.options import EECOptions, ExemplarOptions
from eec.methods.registry import make_method
from eec.nets.classifiers import shape_of
from eec.runs.config import RunConfig
from eec.runs.environment import describe
from eec.runs.folder import RunFolder
from eec.runs.judge import Judge, Measures
from eec.runs.samples import Sample, add_samples, read_samples, write_samples
from eec.training.journal import Journal
from eec.training.loop import Progress, quiet
from eec.training.runtime import choose_runtime


class Watcher(Protocol):
    """Somebody who looks on while a run goes."""

    def begin(self, stream: Stream, nets: Facts) -> None: ...
    def increment(self, increment: Increment) -> None: ...
    def phase(self, name: str) -> Progress: ...
    def measured(self, line: Measures) -> None: ...
    def recalled(self, line: Measures) -> None: ...


def prepare(config: RunConfig, progress: Progress = quiet) -> tuple[Stream, Method]:
    """The stream and the untaught method; every mistake in the configuration shows here."""
    choose_runtime(config.device, config.precision)  # refused before minutes of reading
    stream = read_stream(config, progress)
    return stream, untaught(config, stream)


def read_stream(config: RunConfig, progress: Progress = quiet) -> Stream:
    dataset = load_dataset(
        config.dataset,
        config.data_dir,
        config.size,
        seed=config.seed,
        strict=config.strict,
        progress=progress,
    )
    order: Any = config.class_order
    if isinstance(order, str) and order not in ORDERS:
        order = read_class_order(Path(order), dataset.classes)
    return make_stream(
        dataset,
        classes_per_increment=config.increments,
        order=order,
        seed=config.seed,
        per_class=config.per_class,
        validation=config.validation,
        returning=config.returning,
    )


def untaught(config: RunConfig, stream: Stream) -> Method:
    """The method, with what it takes from its stream; refuses a stream that it cannot learn."""
    runtime = choose_runtime(config.device, config.precision)
    turn = stream.turn if config.turn is None else config.turn
    if config.turn is None and config.options.recipe == "paper":
        turn = 0  # it knows of crops and mirrors only
    options = replace(config.options, flip=stream.flip, turn=turn)
    if isinstance(options, EECOptions | ExemplarOptions):
        options = replace(options, expected=sum(len(i.train) for i in stream.increments))
    method = make_method(config.method, options, config.seed, runtime)
    # All that will come, with one image for all of them: a budget that cannot hold it is refused
    # now, and not hours later by the increment that is too many.
    first = stream.increments[0].train
    one = first.images[first.index[:1]]
    coming = [increment.train.labels for increment in stream.increments]
    method.check(*(Task(one.expand(len(labels), -1, -1, -1), labels) for labels in coming))
    return method


def run(
    config: RunConfig,
    stream: Stream,
    method: Method,
    folder: RunFolder,
    watcher: Watcher,
    journal: Journal | None = None,
) -> None:
    """Go through the stream; the folder has a line of measures and a learner after each task.

    A run that fails before anything is worth keeping leaves no trace, and an earlier run as it was.
    """
    try:
        described = describe_config(config, stream, method)
        folder.write_json("environment.json", describe(method.runtime))
        folder.write_json("config.json", described)  # last: with it, the folder is a run's
        watcher.begin(stream, described["nets"])
        _go_through(config, stream, method, folder, watcher, journal or Journal())
    except BaseException:
        if not folder.worth_going_on:
            folder.undo()
        raise


def go_on(
    config: RunConfig,
    stream: Stream,
    method: Method,
    folder: RunFolder,
    watcher: Watcher,
    journal: Journal,
) -> None:
    """The same for a run that was stopped: from where the folder says that it is."""
    _check_same(folder.read_json("config.json"), describe_config(config, stream, method), folder)
    folder.settle()
    if folder.lines:
        method = load_learner(folder.learner, method.runtime)
        if method.tasks != len(folder.lines):
            raise UserError(
                f"{folder.learner} is of increment {method.tasks}, the measures end with "
                f"{len(folder.lines)}: restore the folder, or run again"
            )
    watcher.begin(stream, method.nets(shape_of(stream.increments[0].train.images)))
    _go_through(config, stream, method, folder, watcher, journal)


def _go_through(
    config: RunConfig,
    stream: Stream,
    method: Method,
    folder: RunFolder,
    watcher: Watcher,
    journal: Journal,
) -> None:
    judge, lost = Judge(), ""
    if method.forgets_encoders and 0 < len(folder.lines) < len(stream.increments):
        try:
            judge.decoded = {s.label: s.rows["decoded"] for s in read_samples(folder.decoded)}
        except UserError as error:  # it serves to look at the gap: the rest is as it would be
            lost = f"How old classes' test images come out of their codecs is not known: {error}."
    for increment in stream.increments:
        number = increment.number
        if number <= len(folder.lines):
            line = json.loads(folder.lines[number - 1])
            judge.recall(increment, line)
            watcher.recalled(line)
            continue
        watcher.increment(increment)
        place = folder.checkpoint / f"increment-{number}"
        journal.turn_to(place)
        task = increment.task
        _check_images(place / "images.json", task, number)
        report = method.learn(task, watcher.phase, journal)
        folder.check_present()
        if lost:
            report.notes.append(lost)
            lost = ""
        line = judge.measure(method, increment, report, watcher.phase)
        add_samples(folder.samples, method, increment, originals=config.originals)
        began = time.perf_counter()
        decoded = [Sample(label, {"decoded": images}) for label, images in judge.decoded.items()]
        write_samples(folder.decoded, decoded)
        save_learner(method, folder.next_learner)
        line["seconds"]["checkpoint"] = journal.saving + time.perf_counter() - began
        folder.add_measures(line)
        watcher.measured(line)
    folder.finish()


def describe_config(config: RunConfig, stream: Stream, method: Method) -> dict[str, Any]:
    return {
        "dataset": config.dataset,
        "method": config.method,
        "strict": method.strict,
        "options": asdict(method.options),
        "seed": config.seed,
        "stream": {
            "classes_per_increment": config.increments,
            "order": config.class_order,
            "class_order": list(stream.class_order),
            "increments": len(stream.increments),
            "per_class": config.per_class,
            "validation": config.validation,
            "returning": config.returning,
            "size": config.size,
            "judged_on": stream.judged_on,
            "notices": list(stream.notices),
        },
        "nets": method.nets(shape_of(stream.increments[0].train.images)),
        "originals": config.originals,
        "place": {
            "data_dir": None if config.data_dir is None else str(config.data_dir.resolve()),
            "folder": str(Path.cwd()),
            "strict": config.strict,
            "device": config.device,
            "precision": config.precision,
            "beside": [str(path.resolve()) for path in config.beside],
        },
        "command": config.command,
    }


def _check_same(before: Facts, now: Facts, folder: RunFolder) -> None:
    """What a run goes on with must be what it began with, or its numbers mean nothing."""
    before, now = json.loads(json.dumps(before)), json.loads(json.dumps(now))
    for name in ("class_order", "increments", "judged_on"):
        if before["stream"].get(name) != now["stream"][name]:
            raise UserError(
                f"the data set {before['dataset']} is not what it was when {folder.path} began "
                f"({name} differs): restore it, or run again"
            )
    if before["nets"] != now["nets"] or before["options"] != now["options"]:
        raise UserError(
            f"{folder.path} was begun by another version of eec: go on with that one, or run again"
        )


def _check_images(path: Path, task: Task, number: int) -> None:
    """The images of an increment that was begun earlier must be those of now."""
    images = task.images
    digest = [zlib.crc32(images.contiguous().numpy().data), zlib.crc32(repr(task.labels).encode())]
    if path.exists():
        try:
            same = json.loads(path.read_bytes()) == digest
        except ValueError:
            same = False
        if not same:
            raise UserError(
                f"the images of increment {number} have changed since this run began: restore the "
                "data set, or run again"
            )
        return
    write_whole(path, json.dumps(digest).encode())
