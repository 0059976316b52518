"""The two-point information of a text beside its floor, with bands by blocks; what drift alone would give."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from lib.information.documents.leave_out import leave_blocks_out
from lib.information.documents.segments import floor_of_pairs, pair_information, pair_numbers
from lib.information.intervals import UNKNOWN, Interval, percentiles, seed_mean
from lib.measure.symbols import Symbols

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
BLOCKS = 32
BLOCK = 101  # symbols that stay together where the floor is measured, about
SHUFFLES = 4
REPLICATES = 400
LAGS = 48
SHORTEST = 40  # symbols: below, there is no curve
LEFT = 0.1  # of the pairs at distance 1, at every distance
FLOOR_ERROR = 0.02  # of the floor: by so much may what is taken off be wrong, beside its spread
ESTIMATOR = "grassberger2003"


@dataclass(frozen=True)
class Curve:
    """Information of symbols at a distance, nats, (lags,) each."""

    lags: Integers
    information: Floats  # as estimated, floor included
    floor: Floats  # what the estimator reports where there is nothing
    floor_error: Floats  # one standard deviation of the floor, common to all distances
    replicates: Floats  # (replicates, lags) of information less floor, by blocks of the text

    @cached_property
    def noise(self) -> Floats:
        """One standard deviation of the excess."""
        return np.asarray(np.hypot(self.replicates.std(axis=0, ddof=1), self.floor_error))

    def means(self, inside: npt.NDArray[np.bool_], seed: int) -> Floats:
        """Mean excess over some distances in every replicate, the floor moved by its error, (replicates,)."""
        moved = np.random.default_rng(seed).standard_normal(len(self.replicates))
        return np.asarray(self.replicates[:, inside].mean(axis=1) + moved * self.floor_error[inside].mean())

    @property
    def excess(self) -> Floats:
        """Information less floor."""
        return self.information - self.floor

    @property
    def band(self) -> tuple[Floats, Floats]:
        """Ends of the 95 % intervals of `information`; of two symbols with little of it they hold about 80 %.

        Of many symbols, whose pairs are rare, they are up to 1.5 times too wide.
        """
        low, high = np.quantile(self.replicates, [0.025, 0.975], axis=0)
        return low + self.floor, high + self.floor


def distances(symbols: Symbols, largest: int, count: int = LAGS) -> Integers:
    """Whole numbers from 1, evenly spaced in the logarithm, as far as blocks and documents are long enough.

    At every distance there are more pairs than start in one block, so that the curve without any block exists.
    """
    lengths = np.diff(symbols.offsets)
    most = min(largest, len(symbols) // blocks_of(len(symbols)), int(lengths.max()) - 1)
    grid = np.unique(np.geomspace(1, max(most, 1), count).round().astype(np.int64))
    numbers = pair_numbers(grid, symbols.offsets)
    return np.asarray(grid[numbers >= max(LEFT * numbers[0], fewest_pairs(len(symbols)))])


def fewest_pairs(length: int) -> int:
    """So many pairs that some are left without any block, which holds one start less at most."""
    return length // blocks_of(length) + 2


def blocks_of(length: int) -> int:
    """32 blocks of the text, fewer where they would be shorter than 101 symbols, but at least 4."""
    return int(np.clip(length // BLOCK, 4, BLOCKS))


def measure_curve(symbols: Symbols, lags: Integers, seed: int = 0, workers: int | None = None) -> Curve:
    """The curve at these distances, its floor from rows of about 101 symbols in random order, its spread by blocks.

    The floor of a distance is that of as many pairs as it has. The noise has three parts: the blocks, the spread of the
    floor from shuffle to shuffle, and 2 % of the floor. The bias of dependent pairs is not that of shuffled ones: it
    differs by about floor excess/entropy, a part of the excess. O(length + symbols^2) per lag.
    """
    random = np.random.default_rng(seed)
    ids, length = symbols.ids, len(symbols)
    found = leave_blocks_out(ids, lags, symbols.offsets, blocks=blocks_of(length), estimator=ESTIMATOR, workers=workers)
    numbers = pair_numbers(lags, symbols.offsets)
    shuffled = floor_of_pairs(ids, numbers, SHUFFLES, random, ESTIMATOR, max(1, min(BLOCK, length // 10)))
    floor = shuffled.mean(axis=0)
    replicates = found.replicates(REPLICATES, random) - floor
    of_floor = np.hypot(shuffled.std(axis=0, ddof=1) / np.sqrt(SHUFFLES), FLOOR_ERROR * abs(floor))
    return Curve(lags, found.curve, floor, of_floor, replicates)


def drift(symbols: Symbols, seed: int = 0) -> Interval:
    """Information at any distance that slow change alone would give, nats: symbols shuffled within pieces of the text.

    Pairs of one piece (a document, or one of 32 stretches of equal length) whose order is lost tell of each other only
    what the piece tells of both, if none is a symbol with itself: each is paired with the next of its piece, the last
    with the first. Less the same of a text shuffled as a whole; the interval is Student's over shuffles. A tail that
    lies at this level may be change of subject and nothing more. O(length) per shuffle.
    """
    random = np.random.default_rng(seed)
    length = len(symbols)
    documents = len(symbols.offsets) - 1
    borders = symbols.offsets if documents >= BLOCKS else np.linspace(0, length, blocks_of(length) + 1).astype(int)
    whole = np.array([0, length])
    values = [_shuffled(symbols, borders, random) - _shuffled(symbols, whole, random) for _ in range(SHUFFLES)]
    return seed_mean(values)


def _shuffled(symbols: Symbols, borders: Integers, random: np.random.Generator) -> float:
    """Information of neighbours where the order within every piece is lost, nats; pieces of one symbol have none."""
    first = symbols.ids.copy()
    for start, stop in itertools.pairwise(borders.tolist()):
        random.shuffle(first[start:stop])
    filled = borders[:-1][np.diff(borders) > 0]
    second = np.roll(first, -1)
    second[np.append(filled[1:], len(first)) - 1] = first[filled]
    lengths = np.diff(borders)
    paired = np.repeat(lengths > 1, lengths)
    return pair_information(first[paired], second[paired], symbols.kept, ESTIMATOR)


def halves(symbols: Symbols, lags: Integers, seed: int = 0) -> Interval:
    """ln of the information of the first half over that of the second, mean over distances; 95 % by blocks of both
    (of two symbols they held 0 in 54 of 60 uniform texts).

    NaN where a half does not rise above its floor. 0 for a uniform text.
    """
    middle = len(symbols) // 2
    parts: list[Floats] = []
    for half, borders in (
        (symbols.ids[:middle], np.minimum(symbols.offsets, middle)),
        (symbols.ids[middle:], np.maximum(symbols.offsets - middle, 0)),
    ):
        inside = np.unique(np.append(borders[borders <= len(half)], len(half)))
        part = Symbols(symbols.level, half, inside, symbols.kinds, symbols.kept, symbols.covered)
        near = lags[lags < np.diff(inside).max()]
        near = near[near * blocks_of(len(half)) <= len(half)]
        near = near[pair_numbers(near, inside) >= fewest_pairs(len(half))]
        if not near.size:
            return UNKNOWN
        parts.append(measure_curve(part, near, seed + len(parts)).replicates.mean(axis=1))
    if any(part.mean() <= 2 * part.std() for part in parts):
        return UNKNOWN
    first, second = (np.log(np.where(part > 0, part, np.nan)) for part in parts)
    return percentiles(float(np.log(parts[0].mean() / parts[1].mean())), first - second, form="+.2f")
