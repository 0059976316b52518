"""The numbers behind the statements about text, with intervals from resampled documents, and how they are judged."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

from experiments.text_information.runs import FROM, Curve, TextRun, plain
from lib.checks import whole_number
from lib.information.intervals import UNKNOWN, Interval, percentiles
from lib.report import claims
from lib.report.gate import Plateau, Training, plateau_of
from lib.report.verdicts import TOO_WIDE, UNMET, judge, judge_printed

Floats = NDArray[np.float64]
FEWEST = 5  # models in a rank correlation
FIRST = "the first lengths alone decide (a rule set after these results were seen)"
SMALLER = "not counted against the paper, as a smaller model finds less (a rule set after these results were seen)"


def exponent(run: TextRun, estimator: str, ratio: int = 2) -> Interval:
    """beta from 16 characters on; unknown where the estimate is not positive at some length."""
    law = run.law(estimator, ratio)
    return UNKNOWN if law is None else Interval(law.exponent, *law.interval)


def exponent_from(run: TextRun, estimator: str, first: float) -> Interval:
    """beta from `first` tokens on; unknown where there is no such fit."""
    curve = run.curve(estimator)
    law = None if curve is None else curve.beyond(first).fit
    return UNKNOWN if law is None else Interval(law.exponent, *law.interval)


def exponent_on(run: TextRun, estimator: str, every: int) -> Interval:
    """beta from 16 characters on of the first, the (every + 1)-th, ... document alone.

    These are the ones that a network trained on the others is asked about. Unknown where there is no such fit, and
    where groups of documents are recorded.
    """
    curve = run.curve(estimator)
    if curve is None or len(curve.by_group) != run.result["documents"] or len(curve.by_group) < 3 * every:
        return UNKNOWN
    some = Curve(curve.lengths, curve.by_group[::every].mean(axis=0), curve.by_group[::every])
    law = some.beyond(FROM / run.token_length).fit
    return UNKNOWN if law is None else Interval(law.exponent, *law.interval)


def difference_of_exponents(first: tuple[TextRun, str, int], second: tuple[TextRun, str, int]) -> Interval:
    """beta of the first less that of the second; each a run, an estimator and L/l.

    Both are fitted from the larger of their first lengths to the smaller of their last ones, since curves bend. Pairs
    of replicates draw the same documents where both runs have as many, else they are independent.
    """
    found = [(run, run.curve(estimator, ratio)) for run, estimator, ratio in (first, second)]
    curves = [curve.beyond(FROM / run.token_length) for run, curve in found if curve is not None]
    if len(curves) < 2 or not all(curve.lengths.size for curve in curves):
        return UNKNOWN
    low, high = max(curve.lengths[0] for curve in curves), min(curve.lengths[-1] for curve in curves)
    laws = [curve.beyond(low, high).fit for curve in curves]
    if laws[0] is None or laws[1] is None:
        return UNKNOWN
    return percentiles(laws[0].exponent - laws[1].exponent, laws[0].exponents - laws[1].exponents)


def rank_correlation(quality: ArrayLike, values: ArrayLike, resampled: ArrayLike) -> Interval:
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
    return percentiles(_spearman(order[kept], measured[kept]), np.array(replicates))


def with_exponent(runs: Sequence[TextRun], estimator: str) -> list[TextRun]:
    """Those that enter `exponent_against_quality`."""
    return [run for run in runs if run.law(estimator) is not None]


def exponent_against_quality(runs: Sequence[TextRun], estimator: str) -> Interval:
    """Rank correlation of beta with quality, -loss per character, over runs."""
    laws = [run.law(estimator) for run in runs]
    count = next((law.exponents.size for law in laws if law is not None), 1)
    values = [math.nan if law is None else law.exponent for law in laws]
    drawn = [np.full(count, math.nan) if law is None else law.exponents for law in laws]
    return rank_correlation([-run.loss for run in runs], values, np.array(drawn).reshape(len(runs), count))


def information_against_quality(runs: Sequence[TextRun], estimator: str) -> Interval:
    """Rank correlation of the estimate at the longest L with quality."""
    curves = [run.curve(estimator) for run in runs]
    count = next((len(curve.resampled) for curve in curves if curve is not None), 1)
    values = [math.nan if curve is None else float(curve.by_group[:, -1].mean()) for curve in curves]
    drawn = [np.full(count, math.nan) if curve is None else curve.resampled[:, -1] for curve in curves]
    return rank_correlation([-run.loss for run in runs], values, np.array(drawn).reshape(len(runs), count))


def change_by_correction(run: TextRun) -> tuple[Floats, list[Interval]]:
    """Lengths, and (corrected - uncorrected) / uncorrected of the direct estimate there; empty without both.

    Unknown where the uncorrected estimate is not positive.
    """
    after, before = run.curve("direct"), run.curve("uncorrected")
    if after is None or before is None:
        return np.empty(0), []
    values = _relative(after.by_group.mean(axis=0), before.by_group.mean(axis=0))
    drawn = _relative(after.resampled, before.resampled)
    return after.lengths, [percentiles(float(value), column) for value, column in zip(values, drawn.T, strict=True)]


def change_of_late_exponent(run: TextRun) -> Interval:
    """beta with the correction less that without it, over the upper half of the recorded lengths; unknown without it.

    Of n lengths these are the last n - n // 2, all of whatever number of characters.
    """
    curves = [run.curve(estimator) for estimator in ("direct", "uncorrected")]
    if curves[0] is None or curves[1] is None or not np.array_equal(curves[0].lengths, curves[1].lengths):
        return UNKNOWN
    first = curves[0].lengths[curves[0].lengths.size // 2]
    after, before = (curve.beyond(first).fit for curve in curves if curve is not None)
    if after is None or before is None:
        return UNKNOWN
    return percentiles(after.exponent - before.exponent, after.exponents - before.exponents)


def magnitude(measured: Interval) -> Interval:
    """Of a number that may be negative; an interval around zero begins at zero."""
    low, high = sorted(map(abs, measured.ends))
    return Interval(abs(measured.value), 0.0 if measured.low < 0 < measured.high else low, high)


def chance_level(models: int, share: float = 0.05, draws: int = 20000) -> float:
    """Spearman's correlation that a share of random orders of so many models exceed; ValueError for fewer than two."""
    whole_number(models, "models", 2)
    random = np.random.default_rng(0)
    orders = random.permuted(np.tile(np.arange(models, dtype=np.float64), (draws, 1)), axis=1)
    straight = np.arange(models) - (models - 1) / 2
    return float(np.quantile(orders @ straight / float(straight @ straight), 1.0 - share))


def plateau(runs: Sequence[TextRun], chosen: TextRun) -> Plateau:
    """Had the network that is taken for q learned what it can, so that an exponent says something of the text?

    The loss is that of the second half of the windows, nats per character, of all trainings of this network; the effect
    that decides is `nearest_difference`. Asked for is that doubling the budget of the chosen run changes nothing or,
    where nobody trained for twice as long and its seed has half the budget, too, that its own doubling did not: then
    the shorter trainings are judged, of which this is the doubled one. Without either, the precondition is not met,
    whatever the trainings at other budgets say. A model trained by others has no training.
    """
    alike = [run for run in runs if run.model.kind == "network" and run.network == chosen.network]
    if not alike:
        return plateau_of({chosen.name: []}, effect=None)
    trainings, own = [_training(run) for run in alike], _training(chosen)
    there = {(run.rate, run.epochs, run.seed) for run in trainings}
    longer = any((rate, epochs) == (own.rate, 2 * own.epochs) for rate, epochs, _ in there)
    half = own.epochs // 2
    doubled = own.epochs == 2 * half and (own.rate, half, own.seed) in there
    epochs = half if doubled and not longer else own.epochs
    name = f"{chosen.name}, {epochs} epochs"
    return plateau_of({name: trainings}, effect=nearest_difference(runs, chosen), budget=(epochs, own.rate))


def nearest_difference(runs: Iterable[TextRun], chosen: TextRun) -> float | None:
    """Between the loss of a network trained here and that nearest to it, nats per character: its place among them.

    The best of all trainings of a network counts; variants, the same network asked otherwise, are left out. None where
    there is no other network, and where one has the same loss.
    """
    losses: dict[str, float] = {}
    for run in plain(runs):
        if run.model.kind == "network" and math.isfinite(run.loss):
            losses[run.network] = min(losses.get(run.network, math.inf), run.loss)
    own = losses.pop(chosen.network, None)
    return None if own is None else min((abs(loss - own) for loss in losses.values()), default=0.0) or None


def _training(run: TextRun) -> Training:
    return Training(run.seed, run.epochs, run.rate, run.loss, run.version)


def judge_measured(claim: str, measured: Interval, **asked: Any) -> str:
    """`judge` an interval over documents: of one model, which has no seeds."""
    return judge(claim, measured, fewest=0, **asked)


def judge_exponent(
    claim: str, measured: Interval, printed: float, *, widest: float, later: Interval = UNKNOWN, **asked: Any
) -> str:
    """`judge_printed`, but an exponent that lies below the printed one is undecided: a smaller model finds less.

    later: of a fit that begins at a larger length. Where it does not contain the printed exponent and the other does,
    the first lengths alone decide, and the statement is undecided too.
    """
    if measured.known and later.known and _counts(asked):
        contained, still = (one.low <= printed <= one.high for one in (measured, later))
        if contained and not still:
            return _expected(claim, f"{measured:.2f}, but {later:.2f} if the fit begins later", asked, FIRST)
    if measured.known and measured.high < printed and _counts(asked):
        return _expected(claim, f"{measured:.2f}, below the printed {printed:g}", asked)
    return judge_printed(claim, measured, printed, widest=widest, **asked)


def judge_agreement(claim: str, difference: Interval, most: float, **asked: Any) -> str:
    """Direct less vCLUB within `most`; undecided where vCLUB is smaller by more, as a smaller model makes it."""
    if difference.known and difference.low > most and _counts(asked):
        return _expected(claim, f"{difference:.2f}, asked for: at most {most:g} either way", asked)
    return judge_measured(claim, difference, at_least=-most, at_most=most, **asked)


def judge_far(claim: str, measured: Interval, printed: float, *, widest: float, **asked: Any) -> str:
    """`judge_printed`, but an interval that is wider than `widest` decides nothing, also where it misses the number."""
    if measured.known and measured.high - measured.low > widest:
        told = f"{measured:.2f}, wider than {widest:g}, against {printed:g}"
        claims.undecided(claim, reason=TOO_WIDE, sentence=told, **_said(asked))
        return "undecided"
    return judge_printed(claim, measured, printed, widest=widest, **asked)


def _counts(asked: Mapping[str, Any]) -> bool:
    """The gate has nothing against it."""
    plateau = asked.get("plateau")
    return plateau is None or plateau.reached


def _expected(claim: str, sentence: str, asked: Mapping[str, Any], cause: str = SMALLER) -> str:
    claims.undecided(claim, reason=UNMET, sentence=f"{sentence}: {cause}", **_said(asked))
    return "undecided"


def _said(asked: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in asked.items() if key not in ("plateau", "explanation")}


def _relative(after: Floats, before: Floats) -> Floats:
    positive = before > 0
    return np.asarray(np.where(positive, after / np.where(positive, before, 1.0) - 1.0, math.nan))


def _spearman(first: Floats, second: Floats) -> float:
    ranks = [rankdata(given) - (len(given) + 1) / 2 for given in (first, second)]
    scale = math.sqrt(float(ranks[0] @ ranks[0]) * float(ranks[1] @ ranks[1]))
    return float(ranks[0] @ ranks[1]) / scale if scale > 0 else math.nan
