"""`eec paper`: the list of experiments, and the pictures and measures that they leave."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import tyro
from PIL import Image

from eec.cli.paper import FIGURES, Paper
from eec.data.dataset import Dataset
from eec.errors import UserError
from eec.paper import encoded
from eec.paper.experiments import EXPERIMENTS
from eec.training.recipes import Plan


def paper(*arguments: str | Path) -> None:
    given = [str(argument) for argument in arguments]
    tyro.cli(Paper, args=given).start(given)


@pytest.fixture
def small(digits: Dataset, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The experiments on the embedded digits, in an empty folder."""
    chosen = [i for i, label in enumerate(digits.train_labels) if label in (2, 5)]
    targets = np.array([int(digits.train_labels[i] == 5) for i in chosen])
    images = digits.train_images[torch.tensor(chosen)][:, :, ::2, ::2]
    monkeypatch.setattr(encoded, "two_classes", lambda data_dir: (images, targets))
    monkeypatch.setattr(encoded, "PLAN", Plan("adam", rate=2e-3, batch=32, steps=15))
    monkeypatch.setattr(encoded, "COUNTS", (100, 50, 30, 20))
    monkeypatch.setattr(encoded, "FEWEST", 20)
    monkeypatch.chdir(tmp_path)


def test_the_list_has_every_experiment(capsys: pytest.CaptureFixture[str]) -> None:
    paper()
    shown = capsys.readouterr().out
    assert [line.split()[0] for line in shown.splitlines()] == [*EXPERIMENTS, *FIGURES]
    assert "200 concepts" in shown
    paper("list")
    assert capsys.readouterr().out == shown


@pytest.mark.parametrize(
    "wrong",
    [("list", "--jobs", "2"), ("list", "--out", "x"), ("results", "--seeds", "2"),
     ("figure3", "--seed", "-1")],
)  # fmt: skip
def test_options_that_would_do_nothing_are_refused(wrong: tuple[str, ...]) -> None:
    with pytest.raises(UserError, match=wrong[1]):
        paper(*wrong)


def test_to_list_takes_no_torch() -> None:
    program = (
        "import sys; from eec.cli.paper import Paper; Paper().start([]); "
        "assert not {'torch', 'numpy', 'matplotlib'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("name", "rows"), [("figure3", 4), ("figure6", 2)])
def test_a_figure_leaves_a_picture_and_its_measures(
    name: str, rows: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paper(name, "--out", "new/there", "--seed", "2", "--linkage", "centroid")
    shown = capsys.readouterr()
    folder = tmp_path / "new" / "there"
    there = [f"{name}.json", "pictures", "table.md"]
    assert sorted(path.name for path in folder.iterdir()) == there
    facts = json.loads((folder / f"{name}.json").read_bytes())
    assert (facts["seed"], facts["linkage"], len(facts["rows"])) == (2, "centroid", rows)
    table = (folder / "table.md").read_text()
    assert f"`eec {name} --out new/there" in table and f"](pictures/{name}.png)" in table
    assert "| 20 concepts |" in table and str(facts["claims"][0]["found"]) in table
    with Image.open(folder / "pictures" / f"{name}.png") as picture:
        colours = set(map(tuple, np.asarray(picture.convert("RGB")).reshape(-1, 3).tolist()))
    assert {(0, 0x72, 0xB2), (0xE6, 0x9F, 0)} <= colours
    assert max(map(len, shown.out.partition("olds: ")[0].splitlines())) <= 80
    for words in ("20 concepts", f"new/there/pictures/{name}.png", f"new/there/{name}.json"):
        assert words in shown.out
    verdicts = [line for line in shown.out.splitlines() if line.startswith(("Holds", "Does not"))]
    assert len(verdicts) == len(facts["claims"])
    assert "train autoencoder" in shown.err


@pytest.mark.usefixtures("small")
def test_without_a_folder_it_is_named_like_that_of_a_run(tmp_path: Path) -> None:
    paper("figure6", "--seed", "3")
    assert (tmp_path / "runs" / "paper-figure6-ward-3" / "table.md").exists()


def test_an_unknown_experiment_is_refused() -> None:
    with pytest.raises(UserError, match="unknown experiment 'figure9': choose one of list, "):
        paper("figure9")


def test_without_mnist_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="eec data get mnist"):
        paper("figure3", "--data-dir", tmp_path / "none", "--out", tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for out in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(UserError, match="is a file: choose a folder"):
            paper("figure3", "--out", out)


def test_a_folder_without_rights_is_refused_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # root may write anywhere: the answer of the system stands in for its rights
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(UserError, match="cannot be written to: choose another folder"):
        paper("figure3", "--out", tmp_path / "new")
