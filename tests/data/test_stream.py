from collections import Counter
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from eec.data.dataset import Dataset
from eec.data.labels import Label
from eec.data.stream import Stream, Task, make_stream, read_class_order
from eec.errors import UserError

# --- data sets whose images carry their own number, so that a stream can be traced back ---


def numbered(numbers: range) -> torch.Tensor:
    images = torch.zeros(len(numbers), 1, 8, 8, dtype=torch.uint8)
    images[:, 0, 0, 0] = torch.tensor([n // 256 for n in numbers], dtype=torch.uint8)
    images[:, 0, 0, 1] = torch.tensor([n % 256 for n in numbers], dtype=torch.uint8)
    return images


def numbers_of(task: Task) -> list[int]:
    return (task.images[:, 0, 0, 0].int() * 256 + task.images[:, 0, 0, 1]).tolist()


def build(train_counts: list[int], classes: tuple[Label, ...], test_each: int = 3) -> Dataset:
    train = [label for label, n in zip(classes, train_counts, strict=True) for _ in range(n)]
    train = [train[i] for i in np.random.default_rng(5).permutation(len(train))]
    test = list(classes) * test_each
    return Dataset(
        name="numbered",
        train_images=numbered(range(len(train))),
        train_labels=train,
        test_images=numbered(range(30_000, 30_000 + len(test))),
        test_labels=test,
        flip=True,
        classes=classes,
    )


NAMES: tuple[Label, ...] = ("wren", "owl", "tern", "rook", "kite", "lark", "ibis", "gull", "emu", 9)
BIRDS = build([20] * 10, NAMES)


def train_numbers(stream: Stream) -> list[int]:
    return [n for increment in stream.increments for n in numbers_of(increment.task)]


def judged_numbers(stream: Stream) -> list[int]:
    return [n for increment in stream.increments for n in numbers_of(increment.test)]


def class_sizes(stream: Stream) -> list[int]:
    return [len(increment.task.classes) for increment in stream.increments]


# --- Task ---


def test_task_classes_are_in_order_of_first_appearance() -> None:
    task = Task(numbered(range(4)), ["b", "a", "b", 3])
    assert task.classes == ("b", "a", 3)
    assert len(task) == 4


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (numbered(range(0)), [], "holds no images"),
        (numbered(range(2)), ["a"], "the task has 2 images but 1 labels"),
        (numbered(range(2)).float(), ["a", "b"], "need a uint8 tensor"),
        (numbered(range(2)), ["a", None], r"labels\[1\] is of type NoneType"),
    ],
)
def test_bad_tasks_are_refused(images: torch.Tensor, labels: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        Task(images, labels)


# --- properties of every stream ---

SEEDS = st.integers(0, 2**40)


@st.composite
def cut(draw: st.DrawFn) -> tuple[Dataset, dict[str, Any]]:
    """A data set with uneven classes, and options for its stream."""
    counts = draw(st.lists(st.integers(2, 12), min_size=1, max_size=7))
    total = len(counts)
    if draw(st.booleans()):
        sizes: Any = draw(st.integers(1, total + 2))
    else:
        inner = draw(st.sets(st.integers(1, total - 1))) if total > 1 else set()
        bounds = [0, *sorted(inner), total]
        sizes = tuple(b - a for a, b in pairwise(bounds))
    classes = tuple(range(total))
    order = draw(st.one_of(st.sampled_from(["natural", "shuffled"]), st.permutations(classes)))
    return build(counts, classes), {
        "classes_per_increment": sizes,
        "order": order,
        "seed": draw(SEEDS),
        "per_class": draw(st.one_of(st.none(), st.integers(1, 14))),
        "validation": draw(st.sampled_from([0.0, 0.001, 0.1, 0.5, 0.99])),
    }


@settings(deadline=None)
@given(cut())
def test_a_stream_partitions_its_data_set(case: tuple[Dataset, dict[str, Any]]) -> None:
    dataset, options = case
    stream = make_stream(dataset, **options)
    trained, judged = train_numbers(stream), judged_numbers(stream)
    assert len(set(trained)) == len(trained)
    assert len(set(judged)) == len(judged)
    assert not set(trained) & set(judged)

    assert sorted(stream.class_order, key=str) == sorted(dataset.classes, key=str)
    by_increment = [increment.task.classes for increment in stream.increments]
    assert tuple(chain.from_iterable(by_increment)) == stream.class_order
    assert [increment.test.classes for increment in stream.increments] == by_increment
    assert [increment.number for increment in stream.increments] == [
        i + 1 for i in range(len(stream.increments))
    ]
    for increment in stream.increments:
        for number, label in zip(numbers_of(increment.task), increment.task.labels, strict=True):
            assert dataset.train_labels[number] == label


@settings(deadline=None)
@given(cut())
def test_counts_follow_the_options(case: tuple[Dataset, dict[str, Any]]) -> None:
    dataset, options = case
    stream = make_stream(dataset, **options)
    available = Counter(dataset.train_labels)
    trained = Counter(label for step in stream.increments for label in step.task.labels)
    judged = Counter(label for step in stream.increments for label in step.test.labels)
    share, cap = options["validation"], options["per_class"]
    for label in dataset.classes:
        if share:
            held = judged[label]
            assert 1 <= held < available[label]
            assert abs(held - share * available[label]) <= 1
        else:
            held = 0
            assert judged[label] == dataset.test_labels.count(label)
        left = available[label] - held
        assert trained[label] == (left if cap is None else min(cap, left))
    assert stream.judged_on == ("validation" if share else "test")
    assert all((number >= 30_000) != bool(share) for number in judged_numbers(stream))


@settings(deadline=None)
@given(cut())
def test_the_same_seed_gives_the_same_stream(case: tuple[Dataset, dict[str, Any]]) -> None:
    dataset, options = case
    torch.manual_seed(options["seed"] % 7)
    np.random.seed(options["seed"] % 7)
    first = make_stream(dataset, **options)
    second = make_stream(dataset, **options)
    assert first.class_order == second.class_order
    assert train_numbers(first) == train_numbers(second)
    assert judged_numbers(first) == judged_numbers(second)


def numpy_state() -> str:
    return repr(np.random.get_state())


def test_nothing_global_is_drawn_from() -> None:
    before = torch.get_rng_state(), numpy_state()
    make_stream(BIRDS, order="shuffled", per_class=5, validation=0.2)
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1] == numpy_state()


# --- independent choices ---


@settings(deadline=None)
@given(seed=SEEDS, cap=st.integers(1, 10), share=st.sampled_from([0.1, 0.3]))
def test_an_option_leaves_the_other_choices_alone(seed: int, cap: int, share: float) -> None:
    plain = make_stream(BIRDS, order="shuffled", seed=seed, validation=share)
    capped = make_stream(BIRDS, order="shuffled", seed=seed, validation=share, per_class=cap)
    assert capped.class_order == plain.class_order
    assert make_stream(BIRDS, order="shuffled", seed=seed).class_order == plain.class_order
    assert judged_numbers(capped) == judged_numbers(plain)

    wider = make_stream(BIRDS, order="shuffled", seed=seed, validation=share, per_class=cap + 1)
    assert set(train_numbers(capped)) < set(train_numbers(wider))

    natural = make_stream(BIRDS, seed=seed, validation=share, per_class=cap)
    assert set(train_numbers(natural)) == set(train_numbers(capped))
    assert set(judged_numbers(natural)) == set(judged_numbers(capped))


def test_the_cap_is_not_drawn_like_the_hold_out() -> None:
    held = judged_numbers(make_stream(BIRDS, validation=0.2))
    capped = train_numbers(make_stream(BIRDS, per_class=4))
    assert len(held) == len(capped) == 40
    assert set(held) != set(capped)


def test_another_seed_gives_another_stream() -> None:
    streams = [
        make_stream(BIRDS, order="shuffled", seed=seed, per_class=5, validation=0.2)
        for seed in range(5)
    ]
    assert len({stream.class_order for stream in streams}) == 5
    assert len({frozenset(train_numbers(stream)) for stream in streams}) == 5
    assert len({frozenset(judged_numbers(stream)) for stream in streams}) == 5


def test_the_cap_takes_a_random_subset_not_the_first_images() -> None:
    members = [i for i, label in enumerate(BIRDS.train_labels) if label == "wren"]
    places: set[int] = set()
    for seed in range(30):
        task = make_stream(BIRDS, seed=seed, per_class=3).increments[0].task
        places |= {members.index(number) for number in numbers_of(task)}
    assert places == set(range(20))


# --- order and sizes ---


def test_natural_order_is_the_data_sets_own() -> None:
    assert make_stream(BIRDS).class_order == NAMES
    plain = build([3] * 11, tuple(range(11)))
    assert make_stream(plain).class_order == tuple(range(11))


def test_images_come_class_by_class_in_the_order_of_the_data_set() -> None:
    for increment in make_stream(BIRDS, classes_per_increment=5, order="shuffled").increments:
        assert increment.task.labels == [c for c in increment.task.classes for _ in range(20)]
        assert increment.test.labels == [c for c in increment.test.classes for _ in range(3)]
    for increment in make_stream(BIRDS, per_class=6, validation=0.3).increments:
        assert numbers_of(increment.task) == sorted(numbers_of(increment.task))
        assert numbers_of(increment.test) == sorted(numbers_of(increment.test))


def test_order_by_name() -> None:
    order = NAMES[::-1]
    stream = make_stream(BIRDS, order=order, classes_per_increment=(2, 3, 5))
    assert stream.class_order == order
    assert class_sizes(stream) == [2, 3, 5]
    assert stream.increments[0].task.classes == (9, "emu")


@pytest.mark.parametrize(
    ("wanted", "sizes"),
    [(1, [1] * 10), (3, [3, 3, 3, 1]), (10, [10]), (99, [10]), ((2, 3, 5), [2, 3, 5])],
)
def test_increment_sizes(wanted: Any, sizes: list[int]) -> None:
    assert class_sizes(make_stream(BIRDS, classes_per_increment=wanted)) == sizes


def test_name_and_flip_are_carried_on() -> None:
    stream = make_stream(BIRDS)
    assert (stream.name, stream.flip, stream.judged_on) == ("numbered", True, "test")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"classes_per_increment": 0}, "classes_per_increment is 0"),
        ({"classes_per_increment": -2}, "classes_per_increment is -2"),
        ({"classes_per_increment": 2.5}, "classes_per_increment is 2.5"),
        ({"classes_per_increment": True}, "classes_per_increment is True"),
        ({"classes_per_increment": ()}, r"classes_per_increment is \(\)"),
        ({"classes_per_increment": (5, 0, 5)}, r"classes_per_increment is \(5, 0, 5\)"),
        ({"classes_per_increment": "2,8"}, "classes_per_increment is '2,8'"),
        ({"classes_per_increment": (2, 3)}, r"\(2, 3\) sums to 5 but the data set has 10"),
        ({"classes_per_increment": (2, 3, 6)}, "sums to 11 but the data set has 10"),
        ({"order": "random"}, "order is 'random': use natural, shuffled or a list"),
        ({"order": NAMES[:9]}, r"each class of numbered once \(missing: \[9\]\)"),
        ({"order": (*NAMES, "crow")}, r"unknown: \['crow'\]"),
        ({"order": (*NAMES, "owl")}, r"repeated: \['owl'\]"),
        ({"order": [*NAMES[:9], None]}, r"order\[9\] is of type NoneType"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": 0.5}, "seed is 0.5"),
        ({"per_class": 0}, "per_class is 0"),
        ({"per_class": 1.5}, "per_class is 1.5"),
        ({"validation": -0.1}, "validation is -0.1"),
        ({"validation": 1.0}, "validation is 1.0"),
        ({"validation": float("nan")}, "validation is nan"),
    ],
)
def test_bad_options_are_refused_in_one_line(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        make_stream(BIRDS, **options)
    assert "\n" not in str(caught.value)


def test_numpy_numbers_are_accepted_as_options() -> None:
    expected = make_stream(BIRDS, classes_per_increment=(2, 8), seed=3, per_class=3)
    sizes: Any = np.array([2, 8])
    three: Any = np.int64(3)
    stream = make_stream(BIRDS, classes_per_increment=sizes, seed=three, per_class=three)
    assert train_numbers(stream) == train_numbers(expected)


def test_a_class_of_one_image_cannot_be_held_out() -> None:
    lonely = build([5, 1], ("many", "one"))
    assert len(make_stream(lonely).increments[1].task) == 1
    with pytest.raises(UserError, match="class 'one' has a single training image"):
        make_stream(lonely, validation=0.1)


# --- a class that returns ---


@settings(max_examples=25, deadline=None)
@given(
    counts=st.lists(st.integers(1, 12), min_size=2, max_size=6),
    share=st.floats(0, 0.99),
    each=st.integers(1, 3),
    seed=st.integers(0, 99),
)
def test_returning_images_come_one_increment_later_and_none_is_lost(
    counts: list[int], share: float, each: int, seed: int
) -> None:
    dataset = build(counts, tuple(range(len(counts))))
    plain = make_stream(dataset, classes_per_increment=each, seed=seed)
    stream = make_stream(dataset, classes_per_increment=each, seed=seed, returning=share)
    assert sorted(train_numbers(stream)) == sorted(train_numbers(plain))
    assert judged_numbers(stream) == judged_numbers(plain)
    before: tuple[Label, ...] = ()
    for increment, same in zip(stream.increments, plain.increments, strict=True):
        task = increment.task
        assert increment.new_classes == same.new_classes == increment.test.classes
        assert set(increment.new_classes) <= set(task.classes)
        assert set(task.classes) <= {*increment.new_classes, *before}
        before = increment.new_classes


def test_the_share_that_returns() -> None:
    stream = make_stream(BIRDS, returning=0.25)
    counts = [Counter(increment.task.labels) for increment in stream.increments]
    assert counts[0] == {"wren": 15}
    assert counts[1] == {"owl": 15, "wren": 5}
    assert counts[9] == {9: 20, "emu": 5}  # nothing comes after the last


def test_a_share_to_return_must_be_one() -> None:
    with pytest.raises(UserError, match=r"returning is 1\.0: use a share from 0 to below 1"):
        make_stream(BIRDS, returning=1.0)


# --- tasks are gathered late ---


def test_a_stream_copies_no_image_until_a_task_is_asked_for() -> None:
    stream = make_stream(BIRDS, validation=0.2)
    assert all(step.train.images is BIRDS.train_images for step in stream.increments)
    assert all(step.judged.images is BIRDS.train_images for step in stream.increments)
    task = stream.increments[0].task
    assert task.images.untyped_storage().data_ptr() != BIRDS.train_images.data_ptr()
    assert len(task) == len(stream.increments[0].train) == 16


# --- a class order from a file ---


def test_order_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "order.txt"
    path.write_text("\n".join(str(name) for name in reversed(NAMES)) + "\n\n", encoding="utf-8")
    order = read_class_order(path, NAMES)
    assert order == list(reversed(NAMES))  # the number is a number again
    assert make_stream(BIRDS, order=order).class_order == tuple(order)


def test_bad_order_files(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"class order .*none\.txt cannot be read"):
        read_class_order(tmp_path / "none.txt", NAMES)
    path = tmp_path / "order.txt"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="is not a text file"):
        read_class_order(path, NAMES)
    path.write_text("wren\nwren\ncrow\n")
    with pytest.raises(UserError, match=r"unknown: \['crow'\].*repeated: \['wren'\]"):
        make_stream(BIRDS, order=read_class_order(path, NAMES))
