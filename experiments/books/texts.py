"""Long documents for training, validation and test: whole ones, told apart by a rule, as byte-pair tokens."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from lib.processes import corpora
from lib.processes.corpora.catalogue import entry
from lib.processes.corpora.reading import sentence_starts
from lib.processes.corpora.tokens import BytePairs

Integers = NDArray[np.int64]
CYCLE = 7
TEST, VALIDATION = (2, 5), (3,)  # of every seven documents, counted from 0; the others are trained on


@dataclass(frozen=True)
class Shelf:
    """Documents of one use."""

    names: tuple[str, ...]
    documents: tuple[Integers, ...]
    starts: tuple[Integers, ...]  # places of tokens at which a sentence begins
    characters: int


@dataclass(frozen=True)
class Shelves:
    training: Shelf
    validation: Shelf
    test: Shelf
    vocabulary: int


def uses(count: int) -> list[str]:
    """Use of each of `count` documents in the order of the catalogue (that of their titles)."""
    places = [number % CYCLE for number in range(count)]
    return ["test" if place in TEST else "validation" if place in VALIDATION else "training" for place in places]


@lru_cache(maxsize=1)  # the runs of a sweep that one process does
def shelves(corpus: str, merges: int, limit: int | None = None) -> Shelves:
    """The corpus, encoded with `merges` byte pairs that were learned on the documents of training alone.

    limit: of the number of documents, which are then spread evenly over the corpus.
    Raises ValueError for an unknown corpus, too few documents (`named_documents`) and impossible merges.
    """
    everything = named_documents(corpus)
    texts = dict(zip(everything, corpora.load(corpus).documents, strict=True))
    names = named_documents(corpus, limit)
    kinds = dict(zip(names, uses(len(names)), strict=True))
    pairs = BytePairs([texts[name] for name in names if kinds[name] == "training"], merges)

    def shelf(use: str) -> Shelf:
        chosen = tuple(name for name in names if kinds[name] == use)
        pieces = [pairs.encode(texts[name]) for name in chosen]
        starts = tuple(
            piece.starts_at(sentence_starts(texts[name])) for name, piece in zip(chosen, pieces, strict=True)
        )
        tokens = tuple(piece.tokens for piece in pieces)
        return Shelf(chosen, tokens, starts, sum(len(texts[name]) for name in chosen))

    return Shelves(shelf("training"), shelf("validation"), shelf("test"), pairs.vocabulary)


def named_documents(corpus: str, limit: int | None = None) -> tuple[str, ...]:
    """Names of the documents, or of `limit` of them, spread evenly; nothing is read.

    Raises ValueError for an unknown corpus, for one that is a model or has a part that is read by default, and for
    fewer than seven documents, which leave less than two for the test.
    """
    found = entry(corpus)
    if not found.is_text or found.default is not None:
        raise ValueError(f"corpus: one whose parts are documents is needed, such as books, got {corpus!r}")
    names = found.chosen(None) or tuple(f"{n + 1}" for n in range(found.package.documents if found.package else 0))
    if limit is not None and limit < len(names):
        names = tuple(names[number * len(names) // limit] for number in range(limit))
    if len(names) < CYCLE:
        raise ValueError(
            f"corpus: at least {CYCLE} documents are needed for training, validation and test, "
            f"got {len(names)} of {corpus!r}"
        )
    return names


@cache
def longest_document(corpus: str) -> int:
    """Bytes of the longest document, of which a token has at least one, as the catalogue says or from the package."""
    found = entry(corpus)
    known = [size for part in found.splits.values() if (size := found.files[part.file].bytes)]
    if known:
        return max(known)
    return max(len(text.encode("utf-8")) for text in corpora.load(corpus).documents)
