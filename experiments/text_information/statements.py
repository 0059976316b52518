"""The numbers behind the statements about text, with intervals from resampled documents, and how they are judged."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

from experiments.text_information.runs import FROM, TextRun
from lib.report.verdicts import TOO_WIDE, UNMET, asked, judge_interval, not_resolved, record_verdict

Floats = NDArray[np.float64]
FEWEST = 5  # models in a rank correlation
EXPONENTS = np.linspace(-0.5, 1.5, 401)  # tried for a power law in I itself


@dataclass(frozen=True)
class Measured:
    """A number and its 95 % interval; NaN where there is none."""

    value: float
    low: float
    high: float

    @property
    def known(self) -> bool:
        return all(map(math.isfinite, (self.value, self.low, self.high)))

    @property
    def interval(self) -> tuple[float, float]:
        return self.low, self.high

    def __str__(self) -> str:
        return f"{self.value:.3g} [{self.low:.3g}, {self.high:.3g}]" if math.isfinite(self.value) else "–"


UNKNOWN = Measured(math.nan, math.nan, math.nan)


def exponent(run: TextRun, estimator: str, ratio: int = 2) -> Measured:
    """beta from 16 characters on; unknown where the estimate is not positive at some length."""
    law = run.law(estimator, ratio)
    return UNKNOWN if law is None else Measured(law.exponent, *law.interval)


def power_law_advantage(run: TextRun, estimator: str) -> Measured:
    """Is a power law nearer to the curve than a line in ln L? (R_log - R_pow) / (R_log + R_pow), from -1 to 1.

    R: squared residuals over variances, of the nearest a + b ln L and of the nearest A L^beta, two parameters each,
    from 16 characters on. The interval is that of resampled documents, for the lengths share theirs.
    """
    curve = run.curve(estimator)
    if curve is None or (curve := curve.beyond(FROM / run.token_length)).lengths.size < 4:
        return UNKNOWN
    weights = 1.0 / curve.resampled.var(axis=0, ddof=1)
    value = _advantage(curve.lengths, curve.by_group.mean(axis=0)[None], weights)[0]
    return _interval(float(value), _advantage(curve.lengths, curve.resampled, weights))


def difference_of_exponents(first: tuple[TextRun, str, int], second: tuple[TextRun, str, int]) -> Measured:
    """beta of the first less that of the second; each a run, an estimator and L/l.

    Pairs of replicates draw the same documents where both runs have as many, else they are independent.
    """
    laws = [run.law(estimator, ratio) for run, estimator, ratio in (first, second)]
    if laws[0] is None or laws[1] is None:
        return UNKNOWN
    return _interval(laws[0].exponent - laws[1].exponent, laws[0].exponents - laws[1].exponents)


def rank_correlation(quality: ArrayLike, values: ArrayLike, resampled: ArrayLike) -> Measured:
    """Spearman's correlation of quality (models,) with values (models,), and with resampled ones (models, replicates).

    Models without a value are left out, in replicates too; unknown for fewer than FEWEST. Raises ValueError for shapes
    that do not belong together.
    """
    order, measured, drawn = (np.asarray(given, dtype=np.float64) for given in (quality, values, resampled))
    if order.ndim != 1 or measured.shape != order.shape or drawn.ndim != 2 or len(drawn) != order.size:
        raise ValueError(
            f"quality (models,), values (models,) and resampled (models, replicates) are needed, got {order.shape}, "
            f"{measured.shape} and {drawn.shape}"
        )
    kept = np.isfinite(order) & np.isfinite(measured)
    if kept.sum() < FEWEST:
        return UNKNOWN
    replicates = [
        _spearman(order[kept][fine], column[fine]) if (fine := np.isfinite(column)).sum() >= FEWEST else math.nan
        for column in drawn[kept].T
    ]
    return _interval(_spearman(order[kept], measured[kept]), np.array(replicates))


def exponent_against_quality(runs: Sequence[TextRun], estimator: str) -> Measured:
    """Rank correlation of beta with quality, -loss a character, over runs."""
    laws = [run.law(estimator) for run in runs]
    count = next((law.exponents.size for law in laws if law is not None), 1)
    values = [math.nan if law is None else law.exponent for law in laws]
    drawn = [np.full(count, math.nan) if law is None else law.exponents for law in laws]
    return rank_correlation([-run.loss for run in runs], values, np.array(drawn).reshape(len(runs), count))


def information_against_quality(runs: Sequence[TextRun], estimator: str) -> Measured:
    """Rank correlation of the estimate at the longest L with quality."""
    curves = [run.curve(estimator) for run in runs]
    count = next((len(curve.resampled) for curve in curves if curve is not None), 1)
    values = [math.nan if curve is None else float(curve.by_group[:, -1].mean()) for curve in curves]
    drawn = [np.full(count, math.nan) if curve is None else curve.resampled[:, -1] for curve in curves]
    return rank_correlation([-run.loss for run in runs], values, np.array(drawn).reshape(len(runs), count))


def change_by_correction(run: TextRun) -> tuple[Floats, list[Measured]]:
    """Lengths, and (corrected - uncorrected) / uncorrected of the direct estimate there; empty without both.

    Unknown where the uncorrected estimate is not positive.
    """
    after, before = run.curve("direct"), run.curve("uncorrected")
    if after is None or before is None:
        return np.empty(0), []
    values = _relative(after.by_group.mean(axis=0), before.by_group.mean(axis=0))
    drawn = _relative(after.resampled, before.resampled)
    return after.lengths, [_interval(float(value), column) for value, column in zip(values, drawn.T, strict=True)]


def magnitude(measured: Measured) -> Measured:
    """Of a number that may be negative; an interval around zero begins at zero."""
    low, high = sorted(map(abs, measured.interval))
    return Measured(abs(measured.value), 0.0 if measured.low < 0 < measured.high else low, high)


def chance_level(models: int, share: float = 0.05, draws: int = 20000) -> float:
    """Spearman's correlation that a share of random orders of so many models exceed."""
    random = np.random.default_rng(0)
    orders = random.permuted(np.tile(np.arange(models, dtype=np.float64), (draws, 1)), axis=1)
    straight = np.arange(models) - (models - 1) / 2
    return float(np.quantile(orders @ straight / float(straight @ straight), 1.0 - share))


def agreement(measured: Measured, at_least: float = -math.inf, at_most: float = math.inf, gap: float = 0.0) -> str:
    """ "agrees" if the whole interval lies within the bounds, "differs" if all of it is outside by more than `gap`.

    "unresolved" otherwise, and without an interval. Raises ValueError without a finite bound.
    """
    if not (math.isfinite(at_least) or math.isfinite(at_most)):
        raise ValueError("at_least or at_most is needed")
    if not measured.known:
        return "unresolved"
    if measured.high < at_least - gap or measured.low > at_most + gap:
        return "differs"
    return "agrees" if at_least <= measured.low and measured.high <= at_most else "unresolved"


def judge(
    claim: str,
    measured: Measured,
    *,
    part: str,
    explanation: str,
    at_least: float | None = None,
    at_most: float | None = None,
    gap: float = 0.0,
    note: str = "",
    paper: Any = None,
) -> str:
    """Check a claim by the rule of `agreement`, and return its verdict.

    Agreement is recorded as "reduced": another corpus and another model than the paper's; a difference as "differs",
    with `explanation`. What is compared is the ends of the interval. What is not resolved is recorded as undecided.
    """
    low = -math.inf if at_least is None else at_least
    high = math.inf if at_most is None else at_most
    found = agreement(measured, low, high, gap)
    record_verdict(
        claim,
        found,
        [measured.low, measured.high],
        at_least=at_least,
        at_most=at_most,
        part=part,
        told=f"{measured} against {asked(at_least, at_most)}" if measured.known else "no value with an interval",
        explanation=explanation,
        reason=TOO_WIDE if measured.known else UNMET,
        note=note,
        paper=paper,
    )
    return found


def judge_printed(
    claim: str, measured: Measured, printed: float, *, part: str, widest: float, explanation: str, note: str = ""
) -> str:
    """Is a printed number inside the interval? As in `judge_interval`, and not resolved without an interval."""
    if not measured.known:
        not_resolved(claim, part, "no value with an interval", note, reason=UNMET, paper=printed)
        return "unresolved"
    return judge_interval(
        claim,
        measured.value,
        measured.interval,
        printed,
        part=part,
        widest=widest,
        explanation=explanation,
        note=note,
        paper=printed,
    )


def _relative(after: Floats, before: Floats) -> Floats:
    positive = before > 0
    return np.asarray(np.where(positive, after / np.where(positive, before, 1.0) - 1.0, math.nan))


def _advantage(lengths: Floats, curves: Floats, weights: Floats) -> Floats:
    logarithm = _squares(curves, weights, np.stack([np.ones(lengths.size), np.log(lengths)]))
    powers = np.stack([_squares(curves, weights, (lengths**beta)[None]) for beta in EXPONENTS])
    power = powers.min(axis=0)
    return np.asarray((logarithm - power) / (logarithm + power))


def _squares(curves: Floats, weights: Floats, basis: Floats) -> Floats:
    """Weighted squared residuals of every curve (m, n) against the nearest combination of a basis (k, n)."""
    root = np.sqrt(weights)
    plane, _ = np.linalg.qr((basis * root).T)  # (n, k), orthonormal
    scaled = curves * root
    rest = scaled - (scaled @ plane) @ plane.T
    return np.asarray(np.maximum((rest**2).sum(axis=1), 1e-12 * (scaled**2).sum(axis=1)))


def _spearman(first: Floats, second: Floats) -> float:
    ranks = [rankdata(given) - (len(given) + 1) / 2 for given in (first, second)]
    scale = math.sqrt(float(ranks[0] @ ranks[0]) * float(ranks[1] @ ranks[1]))
    return float(ranks[0] @ ranks[1]) / scale if scale > 0 else math.nan


def _interval(value: float, replicates: Floats) -> Measured:
    """Percentiles; without an interval if more replicates have no value than it leaves out."""
    known = replicates[np.isfinite(replicates)]
    if not math.isfinite(value) or known.size < 0.975 * replicates.size:
        return Measured(value, math.nan, math.nan)
    return Measured(value, *map(float, np.quantile(known, [0.025, 0.975])))
