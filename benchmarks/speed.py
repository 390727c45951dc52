"""Our way of each kind of work against the plain one that most people would write.

    python benchmarks/speed.py [--data DATA] [--rounds 5] [--steps 100] [--per-class 500]
    python benchmarks/speed.py --data DATA --dataset cifar10 --judge wgan --phases autoencoder

Same nets, steps, batch sizes and images: those of `--dataset`, which is MNIST where `--data` names
a folder, else the embedded digits. `--judge` is the net whose features the content loss compares.
Nothing is mirrored. Ours, the plain way (`plain.py`) and the nets' arithmetic alone take turns, so
that a busy machine slows all of them down; ratios are of medians. The plain way has a process of
its own: ours holds on to freed memory, as that of `eec run` does. With one thread, `--cpu-time`
leaves out the time in which other processes had the core. `--guard` ends with status 1 where a
ratio is under its guard; `--peak N` also runs `eec run` in a process of its own, with N images a
class (0: all), and tells its peak memory.
"""

from __future__ import annotations

import argparse
import copy
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path

import plain
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss
from torch.utils.flop_counter import FlopCounterMode

from eec.data.catalog import load_dataset
from eec.data.dataset import Dataset
from eec.data.stream import make_stream
from eec.memory.codec import CodecOptions, _fit, new_autoencoder
from eec.methods.eec import EECMethod
from eec.methods.registry import choose_options, make_method
from eec.nets.autoencoder import Autoencoder
from eec.nets.classifiers import CLASSIFIERS, Classifier, shape_of
from eec.nets.compressor import Compressor
from eec.training.allocator import keep_freed_memory
from eec.training.batches import Batches, smaller
from eec.training.loop import _optimizer, apply, quiet, train
from eec.training.recipes import Plan, Recipe, find_recipe
from eec.training.runtime import choose_runtime, generator, seeded

Work = Callable[[], object]

PUBLISHED = CodecOptions("16x4x4", "norm", 0.7, "normalised")
CODED = CodecOptions("auto", "tanh", 0.0, "normalised", "coded")
# Not what is reached (docs/speed.md) but what it must not fall under; ratios, since seconds differ
# from machine to machine.
GUARDS = {
    "classifier": 1.1,
    "autoencoder": 1.1,
    "compressor": 0.9,
    "rehearsal": 1.0,
    "evaluation": 1.5,
    "increment": 1.1,
    "as shipped": 1.1,
}


@dataclass(frozen=True)
class Phase:
    """One kind of work; each way is made ready outside the clock."""

    name: str
    images: int  # that go through the nets
    ours: Callable[[], Work]
    plain: Callable[[], Work]
    bare: Callable[[], Work]  # the same nets' arithmetic alone, on batches that are there


class Phases:
    """All kinds of work on one data set."""

    def __init__(
        self, dataset: Dataset, per_class: int, steps: int, workers: int, judge: str
    ) -> None:
        self.workers = workers
        self.judge = judge
        self.turn = dataset.turn
        self.runtime = choose_runtime()
        fast = find_recipe("fast")
        # The same work for both: no smaller images first, and no detail lent.
        alike = {name: replace(getattr(fast, name), early=0.0) for name in ("first", "later")}
        self.recipe = replace(fast, **alike)
        stream = make_stream(dataset, classes_per_increment=1, per_class=per_class)
        self.tasks = [increment.task for increment in stream.increments]
        self.images = torch.cat([task.images for task in self.tasks])
        counts = torch.tensor([len(task) for task in self.tasks])
        self.targets = torch.arange(len(self.tasks)).repeat_interleave(counts)
        index = {label: i for i, label in enumerate(stream.class_order)}
        self.test = dataset.test_images
        self.test_targets = [index[label] for label in dataset.test_labels]
        self.shape = shape_of(self.images)
        self.first = replace(self.recipe.first, steps=steps)
        self.autoencoder = replace(self.recipe.autoencoder, steps=steps)
        self.compressor = replace(self.recipe.compressor, steps=steps)
        self.learner = self._learned(self.recipe, detail=False)

    def all(self) -> list[Phase]:
        return [
            self._classifier(),
            self._codec("autoencoder", PUBLISHED, self.autoencoder),
            self._codec("compressor", CODED, self.compressor),
            self._rehearsal(),
            self._evaluation(),
            self._increment("increment", self.learner),
            self._increment("as shipped", self._learned(find_recipe("fast"), detail=True)),
        ]

    def _learned(self, recipe: Recipe, detail: bool) -> EECMethod:
        """`eec` after two tasks, with a codec that was hardly trained: as fast as any."""
        options = choose_options("eec", turn=self.turn, detail=detail)
        method = make_method("eec", options, 0, self.runtime)
        assert isinstance(method, EECMethod)
        method.recipe = replace(recipe, compressor=replace(self.compressor, steps=50))
        for task in self.tasks[:2]:
            method.learn(task)
        return method

    def _new_classifier(self) -> Classifier:
        with seeded(0):
            net = CLASSIFIERS["tiny" if self.shape[0] == 1 else "small"](self.shape)
            net.grow(len(self.tasks))
        return net

    def _batches(self, count: int, size: int) -> list[Tensor]:
        """So many images in batches of floats, in the layout that training gives our nets."""
        chosen = torch.arange(count) % len(self.images)
        return list(Batches(self.images).take(chosen, generator(0)).split(size))

    # Training.

    def _classifier(self) -> Phase:
        weights = torch.ones(len(self.images))

        def ours() -> Work:
            net = self.runtime.place(self._new_classifier())
            batches = Batches(self.images, pad=self.recipe.crop, turn=self.turn)

            def loss(batch: Tensor, index: Tensor) -> Tensor:
                losses = cross_entropy(net(batch).float(), self.targets[index], reduction="none")
                return (losses * weights[index]).mean()

            return lambda: train(net, batches, loss, self.first, self.runtime, generator(0))

        def plainly() -> Work:
            net = self._new_classifier()
            pictures = [plain.to_picture(image) for image in self.images]
            data = plain.Pictures(
                pictures, self.targets.tolist(), crop=self.recipe.crop, turn=self.turn
            )
            loss = plain.classifier_loss(net)
            return lambda: plain.train(net, data, self.first, loss, self.workers)

        def bare() -> Work:
            net = self.runtime.place(self._new_classifier())
            return self._classifier_steps(net, self.first, self.first.steps, each)

        each = mean_batch(self.first, len(self.images))
        return Phase("classifier", self.first.steps * each, ours, plainly, bare)

    def _classifier_steps(self, net: Classifier, plan: Plan, steps: int, each: int) -> Work:
        """Steps on one batch, without anything around them."""
        (batch,) = self._batches(each, each)
        assert net.head is not None
        targets = torch.arange(each) % net.head.out_features

        def loss_of(images: Tensor) -> Callable[[], Tensor]:
            return lambda: cross_entropy(net(images).float(), targets)

        early = round(plan.early * steps)
        parts = [
            self._steps(net, plan, early, loss_of(smaller(batch))),
            self._steps(net, plan, steps - early, loss_of(batch)),
        ]
        return lambda: [part() for part in parts]

    def _steps(self, net: nn.Module, plan: Plan, steps: int, loss: Callable[[], Tensor]) -> Work:
        weights = list(net.parameters())
        optimizer = _optimizer(net, plan)
        net.train()

        def work() -> None:
            for _ in range(steps):
                optimizer.zero_grad()
                with self.runtime.autocast():
                    value = loss()
                value.backward()
                if plan.clip is not None:
                    nn.utils.clip_grad_norm_(weights, plan.clip)
                optimizer.step()

        return work

    def _codec(self, name: str, options: CodecOptions, plan: Plan) -> Phase:
        images = self.tasks[0].images
        with seeded(0):  # the published form has it for a classifier
            judge = self.runtime.place(CLASSIFIERS[self.judge](self.shape))
        judge.eval().requires_grad_(False)
        content = judge if options.content else None

        def new() -> Autoencoder | Compressor:
            with seeded(0):
                return new_autoencoder(self.shape, options)

        def ours() -> Work:
            net = self.runtime.place(new())
            return lambda: _fit(net, images, options, plan, self.runtime, 0, content, quiet, None)

        def plainly() -> Work:
            net = new()
            frozen = plain.default_layout(judge)
            data = plain.Pictures([plain.to_picture(i) for i in images], [0] * len(images))
            if isinstance(net, Autoencoder):
                loss = plain.autoencoder_loss(net, frozen, options.content, 1.0)
            else:
                loss = plain.compressor_loss(net, torch.Generator())
            return lambda: plain.train(net, data, plan, loss, self.workers)

        def bare() -> Work:
            net = self.runtime.place(new())
            (batch,) = self._batches(each, each)
            with self.runtime.autocast():
                wanted = judge.features(batch).float()
            step = torch.full((each, 1, 1, 1), 3.0)

            def loss() -> Tensor:
                if isinstance(net, Autoencoder):
                    decoded = net(batch)
                    away = mse_loss(judge.features(decoded).float(), wanted)
                else:
                    decoded, size = net(batch, step, generator(0))
                    away = 1e-5 * size.mean()
                return mse_loss(decoded.float(), batch) + away

            return self._steps(net, plan, plan.steps, loss)

        each = mean_batch(plan, len(images))
        return Phase(name, plan.steps * each, ours, plainly, bare)

    # Use.

    def _rehearsal(self) -> Phase:
        """Memory to pictures: ours to uint8 tensors, plainly to PIL pictures."""
        memory = self.learner.memory
        count = sum(len(part.codes) for part in memory.kept)

        def plainly() -> Work:
            learner = plain.Learner.of(self.learner)
            return lambda: [
                plain.decode(learner.decoder, codes, self.compressor.batch)
                for codes in learner.memory.values()
            ]

        def ours() -> Work:
            return lambda: [memory.reconstruct(part) for part in memory.kept]

        return Phase("rehearsal", count, ours, plainly, lambda: self._decoding(count))

    def _decoding(self, count: int) -> Work:
        codec = self.learner.memory.codec_of(1)
        codes = torch.rand(count, *codec.net.code_shape)
        codes = codes.contiguous(memory_format=torch.channels_last)
        return lambda: apply(codec.net.decoder, codes, self.runtime)

    def _evaluation(self) -> Phase:
        method = self.learner

        def plainly() -> Work:
            net = plain.Learner.of(method).classifier
            pictures = [plain.to_picture(image) for image in self.test]
            data = plain.Pictures(pictures, self.test_targets)
            return lambda: plain.evaluate(net, data, self.first.batch, self.workers)

        def bare() -> Work:
            assert method.classifier is not None
            images = torch.cat(self._batches(len(self.test), 256))
            return lambda: apply(method.classifier, images, self.runtime)  # type: ignore[arg-type]

        def ours() -> Work:
            return lambda: method.predict_proba(self.test)

        return Phase("evaluation", len(self.test), ours, plainly, bare)

    # A whole increment: the third class, where memory has two; all alike, and by the defaults: with
    # smaller images in half of the steps, and lent detail.

    def _increment(self, name: str, learner: EECMethod) -> Phase:
        task, recipe = self.tasks[2], learner.recipe
        plan = recipe.later
        shown = sum(len(task) for task in self.tasks[:3])
        steps, each = plan.total_steps(shown), mean_batch(plan, shown)

        def ours() -> Work:
            method = copy.deepcopy(learner)
            method.state()  # a run has saved it by then: it is not coded again
            return lambda: method.learn(task)

        def plainly() -> Work:
            other = plain.Learner.of(learner)
            return lambda: other.learn(task.images, 2, recipe, self.turn, self.workers)

        def bare() -> Work:
            method = copy.deepcopy(learner)
            net, encoder = method.classifier, method.memory.codec_of(1).net.encoder
            assert net is not None
            net.grow(3)
            training = self._classifier_steps(net, plan, steps, each)
            decoding = self._decoding(shown)
            judged, coded = (torch.cat(self._batches(n, 256)) for n in (shown, len(task)))

            def work() -> None:
                decoding()
                apply(encoder, coded, self.runtime)
                training()
                net.eval()
                apply(net, judged, self.runtime)

            return work

        return Phase(name, steps * each, ours, plainly, bare)


def mean_batch(plan: Plan, images: int) -> int:
    """Images in a batch on average: the last of an epoch is not full, or all are a little less."""
    return round(images / plan.batches_per_epoch(images))


def seconds(work: Work, clock: Callable[[], float] = time.perf_counter) -> float:
    began = clock()
    work()
    return clock() - began


def flops_of(work: Work) -> float:
    with FlopCounterMode(display=False) as counter:
        work()
    return float(counter.get_total_flops())


def matrix_rate(clock: Callable[[], float], side: int = 1024, times: int = 5) -> float:
    """Floating-point operations a second of a large product: what the machine can do now."""
    one, two = torch.rand(2, side, side)
    torch.mm(one, two)
    return 2 * side**3 / min(seconds(lambda: torch.mm(one, two), clock) for _ in range(times))


def phases_of(given: argparse.Namespace) -> Phases:
    name = data_set(given)
    dataset = load_dataset(name, given.data, 28 if name == "digits" else None)
    return Phases(dataset, given.per_class, given.steps, given.workers, given.judge)


def data_set(given: argparse.Namespace) -> str:
    name: str = given.dataset or ("mnist" if given.data else "digits")
    return name


def clock_of(given: argparse.Namespace) -> Callable[[], float]:
    return time.process_time if given.cpu_time else time.perf_counter


@contextmanager
def plain_process(given: argparse.Namespace) -> Iterator[Connection]:
    """The plain way, in a process of its own that is ready when this begins."""
    context = multiprocessing.get_context("spawn")
    other, asked = context.Pipe()
    child = context.Process(target=work_plainly, args=(asked, given))
    child.start()
    asked.close()  # so that the end of the process is the end of the pipe
    try:
        other.recv()
        yield other
        other.send(None)
    finally:
        other.close()
        child.join()


def work_plainly(asked: Connection, given: argparse.Namespace) -> None:
    """What the other process does: the seconds of each phase that it is asked for."""
    phases, clock = {phase.name: phase for phase in phases_of(given).all()}, clock_of(given)
    asked.send(None)  # ready: from now on it works only when asked
    while (name := asked.recv()) is not None:
        asked.send(seconds(phases[name].plain(), clock))


def compare(phase: Phase, other: Connection, given: argparse.Namespace) -> float:
    """Prints a line; gives plain's seconds in units of ours."""

    def plain_seconds() -> float:
        other.send(phase.name)
        taken: float = other.recv()
        return taken

    clock = clock_of(given)
    flops = flops_of(phase.bare())  # which warms it up, too
    phase.ours()()
    plain_seconds()
    rates: list[float] = []
    times: list[tuple[float, float, float]] = []
    for _ in range(given.rounds):
        rates.append(matrix_rate(clock))
        ours = seconds(phase.ours(), clock)
        times.append((ours, plain_seconds(), seconds(phase.bare(), clock)))
    ours, plainly, bare = (float(statistics.median(taken)) for taken in zip(*times, strict=True))
    rate = statistics.median(rates)
    print(
        f"{phase.name:12}{phase.images / ours:10,.0f}{phase.images / plainly:10,.0f}"
        f"{plainly / ours:8.2f}{flops / ours / rate:12.1%}{flops / plainly / rate:8.1%}"
        f"{1 - bare / ours:12.1%}{rate / 1e9:10.0f}",
        flush=True,
    )
    return plainly / ours


def peak_memory(dataset: str, data: Path | None, per_class: int) -> int:
    """Bytes of memory that `eec run` takes at most, in a process of its own."""
    start = "from eec.cli.main import main; main()"
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", start, "run", dataset, "--quiet"]
        command += ["--out", str(Path(folder) / "run")]
        command += ["--per-class", str(per_class)] if per_class else []
        command += ["--data-dir", str(data)] if data else []
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            sys.exit(f"eec run ended with status {child.returncode}")
    return usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", type=Path, help="folder of the data sets; without: digits")
    parser.add_argument("--dataset", help="mnist, if there is a folder; or cifar10, ...")
    parser.add_argument(
        "--judge", default="dcgan", choices=CLASSIFIERS, help="net of the content loss [dcgan]"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=100, help="of each training alone")
    parser.add_argument("--per-class", type=int, default=500, help="training images a class")
    parser.add_argument("--workers", type=int, default=0, help="of the plain way's DataLoader")
    parser.add_argument("--phases", help="some of them, such as classifier,increment")
    parser.add_argument("--guard", action="store_true", help="fail where a ratio is too low")
    parser.add_argument("--peak", type=int, metavar="N", help="peak memory of a run, N a class")
    parser.add_argument("--cpu-time", action="store_true", help="with one thread, if others work")
    given = parser.parse_args()
    name = data_set(given)
    wanted = given.phases.split(",") if given.phases else list(GUARDS)
    with plain_process(given) as other:
        keep_freed_memory()
        phases = phases_of(given)
        print(
            f"{name}, up to {given.per_class} a class, {torch.get_num_threads()} threads, "
            f"computing on {phases.runtime}, {given.rounds} rounds in turns; plain pictures "
            f"{'by torchvision' if plain.transforms else 'by the steps in plain.py'}"
        )
        print(
            "            images/s: ours   plain   ratio  of matmul: ours   plain  overhead  GFLOP/s"
        )
        ratios = {p.name: compare(p, other, given) for p in phases.all() if p.name in wanted}
    if given.peak is not None:
        peak = peak_memory(name, given.data, given.peak)
        print(f"peak memory of eec run {name}, {given.peak or 'all'} a class: {peak / 1e6:.0f} MB")
    low = [f"{p} {r:.2f} (guard {GUARDS[p]})" for p, r in ratios.items() if r < GUARDS[p]]
    if given.guard and low:
        sys.exit(f"slower than it must be, against the plain way: {', '.join(low)}")


if __name__ == "__main__":
    main()
