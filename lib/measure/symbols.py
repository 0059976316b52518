"""A text as symbols that can be counted in pairs: characters, words or byte pairs, the rare ones as one."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from lib.measure.texts import Text
from lib.processes.corpora.reading import digest
from lib.processes.corpora.tokens import Tokens, encode_characters, encode_words, narrow, offsets_of, trained_tokenizer

Level = Literal["character", "word", "byte_pair"]
LEVELS: tuple[Level, ...] = get_args(Level)
VOCABULARY = 1024  # of the byte pairs
LEARNED = 5_000_000  # characters that they are learned on, evenly spread
PIECE = 50_000  # characters that are encoded at a time
TOGETHER = 32  # pieces
MOST = 4096  # symbols


@dataclass(frozen=True, eq=False)
class Symbols:
    """Documents as symbols 0 .. kept - 1, one after another."""

    level: Level
    ids: npt.NDArray[np.unsignedinteger[Any]]  # (length,)
    offsets: npt.NDArray[np.int64]  # (documents + 1,)
    kinds: int  # different ones in the text
    kept: int  # different ones here; the last stands for all rare ones if that is less
    covered: float  # share of the text that is not one of the rare ones

    def __len__(self) -> int:
        return len(self.ids)

    def head(self, length: int) -> Symbols:
        """The first `length` symbols."""
        offsets = np.minimum(self.offsets, length)
        inside = int(np.searchsorted(self.offsets, length))
        ends = np.append(offsets[:inside], min(length, len(self)))
        return Symbols(self.level, self.ids[:length], ends, self.kinds, self.kept, self.covered)


def most_symbols(length: int) -> int:
    """So many symbols may a text of this length have: as many pairs of symbols as pairs of places, at most 4096."""
    return max(2, min(MOST, int(length**0.5)))


def with_rare_ones_alike(
    ids: npt.NDArray[np.unsignedinteger[Any]], most: int
) -> tuple[npt.NDArray[np.unsignedinteger[Any]], int, float]:
    """At most `most` symbols, the most frequent first, all others as the last; how many there are, and what they cover.

    A function of one symbol at a time: information between the results is at most that between the symbols. In return
    the table of pairs has no more cells than there are pairs, and the bias of the estimator stays small. O(length).
    """
    counts = np.bincount(ids)
    kinds = int(np.count_nonzero(counts))
    order = np.argsort(-counts, kind="stable")[:kinds]
    numbers = np.zeros(len(counts), dtype=np.int64)
    numbers[order] = np.minimum(np.arange(kinds), most - 1)
    covered = 1.0 if kinds <= most else float(counts[order[: most - 1]].sum() / counts.sum())
    return narrow(numbers, min(kinds, most))[ids], min(kinds, most), covered


def symbols_of(text: Text, level: Level, encoding: Any = None, most: int | None = None) -> Symbols:
    """The text at a level; `encoding` is that of the byte pairs, by default learned on this text.

    Rare symbols count as one from the `most_symbols` on that its length, or `most`, allows. ``ValueError`` for an
    unknown level.
    """
    if level == "character":
        tokens = encode_characters(text.documents)
    elif level == "word":
        tokens = encode_words(text.documents, as_distributed=False)
    elif level == "byte_pair":
        tokens = _encoded(text, encoding or byte_pairs(text))
    else:
        raise ValueError(f"level: one of {', '.join(LEVELS)} is allowed, got {level!r}")
    kinds = len(np.unique(tokens.ids)) if level == "byte_pair" else len(tokens.vocabulary)
    if not len(tokens):
        return Symbols(level, tokens.ids, tokens.offsets, 0, 0, 1.0)
    ids, kept, covered = with_rare_ones_alike(tokens.ids, most or most_symbols(len(tokens)))
    return Symbols(level, ids, tokens.offsets, kinds, kept, covered)


def byte_pairs(text: Text, vocabulary: int = VOCABULARY) -> Any:
    """A byte-level encoding of so many symbols, learned on up to five million characters of the text."""
    pieces = [piece for _, piece in text.pieces(PIECE)]
    every = -(-text.characters // LEARNED)
    chosen = pieces[::every]
    return trained_tokenizer(chosen, vocabulary, digest("\n".join(chosen).encode("utf-8")))


def _encoded(text: Text, encoding: Any) -> Tokens:
    """All documents as byte pairs, a few pieces at a time: the encoder keeps much more of a piece than its numbers."""
    size = encoding.get_vocab_size()
    ids: list[npt.NDArray[Any]] = []
    lengths = [0] * len(text.documents)
    pieces = text.pieces(PIECE)
    while group := list(itertools.islice(pieces, TOGETHER)):
        found = encoding.encode_batch_fast([piece for _, piece in group])
        for (number, _), one in zip(group, found, strict=True):
            ids.append(narrow(np.array(one.ids, dtype=np.int64), size))
            lengths[number] += len(ids[-1])
    return Tokens("bpe", np.concatenate(ids), (), offsets_of(lengths))
