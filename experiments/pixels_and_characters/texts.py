"""Texts as characters, for training, validation and test, and what counts of short runs of characters predict."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from lib.processes import corpora
from lib.processes.corpora.catalogue import entry

Tokens = NDArray[np.uint8] | NDArray[np.int64]
SPLITS = ("train", "validation", "test")  # of corpora that have them
CYCLE = 7  # documents of the others: of seven
TEST, VALIDATION = (2, 5), (3,)  # these, counted from 0; the others are trained on
RAREST = 1e-6  # share of the training text; characters that are rarer are one symbol together
DISCOUNT = 0.75  # of every count, given to the shorter run


@dataclass(frozen=True)
class Texts:
    """Characters as numbers 0 .. vocabulary - 1; the last one stands for all rare characters."""

    training: Tokens
    validation: Tokens
    test: Tokens
    vocabulary: int


def refuse_unfit(corpus: str) -> None:
    """Raise ValueError for a corpus without parts or enough documents to train, validate and test on."""
    found = entry(corpus)
    count = len(found.splits) if found.package is None else found.package.documents
    if not found.is_text or (not set(SPLITS) <= set(found.splits) and (found.default or count < CYCLE)):
        raise ValueError(f"corpus: parts {', '.join(SPLITS)} or {CYCLE} documents are needed, not in {corpus!r}")


@lru_cache(maxsize=1)  # the runs of a sweep that one process does
def texts(corpus: str, characters: int | None, validated: int, tested: int) -> Texts:
    """Characters of a corpus: its own parts, or whole documents by turns.

    characters: of the training text, the first ones; all if None. validated, tested: at most so many, an equal share
    from the beginning of every document. Raises CorpusUnavailable for one that is not here, ValueError for one unfit.
    """
    refuse_unfit(corpus)
    if set(SPLITS) <= set(entry(corpus).splits):
        parts = [[plain(corpora.load(corpus, split).text)] for split in SPLITS]
    else:
        documents = corpora.load(corpus).documents
        kinds = [number % CYCLE for number in range(len(documents))]
        uses, held = set(range(CYCLE)), {*TEST, *VALIDATION}
        parts = [
            [text for text, kind in zip(documents, kinds, strict=True) if kind in chosen]
            for chosen in (uses.difference(held), set(VALIDATION), set(TEST))
        ]
    training = "\n".join(parts[0])[:characters]
    others = [
        "\n".join(text[: most // len(some)] for text in some)
        for some, most in zip(parts[1:], (validated, tested), strict=True)
    ]
    codes = np.bincount(_codes(training))
    known = np.flatnonzero(codes >= max(1, RAREST * len(training)))
    numbers = np.full(0x110000, len(known), dtype=np.int64)
    numbers[known] = np.arange(len(known))
    narrow = numbers.astype(np.uint8) if len(known) < 256 else numbers  # an eighth of the memory
    tokens = [narrow[_codes(text)] for text in (training, *others)]
    return Texts(tokens[0], tokens[1], tokens[2], len(known) + 1)


def plain(text: str) -> str:
    """Lines as distributed, words between blanks, as characters: stripped, with the line end as one symbol."""
    return "".join(f"{line.strip()}\n" for line in text.split("\n") if line.strip())


def floors(training: Tokens, test: Tokens, vocabulary: int) -> dict[str, float]:
    """Bits per character of the test text from counts of 1, 2 and 3 characters in the training text.

    P(c | ab) = max(n_abc - D, 0) / n_ab + D (different c after ab) / n_ab P(c | b), and so on down to P(c), whose
    counts are raised by 1; D = 0.75. Cost O(text + vocabulary^3).
    """
    wide, read = training.astype(np.int32), test.astype(np.int32)
    counts = np.bincount(wide, minlength=vocabulary) + 1.0
    laws = [counts / counts.sum()]
    for order in (2, 3):
        runs = sum(wide[k : len(wide) - order + 1 + k] * vocabulary ** (order - 1 - k) for k in range(order))
        table = np.bincount(runs, minlength=vocabulary**order).reshape((vocabulary,) * order).astype(np.float64)
        total = np.maximum(1.0, table.sum(axis=-1, keepdims=True))
        spared = np.where(table.any(axis=-1, keepdims=True), DISCOUNT * (table > 0).sum(axis=-1, keepdims=True), total)
        laws.append(np.maximum(table - DISCOUNT, 0.0) / total + spared / total * laws[-1])
    places = [read[2:], (read[1:-1], read[2:]), (read[:-2], read[1:-1], read[2:])]
    bits = [float(-np.log2(law[place]).mean()) for law, place in zip(laws, places, strict=True)]
    return dict(zip(("unigram", "bigram", "trigram"), bits, strict=True))


def _codes(text: str) -> NDArray[np.uint32]:
    return np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)
