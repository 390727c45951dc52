"""What `eec learn` refuses or what stops it; the learner is then as it was before."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from torch import Tensor

from eec import EEC
from eec.methods.contract import Method

Call = Callable[..., Any]
Write = Callable[..., None]

SMALL = ["--size", "16", "--code", "4x4x4"]  # so that learning takes no time


@pytest.fixture(scope="session")
def write(digit_images: Callable[..., Tensor]) -> Write:
    """`write(folder, 3, 5)`: five threes."""

    def act(folder: Path, digit: int, count: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for i, pixels in enumerate(digit_images(digit, count)):
            Image.fromarray(pixels[0].numpy()).save(folder / f"{i}.png")

    return act


@pytest.fixture
def taught(call: Call, short_recipe: object, write: Write, tmp_path: Path) -> None:
    """b.eec in the present folder knows one class, called 1."""
    write(tmp_path / "taught" / "1", 1, 3)
    assert call("learn", "b.eec", tmp_path / "taught", *SMALL).status == 0


def knows(brain: str) -> list[Any]:
    return EEC.load(brain).classes_.tolist()  # type: ignore[no-any-return]


# Pictures and places.


@pytest.fixture
def mistakes(call: Call, write: Write) -> Iterator[None]:
    """Folders with something wrong about them; no learner comes of it."""
    write(Path("loose"), 1, 2)
    write(Path("whole/train/1"), 1, 1)
    write(Path("whole/val/1"), 1, 1)
    write(Path("fine/1"), 1, 1)
    write(Path("hollow/1"), 1, 1)
    Path("hollow/2").mkdir()
    Path("empty").mkdir()
    yield
    assert not list(Path().glob("*.eec"))


@pytest.mark.usefixtures("mistakes")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "nothing to learn: give a folder"),
        (["nowhere"], "nowhere: No such file or directory"),
        (["fine", "nowhere"], "nowhere: No such file or directory"),
        (["empty"], "empty is empty: give a folder with a sub-folder"),
        (["empty", "--label", "x"], "the class folder empty has no"),
        (["hollow"], "the class folder hollow/2 has no"),
        (["loose"], "loose holds images and no sub-folder: name their class with --label NAME"),
        (["loose/0.png"], "loose/0.png is a file, and no folder of class folders: name their"),
        (["whole"], "whole is a whole data set: train and val in it are no classes: give whole/tr"),
        (["fine", "--label", " "], "--label ' ': give the class a name that can be printed"),
        (["fine", "--label", "a\x1bb"], "--label 'a\\x1bb': give the class a name"),
        (["fine", "--size", "4"], "size is 4: use 8 to 4096 pixels a side"),
        (["fine", "--seed", "-1"], "--seed is -1"),
        (["fine", "--code", "16x64x64"], "code 16x64x64"),
        (["fine", "--code", "many"], "code 'many'"),
        (["fine", "--memory", "much"], "memory is 'much'"),
    ],
)
def test_what_cannot_be_learned(arguments: list[str], words: str, call: Call) -> None:
    assert words in call("learn", "b.eec", *arguments, "--quiet").mistake


def test_a_folder_without_rights(call: Call, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write(Path("x/1"), 1, 1)
    look = os.scandir

    def closed(folder: Any) -> Any:
        if Path(folder).name == "1":
            raise PermissionError(13, "Permission denied", str(folder))
        return look(folder)

    monkeypatch.setattr(os, "scandir", closed)
    assert "x/1 cannot be listed (Permission denied)" in call("learn", "b.eec", "x").mistake


def test_a_place_that_cannot_be_written_is_told_before_the_work(
    call: Call, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(Path("x/1"), 1, 1)
    Path("file").write_text("kept")
    assert "x is a folder: name the learner file first" in call("learn", "x", "b.eec").mistake
    assert "file is no folder that you can write to" in call("learn", "file/b.eec", "x").mistake
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK)
    assert "is no folder that you can write to" in call("learn", "b.eec", "x").mistake
    assert "file is write-protected" in call("learn", "file", "x").mistake
    assert sorted(entry.name for entry in Path().iterdir()) == ["file", "x"]


@pytest.mark.parametrize("content", [b"", b"a letter", b"\x08" + bytes(99)])
def test_a_file_that_is_no_learner_is_not_touched(content: bytes, call: Call, write: Write) -> None:
    write(Path("x/1"), 1, 1)
    Path("b.eec").write_bytes(content)
    assert "b.eec is not a whole learner file" in call("learn", "b.eec", "x").mistake
    assert Path("b.eec").read_bytes() == content


def test_a_learner_cut_short_is_not_touched(call: Call, taught: object, write: Write) -> None:
    write(Path("x/1"), 1, 1)
    whole = Path("b.eec").read_bytes()
    for content in (whole[:-100], whole[:200], whole[:-1] + b"?"):
        Path("b.eec").write_bytes(content)
        assert "b.eec" in call("learn", "b.eec", "x").mistake
        assert Path("b.eec").read_bytes() == content


# Something comes between.


def test_ctrl_c_leaves_the_learner_as_it_was(
    call: Call, taught: object, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(Path("x/3"), 3, 2)
    before = Path("b.eec").read_bytes()

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Method, "learn", interrupt)
    answer = call("learn", "b.eec", "x", "--quiet")
    assert (answer.status, answer.err) == (130, "eec: stopped; b.eec is as it was\n")
    assert Path("b.eec").read_bytes() == before
    answer = call("learn", "new/c.eec", "x", *SMALL, "--quiet")
    assert (answer.status, answer.err) == (130, "eec: stopped; nothing was written\n")
    assert sorted(entry.name for entry in Path().iterdir()) == ["b.eec", "x"]


@pytest.mark.parametrize("brain", ["b.eec", "new.eec"])
def test_two_commands_at_once_on_one_learner(
    brain: str, call: Call, taught: object, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(Path("x/3"), 3, 2)
    write(Path("y/4"), 4, 2)
    learn = Method.learn

    def meanwhile(method: Method, *arguments: Any) -> Any:
        monkeypatch.setattr(Method, "learn", learn)
        assert call("learn", brain, "y", "--quiet").status == 0
        return learn(method, *arguments)

    monkeypatch.setattr(Method, "learn", meanwhile)
    said = call("learn", brain, "x", "--quiet").mistake
    assert f"{brain} was changed by another command meanwhile" in said
    assert knows(brain) == (["1", "4"] if brain == "b.eec" else ["4"])
    assert sorted(entry.name for entry in Path().iterdir()) == sorted({"b.eec", brain, "x", "y"})


def test_links_that_lead_to_themselves_are_told_in_a_line(call: Call, write: Write) -> None:
    write(Path("photos/1"), 1, 2)
    for link in (Path("photos/1/self.png"), Path("b.eec"), Path("run")):
        link.symlink_to(link.name)
    assert "b.eec" in call("learn", "b.eec", "photos", *SMALL).mistake
    Path("b.eec").unlink()
    refused = call("learn", "b.eec", "photos", "--strict", *SMALL)
    assert refused.status == 2 and "self.png cannot be decoded" in refused.err
    assert "run is not a run folder" in call("report", "run").mistake
    assert not Path("b.eec").exists()
