"""The experiments as data: whole, and at one with what the paper printed."""

from collections.abc import Iterator

import pytest

from eec.data.catalog import find_dataset
from eec.errors import UserError
from eec.methods.registry import METHODS, choose_options
from eec.paper.experiments import EXPERIMENTS
from eec.paper.protocol import SCALES, Block
from eec.paper.published import AVERAGE, published

ASKED_FOR = [
    "table1", "table2", "ablations", "ablations-eec", "methods", "budgets", "bytes", "ratios",
    "memory", "figure2", "reconstructions", "cifar100", "highres",
]  # fmt: skip


def blocks() -> Iterator[tuple[str, Block]]:
    for name, experiment in EXPERIMENTS.items():
        for scale in SCALES:
            for block in experiment.at(scale).blocks:
                yield f"{name} {scale} {block.dataset}", block


def test_they_are_these() -> None:
    assert list(EXPERIMENTS) == ASKED_FOR
    for experiment in EXPERIMENTS.values():
        assert experiment.at("full").seeds == 10 > experiment.at("cpu").seeds
    with pytest.raises(UserError, match="unknown scale 'gpu': choose one of cpu, full"):
        EXPERIMENTS["table1"].at("gpu")


@pytest.mark.parametrize("block", [pytest.param(b, id=name) for name, b in blocks()])
def test_a_block_is_whole(block: Block) -> None:
    find_dataset(block.dataset)
    names = [line.name for line in block.lines]
    assert len(set(names)) == len(names)
    assert {name for order in block.orders for name in order} <= set(names)
    printed = {n.row for n in published(block.paper) if n.table == block.table}
    assert {line.row for line in block.lines if line.row} <= printed
    for line in block.lines:
        if line.method in METHODS and "keep_real" not in line.options:
            choose_options(line.method, **block.options, **line.options)


@pytest.mark.parametrize("block", [pytest.param(b, id=name) for name, b in blocks()])
def test_orders_are_the_papers_where_it_has_both(block: Block) -> None:
    columns = {f"A_{k}" for k in block.ks} | ({AVERAGE} if block.average else set())
    rows = {line.name: line.row for line in block.lines}
    value = {
        (n.row, n.column): n.value
        for n in published(block.paper)
        if n.table == block.table and n.column in columns
    }
    for first, second in block.orders:
        for column in columns:
            pair = [value.get((rows[name], column)) for name in (first, second)]
            if None not in pair:
                assert pair[0] > pair[1]  # type: ignore[operator]


def test_full_is_the_published_protocol() -> None:
    for block in (b for e in EXPERIMENTS.values() for b in e.at("full").blocks):
        assert block.per_class is None and block.options["recipe"] == "paper"
    nets = {b.dataset: b.options["net"] for b in EXPERIMENTS["table1"].at("full").blocks}
    assert nets == {
        "mnist": "dcgan", "svhn": "dcgan", "cifar10": "wgan", "imagenet-50": "resnet18"
    }  # fmt: skip
    (large,) = EXPERIMENTS["highres"].at("full").blocks
    assert (large.size, large.options["crop"]) == (256, 224)
    (small,) = EXPERIMENTS["highres"].at("cpu").blocks
    assert (small.dataset, small.size) == ("tiny-imagenet-50", 64)


def test_ratios_and_budgets_are_the_papers() -> None:
    (ratios,) = EXPERIMENTS["ratios"].at("full").blocks
    kept = [line.options.get("keep_real", 0) for line in ratios.lines if line.row != "JT"]
    assert kept == [0, 0.1, 0.15, 0.2, 0.25]
    (budgets,) = EXPERIMENTS["budgets"].at("cpu").blocks
    (least,) = [line for line in budgets.lines if line.row == "EEC (K=5000)"]
    assert budgets.per_class is not None
    images = 50 * budgets.per_class
    assert int(least.options["memory"]) / images == pytest.approx(5000 / 65000, rel=0.02)


def test_every_method_is_in_methods() -> None:
    for scale in SCALES:
        for block in EXPERIMENTS["methods"].at(scale).blocks:
            assert {line.method for line in block.lines} == set(METHODS)


def test_numbers_are_asked_of_small_images_and_pictures_are_shown_as_they_are() -> None:
    sides = {name: {b.size for b in one.cpu.blocks} for name, one in EXPERIMENTS.items()}
    assert sides.pop("highres") == {64}
    for name, found in sides.items():
        assert found == {16 if EXPERIMENTS[name].shows == "accuracy" else None}
    assert {b.size for one in EXPERIMENTS.values() for b in one.full.blocks} == {None, 256}
