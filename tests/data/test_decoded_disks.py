"""The cache of decoded images on full disks, in closed folders, and built by two at once."""

import errno
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from eec.data.decoded import Files, read_decoded
from eec.data.image_files import read_images
from eec.errors import UserError

COUNT, SIZE = 11, 16


def picture(number: int) -> Image.Image:
    pixels = np.random.default_rng(number).integers(0, 256, (SIZE, SIZE, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    root = tmp_path / "set"
    root.mkdir()
    paths = [root / f"{i}.bmp" for i in range(COUNT)]  # of one length, whatever they show
    for i, path in enumerate(paths):
        picture(i).save(path)
    return Files(root, paths, SIZE)


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


def only_cache(data_dir: Path) -> Path:
    """The one file in the folder of caches."""
    (cache,) = (data_dir / "decoded").iterdir()
    return cache


def nothing_left(data_dir: Path) -> bool:
    return not list((data_dir / "decoded").glob("*"))


def expected(files: Files) -> torch.Tensor:
    return read_images(files.paths, files.size, 3).images


@contextmanager
def largest_file(length: int) -> Iterator[None]:
    """The system refuses to write more than so many bytes into a file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (length, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


NEEDED = rf"they take {COUNT * 3 * SIZE**2:,} bytes; make room there, or name .* with --data-dir$"


@pytest.mark.parametrize("length", [0, 1000, COUNT * 3 * SIZE**2 + 100])
def test_a_disk_that_fills_up(files: Files, data_dir: Path, length: int) -> None:
    with largest_file(length), pytest.raises(UserError, match=NEEDED) as caught:
        read_decoded(files, data_dir)
    assert f"cannot keep the decoded images in {data_dir}/decoded (File too" in str(caught.value)
    assert nothing_left(data_dir)
    assert torch.equal(read_decoded(files, data_dir).images, expected(files))


def test_a_disk_that_fills_up_keeps_the_old_cache(files: Files, data_dir: Path) -> None:
    read_decoded(files, data_dir)
    content = only_cache(data_dir).read_bytes()
    picture(99).save(files.paths[0])
    with largest_file(1000), pytest.raises(UserError, match=NEEDED):
        read_decoded(files, data_dir)
    assert only_cache(data_dir).read_bytes() == content


def test_too_little_room_is_told_before_the_work(
    files: Files, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(files.root)._replace(free=COUNT * 3 * SIZE**2 - 1)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(UserError, match=rf"\({os.strerror(errno.ENOSPC)}\): {NEEDED}"):
        read_decoded(files, data_dir, progress=lambda *_: pytest.fail("it began"))
    assert nothing_left(data_dir)


def test_a_data_folder_without_rights(
    files: Files, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_decoded(files, data_dir)  # also loads what the decoders need, while we may
    data_dir.chmod(0o555)
    (data_dir / "decoded").chmod(0o555)
    only_cache(data_dir).chmod(0o444)
    for folder in (files.root, files.root.parent):
        folder.chmod(0o755)
    monkeypatch.chdir(files.root.parent)  # whatever is closed above it
    near = replace(files, root=Path("set"), paths=[Path("set") / p.name for p in files.paths])
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)  # to root, nothing is closed
    try:
        assert torch.equal(read_decoded(near, Path("data")).images, expected(near))
        with pytest.raises(UserError, match=r"in data/decoded \(Permission denied\): they take"):
            read_decoded(replace(near, size=20), Path("data"))
    finally:
        os.seteuid(user)


def test_a_data_folder_that_is_a_file(files: Files, data_dir: Path) -> None:
    data_dir.write_text("a file")
    with pytest.raises(UserError, match=r"cannot keep the decoded images in .*data/decoded"):
        read_decoded(files, data_dir)


def test_an_interruption_leaves_nothing(files: Files, data_dir: Path) -> None:
    def interrupt(done: int, total: int) -> None:
        if done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        read_decoded(files, data_dir, progress=interrupt)
    assert nothing_left(data_dir)


BUILD = """
import hashlib, sys
from pathlib import Path
from eec.data.decoded import Files, read_decoded
root = Path(sys.argv[1])
files = Files(root, sorted(root.iterdir()), 16)
print("ready", flush=True)
input()
def wait(done, total):
    if done == total // 2:
        print("halfway", flush=True)
        input()
images = read_decoded(files, Path(sys.argv[2]), progress=wait).images
print(hashlib.sha256(images.numpy()).hexdigest())
"""


def test_two_processes_that_build_the_same_cache(files: Files, data_dir: Path) -> None:
    command = [sys.executable, "-c", BUILD, str(files.root), str(data_dir)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    both = [subprocess.Popen(command, **pipes) for _ in range(2)]  # type: ignore[call-overload]
    for word in ("ready", "halfway"):
        for process in both:
            assert process.stdout.readline() == f"{word}\n"
        for process in both:
            process.stdin.write("go\n")
            process.stdin.flush()
    said = [process.communicate()[0] for process in both]
    assert said[0] == said[1] and len(said[0].strip()) == 64
    in_order = replace(files, paths=sorted(files.paths))
    reading = read_decoded(in_order, data_dir, progress=lambda *_: pytest.fail("it is not whole"))
    assert torch.equal(reading.images, expected(in_order))
    only_cache(data_dir)
