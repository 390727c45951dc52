"""What could be chosen otherwise in a step, measured here: is it faster?

    python benchmarks/choices.py [--rounds 7] [--steps 10] [--net tiny]

Each line has two or more ways of the same work, which take turns; figures are of medians, in units
of the first way, which is the package's (more is faster). Batch sizes are compared by images a
second. Weights are thrown away, so it does not matter that they learn nothing.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils.fusion import fuse_conv_bn_eval

from eec.nets.classifiers import CLASSIFIERS, Classifier
from eec.training.recipes import find_recipe
from eec.training.runtime import seeded

Work = Callable[[], object]
BATCH = find_recipe("fast").later.batch
HOWS = ("fused", "foreach", "loop")  # of optimisers
SHAPES = {"tiny": (1, 28, 28), "small": (3, 32, 32)}


def new_net(name: str, *, last: bool = True) -> Classifier:
    with seeded(0):
        net = CLASSIFIERS[name](SHAPES[name])
        net.grow(10)
    layout = torch.channels_last if last else torch.contiguous_format
    return net.to(memory_format=layout)  # type: ignore[no-any-return, call-overload]


def images(name: str, count: int, *, last: bool = True) -> Tensor:
    layout = torch.channels_last if last else torch.contiguous_format
    return torch.rand(count, *SHAPES[name]).contiguous(memory_format=layout)


def optimizer(net: nn.Module, kind: str, how: str) -> torch.optim.Optimizer:
    ways = {"loop": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}
    if kind == "sgd":
        return torch.optim.SGD(net.parameters(), 1e-3, 0.9, nesterov=True, **ways[how])
    return torch.optim.Adam(net.parameters(), 1e-3, **ways[how])  # type: ignore[arg-type]


def training(
    name: str,
    steps: int,
    *,
    batch: int = BATCH,
    last: bool = True,
    kind: str = "sgd",
    how: str = "fused",
    compiled: bool = False,
) -> Work:
    """Steps of a classifier's training on one batch."""
    net = new_net(name, last=last)
    call = torch.compile(net) if compiled else net
    inputs, targets = images(name, batch, last=last), torch.arange(batch) % 10
    stepping = optimizer(net, kind, how)

    def work() -> None:
        net.train()
        for _ in range(steps):
            stepping.zero_grad()
            cross_entropy(call(inputs), targets).backward()
            stepping.step()

    return work


def folded(net: nn.Module) -> nn.Module:
    """A copy for evaluation in which a BatchNorm right after a convolution is part of it."""
    made = copy.deepcopy(net).eval()
    for part in made.modules():
        if isinstance(part, nn.Sequential):
            for i in range(len(part) - 1):
                one, two = part[i], part[i + 1]
                if isinstance(one, nn.Conv2d) and isinstance(two, nn.BatchNorm2d):
                    part[i], part[i + 1] = fuse_conv_bn_eval(one, two), nn.Identity()
    return made


def evaluating(name: str, count: int, batch: int = 256, *, fold: bool = False) -> Work:
    net: nn.Module = new_net(name).eval()
    net = folded(net) if fold else net
    inputs = images(name, count)

    @torch.no_grad()
    def work() -> None:
        for part in inputs.split(batch):
            net(part)

    return work


def compare(title: str, rounds: int, ways: dict[str, tuple[int, Work]]) -> None:
    """`ways`: what each is called, the images that it takes, and its work."""
    for _, work in ways.values():
        work()
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, (_, work) in ways.items():
            began = time.perf_counter()
            work()
            times[name].append(time.perf_counter() - began)
    rate = {name: ways[name][0] / statistics.median(taken) for name, taken in times.items()}
    first = rate[next(iter(rate))]
    told = "   ".join(f"{name} {value / first:.2f}" for name, value in rate.items())
    print(f"{title:24} {told}", flush=True)


def compiled_or_none(name: str, steps: int) -> Work | None:
    """torch.compile needs a C++ compiler, and may fail in other ways: that is told."""
    work = training(name, 1, compiled=True)
    try:
        began = time.perf_counter()
        work()
        print(f"{'torch.compile':24} first step after {time.perf_counter() - began:.0f} s")
    except Exception as error:
        reason = str(error).strip().splitlines()[0]
        print(f"{'torch.compile':24} not here: {type(error).__name__}: {reason[:100]}")
        return None
    return training(name, steps, compiled=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--net", choices=SHAPES, default="tiny")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    given = parser.parse_args()
    name, steps, rounds = given.net, given.steps, given.rounds
    count = BATCH * steps
    print(f"{name}, {torch.get_num_threads()} threads; more is faster")
    layouts = {"channels last": True, "default": False}
    compare(
        "memory format",
        rounds,
        {key: (count, training(name, steps, last=last)) for key, last in layouts.items()},
    )
    for kind in ("sgd", "adam"):
        hows = {how: training(name, steps, kind=kind, how=how) for how in HOWS}
        compare(kind, rounds, {how: (count, work) for how, work in hows.items()})
    sizes = {batch: training(name, steps, batch=batch) for batch in (BATCH, 64, 256)}
    compare("training, batch of", rounds, {str(b): (b * steps, work) for b, work in sizes.items()})
    many = 2048
    compare(
        "evaluation, batch of",
        rounds,
        {str(batch): (many, evaluating(name, many, batch)) for batch in (256, 64, 1024)},
    )
    folds = {"as it is": False, "folded": True}
    compare(
        "BatchNorm in evaluation",
        rounds,
        {key: (many, evaluating(name, many, fold=fold)) for key, fold in folds.items()},
    )
    if not given.no_compile and (work := compiled_or_none(name, steps)):
        eager = training(name, steps)
        compare("a step", rounds, {"eager": (count, eager), "compiled": (count, work)})


if __name__ == "__main__":
    main()
