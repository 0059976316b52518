"""Corpora and pretrained weights as inputs of a page: which files stand behind one, and what they hold at present."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from lib.inputs import ABSENT
from lib.processes.corpora import reading
from lib.processes.corpora.catalogue import WEIGHTS, Entry, entries
from lib.processes.corpora.commands import table_rows
from lib.processes.corpora.loading import (
    CORPUS,
    DAMAGED,
    LISTING,
    PACKAGE,
    SEPARATOR,
    copy_of,
    listing_digest,
    package_files,
    parts_here,
)
from lib.processes.corpora.model_files import ready_copy, unpacked_path

KINDS = (CORPUS, PACKAGE, LISTING)


class Present(NamedTuple):
    """An input as it is now: the files that decide it, the checksum it should have, and how its digest is computed."""

    files: list[Path]
    expected: str
    digest: Callable[[], str]


def present(kind: str, name: str) -> Present:
    """The present state of an input of one of `KINDS`; one that the catalogue does not know is absent."""
    if kind == LISTING:
        return Present([], "", lambda: _listing(name))
    corpus, _, file = name.partition("/")
    found = entries().get(corpus)
    if kind == PACKAGE and found is not None and found.package is not None:
        return _package(found)
    if kind == CORPUS and found is not None and file in found.files:
        return _file(found, file)
    return Present([], "", lambda: ABSENT)


def _listing(name: str) -> str:
    if name == "texts":
        return listing_digest(parts_here())
    return listing_digest(table_rows()) if name == "table" else ABSENT


def _package(found: Entry) -> Present:
    package = found.package
    assert package is not None
    paths = package_files(package)
    if paths is None:
        return Present([], package.checksum, lambda: ABSENT)

    def content() -> bytes:
        return SEPARATOR.join(reading.decode(path.read_bytes(), str(path)) for path in paths).encode("utf-8")

    return Present(paths, package.checksum, lambda: _state(content, package.checksum))


def _file(found: Entry, name: str) -> Present:
    checksum = found.files[name].checksum
    copy = copy_of(found, name)
    unpacked = unpacked_path(found, name) if found.layout == WEIGHTS else None
    paths = [path for path in (copy and copy.path, unpacked) if path is not None and path.is_file()]

    def digest() -> str:
        if unpacked is not None and ready_copy(found, name) is not None:
            return checksum
        return ABSENT if copy is None else _state(copy.read, checksum)

    return Present(paths, checksum, digest)


def _state(content: Callable[[], bytes], checksum: str) -> str:
    try:
        reading.check(content(), checksum, "")
    except (OSError, ValueError):
        return DAMAGED
    return checksum
