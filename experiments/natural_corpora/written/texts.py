"""Texts to train on, to choose by and to test on, and how they become tokens: characters, or words with their spelling.

A full softmax over the 33 000 words of WikiText-2 would be most of the cost on a CPU. Rare words are therefore spelled
out, one token per character, so that a text can be put together again to the last character.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lib.processes import corpora

Level = Literal["character", "word"]
Name = Literal["wikitext2", "wikitext2-held-out", "prose", "addresses"]
CORPORA: dict[str, tuple[str, ...]] = {
    "wikitext2": ("wikitext2",),
    "wikitext2-held-out": ("wikitext2",),
    "prose": ("books", "sotu"),
    "addresses": ("sotu",),
}
TRAINING = 10_800_000  # characters of `prose` to train on: as many as the training set of WikiText-2 has
HELD_OUT = 500_000  # characters of `prose` to choose by, and as many to test on
UNKNOWN = "\ufffd"  # stands for every character that the training text does not have
_WORD = re.compile(r" ?\n| ?[^ \n]+| ")


class Material(NamedTuple):
    """One text in three parts."""

    training: str
    validation: str  # decides which epoch counts
    test: str


@lru_cache(maxsize=1)  # the runs of a sweep that one process does
def material(name: Name) -> Material:
    """The three parts of a text.

    "wikitext2": its training, validation and test sets. "wikitext2-held-out", where the training set is not at hand:
    the validation set is trained on, the first half of the test set decides, the second half tests. "prose": the novels
    and the addresses of the corpora `books` and `sotu`; of every document the same share from its beginning is trained
    on, 10.8 million characters in all, and what follows it decides and tests. "addresses": those of `sotu` alone, which
    are everywhere; of each four fifths, a tenth and a tenth. Raises CorpusUnavailable where a text is
    not on this machine.
    """
    if name == "wikitext2":
        return Material(*(corpora.load("wikitext2", split).text for split in ("train", "validation", "test")))
    if name == "wikitext2-held-out":
        others = corpora.load("wikitext2", "test").text
        return Material(
            corpora.load("wikitext2", "validation").text, others[: len(others) // 2], others[len(others) // 2 :]
        )
    documents = [document for corpus in CORPORA[name] for document in corpora.load(corpus).documents]
    total = sum(map(len, documents))
    sizes = [TRAINING / total, HELD_OUT / total, HELD_OUT / total] if name == "prose" else [0.8, 0.1, 0.1]
    shares = np.cumsum([0, *sizes])
    parts = itertools.pairwise(shares)
    return Material(*("\n".join(d[int(low * len(d)) : int(high * len(d))] for d in documents) for low, high in parts))


class Pieces:
    """Tokens of a text: `symbols[k]` is what token k stands for in writing.

    At level "character" every character of the training text is one. At level "word" those words of it are that occur
    at least `fewest` times, each with the blank before it, the `most` most frequent ones at most; other words are
    spelled out by characters. Characters that the training text lacks become UNKNOWN, a token of its own.
    """

    def __init__(self, training: str, level: Level, fewest: int = 3, most: int = 8000) -> None:
        self.level = level
        self.letters = (*sorted(set(training) - {UNKNOWN}), UNKNOWN)
        counts = Counter(_WORD.findall(training)) if level == "word" else Counter()
        known = set(self.letters)
        often = [word for word, count in counts.items() if count >= fewest and word not in known]
        words = sorted(often, key=lambda word: (-counts[word], word))[:most]
        self.symbols: tuple[str, ...] = (*self.letters, *words)
        self._number = {symbol: number for number, symbol in enumerate(self.symbols)}

    def encode(self, text: str) -> NDArray[np.int64]:
        """Tokens of a text, (length,). O(length)."""
        unknown, number = self._number[UNKNOWN], self._number
        if self.level == "character":
            return np.fromiter((number.get(character, unknown) for character in text), dtype=np.int64, count=len(text))
        found: list[int] = []
        for word in _WORD.findall(text):
            token = number.get(word)
            found += [token] if token is not None else [number.get(character, unknown) for character in word]
        return np.array(found, dtype=np.int64)

    def decode(self, tokens: Sequence[int] | NDArray[Any]) -> str:
        """The text that tokens spell."""
        return "".join(self.symbols[token] for token in tokens)

    def spelled(self, tokens: NDArray[np.int64]) -> float:
        """Share of the characters that stand as tokens of their own; 1 at level "character"."""
        lengths = np.array([len(symbol) for symbol in self.symbols])[tokens]
        return float(lengths[lengths == 1].sum() / lengths.sum())


def codes(texts: Sequence[str], letters: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Characters of several texts one after another, numbered, and the borders between them."""
    number = {letter: place for place, letter in enumerate(letters)}
    unknown = number[UNKNOWN]
    found = np.fromiter((number.get(letter, unknown) for text in texts for letter in text), dtype=np.int64)
    return found, np.concatenate([[0], np.cumsum([len(text) for text in texts])]).astype(np.int64)


def rows_of(text: str, length: int, total: int) -> list[str]:
    """The first `total` characters of a text in rows of `length`, the last of which may be shorter."""
    return [text[start : min(start + length, total)] for start in range(0, min(total, len(text)), length)]
