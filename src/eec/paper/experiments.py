"""The paper's experiments, as data: what is run, at which scale, and what is set beside it.

To add one: its blocks, and its line in EXPERIMENTS. `full` is the published protocol; `cpu` is a
reduction of it for two cores, all of which is written down here. Free of torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

from eec.paper.ablations import Ablated, our_form, published_form
from eec.paper.protocol import NO_TABLE, Block, Experiment, Line, Protocol, Shows
from eec.paper.published import IN_MEMORY_TEXT, IN_RESOLUTION_TEXT

PUBLISHED_SEEDS = 10
UNLIMITED = "unlimited"

# What the two scales are.

# One classifier for all rows of a table: what differs is to be the method. It is the paper's for
# MNIST and SVHN: `small` and `tiny`, which look at finer detail, are more accurate on real images,
# but read the decoder's trace in the published form (docs/the-gap.md, *Which nets read it*).
REDUCED: Mapping[str, Any] = {"net": "dcgan", "recipe": "brief"}
NETS = {
    "mnist": "dcgan",
    "fashion-mnist": "dcgan",
    "svhn": "dcgan",
    "cifar10": "wgan",
}  # else resnet18
IMAGES = {
    "mnist": 100,
    "fashion-mnist": 100,
    "svhn": 200,
    "cifar10": 200,
    "cifar100": 50,
    "tiny-imagenet-50": 60,
}
SIDE = 16  # pixels, where numbers are asked for: a quarter of the work. Pictures keep their size.
SEEDS = 3
# The paper's K = 5,000 for 65,000 images, and other budgets, as slots for one image.
SHARES = (5_000 / 65_000, 0.15, 0.3, 0.6)
STAND_IN = {"imagenet-50": "tiny-imagenet-50"}


def _full(block: Block) -> Block:
    net = NETS.get(block.dataset, "resnet18")
    return replace(block, options={"net": net, "recipe": "paper", **block.options})


def _cpu(block: Block, side: int | None = SIDE) -> Block:
    dataset = STAND_IN.get(block.dataset, block.dataset)
    return replace(
        block,
        dataset=dataset,
        per_class=IMAGES[dataset],
        size=block.size or side,
        options={**REDUCED, **block.options},
    )


def _side(shows: Shows) -> int | None:
    return SIDE if shows == "accuracy" else None


def _both(
    description: str, shows: Shows, blocks: tuple[Block, ...], seeds: int = SEEDS
) -> Experiment:
    """Where the scales differ in images, nets and training alone."""
    return Experiment(
        description,
        shows,
        cpu=Protocol(tuple(_cpu(block, _side(shows)) for block in blocks), seeds),
        full=Protocol(tuple(map(_full, blocks)), PUBLISHED_SEEDS),
    )


def _slots(share: float, images: int) -> str:
    return str(round(share * images))


# Table 1.

MAIN = (
    Line("eec", "eec"),
    Line("eec-published", "eec-published", row="EEC"),
    Line("eecs", "eecs", row="EECS"),
    Line("joint", "joint", row="JT"),
    Line("finetune", "finetune"),
)
MAIN_ORDERS = (
    ("joint", "eec-published"),
    ("joint", "eecs"),
    ("eec-published", "eecs"),
)


def _equal_bytes(memory: str) -> tuple[Line, ...]:
    return (
        Line(f"eec, {memory}", "eec", {"memory": memory}),
        Line(f"replay, {memory}", "replay", {"memory": memory}),
    )


def _table_1(dataset: str, paper: str, ks: tuple[int, ...], memory: str) -> Block:
    equal = _equal_bytes(memory)
    orders = (*MAIN_ORDERS, (equal[0].name, equal[1].name))
    return Block(dataset, MAIN + equal, paper, "Table 1", ks, orders)


TABLE_1_FULL = (
    _table_1("mnist", "mnist", (5, 10), "5MB"),
    _table_1("svhn", "svhn", (5, 10), "10MB"),
    _table_1("cifar10", "cifar10", (5, 10), "10MB"),
    _table_1("imagenet-50", "imagenet50", (30, 50), "10MB"),
)
TABLE_1_CPU = (
    _cpu(_table_1("mnist", "mnist", (5, 10), "100kB")),
    _cpu(_table_1("svhn", "svhn", (5, 10), "200kB")),
    _cpu(_table_1("cifar10", "cifar10", (5, 10), "200kB")),
    _cpu(_table_1("imagenet-50", "imagenet50", (30, 50), "200kB")),
)

# Table 2. The paper ablated its own form; the same switches are turned on ours.

ON_IMAGENET: dict[str, Any] = {"dataset": "imagenet-50", "paper": "imagenet50", "ks": (30, 50)}
ON_CIFAR: dict[str, Any] = {"dataset": "cifar10", "paper": "cifar10", "ks": (5, 10)}


def _table_2(memory: str) -> Block:
    published, ours = published_form(memory), our_form(memory)
    lines, orders = published.lines + ours.lines, published.orders + ours.orders
    return Block(lines=lines, table="Table 2", orders=orders, **ON_IMAGENET)


def _unpublished(lines: tuple[Line, ...]) -> tuple[Line, ...]:
    """The same where the paper has no rows for them."""
    return tuple(replace(line, row="") for line in lines)


def _on_cifar(form: Ablated) -> Block:
    return Block(lines=_unpublished(form.lines), table=NO_TABLE, orders=form.orders, **ON_CIFAR)


# Every method, where there is time for it: on grey images.

KEEPERS = ("eec", "replay", "replay-webp", "replay-jpeg", "icarl")


def _every_method(memory: str, slots: str) -> tuple[Block, Block]:
    ablated = tuple(
        Line(name, name) for name in ("eec-nonst", "eec-cgan", "eec-vae", "eec-dna", "eec-nodecay")
    )
    in_slots = tuple(
        Line(f"{name}, K={slots}", name, {"memory": slots})
        for name in ("eec-published", "eec-nopseudo")
    )
    in_bytes = tuple(Line(f"{name}, {memory}", name, {"memory": memory}) for name in KEEPERS)
    mixed = Line("eec-published, r=0.1", "eec-published", {"keep_real": 0.1})
    orders = (
        *MAIN_ORDERS,
        ("eec", "eec-published"),
        *(("eec-published", line.name) for line in ablated),
        (in_slots[0].name, in_slots[1].name),
        (mixed.name, "eec-published"),
        *((in_bytes[0].name, line.name) for line in in_bytes[1:]),
    )
    lines = (*MAIN, *ablated, *in_slots, mixed, *in_bytes)
    digits = Block("mnist", lines, "mnist", "Table 1", (5, 10), orders)
    return digits, replace(
        digits, dataset="fashion-mnist", lines=_unpublished(lines), paper="fashion-mnist"
    )


# Budgets: figure 5.


def _budgets(slots: tuple[str, ...]) -> Block:
    lines = [Line("eec-published, unlimited", "eec-published", row="EEC")]
    lines += [
        Line(
            f"eec-published, K={k}",
            "eec-published",
            {"memory": k},
            "EEC (K=5000)" if i == 0 else "",
        )
        for i, k in enumerate(slots)
    ]
    lines += [
        Line(f"eec, {'unlimited' if k == UNLIMITED else f'K={k}'}", "eec", {"memory": k})
        for k in (UNLIMITED, *slots)
    ]
    orders = (
        (lines[0].name, lines[1].name),
        (f"eec, {UNLIMITED}", f"eec, K={slots[0]}"),
    )
    return Block(lines=tuple(lines), table="Table 2", orders=orders, **ON_IMAGENET)


# Accuracy against bytes: what a user would pick instead, held to the same budgets.

# All images of the cpu scale take 256 kB (MNIST) and 1.5 MB (CIFAR-10) as they are: from there on
# nothing is bounded, so that one more budget is enough.
CPU_BYTES = ("10kB", "30kB", "100kB", "300kB", "1MB", "10MB")
FULL_BYTES = ("30kB", "100kB", "300kB", "1MB", "3MB", "10MB")


def _against_bytes(dataset: str, budgets: tuple[str, ...]) -> Block:
    def within(
        name: str, method: str, options: Mapping[str, Any] | None = None, skip: int = 0
    ) -> dict[str, Line]:
        """By budget; the smallest are left out that do not hold the least it must keep."""
        return {
            memory: Line(f"{name}, {memory}", method, {**(options or {}), "memory": memory})
            for memory in budgets[skip:]
        }

    ours = within("eec", "eec", skip=1)
    colour = int(dataset == "cifar10")  # one image of each class is more than the smallest
    others = (
        within("eec, plain codes", "eec", {"code_type": "uint8"}, skip=3),
        within("replay", "replay", skip=colour),
        within("replay-webp", "replay-webp"),
        within("icarl", "icarl", skip=colour),
    )
    orders = tuple(
        (ours[memory].name, line.name)
        for other in others
        for memory, line in other.items()
        if memory in ours
    )
    lines = tuple(line for curve in (ours, *others) for line in curve.values())
    return Block(dataset, lines, dataset, NO_TABLE, (10,), orders)


# Ratios: Table 7.

RATIOS = (0.0, 0.1, 0.15, 0.2, 0.25)


def _ratios() -> Block:
    names = {ratio: f"eec-published, r={ratio:g}" for ratio in RATIOS}
    lines = [
        Line(names[r], "eec-published", {"keep_real": r} if r else {}, f"EEC (r={r:g})")
        for r in RATIOS
    ]
    lines.append(Line("joint", "joint", row="JT"))
    ordered = ["joint", *(names[r] for r in reversed(RATIOS))]
    orders = tuple(pairwise(ordered))
    return Block(lines=tuple(lines), table="Table 7", orders=orders, **ON_IMAGENET)


def _memory(slots: str) -> Block:
    lines = (
        Line("eec-published", "eec-published", row="EEC"),
        Line(f"eec-published, K={slots}", "eec-published", {"memory": slots}, "EEC (K=5000)"),
        Line("eec", "eec"),
        Line(f"eec, K={slots}", "eec", {"memory": slots}),
        Line("joint", "joint", row="real images"),
    )
    return Block(lines=lines, table=IN_MEMORY_TEXT, **ON_IMAGENET)


# With pictures.


def _content_loss() -> Block:
    lines = tuple(
        Line(f"lambda {share:g}", "eec-published", {"content": share}) for share in (0.7, 0.0)
    )
    # Figure 2 has no numbers; those of the same two forms are in Table 2.
    lines = (replace(lines[0], row="EEC"), replace(lines[1], row="EEC-noNST"))
    orders = (("lambda 0.7", "lambda 0"),)
    return Block(lines=lines, table="Table 2", orders=orders, **ON_IMAGENET)


def _reconstructions(dataset: str, paper: str, k: int) -> Block:
    lines = (Line("eec-published", "eec-published", row="EEC"), Line("eec", "eec"))
    return Block(dataset, lines, paper, "Table 1", (k,))


UNDER_CEILING = (*MAIN[:2], Line("joint", "joint"))  # where the paper printed no JT
CIFAR_100 = Block(
    "cifar100",
    UNDER_CEILING,
    "cifar100",
    "Table 6",
    (50, 100),
    (("joint", "eec-published"),),
    average=True,
)
HIGH_RES = Block(
    lines=UNDER_CEILING,
    table=IN_RESOLUTION_TEXT,
    orders=(("joint", "eec-published"),),
    **ON_IMAGENET,
)
LARGE = replace(HIGH_RES, size=256, options={"crop": 224})


def _at_both(
    description: str, shows: Shows, cpu: Block, full: Block, seeds: int = SEEDS
) -> Experiment:
    return Experiment(
        description,
        shows,
        cpu=Protocol((_cpu(cpu, _side(shows)),), seeds),
        full=Protocol((_full(full),), PUBLISHED_SEEDS),
    )


_TINY = 50 * IMAGES["tiny-imagenet-50"]
_K = _slots(SHARES[0], _TINY)
_CIFAR_K = _slots(SHARES[0], 10 * IMAGES["cifar10"])
_BUDGETS = tuple(_slots(share, _TINY) for share in SHARES)

EXPERIMENTS: dict[str, Experiment] = {
    "table1": Experiment(
        "EEC, EECS, joint training and baselines on four data sets",
        "accuracy",
        cpu=Protocol(TABLE_1_CPU, seeds=2),
        full=Protocol(tuple(map(_full, TABLE_1_FULL)), PUBLISHED_SEEDS),
    ),
    "table2": _at_both(
        "what each part of EEC is good for: one taken away at a time, of the published form and "
        "of ours",
        "accuracy",
        _table_2(_K),
        _table_2("5000"),
    ),
    "ablations": _at_both(
        "the published form without one part at a time, on CIFAR-10, one class an increment",
        "accuracy",
        _on_cifar(published_form(_CIFAR_K)),
        _on_cifar(published_form("5000")),
        seeds=2,
    ),
    "ablations-eec": _at_both(
        "the same switches on eec",
        "accuracy",
        _on_cifar(our_form(_CIFAR_K)),
        _on_cifar(our_form("5000")),
        seeds=2,
    ),
    "methods": Experiment(
        "every method there is, on MNIST and Fashion-MNIST",
        "accuracy",
        cpu=Protocol(
            tuple(map(_cpu, _every_method("100kB", _slots(SHARES[0], 10 * IMAGES["mnist"])))), SEEDS
        ),
        full=Protocol(tuple(map(_full, _every_method("5MB", "5000"))), PUBLISHED_SEEDS),
    ),
    "budgets": _at_both(
        "accuracy against K slots for episodes and concepts",
        "accuracy",
        _budgets(_BUDGETS),
        _budgets(("5000", "10000", "20000", "40000")),
    ),
    "bytes": Experiment(
        "accuracy against bytes, beside methods that keep real images",
        "accuracy",
        cpu=Protocol(tuple(_cpu(_against_bytes(d, CPU_BYTES)) for d in ("mnist", "cifar10")), 2),
        full=Protocol(
            tuple(_full(_against_bytes(d, FULL_BYTES)) for d in ("mnist", "cifar10")),
            PUBLISHED_SEEDS,
        ),
    ),
    "ratios": _both("a share r of real images kept beside the episodes", "accuracy", (_ratios(),)),
    "memory": _at_both("bytes by part", "bytes", _memory(_K), _memory("5000"), seeds=1),
    "figure2": _both(
        "decoded images with and without the content loss, side by side",
        "pictures",
        (_content_loss(),),
        seeds=2,
    ),
    "reconstructions": _both(
        "real images above decoded ones, for the classes of each data set",
        "pictures",
        (
            _reconstructions("mnist", "mnist", 10),
            _reconstructions("cifar10", "cifar10", 10),
            _reconstructions("imagenet-50", "imagenet50", 50),
        ),
        seeds=1,
    ),
    "cifar100": _both("a hundred classes, ten an increment", "accuracy", (CIFAR_100,)),
    "highres": _at_both(
        "larger images: 64 pixels a side for two cores, 224 in full",
        "accuracy",
        replace(HIGH_RES, size=64),
        LARGE,
        seeds=2,
    ),
}
