"""`eec predict`: names for pictures, for people and for scripts."""

import csv
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from eec import EEC
from eec.cli import predict
from eec.data.dataset import Dataset
from eec.data.image_files import read_images
from eec.training.recipes import RECIPES, Plan, Recipe

Call = Callable[..., Any]

CLASSES = [0, 1, 4]  # numbers: folders are called by text


@pytest.fixture(scope="module")
def brain(digits: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A learner of three digits, grey 16x16, taught from Python and just long enough to be good."""
    small = digits.resized(16)
    members = [i for i, label in enumerate(small.train_labels) if label in CLASSES][:120]
    plan = Plan("sgd", rate=0.05, batch=16, steps=120)
    learner = EEC(code="16x4x4")
    with pytest.MonkeyPatch.context() as patch:
        adam = Plan("adam", rate=2e-3, batch=16, steps=120)
        patch.setitem(RECIPES, "fast", Recipe(plan, plan, adam, adam, crop=2))
        learner.fit(small.train_images[members], [small.train_labels[i] for i in members])
    path = tmp_path_factory.mktemp("taught") / "brain.eec"
    learner.save(path)
    return path


@pytest.fixture
def pictures(call: Call, digit_images: Callable[..., Tensor]) -> list[Path]:
    """Six pictures of each class in `x`, at different depths and of different formats and sizes."""
    written = []
    for digit in CLASSES:
        for i, pixels in enumerate(digit_images(digit, 6, 60)):
            folder = Path("x", str(digit), *["deeper"] * (i % 2))
            folder.mkdir(parents=True, exist_ok=True)
            image = Image.fromarray(pixels[0].numpy()).resize((30 + 9 * i, 30 + 9 * i))
            image = image if i % 3 else image.convert("RGB")
            written.append(folder / f"{i}.{['png', 'jpg', 'bmp'][i % 3]}")
            image.save(written[-1])
    Path("x/0/.hidden.png").write_bytes(b"no picture")
    Path("x/0/read me.txt").write_text("no picture")
    return written


def expected(brain: Path, paths: list[Path]) -> dict[str, list[float]]:
    """What the learner says in Python."""
    images = read_images(paths, 16, 1).images
    rows = EEC.load(brain).predict_proba(images)
    return {str(path): row.tolist() for path, row in zip(paths, rows, strict=True)}


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], None]:
    """`pipe(content)`: what the next command gets on stdin."""

    def act(content: bytes) -> None:
        buffer = io.BufferedReader(io.BytesIO(content))
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(buffer))

    return act


# The three forms.


def test_json_has_what_python_says(call: Call, brain: Path, pictures: list[Path]) -> None:
    answer = call("predict", brain, "x", "--format", "json")
    assert (answer.status, answer.err) == (0, "")
    said = json.loads(answer.out)
    sure = expected(brain, pictures)
    assert sorted(row["path"] for row in said) == sorted(sure)
    for row in said:
        assert list(row) == ["path", "label", "confidence"]
        best = int(np.argmax(sure[row["path"]]))
        assert row["label"] == CLASSES[best]
        assert row["confidence"] == pytest.approx(sure[row["path"]][best], abs=1e-5)


def test_the_likeliest_labels(call: Call, brain: Path, pictures: list[Path]) -> None:
    path = pictures[0]
    (row,) = json.loads(call("predict", brain, path, "--format", "json", "--top", "2").out)
    shares = sorted(expected(brain, [path])[str(path)], reverse=True)
    assert [entry["confidence"] for entry in row["top"]] == pytest.approx(shares[:2], abs=1e-5)
    assert row["top"][0] == {"label": row["label"], "confidence": row["confidence"]}
    # No more than there are.
    (row,) = json.loads(call("predict", brain, path, "--format", "json", "--top", "9").out)
    assert sorted(entry["label"] for entry in row["top"]) == CLASSES
    assert "--top is 0" in call("predict", brain, path, "--top", "0").mistake


def test_csv(call: Call, brain: Path, pictures: list[Path]) -> None:
    odd = Path('a "name", with\nall.png')
    pictures[0].with_suffix(".bmp").touch()
    Image.open(pictures[0]).save(odd)
    answer = call("predict", brain, odd, *pictures[1:], "--format", "csv", "--top", "2")
    rows = list(csv.DictReader(io.StringIO(answer.out)))
    assert list(rows[0]) == ["path", "label", "confidence", "label_2", "confidence_2"]
    assert [row["path"] for row in rows] == [str(odd), *map(str, pictures[1:])]
    sure = expected(brain, [odd, *pictures[1:]])
    for row in rows:
        assert float(row["confidence"]) == pytest.approx(max(sure[row["path"]]), abs=1e-5)
        assert float(row["confidence"]) >= float(row["confidence_2"])


def test_the_table(call: Call, brain: Path, pictures: list[Path]) -> None:
    long = Path("long" * 50 + "\x1b[31m.png")
    Image.open(pictures[0]).save(long)
    answer = call("predict", brain, long, pictures[1])
    head, first, second = answer.out.splitlines()
    assert head.split() == ["label", "sure", "image"]
    (share,) = [max(row) for row in expected(brain, [pictures[1]]).values()]
    label, percent, unit, path = second.split()
    assert int(label) in CLASSES and float(percent) == pytest.approx(100 * share, abs=0.051)
    assert unit == "%" and path == str(pictures[1])
    # A name is never cut, and does nothing to the terminal.
    assert first.endswith("  " + "long" * 50 + "?[31m.png")
    assert first.index("long") == second.index("x/") == head.index("image")
    answer = call("predict", brain, pictures[0], "--top", "3")
    assert answer.out.splitlines()[0].split() == ["label", "sure"] * 3 + ["image"]


def test_batches_do_not_show(
    call: Call, brain: Path, pictures: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    for form in ("json", "csv", "table"):
        whole = call("predict", brain, "x", "--format", form)
        monkeypatch.setattr(predict, "BATCH", 4)
        assert call("predict", brain, "x", "--format", form) == whole
        monkeypatch.undo()


def test_a_picture_is_brought_to_the_mode_of_the_learner(
    call: Call, brain: Path, short_recipe: object, digits: Dataset, pictures: list[Path]
) -> None:
    grey = Image.open(pictures[1]).convert("L")
    grey.save("grey.png")
    grey.convert("RGB").save("rgb.png")
    rows = json.loads(call("predict", brain, "grey.png", "rgb.png", "--format", "json").out)
    assert rows[0] == {**rows[1], "path": "grey.png"}
    # A learner of colours sees a grey one the same way.
    colour = digits.train_images[:6].expand(-1, 3, -1, -1)
    EEC(code="4x4x4").fit(colour, [1, 2, 1, 2, 1, 2]).save("colour.eec")
    rows = json.loads(call("predict", "colour.eec", "grey.png", "rgb.png", "--format", "json").out)
    assert rows[0] == {**rows[1], "path": "grey.png"}


# Pipes.


@pytest.mark.parametrize("form", ["PNG", "JPEG", "BMP", "WEBP", "TIFF", "GIF"])
def test_an_image_from_a_pipe(
    form: str, call: Call, brain: Path, pictures: list[Path], pipe: Callable[[bytes], None]
) -> None:
    content = io.BytesIO()
    Image.open(pictures[0]).convert("L").save(content, form)
    Path("same").write_bytes(content.getvalue())
    (apart,) = json.loads(call("predict", brain, "same", "--format", "json").out)
    for arguments in ([], ["-"]):
        pipe(content.getvalue())
        answer = call("predict", brain, *arguments, "--format", "json")
        assert json.loads(answer.out) == [{**apart, "path": "-"}] and answer.err == ""


@pytest.mark.parametrize("end", ["\n", "\r\n", "\0"])
def test_paths_from_a_pipe(
    end: str, call: Call, brain: Path, pictures: list[Path], pipe: Callable[[bytes], None]
) -> None:
    odd = Path("BMW in\nfront.png") if end == "\0" else Path("BMW ü.png")
    Image.open(pictures[0]).save(odd)
    given = [str(odd), "", "x/1", str(pictures[0])]
    pipe(os.fsencode(end.join(given)))
    rows = json.loads(call("predict", brain, "--format", "json").out)
    ones = sorted(str(path) for path in pictures if path.parts[1] == "1")
    assert [row["path"] for row in rows[:1] + rows[-1:]] == [str(odd), str(pictures[0])]
    assert sorted(row["path"] for row in rows[1:-1]) == ones


def test_the_folder_that_one_is_in_may_come_through_the_pipe(
    call: Call, brain: Path, pictures: list[Path], pipe: Callable[[bytes], None]
) -> None:
    pipe(b"./\n")
    named = json.loads(call("predict", brain, "--format", "json").out)
    assert {Path(row["path"]) for row in named} >= set(pictures)


def test_answers_come_while_the_pipe_is_open(
    brain: Path, pictures: list[Path], environment: dict[str, str]
) -> None:
    program = [sys.executable, "-c", "from eec.cli.main import main; main()", "predict", str(brain)]
    with subprocess.Popen(
        program,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    ) as running:
        assert running.stdin and running.stdout and running.stderr
        for path in pictures[:2]:
            running.stdin.write(f"{path}\n")
            running.stdin.flush()
            if path == pictures[0]:
                assert running.stdout.readline().split() == ["label", "sure", "image"]
            assert running.stdout.readline().endswith(f"  {path}\n")
        # Nobody reads on: that is no mistake.
        running.stdout.close()
        running.stdin.write(f"{path}\n")
        running.stdin.close()
        assert running.stderr.read() == "" and running.wait(60) == 141


def test_a_pipe_that_holds_nothing_to_name(
    call: Call, brain: Path, pictures: list[Path], pipe: Callable[[bytes], None]
) -> None:
    for content in (b"", b"\n\n", b"\0"):
        pipe(content)
        assert "the pipe is empty" in call("predict", brain).mistake
    pipe(b"x" * 3_000_000)
    assert "neither an image nor paths" in call("predict", brain).mistake
    pipe(b"%PDF-1.7\nand so on\n")
    assert "none of the 2 images can be decoded: %PDF" in call("predict", brain).mistake
    pipe(pictures[0].read_bytes()[:60])
    assert "the image cannot be decoded (" in call("predict", brain).mistake
    pipe(b"x/0\n")
    assert "- stands for a pipe" in call("predict", brain, "x", "-").mistake


def test_nothing_is_read_from_a_terminal(
    call: Call, brain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    assert "nothing to name: give images or folders" in call("predict", brain).mistake


# Pictures that are none.


def test_undecodable_images_are_left_out(
    call: Call,
    brain: Path,
    pictures: list[Path],
    pipe: Callable[[bytes], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pictures[3].write_bytes(pictures[3].read_bytes()[:70])
    answer = call("predict", brain, "x", "--format", "json")
    assert answer.status == 0 and len(json.loads(answer.out)) == len(pictures) - 1
    assert answer.err.startswith(f"eec: left out 1 image that cannot be decoded: {pictures[3]} (")
    monkeypatch.setattr(predict, "BATCH", 2)  # rows that were ready before are not printed either
    for form in ("table", "json", "csv"):
        said = call("predict", brain, "x", "--strict", "--format", form).mistake
        assert f"{pictures[3]} cannot be decoded" in said
    # In a list from elsewhere, one that went away counts the same.
    pipe(os.fsencode(f"{pictures[0]}\nnowhere.png\n"))
    answer = call("predict", brain, "--format", "csv")
    assert answer.status == 0 and answer.out.count("\n") == 2
    assert "left out 1 image" in answer.err and "nowhere.png (No such file" in answer.err


def test_none_can_be_decoded(call: Call, brain: Path, pictures: list[Path]) -> None:
    for path in pictures:
        path.write_bytes(b"")
    for form in ("table", "json", "csv"):
        said = call("predict", brain, "x", "--format", form).mistake
        assert "none of the 18 images can be decoded: x/0/" in said and "15 more" in said


# Against the truth.


def wrong_by_one(pictures: list[Path]) -> None:
    """A picture of a 4 among those of 0."""
    Path("x/0/0.png").unlink()
    Image.open(pictures[-2]).save("x/0/0.png")


def test_evaluate(call: Call, brain: Path, pictures: list[Path]) -> None:
    calls = {str(p): int(np.argmax(row)) for p, row in expected(brain, pictures).items()}
    right = sum(CLASSES[i] == int(Path(path).parts[1]) for path, i in calls.items())
    assert right >= 16  # or the test says nothing
    wrong_by_one(pictures)
    answer = call("predict", brain, "x", "--evaluate", "--format", "json")
    assert (answer.status, answer.err) == (0, "")
    result = json.loads(answer.out)
    assert [row["label"] for row in result["classes"]] == CLASSES
    assert {row["images"] for row in result["classes"]} == {6} and result["images"] == 18
    assert result["right"] == sum(row["right"] for row in result["classes"]) >= 15
    assert result["accuracy"] == pytest.approx(result["right"] / 18, abs=1e-6)
    assert {"truth": 0, "called": 4, "images": 1} in result["confusions"]
    assert sum(pair["images"] for pair in result["confusions"]) == 18 - result["right"]

    shown = call("predict", brain, "x", "--evaluate").out
    share = f"{100 * result['right'] / 18:.1f}"
    assert ["all", "18", str(result["right"]), share] in [
        line.split() for line in shown.splitlines()
    ]
    assert "1 of 0 called 4\n" in shown

    rows = list(csv.DictReader(io.StringIO(call("predict", brain, "x", "--evaluate",
                                                "--format", "csv").out)))  # fmt: skip
    assert [int(row["right"]) for row in rows] == [row["right"] for row in result["classes"]]
    assert (rows[0]["called_instead"], rows[0]["called_images"]) == ("4", "1")


def test_evaluate_counts_what_can_be_decoded(call: Call, brain: Path, pictures: list[Path]) -> None:
    for path in pictures[:6]:
        path.write_bytes(b"")
    Image.open(pictures[-1]).save("x/loose.png")
    answer = call("predict", brain, "x", "--evaluate")
    assert [line.split()[:4] for line in answer.out.splitlines()][2] == ["0", "0", "0", "–"]
    loose, lost = answer.err.splitlines()
    assert loose.startswith("eec: 1 images lie in x itself")
    assert lost.startswith("eec: left out 6 images that cannot be decoded")
    assert "cannot be decoded" in call("predict", brain, "x", "--evaluate", "--strict").mistake


def test_evaluate_refuses_what_it_cannot_judge(
    call: Call, brain: Path, pictures: list[Path]
) -> None:
    def said(*arguments: str) -> str:
        return str(call("predict", brain, *arguments, "--evaluate").mistake)

    assert "give folders of class folders" in said()
    assert "leave --top out" in said("x", "--top", "2")
    assert "x/0/0.png is a file" in said("x/0/0.png")
    assert "x/0/deeper holds images and no sub-folder: give the folder above" in said("x/0/deeper")
    Path("x/4").rename("x/four")
    Path("x/1").rename("x/[one]")
    assert "brain.eec never learned [one], four: it knows 0, 1, 4" in said("x")
    Path("whole/train").mkdir(parents=True)
    Path("x").rename("whole/test")
    assert "give whole/test" in said("whole")


# Mistakes.


def test_a_learner_that_cannot_be_read(call: Call, brain: Path, pictures: list[Path]) -> None:
    assert "there is no learner file b.eec" in call("predict", "b.eec", "x").mistake
    assert "cannot read x (Is a directory)" in call("predict", "x", brain).mistake
    assert "not a whole learner file" in call("predict", pictures[0], "x").mistake
    whole = brain.read_bytes()
    for content in (b"", whole[:100], whole[:-1], whole[:-1] + b"?"):
        Path("b.eec").write_bytes(content)
        assert "b.eec" in call("predict", "b.eec", "x").mistake


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere.png"], "nowhere.png: No such file or directory"),
        (["x", "nowhere"], "nowhere: No such file or directory"),
        (["empty"], "empty has no"),
        (["x", "--device", "cuda"], "--device cpu"),
    ],
)
def test_what_cannot_be_named(
    arguments: list[str],
    words: str,
    call: Call,
    brain: Path,
    pictures: list[Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    Path("empty").mkdir()
    assert words in call("predict", brain, *arguments).mistake


def test_help_needs_nothing_heavy() -> None:
    ask = (
        "import sys\nfrom eec.cli.main import main\ntry:\n    main(sys.argv[1:])\n"
        "except SystemExit:\n    pass\n"
        "assert not {'torch', 'numpy', 'PIL', 'rich.progress'} & set(sys.modules)"
    )
    for name in ("learn", "predict"):
        done = subprocess.run(
            [sys.executable, "-c", ask, name, "--help"], capture_output=True, encoding="utf-8"
        )
        assert done.returncode == 0, done.stderr
        assert f"usage: eec {name}" in done.stdout and "BRAIN" in done.stdout
