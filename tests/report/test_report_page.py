"""The page holds the run's numbers and pictures, and nothing a label could smuggle in."""

import base64
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from eec.report.figures import accuracy_figure, cost_figure, gap_figure
from eec.report.folder import RunRecord
from eec.report.page import write_page

Make = Callable[..., RunRecord]


class Outline(HTMLParser):
    """Tags in order, attributes that load something, and a check that tags close as opened."""

    VOID = frozenset({"meta", "img", "br"})

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.loads: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.loads += [v or "" for name, v in attrs if name in {"src", "href", "srcset"}]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def page_of(record: RunRecord) -> str:
    return write_page(record, record.path / "report.html").read_text(encoding="utf-8")


def test_the_page_holds_headline_table_and_command(make_run: Make) -> None:
    page = page_of(make_run(labels=range(10)))
    for words in (
        "eec on mnist, seed 0",
        "96.58 %",
        "paper, EEC: 97.83",
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
        assert words in page
    outline = Outline(page)
    assert outline.open == []
    tables = re.findall(r"<tbody>(.*?)</tbody>", page, re.DOTALL)
    rows = [table.count("<tr>") for table in tables]
    assert rows[:5] == [10, 10, 10, 9, 9]  # increments, gap, autoencoder, decay, the paper's rows


def test_pictures_are_inside_and_nothing_is_fetched(make_run: Make) -> None:
    record = make_run()
    accuracy_figure(record, [], record.pictures / "accuracy.png")
    gap_figure(record, record.pictures / "gap.png")
    cost_figure(record, record.pictures / "cost.png")
    (record.pictures / "a-first.png").write_bytes(b"\x89PNG")
    page = page_of(record)
    loads = Outline(page).loads
    assert len(loads) == 4 and all(uri.startswith("data:image/png;base64,") for uri in loads)
    drawn = [base64.b64decode(uri.split(",")[1]) for uri in loads]
    names = ("accuracy", "gap", "cost", "a-first")
    assert drawn == [(record.pictures / f"{name}.png").read_bytes() for name in names]
    assert not re.search(r"https?://|@import|url\(|<script", page)


def test_everything_a_user_names_is_escaped(make_run: Make) -> None:
    evil = '<b>bold</b><script>alert("x")</script>'

    def annotate(lines: list[dict[str, Any]]) -> None:
        lines[1]["note"] = evil

    record = make_run(labels=["a", evil], dataset=evil, method=evil, alter=annotate)
    record.pictures.mkdir()
    (record.pictures / '"><b>.png').write_bytes(b"\x89PNG")
    page = page_of(record)
    assert "<b>" not in page and "<script" not in page
    assert "&lt;b&gt;bold&lt;/b&gt;" in page
    assert Outline(page).tags.count("b") == 0


def test_a_bad_autoencoder_is_warned_about(make_run: Make) -> None:
    def spoil(lines: list[dict[str, Any]]) -> None:
        lines[1]["autoencoder"].update(good=False, attempts=3, pixel_error=0.21, recognised=12.0)

    page = page_of(make_run(alter=spoil))
    assert "Increment 2: the autoencoder stayed bad after 3 attempts" in page
    assert page.count('role="alert"') == 1
    assert 'role="alert"' not in page_of(make_run())


def test_sections_without_content_are_left_out(make_run: Make) -> None:
    page = page_of(make_run(method="finetune", plain=True, hit=0.0, dataset="digits"))
    for heading in (
        "The gap, by class",
        "Autoencoder",
        "Sample decay",
        "What the paper",
        "Pictures",
    ):
        assert f"<h2>{heading}" not in page
    assert "25.00 %" in page and "true share 25.0 %" in page


@pytest.mark.parametrize("labels", [["only"], [3], [True, False]])
def test_short_runs_and_any_labels(make_run: Make, labels: list[Any]) -> None:
    page = page_of(make_run(labels=labels))
    assert f"A_{len(labels)}" in page
    assert all(f'<td class="left">{label}</td>' in page for label in labels)


def test_writing_again_replaces_the_page(make_run: Make, tmp_path: Path) -> None:
    target = tmp_path / "out" / "report.html"
    write_page(make_run(labels=["earlier"]), target)
    write_page(make_run(labels=["later"]), target)
    page = target.read_text()
    assert ">later<" in page and ">earlier<" not in page
    assert [p.name for p in target.parent.iterdir()] == ["report.html"]
