"""`eec learn`: one's own pictures, today and again tomorrow."""

import os
import pty
import random
import re
import struct
import subprocess
import termios
from collections.abc import Callable
from fcntl import ioctl
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from torch import Tensor

from eec import EEC
from eec.data.dataset import Dataset
from eec.data.stream import Task
from eec.methods.archive import load_learner, save_learner
from eec.methods.options import EECOptions
from eec.methods.registry import choose_options, make_method
from eec.training.runtime import Runtime

Call = Callable[..., Any]
Write = Callable[..., list[Path]]

SMALL = ["--size", "16", "--code", "4x4x4"]  # so that learning takes no time
ALONE = {"OMP_NUM_THREADS": "1"}  # two threads wait for each other while others use a core
EXIF_TURN = 0x0112
GREY = ["png", "jpg", "bmp", "tif"]
FORMATS = ["webp", *GREY]  # WebP has no grey images


@pytest.fixture(scope="session")
def write(digit_images: Callable[..., Tensor]) -> Write:
    """`write(folder, 3, 5)`: five threes as photographs come, of all formats, sizes and modes."""

    def act(folder: Path, digit: int, count: int, skip: int = 0, *, grey: bool = False) -> Any:
        draw = random.Random(f"{digit} {skip}")
        folder.mkdir(parents=True, exist_ok=True)
        written = []
        for i, pixels in enumerate(digit_images(digit, count, skip)):
            side = draw.randint(20, 120)
            image = Image.fromarray(pixels[0].numpy()).resize(
                (side, side), Image.Resampling.BICUBIC
            )
            kinds = GREY if grey else FORMATS
            kind = kinds[i % len(kinds)]
            tags = Image.Exif()
            if not grey:
                image = image.convert("RGBA" if kind == "png" else "RGB")
            if kind == "jpg":
                image = image.transpose(Image.Transpose.ROTATE_90)
                tags[EXIF_TURN] = 6
            written.append(folder / f"{skip + i}.{kind}")
            image.save(written[-1], exif=tags)
        return written

    return act


def knows(brain: Path | str) -> list[Any]:
    return EEC.load(brain).classes_.tolist()  # type: ignore[no-any-return]


def options_of(brain: str) -> EECOptions:
    options = EEC.load(brain).method_.options
    assert isinstance(options, EECOptions)
    return options


def table(out: str) -> dict[str, str]:
    """The rows of the table that is printed in the end, by class."""
    head, _, rest = out.partition("─\n")
    assert head.split()[:2] == ["class", "images"], out
    rows = re.findall(r"^(.+?) +(\d+)  (new|returning) *$", rest, re.MULTILINE)
    return {name: f"{count} {kind}" for name, count, kind in rows}


# In processes of their own, days apart as it were.


def test_days_of_teaching_and_asking(
    command: Callable[..., list[str]], environment: dict[str, str], tmp_path: Path, write: Write
) -> None:
    pictures = tmp_path / "pictures"
    for day, digit, skip in (("mon", 0, 0), ("mon", 1, 0), ("fri", 0, 24), ("fri", 4, 0)):
        write(pictures / day / f"a {digit}", digit, 24, skip)
    for digit in (0, 1, 4):
        write(pictures / "asked" / f"a {digit}", digit, 20, 48)
    cache = tmp_path / "cache"
    cache.mkdir()
    variables = {**environment, **ALONE, "XDG_CACHE_HOME": str(cache), "HOME": str(cache)}

    def eec(*arguments: str) -> str:
        done = subprocess.run(
            command(arguments, first=40, later=40),
            cwd=tmp_path,
            env=variables,
            capture_output=True,
            encoding="utf-8",
        )
        assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
        return done.stdout

    size = ["--size", "16", "--code", "16x4x4", "--net", "tiny"]
    first = eec("learn", "my brain.eec", "pictures/mon", *size)
    assert table(first) == {"a 0": "24 new", "a 1": "24 new"}
    assert "known     2 classes: a 0, a 1\n" in first
    second = eec("learn", "my brain.eec", "pictures/fri")
    assert table(second) == {"a 0": "24 returning", "a 4": "24 new"}
    assert "known     3 classes: a 0, a 1, a 4\n" in second
    assert second.endswith("ask       eec predict 'my brain.eec' IMAGE\n")
    judged = eec("predict", "my brain.eec", "pictures/asked", "--evaluate")
    accuracy = re.search(r"^all +60 +\d+ +(\d+\.\d)$", judged, re.MULTILINE)
    assert accuracy and float(accuracy[1]) > 60
    # No picture is left behind: not beside the learner, not in a cache.
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [
        "cache",
        "my brain.eec",
        "pictures",
    ]
    # What a CPU's precision was measured to be may be there.
    assert {path.name for path in cache.rglob("*")} <= {"eec", "calibration.json"}


def test_photographs_are_learned(call: Call, short_recipe: object, data_dir: Path) -> None:
    photos = data_dir / "tiny-imagenet-50" / "train"
    if not photos.is_dir():
        pytest.skip("needs tiny-imagenet-50 in the data folder")
    classes = sorted(entry for entry in photos.iterdir() if entry.is_dir())[:2]
    for folder in classes:
        for i, path in enumerate(sorted(folder.rglob("*.[jJ]*"))[:6]):
            Path("taught", folder.name).mkdir(parents=True, exist_ok=True)
            with Image.open(path) as image:
                image.resize((90 + 40 * i, 300 - 40 * i)).save(f"taught/{folder.name}/{i}.webp")
    answer = call("learn", "brain.eec", "taught", "--quiet")
    assert (answer.status, answer.err) == (0, "")
    method = EEC.load("brain.eec").method_
    assert method.classes == [folder.name for folder in classes] and method.image == (3, 32, 32)


# What is learned as what.


def test_loose_images_have_the_label_that_is_given(
    call: Call, short_recipe: object, write: Write
) -> None:
    one, *_ = write(Path("pile"), 3, 6)
    write(Path("pile/deep"), 3, 2, skip=6)
    write(Path("more"), 3, 2, skip=8)
    # The first is in the pile, too, and counts once.
    answer = call("learn", "b.eec", one, "pile", "more", "--label", "three", *SMALL, "--quiet")
    assert (answer.status, answer.err) == (0, "")
    assert table(answer.out) == {"three": "10 new"} and knows("b.eec") == ["three"]
    assert "With one class the classifier has nothing to learn" in answer.out
    assert "known     1 class: three\n" in answer.out


def test_the_same_name_in_two_folders_is_one_class(
    call: Call, short_recipe: object, write: Write
) -> None:
    write(Path("x/one"), 1, 3)
    write(Path("x/two"), 2, 3)
    write(Path("y/one"), 1, 3, skip=3)
    answer = call("learn", "b.eec", "x", "y", "x/../x", *SMALL, "--quiet")
    assert table(answer.out) == {"one": "6 new", "two": "3 new"}


def test_the_same_pictures_make_the_same_learner(
    call: Call, short_recipe: object, write: Write
) -> None:
    write(Path("x/one"), 1, 3)
    write(Path("x/two"), 2, 3)
    for brain in ("a.eec", "b.eec"):
        assert call("learn", brain, "x", *SMALL).status == 0
    assert Path("a.eec").read_bytes() == Path("b.eec").read_bytes()
    assert call("learn", "c.eec", "x", *SMALL, "--seed", "1").status == 0
    assert Path("c.eec").read_bytes() != Path("b.eec").read_bytes()


def test_one_image_is_enough_to_begin_with(call: Call, short_recipe: object, write: Write) -> None:
    (one,) = write(Path("pile"), 3, 1)
    answer = call("learn", "new/folder/b.eec", one, "--label", "three", *SMALL, "--quiet")
    assert (answer.status, answer.err) == (0, "") and knows("new/folder/b.eec") == ["three"]
    write(Path("x/four"), 4, 1)
    assert call("learn", "new/folder/b.eec", "x", "--quiet").status == 0
    assert knows("new/folder/b.eec") == ["three", "four"]


@pytest.mark.parametrize(("colourful", "channels"), [(0, 1), (1, 3)])
def test_one_colour_image_makes_the_learner_see_colours(
    colourful: int, channels: int, call: Call, short_recipe: object, write: Write
) -> None:
    write(Path("x/one"), 1, 3, grey=True)
    write(Path("x/two"), 2, 3, grey=True)
    if colourful:
        write(Path("x/two"), 2, colourful, skip=3)
    assert call("learn", "b.eec", "x", *SMALL).status == 0
    assert EEC.load("b.eec").method_.image == (channels, 16, 16)
    # Whatever comes later is brought to that.
    write(Path("later/three"), 3, 3, grey=bool(colourful))
    assert call("learn", "b.eec", "later").status == 0
    assert EEC.load("b.eec").method_.image == (channels, 16, 16)


def test_loose_images_beside_class_folders_are_told(
    call: Call, short_recipe: object, write: Write
) -> None:
    write(Path("x/one"), 1, 2)
    write(Path("x"), 2, 3)
    answer = call("learn", "b.eec", "x", *SMALL, "--quiet")
    assert answer.status == 0 and knows("b.eec") == ["one"]
    assert answer.err == "eec: 3 images lie in x itself, in no class folder: they were left out\n"


# An old learner.


@pytest.fixture
def taught(call: Call, short_recipe: object, digits: Dataset, digit_images: Any) -> EEC:
    """b.eec in the present folder, taught from Python: grey 16x16 images called 1 and "1"."""
    brain = EEC(code="4x4x4", seed=3, net="tiny")
    small = digits.resized(16)
    members = [i for i, label in enumerate(small.train_labels) if label in (1, 2)][:12]
    brain.partial_fit(small.train_images[members], [small.train_labels[i] for i in members])
    brain.save("b.eec")
    return brain


def test_a_folder_called_1_is_the_class_1(call: Call, taught: EEC, write: Write) -> None:
    write(Path("x/1"), 1, 2)
    write(Path("x/eins"), 1, 2)
    answer = call("learn", "b.eec", "x", "--quiet")
    assert table(answer.out) == {"1": "2 returning", "eins": "2 new"}
    assert knows("b.eec") == [1, 2, "eins"]


def test_a_folder_called_1_takes_no_room_of_a_new_class(
    call: Call, taught: EEC, write: Write
) -> None:
    taught.set_params(memory="2").shrink("2")
    taught.save("b.eec")
    write(Path("x/1"), 1, 2)
    assert table(call("learn", "b.eec", "x", "--quiet").out) == {"1": "2 returning"}
    write(Path("y/3"), 3, 2)
    assert "memory 2 is too small" in call("learn", "b.eec", "y", "--quiet").err


def test_a_budget_is_refused_before_any_picture_is_read(
    call: Call, write: Write, short_recipe: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    for digit in (1, 2, 3):
        write(Path(f"x/{digit}"), digit, 2)
    monkeypatch.setattr("eec.data.image_files.read_images", None)
    assert "memory 2 is too small" in call("learn", "c.eec", "x", "--memory", "2").mistake
    assert "of 3 classes" in call("learn", "c.eec", "x", "--memory", "1kB").mistake


def test_what_a_learner_was_made_with_stays(call: Call, taught: EEC, write: Write) -> None:
    write(Path("x/3"), 3, 2)
    before = Path("b.eec").read_bytes()
    made = {"size": "16", "code": "4x4x4", "net": "tiny", "seed": "3"}
    other = {"size": "32", "code": "16x4x4", "net": "small", "seed": "0"}
    for name, value in other.items():
        said = call("learn", "b.eec", "x", f"--{name}", value).mistake
        assert f"b.eec was made with {name} {made[name]}, which stays: leave --{name} out" in said
    assert "made with flip False" in call("learn", "b.eec", "x", "--flip").mistake
    assert Path("b.eec").read_bytes() == before
    same = [word for name, value in made.items() for word in (f"--{name}", value)]
    assert call("learn", "b.eec", "x", *same).status == 0
    assert knows("b.eec") == [1, 2, "3"]


def test_choices_reach_a_new_learner(call: Call, short_recipe: object, write: Write) -> None:
    write(Path("x/3"), 3, 2)
    answer = call(
        "learn", "b.eec", "x", *SMALL, "--net", "dcgan", "--flip", "--seed", "7",
        "--memory", "5MB", "--device", "cpu", "--precision", "float32",
    )  # fmt: skip
    assert answer.status == 0
    options = options_of("b.eec")
    assert (options.net, options.code) == ("dcgan", "4x4x4")
    assert options.flip and options.memory == "5MB" and EEC.load("b.eec").seed == 7
    # In place of bars: a line for each phase, where they do not mix with the result.
    assert answer.err.splitlines()[:2] == ["read images", "rehearse"]


def test_the_memory_of_an_old_learner_can_be_changed(call: Call, taught: EEC, write: Write) -> None:
    write(Path("x/3"), 3, 2)
    before = Path("b.eec").read_bytes()
    assert "memory is 'much'" in call("learn", "b.eec", "x", "--memory", "much").mistake
    assert Path("b.eec").read_bytes() == before
    assert call("learn", "b.eec", "x", "--memory", "4").status == 0
    assert options_of("b.eec").memory == "4"
    write(Path("y/4"), 4, 2)
    assert call("learn", "b.eec", "y").status == 0
    assert options_of("b.eec").memory == "4"


def test_learners_of_other_methods_go_on(
    call: Call, short_recipe: object, cpu: Runtime, write: Write, digit_images: Any
) -> None:
    joint = make_method("joint", choose_options("joint"), 0, cpu)
    joint.learn(Task(digit_images(1, 3), [1, 1, 1]))
    save_learner(joint, Path("b.eec"))
    write(Path("x/2"), 2, 3)
    assert call("learn", "b.eec", "x").status == 0
    after = load_learner(Path("b.eec"), cpu)
    assert after.name == "joint" and after.classes == [1, "2"]
    assert "made with code None" in call("learn", "b.eec", "x", "--code", "4x4x4").mistake
    assert "method joint has no memory" in call("learn", "b.eec", "x", "--memory", "5MB").mistake


def test_a_learner_of_oblong_images_is_for_python(
    call: Call, short_recipe: object, write: Write, digit_images: Any
) -> None:
    EEC(code="4x3x3").partial_fit(digit_images(1, 3)[:, :, :, 4:28], [1, 1, 1]).save("b.eec")
    write(Path("x/2"), 2, 3)
    for command in ("learn", "predict"):
        assert "images of 32x24 pixels" in call(command, "b.eec", "x").mistake


def test_a_link_stays_a_link(call: Call, taught: EEC, write: Write) -> None:
    Path("elsewhere").mkdir()
    Path("b.eec").rename("elsewhere/b.eec")
    Path("b.eec").symlink_to("elsewhere/b.eec")
    write(Path("x/3"), 3, 2)
    assert call("learn", "b.eec", "x").status == 0
    assert Path("b.eec").is_symlink() and knows("elsewhere/b.eec") == [1, 2, "3"]


# Pictures that are none.


@pytest.fixture
def spoilt(write: Write, tmp_path: Path) -> Path:
    """A folder `x` with two classes of four images, one of which is cut short and one is text."""
    folder = tmp_path / "here" / "x"
    for digit in (1, 2):
        write(folder / str(digit), digit, 4)
    cut = next((folder / "1").glob("*.png"))
    cut.write_bytes(cut.read_bytes()[:100])
    (folder / "2" / "5.jpg").write_text("a letter")
    return folder


def test_undecodable_images_are_counted_and_named(
    call: Call, short_recipe: object, spoilt: Path
) -> None:
    answer = call("learn", "b.eec", "x", *SMALL, "--quiet")
    assert answer.status == 0 and table(answer.out) == {"1": "3 new", "2": "4 new"}
    assert answer.err.startswith("eec: left out 2 images that cannot be decoded: x/1/1.png (")
    assert "x/2/5.jpg (" in answer.err and answer.err.count("\n") == 1


def test_strict_refuses_an_undecodable_image(call: Call, spoilt: Path) -> None:
    said = call("learn", "b.eec", "x", *SMALL, "--quiet", "--strict").mistake
    assert "x/1/1.png cannot be decoded" in said and not Path("b.eec").exists()


def test_a_class_of_which_nothing_can_be_decoded(call: Call, spoilt: Path) -> None:
    for path in (spoilt / "2").iterdir():
        path.write_bytes(b"")
    said = call("learn", "b.eec", "x", *SMALL, "--quiet").mistake
    assert "class 2: none of its images can be decoded: x/2/0.webp (" in said
    assert not Path("b.eec").exists()


# A terminal.


def test_the_bar_on_a_terminal(
    command: Callable[..., list[str]], environment: dict[str, str], tmp_path: Path, write: Write
) -> None:
    write(tmp_path / "x" / "[red]", 1, 8)
    write(tmp_path / "x" / "2", 2, 8)
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    running = subprocess.Popen(
        command(["learn", "b.eec", "x", *SMALL, "--net", "tiny"], first=40, later=1),
        cwd=tmp_path,
        env={**environment, **ALONE, "TERM": "xterm-256color"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    seen = b""
    try:
        while chunk := _read(ours):
            seen += chunk
        assert running.wait(60) == 0
    finally:
        running.kill()
        os.close(ours)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode())
    for phase in ("train autoencoder", "train classifier"):
        assert re.search(rf"{phase} [━╸╺]+ +\d+%", text), phase
    assert re.search(r"\d+% (\d+\.\d s|\d+ s) left", text)
    assert "\rread images ━" in text and "\rstore ━" in text
    assert "[red]" in text and "ask       eec predict b.eec IMAGE" in text


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # how Linux says that the other end is closed
        return b""
