"""The rules of an n-gram model as arrays: contexts of n - 1 words, and how often each word follows.

Sentences that the rules generate: how many there are, and draws of them. How many different runs of words a number of
sentences shows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import comb, expm1, fsum, inf, lcm, log, log1p
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from lib.checks import generator, plain_array
from lib.processes.ngram.sentences import END, START, Sentence, SentenceList, Word

_LARGEST_TABLE = 2**27  # entries of a dense table of distributions: 1 GiB


@dataclass(frozen=True, eq=False)
class NgramRules:
    """N contexts, and E pairs of a context with a word that follows it; d different words with ids 0 .. d - 1.

    contexts: (N, n - 1) ids; START has id d + 1. bounds: (N + 1,): the followers of context i are entries
    bounds[i] to bounds[i + 1] of following (E,) ids, where the end of the sentence is id d, and of
    weights (E,), whole numbers in proportion to how often the pair occurs.
    """

    words: tuple[Word, ...]
    contexts: NDArray[np.int64]
    bounds: NDArray[np.int64]
    following: NDArray[np.int64]
    weights: NDArray[Any]

    def __len__(self) -> int:
        return int(self.contexts.shape[0])

    @cached_property
    def index(self) -> dict[tuple[int, ...], int]:
        """Row of each context."""
        return {tuple(context): row for row, context in enumerate(self.contexts.tolist())}

    @cached_property
    def totals(self) -> NDArray[Any]:
        """How often each context occurs, in the units of the weights, (N,)."""
        return np.asarray(np.add.reduceat(self.weights, self.bounds[:-1]))

    @cached_property
    def probabilities(self) -> NDArray[np.float64]:
        """P(following | context) of each pair, (E,)."""
        total = np.repeat(self.totals, np.diff(self.bounds))
        return np.asarray(self.weights / total, dtype=np.float64)

    def law(self, row: int) -> dict[int, Fraction]:
        """Exact distribution of the id that follows the context."""
        pairs = slice(int(self.bounds[row]), int(self.bounds[row + 1]))
        ids, weights = self.following[pairs].tolist(), self.weights[pairs].tolist()
        return {i: Fraction(weight, int(self.totals[row])) for i, weight in zip(ids, weights, strict=True)}

    @cached_property
    def successors(self) -> NDArray[np.int64]:
        """Row of the context that each pair leads to, (E,); -1 where no rule goes on."""
        moved = np.column_stack([np.repeat(self.contexts, np.diff(self.bounds), axis=0), self.following])[:, 1:]
        return np.array([self.index.get(tuple(context), -1) for context in moved.tolist()], dtype=np.int64)

    @cached_property
    def log_probabilities(self) -> dict[tuple[int, ...], float]:
        """ln P(following | context) by the n ids of context and following word."""
        rows = np.repeat(self.contexts, np.diff(self.bounds), axis=0)
        runs = np.column_stack([rows, self.following])
        with np.errstate(divide="ignore"):  # a probability that underflows
            logarithms = np.log(self.probabilities).tolist()
        return dict(zip(map(tuple, runs.tolist()), logarithms, strict=True))

    def sparse_laws(self) -> csr_array:
        """The distributions as a sparse table (N, d + 1); the last column is the end of the sentence."""
        shape = (len(self), len(self.words) + 1)
        return csr_array((self.probabilities, self.following, self.bounds), shape=shape)

    def laws(self) -> NDArray[np.float64]:
        """The distributions as a table (N, d + 1). Raises ValueError beyond 1 GiB: take `sparse_laws`."""
        if len(self) * (len(self.words) + 1) > _LARGEST_TABLE:
            raise ValueError(
                f"laws: a dense table of {len(self)} x {len(self.words) + 1} is too large, at most 2^27 entries are "
                "allowed; sparse_laws() has no limit"
            )
        return np.asarray(self.sparse_laws().toarray())

    def row_entropies(self) -> NDArray[np.float64]:
        """Entropy in nats of the distribution of each context, (N,)."""
        p = self.probabilities
        # "+ 0.0" turns the -0.0 of a sure word into 0.0
        return np.asarray(-np.add.reduceat(p * np.log(np.where(p > 0.0, p, 1.0)), self.bounds[:-1]) + 0.0)

    def mean_entropy(self) -> float:
        """Conditional entropy in nats of a word given its context, contexts weighted as they occur."""
        share = np.asarray(self.totals / self.totals.sum(), dtype=np.float64)
        return fsum((share * self.row_entropies()).tolist())


def rules_of_counts(counts: Mapping[tuple[Word, ...], Fraction], words: tuple[Word, ...]) -> NgramRules:
    """Rules from the expected numbers of runs of n words, in the order of the runs."""
    ids = {word: i for i, word in enumerate((*words, END, START))}
    rows: dict[tuple[int, ...], dict[int, Fraction]] = {}
    for run, count in counts.items():
        context = tuple(ids[word] for word in run[:-1])
        rows.setdefault(context, {})[ids[run[-1]]] = count
    scale = lcm(*(count.denominator for count in counts.values()))
    weights = [int(count * scale) for followers in rows.values() for count in followers.values()]
    exact = np.int64 if sum(weights) <= np.iinfo(np.int64).max else object
    return NgramRules(
        words,
        np.array(list(rows), dtype=np.int64).reshape(len(rows), -1),
        np.cumsum([0, *(len(followers) for followers in rows.values())]),
        np.array([i for followers in rows.values() for i in followers], dtype=np.int64),
        np.array(weights, dtype=exact),
    )


def rules_of_text(source: SentenceList, n: int, padding: bool, end: bool) -> NgramRules:
    """Rules by counting, in order of first appearance. Cost O(n words log words)."""
    text, owner, counts = source.marked_text(n - 1 if padding else 0)
    span = max(text.size - n + 1, 0)
    inside = owner[:span] == owner[n - 1 : n - 1 + span]
    if not end:
        inside &= text[n - 1 : n - 1 + span] != len(source.words)
    places = np.flatnonzero(inside)
    names, symbols = np.zeros(places.size, dtype=np.int64), len(source.words) + 2
    for offset in range(n - 1):
        names = np.unique(names * symbols + text[places + offset], return_inverse=True)[1]
    context, place = _by_appearance(names)
    pairs, pair_place, pair_of = np.unique(
        context * symbols + text[places + n - 1], return_index=True, return_inverse=True
    )
    weights = np.zeros(pairs.size, dtype=counts.dtype)
    np.add.at(weights, pair_of, counts[owner[places]])
    order = np.lexsort((pair_place, pairs // symbols))
    first = places[place]
    return NgramRules(
        source.words,
        text[first[:, None] + np.arange(n - 1)],
        np.concatenate([[0], np.cumsum(np.bincount(pairs // symbols, minlength=first.size))]),
        (pairs % symbols)[order],
        weights[order],
    )


def _by_appearance(names: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Names renumbered by first appearance, and where each first appears."""
    _, place, inverse = np.unique(names, return_index=True, return_inverse=True)
    rank = np.empty(place.size, dtype=np.int64)
    rank[np.argsort(place)] = np.arange(place.size)
    return rank[inverse], np.sort(place)


def count_generated(rules: NgramRules, starts: list[int]) -> int | float:
    """Number of different sentences that the rules generate from these rows; infinite if they can run in a loop.

    Paths are counted from the end: a row has one for each pair that ends the sentence, and as many as its successors
    have. Raises ValueError for a row outside the rules. Cost O(pairs).
    """
    if any(not 0 <= start < len(rules) for start in starts):
        raise ValueError(f"starts: rows 0 to {len(rules) - 1} are allowed, got {starts!r}")
    end = len(rules.words)
    ways: dict[int, int] = {}
    open_rows: set[int] = set()  # on the path to the row in hand: meeting one again is a loop
    stack = list(starts)
    while stack:
        row = stack[-1]
        pairs = slice(int(rules.bounds[row]), int(rules.bounds[row + 1]))
        later = [r for r in rules.successors[pairs].tolist() if r >= 0]
        if row in ways:
            stack.pop()
        elif row in open_rows:
            ways[row] = int(np.sum(rules.following[pairs] == end)) + sum(ways[r] for r in later)
            open_rows.remove(row)
            stack.pop()
        elif row in later or open_rows.intersection(later):
            return inf
        else:
            open_rows.add(row)
            stack.extend(r for r in later if r not in ways)
    return sum(ways[start] for start in starts)


def generate_ids(
    rules: NgramRules, starts: list[int], longest: int, seed: int | np.random.Generator
) -> list[list[int]]:
    """Ids that follow each start, drawn one after the other from the rules, up to the end of the sentence.

    A sentence without an end after `longest` words is cut there. Cost O(words).
    """
    random, end, made = generator(seed), len(rules.words), []
    for start in starts:
        row, ids = start, list[int]()
        while row >= 0 and len(ids) < longest:
            low, high = int(rules.bounds[row]), int(rules.bounds[row + 1])
            reach = np.cumsum(rules.probabilities[low:high])
            pair = low + min(int(np.searchsorted(reach, random.random(), side="right")), high - low - 1)
            if rules.following[pair] == end:  # with n = 1 the context () has a rule again
                break
            ids.append(int(rules.following[pair]))
            row = int(rules.successors[pair])
        made.append(ids)
    return made


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
    missing = float(1 - p)  # of one draw; 0 also where all but certain runs are missed by less than a float can say
    if draws == 0 or missing == 0:
        return float(draws > 0)
    return -expm1(draws * (log1p(-float(p)) if p < 0.5 else log(missing)))


def _sizes(draws: ArrayLike, population: int | None) -> NDArray[np.int64]:
    """Whole numbers of draws, int64; ValueError otherwise."""
    sizes = plain_array(draws, "draws")
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
