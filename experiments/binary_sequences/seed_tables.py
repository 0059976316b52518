"""The numbers behind statements and figures: for every network of a size, one column for every seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from experiments.binary_sequences.runs import Axis, Floats, Networks, TrainedRun, best, mean_ratio


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


def law_signs(
    networks: Networks, sizes: Sequence[int], seeds: int, axis: Axis = "width", widest: float = np.inf
) -> Floats:
    """Which law each run follows: -1 exponential, 0 undecided, 1 power law. As in `length_table`.

    NaN where a comparison's advantage has an interval wider than `widest`: it could not have told the laws apart.
    """

    def sign(run: TrainedRun) -> float:
        spans = [found.advantage.high - found.advantage.low for found in run.measured.comparisons]
        return np.nan if spans and max(spans) > widest else run.measured.sign

    return _table(networks, sizes, seeds, axis, sign)


def tail_signs(networks: Networks, sizes: Sequence[int], seeds: int, axis: Axis = "width") -> Floats:
    """The same of the tail beyond the window, NaN where a run has none."""
    return _table(networks, sizes, seeds, axis, lambda run: run.tail_sign)


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
