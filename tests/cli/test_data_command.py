"""`eec data`: the list, the downloads and the checks as a user meets them."""

import functools
import http.server
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from eec.data import download
from eec.data.catalog import DATASETS
from eec.data.check import KNOWN, Known
from eec.data.sources import SOURCES

Call = Callable[..., Any]


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files; halfway it waits until it may go on."""

    go_on = threading.Event()

    def copyfile(self, source: Any, outputfile: Any) -> None:
        content = source.read()
        outputfile.write(content[: len(content) // 2])
        outputfile.flush()
        self.go_on.wait(60)
        with suppress(OSError):  # the client may be gone
            outputfile.write(content[len(content) // 2 :])

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A web site with what is made the two files of svhn."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    Quiet.go_on.set()
    with http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=str(site))
    ) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        downloads = []
        for known in SOURCES["svhn"].downloads:
            content = known.name.encode() * 50_000
            (site / known.name).write_bytes(content)
            url = f"http://127.0.0.1:{server.server_port}/{known.name}"
            digest = sha256(content).hexdigest()
            downloads.append(replace(known, size=len(content), sha256=digest, urls=(url,)))
        sums = {known.name: known.sha256 for known in downloads}
        source = replace(SOURCES["svhn"], downloads=tuple(downloads), sums=sums)
        monkeypatch.setitem(SOURCES, "svhn", source)
        yield site
        server.shutdown()
        thread.join()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


# --- list ---


def test_the_list_has_every_set_and_fits_a_hundred_columns(call: Call, data: Path) -> None:
    answer = call("data", "--data-dir", data)
    assert answer.status == 0 and answer.err == ""
    table, _, rest = answer.out.partition("data folder: ")
    for name, source in SOURCES.items():
        (row,) = [line for line in table.splitlines() if line.startswith(f"{name} ")]
        assert source.licence.split()[0] in row
    assert max(map(len, table.splitlines())) <= 100
    assert "60,000+10,000" in table and "yann.lecun.com" in table and "169 MB to get" in table
    assert rest.startswith(f"{data} ") and "--data-dir" in rest and "EEC_DATA" in rest


def test_the_list_is_what_is_shown_without_a_word(call: Call, data: Path) -> None:
    assert call("data", "--data-dir", data) == call("data", "list", "--data-dir", data)


def row(call: Call, data: Path, name: str) -> str:
    lines = call("data", "--data-dir", data).out.splitlines()
    return next(" ".join(line.split()) for line in lines if line.startswith(f"{name} "))


def test_the_list_tells_what_is_here_and_its_size(call: Call, data: Path) -> None:
    folder = data / "svhn"
    folder.mkdir(parents=True)
    assert row(call, data, "svhn").startswith("svhn no, 246 MB to get 73,257+26,032 – ufldl")
    (folder / "train_32x32.mat").write_bytes(bytes(1000))
    assert row(call, data, "svhn").startswith("svhn 1 of 2 missing 73,257+26,032 1 kB ufldl")
    (folder / "test_32x32.mat").write_bytes(bytes(2500))
    (folder / "beside").write_bytes(bytes(9999))
    assert row(call, data, "svhn").startswith("svhn svhn 73,257+26,032 3.5 kB ufldl")


def test_the_size_of_folders_is_that_of_their_files(call: Call, data: Path) -> None:
    for place in ("train/n01629819", "train/n01945685", "val/n01629819"):
        (data / "tiny-imagenet-50" / place).mkdir(parents=True)
        (data / "tiny-imagenet-50" / place / "x.JPEG").write_bytes(bytes(100))
        (data / "tiny-imagenet-50" / place / "broken.JPEG").symlink_to("nowhere")
    found = row(call, data, "tiny-imagenet-50")
    assert found.startswith("tiny-imagenet-50 tiny-imagenet-50 25,000+2,500 300 B ")


def test_the_folder_of_the_environment(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EEC_DATA", str(tmp_path / "chosen"))
    assert f"data folder: {tmp_path / 'chosen'} " in call("data").out


ASK = """
import sys
from eec.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit as end:
    assert end.code in (0, None), end.code
assert not {"torch", "sklearn", "matplotlib"} & set(sys.modules)
"""


@pytest.mark.parametrize(
    "arguments", [["data", "--help"], ["data"], ["data", "get", "digits", "svhn"]]
)
def test_no_torch_for_listing_and_fetching(arguments: list[str], data: Path) -> None:
    (data / "svhn").mkdir(parents=True)
    program = ASK
    if "svhn" in arguments:  # as if both were there and right
        program = (
            "from eec.data.sources import SOURCES; from dataclasses import replace;"
            "SOURCES['svhn'] = replace(SOURCES['svhn'], sums={})\n" + ASK
        )
        for name in SOURCES["svhn"].files:
            (data / "svhn" / name).touch()
    environment = os.environ | {"EEC_DATA": str(data)}
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    assert "svhn" in done.stdout


def test_help_names_the_actions_and_the_sets(call: Call) -> None:
    shown = " ".join(call("data", "--help").out.replace("│", " ").split())
    assert "[{list,get,check}] [NAME ...]" in shown
    assert "fetch what is missing" in shown and "--data-dir" in shown
    assert all(name in shown for name in DATASETS)


# --- get ---


@pytest.mark.usefixtures("published")
def test_get_fetches_once(call: Call, data: Path) -> None:
    answer = call("data", "get", "svhn", "--data-dir", data)
    assert answer.status == 0 and answer.err == ""
    assert answer.out == f"svhn: fetched into {data / 'svhn'}\n"
    assert sorted(path.name for path in (data / "svhn").iterdir()) == sorted(SOURCES["svhn"].files)
    answer = call("data", "get", "svhn", "svhn", "--data-dir", data)
    assert answer.out == f"svhn: already in {data / 'svhn'}\n"
    assert call("data", "check", "svhn", "--data-dir", data).out == (
        "svhn: official checksum: every file is as published\n"
    )


@pytest.mark.usefixtures("published")
def test_what_is_there_and_differs_is_checked(call: Call, data: Path) -> None:
    (data / "svhn").mkdir(parents=True)
    (data / "svhn" / "train_32x32.mat").write_bytes(b"no matlab file")
    answer = call("data", "get", "svhn", "--data-dir", data)
    assert answer.status == 2
    first, second = answer.err.splitlines()
    assert first == "eec: svhn: the checksum of train_32x32.mat is not the official one"
    assert second.startswith("eec: ") and "train_32x32.mat" in second and "move it away" in second


def test_one_failure_does_not_stop_the_others(call: Call, published: Path, data: Path) -> None:
    (published / "train_32x32.mat").unlink()
    names = ["svhn", "imagenet-50", "digits", "folder"]
    answer = call("data", "get", *names, "--data-dir", data)
    assert answer.status == 2
    assert answer.out == (
        "digits: it comes with scikit-learn\n"
        "folder: give the folder itself, as in `eec run folder:PATH`\n"
    )
    offline, imagenet = answer.err.splitlines()
    assert offline.startswith("eec: svhn: train_32x32.mat could not be fetched (127.0.0.1:")
    assert offline.endswith(
        "HTTP 404): repeat the command when the network allows it, or put train_32x32.mat, "
        f"test_32x32.mat from http://ufldl.stanford.edu/housenumbers/ into {data / 'svhn'}"
    )
    assert imagenet.startswith("eec: imagenet-50 cannot be downloaded: register at ")
    assert "ILSVRC2012_img_val.tar" in imagenet


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["get"], "name one or more of the sets"),
        (["get", "digits", "minst"], "unknown data set 'minst'"),
        (["check", "minst"], "unknown data set 'minst'"),
        (["list", "mnist"], "`eec data get mnist` fetches a set"),
    ],
)
def test_mistakes(arguments: list[str], words: str, call: Call, data: Path) -> None:
    assert words in call("data", *arguments, "--data-dir", data).mistake
    assert not data.exists()


def test_an_action_that_does_not_exist(call: Call) -> None:
    answer = call("data", "fetch")
    assert answer.status == 2 and "Traceback" not in answer.err and "--help" in answer.err


def test_ctrl_c_in_a_process_of_its_own(published: Path, data: Path) -> None:
    Quiet.go_on.clear()
    source = SOURCES["svhn"]
    program = (
        # A shell that runs tests in the background has Ctrl-C ignored.
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from eec.data.sources import *\n"
        f"SOURCES['svhn'] = {source!r}\n"
        "from eec.cli.main import main; main()"
    )
    command = [sys.executable, "-c", program, "data", "get", "svhn", "--data-dir", str(data)]
    part = data / "svhn" / "train_32x32.mat.part"
    with subprocess.Popen(command, stderr=subprocess.PIPE, encoding="utf-8") as process:
        while not (part.exists() and part.stat().st_size) and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    kept = part.stat().st_size
    assert process.returncode == 130
    assert err.startswith("eec: stopped; ") and err.count("\n") == 1
    assert f"kB in {part} kept: the same command goes on from there" in err
    assert 0 < kept < source.downloads[0].size
    Quiet.go_on.set()
    assert download.get_dataset("svhn", data).fetched == source.files
    assert (data / "svhn" / "train_32x32.mat").read_bytes() == (
        published / "train_32x32.mat"
    ).read_bytes()


# --- check ---


def test_check_takes_all_that_are_here(call: Call, data: Path) -> None:
    (data / "cifar-100-binary").mkdir(parents=True)
    for name in SOURCES["cifar100"].files:
        (data / "cifar-100-binary" / name).write_bytes(b"wrong")
    answer = call("data", "check", "--data-dir", data)
    assert answer.status == 2
    assert answer.out == (
        "digits: counts only: 1,438 + 359 images of 10 classes, pixels not verified\n"
    )
    assert answer.err.startswith("eec: cifar100: train.bin, test.bin in ")
    assert answer.err.count("\n") == 1


def test_a_wrong_count_fails(call: Call, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KNOWN, "digits", Known((1,) * 10))
    said = call("data", "check", "digits", "--data-dir", data).mistake
    assert "142 training images of 0 in place of 1" in said and "7 more classes wrong" in said


def test_check_of_what_is_not_here(call: Call, data: Path) -> None:
    said = call("data", "check", "mnist", "--data-dir", data).mistake
    assert "train-images-idx3-ubyte.gz" in said and "`eec data get mnist` fetches them" in said
