"""How the exponent goes with the quality of q: a line through all models, and where it leads for better ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from experiments.text_information.runs import TextRun
from lib.information.intervals import UNKNOWN, Interval, percentiles

Floats = NDArray[np.float64]
FEWEST = 5  # models
REPLICATES = 2000


@dataclass(frozen=True)
class Line:
    """beta = a + b loss over models; loss in nats per character."""

    losses: Floats  # (models,)
    exponents: Floats  # (models,)
    coefficients: Floats  # (replicates, 2), a and b of models and documents drawn with replacement
    scatter: Floats  # (replicates,), a residual of each replicate, drawn among its models

    @property
    def fitted(self) -> tuple[float, float]:
        """a and b."""
        slope, level = np.polyfit(self.losses, self.exponents, 1)
        return float(level), float(slope)

    @property
    def slope(self) -> Interval:
        """b; negative if better models find larger exponents."""
        return percentiles(self.fitted[1], self.coefficients[:, 1])

    def at(self, loss: float) -> Interval:
        """beta of one more model of this loss: 95 % of what the line and the scatter of the models about it allow."""
        level, slope = self.fitted
        return percentiles(level + slope * loss, self.coefficients @ [1.0, loss] + self.scatter)


def line_through(losses: ArrayLike, exponents: ArrayLike, resampled: ArrayLike, seed: int = 0) -> Line | None:
    """The line of least squares through exponents (models,) at losses (models,); None for fewer than FEWEST models.

    resampled: exponents of the same models from documents drawn with replacement, (models, replicates of documents).
    Models without an exponent are left out. Each of 2000 replicates draws models and one column of `resampled`, without
    the models that have no exponent there; draws with fewer than three different losses are drawn again, and residuals
    are widened by sqrt(m / (m - 2)) for the two numbers that the line has taken from m models. Raises ValueError for
    shapes that do not belong together.
    """
    x, y, drawn = (np.asarray(given, dtype=np.float64) for given in (losses, exponents, resampled))
    if x.ndim != 1 or y.shape != x.shape or drawn.ndim != 2 or len(drawn) != x.size:
        raise ValueError(
            "losses (models,), exponents (models,) and resampled (models, replicates) are needed, got "
            f"{x.shape}, {y.shape} and {drawn.shape}"
        )
    kept = np.isfinite(x) & np.isfinite(y)
    x, y, drawn = x[kept], y[kept], drawn[kept]
    known = np.isfinite(drawn)
    columns = np.flatnonzero([np.unique(x[some]).size >= 3 for some in known.T])
    if x.size < FEWEST or np.unique(x).size < 3 or not columns.size:
        return None
    random, rest = np.random.default_rng(seed), y - np.polyval(np.polyfit(x, y, 1), x)
    wide = np.sqrt(x.size / (x.size - 2)) * rest
    found: list[tuple[float, float, float]] = []
    while len(found) < REPLICATES:
        chosen, column = random.integers(x.size, size=x.size), columns[random.integers(columns.size)]
        chosen = chosen[known[chosen, column]]
        if np.unique(x[chosen]).size < 3:
            continue
        slope, level = np.polyfit(x[chosen], drawn[chosen, column], 1)
        found.append((level, slope, wide[random.integers(x.size)]))
    table = np.array(found)
    return Line(x, y, table[:, :2], table[:, 2])


def line_of(runs: Sequence[TextRun], estimator: str) -> Line | None:
    """`line_through` the exponents of models.

    Where these read other documents, a column of `resampled` joins draws that have nothing in common.
    """
    laws = [run.law(estimator) for run in runs]
    count = min((law.exponents.size for law in laws if law is not None), default=1)
    values = [np.nan if law is None else law.exponent for law in laws]
    drawn = [np.full(count, np.nan) if law is None else law.exponents[:count] for law in laws]
    return line_through([run.loss for run in runs], values, np.array(drawn).reshape(len(runs), count))


def exponent_at(line: Line | None, loss: float) -> Interval:
    """`Line.at`, unknown without a line."""
    return UNKNOWN if line is None else line.at(loss)
