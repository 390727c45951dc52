"""Downloads from a server on this machine, which can be told to misbehave."""

import gzip
import hashlib
import os
import random
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from eec.data import download as module
from eec.data.download import get_dataset, parts
from eec.data.sources import SOURCES
from eec.errors import UserError

CONTENT = random.Random(0).randbytes(300_000)
FILE = "train_32x32.mat"


@pytest.fixture
def offer(server: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """`offer("/a", "/b")`: the first file of svhn comes from these; the second is there already."""
    (tmp_path / "svhn").mkdir()
    (tmp_path / "svhn" / "test_32x32.mat").write_bytes(b"x")

    def act(*paths: str, content: bytes = CONTENT) -> None:
        first, second = SOURCES["svhn"].downloads
        digest = hashlib.sha256(content).hexdigest()
        first = replace(
            first, size=len(content), sha256=digest, urls=tuple(server.url(path) for path in paths)
        )
        source = replace(SOURCES["svhn"], downloads=(first, second), sums={})
        monkeypatch.setitem(SOURCES, "svhn", source)

    return act


@dataclass
class Interrupt:
    """A progress callback that is Ctrl-C after so many bytes."""

    after: int

    def __call__(self, what: str, done: int, total: int) -> None:
        if done >= self.after:
            raise KeyboardInterrupt


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def whole(folder: Path) -> bool:
    """The file is there and right, and nothing else is left."""
    return (
        names(folder / "svhn") == ["test_32x32.mat", FILE]
        and (folder / "svhn" / FILE).read_bytes() == CONTENT
    )


def interrupted(tmp_path: Path, after: int = 100_000) -> int:
    """Stop a download midway; how much of it was kept."""
    with pytest.raises(KeyboardInterrupt):
        get_dataset("svhn", tmp_path, Interrupt(after))
    (part,) = parts("svhn", tmp_path)
    assert part == tmp_path / "svhn" / f"{FILE}.part"
    kept = part.read_bytes()
    assert kept and CONTENT.startswith(kept)
    assert not (tmp_path / "svhn" / FILE).exists()
    return len(kept)


def test_a_file_comes_whole(server: Any, offer: Any, tmp_path: Path) -> None:
    server.offer("/a", CONTENT)
    offer("/a")
    seen: list[tuple[str, int, int]] = []
    got = get_dataset("svhn", tmp_path, lambda *step: seen.append(step))
    assert got.fetched == (FILE,) and got.doubtful == ()
    assert whole(tmp_path)
    assert seen[-1] == (FILE, len(CONTENT), len(CONTENT))
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)
    assert (tmp_path / "svhn" / FILE).stat().st_mode & 0o777 == 0o666 & ~umask()


def umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_what_is_there_is_not_fetched(server: Any, offer: Any, tmp_path: Path) -> None:
    offer("/a")
    (tmp_path / "svhn" / FILE).write_bytes(b"mine")
    assert get_dataset("svhn", tmp_path).fetched == ()
    assert (tmp_path / "svhn" / FILE).read_bytes() == b"mine"
    assert server.asked == []


def test_files_that_differ_from_the_official_ones_are_named(tmp_path: Path) -> None:
    (tmp_path / "mnist").mkdir()
    for name in SOURCES["mnist"].files[:-1]:
        (tmp_path / "mnist" / name).write_bytes(b"mine")
    (tmp_path / "mnist" / SOURCES["mnist"].files[-1].removesuffix(".gz")).write_bytes(b"unpacked")
    got = get_dataset("mnist", tmp_path)
    assert got.fetched == ()
    assert got.doubtful == (*SOURCES["mnist"].files[:-1], "t10k-labels-idx1-ubyte")


# --- interruptions ---


def test_a_dropped_connection_is_taken_up_where_it_ended(
    server: Any, offer: Any, tmp_path: Path
) -> None:
    server.offer("/a", CONTENT, drops=[100_000, 50_000])
    offer("/a")
    get_dataset("svhn", tmp_path)
    assert whole(tmp_path)
    assert server.ranges() == [None, "bytes=100000-", "bytes=150000-"]


def test_without_ranges_it_begins_again(server: Any, offer: Any, tmp_path: Path) -> None:
    server.offer("/a", CONTENT, ranges=False, drops=[100_000])
    offer("/a")
    get_dataset("svhn", tmp_path)
    assert whole(tmp_path)
    assert server.ranges() == [None, "bytes=100000-"]


def test_a_server_that_always_drops_is_given_up(server: Any, offer: Any, tmp_path: Path) -> None:
    server.offer("/a", CONTENT, drops=[1000] * 99)
    offer("/a")
    with pytest.raises(UserError, match="broke off 5 times"):
        get_dataset("svhn", tmp_path)
    assert len(server.asked) == module.TRIES
    assert parts("svhn", tmp_path)[0].stat().st_size == 5000


def test_ctrl_c_keeps_the_part_and_the_next_call_goes_on(
    server: Any, offer: Any, tmp_path: Path
) -> None:
    server.offer("/a", CONTENT, headers={"ETag": '"one"'})
    offer("/a")
    kept = interrupted(tmp_path)
    get_dataset("svhn", tmp_path)
    assert whole(tmp_path)
    assert parts("svhn", tmp_path) == []
    assert server.asked[-1][1]["Range"] == f"bytes={kept}-"
    assert server.asked[-1][1]["If-Range"] == '"one"'


@pytest.mark.parametrize("tag", ['W/"weak"', ""])
def test_a_tag_that_cannot_be_asked_for_is_not(
    tag: str, server: Any, offer: Any, tmp_path: Path
) -> None:
    server.offer("/a", CONTENT, headers={"ETag": tag})
    offer("/a")
    interrupted(tmp_path)
    get_dataset("svhn", tmp_path)
    assert whole(tmp_path)
    assert "If-Range" not in server.asked[-1][1]


def test_a_file_that_changed_meanwhile_is_fetched_anew(
    server: Any, offer: Any, tmp_path: Path
) -> None:
    server.offer("/a", CONTENT, headers={"ETag": '"one"'})
    offer("/a")
    interrupted(tmp_path)
    part = parts("svhn", tmp_path)[0]
    part.write_bytes(bytes(len(part.read_bytes())))  # as if the first version was another one
    server.offer("/a", CONTENT, headers={"ETag": '"two"'})
    server.asked.clear()
    get_dataset("svhn", tmp_path)
    assert whole(tmp_path)
    assert len(server.asked) == 1


def test_another_length_is_another_file(server: Any, offer: Any, tmp_path: Path) -> None:
    server.offer("/a", CONTENT, total=len(CONTENT) + 1)
    offer("/a")
    interrupted(tmp_path)
    server.asked.clear()
    get_dataset("svhn", tmp_path)
    assert whole(tmp_path)
    assert [wanted is None for wanted in server.ranges()] == [False, True]


def test_a_part_that_is_longer_than_the_file(server: Any, offer: Any, tmp_path: Path) -> None:
    server.offer("/a", CONTENT)
    offer("/a")
    (tmp_path / "svhn" / f"{FILE}.part").write_bytes(CONTENT + b"more")
    get_dataset("svhn", tmp_path)
    assert whole(tmp_path)
    assert len(server.asked) == 2


def test_a_part_that_does_not_fit_is_dropped_once_the_checksum_tells(
    server: Any, offer: Any, tmp_path: Path
) -> None:
    server.offer("/a", CONTENT)
    offer("/a")
    (tmp_path / "svhn" / f"{FILE}.part").write_bytes(b"another beginning")
    get_dataset("svhn", tmp_path)
    assert whole(tmp_path)
    assert server.ranges() == ["bytes=17-", None]


def test_a_whole_part_needs_no_request(server: Any, offer: Any, tmp_path: Path) -> None:
    offer("/a")
    (tmp_path / "svhn" / f"{FILE}.part").write_bytes(CONTENT)
    get_dataset("svhn", tmp_path)
    assert whole(tmp_path)
    assert server.asked == []


# --- mirrors ---


def test_mirrors_are_tried_in_order(server: Any, offer: Any, tmp_path: Path) -> None:
    server.offer("/busy", b"", status=503)
    server.offer("/page", b"<html>log in</html>")
    server.offer("/wrong", CONTENT[::-1])
    server.offer("/right", CONTENT)
    offer("/absent", "/busy", "/page", "/wrong", "/right", "/never")
    get_dataset("svhn", tmp_path)
    assert whole(tmp_path)
    asked = [path for path, _ in server.asked]
    assert asked == ["/absent", "/busy", "/page", "/wrong", "/right"]


def test_a_mirror_goes_on_where_another_ended(server: Any, offer: Any, tmp_path: Path) -> None:
    first = {"ETag": '"of the first"'}
    server.offer("/a", CONTENT, drops=[100_000], later=503, headers=first)
    server.offer("/b", CONTENT)
    offer("/a", "/b")
    get_dataset("svhn", tmp_path)
    assert whole(tmp_path)
    path, headers = server.asked[-1]
    assert path == "/b" and headers["Range"] == "bytes=100000-" and "If-Range" not in headers


def test_wrong_content_everywhere_leaves_nothing(server: Any, offer: Any, tmp_path: Path) -> None:
    server.offer("/a", CONTENT[::-1])
    server.offer("/b", CONTENT[::-1])
    offer("/a", "/b")
    with pytest.raises(UserError) as caught:
        get_dataset("svhn", tmp_path)
    host = f"127.0.0.1:{server.server_port}"
    assert f"({host}: wrong checksum; {host}: wrong checksum)" in str(caught.value)
    assert names(tmp_path / "svhn") == ["test_32x32.mat"]


def test_an_answer_without_end_is_cut(server: Any, offer: Any, tmp_path: Path) -> None:
    server.offer("/a", CONTENT * 30, length=False)
    offer("/a")
    seen: list[int] = []
    with pytest.raises(UserError, match="sends more than 300000 bytes"):
        get_dataset("svhn", tmp_path, lambda _, done, total: seen.append(done))
    assert max(seen) <= len(CONTENT)  # no more than that was written
    assert names(tmp_path / "svhn") == ["test_32x32.mat"]


def test_a_file_is_not_unpacked_on_the_way(server: Any, offer: Any, tmp_path: Path) -> None:
    packed = gzip.compress(CONTENT)
    server.offer("/a", packed, headers={"Content-Encoding": "gzip"})
    offer("/a", content=packed)
    get_dataset("svhn", tmp_path)
    assert (tmp_path / "svhn" / FILE).read_bytes() == packed


def test_a_silent_server_is_not_waited_for(
    server: Any, offer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TIMEOUT", (0.1, 0.1))
    server.offer("/a", CONTENT, wait=0.5)
    offer("/a")
    with pytest.raises(UserError, match="no answer in time"):
        get_dataset("svhn", tmp_path)


def test_offline_it_says_what_to_put_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: Any
) -> None:
    dead = server.url("/")
    server.server_close()
    source = SOURCES["mnist"]
    downloads = tuple(replace(d, urls=(dead + d.name,)) for d in source.downloads)
    monkeypatch.setitem(SOURCES, "mnist", replace(source, downloads=downloads))
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / source.files[0]).write_bytes(b"put there by hand")
    with pytest.raises(UserError) as caught:
        get_dataset("mnist", tmp_path)
    said = str(caught.value)
    assert said.startswith("mnist: train-labels-idx1-ubyte.gz could not be fetched (127.0.0.1:")
    assert "no answer" in said and "\n" not in said
    assert said.endswith(
        "or put train-labels-idx1-ubyte.gz, t10k-images-idx3-ubyte.gz, t10k-labels-idx1-ubyte.gz "
        f"from http://yann.lecun.com/exdb/mnist/ into {tmp_path / 'mnist'}"
    )


def test_what_cannot_be_downloaded(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"imagenet-50 cannot be downloaded: register at https"):
        get_dataset("imagenet-50", tmp_path)
    assert get_dataset("digits", tmp_path).fetched == ()
    assert list(tmp_path.iterdir()) == []


# --- the disk ---


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk(server: Any, offer: Any, tmp_path: Path) -> None:
    server.offer("/a", CONTENT)
    server.offer("/b", CONTENT)
    offer("/a", "/b")
    (tmp_path / "svhn" / f"{FILE}.part").symlink_to("/dev/full")
    with pytest.raises(UserError) as caught:
        get_dataset("svhn", tmp_path)
    said = str(caught.value)
    assert "No space left on device" in said and "300,000 bytes" in said and "\n" not in said
    assert [path for path, _ in server.asked] == ["/a"]  # no other mirror would mend that


def test_a_folder_that_cannot_be_made(server: Any, offer: Any, tmp_path: Path) -> None:
    server.offer("/a", CONTENT)
    offer("/a")
    (tmp_path / "file").write_text("kept")
    with pytest.raises(UserError, match=r"cannot write .* \(Not a directory\).*--data-dir"):
        get_dataset("svhn", tmp_path / "file" / "data")
    assert (tmp_path / "file").read_text() == "kept"


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_folder_without_rights(server: Any, offer: Any, tmp_path: Path) -> None:
    server.offer("/a", CONTENT)
    offer("/a")
    (tmp_path / "svhn").chmod(0o555)
    with pytest.raises(UserError, match=r"cannot write .* \(no rights\)"):
        get_dataset("svhn", tmp_path)
    (tmp_path / "svhn").chmod(0o755)
