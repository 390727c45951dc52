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
        # Chromium reads commands from descriptor 3 and answers on 4.
        self.process = subprocess.Popen(
            ["sh", "-c", f'exec "$@" 3<&{reads} 4>&{writes}', "sh", CHROMIUM,
             "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--no-first-run", "--disable-background-networking", "--hide-scrollbars",
             "--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(reads, writes), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(reads)
        os.close(writes)
        self.number = 0
        self.rest = b""
        self.session = ""
        self.ends = time.monotonic() + SECONDS
        self.errors: list[str] = []
        self.requests: list[str] = []
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


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    opened = Browser(tmp_path / "profile")
    yield opened
    opened.close()
