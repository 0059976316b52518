"""Comparisons of networks on the same windows, with intervals over documents and seeds, and verdicts on them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.books.runs import BookRun
from lib.information.intervals import Interval
from lib.report.verdicts import judge

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Curves:
    """NLL by bins of tokens seen of one network, nats per token."""

    values: Floats  # (seeds, documents, bins)
    first: NDArray[np.int64]  # (bins,), tokens seen
    last: NDArray[np.int64]

    @property
    def mean(self) -> Floats:
        """Over seeds and documents, (bins,)."""
        return np.asarray(self.values.mean(axis=(0, 1)))

    def weights(self, first: int = 1, last: int | None = None) -> Floats:
        """What bins weigh in the mean over the positions first .. last, (bins,); sums to 1.

        Raises ValueError where a bin would have to be cut.
        """
        stop = int(self.last[-1]) if last is None else last
        if first not in self.first or stop not in self.last or first > stop:
            raise ValueError(f"tokens seen: bins up to {self.last[-1]} cannot be cut at {first} .. {stop}")
        inside = (self.first >= first) & (self.last <= stop)
        widths = np.where(inside, self.last - self.first + 1, 0).astype(np.float64)
        return np.asarray(widths / widths.sum())


def curves_of(runs: Sequence[BookRun]) -> Curves:
    """The runs of one network. Raises ValueError without runs, and for runs that were scored on other windows."""
    if not runs:
        raise ValueError("runs: at least one is needed, got none")
    _require_same_windows(runs)
    result = runs[0].result
    return Curves(
        np.array([run.by_document for run in runs]), np.array(result["first_seen"]), np.array(result["last_seen"])
    )


def resampled(curves: Sequence[Curves], replicates: int, seed: int) -> list[Floats]:
    """Bootstrap of mean curves, (replicates, bins) for each network: documents are drawn for all networks together.

    Seeds are drawn for each network by itself, as they were trained. Both are few: deviations from the mean of n units
    are stretched by sqrt(n / (n - 1)), without which the bootstrap's variance is that factor squared too small (Rao and
    Wu 1988). With one seed its variance is missing. Raises ValueError for less than two documents and unequal ones.
    """
    counts = {one.values.shape[1] for one in curves}
    if len(counts) != 1 or min(counts) < 2:
        raise ValueError(f"documents: at least two, the same for all networks, are needed, got {sorted(counts)}")
    random = np.random.default_rng(seed)
    documents = _weights(random, counts.pop(), replicates)
    return [
        np.asarray(np.einsum("rs,rd,sdb->rb", _weights(random, len(one.values), replicates), documents, one.values))
        for one in curves
    ]


def contrast(
    number: Callable[..., Any], groups: Sequence[Sequence[BookRun]], *, replicates: int = 2000, seed: int = 0
) -> Interval:
    """`number` of the mean curves (..., bins) of several networks, with its percentile interval from `resampled`.

    groups: the runs of each network. Raises ValueError if they were not scored on the same windows.
    """
    _require_same_windows([run for group in groups for run in group])
    curves = [curves_of(group) for group in groups]
    draws = np.asarray(number(*resampled(curves, replicates, seed)))
    low, high = np.quantile(draws, [0.025, 0.975], method="inverted_cdf")
    shared = sorted(set.intersection(*({run.seed for run in group} for group in groups)))
    alone = [
        [next(run for run in group if run.seed == one).by_document.mean(axis=0) for group in groups] for one in shared
    ]
    return Interval(
        float(number(*(one.mean for one in curves))),
        float(low),
        float(high),
        by_seed=tuple(float(number(*means)) for means in alone),
        form="+.3f",
    )


@dataclass(frozen=True)
class Crossing:
    """Tokens seen at which one curve goes below another, and what becomes of it in a bootstrap.

    value, low, high: infinite beyond the context, 0 before the first bin used, NaN where the curves cross the other way
    round. within, beyond, before, reverse: shares of the replicates; the interval leaves out the last.
    """

    value: float
    low: float
    high: float
    within: float
    beyond: float
    before: float
    reverse: float


def crossing(difference: Floats, curves: Curves, first: int = 17) -> Floats:
    """Tokens seen at which a difference of curves (..., bins) rises through zero, by a straight line in ln t.

    The line is fitted to the bins from `first` on, each at its geometric middle, all with equal weight. Infinite where
    it is still below zero at the end, 0 where it is above from the start, NaN where it falls through zero.
    """
    used = curves.first >= first
    places = np.log(np.sqrt(curves.first[used] * curves.last[used].astype(np.float64)))
    deviations = places - places.mean()
    values = np.asarray(difference)[..., used]
    slope = values @ deviations / (deviations @ deviations)
    middle = values.mean(axis=-1)
    begin, end = (middle + slope * (np.log(edge) - places.mean()) for edge in (first, curves.last[-1]))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        where = np.exp(places.mean() - middle / slope)
    above = np.where(begin >= 0, np.where(end >= 0, 0.0, np.nan), where)
    return np.asarray(np.where((begin < 0) & (end < 0), np.inf, above))


def crossing_of(
    first: Sequence[BookRun], second: Sequence[BookRun], *, replicates: int = 2000, seed: int = 0
) -> Crossing:
    """Where the curve of `second` minus that of `first` rises through zero, with a 95 % interval from `resampled`."""
    _require_same_windows([*first, *second])
    curves = [curves_of(first), curves_of(second)]
    drawn = resampled(curves, replicates, seed)
    places = crossing(drawn[1] - drawn[0], curves[0])
    known = places[~np.isnan(places)]
    ends = np.quantile(known, [0.025, 0.975], method="inverted_cdf") if known.size else (math.nan, math.nan)
    return Crossing(
        float(crossing(curves[1].mean - curves[0].mean, curves[0])),
        float(ends[0]),
        float(ends[1]),
        float(np.mean(np.isfinite(places) & (places > 0))),
        float(np.mean(np.isposinf(places))),
        float(np.mean(places == 0)),
        float(np.mean(np.isnan(places))),
    )


def judge_contrasts(claim: str, cases: Mapping[str, Interval], **asked: Any) -> str:
    """`judge` by intervals and every seed; as "reduced", for there is less text than the paper has at every profile."""
    return judge(claim, cases, every_seed=True, **asked)


def _weights(random: np.random.Generator, count: int, replicates: int) -> Floats:
    """(replicates, count), each row sums to 1."""
    if count == 1:
        return np.ones((replicates, 1))
    drawn = random.multinomial(count, np.full(count, 1.0 / count), size=replicates) / count
    return np.asarray(1.0 / count + math.sqrt(count / (count - 1)) * (drawn - 1.0 / count))


def _require_same_windows(runs: Sequence[BookRun]) -> None:
    keys = ("corpus", "documents", "merges", "context", "test", "data_seed")
    kinds = {tuple(str(run.parameters.get(key)) for key in keys) for run in runs}
    if len(kinds) > 1:
        raise ValueError(f"runs: networks are compared on the same windows only, got {sorted(kinds)}")
