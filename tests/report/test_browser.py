"""The page in a real browser: Chromium without a window, told what to do over a pair of pipes."""

import json
import os
import re
import select
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from eec.report.folder import RunRecord, read_run
from eec.report.page import write_page

Make = Callable[..., RunRecord]

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium and no google-chrome here")
SECONDS = 30.0
EVIL = "</script><b>$x"
# Of a mark inside a chart: its middle in the window, after scrolling to it.
FIND = """(() => {
  const found = [...document.querySelectorAll(%s)].filter(e => e.getBBox().width > 0)[%d];
  found.scrollIntoView({block: "center"});
  const box = found.getBoundingClientRect();
  return [box.x + box.width / 2, box.y + box.height / 2];
})()"""


class Browser:
    """One page. Commands of the DevTools protocol go in, answers and events come out."""

    def __init__(self, profile: Path) -> None:
        assert CHROMIUM is not None
        reads, self.to = os.pipe()
        self.back, writes = os.pipe()
        # Chromium reads commands from descriptor 3 and answers on 4; plain sh knows nine of them.
        self.process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{reads} 4>&{writes}', "bash", CHROMIUM,
             "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--no-first-run", "--disable-background-networking", "--hide-scrollbars",
             "--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(reads, writes), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(reads)
        os.close(writes)
        self.number = 0
        self.ends = time.monotonic() + SECONDS
        self.rest = b""
        self.session = ""
        self.errors: list[str] = []
        self.requests: list[str] = []

    def attach(self) -> None:
        pages = self.ask("Target.getTargets")["targetInfos"]
        page = next(one["targetId"] for one in pages if one["type"] == "page")
        self.session = self.ask("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        self.number += 1
        call: dict[str, Any] = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            call["sessionId"] = self.session
        os.write(self.to, json.dumps(call).encode() + b"\0")
        while True:
            said = self._hear()
            if said.get("id") == self.number:
                assert "error" not in said, said
                answer: dict[str, Any] = said["result"]
                return answer

    def _hear(self) -> dict[str, Any]:
        while b"\0" not in self.rest:
            left = max(0.0, self.ends - time.monotonic())
            if not select.select([self.back], [], [], left)[0]:
                pytest.fail(f"the browser was silent for the {SECONDS:g} s it was given")
            self.rest += os.read(self.back, 1 << 20)
        line, _, self.rest = self.rest.partition(b"\0")
        said: dict[str, Any] = json.loads(line)
        given = said.get("params", {})
        match said.get("method"):
            case "Runtime.exceptionThrown":
                self.errors.append(str(given["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if given["type"] in ("error", "warning"):
                self.errors.append(str(given["args"]))
            case "Log.entryAdded" if given["entry"]["level"] in ("error", "warning"):
                self.errors.append(str(given["entry"]))
            case "Network.requestWillBeSent":
                self.requests.append(given["request"]["url"])
        return said

    def run(self, script: str) -> Any:
        answer = self.ask(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait_for(self, script: str) -> None:
        while not self.run(script):
            assert time.monotonic() < self.ends, f"waited in vain for {script}"
            time.sleep(0.05)

    def open(self, page: Path, width: int = 1200, dark: bool = False) -> None:
        self.ends = time.monotonic() + SECONDS
        self.errors, self.requests = [], []
        self.look(width, dark=dark)
        self.ask("Page.navigate", url=page.as_uri())
        self.wait_for("document.body && document.body.dataset.drawn === 'yes'")

    def look(self, width: int, *, dark: bool = False, media: str = "") -> None:
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=900, deviceScaleFactor=1, mobile=width < 600,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", media=media, features=[scheme])

    def point_at(self, marks: str, place: int = 0) -> None:
        x, y = self.run(FIND % (json.dumps(marks), place))
        # A real hand comes from somewhere: the first movement enters, the second rests.
        for step in (3, 0):
            self.ask("Input.dispatchMouseEvent", type="mouseMoved", x=x + step, y=y)

    def click(self, marks: str, place: int = 0) -> None:
        x, y = self.run(FIND % (json.dumps(marks), place))
        for kind in ("mousePressed", "mouseReleased"):
            self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.to)
        os.close(self.back)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    opened = Browser(tmp_path_factory.mktemp("profile"))
    try:
        opened.attach()
        yield opened
    finally:
        opened.close()


def kept_images(record: RunRecord) -> None:
    """Some pictures for each class, as `eec run` leaves them."""
    labels = record.last["classes"]
    image = np.arange(3 * 64, dtype=np.uint8).reshape(3, 1, 8, 8)
    tensors = {f"{place}.test image": image for place in range(len(labels))}
    names = [[label, ["test image"]] for label in labels]
    content = save(tensors, {"eec": json.dumps(names)})
    (record.path / "samples.safetensors").write_bytes(content)


def colour(browser: Browser, element: str, what: str = "color") -> list[int]:
    found = browser.run(f"getComputedStyle(document.querySelector({element!r}))[{what!r}]")
    return [int(part) for part in re.findall(r"\d+", found)[:3]]


def test_one_run_in_a_browser(make_run: Make, browser: Browser) -> None:
    record = make_run(labels=["a", EVIL, "c", "d"])
    kept_images(record)
    page = write_page([record], record.path / "report.html")
    browser.open(page)
    # Drawn, all of them, and nothing a label says is taken for markup.
    places = browser.run("document.querySelectorAll('[data-chart]').length")
    assert places == 8
    assert browser.run("document.querySelectorAll('[data-chart] svg').length") == places
    assert browser.run("document.querySelectorAll('#accuracy svg path').length") > 4
    assert browser.run("document.querySelectorAll('b').length") == 0
    assert EVIL in browser.run("document.querySelector('#confusion svg').textContent")
    sizes = browser.run("[...document.images].map(i => i.naturalWidth)")
    assert len(sizes) == 4 and min(sizes) > 0

    # Point at a mark, and its numbers are shown.
    tooltip = "(document.querySelector('#vg-tooltip-element.visible') || {}).innerText"
    assert browser.run(tooltip) is None
    browser.point_at("#confusion .mark-rect path", 0)
    browser.wait_for(f"{tooltip} !== undefined")
    assert re.search(r"is:?\s+a\s+called:?\s+a", browser.run(tooltip))

    # Choose in a legend: the classifier joins the stack.
    bars = "document.querySelectorAll('#bytes .mark-rect.role-mark path').length"
    before = browser.run(bars)
    entries = "[...document.querySelectorAll('#bytes .role-legend-label text')]"
    place = browser.run(f"{entries}.findIndex(e => e.textContent === 'classifier')")
    browser.click("#bytes .role-legend-label text", place)
    browser.wait_for(f"{bars} === {before + 4}")

    # Dark and light: the charts' letters follow the page's.
    light = colour(browser, "#accuracy svg .role-axis-label text", "fill")
    assert light == colour(browser, "body") and max(light) < 80
    browser.look(1200, dark=True)
    dark = colour(browser, "#accuracy svg .role-axis-label text", "fill")
    assert dark == colour(browser, "body") and min(dark) > 180
    assert max(colour(browser, "body", "backgroundColor")) < 60
    browser.look(1200, dark=True, media="print")
    assert colour(browser, "body") == [0, 0, 0]

    # The copy button, where a file may not have the clipboard, too.
    browser.run("document.querySelector('.copy').click()")
    browser.wait_for("document.querySelector('.copy').textContent !== 'Copy'")

    assert browser.errors == []
    assert {url.partition(":")[0] for url in browser.requests} <= {"file", "data"}
    assert [url for url in browser.requests if url.startswith("file")] == [page.as_uri()]


def test_on_a_phone_nothing_sticks_out(make_run: Make, browser: Browser) -> None:
    names = [f"a class with a name that is long {i}" for i in range(30)]
    record = make_run(labels=names, dataset="d" * 120)
    browser.open(write_page([record], record.path / "report.html"), width=390)
    assert browser.run("document.documentElement.scrollWidth") == 390
    wide = "[...document.querySelectorAll('[data-chart] svg')].map(e => e.clientWidth)"
    widths = browser.run(wide)
    assert len(widths) == 8 and max(widths) <= 390 and min(widths) > 250
    assert browser.errors == []


def test_several_runs_in_a_browser(make_run: Make, browser: Browser) -> None:
    records = []
    for seed, hit in enumerate((0.9, 0.97)):
        record = make_run(hit=hit)
        config = json.loads((record.path / "config.json").read_text())
        (record.path / "config.json").write_text(json.dumps(config | {"seed": seed}))
        records.append(read_run(record.path))
    records.append(make_run(method="finetune", plain=True, hit=0.1))
    browser.open(write_page(records, records[0].path / "several.html"))
    assert browser.run("document.querySelectorAll('[data-chart] svg').length") == 2
    assert browser.run("document.querySelectorAll('#accuracy .mark-area path').length") == 1
    assert browser.errors == []
