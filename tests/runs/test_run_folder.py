"""The run folder: never mixed with another run's, never lost without a word."""

import errno
import json
import math
import os
from pathlib import Path
from typing import Any

import pytest

from eec.errors import UserError
from eec.runs.folder import RunFolder

CONFIG = {"dataset": "digits", "method": "eec", "stream": {}}


def write_run(path: Path) -> dict[str, bytes]:
    """An earlier run; gives what is in it."""
    folder = RunFolder.make(path, overwrite=False)
    folder.write_json("config.json", CONFIG)
    folder.add_measures({"increment": 1})
    folder.learner.write_bytes(b"an earlier learner")
    folder.pictures.mkdir()
    (folder.pictures / "sheet.png").write_bytes(b"an earlier picture")
    folder.close()
    return contents(path)


def begin(path: Path) -> None:
    """A run that replaces the one in this place."""
    folder = RunFolder.make(path, overwrite=True)
    folder.add_measures({"increment": 1})
    folder.close()


def contents(path: Path) -> dict[str, bytes]:
    files = [entry for entry in path.rglob("*") if entry.is_file() and entry.name != ".lock"]
    return {str(entry.relative_to(path)): entry.read_bytes() for entry in files}


def refusal(path: Path, *, overwrite: bool) -> str:
    with pytest.raises(UserError) as caught:
        RunFolder.make(path, overwrite=overwrite)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_new_folder_is_made_with_its_parents(tmp_path: Path) -> None:
    folder = RunFolder.make(tmp_path / "runs" / "a", overwrite=False)
    assert [entry.name for entry in folder.path.iterdir()] == [".lock"]
    folder.close()
    assert not list(folder.path.iterdir())


def test_measures_are_lines_of_valid_json(tmp_path: Path) -> None:
    folder = RunFolder.make(tmp_path, overwrite=False)
    folder.add_measures({"increment": 1, "autoencoder": {"pixel_error": math.nan}})
    folder.add_measures({"increment": 2, "gap": [{"real": math.inf}, (1.5, True)], "note": "a\nb"})

    def refuse(constant: str) -> Any:
        raise AssertionError(f"{constant} is no JSON")

    lines = (tmp_path / "measures.jsonl").read_text().splitlines()
    assert [json.loads(line, parse_constant=refuse) for line in lines] == [
        {"increment": 1, "autoencoder": {"pixel_error": None}},
        {"increment": 2, "gap": [{"real": None}, [1.5, True]], "note": "a\nb"},
    ]


def test_an_earlier_run_is_kept_unless_told_otherwise(tmp_path: Path) -> None:
    before = write_run(tmp_path / "a")
    assert "--overwrite" in refusal(tmp_path / "a", overwrite=False)
    assert contents(tmp_path / "a") == before


def test_an_earlier_run_goes_when_the_new_one_has_its_first_line(tmp_path: Path) -> None:
    before = write_run(tmp_path)
    folder = RunFolder.make(tmp_path, overwrite=True)
    assert set(contents(tmp_path).values()) == set(before.values())  # aside, not gone
    folder.write_json("config.json", CONFIG)
    folder.add_measures({"increment": 1})
    folder.close()
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["config.json", "measures.jsonl"]


def test_a_run_that_came_to_nothing_gives_the_earlier_one_back(tmp_path: Path) -> None:
    before = write_run(tmp_path)
    folder = RunFolder.make(tmp_path, overwrite=True)
    folder.write_json("config.json", {**CONFIG, "seed": 1})
    folder.learner.write_bytes(b"half a learner")
    folder.undo()
    assert contents(tmp_path) == before
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [
        "config.json", "learner.eec", "measures.jsonl", "pictures"
    ]  # fmt: skip


def test_a_run_that_came_to_nothing_leaves_nothing(tmp_path: Path) -> None:
    RunFolder.make(tmp_path / "new", overwrite=False).undo()
    (tmp_path / "was there").mkdir()
    RunFolder.make(tmp_path / "was there", overwrite=False).undo()
    assert [entry.name for entry in tmp_path.rglob("*")] == ["was there"]


def test_a_killed_run_does_not_cost_the_one_it_was_to_replace(tmp_path: Path) -> None:
    before = write_run(tmp_path)
    killed = RunFolder.make(tmp_path, overwrite=True)
    killed.write_json("config.json", CONFIG)
    assert killed.lock is not None
    os.close(killed.lock.held)  # no chance to undo; the next one fails too, but can
    RunFolder.make(tmp_path, overwrite=True).undo()
    assert contents(tmp_path) == before


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    for name, text in (
        ("letters.txt", "dear"),
        ("config.json", '{"name": "some other program"}'),
        ("config.json", "[]"),
        ("config.json", "{half"),
    ):
        place = tmp_path / f"{name}{len(text)}"
        place.mkdir()
        (place / name).write_text(text)
        for overwrite in (False, True):
            assert "no run folder" in refusal(place, overwrite=overwrite)
        assert contents(place) == {name: text.encode()}


def test_a_strangers_file_in_a_run_folder_is_not_lost(tmp_path: Path) -> None:
    write_run(tmp_path)
    (tmp_path / "thesis.tex").write_text("five years")
    before = contents(tmp_path)
    assert "thesis.tex" in refusal(tmp_path, overwrite=True)
    assert contents(tmp_path) == before


def test_leftovers_of_a_killed_write_are_no_strangers(tmp_path: Path) -> None:
    write_run(tmp_path)
    (tmp_path / ".learner.eec.0123abcd.part").write_bytes(b"half")
    begin(tmp_path)
    assert b"half" not in contents(tmp_path).values()


def test_a_folder_behind_a_link_is_replaced_in_its_place(tmp_path: Path) -> None:
    write_run(tmp_path / "disk")
    (tmp_path / "link").symlink_to("disk")
    begin(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert list(contents(tmp_path / "disk")) == ["measures.jsonl"]


def test_places_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("kept")
    for path in (tmp_path / "file", tmp_path / "file" / "run"):
        assert "choose another --out" in refusal(path, overwrite=True)
    assert (tmp_path / "file").read_text() == "kept"

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refuse)  # the tests may run as one who may do anything
    assert "Permission denied" in refusal(tmp_path / "locked", overwrite=False)


def test_a_full_disk_keeps_the_lines_that_were_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = RunFolder.make(tmp_path, overwrite=False)
    folder.add_measures({"increment": 1})

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match=r"measures\.jsonl: No space left on device"):
        folder.add_measures({"increment": 2})
    assert len(folder.lines) == 1
    assert contents(tmp_path) == {"measures.jsonl": b'{"increment": 1}\n'}


@pytest.mark.parametrize(
    ("act", "name"),
    [
        ("mkdir", ".earlier"),
        ("rename", "config.json"),
        ("rename", "pictures"),
    ],
)
def test_an_earlier_run_stays_if_its_place_cannot_be_made(
    act: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = write_run(tmp_path)
    real = getattr(Path, act)
    failed: list[str] = []

    def refuse(path: Path, *arguments: Any, **named: Any) -> Any:
        if path.name == name and not failed:
            failed.append(name)
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(path, *arguments, **named)

    monkeypatch.setattr(Path, act, refuse)
    assert "No space left on device" in refusal(tmp_path, overwrite=True)
    assert contents(tmp_path) == before and not (tmp_path / ".earlier").exists()


def test_a_strangers_half_written_files_stay(tmp_path: Path) -> None:
    """`--out ~/Downloads` is refused, and nothing in there was touched."""
    for name in ("deep/er/.movie.mkv.part", ".thesis.tex.0123abcd.part", ".config.json.part"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("mine")
    (tmp_path / ".a.0123abcd.part").mkdir()
    before = contents(tmp_path)
    assert "no run folder" in refusal(tmp_path, overwrite=True)
    assert contents(tmp_path) == before and (tmp_path / ".a.0123abcd.part").is_dir()


class Killed(BaseException):
    """Nobody catches it."""


@pytest.mark.parametrize("after", range(12))
def test_killed_at_any_step_of_being_replaced_a_run_is_not_lost(
    after: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever was renamed by then; and killed again while that is put right."""
    before = write_run(tmp_path)
    for times in (after, after // 2, after // 3):
        with monkeypatch.context() as kills:
            left = iter(range(times))
            for act in ("rename", "unlink", "mkdir", "rmdir"):
                kills.setattr(Path, act, _killing(getattr(Path, act), left))
            folder = None
            try:
                folder = RunFolder.make(tmp_path, overwrite=True)
                folder.write_json("environment.json", {"eec": "1", "code": "a"})
                folder.undo()
            except Killed:
                pass
            finally:
                kills.undo()
                if folder is not None:
                    folder.close()
    folder = RunFolder.make(tmp_path, overwrite=True)
    folder.undo()
    assert contents(tmp_path) == before and not (tmp_path / ".earlier").exists()


def _killing(act: Any, left: Any) -> Any:
    def acted(path: Path, *arguments: Any, **named: Any) -> Any:
        if path.name != ".lock":
            try:
                next(left)
            except StopIteration:
                raise Killed from None
        return act(path, *arguments, **named)

    return acted


def test_a_run_that_was_killed_before_it_was_one_makes_way(tmp_path: Path) -> None:
    ours = {"eec": "1", "code": "a"}
    (tmp_path / "environment.json").write_text(json.dumps(ours))
    (tmp_path / ".config.json.0123abcd.part").write_text("{")
    folder = RunFolder.make(tmp_path, overwrite=False)
    assert contents(tmp_path) == {}
    folder.close()
    (tmp_path / "environment.json").write_text('{"somebody": "else"}')
    assert "no run folder" in refusal(tmp_path, overwrite=True)
    assert (tmp_path / "environment.json").exists()


def test_a_run_set_aside_is_gone_on_with_where_its_successor_never_began(tmp_path: Path) -> None:
    line = {
        "increment": 1, "classes_seen": 1, "classes": [0], "accuracy": 100.0,
        "accuracy_by_task": [100.0], "newest_share": {}, "bytes": {}, "seconds": {},
    }  # fmt: skip
    folder = RunFolder.make(tmp_path, overwrite=False)
    folder.write_json("config.json", CONFIG)
    folder.add_measures(line)
    folder.close()
    before = contents(tmp_path)
    RunFolder.make(tmp_path, overwrite=True).close()
    assert list(tmp_path.iterdir()) == [tmp_path / ".earlier"]
    folder = RunFolder.open(tmp_path)
    assert len(folder.lines) == 1 and contents(tmp_path) == before
    folder.close()


@pytest.mark.parametrize("line", [b"{half", b"[]", b"\xff", b'{"accuracy": 3}', b'{"bytes": 0}'])
def test_damaged_measures_are_told_of_and_left_alone(line: bytes, tmp_path: Path) -> None:
    write_run(tmp_path)
    (tmp_path / "measures.jsonl").write_bytes(line + b"\n")
    with pytest.raises(UserError, match=r"measures\.jsonl cannot be read: restore it"):
        RunFolder.open(tmp_path)
    assert (tmp_path / "measures.jsonl").read_bytes() == line + b"\n"
    RunFolder.make(tmp_path, overwrite=True).undo()  # it is not locked any more
