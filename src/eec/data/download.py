"""Fetching data sets from their official places, with checksums.

An interrupted download stays in a file NAME.part and is taken up where it ended, at the same place
or at a mirror. A file gets its name only after its checksum proved right.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from eec.data.check import sha256_of, unofficial_files
from eec.data.sources import SOURCES, Download, Source
from eec.data.unpack import unpack
from eec.errors import UserError

Progress = Callable[[str, int, int], None]  # what is done, how far it is, where it ends

TIMEOUT = (10.0, 30.0)  # seconds to connect, and between two pieces of an answer
TRIES = 5  # at one address, as long as each brings more of the file

_CHUNK = 1 << 18


def unwatched(what: str, done: int, total: int) -> None:
    """The progress callback of those who do not look."""


@dataclass(frozen=True)
class Got:
    """What was done for a set."""

    fetched: tuple[str, ...]
    unpacked: tuple[str, ...]
    doubtful: tuple[str, ...]
    """Files that were there before and are not, byte for byte, what the authors publish."""


class _Failed(Exception):
    """Why an address does not give the file."""


class _Dropped(_Failed):
    """The answer did not come, or ended before the file did."""


class _Stale(_Failed):
    """What was fetched before is not the beginning of what the server has now."""


def get_dataset(name: str, data_dir: Path, progress: Progress = unwatched) -> Got:
    """Fetch what is missing of a set; leave what is there."""
    source = SOURCES[name]
    missing = source.missing(data_dir)
    doubtful = unofficial_files(source, data_dir)
    fetched, unpacked = [], []
    for download in source.downloads:
        path = _place(source, download, data_dir)
        if not missing or not (download.archive or download.name in missing):
            continue
        if path.exists():  # an archive that was put there by hand
            if sha256_of(path) != download.sha256:
                doubtful.append(download.name)
        else:
            _fetch(name, download, path, data_dir, progress)
            fetched.append(download.name)
        if download.archive:
            _unpack(name, path, source.place(data_dir), progress)
            unpacked.append(download.name)
            if fetched:
                path.unlink()
    if missing and not source.downloads:
        raise UserError(f"{name} cannot be downloaded: {source.by_hand}")
    return Got(tuple(fetched), tuple(unpacked), tuple(doubtful))


def parts(name: str, data_dir: Path) -> list[Path]:
    """The beginnings of files that wait for the next attempt."""
    source = SOURCES[name]
    places = [_part(_place(source, download, data_dir)) for download in source.downloads]
    return [place for place in places if place.exists()]


def _place(source: Source, download: Download, data_dir: Path) -> Path:
    return (data_dir if download.archive else source.place(data_dir)) / download.name


def _part(path: Path) -> Path:
    return path.with_name(f"{path.name}.part")


def _tag(part: Path) -> Path:
    """Beside a part: the address it comes from, and by what the server tells its versions apart."""
    return part.with_name(f"{part.name}.tag")


def _unpack(name: str, archive: Path, folder: Path, progress: Progress) -> None:
    what = f"unpacking {archive.name}"
    unpack(name, archive, folder, lambda done, total: progress(what, done, total))


def _fetch(name: str, download: Download, path: Path, data_dir: Path, progress: Progress) -> None:
    """Try the addresses one after another until the file is there and its checksum right."""
    import pooch  # here, because listing the sets must not take the time to import it

    pooch.get_logger().setLevel("WARNING")
    part = _part(path)

    def downloader(url: str, output: str, _: object) -> None:
        _download(url, download, part, progress)
        part.replace(output)
        _tag(part).unlink(missing_ok=True)

    failures = []
    urls = list(download.urls)
    while urls:
        url = urls.pop(0)
        resumed = part.exists()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            known = f"sha256:{download.sha256}"
            pooch.retrieve(url, known, path.name, path.parent, downloader=downloader)
            return
        except _Failed as failure:
            failures.append(f"{urlsplit(url).netloc}: {failure}")
        except ValueError:  # a wrong checksum; pooch has removed the file
            if resumed:  # the old beginning and the new rest do not fit: from the start
                urls.insert(0, url)
            else:
                failures.append(f"{urlsplit(url).netloc}: wrong checksum")
        except OSError as error:
            raise _cannot_write(name, path, download, error) from None
    raise _nothing_came(name, download, data_dir, failures)


def _cannot_write(name: str, path: Path, download: Download, error: OSError) -> UserError:
    # pooch words missing rights at length; what it found has no strerror
    reason = error.strerror or ("no rights" if isinstance(error, PermissionError) else str(error))
    return UserError(
        f"{name}: cannot write {path} ({reason}): it needs {download.size:,} bytes; make room, "
        "or choose another folder with --data-dir or EEC_DATA"
    )


def _nothing_came(
    name: str, download: Download, data_dir: Path, failures: Iterable[str]
) -> UserError:
    source = SOURCES[name]
    files = [download.name] if download.archive else source.missing(data_dir)
    place = _place(source, download, data_dir).parent
    return UserError(
        f"{name}: {download.name} could not be fetched ({'; '.join(failures)}): repeat the command "
        f"when the network allows it, or put {', '.join(files)} from {source.home} into {place}"
    )


def _download(url: str, download: Download, part: Path, progress: Progress) -> None:
    """Fill the part until it has the size of the file, in as many requests as that takes."""
    for _ in range(TRIES):
        before = _size(part)
        if before == download.size:
            return  # whole, but the program ended before the checksum was known
        try:
            return _request(url, download, part, progress)
        except _Stale:
            part.unlink(missing_ok=True)
        except _Dropped:
            if _size(part) <= before:
                raise
    raise _Dropped(f"broke off {TRIES} times")


def _request(url: str, download: Download, part: Path, progress: Progress) -> None:
    """Ask for what the part lacks, and write what comes."""
    import requests
    import urllib3

    have = _size(part)
    headers = {"Accept-Encoding": "identity", **_resume_headers(url, part, have)}
    try:
        with requests.get(url, headers=headers, stream=True, timeout=TIMEOUT) as answer:
            start = _start(answer.status_code, answer.headers, have, download.size)
            if start == 0:
                _remember(url, part, answer.headers)
            # As it is sent: some servers would have a .gz file unpacked on the way.
            chunks = answer.raw.stream(_CHUNK, decode_content=False)
            _write(part, start, chunks, download, progress)
    except (requests.Timeout, urllib3.exceptions.TimeoutError):
        raise _Dropped("no answer in time") from None
    except (requests.RequestException, urllib3.exceptions.HTTPError):
        raise _Dropped("no answer" if _size(part) <= have else "broke off") from None


def _resume_headers(url: str, part: Path, have: int) -> dict[str, str]:
    if have == 0:
        return {}
    headers = {"Range": f"bytes={have}-"}
    tag = _tag(part).read_text("utf-8").split("\n") if _tag(part).exists() else []
    if len(tag) == 2 and tag[0] == url:
        headers["If-Range"] = tag[1]  # if its file has changed since, the server sends all of it
    return headers


def _remember(url: str, part: Path, headers: Mapping[str, str]) -> None:
    tag = headers.get("ETag", "")
    if tag.startswith("W/"):  # weak ones cannot be asked for
        tag = ""
    tag = tag or headers.get("Last-Modified", "")
    if tag:
        _tag(part).write_text(f"{url}\n{tag}", "utf-8")
    else:
        _tag(part).unlink(missing_ok=True)


def _start(status: int, headers: Mapping[str, str], have: int, size: int) -> int:
    """The place in the file where an answer begins."""
    if have and status == 206:
        sent = re.fullmatch(r"bytes (\d+)-\d+/(\d+)", headers.get("Content-Range", ""))
        if sent is None or (int(sent[1]), int(sent[2])) != (have, size):
            raise _Stale("another version")
        return have
    if have and status == 416:  # the file ends before the place that was asked for
        raise _Stale("another version")
    if status != 200:
        raise _Failed(f"HTTP {status}")
    length = headers.get("Content-Length", str(size))
    if length != str(size):
        raise _Failed(f"has {length} bytes in place of {size}")
    return 0


def _write(
    part: Path, start: int, chunks: Iterable[bytes], download: Download, progress: Progress
) -> None:
    done = start
    with part.open("ab" if start else "wb") as file:
        for chunk in chunks:
            done += len(chunk)
            if done > download.size:
                break
            file.write(chunk)
            progress(download.name, done, download.size)
    if done > download.size:
        part.unlink()
        raise _Failed(f"sends more than {download.size} bytes")
    if done < download.size:
        raise _Dropped("broke off")


def _size(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0
