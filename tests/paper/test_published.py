"""The paper's numbers, checked against what its text says about them elsewhere."""

import subprocess
import sys
from collections import Counter
from dataclasses import FrozenInstanceError

import pytest

from eec.paper.published import (
    AVERAGE,
    GENERATED,
    NUMBERS,
    published,
    published_accuracy,
    published_average,
    row_of_method,
    setting,
)


def value(table: str, row: str, column: str, dataset: str) -> float:
    (found,) = [
        n for n in NUMBERS if (n.table, n.row, n.column, n.dataset) == (table, row, column, dataset)
    ]
    return found.value


def test_every_printed_number_is_there() -> None:
    assert Counter(n.table for n in NUMBERS) == {
        "Table 1": 53,
        "Table 2": 16,
        "Table 6": 8,
        "Table 7": 18,
        "text, memory usage analysis": 8,
        "text, higher resolution images": 4,
    }
    table_1 = Counter(n.dataset for n in NUMBERS if n.table == "Table 1")
    assert table_1 == {"mnist": 17, "svhn": 14, "cifar10": 10, "imagenet50": 12}


@pytest.mark.parametrize(
    ("table", "row", "column", "dataset", "printed"),
    [
        ("Table 1", "EEC", "A_10", "mnist", 97.83),
        ("Table 1", "EECS", "A_10", "svhn", 81.12),
        ("Table 1", "JT", "A_10", "cifar10", 77.82),
        ("Table 1", "JT", "A_30", "imagenet50", 57.35),
        ("Table 7", "JT", "A_30", "imagenet50", 57.38),
        ("Table 1", "RWalk-S", "A_10", "mnist", 82.50),
        ("Table 1", "EEIL-S", "A_50", "imagenet50", 11.80),
        ("Table 2", "EEC-noDecay", "A_50", "imagenet50", 30.47),
        ("Table 2", "EEC (K=5000)", "A_30", "imagenet50", 42.29),
        ("Table 6", "EEC-P", AVERAGE, "cifar100", 76.7),
        ("Table 7", "EEC (r=0.2)", "memory (MB)", "imagenet50", 151.496),
        ("text, higher resolution images", "EEC", "A_30", "imagenet50", 70.75),
        ("text, higher resolution images", "real images", "memory (GB)", "imagenet50", 39.13),
    ],
)
def test_values_as_printed(table: str, row: str, column: str, dataset: str, printed: float) -> None:
    assert value(table, row, column, dataset) == printed


def test_table_1_agrees_with_its_row_of_differences() -> None:
    """The paper prints EEC minus the best other row (JT aside), cut to three digits."""
    printed = {
        ("mnist", 5): 0.05,
        ("mnist", 10): 1.00,
        ("svhn", 5): 11.3,
        ("svhn", 10): 15.2,
        ("cifar10", 5): 20.2,
        ("cifar10", 10): 10.7,
        ("imagenet50", 30): 13.2,
        ("imagenet50", 50): 6.26,
    }
    for (dataset, k), difference in printed.items():
        column = [n for n in published(dataset) if n.table == "Table 1" and n.k == k]
        best = max(n.value for n in column if n.row not in {"EEC", "EECS", "JT"})
        (own,) = [n.value for n in column if n.row == "EEC"]
        assert own - best == pytest.approx(difference, abs=0.1)


def test_ablation_agrees_with_the_losses_in_the_text() -> None:
    a30, a50 = (value("Table 2", "EEC", f"A_{k}", "imagenet50") for k in (30, 50))
    assert a30 - value("Table 2", "EEC-noDecay", "A_30", "imagenet50") == pytest.approx(3.77)
    assert a50 - value("Table 2", "EEC-noDecay", "A_50", "imagenet50") == pytest.approx(4.77)
    assert a30 - value("Table 2", "EEC (K=5000)", "A_30", "imagenet50") == pytest.approx(3.1)


def test_memory_parts_add_up_to_the_printed_totals() -> None:
    sizes = {n.note: n.value for n in NUMBERS if n.table == "text, memory usage analysis"}
    kept = sizes["classifier (ResNet-18)"] + sizes["autoencoders"]
    assert sizes["encoded episodes"] + kept == pytest.approx(sizes["everything"]) == 111.56
    small = sizes["encoded episodes, memory budget K=5000"] + kept
    assert small == pytest.approx(sizes["everything, memory budget K=5000"]) == 50.12


def test_rows_that_measure_something_else_say_so() -> None:
    marked = {(n.row, n.dataset) for n in NUMBERS if n.note == GENERATED}
    assert marked == {(r, d) for r in ("EWC-M", "DGR", "MeRGAN") for d in ("mnist", "svhn")}
    assert all(not n.note for n in published("mnist", "EEC"))


def test_data_sets_are_found_under_any_common_spelling() -> None:
    assert published("CIFAR-10") == published("cifar10") != []
    assert published("fashion-mnist") == [] == published("digits")
    assert {n.row for n in published("mnist", "EEC")} == {"EEC"}


def test_our_methods_find_their_rows() -> None:
    rows = {name: row_of_method(name) for name in ("eec", "eec-published", "eecs", "joint")}
    assert rows == {"eec": "EEC", "eec-published": "EEC", "eecs": "EECS", "joint": "JT"}
    assert row_of_method("finetune") is None


def test_accuracy_by_k_comes_from_table_1_alone() -> None:
    found = published_accuracy("imagenet50", "JT")
    assert {k: n.value for k, n in found.items()} == {30: 57.35, 50: 49.88}
    average = published_average("cifar100", "EEC")
    assert average is not None and average.value == 65.6
    assert published_average("mnist", "EEC") is None


def test_settings_and_numbers_cannot_be_changed() -> None:
    how = setting("mnist")
    assert how is not None and how.training_images == 50_000
    assert setting("digits") is None
    with pytest.raises(FrozenInstanceError):
        NUMBERS[0].value = 100.0  # type: ignore[misc]


def test_the_numbers_need_no_torch() -> None:
    program = (
        "import sys, eec.paper.published, eec.evaluation.measures; "
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
