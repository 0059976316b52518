"""Where files are looked for: the data folder of the reader, then the cache of downloads."""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lib import ROOT
from lib.machine import expanded
from lib.processes.corpora.catalogue import Entry, TextFile

CANNOT_WRITE = {
    number
    for name in ("EACCES", "EPERM", "EROFS", "ENOSPC", "EDQUOT", "ENOTDIR", "EEXIST", "EISDIR", "EIO")
    if (number := getattr(errno, name, None)) is not None  # not every system has each
}
COMPRESSIONS = ("", ".xz", ".gz")


def data_folders() -> list[Path]:
    """Folders with local copies, each with a folder for every corpus.

    ``BOOK_DATA`` if it is set, else ``data`` inside the book's folder and ``shared/data`` beside it, if they exist.
    ``ValueError`` if ``BOOK_DATA`` names something that is not a folder.
    """
    setting = os.environ.get("BOOK_DATA")
    if setting:
        folder = expanded(setting)
        if not folder.is_dir():
            raise ValueError(f"BOOK_DATA={setting!r} is not a folder; name one that holds a folder for each corpus")
        return [folder]
    return [folder for folder in (ROOT / "data", ROOT.parent / "shared" / "data") if folder.is_dir()]


def pooch() -> Any:
    """The library of that name, imported where it is needed: it brings the network with it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about notebook progress bars, which it would draw and we do not use
        return importlib.import_module("pooch")


def cache_folder() -> Path:
    """Folder of downloads and trained vocabularies: ``BOOK_CACHE``, else the cache folder of the operating system."""
    setting = os.environ.get("BOOK_CACHE")
    if setting:
        return expanded(setting)
    return Path(pooch().os_cache("memory-of-sequence-models"))


class CacheUnwritable(OSError):
    """The cache folder is read-only, full, or no folder; the message says so, and what to do."""


@contextlib.contextmanager
def writing_to(folder: Path) -> Iterator[None]:
    """Make a folder of the cache and write to it; ``CacheUnwritable`` if that fails, other errors as they are."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        if error.errno not in CANNOT_WRITE and not isinstance(error, PermissionError):
            raise
        raise CacheUnwritable(
            f"cannot write to the cache folder {folder}: {error.strerror or error}. Make room or make it writable, or "
            f"set BOOK_CACHE (now {os.environ.get('BOOK_CACHE') or 'not set'}) to a folder that can be written"
        ) from error


def local_copy(entry: Entry, file: str) -> Path | None:
    """The copy of ``file`` in a data folder, plain or compressed, or ``None``."""
    candidates = [folder / entry.name / f"{file}{suffix}" for folder in data_folders() for suffix in COMPRESSIONS]
    return next((path for path in candidates if path.is_file()), None)


def cached_copy(entry: Entry, file: TextFile) -> tuple[Path, int] | None:
    """The download of ``file`` that is in the cache, and the index of its source, or ``None``."""
    for index, source in enumerate(file.sources):
        path = cache_folder() / entry.name / source.file_name
        if path.is_file():
            return path, index
    return None
