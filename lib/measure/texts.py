"""A reader's own text: a file, a folder, lines of JSON, packed or not, or a corpus of the catalogue."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from lib import inputs
from lib.machine import expanded
from lib.processes import corpora
from lib.processes.corpora import reading

PACKED = (".gz", ".xz", ".zst")
PLAIN = (".txt", ".text", ".md")
LINES = (".jsonl", ".ndjson")
FEWEST = 100  # characters
LEARNED = 4_000_000  # characters that an imitation is made of, at most


@dataclass(frozen=True)
class Text:
    """Documents in a fixed order, and what they are called."""

    name: str
    documents: tuple[str, ...] = field(repr=False)

    @cached_property
    def characters(self) -> int:
        return sum(map(len, self.documents))

    @cached_property
    def sha256(self) -> str:
        """Of all documents, joined by line breaks, in UTF-8: the identity of what is measured."""
        return reading.digest("\n".join(self.documents).encode("utf-8")).partition(":")[2]

    def head(self, characters: int) -> Text:
        """The first so many characters, cut inside a document if need be."""
        kept: list[str] = []
        for document in self.documents:
            if characters > 0:
                kept.append(document[:characters])
            characters -= len(document)
        return Text(self.name, tuple(kept))

    def pieces(self, length: int) -> Iterator[tuple[int, str]]:
        """Pieces of `length` to 2 `length` characters, cut behind a line where there is one, each with its document."""
        for number, document in enumerate(self.documents):
            start = 0
            while start < len(document):
                found = document.find("\n", start + length, start + 2 * length)
                stop = found + 1 if found >= 0 else min(len(document), start + 2 * length)
                yield number, document[start:stop]
                start = stop


def read_text(source: str, key: str = "text") -> Text:
    """Read a text in UTF-8.

    source: a file, plain, or lines of JSON whose field `key` is a document (``.jsonl``), either packed as ``.gz``,
    ``.xz`` or ``.zst``; a folder, whose files of these kinds are documents in the order of their names; or the name of
    a corpus, if there is no such file. ``ValueError``, in one line, for a file that is empty, not UTF-8 or no text
    (with the first bad byte), for a damaged one, for a line that has no such field, or half a character in it, and for
    fewer than 100 characters; ``OSError`` if there is no such file.
    """
    if not source.strip():  # which as a path would be the present folder
        raise ValueError(f"a file, a folder or the name of a corpus is allowed, got {source!r}")
    path = expanded(source)
    if path.is_dir():
        found = Text(path.resolve().name, tuple(_of_folder(path, key)))
    elif path.is_file() or source not in corpora.names():
        found = Text(path.name, tuple(_of_file(path, key)))
    else:
        found = Text(source, corpora.load(source).documents)
    return _long_enough(found, source)


def of_bytes(data: bytes, name: str) -> Text:
    """A text in UTF-8 that is one document; ``ValueError`` as of `read_text`."""
    return _long_enough(Text(name, (reading.decode(data, name),)), name)


def _long_enough(found: Text, source: str) -> Text:
    if not any(document.strip() for document in found.documents):
        raise ValueError(f"{source} is empty: there is no text in it")
    if found.characters < FEWEST:
        raise ValueError(f"{source} has {found.characters} characters; at least {FEWEST} are needed to count pairs")
    return found


def _of_folder(folder: Path, key: str) -> Iterator[str]:
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and _kind(path) in (*PLAIN, *LINES))
    paths = [path for path in paths if not any(part.startswith(".") for part in path.relative_to(folder).parts)]
    if not paths:
        kinds = ", ".join((*PLAIN, *LINES))
        raise ValueError(f"{folder} has no text: files {kinds} are read, also with {', '.join(PACKED)} behind")
    for path in paths:
        yield from _of_file(path, key)


def _of_file(path: Path, key: str) -> Iterator[str]:
    inputs.note_file(path)
    if not path.is_file():
        raise FileNotFoundError(
            f"no file or folder {path}, and no corpus of that name: {', '.join(corpora.names())} are known"
        )
    text = reading.decode(reading.content(path), str(path))
    if _kind(path) in LINES:
        yield from _of_lines(text, key, path)
    else:
        yield text


def _of_lines(text: str, key: str, path: Path) -> Iterator[str]:
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: no JSON ({error})") from error
        except RecursionError as error:
            raise ValueError(f"{path}, line {number}: JSON that is nested less deeply is allowed ({error})") from error
        if not isinstance(record, dict) or key not in record:
            there = sorted(record) if isinstance(record, dict) else type(record).__name__
            raise ValueError(f"{path}, line {number}: no text under {key!r}; there is {there}; name another by --field")
        if not isinstance(record[key], str):
            what = f"text under {key!r} is allowed, got {json.dumps(record[key])[:60]}"
            raise ValueError(f"{path}, line {number}: {what}; name another by --field")
        try:
            record[key].encode("utf-8")
        except UnicodeEncodeError as error:
            what = "half a character (a lone surrogate)"
            raise ValueError(f"{path}, line {number}: {what} under {key!r}; mend the escapes") from error
        if record[key]:
            yield record[key]


def _kind(path: Path) -> str:
    """The suffix, below that of packing."""
    return Path(path.stem).suffix.lower() if path.suffix.lower() in PACKED else path.suffix.lower()


def imitation(text: Text, order: int = 4, characters: int = 1_000_000, seed: int = 0) -> Text:
    """A text that knows `order` - 1 characters: each character follows those before it as it did somewhere in `text`.

    A Markov chain whose transitions are those of the text (of its first 4 million characters): n-grams up to `order`
    have their frequencies, and nothing farther is kept but by chance. O(order length ln length + characters).
    """
    whole = "\n".join(text.head(LEARNED).documents)
    codes = np.frombuffer(whole.encode("utf-32-le"), dtype=np.uint32)
    _, symbols = np.unique(codes, return_inverse=True)
    context = np.zeros(len(symbols) - order + 1, dtype=np.int64)
    for place in range(order - 1):
        joined = context * (symbols.max() + 1) + symbols[place : place + len(context)]
        _, context = np.unique(joined, return_inverse=True)
    rows = np.argsort(context, kind="stable")  # places of the text, those after the same context together
    starts = np.searchsorted(context[rows], np.arange(context.max() + 2))
    chances = np.random.default_rng(seed).random(characters)
    written, place = np.empty(characters, dtype=np.int64), 0
    for number in range(characters):
        group = context[place]
        place = int(rows[starts[group] + int(chances[number] * (starts[group + 1] - starts[group]))])
        written[number] = place + order - 1
        place = place + 1 if place + 1 < len(context) else 0
    return Text(f"{text.name}, imitated by {order}-grams", (codes[written].tobytes().decode("utf-32-le"),))
