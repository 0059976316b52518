"""A number with its 95 % interval, over seeds by Student's t or over groups by the jackknife."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from lib.checks import real_array, real_number

CONFIDENCE = 0.95
_FORM = re.compile(r"(?P<before>(?:.?[<>=^])?[-+ ]?)z?(?P<behind>.*)", re.DOTALL)  # z: after alignment and sign


@dataclass(frozen=True)
class Interval:
    """A number, the ends of its 95 % interval, NaN where there is none, and the number of every seed where these are.

    form: how it is written, as of a float; f"{interval:+.2f}" writes it in another.
    """

    value: float
    low: float
    high: float
    by_seed: tuple[float, ...] = field(default=(), kw_only=True)
    form: str = field(default=".3g", kw_only=True, compare=False, repr=False)

    @property
    def known(self) -> bool:
        """The number and both ends are there, and finite."""
        return all(map(math.isfinite, (self.value, self.low, self.high)))

    @property
    def ends(self) -> tuple[float, float]:
        return self.low, self.high

    @property
    def sign(self) -> int:
        """1 or -1 where the interval lies on one side of zero, else 0."""
        return int(self.low > 0) - int(self.high < 0)

    def __format__(self, form: str) -> str:
        if math.isnan(self.value):
            return "–"
        chosen = form or self.form
        unsigned = _FORM.sub(r"\g<before>z\g<behind>", chosen, count=1)  # zero is not written as less than zero
        value, low, high = (format(float(number), unsigned) for number in (self.value, *self.ends))
        return value if math.isnan(self.low) and math.isnan(self.high) else f"{value} [{low}, {high}]"

    def __str__(self) -> str:
        return format(self, self.form)


UNKNOWN = Interval(math.nan, math.nan, math.nan)


def seed_mean(values: npt.ArrayLike, confidence: float = CONFIDENCE) -> Interval:
    """Mean over seeds with Student's interval, which takes them as independent and normal; without one below two seeds.

    values: one for each seed; NaN stands for a run that is missing. ValueError for infinite values, for more than one
    dimension, and unless 0 < confidence < 1.
    """
    given = real_array(values, "values")
    if given.ndim != 1 or np.isinf(given).any():
        raise ValueError(f"values: a finite number for every seed, NaN where it is missing, is allowed, got {values!r}")
    if not 0 < real_number(confidence, "confidence") < 1:
        raise ValueError(f"confidence: more than 0 and less than 1 is allowed, got {confidence!r}")
    known = given[~np.isnan(given)]
    value, reach = float(known.mean()) if known.size else math.nan, math.nan
    if known.size > 1:
        reach = float(_student(known.size, confidence) * known.std(ddof=1) / math.sqrt(known.size))
    return Interval(value, value - reach, value + reach, by_seed=tuple(known.tolist()), form=".2f")


def paired_mean(first: Mapping[int, float], second: Mapping[int, float]) -> Interval:
    """`seed_mean` of first minus second, numbers by seed, over the seeds that both have; without an interval below two.

    What the seeds have in common, as the draw of the data, cancels.
    """
    return seed_mean([first[seed] - second[seed] for seed in sorted(first.keys() & second.keys())])


def jackknife(value: float, replicates: npt.ArrayLike) -> Interval:
    """95 % interval of an estimate from g >= 3 replicates, each with one group left out.

    se^2 = (g - 1)/g sum (r_i - mean r)^2, and Student's quantile of g - 1 degrees of freedom (Efron and Stein 1981).
    """
    numbers = real_array(replicates, "replicates")
    count = numbers.size
    if numbers.ndim != 1 or count < 3:
        raise ValueError(f"replicates: at least 3 numbers are needed, got shape {numbers.shape}")
    error = np.sqrt((count - 1) / count * np.sum((numbers - numbers.mean()) ** 2))
    half = float(_student(count, CONFIDENCE) * error)
    return Interval(float(value), float(value) - half, float(value) + half)


def percentiles(value: float, replicates: npt.ArrayLike, form: str = ".3g") -> Interval:
    """95 % interval between quantiles of an estimate's bootstrap replicates (Efron and Tibshirani 1993, Sec. 13.3).

    Without an interval where the estimate, or more of the replicates than are left out at one end, have no value.
    """
    given = np.asarray(replicates, dtype=np.float64)
    known = given[np.isfinite(given)]
    if not math.isfinite(value) or known.size < 0.975 * given.size or not known.size:
        return Interval(value, math.nan, math.nan, form=form)
    return Interval(value, *map(float, np.quantile(known, [0.025, 0.975])), form=form)


def _student(count: int, confidence: float) -> float:
    return float(stdtrit(count - 1, 0.5 + confidence / 2))
