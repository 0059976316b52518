"""What `python -m lib data list`, `fetch` and `verify` do, as functions that return what they found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from lib import inputs
from lib.processes.corpora.catalogue import Entry, entries, entry
from lib.processes.corpora.download import fetch_file
from lib.processes.corpora.loading import LISTING, content_of, listing_digest, load, package_folder, place_of
from lib.processes.corpora.places import cached_copy, local_copy


@dataclass(frozen=True)
class Row:
    """One line of the table of corpora and models; ``where`` is empty for what is not on this machine."""

    name: str
    split: str
    title: str
    where: str
    bytes: int | None
    licence: str
    checksum: str
    addresses: tuple[str, ...]


@dataclass(frozen=True)
class Outcome:
    """What became of one file: ``ok``, ``missing``, ``wrong`` or ``failed``, with the reason."""

    name: str
    file: str
    status: str
    message: str = ""


def list_table() -> list[Row]:
    """A row for every split of every corpus and file of every model, present or not. No network, no hashing."""
    rows = table_rows()
    inputs.note(LISTING, "table", listing_digest(rows))
    return rows


def table_rows() -> list[Row]:
    """What `list_table` gives, without being noted as an input of a page."""
    rows: list[Row] = []
    for found in entries().values():
        if found.package is not None:
            where = f"package {found.package.name}" if package_folder(found.package) else ""
            rows.append(Row(found.name, "", found.title, where, None, found.licence, found.package.checksum, ()))
        for name, split in found.splits.items():
            file = found.files[split.file]
            size = split.part[1] - split.part[0] if split.part else file.bytes
            addresses = tuple(source.url for source in file.sources)
            where = place_of(found, split.file) or ""
            rows.append(Row(found.name, name, found.title, where, size, found.licence, file.checksum, addresses))
    return rows


def fetch(names: Iterable[str] | None = None, progress: bool = True) -> Iterator[Outcome]:
    """Download what is missing of the named corpora and models (``name`` or ``name/part``; default: all).

    One outcome per file, as the files come, and one for a corpus that is an installed package: that cannot be fetched.
    What is in the data folder or the cache is left alone, and a failure does not stop the others. ``ValueError`` for an
    unknown name.
    """
    chosen = list(names) if names is not None else None
    files = _files(chosen)  # every name is checked before anything starts
    for found in _packages(chosen):
        assert found.package is not None
        if package_folder(found.package) is None:
            yield Outcome(
                found.name, "package", "missing", f"pip install {found.package.name}=={found.package.version}"
            )
        else:
            yield Outcome(found.name, "package", "ok", "installed")
    for found, file in files:
        if local_copy(found, file) is not None or cached_copy(found, found.files[file]) is not None:
            yield Outcome(found.name, file, "ok", "already here")
            continue
        try:
            fetch_file(found, found.files[file], progress)
            content_of(found, file, download=False)
        except ValueError as error:
            yield Outcome(found.name, file, "wrong", str(error))
        except OSError as error:
            yield Outcome(found.name, file, "failed", str(error))
        else:
            yield Outcome(found.name, file, "ok", "downloaded")


def verify(names: Iterable[str] | None = None) -> Iterator[Outcome]:
    """Hash again what is on this machine: ``ok``, ``missing`` or ``wrong`` for each file. No network."""
    chosen = list(names) if names is not None else None
    files = _files(chosen)  # every name is checked before anything is told
    for found in _packages(chosen):
        try:
            load(found.name)
        except FileNotFoundError as error:
            yield Outcome(found.name, "package", "missing", str(error))
        except ValueError as error:
            yield Outcome(found.name, "package", "wrong", str(error))
        else:
            yield Outcome(found.name, "package", "ok")
    for found, file in files:
        try:
            content_of(found, file, download=False)
        except FileNotFoundError:
            yield Outcome(found.name, file, "missing")
        except OSError as error:
            yield Outcome(found.name, file, "failed", str(error))
        except ValueError as error:
            yield Outcome(found.name, file, "wrong", str(error))
        else:
            yield Outcome(found.name, file, "ok")


def exit_status(outcomes: Sequence[Outcome], required: bool = False) -> int:
    """Exit status: 1 if a file is wrong or failed, 2 if one asked for by name (``required``) is missing, else 0."""
    states = {outcome.status for outcome in outcomes}
    if states & {"wrong", "failed"}:
        return 1
    return 2 if required and "missing" in states else 0


def _packages(names: list[str] | None) -> list[Entry]:
    chosen = [entry(_parts(name)[0]) for name in names] if names else list(entries().values())
    return [found for found in chosen if found.package is not None]


def _files(names: Iterable[str] | None) -> list[tuple[Entry, str]]:
    wanted: dict[tuple[str, str], Entry] = {}
    for name in list(names or entries()):
        corpus, split = _parts(name)
        found = entry(corpus)
        for part in found.chosen(split) if split else tuple(found.splits):
            wanted[(corpus, found.splits[part].file)] = found
    return [(found, file) for (_, file), found in wanted.items()]


def _parts(name: str) -> tuple[str, str]:
    """Corpus and split of "corpus/split", or what was given and no split."""
    corpus, _, split = name.partition("/")
    return (corpus, split) if corpus else (name, "")
