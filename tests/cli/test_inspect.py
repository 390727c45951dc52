"""`eec inspect`: what a learner file holds, for people and for scripts."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eec.data.stream import Task
from eec.methods.archive import save_learner
from eec.methods.registry import choose_options, make_method
from eec.training.recipes import Recipe
from eec.training.runtime import Runtime

Call = Callable[..., Any]
Make = Callable[..., Path]


@pytest.fixture
def brain(call: Call, task_of: Callable[..., Task], cpu: Runtime, short_recipe: Recipe) -> Make:
    """`brain("eec", memory="9")`: brain.eec, a learner of [red] and 1 in the current folder."""

    def make(method: str = "eec", **options: Any) -> Path:
        if method == "eec":  # codes that all take the same
            options = {"code_type": "uint8", **options}
        made = make_method(method, choose_options(method, **options), 0, cpu)
        made.learn(task_of(0, 1, each=6, name=lambda digit: ["[red]", "one"][digit]))
        return save_learner(made, Path("brain.eec"))

    return make


def files() -> list[str]:
    return sorted(path.name for path in Path().iterdir())


def test_the_tables_tell_classes_bytes_and_codes(call: Call, brain: Make) -> None:
    size = brain(memory="8").stat().st_size
    answer = call("inspect", "brain.eec")
    assert (answer.status, answer.err) == (0, "")
    lines = answer.out.splitlines()
    assert lines[0] == (
        "brain.eec: eec, 2 classes in 1 task, grey 32x32, seed 0, memory 8 of 8 slots"
    )
    rows = {line.split()[0]: line.split()[1:] for line in lines if line.strip()}
    # task, episodes, concepts, images that these stand for, slots, bytes with the counts
    assert rows["[red]"] == rows["one"] == ["1", "4", "0", "6", "4", "4,100"]
    assert rows["all"] == ["8", "0", "12", "8", "8,200"]
    parts = lines[next(i for i, line in enumerate(lines) if line.startswith("part")) + 2 :]
    counts = [int(line.split()[-2].replace(",", "")) for line in parts[:6]]
    assert sum(counts) == size and f"{size:,}" in parts[7].split()
    assert "uint8 16x8x8: 1,024 bytes an episode, and a count of each; 1 codec" in answer.out
    assert lines[-1] == "pictures  brain-memory.png"
    assert Path("brain-memory.png").read_bytes().startswith(b"\x89PNG")
    assert all(len(line) <= 80 for line in lines if not line.startswith("codes"))


def test_json_has_all_of_it(call: Call, brain: Make) -> None:
    size = brain(memory="500kB").stat().st_size
    answer = call("inspect", "brain.eec", "--format", "json", "--pictures", "new/sheet.PNG")
    facts = json.loads(answer.out)
    assert facts["file"] == "brain.eec"
    assert facts["pictures"] == {"path": "new/sheet.PNG", "classes": 2}
    assert Path("new/sheet.PNG").exists() and not Path("brain-memory.png").exists()
    parts = facts["bytes"]
    assert parts["file"] == size
    assert facts["budget"]["used"] == size - parts["classifier"]
    assert [row["label"] for row in facts["classes"]] == ["[red]", "one"]
    assert [row["images"] for row in facts["classes"]] == [6, 6]


def test_looking_changes_nothing(call: Call, brain: Make) -> None:
    before = brain().read_bytes()
    answer = call("inspect", "brain.eec", "--no-pictures")
    assert "pictures" not in answer.out and "memory 12 slots, unlimited" in answer.out
    assert files() == ["brain.eec"] and Path("brain.eec").read_bytes() == before


@pytest.mark.parametrize(
    ("method", "headline", "memory"),
    [
        ("finetune", "keeps no memory", "none: it keeps the classifier only"),
        ("joint", "keeps every real image", "none of codes: it keeps the real images themselves"),
        ("eec-cgan", "keeps 1 generator", "none of codes: each task's images are generated"),
    ],
)
def test_a_method_without_codes_is_shown_too(
    call: Call, brain: Make, method: str, headline: str, memory: str
) -> None:
    brain(method)
    lines = call("inspect", "brain.eec").out.splitlines()
    assert lines[0].endswith(headline)
    assert lines[-3:] == [
        "classes   [red], one",
        f"memory    {memory}",
        "pictures  none: there are no episodes to decode",
    ]
    assert files() == ["brain.eec"]


def test_kept_images_are_counted_and_called_real(call: Call, brain: Make) -> None:
    brain("replay-webp")
    out = call("inspect", "brain.eec").out
    assert "memory 12 slots, unlimited" in out and "it keeps the real images themselves" in out
    assert ["class", "kept", "images", "bytes"] in [line.split() for line in out.splitlines()]


def test_real_images_on_top_of_codes_are_told(call: Call, brain: Make) -> None:
    brain("eecs", keep_real=0.5)
    out = call("inspect", "brain.eec", "--no-pictures").out
    assert out.splitlines()[0].endswith("unlimited, not strict")
    assert "real images of old classes kept on top of the codes: not strict" in out


def test_a_learner_of_nothing_is_shown_too(call: Call, cpu: Runtime) -> None:
    save_learner(make_method("eec", choose_options("eec"), 4, cpu), Path("brain.eec"))
    answer = call("inspect", "brain.eec")
    assert answer.out.startswith("brain.eec: eec, has learned nothing yet, seed 4\n")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--pictures", "brain.png"], "brain.png is the learner itself: use another name"),
        (["--pictures", "sheet.jpg"], "sheet.jpg: give it a name that ends in .png"),
        (["--pictures", "a.png", "--no-pictures"], "both given: leave one out"),
        (["--pictures", "brain.png/a.png"], "cannot write brain.png/a.png"),
    ],
)
def test_pictures_that_cannot_be_are_refused(
    call: Call, brain: Make, arguments: list[str], told: str
) -> None:
    content = brain().rename("brain.png").read_bytes()
    assert told in call("inspect", "brain.png", *arguments).mistake
    assert files() == ["brain.png"] and Path("brain.png").read_bytes() == content


def test_where_the_sheet_cannot_be_beside_the_file_the_tables_are_still_shown(
    call: Call, brain: Make
) -> None:
    brain()
    Path("brain-memory.png").mkdir()
    answer = call("inspect", "brain.eec", "--format", "json")
    assert answer.status == 0 and json.loads(answer.out)["pictures"] is None
    assert answer.err.startswith("eec: cannot write brain-memory.png: ")
    assert answer.err.count("\n") == 1 and "--pictures" in answer.err


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "there is no learner file x.eec"),
        (b"\x89PNG\r\n no learner", "x.eec is not a whole learner file"),
        (b"\x02\0\0\0\0\0\0\0{}", "x.eec is no learner of eec's"),
    ],
)
def test_what_is_no_learner_is_refused(call: Call, content: bytes | None, told: str) -> None:
    if content is not None:
        Path("x.eec").write_bytes(content)
    assert told in call("inspect", "x.eec").mistake


@pytest.mark.parametrize(
    "arguments", [["inspect", "brain.eec", "--no-pictures", "--format", "json"], ["run", "--help"]]
)
def test_a_reader_that_goes_away_is_no_mistake(brain: Make, arguments: list[str]) -> None:
    brain()
    program = "from eec.cli.main import main; main()"
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], stdout=writer, stderr=subprocess.PIPE
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")
