"""The numbers behind statements and figures: for every network of a size, one column for every seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from experiments.binary_sequences.decay import DecayComparison, Weighting
from experiments.binary_sequences.runs import Axis, Floats, Networks, TrainedRun, best, farthest_octave, mean_ratio
from lib.report.verdicts import DISCORD, FEWEST_SEEDS, TOO_WIDE, UNMET


@dataclass(frozen=True)
class Lengths:
    """Correlation lengths, in symbols, along one axis of networks.

    sizes: (n,) widths or depths. best: (n,), of the seed with the smallest validation loss. seeds: (n, s), NaN where a
    seed is not there. textbook, sampling: (n, 2), 95 % intervals of `best`.
    """

    sizes: npt.NDArray[np.int64]
    best: Floats
    seeds: Floats
    textbook: Floats
    sampling: Floats


def correlation_lengths(networks: Networks, axis: Axis = "width") -> Lengths:
    """Collect them. Raises ValueError without networks."""
    if not networks:
        raise ValueError("networks: at least one is needed, got none; are its runs recorded?")
    sizes = [getattr(network, axis) for network in networks]
    values = length_table(networks, sizes, 1 + max(run.seed for runs in networks.values() for run in runs), axis)
    chosen = [best(runs).measured.correlation_length for runs in networks.values()]
    nothing = (np.nan, np.nan)
    return Lengths(
        np.array(sizes),
        values[:, -1],
        values[:, :-1],
        np.array([nothing if xi is None else xi.textbook for xi in chosen]),
        np.array([nothing if xi is None or xi.sampling is None else xi.sampling for xi in chosen]),
    )


@dataclass(frozen=True)
class Laws:
    """Which law each run names, as the numbers of a statement: -1 exponential, 0 none, 1 power law.

    Numbers are those of `length_table`, of the networks of one architecture and these sizes. weighting: the comparison
    that is asked, both if None. tail: of the tail beyond the window, NaN where a run has none. widest: NaN where a
    comparison's advantage has a wider interval, since it could not have told the laws apart.
    """

    architecture: str
    sizes: Sequence[int]
    axis: Axis = "width"
    widest: float = np.inf
    weighting: Weighting | None = None
    tail: bool = False

    def __call__(self, networks: Mapping[str, Networks], seeds: int) -> Floats:
        return _table(networks[self.architecture], self.sizes, seeds, self.axis, self._sign)

    def reason(self, networks: Mapping[str, Networks], seeds: int, given: str) -> tuple[str, str]:
        """Why no law is named, where `decide` has `given` one of ``REASONS``; and of how many runs that is so.

        Where each run without a law has two comparisons that name different laws, no interval is too wide; where all
        runs are there and some are left out because an interval is too wide, none is missing. Else what was given.
        """
        some = networks[self.architecture].items()
        runs = [run for network, own in some if getattr(network, self.axis) in self.sizes for run in own]
        nameless = [self._signs(run) for run in runs if self._sign(run) == 0]
        if given == TOO_WIDE and nameless and all(signs == {-1, 1} for signs in nameless):
            return DISCORD, f"in {len(nameless)} of {len(runs)} runs the two comparisons name different laws"
        blurred = sum(self._blurred(run) for run in runs)
        whole = replace(self, widest=np.inf)(networks, seeds)
        if given == UNMET and blurred and np.all(np.count_nonzero(~np.isnan(whole), axis=1) > FEWEST_SEEDS):
            return TOO_WIDE, f"in {blurred} of {len(runs)} runs an interval is wider than {self.widest:g}"
        return given, ""

    def _compared(self, run: TrainedRun) -> list[DecayComparison]:
        every = run.tail if self.tail else run.measured.comparisons
        return [found for found in every if self.weighting in (None, found.weighting)]

    def _signs(self, run: TrainedRun) -> set[int]:
        return {found.advantage.sign for found in self._compared(run)}

    def _blurred(self, run: TrainedRun) -> bool:
        return any(found.advantage.high - found.advantage.low > self.widest for found in self._compared(run))

    def _sign(self, run: TrainedRun) -> float:
        if self._blurred(run):
            return np.nan
        if self.weighting is None:
            return run.tail_sign if self.tail else run.measured.sign
        return next(iter(self._signs(run)), np.nan if self.tail else 0)


def length_table(networks: Networks, sizes: Sequence[int], seeds: int, axis: Axis = "width") -> Floats:
    """Correlation lengths: (sizes, seeds + 1), the last column that of the best seed; NaN where there is none."""
    return _table(networks, sizes, seeds, axis, lambda run: run.measured.xi)


def ratio_to_law(
    networks: Networks,
    sizes: Sequence[int],
    seeds: int,
    law: npt.ArrayLike,
    first: int,
    last: int,
    axis: Axis = "width",
) -> Floats:
    """Mean of I over the exact curve (nats at lags 1, 2, ...) at lags first .. last. As in `length_table`."""
    return _table(networks, sizes, seeds, axis, lambda run: mean_ratio(run, law, first, last))


def factor_off_law(
    networks: Networks, sizes: Sequence[int], seeds: int, law: npt.ArrayLike, last: int, axis: Axis = "width"
) -> Floats:
    """By what factor I is off the exact curve in the octave of lags where it is farthest. As in `length_table`."""
    return _table(networks, sizes, seeds, axis, lambda run: farthest_octave(run, law, last))


def growth(sizes: Sequence[int], lengths: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Does a length grow with the logarithm of a size, or with the size itself? lengths: (sizes, columns).

    Returns, for each column, the slope of a straight line in ln(size), and ln of the squared residuals of the line in
    the size over those of the line in its logarithm: positive where the logarithm is nearer. NaN where a length is
    missing. Raises ValueError for fewer than 3 sizes and for other shapes.
    """
    size, table = np.asarray(sizes, dtype=np.float64), np.asarray(lengths, dtype=np.float64)
    if size.ndim != 1 or size.size < 3 or table.ndim != 2 or len(table) != size.size:
        raise ValueError(f"at least 3 sizes and lengths (sizes, columns) are needed, got {size.shape}, {table.shape}")
    slopes, advantages = np.full((2, table.shape[1]), np.nan)
    for column, values in enumerate(table.T):
        if np.all(np.isfinite(values)):
            slopes[column], logarithmic = _line(np.log(size), values)
            advantages[column] = np.log(_line(size, values)[1] / logarithmic)
    return slopes, advantages


def growth_with_and_without(sizes: Sequence[int], lengths: npt.ArrayLike) -> tuple[Floats, Floats]:
    """`growth` over all sizes and, again, without the first, which alone may tilt a line: (2, 2 columns).

    lengths: as from `length_table`. The columns are all seeds, all seeds without the first size, and the best seed both
    ways, the smaller number last. So a row is inside a bound only if it is both ways. NaN with fewer than three seeds
    that have every length.
    """
    table = np.asarray(lengths, dtype=np.float64)
    ways = [np.array(growth(sizes[skipped:], table[skipped:])) for skipped in (0, 1)]
    best_seed = np.sort(np.hstack([way[:, -1:] for way in ways]))[:, ::-1]
    found = np.hstack([*(way[:, :-1] for way in ways), best_seed])
    complete = np.isfinite(table[:, :-1]).all(axis=0).sum() >= FEWEST_SEEDS
    slopes, advantages = found if complete else np.full_like(found, np.nan)
    return slopes, advantages


def place_between(lengths: npt.ArrayLike) -> Floats:
    """Where the second of three lengths lies between the first (0) and the third (1): (3, columns) -> (columns,)."""
    first, second, third = np.asarray(lengths, dtype=np.float64)
    return np.asarray((second - first) / (third - first))


def _line(x: Floats, y: Floats) -> tuple[float, float]:
    """Slope and sum of squared residuals, not below what rounding leaves."""
    slope, offset = np.polyfit(x, y, 1)
    return float(slope), max(float(np.sum((y - slope * x - offset) ** 2)), 1e-20 * float(y @ y))


def _table(
    networks: Networks, sizes: Sequence[int], seeds: int, axis: Axis, number: Callable[[TrainedRun], float]
) -> Floats:
    table = np.full((len(sizes), seeds + 1), np.nan)
    for network, runs in networks.items():
        if getattr(network, axis) in sizes:
            row = table[list(sizes).index(getattr(network, axis))]
            for run in runs:
                row[run.seed] = number(run)
            row[-1] = number(best(runs))
    return table
