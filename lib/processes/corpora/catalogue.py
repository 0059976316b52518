"""What corpora, pretrained models and images there are: the typed form of ``catalogue.yml``."""

from __future__ import annotations

import difflib
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from lib import plain_yaml

Checksum = Annotated[str, Field(pattern=r"^(sha256:[0-9a-f]{64}|sha1:[0-9a-f]{40}|md5:[0-9a-f]{32})$")]
Layout = Literal["prose", "wrapped", "tokens", "samples", "weights", "images"]
WEIGHTS: Layout = "weights"  # of a network, not a text
IMAGES: Layout = "images"  # and their labels
Bytes = tuple[int, int]


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Source(_Record):
    """One address of a file: the file itself, an archive or a longer file that holds it, or arrays it is made of.

    ``requirement`` asks pip for the file, which knows the package index of this machine. ``arrays`` are raw float32
    files below ``url``, by name with "|" written "_", and their shapes. ``keep_as`` names what is kept.
    """

    url: str
    checksum: Checksum
    member: str | None = None
    cut: Bytes | None = None
    requirement: str | None = None
    arrays: dict[str, tuple[int, ...]] | None = None
    keep_as: str | None = None

    @property
    def file_name(self) -> str:
        """The name under which the download is kept: the last part of the address unless ``keep_as`` says another."""
        return self.keep_as or Path(urlsplit(self.url).path).name


class TextFile(_Record):
    """One file of a corpus under the name that it has in a data folder; ``checksum`` is that of its content."""

    checksum: Checksum
    sources: tuple[Source, ...]
    bytes: int | None = None
    lines: int | None = None


class Split(_Record):
    """What a reader asks for by name: a file, or the bytes ``part[0]`` to ``part[1]`` of it."""

    file: str
    part: Bytes | None = None
    layout: Layout | None = None


class Package(_Record):
    """A corpus that an installed package carries; ``checksum`` is that of its documents joined by newlines."""

    name: str
    version: str
    folder: str
    pattern: str
    documents: int
    checksum: Checksum


class Entry(_Record):
    """One corpus: what it is, on what terms, its files and its splits. Models and images have layouts of their own."""

    name: str
    title: str
    about: str
    licence: str
    layout: Layout
    citation: str | None = None
    default: str | None = None
    files: dict[str, TextFile] = {}
    splits: dict[str, Split] = {}
    package: Package | None = None

    @model_validator(mode="before")
    @classmethod
    def _spell_out(cls, given: dict[str, object]) -> dict[str, object]:
        """Write the common addresses into every file and the content's checksum into sources that are the file."""
        entry = dict(given)
        bases = entry.pop("bases", [])
        if not isinstance(bases, list) or not all(isinstance(base, str) for base in bases):
            raise ValueError(f"bases: a list of addresses is allowed, got {bases!r}")
        given_files = entry.get("files", {})
        if not isinstance(given_files, dict):
            return entry  # refused with the name of the field, as all that follows
        files = {name: _with_sources(name, file, bases) for name, file in given_files.items()}
        if entry.get("layout") in (WEIGHTS, IMAGES):  # a part of it is a file
            entry["splits"] = {name: {"file": name} for name in files}
        return {**entry, "files": files}

    @model_validator(mode="after")
    def _check(self) -> Entry:
        if (self.package is None) == (not self.files):
            raise ValueError(f"{self.name}: a corpus comes either from files or from a package")
        if unknown := {split.file for split in self.splits.values()} - set(self.files):
            raise ValueError(f"{self.name}: splits name files that are not listed: {sorted(unknown)}")
        if self.default is not None and self.default not in self.splits:
            raise ValueError(f"{self.name}: the default split {self.default!r} is not one of {list(self.splits)}")
        return self

    @property
    def is_text(self) -> bool:
        """Whether it can be read as documents."""
        return self.layout not in (WEIGHTS, IMAGES)

    @property
    def checksums(self) -> list[str]:
        """What it is: the checksums of its files, or of the package that carries it."""
        return [file.checksum for file in self.files.values()] if self.package is None else [self.package.checksum]

    def chosen(self, split: str | None) -> tuple[str, ...]:
        """The splits that ``split`` stands for; ``None`` is the default one, or all where there is no default."""
        if split is None:
            return (self.default,) if self.default else tuple(self.splits)
        if split not in self.splits:
            raise ValueError(f"corpus {self.name!r} has no split {split!r}; it has {list(self.splits) or 'none'}")
        return (split,)


def _with_sources(name: object, file: object, bases: list[str]) -> object:
    if not isinstance(file, dict):
        return file
    sources = file.get("sources", [{"url": f"{base}{name}"} for base in bases])
    if not isinstance(sources, list):
        return file
    own = {"checksum": file["checksum"]} if "checksum" in file else {}
    return {**file, "sources": [own | source if isinstance(source, dict) else source for source in sources]}


@lru_cache(maxsize=1)
def entries() -> dict[str, Entry]:
    """The whole catalogue, in the order of the file."""
    return read(Path(__file__).with_name("catalogue.yml"))


def read(path: Path) -> dict[str, Entry]:
    """The entries of a catalogue; ``ValueError`` names file, entry and field of what is missing, unknown or wrong."""
    try:
        given = plain_yaml.load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read as YAML: {error}. `git checkout` brings the catalogue back") from error
    if not isinstance(given, dict):
        raise ValueError(f"{path}: entries by name are allowed, got {type(given).__name__}")
    return {name: _entry(path, name, fields) for name, fields in given.items()}


def _entry(path: Path, name: object, fields: object) -> Entry:
    if not isinstance(name, str) or not isinstance(fields, dict):
        raise ValueError(f"{path}: {name!r} has to be a name with fields, got {fields!r}; its first lines list them")
    try:
        return Entry.model_validate({**fields, "name": name})
    except ValidationError as error:
        wrong = "; ".join(
            f"{'.'.join(map(str, one['loc'])) or 'entry'}: {one['msg']}, got {one['input']!r:.80}"
            for one in error.errors()
        )
        raise ValueError(f"{path}, {name}: {wrong}. The first lines of the file list the fields") from error


def names() -> tuple[str, ...]:
    """Names of all corpora in the catalogue."""
    return tuple(name for name, found in entries().items() if found.is_text)


def model_names() -> tuple[str, ...]:
    """Names of all pretrained models in the catalogue."""
    return tuple(name for name, found in entries().items() if found.layout == WEIGHTS)


def entry(name: str) -> Entry:
    """One corpus or model of the catalogue; ``ValueError`` with what exists for an unknown name."""
    if name in entries():
        return entries()[name]
    near = difflib.get_close_matches(name, entries(), n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    known = ", ".join(entries())
    raise ValueError(
        f"unknown corpus or model {name!r}{hint or '.'} Known: {known}. A text file needs no entry: its path is read"
    )
