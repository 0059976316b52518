"""How many different runs of words a number of sentences shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import comb, expm1, fsum, log1p

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lib.processes.ngram.sentences import Sentence, Word


def expected_seen(
    probabilities: Iterable[Fraction], draws: ArrayLike, population: int | None = None
) -> NDArray[np.float64]:
    """Expected number of runs that occur in at least one of `draws` sentences, same shape.

    A sentence contains run g with probability p_g. Linearity of the mean makes it exact, however the runs depend on
    each other:

        sum_g 1 - (1 - p_g)^k                         k independent draws,
        sum_g 1 - C(M - p_g M, k) / C(M, k)           k different ones of M equally likely sentences (population = M).

    Raises ValueError for draws that are no whole numbers >= 0, or above the population.
    """
    counts = Counter(probabilities)
    sizes = _sizes(draws, population)
    unique, position = np.unique(sizes, return_inverse=True)
    means = [fsum(times * _seen(p, k, population) for p, times in counts.items()) for k in unique.tolist()]
    return np.asarray(np.array(means)[position].reshape(sizes.shape))


def _seen(p: Fraction, draws: int, population: int | None) -> float:
    if population is not None:
        whole = comb(population, draws)
        return (whole - comb(population - int(p * population), draws)) / whole
    return float(draws > 0) if p == 1 else -expm1(draws * log1p(-float(p)))


def _sizes(draws: ArrayLike, population: int | None) -> NDArray[np.int64]:
    """Whole numbers of draws, int64; ValueError otherwise."""
    sizes = np.asarray(draws)
    most = np.inf if population is None else population
    if sizes.dtype.kind not in "iu" or np.any((sizes < 0) | (sizes > most)):
        allowed = ">= 0" if population is None else f"from 0 to the {population} sentences"
        raise ValueError(f"draws: whole numbers {allowed} are allowed, got {draws!r}")
    return sizes.astype(np.int64)


def runs_seen(sentences: Sequence[Sequence[Word]], size: int) -> NDArray[np.int64]:
    """Number of different runs of `size` words in the first 1, 2, ... sentences, (sentences,)."""
    seen: set[Sentence] = set()
    counts = np.empty(len(sentences), dtype=np.int64)
    for i, sentence in enumerate(sentences):
        seen.update(tuple(sentence[j : j + size]) for j in range(len(sentence) - size + 1))
        counts[i] = len(seen)
    return counts
