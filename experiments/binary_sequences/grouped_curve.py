"""A curve of mutual information with the curves of disjoint groups of its sequences, and which law it follows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from experiments.binary_sequences.correlation_length import (
    FEWEST_POINTS,
    FLOOR,
    WEIGHTINGS,
    CorrelationLength,
    DecayComparison,
    compare_decay,
    correlation_length,
    points_before_floor,
)
from lib.information.two_point import auto_mutual_information

Floats = npt.NDArray[np.float64]
SIGNS = {"exponential": -1, "undecided": 0, "power law": 1}


@dataclass(frozen=True)
class GroupedCurve:
    """curve: nats at lags 1, 2, ..., n. groups: (g, k), the curves of g disjoint groups at `group_lags`."""

    curve: Floats
    group_lags: npt.NDArray[np.int64]
    groups: Floats

    @property
    def lags(self) -> npt.NDArray[np.int64]:
        return np.arange(1, self.curve.size + 1)

    @cached_property
    def correlation_length(self) -> CorrelationLength | None:
        """xi with both intervals; None where fewer than three points lie above the floor of 1e-3 nats."""
        if np.count_nonzero(self.curve > FLOOR) < 3:
            return None
        return correlation_length(self.lags, self.curve, self.group_lags, self.groups)

    @property
    def xi(self) -> float:
        """Correlation length in symbols; NaN where there is none."""
        return np.nan if self.correlation_length is None else self.correlation_length.value

    @cached_property
    def comparisons(self) -> tuple[DecayComparison, ...]:
        """Exponential against power law: all lags alike, and by precision. Empty for a curve at the floor too soon."""
        thinned = self.curve[self.group_lags - 1]
        if points_before_floor(thinned) < FEWEST_POINTS:
            return ()
        return tuple(
            compare_decay(self.group_lags, thinned, self.groups, weighting=weighting) for weighting in WEIGHTINGS
        )

    @property
    def law(self) -> str:
        """The law that both comparisons find nearer; "undecided" if one is, or they differ, or there are none."""
        return shared(comparison.verdict for comparison in self.comparisons)

    @property
    def sign(self) -> int:
        """-1 for an exponential, 1 for a power law, 0 for undecided."""
        return SIGNS[self.law]


def grouped_curve(
    sequences: npt.ArrayLike, group_lags: npt.ArrayLike, number: int = 10, estimator: str = "grassberger2003"
) -> GroupedCurve:
    """Measure (n, length) sequences at all lags, and `number` groups of them at group_lags.

    Raises ValueError as `auto_mutual_information` does, and for fewer than 3 groups or more groups than sequences.
    O(n length^2).
    """
    rows = np.asarray(sequences)
    if rows.ndim != 2 or not 3 <= number <= len(rows):
        raise ValueError(f"3 to {len(rows) if rows.ndim == 2 else 'n'} groups of sequences (n, length) are allowed, "
                         f"got {number} of shape {rows.shape}")  # fmt: skip
    lags = np.asarray(group_lags)
    groups = [auto_mutual_information(part, lags, estimator, progress=False) for part in np.array_split(rows, number)]
    every = np.arange(1, rows.shape[1])
    curve = auto_mutual_information(rows, every, estimator, progress=False)
    return GroupedCurve(curve, lags.astype(np.int64), np.array(groups))


def shared(verdicts: Iterable[str]) -> str:
    """What all say, or "undecided" if they say different things or nothing."""
    different = set(verdicts)
    return different.pop() if len(different) == 1 else "undecided"
