"""Windows of documents, of which two blocks are cut: where they start, and whose second block goes with whose first."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lib.checks import generator, plain_array, whole_number
from lib.information.model_estimates import cyclic_shift
from lib.machine import expanded

Integers = NDArray[np.int64]
Short = Literal["refuse", "skip"]


@dataclass(frozen=True)
class Windows:
    """Stretches of one length, none of them across a border of documents; those of a document are neighbours."""

    tokens: NDArray[np.integer[Any]]  # (windows, length)
    documents: Integers  # (windows,), which of the documents given each is from
    starts: Integers  # (windows,), where in it

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def per_document(self) -> int:
        """Windows of one document, the same for all."""
        return int(np.count_nonzero(self.documents == self.documents[0]))

    def head(self, length: int) -> Windows:
        """The first `length` tokens of every window."""
        if not 1 <= length <= self.tokens.shape[1]:
            raise ValueError(f"length: 1 .. {self.tokens.shape[1]} tokens of a window are there, got {length}")
        return Windows(self.tokens[:, :length], self.documents, self.starts)


def document_windows(
    documents: Sequence[ArrayLike],
    length: int,
    *,
    per_document: int = 1,
    allowed: Sequence[ArrayLike] | None = None,
    short: Short = "refuse",
    vocabulary: int | None = None,
    seed: int | np.random.Generator = 0,
) -> Windows:
    """`per_document` windows of `length` tokens from each document, disjoint, at random places.

    A document is cut into `per_document` equal parts, and a window drawn uniformly among the starts in each part that
    leave room in it. documents: arrays of tokens (whole numbers >= 0, below `vocabulary` if given). allowed: for every
    document the places where a window may start, such as beginnings of sentences; None allows all. short: what becomes
    of a document with a part that has no room: "refuse" raises, "skip" leaves the document out.
    ``ValueError`` for other input, also if no document is left. O(total length).
    """
    size, parts = whole_number(length, "length", 1), whole_number(per_document, "per_document", 1)
    if short not in ("refuse", "skip"):
        raise ValueError(f"short: 'refuse' or 'skip' is allowed, got {short!r}")
    if allowed is not None and len(allowed) != len(documents):
        raise ValueError(f"allowed: places for each of {len(documents)} documents are needed, got {len(allowed)}")
    random = generator(seed)
    rows: list[NDArray[np.integer[Any]]] = []
    origins: list[tuple[int, int]] = []
    for number, document in enumerate(documents):
        tokens = checked_tokens(document, f"document {number}", vocabulary)
        places = np.arange(tokens.size) if allowed is None else np.asarray(allowed[number], dtype=np.int64)
        chosen = _drawn(places, tokens.size, size, parts, random)
        if chosen is None:
            if short == "skip":
                continue
            what = "windows" if allowed is None else "windows at an allowed start"
            raise ValueError(
                f"document {number} has {tokens.size} tokens, too few for {parts} {what} of {size}; "
                "take shorter windows, fewer of them, or short='skip'"
            )
        rows += [tokens[start : start + size] for start in chosen]
        origins += [(number, start) for start in chosen]
    if not rows:
        raise ValueError(f"none of {len(documents)} documents has room for {parts} windows of {size} tokens")
    numbers, starts = np.array(origins, dtype=np.int64).T
    return Windows(np.stack(rows), numbers, starts)


def file_windows(
    path: str | Path, length: int, *, documents: int = 32, per_document: int = 1, seed: int | np.random.Generator = 0
) -> Windows:
    """Windows of `length` bytes of a file that may be larger than memory, of which nothing but the windows is read.

    The file is cut into `documents` equal parts; from there on windows are those of `document_windows` on the bytes of
    the parts, tokens from 0 to 255. ``ValueError`` for a file that is missing or too short for so many windows.
    O(windows x length).
    """
    size, parts = whole_number(length, "length", 1), whole_number(per_document, "per_document", 1)
    number, place = whole_number(documents, "documents", 1), expanded(path)
    if not place.is_file():
        raise ValueError(f"path: a file is needed, there is none at {place}")
    total = place.stat().st_size
    borders = total * np.arange(number + 1) // number
    cuts = [begin + (end - begin) * np.arange(parts + 1) // parts for begin, end in itertools.pairwise(borders)]
    firsts, ends = np.concatenate([cut[:-1] for cut in cuts]), np.concatenate([cut[1:] for cut in cuts])
    if np.any(ends - firsts < size):
        raise ValueError(
            f"path: {place} has {total} bytes, too few for {number} x {parts} windows of {size}; take shorter windows "
            "or fewer of them"
        )
    random = generator(seed)
    starts = [int(first + random.integers(end - size + 1 - first)) for first, end in zip(firsts, ends, strict=True)]
    rows = [np.fromfile(place, dtype=np.uint8, count=size, offset=start) for start in starts]
    origins = np.repeat(np.arange(number), parts)
    return Windows(np.stack(rows), origins, np.array(starts) - borders[origins])


def foreign_partners(windows: Windows) -> Integers:
    """Whose second block stands in for each window's own: the same window of the next document, cyclically, (windows,).

    A derangement without 2-cycles in which nobody meets a window of the own document: the negatives of vCLUB (L2M,
    Eq. 7) are then strangers, and each second block serves once. ``ValueError`` for fewer than three documents or
    unequal numbers of windows. O(windows).
    """
    _, counts = np.unique(windows.documents, return_counts=True)
    if counts.size < 3 or np.any(counts != counts[0]):
        raise ValueError(
            f"windows: at least three documents with the same number of windows are needed, got {counts.tolist()[:20]}"
        )
    return cyclic_shift(len(windows), int(counts[0]))


def checked_tokens(tokens: ArrayLike, name: str, vocabulary: int | None = None) -> NDArray[np.integer[Any]]:
    """Tokens (length,) as an integer array; ``ValueError`` unless whole numbers 0 .. vocabulary - 1."""
    array = plain_array(tokens, name)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ValueError(f"{name}: whole numbers of shape (length,) are allowed, got {array.dtype} of {array.shape}")
    if array.size and (int(array.min()) < 0 or (vocabulary is not None and int(array.max()) >= vocabulary)):
        largest = "" if vocabulary is None else f" .. {vocabulary - 1}"
        raise ValueError(f"{name}: tokens 0{largest} are in the vocabulary, got {array.min()} .. {array.max()}")
    return array


def _drawn(places: Integers, total: int, size: int, parts: int, random: np.random.Generator) -> list[int] | None:
    borders = total * np.arange(parts + 1) // parts
    chosen = []
    for begin, end in itertools.pairwise(borders):
        room = places[(places >= begin) & (places + size <= end)]
        if not room.size:
            return None
        chosen.append(int(random.choice(room)))
    return chosen
