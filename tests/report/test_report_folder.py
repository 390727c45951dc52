"""Reading run folders, whole and broken."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from eec.errors import UserError
from eec.files import write_whole
from eec.report.folder import RunRecord, joint_beside, read_run

Make = Callable[..., RunRecord]


def test_a_run_is_read_back(make_run: Make) -> None:
    record = make_run(labels=["cat", "dog"])
    assert record.dataset == "mnist" and record.method == "eec" and record.seed == 0
    assert [m["classes_seen"] for m in record.measures] == [1, 2]
    assert record.last["classes"] == ["cat", "dog"]
    assert record.environment["torch"] == "2.13.0"


@pytest.mark.parametrize("name", ["config.json", "environment.json", "measures.jsonl"])
def test_a_missing_file_is_named(make_run: Make, name: str) -> None:
    folder = make_run().path
    (folder / name).unlink()
    with pytest.raises(UserError, match=f"{name} is missing"):
        read_run(folder)


@pytest.mark.parametrize("content", ["{", "[1]", "", "\x00"])
def test_a_corrupt_configuration_is_named_in_one_line(make_run: Make, content: str) -> None:
    folder = make_run().path
    (folder / "config.json").write_text(content)
    with pytest.raises(UserError, match=r"config\.json is not") as caught:
        read_run(folder)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_text_is_named(make_run: Make) -> None:
    folder = make_run().path
    (folder / "measures.jsonl").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match=r"cannot read .*measures\.jsonl"):
        read_run(folder)


def test_a_broken_line_is_named_by_its_number(make_run: Make) -> None:
    path = make_run().path / "measures.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], lines[1][:40], lines[2]]))
    with pytest.raises(UserError, match=r"measures\.jsonl line 2 is not valid JSON"):
        read_run(path.parent)


@pytest.mark.parametrize("broken", ["null", '"high"', "true", "NaN", "1e999"])
def test_a_line_without_a_usable_accuracy_is_refused(make_run: Make, broken: str) -> None:
    path = make_run().path / "measures.jsonl"
    whole = '{"increment": 1, "classes_seen": 1, "bytes": {}, "seconds": {}, "accuracy": 99.5}'
    path.write_text(whole)
    assert read_run(path.parent).last["accuracy"] == 99.5
    path.write_text(whole.replace("99.5", broken))
    with pytest.raises(UserError, match=r"line 1 has .* `accuracy`"):
        read_run(path.parent)


def test_an_empty_run_and_a_wrong_path_are_explained(make_run: Make, tmp_path: Path) -> None:
    folder = make_run().path
    (folder / "measures.jsonl").write_text("\n")
    with pytest.raises(UserError, match="has not finished its first increment"):
        read_run(folder)
    with pytest.raises(UserError, match="is not a run folder"):
        read_run(tmp_path / "nowhere")


def test_separators_inside_a_label_do_not_cut_a_line(make_run: Make) -> None:
    path = make_run(labels=["a", "b"]).path / "measures.jsonl"
    path.write_text(path.read_text().replace('"a"', '"a\u2028\u0085"'), encoding="utf-8")
    assert read_run(path.parent).last["classes"][0] == "a\u2028\u0085"


def test_a_failed_write_leaves_nothing_behind_and_the_old_file_whole(tmp_path: Path) -> None:
    taken = tmp_path / "page.html"
    taken.mkdir()
    with pytest.raises(UserError, match="cannot write"):
        write_whole(taken, b"new")
    assert list(tmp_path.iterdir()) == [taken]
    assert write_whole(tmp_path / "deep" / "file", b"x").read_bytes() == b"x"
    write_whole(tmp_path / "deep" / "file", b"longer")
    assert [p.name for p in (tmp_path / "deep").iterdir()] == ["file"]
    assert (tmp_path / "deep" / "file").read_bytes() == b"longer"


def test_joint_runs_on_the_same_stream_are_found(make_run: Make) -> None:
    record, joint = make_run(), make_run(method="joint")
    make_run(method="joint", dataset="another")
    assert [other.path.name for other in joint_beside(record)] == [joint.path.name]
    assert joint_beside(joint) == []


@pytest.mark.parametrize("part", ["bytes", "seconds"])
def test_a_part_that_is_no_number_is_refused(make_run: Make, part: str) -> None:
    record = make_run()
    path = record.path / "measures.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[1][part]["odd"] = "x"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(UserError, match=f"line 2 has no usable `{part}`"):
        read_run(record.path)
