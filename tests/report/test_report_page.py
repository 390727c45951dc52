"""The page holds the runs' numbers and pictures, and nothing a label could smuggle in."""

import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from eec.errors import UserError
from eec.report import strips, vega
from eec.report.folder import RunRecord, read_run
from eec.report.groups import group_runs
from eec.report.page import write_page

Make = Callable[..., RunRecord]
EVIL = '</script><b>$x"'


class Outline(HTMLParser):
    """What is in the page: tags, attributes that load something, text outside of scripts."""

    VOID = frozenset({"meta", "img", "br"})

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.loads: list[str] = []
        self.scripts: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.loads += [v or "" for name, v in attrs if name in {"src", "href", "srcset"}]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts.append(data)
        elif not self.open or self.open[-1] != "style":
            self.text += data

    @property
    def charts(self) -> dict[str, Any]:
        """The specifications by the names of the charts."""
        found: dict[str, Any] = json.loads(self.scripts[1])["specs"]
        return found


def page_of(*records: RunRecord) -> Outline:
    path = write_page(records, records[0].path / "report.html")
    outline = Outline(path.read_text(encoding="utf-8"))
    assert outline.open == []
    return outline


def keep(record: RunRecord, rows: dict[str, Any], classes: int | None = None) -> None:
    labels = record.last["classes"][:classes]
    tensors = {f"{i}.{name}": images for i in range(len(labels)) for name, images in rows.items()}
    names = [[label, list(rows)] for label in labels]
    content = save(tensors, {"eec": json.dumps(names)})
    (record.path / "samples.safetensors").write_bytes(content)


def change(record: RunRecord, **config: Any) -> RunRecord:
    path = record.path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | config))
    return read_run(record.path)


def test_the_page_holds_headline_charts_tables_and_command(make_run: Make) -> None:
    make_run(labels=range(10), method="joint", plain=True, hit=0.99)
    outline = page_of(make_run(labels=range(10)))
    for words in (
        "eec on mnist, seed 0",
        "96.58 %",
        "97.57 %",
        "5.24 MB",
        "+ classifier 2.81 MB",
        "4 min 32 s",
        "true share 10.0 %",
        "A_1 of one class says nothing.",
        "eec run mnist --method eec --per-class 500 --seed 0",
        "options.codec",
        "0123abc",
        "measures something else",
        "The paper trained on 50,000 MNIST images",
    ):
        assert words in outline.text, words
    beside = " ".join(outline.text.split())
    assert "this run: eec96.58" in beside and "joint98.38" in beside  # our joint run
    assert "paper: EEC97.83" in beside and "Table 1, A_10" in beside and "paper: JT99.24" in beside
    assert set(outline.charts) == {
        "accuracy", "tasks", "confusion", "forgetting", "gap", "bytes", "seconds", "decay"
    }  # fmt: skip


def test_nothing_is_fetched_and_the_page_forbids_it(make_run: Make) -> None:
    record = make_run()
    keep(record, {"test image": np.zeros((2, 1, 8, 8), np.uint8)})
    path = write_page([record], record.path / "report.html")
    page = path.read_text(encoding="utf-8")
    outline = Outline(page)
    assert "default-src 'none'" in page and "unsafe-eval" not in page
    assert len(outline.loads) == 4
    assert all(uri.startswith("data:image/webp;base64,") for uri in outline.loads)
    own = page.replace(vega.vega_scripts(), "")
    fetched = re.findall(r"https?://[^\s\"']*|@import|url\(", own)
    assert set(fetched) <= {"https://vega.github.io/schema/vega-lite/v6.4.1.json"} | {
        uri for uri in fetched if uri.startswith("https://vega.github.io/schema/")
    }
    assert path.stat().st_size < 3_000_000


def test_everything_a_user_names_is_escaped(make_run: Make) -> None:
    def annotate(lines: list[dict[str, Any]]) -> None:
        lines[1]["note"] = EVIL
        lines[1]["bytes"][EVIL] = 5

    record = make_run(labels=["a", EVIL], dataset=EVIL, method=EVIL, alter=annotate)
    keep(record, {EVIL: np.zeros((1, 3, 4, 4), np.uint8)})
    plain, evil = page_of(make_run(labels=["a", "b"])), page_of(record)
    assert "b" not in evil.tags and len(evil.scripts) == len(plain.scripts) == 3
    assert evil.text.count(EVIL) > 5
    assert EVIL in json.dumps(evil.charts["confusion"]).encode().decode("unicode_escape")


def test_a_bad_autoencoder_is_warned_about(make_run: Make) -> None:
    def spoil(lines: list[dict[str, Any]]) -> None:
        lines[1]["autoencoder"].update(good=False, attempts=3, pixel_error=0.21, recognised=12.0)

    said = "Increment 2: the autoencoder stayed bad after 3 attempts"
    assert said in page_of(make_run(alter=spoil)).text
    assert said not in page_of(make_run()).text


def test_a_codec_that_was_not_trained_has_no_attempts(make_run: Make) -> None:
    def spoil(lines: list[dict[str, Any]]) -> None:
        lines[1]["autoencoder"].update(good=False, attempts=1, trained=False)

    said = page_of(make_run(alter=spoil)).text
    assert "Increment 2: the autoencoder of an earlier task keeps this one badly" in said
    assert "attempts (" not in said


def test_an_unfinished_run_says_so(make_run: Make) -> None:
    record = make_run()
    said = "not finished: 4 of 9 increments are done"
    assert said not in page_of(record).text
    assert said in page_of(change(record, stream=record.stream | {"increments": 9})).text


def test_what_a_method_does_not_say_is_left_out(make_run: Make) -> None:
    outline = page_of(make_run(method="finetune", plain=True, hit=0.0, dataset="digits"))
    for heading in ("The gap, by class", "Autoencoder", "Pseudo", "Sample decay", "Pictures"):
        assert heading not in outline.text
    assert "gap" not in outline.charts and "decay" not in outline.charts
    assert "25.00 %" in outline.text and "true share 25.0 %" in outline.text


def test_the_barest_measures_are_enough(make_run: Make) -> None:
    def strip(lines: list[dict[str, Any]]) -> None:
        for line in lines:
            for key in set(line) - {"increment", "classes_seen", "accuracy", "bytes", "seconds"}:
                line[key] = None

    assert list(page_of(make_run(alter=strip)).charts) == ["accuracy", "bytes", "seconds"]


def test_pseudo_rehearsal_is_told(make_run: Make) -> None:
    def draw(lines: list[dict[str, Any]]) -> None:
        lines[2]["pseudo"] = {"images": 400, "draws": 1600, "rejected": 200, "filled": None}

    text = page_of(make_run(alter=draw)).text
    assert "Pseudo-rehearsal" in text and "1,600" in text and "12.5" in text


@pytest.mark.parametrize("labels", [["only"], [3], [True, False], [1, "1"]])
def test_short_runs_and_any_labels(make_run: Make, labels: list[Any]) -> None:
    assert f"A_{len(labels)}" in page_of(make_run(labels=labels)).text


def test_writing_again_replaces_the_page(make_run: Make, tmp_path: Path) -> None:
    target = tmp_path / "out" / "report.html"
    write_page([make_run(labels=["earlier"])], target)
    write_page([make_run(labels=["later"])], target)
    page = target.read_text()
    assert ">later<" in page and ">earlier<" not in page
    assert [p.name for p in target.parent.iterdir()] == ["report.html"]


# Pictures.


def test_originals_are_called_so_and_their_absence_is_told(make_run: Make) -> None:
    record = make_run()
    images = np.zeros((3, 1, 8, 8), np.uint8)
    keep(record, {"test image": images, "remembered": images[:0]})
    text = page_of(record).text
    assert text.count("test image (original)") == 4 and "for people to look at" in text
    assert "remembered\n" not in text  # no images, no row
    keep(record, {"remembered": images})
    text = page_of(change(record, originals=False)).text
    assert "There are no originals: the run was made with --no-originals." in text
    assert "for people to look at" not in text


def test_many_large_pictures_still_fit(make_run: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    record = make_run()
    noise = np.random.default_rng(0).integers(0, 255, (10, 3, 100, 80), dtype=np.uint8)
    keep(record, {"test image": noise})
    whole = strips.make_sheet(strips.read_pictures(record.path / "samples.safetensors"))
    strip = whole.classes[0][1][0]
    assert (strip.width, strip.height) == (10 * (51 + strips.GAP), 64) and strip.share == 100
    monkeypatch.setattr(strips, "MOST_BYTES", 40_000)
    fewer = strips.make_sheet(strips.read_pictures(record.path / "samples.safetensors"))
    size = sum(len(one.uri) for _, row in fewer.classes for one in row)
    assert 0 < size <= 40_000 and len(fewer.classes) == 4


def test_spoilt_pictures_are_refused(make_run: Make) -> None:
    record = make_run()
    (record.path / "samples.safetensors").write_bytes(b"no such thing")
    with pytest.raises(UserError, match=r"samples\.safetensors cannot be read: restore it"):
        write_page([record], record.path / "report.html")
    assert not (record.path / "report.html").exists()


# Several runs.


def test_runs_that_differ_in_the_seed_are_one_row(make_run: Make) -> None:
    seeds = [change(make_run(labels=range(10), hit=h), seed=s) for s, h in enumerate((0.9, 0.97))]
    other = change(make_run(labels=range(10)), options={"codec": "per-task"})
    floor = make_run(labels=range(10), method="finetune", plain=True, hit=0.0)
    outline = page_of(*seeds, other, floor)
    text = re.sub(r"\s*\n\s*", "\n", outline.text)
    assert "4 runs on mnist" in text
    assert "eec, codec=frozen, new_images=decoded, see=real21093.43 ± 4.45" in text
    assert "eec, codec=per-task" in text and "finetune110" in text
    assert "EEC 97.83 (Table 1, A_10)" in text
    assert list(outline.charts) == ["accuracy", "cost"]


def test_methods_that_keep_real_images_are_named_beside_others(make_run: Make) -> None:
    strict, other = make_run(), change(make_run(method="replay-webp"), strict=False)
    said = "Not strict, real images of old classes are kept: replay-webp."
    assert said in page_of(strict, other).text
    assert "Not strict" not in page_of(strict, change(strict, seed=1)).text


def test_runs_of_different_lengths_are_compared_where_all_came(make_run: Make) -> None:
    long, short = make_run(labels=range(4)), make_run(labels=range(4))
    path = short.path / "measures.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:2]))
    text = page_of(change(long, seed=0), change(short, seed=1)).text
    assert "eec2298.50 ± 0.0099.25 ± 0.001.13 MB" in text  # of both, after two classes


# The scripts.


def test_the_scripts_are_kept_and_a_spoilt_copy_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    def bundle() -> bytes:
        made.append(1)
        return b"window.x = 1;" + vega.ENDING

    monkeypatch.setattr(vega, "_bundle", bundle)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    whole = vega.vega_scripts.__wrapped__
    assert whole() == whole() and len(made) == 1
    (kept,) = (tmp_path / "eec").iterdir()
    kept.write_bytes(b"window.x")
    assert whole().startswith("window.x = 1;") and len(made) == 2
    # Where nothing can be kept, it is made each time.
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert whole() and len(made) == 3


def test_names_that_are_no_utf8_do_not_cost_the_page(make_run: Make, tmp_path: Path) -> None:
    record = change(make_run(), command="eec run folder:caf\udce9")
    assert b"folder:caf?" in write_page([record], tmp_path / "page.html").read_bytes()


def test_a_seed_that_was_run_again_is_no_second_seed(make_run: Make) -> None:
    first, again = make_run(), make_run()
    other = change(make_run(), seed=5)
    groups = group_runs([first, again, other])
    assert [len(group.records) for group in groups] == [2, 1]
    assert len({group.name for group in groups}) == 2 and again.path.name in groups[1].name


def test_seeds_whose_streams_differ_in_length_belong_together(make_run: Make) -> None:
    first, other = (
        change(make_run(), seed=seed, options={"net": "tiny", "expected": images})
        for seed, images in ((0, 1438), (1, 1500))
    )
    assert [len(group.records) for group in group_runs([first, other])] == [2]
