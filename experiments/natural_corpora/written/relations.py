"""Does a longer range of information go with the better text? Rank correlations over networks (Shen 2019, App. F)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

from experiments.natural_corpora.written.runs import MIDDLE, SHORT, Band, Runs, WrittenRun
from lib.information.intervals import UNKNOWN, Interval, percentiles

Floats = npt.NDArray[np.float64]
FEWEST = 6  # networks
REDRAWN = 2000  # times that the networks are drawn again
RELATED = 0.5  # rank correlation that is asked for
Number = Callable[[WrittenRun], float]


def nearness(run: WrittenRun, band: Band) -> float:
    """-|ln ratio| of the written to the read information in a band: 0 at best; NaN where either has none."""
    ratio = run.ratio(band).value
    return -abs(float(np.log(ratio))) if ratio > 0 else np.nan


def measure(run: WrittenRun, name: str) -> float:
    """A measure of quality, NaN where there was nothing to measure."""
    found = run.result["quality"][name]
    return np.nan if found is None else float(found)


RELATIONS: dict[str, tuple[Number, Number]] = {
    "spelling goes with the short range": (lambda run: nearness(run, SHORT), lambda run: measure(run, "spelling")),
    "balanced titles go with the intermediate range": (
        lambda run: nearness(run, MIDDLE),
        lambda run: measure(run, "titles"),
    ),
    "closed brackets go with the intermediate range": (
        lambda run: nearness(run, MIDDLE),
        lambda run: measure(run, "brackets"),
    ),
    "a smaller loss goes with a longer range": (lambda run: run.half_distance, lambda run: -run.loss),
}
"""What goes together: a number of the curve, and one of the text, both larger where better."""

REMARKS = ("closed brackets go with the intermediate range", "a smaller loss goes with a longer range")
"""Relations that the paper does not speak of. Its "braces" are the equals signs around a title."""


def points(networks: Iterable[Runs], pair: tuple[Number, Number]) -> Floats:
    """Means over the seeds of every network of both numbers, (networks, 2); those without one are left out."""
    rows = [[float(np.mean([number(run) for run in runs])) for number in pair] for runs in networks if runs]
    found = np.array(rows, dtype=np.float64).reshape(-1, 2)
    return np.asarray(found[np.isfinite(found).all(axis=1)])


def rank_correlation(pairs: Floats, seed: int = 0) -> Interval:
    """Spearman's over rows (networks, 2), with a 95 % interval from networks drawn again.

    UNKNOWN with fewer than six networks, or where one of the two numbers never changes.
    """
    if len(pairs) < FEWEST or np.any(np.ptp(pairs, axis=0) == 0):
        return UNKNOWN
    random = np.random.default_rng(seed)
    drawn = (pairs[random.integers(len(pairs), size=len(pairs))] for _ in range(REDRAWN))
    redrawn = [_spearman(some) for some in drawn if not np.any(np.ptp(some, axis=0) == 0)]
    return percentiles(_spearman(pairs), redrawn, form="+.2f")


def _spearman(pairs: Floats) -> float:
    return float(np.corrcoef(rankdata(pairs, axis=0).T)[0, 1])
