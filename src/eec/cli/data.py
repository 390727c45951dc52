"""`eec data`: which data sets there are and which of them are here; fetches and checks them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal
from urllib.parse import urlsplit

import tyro

from eec.data.catalog import DATASETS, default_data_dir, find_dataset
from eec.data.sources import SOURCES, Source, find
from eec.errors import UserError

if TYPE_CHECKING:
    from rich.progress import TaskID
    from rich.table import Table

WIDTH = 100  # columns of the table where no terminal says how many there are
_COUNTED = 100_000  # files; to count those of a larger set would take too long


@dataclass(frozen=True)
class Data:
    """List the data sets; get them from their official places, or check those that are here."""

    action: tyro.conf.Positional[
        Annotated[
            Literal["list", "get", "check"],
            tyro.conf.arg(
                help="list: what there is and what is here; get: fetch what is missing of the "
                "named sets; check: compare counts, checksums and content with the published ones."
            ),
        ]
    ] = "list"
    names: tyro.conf.Positional[
        Annotated[
            tuple[str, ...],
            tyro.conf.arg(
                metavar="[NAME ...]",
                help_behavior_hint="",
                help=f"Data sets: {', '.join(DATASETS)}. To check: all that are here by default.",
            ),
        ]
    ] = ()
    data_dir: Path | None = None
    """Where the data sets lie [EEC_DATA, or eec in the user's cache folder]."""

    def start(self, arguments: Sequence[str]) -> None:
        for name in self.names:
            find_dataset(name)  # before anything is done for the others
        folder = self.data_dir or default_data_dir()
        names = list(dict.fromkeys(self.names))
        if self.action == "list":
            if names:
                raise UserError(f"to list takes no names: `eec data get {names[0]}` fetches a set")
            _list(folder)
        elif self.action == "get":
            if not names:
                raise UserError(
                    "nothing to get: name one or more of the sets that `eec data` lists"
                )
            _each(names, lambda name: _get(name, folder))
        else:
            _each(names or _here(folder), lambda name: _check(name, folder))


def _list(folder: Path) -> None:
    from rich.console import Console

    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH)
    console.print(_table(folder))
    for line in (
        f"data folder: {folder} (another one: --data-dir, or EEC_DATA in the environment)",
        "`eec data get NAME` fetches a set, `eec data check` verifies those that are here",
    ):
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def _table(folder: Path) -> Table:
    from rich import box
    from rich.table import Table

    from eec.report.words import NOTHING

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("data set", no_wrap=True)
    table.add_column("here in", overflow="fold")
    table.add_column("train + test", justify="right", no_wrap=True)
    table.add_column("on disk", justify="right", no_wrap=True)
    table.add_column("from", overflow="fold")
    table.add_column("licence", overflow="fold", max_width=15)
    for name, source in SOURCES.items():
        counts = f"{source.train:,}+{source.test:,}" if source.train else NOTHING
        here = _whereabouts(source, folder)
        host = urlsplit(source.home).netloc.removeprefix("www.") or source.home
        table.add_row(name, here, counts, _size(source, folder), host, source.licence)
    return table


def _whereabouts(source: Source, folder: Path) -> str:
    from eec.report.words import NOTHING, human_bytes

    if not source.files:
        return "built in" if source.train else NOTHING
    missing = source.missing(folder)
    if not missing:
        return source.folder
    if len(missing) < len(source.files):
        return f"{len(missing)} of {len(source.files)} missing"
    size = sum(download.size for download in source.downloads)
    return f"no, {human_bytes(size)} to get" if size else "no"


def _size(source: Source, folder: Path) -> str:
    """Of the files of the set alone: a cache beside them is none of its."""
    from eec.report.words import NOTHING, human_bytes

    paths = [path for name in source.files if (path := find(source.place(folder), name))]
    if not paths:
        return NOTHING
    sizes = list(islice((size for path in paths for size in _file_sizes(path)), _COUNTED + 1))
    return ("over " if len(sizes) > _COUNTED else "") + human_bytes(sum(sizes))


def _file_sizes(path: Path | os.DirEntry[str]) -> Iterator[int]:
    with suppress(OSError):  # a broken link takes no room
        if not path.is_dir():
            yield path.stat().st_size
            return
        with os.scandir(path) as entries:
            for entry in entries:
                yield from _file_sizes(entry)


def _here(folder: Path) -> list[str]:
    """The sets that can be checked without being named."""
    return [name for name, s in SOURCES.items() if name != "folder" and s.present(folder)]


def _each(names: Sequence[str], act: Callable[[str], None]) -> None:
    """One mistake must not keep the other sets from their turn."""
    failed = False
    for name in names:
        try:
            act(name)
        except UserError as error:
            _warn(str(error))
            failed = True
    if failed:
        sys.exit(2)


def _get(name: str, folder: Path) -> None:
    from eec.data.download import get_dataset, parts
    from eec.report.words import human_bytes

    stem = name.partition(":")[0]
    source = SOURCES[stem]
    try:
        with _progress() as progress:
            got = get_dataset(stem, folder, progress)
    except KeyboardInterrupt:
        kept = [f"{human_bytes(part.stat().st_size)} in {part}" for part in parts(stem, folder)]
        _warn(f"stopped; {', '.join(kept) or 'nothing'} kept: the same command goes on from there")
        raise
    if source.files:
        done = "fetched into" if got.fetched else "unpacked into" if got.unpacked else "already in"
        print(f"{name}: {done} {source.place(folder)}")
    else:
        print(f"{name}: {source.by_hand}")
    if got.doubtful:
        _warn(f"{name}: the checksum of {', '.join(got.doubtful)} is not the official one")
        _check(stem, folder)


def _check(name: str, folder: Path) -> None:
    from eec.data.check import check_dataset

    with _progress() as progress:
        finding = check_dataset(name, folder, lambda *count: progress(f"reading {name}", *count))
    print(f"{name}: {finding.level.value}: {finding.notice}")


@contextmanager
def _progress() -> Iterator[Callable[[str, int, int], None]]:
    """A bar for each thing that is told of, on a terminal; elsewhere nothing."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = ("{task.description}", BarColumn(20), TaskProgressColumn(), TimeRemainingColumn())
    bars = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    tasks: dict[str, TaskID] = {}

    def show(what: str, done: int, total: int) -> None:
        if what not in tasks:
            tasks[what] = bars.add_task(what)
        bars.update(tasks[what], completed=done, total=total)

    with bars:
        yield show


def _warn(text: str) -> None:
    print(f"eec: {' '.join(text.split())}", file=sys.stderr)
