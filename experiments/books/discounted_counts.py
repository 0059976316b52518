"""Language models that count: interpolated n-grams with absolute discounting, to see what a trained network beats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lib.checks import whole_number

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


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
