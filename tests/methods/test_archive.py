"""A learner on disk: whole, of this version and unaltered, or not believed."""

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from eec.data.stream import Task
from eec.errors import UserError
from eec.methods.archive import load_learner, save_learner
from eec.methods.contract import Method
from eec.methods.registry import METHODS, choose_options, make_method
from eec.training.recipes import Recipe
from eec.training.runtime import Runtime
from small_runs import CODE_PATHS

LabelledTask = Callable[..., Task]


@pytest.fixture
def learn(short_recipe: Recipe, cpu: Runtime, task_of: LabelledTask) -> Callable[..., Method]:
    """A method that was taught twice."""

    def taught(name: str = "eec", **options: object) -> Method:
        method = make_method(name, choose_options(name, **options), 5, cpu)
        method.learn(task_of(0, 1))
        method.learn(task_of(2, name=lambda digit: f"digit {digit}"))
        return method

    return taught


@pytest.fixture
def saved(learn: Callable[..., Method], tmp_path: Path) -> Path:
    return save_learner(learn(net="dcgan"), tmp_path / "brain.eec")


def refusal(path: Path, runtime: Runtime) -> str:
    with pytest.raises(UserError) as caught:
        load_learner(path, runtime)
    text = str(caught.value)
    assert str(path) in text and "\n" not in text
    return text


def with_header(content: bytes, change: Callable[[str], str]) -> bytes:
    """The file with its header changed and, as a forger would, its checksum made to fit."""
    size = int.from_bytes(content[:8], "little")
    header = change(content[8 : 8 + size].decode())
    claimed = header.partition('checksum\\": \\"')[2][:64]
    whole = len(header).to_bytes(8, "little") + header.encode() + content[8 + size :]
    digest = hashlib.sha256(whole.replace(claimed.encode(), b"0" * 64, 1)).hexdigest()
    return whole.replace(claimed.encode(), digest.encode(), 1)


@pytest.mark.parametrize("name", CODE_PATHS)
def test_a_learner_comes_back_and_goes_on_as_if_it_had_never_left(
    name: str, learn: Callable[..., Method], cpu: Runtime, task_of: LabelledTask, tmp_path: Path
) -> None:
    method = learn(name)
    back = load_learner(save_learner(method, tmp_path / "a.eec"), cpu)
    images = task_of(0, 1, 2, each=3, skip=20).images
    assert (back.name, back.options, back.seed) == (method.name, method.options, method.seed)
    assert back.classes == [0, 1, "digit 2"]
    np.testing.assert_array_equal(back.predict_proba(images), method.predict_proba(images))

    for learner in (method, back):
        learner.learn(task_of(3))
    assert save_learner(back, tmp_path / "b.eec").read_bytes() == (
        save_learner(method, tmp_path / "c.eec").read_bytes()
    )


def test_a_learner_that_knows_nothing_comes_back_too(cpu: Runtime, tmp_path: Path) -> None:
    for name in METHODS:
        method = make_method(name, choose_options(name), 0, cpu)
        back = load_learner(save_learner(method, tmp_path / "new.eec"), cpu)
        assert back.classes == [] and back.tasks == 0


def test_any_reader_of_safetensors_can_look_inside(saved: Path) -> None:
    with safe_open(saved, "np") as file:
        names = set(file.keys())
        manifest = json.loads(file.metadata()["eec"])
    assert {name.partition(".")[0] for name in names} == {
        "classifier", "codecs", "episodes"
    }  # fmt: skip
    assert manifest["method"] == "eec" and manifest["options"]["net"] == "dcgan"
    assert manifest["seed"] == 5 and manifest["facts"]["classes"] == [0, 1, "digit 2"]


def test_the_same_learner_gives_the_same_bytes_in_another_process(
    saved: Path, tmp_path: Path
) -> None:
    program = """
import sys
from pathlib import Path
from eec.methods.archive import load_learner, save_learner
from eec.training.runtime import choose_runtime
runtime = choose_runtime("cpu", "float32")
save_learner(load_learner(Path(sys.argv[1]), runtime), Path(sys.argv[2]))
"""
    again = tmp_path / "again.eec"
    subprocess.run([sys.executable, "-c", program, saved, again], check=True)
    assert again.read_bytes() == saved.read_bytes()


def test_a_file_cut_short_is_refused_wherever_it_was_cut(saved: Path, cpu: Runtime) -> None:
    content = saved.read_bytes()
    header = int.from_bytes(content[:8], "little")
    lengths = {*range(10), header // 2, 8 + header - 1, 8 + header, 8 + header + 1}
    lengths |= {len(content) - 1, len(content) - 4, *range(0, len(content), len(content) // 23)}
    for length in lengths:
        saved.write_bytes(content[:length])
        assert "restore a copy" in refusal(saved, cpu), length
    saved.write_bytes(content + b"\0")
    assert "checksum" in refusal(saved, cpu)


def test_one_flipped_bit_is_refused_wherever_it_is(saved: Path, cpu: Runtime) -> None:
    content = saved.read_bytes()
    header = int.from_bytes(content[:8], "little")
    rng = np.random.default_rng(0)
    places = {*range(8), *rng.integers(8, 8 + header, 200).tolist()}
    places |= {8 + header - 1, 8 + header, len(content) - 1}  # padding; first and last of the data
    places |= set(rng.integers(8 + header, len(content), 60).tolist())
    for place in sorted(places):
        damaged = bytearray(content)
        damaged[place] ^= 1 << int(rng.integers(8))
        saved.write_bytes(damaged)
        refusal(saved, cpu)
    saved.write_bytes(content)
    assert load_learner(saved, cpu).classes == [0, 1, "digit 2"]


def test_every_byte_of_the_manifest_is_watched(saved: Path, cpu: Runtime) -> None:
    """The sampled test might miss a seed or a label; here each byte is another digit or letter."""
    content = saved.read_bytes()
    start = content.index(b"checksum")
    end = content.index(b'"', content.index(b"originals"))
    for place in range(start, end):
        damaged = bytearray(content)
        damaged[place] ^= 1
        saved.write_bytes(damaged)
        refusal(saved, cpu)


def test_another_version_is_named(saved: Path, cpu: Runtime) -> None:
    other = with_header(
        saved.read_bytes(), lambda header: header.replace('version\\": 3', 'version\\": 4')
    )
    saved.write_bytes(other)
    text = refusal(saved, cpu)
    assert "version 4" in text and "versions 2 and 3" in text


def test_a_forged_checksum_alone_changes_nothing(saved: Path, cpu: Runtime) -> None:
    """Guards the guard: the helper above makes files whose checksum is believed."""
    saved.write_bytes(with_header(saved.read_bytes(), lambda header: header + " "))
    assert load_learner(saved, cpu).classes == [0, 1, "digit 2"]


def test_files_of_other_kinds_are_refused(tmp_path: Path, cpu: Runtime) -> None:
    path = tmp_path / "thing.eec"
    save_file({"weight": np.zeros(3, np.float32)}, path)
    assert "no learner of eec's" in refusal(path, cpu)
    save_file({"weight": np.zeros(3, np.float32)}, path, {"format": "pt"})
    assert "no learner of eec's" in refusal(path, cpu)
    for metadata in ("", "[]", "null", "{", "7", "[" * 100_000):
        save_file({"weight": np.zeros(3, np.float32)}, path, {"eec": metadata})
        assert "not a whole learner file" in refusal(path, cpu)
    for content in (b"", b"\0" * 100, b"To whom it may concern\n" * 9, b"\x80\x04}."):
        path.write_bytes(content)
        assert "not a whole learner file" in refusal(path, cpu)
    header = b"[" * 100_000
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    assert "not a whole learner file" in refusal(path, cpu)


def test_what_is_no_file_is_refused(tmp_path: Path, cpu: Runtime) -> None:
    assert "there is no learner file" in refusal(tmp_path / "missing.eec", cpu)
    assert "directory" in refusal(tmp_path, cpu).lower()
    (tmp_path / "plain").touch()
    assert "cannot read" in refusal(tmp_path / "plain" / "brain.eec", cpu)
