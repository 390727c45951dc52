import os
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
from PIL import Image

from eec.data import decoded
from eec.data.decoded import Files, read_decoded
from eec.data.image_files import Undecodable, read_images
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


class Work(NamedTuple):
    decoded: int
    hashed: int


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Work]:
    """How many files were decoded, and how many read to compare, since it was last asked."""
    done = {"read_image": 0, "_digest": 0}

    def count(name: str) -> None:
        function = getattr(decoded, name)

        def counted(*arguments: object) -> object:
            done[name] += 1
            return function(*arguments)

        monkeypatch.setattr(decoded, name, counted)

    for name in done:
        count(name)
    # Blocks of two images, and files that may be trusted as soon as they are written.
    monkeypatch.setattr(decoded, "_BLOCK", 2 * 3 * SIZE**2 + 5)
    monkeypatch.setattr(decoded, "_AT_REST", 0)

    def ask() -> Work:
        result = Work(*done.values())
        done.update(dict.fromkeys(done, 0))
        return result

    return ask


FRESH, CACHED, COMPARED = Work(COUNT, 0), Work(0, 0), Work(0, COUNT)
REBUILT = Work(COUNT, COUNT)


def only_cache(data_dir: Path) -> Path:
    """The one file in the folder of caches."""
    (cache,) = (data_dir / "decoded").iterdir()
    return cache


def nothing_left(data_dir: Path) -> bool:
    return not list((data_dir / "decoded").glob("*"))


def expected(files: Files) -> torch.Tensor:
    return read_images(files.paths, files.size, 3).images


# What comes back


def test_the_first_time_and_from_the_cache(
    files: Files, data_dir: Path, work: Callable[[], Work]
) -> None:
    calls: list[tuple[int, int]] = []
    for time_spent in (FRESH, CACHED, CACHED):
        reading = read_decoded(files, data_dir, progress=lambda *call: calls.append(call))
        assert torch.equal(reading.images, expected(files))
        assert reading.kept == list(range(COUNT)) and reading.skipped == []
        assert work() == time_spent
    assert calls == [(i, COUNT) for i in range(1, COUNT + 1)]
    assert only_cache(data_dir).name.startswith("set-16-")


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_images_are_a_map_that_needs_no_memory_set_aside(files: Files, data_dir: Path) -> None:
    for _ in range(2):
        reading = read_decoded(files, data_dir)
        name = only_cache(data_dir).name
        _, _, after = Path("/proc/self/smaps").read_text().partition(name)
        flags = after[after.index("VmFlags:") :].splitlines()[0].split()
        assert "nr" in flags  # no reserve: else the system refuses maps larger than the memory
        del reading


def test_writing_into_the_images_leaves_the_cache_alone(
    files: Files, data_dir: Path, work: Callable[[], Work]
) -> None:
    for time_spent in (FRESH, CACHED, CACHED):
        images = read_decoded(files, data_dir).images
        assert torch.equal(images, expected(files))
        images.zero_()
        assert work() == time_spent


def test_settings_have_caches_of_their_own(
    files: Files, data_dir: Path, work: Callable[[], Work], tmp_path: Path
) -> None:
    copied = tmp_path / "copy"
    shutil.copytree(files.root, copied)
    others = [
        files,
        replace(files, size=20),
        replace(files, channels=1),
        replace(files, variant="split by seed 1"),
        replace(files, root=copied, paths=[copied / path.name for path in files.paths]),
    ]
    for time_spent in (FRESH, CACHED):
        for other in others:
            read_decoded(other, data_dir)
            assert work() == time_spent
    assert len(list((data_dir / "decoded").iterdir())) == len(others)
    assert read_decoded(others[1], data_dir).images.shape == (COUNT, 3, 20, 20)
    assert read_decoded(others[2], data_dir).images.shape == (COUNT, 1, SIZE, SIZE)


def test_grey_sets_have_one_channel(files: Files, data_dir: Path) -> None:
    for path in files.paths:
        Image.open(path).convert("L").save(path)
    assert read_decoded(files, data_dir).images.shape[1] == 1
    picture(0).save(files.paths[-1])
    assert read_decoded(files, data_dir).images.shape[1] == 3


@pytest.mark.parametrize(("size", "channels"), [(7, None), (0, None), (32, 2)])
def test_extents_that_cannot_be(
    files: Files, data_dir: Path, size: int, channels: int | None
) -> None:
    with pytest.raises(UserError, match=r"size is|channels: choose"):
        read_decoded(replace(files, size=size, channels=channels), data_dir)
    assert not data_dir.exists()


# Files that change


def change_in_secret(path: Path, number: int) -> None:
    """Another picture of the same length, with the times of the old one."""
    before = path.stat()
    picture(number).save(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = path.stat()
    assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)


def test_a_changed_file_is_seen(files: Files, data_dir: Path, work: Callable[[], Work]) -> None:
    before = read_decoded(files, data_dir).images.clone()
    change_in_secret(files.paths[3], 99)
    work()
    after = read_decoded(files, data_dir).images
    assert work() == REBUILT
    assert torch.equal(after, expected(files))
    assert [i for i in range(COUNT) if not torch.equal(before[i], after[i])] == [3]
    read_decoded(files, data_dir)
    assert work() == CACHED
    only_cache(data_dir)


def test_the_same_contents_with_other_times_are_read_but_not_decoded(
    files: Files, data_dir: Path, work: Callable[[], Work]
) -> None:
    read_decoded(files, data_dir)
    work()
    for path in files.paths:
        content = path.read_bytes()
        path.unlink()
        path.write_bytes(content)
    for time_spent in (COMPARED, CACHED):  # and the new times are noted
        assert torch.equal(read_decoded(files, data_dir).images, expected(files))
        assert work() == time_spent


def test_times_within_a_tick_of_the_clock_are_not_trusted(
    files: Files, data_dir: Path, work: Callable[[], Work], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoded, "_AT_REST", 3600 * 10**9)
    for time_spent in (FRESH, COMPARED, COMPARED):
        read_decoded(files, data_dir)
        assert work() == time_spent
    monkeypatch.setattr(decoded, "_AT_REST", 0)
    for time_spent in (COMPARED, CACHED):
        read_decoded(files, data_dir)
        assert work() == time_spent


def test_other_files_are_another_set(
    files: Files, data_dir: Path, work: Callable[[], Work]
) -> None:
    read_decoded(files, data_dir)
    renamed = files.root / "renamed.bmp"
    shutil.copy(files.paths[0], renamed)
    for paths in (files.paths[1:], files.paths[::-1], [renamed, *files.paths[1:]], files.paths):
        work()
        other = replace(files, paths=paths)
        assert torch.equal(read_decoded(other, data_dir).images, expected(other))
        assert work().decoded == len(paths)
        only_cache(data_dir)


def test_files_that_change_while_they_are_read(files: Files, data_dir: Path) -> None:
    def change(done: int, total: int) -> None:
        if done == total:
            change_in_secret(files.paths[0], 99)

    with pytest.raises(UserError, match="set changed while they were read: try again"):
        read_decoded(files, data_dir, progress=change)
    assert nothing_left(data_dir)


# Caches that are not to be believed


def test_a_byte_that_flips_anywhere_is_noticed(
    files: Files, data_dir: Path, work: Callable[[], Work]
) -> None:
    good = expected(files)
    read_decoded(files, data_dir)
    cache = only_cache(data_dir)
    content = cache.read_bytes()
    pixels = good.numel()
    places = {*range(0, pixels, 97), pixels - 1, *range(pixels, len(content), 13)}
    places |= set(range(len(content) - 60, len(content)))
    work()
    for place in sorted(places):
        damaged = bytearray(content)
        damaged[place] ^= 1 << place % 8
        cache.write_bytes(damaged)
        assert torch.equal(read_decoded(files, data_dir).images, good)
        assert work().decoded == COUNT, place
    assert cache.read_bytes() == content


@pytest.mark.parametrize("share", [0, 0.001, 0.3, 0.9, 0.999, 1.1, 2])
def test_truncated_and_prolonged_caches_are_rebuilt(
    files: Files, data_dir: Path, work: Callable[[], Work], share: float
) -> None:
    read_decoded(files, data_dir)
    cache = only_cache(data_dir)
    content = cache.read_bytes()
    cache.write_bytes((content * 2)[: int(share * len(content))])
    if share == 2:  # whole manifests, but not of as many pixels
        assert cache.read_bytes() == content * 2
    work()
    assert torch.equal(read_decoded(files, data_dir).images, expected(files))
    assert work().decoded == COUNT
    assert cache.read_bytes() == content


def test_foreign_caches_are_rebuilt(
    files: Files, data_dir: Path, work: Callable[[], Work], monkeypatch: pytest.MonkeyPatch
) -> None:
    read_decoded(files, data_dir)
    cache = only_cache(data_dir)
    read_decoded(replace(files, variant="another"), data_dir)
    (other,) = set((data_dir / "decoded").iterdir()) - {cache}
    other.replace(cache)
    work()
    read_decoded(files, data_dir)
    assert work() == FRESH
    monkeypatch.setattr(decoded, "_DECODER", "Pillow of tomorrow")
    read_decoded(files, data_dir)
    assert work() == FRESH
    only_cache(data_dir)


def test_unfinished_files_of_the_day_before_are_removed(files: Files, data_dir: Path) -> None:
    read_decoded(files, data_dir)
    folder = data_dir / "decoded"
    old, young, other = folder / ".set.1.part", folder / ".set.2.part", folder / "mine.txt"
    for path in (old, young, other):
        path.write_text("unfinished")
    yesterday = time.time() - 25 * 3600
    os.utime(old, (yesterday, yesterday))
    os.utime(other, (yesterday, yesterday))
    read_decoded(files, data_dir)
    assert not old.exists() and young.exists() and other.exists()


# Files that cannot be decoded


def test_what_was_left_out_is_told_again(
    files: Files, data_dir: Path, work: Callable[[], Work]
) -> None:
    for i in (2, 7):
        files.paths[i].write_text("no image")
    good = replace(files, paths=[path for i, path in enumerate(files.paths) if i not in (2, 7)])
    for time_spent in (FRESH, CACHED):
        reading = read_decoded(files, data_dir)
        assert work() == time_spent
        assert reading.kept == [0, 1, 3, 4, 5, 6, 8, 9, 10]
        assert torch.equal(reading.images, expected(good))
        assert reading.skipped == read_images(files.paths, SIZE, 3).skipped
        with pytest.raises(Undecodable, match=r"2\.bmp cannot be decoded \(not a readable"):
            read_decoded(files, data_dir, strict=True)
        assert work().decoded == 0


def test_strictness_keeps_nothing(files: Files, data_dir: Path) -> None:
    files.paths[2].write_bytes(b"")
    with pytest.raises(Undecodable, match=r"2\.bmp cannot be decoded \(the file is empty\)"):
        read_decoded(files, data_dir, strict=True)
    assert nothing_left(data_dir)


def test_a_file_that_was_closed_or_gone_is_read_when_it_is_there(
    files: Files, data_dir: Path, work: Callable[[], Work]
) -> None:
    files.paths[4].unlink()
    files.paths[4].symlink_to(files.root / "nowhere")
    for time_spent in (FRESH._replace(decoded=COUNT - 1), COMPARED, CACHED):
        (line,) = read_decoded(files, data_dir).skipped
        assert line.endswith("4.bmp (No such file or directory)")
        assert work() == time_spent
    picture(4).save(files.root / "nowhere", "BMP")
    assert read_decoded(files, data_dir).skipped == []


def test_nothing_decodable_is_refused(files: Files, data_dir: Path) -> None:
    for path in files.paths:
        path.write_bytes(b"")
    with pytest.raises(UserError, match=r"none of the 11 images in .*set can be decoded: .*8 more"):
        read_decoded(files, data_dir)
    assert nothing_left(data_dir)
