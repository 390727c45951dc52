"""A web server that can be told to misbehave, and places that nobody may enter."""

import http.server
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest


@dataclass
class Behaviour:
    """How the server answers for a path."""

    content: bytes
    ranges: bool = True
    drops: list[int] = field(default_factory=list)  # bytes after which an answer breaks off
    headers: dict[str, str] = field(default_factory=dict)
    status: int = 200
    later: int = 0  # the status of all but the first answer
    total: int | None = None  # in Content-Range, in place of the true one
    length: bool = True  # tell the length, or send until the end
    wait: float = 0.0  # seconds before the first byte


class Handler(http.server.BaseHTTPRequestHandler):
    server: "Server"

    def do_GET(self) -> None:
        self.server.asked.append((self.path, dict(self.headers)))
        behaviour = self.server.files.get(self.path)
        if behaviour is None:
            return self.send_error(404)
        time.sleep(behaviour.wait)
        status, content = behaviour.status, behaviour.content
        if behaviour.later:
            behaviour.status, behaviour.later = behaviour.later, 0
        wanted = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        tag = self.headers.get("If-Range", behaviour.headers.get("ETag"))
        unchanged = tag == behaviour.headers.get("ETag")
        begin = 0
        if status == 200 and wanted and behaviour.ranges and unchanged:
            begin, status = int(wanted[1]), 206
            if begin >= len(content):
                return self.send_error(416)
        self.send_response(status)
        if status == 206:
            total = behaviour.total or len(content)
            self.send_header("Content-Range", f"bytes {begin}-{len(content) - 1}/{total}")
        if behaviour.length:
            self.send_header("Content-Length", str(len(content) - begin))
        for name, value in behaviour.headers.items():
            self.send_header(name, value)
        self.end_headers()
        rest = content[begin:]
        self.wfile.write(rest[: behaviour.drops.pop(0)] if behaviour.drops else rest)

    def log_message(self, *_: object) -> None:
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, Behaviour] = {}
        self.asked: list[tuple[str, dict[str, str]]] = []

    def offer(self, path: str, content: bytes, **behaviour: Any) -> str:
        """Have the server answer for a path, as `Behaviour` says; the address of it."""
        self.files[path] = Behaviour(content, **behaviour)
        return self.url(path)

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server_port}{path}"

    def ranges(self) -> list[str | None]:
        return [headers.get("Range") for _, headers in self.asked]

    def handle_error(self, *_: object) -> None:
        pass  # a client that hangs up is part of the play


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def without_rights() -> Callable[[Path], AbstractContextManager[None]]:
    """`with without_rights(path)`: nobody may enter `path`; root, whom no right stops, is somebody
    else for the time."""

    @contextmanager
    def shut(path: Path) -> Iterator[None]:
        is_root = os.geteuid() == 0
        path.chmod(0)
        if is_root:
            try:
                os.seteuid(65534)
            except OSError as error:
                pytest.skip(f"rights cannot be given up here: {error}")
        try:
            yield
        finally:
            if is_root:
                os.seteuid(0)
            path.chmod(0o700)

    return shut
