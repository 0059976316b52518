"""Auto-mutual information of documents of unequal length, and what the estimator reports where there is nothing to see.

`auto_mutual_information` takes rows of one length. Text comes in documents; here a pair counts if both its symbols lie
in the same document, whatever its length.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from lib.checks import generator, plain_array, whole_number
from lib.information.estimators import entropy
from lib.information.two_point import checked_lags, mutual_information

NUMBERS = 6  # of pairs for which a floor is measured
ATTEMPTS = 1000  # to bring neighbours apart
DENSE_CELLS = 1 << 22  # a table of all pairs is kept up to this size, beyond it the pairs are sorted

Symbols = npt.NDArray[np.unsignedinteger[Any]]
Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def checked_symbols(symbols: npt.ArrayLike) -> tuple[Symbols, int]:
    """Symbols as integers 0, 1, ... of the narrowest type, and how many the numbering has room for, or `ValueError`."""
    array = plain_array(symbols, "symbols")
    if array.ndim != 1 or array.dtype.kind not in "iu" or array.size == 0:
        raise ValueError(f"symbols are a non-empty 1-D array of integers, got shape {array.shape} of {array.dtype}")
    if array.min() < 0:
        raise ValueError(f"symbols are integers >= 0, got {array.min()}")
    size = int(array.max()) + 1
    if size > 4 * array.size:  # far apart: number them anew
        values, array = np.unique(array, return_inverse=True)
        size = len(values)
    return array.astype(np.min_scalar_type(size - 1), copy=False), size  # 500 MB of text stay 500 MB


def checked_offsets(offsets: npt.ArrayLike | None, length: int) -> Integers:
    """Borders of the documents, 0 = offsets[0] <= offsets[1] <= ... <= offsets[-1] = length; `None` is one document."""
    borders = np.array([0, length]) if offsets is None else plain_array(offsets, "offsets")
    valid = borders.ndim == 1 and borders.size >= 2 and borders.dtype.kind in "iu"
    if not valid or borders[0] != 0 or borders[-1] != length or np.any(np.diff(borders.astype(np.int64)) < 0):
        raise ValueError(f"offsets must rise from 0 to the number of symbols, {length}; got {offsets!r}")
    return borders.astype(np.int64)


def borders_of(offsets: npt.ArrayLike) -> Integers:
    """The same of documents that fill a text, whatever its length."""
    given = np.asarray(offsets)
    if given.ndim != 1 or given.size < 2 or given.dtype.kind not in "iu":
        raise ValueError(f"offsets: a row of at least two whole numbers is allowed, got {offsets!r}")
    return checked_offsets(given, int(given[-1]))


def pair_starts(lag: int, offsets: Integers) -> Integers:
    """Every i such that i and i + lag lie in the same document, in order. O(length)."""
    lengths = np.diff(offsets)
    room = np.repeat(offsets[1:], lengths) - np.arange(offsets[-1])  # symbols from i to the end of its document
    return np.flatnonzero(room > lag)


def pair_numbers(lags: npt.ArrayLike, offsets: npt.ArrayLike) -> Integers:
    """How many pairs there are at each lag: sum over documents of max(length - lag, 0), shape (len(lags),)."""
    lengths = np.diff(np.asarray(offsets, dtype=np.int64))
    left = lengths - np.asarray(lags, dtype=np.int64)[:, None]
    return np.asarray(np.maximum(left, 0).sum(axis=1), dtype=np.int64)


def pair_information(first: Symbols, second: Symbols, size: int, estimator: str) -> float:
    """Mutual information (nats) of pairs of symbols below `size`. O(pairs), O(pairs ln pairs) for large alphabets."""
    codes = first.astype(np.int64) * size + second
    joint = np.bincount(codes) if size * size <= DENSE_CELLS else np.unique(codes, return_counts=True)[1]
    marginals = entropy(np.bincount(first), estimator) + entropy(np.bincount(second), estimator)
    return marginals - entropy(joint, estimator)


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _count_pairs(symbols: Any, offsets: Any, lag: int, table: Any) -> None:
    for document in range(len(offsets) - 1):
        for place in range(offsets[document], offsets[document + 1] - lag):
            table[symbols[place], symbols[place + lag]] += 1


def segmented_mutual_information(
    symbols: npt.ArrayLike,
    lags: npt.ArrayLike,
    offsets: npt.ArrayLike | None = None,
    estimator: str = "grassberger2003",
) -> Floats:
    """Auto-mutual information of documents: I(tau) = H(X) + H(Y) - H(X, Y) over pairs tau apart (Shen, Eq. 54).

    symbols: (length,) integers >= 0, the documents one after another; offsets: (documents + 1,) their borders, default
    one document. Only pairs inside a document count, and the marginals come from the same pairs. Returns nats, shape
    (len(lags),). O(length) per lag.
    `ValueError` for lags that no document is long enough for.
    """
    array, size = checked_symbols(symbols)
    borders = checked_offsets(offsets, len(array))
    steps = checked_lags(lags, int(np.diff(borders).max()), least=1)
    curve = np.empty(len(steps))
    for index, lag in enumerate(steps):
        if size * size > DENSE_CELLS:
            starts = pair_starts(int(lag), borders)
            curve[index] = pair_information(array[starts], array[starts + lag], size, estimator)
            continue
        table = np.zeros((size, size), dtype=np.int64)
        _count_pairs(array, borders, int(lag), table)
        curve[index] = mutual_information(table, estimator)
    return curve


def sampling_floor(
    symbols: npt.ArrayLike,
    shuffles: int = 4,
    seed: int | np.random.Generator = 0,
    estimator: str = "grassberger2003",
    block: int = 100,
) -> Floats:
    """What the estimator reports at this sample size where the truth is 0: nats, shape (shuffles,).

    The text is paired, place by place, with a copy of itself whose blocks of `block` symbols are in random order and
    start at a random place. Marginals are those of the text, and neighbouring pairs depend on each other as they do at
    a large lag. `block=1` is the familiar shuffled text; it takes all pairs for independent and so finds too little
    where symbols come in runs. `block` has to exceed the length of those. What is found is the bias that the estimator
    leaves, mostly from the many cells that hold few pairs. A text that repeats itself every `block` symbols keeps its
    phase, and all of its information is taken for the floor; `floor_of_pairs` knows no phase. O(length) per shuffle.
    """
    array, size = checked_symbols(symbols)
    times, whole = whole_number(shuffles, "shuffles", 1), len(array) // whole_number(block, "block", 1)
    if whole < 2:
        raise ValueError(f"block: 1 to {len(array) // 2} symbols are allowed, got {block}")
    random = generator(seed)
    floor: list[float] = []
    for _ in range(times):
        moved = np.roll(array, int(random.integers(len(array))))[: whole * block].reshape(whole, block)
        floor.append(pair_information(array[: whole * block], random.permutation(moved).ravel(), size, estimator))
    return np.array(floor)


def floor_of_pairs(
    symbols: npt.ArrayLike,
    pairs: npt.ArrayLike,
    shuffles: int = 4,
    seed: int | np.random.Generator = 0,
    estimator: str = "grassberger2003",
    block: int = 100,
) -> Floats:
    """The same where fewer pairs are counted than there are, as at a large lag of short documents: (shuffles, k), nats.

    pairs: (k,) whole numbers, 1 to the length. So many pairs are taken, in blocks from all over the text, which have
    half to one and a half times `block` symbols, drawn evenly: no period of the text keeps its phase. It is measured
    for 6 numbers at most; between them what it is per pair changes slowly. Where most cells hold less than a pair the
    floor grows far more slowly than one over the number of pairs. O(length) per shuffle and number.
    """
    array, size = checked_symbols(symbols)
    times, length = whole_number(shuffles, "shuffles", 1), len(array)
    if length // whole_number(block, "block", 1) < 2:
        raise ValueError(f"block: 1 to {length // 2} symbols are allowed, got {block}")
    asked = _pair_counts(pairs, length)
    numbers = np.unique(np.geomspace(asked.min(), asked.max(), NUMBERS).round().astype(np.int64))
    random = generator(seed)
    floor = np.empty((times, len(asked)))
    for row in floor:
        moved = _in_another_order(array, block, random)
        # in blocks, or neighbouring pairs would depend on each other less than all do
        places = _in_another_order(np.arange(length), block, random)
        drawn = (places[:number] for number in numbers)
        found = [pair_information(array[some], moved[some], size, estimator) for some in drawn]
        row[:] = np.interp(np.log(asked), np.log(numbers), np.multiply(found, numbers)) / asked
    return floor


def floor_at_lags(
    symbols: npt.ArrayLike,
    lags: npt.ArrayLike,
    offsets: npt.ArrayLike | None = None,
    shuffles: int = 4,
    seed: int | np.random.Generator = 0,
    estimator: str = "grassberger2003",
    block: int = 100,
) -> Floats:
    """What the estimator reports of the pairs of each lag if their second symbols did not depend on the first: nats.

    Arguments as of `segmented_mutual_information`, whose curve it belongs to. The pairs are those that the documents
    have at the lag, so that both marginals are theirs, and the second symbols change places in blocks as in
    `floor_of_pairs`. Shape (shuffles, len(lags)). It is measured at 12 lags at most, at 2 where the pairs hardly become
    fewer; between them what it is per pair changes slowly. O(length) per shuffle and lag that is measured.
    `ValueError` as from there, and for blocks longer than half of the pairs.
    """
    array, size = checked_symbols(symbols)
    borders = checked_offsets(offsets, len(array))
    steps = checked_lags(lags, int(np.diff(borders).max()), least=1)
    numbers, times = pair_numbers(steps, borders), whole_number(shuffles, "shuffles", 1)
    if numbers.min() // whole_number(block, "block", 1) < 2:
        raise ValueError(f"block: 1 to {numbers.min() // 2} symbols are allowed, got {block}")
    random, few = generator(seed), numbers.max() < 1.1 * numbers.min()
    order = np.unique(numbers, return_index=True)[1]  # from the fewest pairs
    wanted = np.geomspace(numbers.min(), numbers.max(), 2 if few else 2 * NUMBERS)
    nearest = np.unique(np.abs(numbers[order, None] - wanted).argmin(axis=0))
    measured = order[nearest] if few or len(order) > 2 * NUMBERS else order
    floor = np.zeros((times, len(measured)))
    for place, index in enumerate(measured):
        starts = pair_starts(int(steps[index]), borders)
        first, second = array[starts], array[starts + steps[index]]
        for row in floor:
            row[place] = pair_information(first, _in_another_order(second, block, random), size, estimator)
    known, per_pair = np.log(numbers[measured]), floor * numbers[measured]
    return np.array([np.interp(np.log(numbers), known, row) for row in per_pair]) / numbers


def _pair_counts(pairs: npt.ArrayLike, length: int) -> Integers:
    counts = np.array([whole_number(number, "pairs", 1) for number in plain_array(pairs, "pairs").ravel()])
    if not counts.size or counts.max() > length:
        raise ValueError(f"pairs: one or more numbers, 1 to {length}, are allowed, got {counts.tolist()}")
    return counts


def _in_another_order(array: npt.NDArray[Any], block: int, random: np.random.Generator) -> npt.NDArray[Any]:
    """Its entries in blocks of half to one and a half times `block`, the last may be shorter, in random order."""
    least = (block + 1) // 2
    ends = np.cumsum(random.integers(least, least + block, size=len(array) // least + 1))
    borders = np.concatenate([[0], ends[ends < len(array)], [len(array)]]).tolist()
    order = random.permutation(len(borders) - 1).tolist()
    return np.concatenate([array[borders[one] : borders[one + 1]] for one in order])


def shuffled_partners(offsets: npt.ArrayLike, block: int, *, within: bool, seed: int | np.random.Generator) -> Integers:
    """A place for every place: blocks of tokens in random order, over the whole corpus or `within` each document.

    offsets: (documents + 1,) borders. The order starts at a random place, and no block meets itself or a neighbour, so
    that partners are at least `block` tokens apart. Documents of fewer than 8 blocks are left out of both kinds: their
    places are -1. Returns (length,). ValueError if no document is that long. O(length).
    """
    whole_number(block, "block", 1)
    random = generator(seed)
    borders = borders_of(offsets)
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


def _far_from_itself(number: int, random: np.random.Generator) -> npt.NDArray[Any]:
    """A random order of `number` >= 8 blocks in a circle in which none is at its own place or next to it."""
    order = random.permutation(number)
    here = np.arange(number)
    for _ in range(ATTEMPTS):
        gap = np.abs(order - here)
        close = np.flatnonzero(np.minimum(gap, number - gap) <= 1)
        if not close.size:
            return order
        for place in close:
            other = int(random.integers(number))
            order[place], order[other] = order[other], order[place]
    raise RuntimeError(f"no order of {number} blocks without neighbours was found")
