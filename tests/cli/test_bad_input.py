"""Mistakes end in one line on stderr and status 2, and leave nothing behind."""

import errno
import gzip
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import eec.cli.run
from eec.data import idx
from eec.data.catalog import DATASETS
from eec.methods.registry import METHODS

Call = Callable[..., Any]

TINY = ["--per-class", "2", "--classes-per-increment", "5", "--size", "16"]


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path: Path, call: Call) -> Any:
    """Each of these commands is given in an empty folder, and must leave it empty."""
    yield
    assert list((tmp_path / "here").iterdir()) == []


def test_an_unknown_data_set(call: Call) -> None:
    said = call("run", "imagenet").mistake
    assert "'imagenet'" in said and all(name in said for name in DATASETS)


def test_an_unknown_method(call: Call) -> None:
    said = call("run", "digits", "--method", "eecc").mistake
    assert "'eecc'" in said and all(name in said for name in METHODS)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--method", "joint", "--codec", "frozen"], "method joint has no option codec"),
        (["--method", "finetune", "--decay", "True"], "method finetune has no option decay"),
        (["--classes-per-increment", "two"], "--classes-per-increment 'two'"),
        (["--classes-per-increment", "0"], "classes_per_increment is 0"),
        (["--classes-per-increment", "-3"], "classes_per_increment is -3"),
        (["--classes-per-increment", "4,4"], "sums to 8 but the data set has 10"),
        (["--classes-per-increment", "4,,6"], "--classes-per-increment '4,,6'"),
        (["--classes-per-increment", ""], "--classes-per-increment ''"),
        (["--size", "4"], "size is 4"),
        (["--size", "-32"], "size is -32"),
        (["--per-class", "0"], "per_class is 0"),
        (["--seed", "-1"], "seed is -1"),
        (["--validation", "1"], "validation is 1.0"),
        (["--validation", "nan"], "validation is nan"),
        (["--content", "1.5"], "content is 1.5"),
        (["--see", "coded", "--codec", "warm"], "see=coded needs one codec"),
        (["--code", "16x8", *TINY], "code '16x8'"),
        (["--code", "16x64x64", *TINY], "coded to a side of 4"),
        (["--beside", "nowhere"], "nowhere is not a run folder"),
        (["--beside", "."], "config.json is missing"),
        (["--class-order", "upwards"], "class order upwards cannot be read"),
        (["--size", "0"], "size is 0: use 8 to 4096 pixels a side"),
        (["--size", "9" * 20], "use 8 to 4096 pixels a side"),
        (["--image-bytes", "-5"], "image_bytes is -5"),
        (["--checkpoint-every", "-1"], "--checkpoint-every -1.0"),
        (["--checkpoint-every", "nan"], "--checkpoint-every nan"),
        (["--crop", "64"], "crop is 64 but images are grey 32x32"),
        (["--memory", "5 apples"], "memory is '5 apples'"),
        (["--memory", "9", *TINY], "each of 10 classes: use 10 or more"),
        (["--method", "replay", "--memory", "9", *TINY], "each of 10 classes: use 10 or more"),
        (["--returning", "1"], "returning is 1.0"),
    ],
)
def test_a_wrong_value(arguments: list[str], words: str, call: Call) -> None:
    # Where a mistake shows only when the nets are built, the run has begun to talk.
    answer = call("run", "digits", "--quiet", *arguments)
    assert words in answer.mistake


@pytest.mark.parametrize(
    "arguments",
    [["run"], ["walk"], ["run", "digits", "--seed", "x"], ["run", "digits", "--bogus", "1"],
     ["run", "digits", "mnist"], ["--bogus"],
     ["run", "digits", "--per-class", "1.5"], ["run", "digits", "--keep-head", "maybe"]],
)  # fmt: skip
def test_what_cannot_be_parsed(arguments: list[str], call: Call) -> None:
    answer = call(*arguments)
    assert answer.status == 2 and answer.out == ""
    assert "Traceback" not in answer.err and "--help" in answer.err


def test_a_device_that_is_not_there(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert "--device cpu" in call("run", "digits", "--device", "cuda").mistake


def test_a_data_folder_without_the_files(call: Call, tmp_path: Path) -> None:
    said = call("run", "mnist", "--data-dir", tmp_path).mistake
    for name in (idx.TRAIN_IMAGES, idx.TRAIN_LABELS, idx.TEST_IMAGES, idx.TEST_LABELS):
        assert name in said
    assert str(tmp_path / "mnist") in said and "http" in said and "EEC_DATA" in said


def test_the_data_folder_of_the_environment(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EEC_DATA", str(tmp_path / "chosen"))
    assert str(tmp_path / "chosen" / "mnist") in call("run", "mnist").mistake


@pytest.fixture
def mnist(tmp_path: Path) -> Path:
    """Four small but whole files, two images of each class."""
    folder = tmp_path / "data" / "mnist"
    folder.mkdir(parents=True)
    for images, labels in (
        (idx.TRAIN_IMAGES, idx.TRAIN_LABELS),
        (idx.TEST_IMAGES, idx.TEST_LABELS),
    ):
        pixels = bytes(range(256)) * 64
        head = struct.pack(">4B3I", 0, 0, 8, 3, 20, 28, 28)
        (folder / images).write_bytes(head + pixels[: 20 * 28 * 28])
        head = struct.pack(">4BI", 0, 0, 8, 1, 20)
        (folder / labels).write_bytes(head + bytes([*range(10), *range(10)]))
    return folder


def test_damaged_data_files(call: Call, mnist: Path) -> None:
    images, labels = mnist / idx.TRAIN_IMAGES, mnist / idx.TRAIN_LABELS
    whole = images.read_bytes()
    for content, words in (
        (whole[:-100], "is truncated"),
        (whole[:10], "is truncated"),
        (b"", "is truncated"),
        (b"<html>404</html>", "is not an IDX file"),
        (whole + b"\0", "trailing bytes"),
        (gzip.compress(whole)[:-20], "truncated inside its gzip data"),
        (gzip.compress(whole)[:20] + b"\xff" * 99, "corrupt gzip data"),
    ):
        images.write_bytes(content)
        said = call("run", "mnist", "--data-dir", mnist.parent).mistake
        assert str(images) in said and words in said
    images.write_bytes(whole)
    labels.write_bytes(labels.read_bytes()[:-1] + b"\x0b")
    assert "label 11" in call("run", "mnist", "--data-dir", mnist.parent).mistake


def test_a_place_that_cannot_be_written(call: Call, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    for place in (tmp_path / "file", tmp_path / "file" / "run"):
        assert "choose another --out" in call("run", "digits", "--out", place).mistake
    assert (tmp_path / "file").read_text() == "kept"


def test_a_folder_that_holds_something_else(call: Call, tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "config.json").write_text("{}")
    for more in ([], ["--overwrite"]):
        said = call("run", "digits", "--out", tmp_path / "letters", *more).mistake
        assert "no run folder" in said
    assert [entry.name for entry in (tmp_path / "letters").iterdir()] == ["config.json"]


def test_a_full_disk(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert "No space left on device" in call("run", "digits", "--out", "run", *TINY).mistake


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "a/b.png"), "a/b.png: No space left"),
        (MemoryError(), "not enough memory"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: 9 bytes"), "not enough memory"),
    ],
)
def test_a_machine_that_gives_out(
    error: Exception, words: str, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def give_out(*_: object) -> None:
        raise error

    monkeypatch.setattr(eec.cli.run.Run, "start", give_out)
    assert words in call("run", "digits").mistake


def test_a_mistake_of_ours_keeps_its_traceback(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def err(*_: object) -> None:
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    monkeypatch.setattr(eec.cli.run.Run, "start", err)
    with pytest.raises(RuntimeError, match="mat1"):
        call("run", "digits")


def test_a_name_with_a_line_break_does_not_break_the_line(call: Call) -> None:
    assert "a b" in call("run", "digits", "--beside", "a\nb").mistake
