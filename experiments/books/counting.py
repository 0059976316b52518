"""What counting blocks of tokens gives on long documents: the losses that networks of L2M, Fig. 5, are measured by.

Counted are interpolated n-grams with absolute discounting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field

from experiments.books.run import TEST, by_position, fixed_windows
from experiments.books.texts import named_documents, shelves
from lib.checks import whole_number
from lib.processes.corpora.catalogue import entry
from lib.runs.training import RunParameters

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Parameters(RunParameters):
    """Texts and windows as in book_prediction, and how much is counted."""

    corpus: str = "books"
    documents: int | None = Field(None, ge=1)
    merges: int = Field(768, ge=0)
    context: int = Field(1024, ge=16)
    test: int = Field(24, ge=1)
    data_seed: int = Field(0, ge=0)
    order: int = Field(ge=0)  # tokens of the past that the longest blocks have
    tokens: int | None = Field(None, ge=1)  # at most so many are counted, the same share of every document; all if null


def check(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """All parameters with their defaults; ValueError for what cannot run. No text of a catalogue's file is read."""
    chosen = Parameters.read(parameters, "book_counting")
    named_documents(chosen.corpus, chosen.documents)
    return chosen.model_dump()


def data(parameters: Mapping[str, Any]) -> list[str]:
    """Checksums of the corpus."""
    return entry(parameters["corpus"]).checksums


def run(
    parameters: Mapping[str, Any], seed: int, folder: Path, device: str = "cpu", progress: bool = False
) -> dict[str, Any]:
    """Count blocks in the documents that networks are trained on, and score the windows that networks are scored on.

    Returns the number of tokens counted, and for k = 0 .. order tokens of the past the negative log-likelihood in nats
    a token by position, on average and for every document. Nothing is random: all seeds give the same.
    """
    chosen = Parameters(**parameters)
    texts = shelves(chosen.corpus, chosen.merges, chosen.documents)
    windows = fixed_windows(texts.test, chosen.context, chosen.test, (chosen.data_seed, TEST))
    whole = sum(map(len, texts.training.documents))
    share = 1.0 if chosen.tokens is None else min(1.0, chosen.tokens / whole)
    counted = [document[: int(share * len(document))] for document in texts.training.documents]
    losses = DiscountedCounts(counted, chosen.order, texts.vocabulary).losses(windows.tokens)
    by_order = [by_position(one, windows.documents) for one in losses]
    return {
        "counted_tokens": sum(map(len, counted)),
        "vocabulary": texts.vocabulary,
        "first_seen": by_order[0]["first_seen"],
        "last_seen": by_order[0]["last_seen"],
        "nll": [found["nll"] for found in by_order],  # (order + 1, bins)
        "document_means": [found["document_means"] for found in by_order],
        "mean_nll": [found["mean_nll"] for found in by_order],
        "mean_nll_error": [found["mean_nll_error"] for found in by_order],
    }


@dataclass(frozen=True)
class _Level:
    """Counts of blocks of k tokens that were seen and of the token after them; codes are ascending."""

    blocks: Integers  # codes of block and next token
    counts: Integers
    contexts: Integers  # codes of blocks
    totals: Integers  # how often each occurs with a token after it
    kinds: Integers  # after how many different tokens
    discount: float


class DiscountedCounts:
    """P_k(w | c) = max(n(c w) - d_k, 0) / n(c) + d_k u(c) / n(c) P_{k-1}(w | c without its first token).

    Interpolated absolute discounting (Ney, Essen and Kneser 1994): n counts blocks of the training text, u(c) the
    different tokens after c, d_k = n_1 / (n_1 + 2 n_2) from the blocks of k + 1 tokens that occur once and twice (1/2
    where none occurs once), and P_{-1} is uniform over the vocabulary. For a context that never occurred,
    P_k = P_{k-1}. Every P_k is normalised, and sees k tokens of the past.

    documents: arrays of tokens; no block crosses from one to the next. order: the largest k.
    Raises ValueError for no text, tokens outside the vocabulary, and for vocabulary^(order + 1) above 2^62.
    Cost: O(order T ln T) for T tokens, 16 bytes per token and order; O(order ln T) for a token that is scored.
    """

    def __init__(self, documents: Sequence[ArrayLike], order: int, vocabulary: int) -> None:
        self.order = whole_number(order, "order", 0)
        self.vocabulary = whole_number(vocabulary, "vocabulary", 1)
        if self.vocabulary ** (self.order + 1) > 2**62:
            raise ValueError(
                f"order: vocabulary^(order + 1) of at most 2^62 is allowed, got {self.vocabulary}^{self.order + 1}"
            )
        arrays = [self._checked(document, "documents", 1) for document in documents]
        if not sum(array.size for array in arrays):
            raise ValueError("documents: at least one token is needed, got none")
        self._levels = [self._counted(arrays, k) for k in range(self.order + 1)]

    def losses(self, windows: ArrayLike) -> Floats:
        """-ln P_k(w_t | w_{t-k} .. w_{t-1}), k = 0 .. order, t = 2 .. length, in nats: (order + 1, n, length - 1).

        windows: tokens (n, length). Where fewer than k tokens of the window came before, these are what P_k sees.
        """
        data = self._checked(windows, "windows", 2)
        n, length = data.shape
        found = np.empty((self.order + 1, n, length - 1))
        law = np.full((n, length), 1.0 / self.vocabulary)
        for k, level in enumerate(self._levels):
            if length > k:
                codes = self._codes(data, k + 1)  # (n, length - k): block ends at t >= k
                law[:, k:] = self._mixed(level, codes, law[:, k:])
            found[k] = -np.log(law[:, 1:])
        return found

    def law(self, context: ArrayLike) -> Floats:
        """P_order(. | context), shape (vocabulary,); context: at least one token, of which the last `order` count."""
        before = self._checked(context, "context", 1)
        if not before.size:
            raise ValueError("context: at least one token is needed, got none")
        every = np.arange(self.vocabulary)
        windows = np.column_stack([np.tile(before, (self.vocabulary, 1)), every])
        return np.exp(-self.losses(windows)[-1, :, -1])

    def _checked(self, given: ArrayLike, name: str, axes: int) -> Integers:
        """Tokens as int64, or ValueError."""
        array = np.asarray(given)
        array = array.astype(np.int64) if not array.size else array
        if array.ndim != axes or array.dtype.kind not in "iu":
            raise ValueError(f"{name}: whole numbers on {axes} axes are allowed, got {array.dtype} of {array.shape}")
        if array.size and not 0 <= int(array.min()) <= int(array.max()) < self.vocabulary:
            raise ValueError(
                f"{name}: tokens 0 .. {self.vocabulary - 1} are allowed, got {array.min()} .. {array.max()}"
            )
        return array.astype(np.int64)

    def _codes(self, data: Integers, length: int) -> Integers:
        """The blocks of `length` neighbours in the last axis as numbers in base `vocabulary`."""
        places = data.shape[-1] - length + 1
        codes = np.zeros((*data.shape[:-1], places), dtype=np.int64)
        for place in range(length):
            codes = codes * self.vocabulary + data[..., place : place + places]
        return codes

    def _counted(self, arrays: Sequence[Integers], k: int) -> _Level:
        long_enough = [self._codes(array, k + 1) for array in arrays if array.size > k]
        codes = np.concatenate(long_enough or [np.empty(0, dtype=np.int64)])
        blocks, counts = np.unique(codes, return_counts=True)
        contexts, starts, kinds = np.unique(blocks // self.vocabulary, return_index=True, return_counts=True)
        totals = np.add.reduceat(counts, starts) if counts.size else counts
        once, twice = (int(np.count_nonzero(counts == number)) for number in (1, 2))
        return _Level(blocks, counts, contexts, totals, kinds, once / (once + 2 * twice) if once else 0.5)

    def _mixed(self, level: _Level, codes: Integers, lower: Floats) -> Floats:
        """P_k of the blocks from P_{k-1} of the same tokens."""
        if not level.blocks.size:
            return lower
        place, known = _found(level.contexts, codes // self.vocabulary)
        block, seen = _found(level.blocks, codes)
        kept = np.maximum(np.where(seen, level.counts[block], 0) - level.discount, 0.0)
        own = (kept + level.discount * level.kinds[place] * lower) / level.totals[place]
        return np.where(known, own, lower)


def _found(table: Integers, wanted: Integers) -> tuple[Integers, NDArray[np.bool_]]:
    """Where each wanted number is in the ascending table, and whether it is."""
    place = np.minimum(np.searchsorted(table, wanted), table.size - 1)
    return place, table[place] == wanted
