"""What counting finds between tokens too far apart to know of each other: two plateaus and their difference.

Both pair the same tokens as the curve does, and in blocks, so that neighbouring pairs depend on each other as they do
at any large distance:

- *unrelated*: blocks from anywhere in the corpus. The truth is 0, what is found is the bias of counting.
- *same document*: blocks from elsewhere in the same document. What is found in addition is real, and does not depend
  on the distance: documents use different words, and two tokens of one document were drawn from the same words.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lib.checks import generator, whole_number
from lib.information.documents.segments import Integers, checked_offsets, pair_starts
from lib.processes.discrete.tables import information_of_table

_ATTEMPTS = 1000


def _borders(offsets: npt.ArrayLike) -> Integers:
    """Checked, of documents that fill the text."""
    given = np.asarray(offsets)
    if given.ndim != 1 or given.size < 2 or given.dtype.kind not in "iu":
        raise ValueError(f"offsets: a row of at least two whole numbers is allowed, got {offsets!r}")
    return checked_offsets(given, int(given[-1]))


def common_starts(offsets: npt.ArrayLike, largest_lag: int) -> Integers:
    """Every place whose partner at `largest_lag` is still in its document, so that all lags have the same first tokens.

    offsets: (documents + 1,) borders. Curves over these have as many pairs at every lag, and so very nearly the same
    bias. ValueError if no document is longer than `largest_lag`. O(length).
    """
    whole_number(largest_lag, "largest_lag", 1)
    borders = _borders(offsets)
    lengths = np.diff(borders)
    if lengths.max() <= largest_lag:
        raise ValueError(f"no document is longer than {largest_lag} tokens; the longest has {int(lengths.max())}")
    return np.asarray(pair_starts(largest_lag, borders))


def shuffled_partners(offsets: npt.ArrayLike, block: int, *, within: bool, seed: int | np.random.Generator) -> Integers:
    """A place for every place: blocks of tokens in random order, over the whole corpus or `within` each document.

    offsets: (documents + 1,) borders. The order starts at a random place, and no block meets itself or a neighbour, so
    that partners are at least `block` tokens apart. Documents of fewer than 8 blocks are left out of both kinds: their
    places are -1. Returns (length,). ValueError if no document is that long. O(length).
    """
    whole_number(block, "block", 1)
    random = generator(seed)
    borders = _borders(offsets)
    length = int(borders[-1])
    long_enough = np.diff(borders) >= 8 * block
    if not long_enough.any():
        raise ValueError(
            f"block: at most an eighth of the longest document, {int(np.diff(borders).max())}, got {block}"
        )
    documents = [np.arange(a, b) for a, b in zip(borders[:-1][long_enough], borders[1:][long_enough], strict=True)]
    partners = np.full(length, -1, dtype=np.int64)
    for places in documents if within else [np.concatenate(documents)]:
        moved = np.roll(places, -int(random.integers(places.size)))
        whole = places.size // block
        order = _far_from_itself(whole, random)
        blocks = moved[: whole * block].reshape(whole, block)
        partners[blocks.ravel()] = blocks[order].ravel()
        rest = moved[whole * block :]  # fewer than a block: they meet the same number of places half-way round
        partners[rest] = moved[whole * block // 2 :][: rest.size]
    return partners


def document_information(laws: npt.ArrayLike, weights: npt.ArrayLike) -> float:
    """I(X; Y) in nats of two tokens drawn independently from the distribution of one document, itself drawn by weight.

    P(a, b) = sum_D w_D p_D(a) p_D(b). It is what I(d) tends to at large distance in documents that are uniform but not
    alike, and at most the entropy of D. laws: (documents, symbols), rows >= 0 that sum to 1; weights: (documents,) >= 0
    with sum 1. ValueError otherwise. O(documents symbols^2).
    """
    table, share = np.asarray(laws, dtype=np.float64), np.asarray(weights, dtype=np.float64)
    if table.ndim != 2 or share.shape != table.shape[:1] or np.any(~(table >= 0)) or np.any(~(share >= 0)):
        raise ValueError(f"laws (documents, symbols) and weights (documents,) >= 0, got {table.shape}, {share.shape}")
    if np.abs(table.sum(axis=1) - 1).max() > 1e-9 or abs(float(share.sum()) - 1) > 1e-9:
        raise ValueError("every row of laws and the weights must sum to 1")
    return float(information_of_table(table.T @ (share[:, None] * table)))


def _far_from_itself(number: int, random: np.random.Generator) -> npt.NDArray[Any]:
    """A random order of `number` >= 8 blocks in a circle in which none is at its own place or next to it."""
    order = random.permutation(number)
    here = np.arange(number)
    for _ in range(_ATTEMPTS):
        gap = np.abs(order - here)
        close = np.flatnonzero(np.minimum(gap, number - gap) <= 1)
        if not close.size:
            return order
        for place in close:
            other = int(random.integers(number))
            order[place], order[other] = order[other], order[place]
    raise RuntimeError(f"no order of {number} blocks without neighbours was found")
