"""The numbers behind the statements about Gaussian language models, one for every seed, and how they are judged."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import t as student

from experiments.gaussians.runs import GaussianRun, Model, Models, Plan, table
from lib.report.verdicts import FEWEST_SEEDS, TOO_WIDE, UNMET, judge_cases

NEAR = math.log(2.0)  # early losses that are compared may lie this far from those of the reference
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class SeedMean:
    """Mean over seeds with Student's interval, which takes them as independent and normal; NaN below two seeds."""

    value: float
    low: float
    high: float
    seeds: int

    def __str__(self) -> str:
        if self.seeds > 1:
            return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"
        return f"{self.value:.2f}" if self.seeds else "–"


def seed_mean(values: ArrayLike, level: float = 0.95) -> SeedMean:
    """Of the values that are there, one for each seed; NaN stands for a run that is missing."""
    given = np.asarray(values, dtype=np.float64)
    known = given[~np.isnan(given)]
    if known.size < 2:
        return SeedMean(float(known.mean()) if known.size else math.nan, math.nan, math.nan, known.size)
    reach = float(student.ppf(0.5 + level / 2, known.size - 1) * known.std(ddof=1) / math.sqrt(known.size))
    return SeedMean(float(known.mean()), float(known.mean()) - reach, float(known.mean()) + reach, known.size)


def agreement(cases: Sequence[SeedMean], at_least: float = -math.inf, at_most: float = math.inf) -> str:
    """One of "agrees", "differs" and "unresolved".

    It agrees if every case has at least three seeds and its whole interval within the bounds, and differs if some case
    with as many seeds has its whole interval outside. Raises ValueError without cases or bounds.
    """
    if not cases or not (math.isfinite(at_least) or math.isfinite(at_most)):
        raise ValueError("cases and one finite bound are needed")
    enough = [case for case in cases if case.seeds >= FEWEST_SEEDS]
    if any(case.high < at_least or case.low > at_most for case in enough):
        return "differs"
    inside = all(at_least <= case.low and case.high <= at_most for case in enough)
    return "agrees" if inside and len(enough) == len(cases) else "unresolved"


def why_unresolved(cases: Sequence[SeedMean], **_: float) -> str:
    """The reason that `agreement` decides nothing: a case with fewer than three seeds, else an interval too wide."""
    return UNMET if any(case.seeds < FEWEST_SEEDS for case in cases) else TOO_WIDE


def judge_means(
    claim: str,
    cases: Mapping[Any, ArrayLike],
    *,
    part: str,
    profile: str,
    explanation: str,
    at_least: float | None = None,
    at_most: float | None = None,
    note: str = "",
    paper: Any = None,
) -> None:
    """Check a claim by the rule of `agreement`; cases: values of every seed by what they are of.

    Agreement is recorded as "holds" at profile paper, else as "reduced", and a difference as "differs" with
    `explanation`; what is compared is the ends of the intervals. What is not resolved is recorded as
    undecided; so is a statement without cases, as when runs are not recorded or cannot be compared.
    """
    judge_cases(
        claim,
        {name: seed_mean(values) for name, values in cases.items()},
        agreement,
        why_unresolved,
        part=part,
        explanation=explanation,
        agrees="holds" if profile == "paper" else "reduced",
        at_least=at_least,
        at_most=at_most,
        note=note,
        paper=paper,
    )


def length_slopes(values: ArrayLike, lengths: Sequence[int]) -> Floats:
    """d ln(value) / d ln(length) by least squares for every seed: (lengths, seeds) -> (seeds,).

    NaN for a seed without all lengths. Raises ValueError for fewer than two lengths and for other shapes.
    """
    given, places = np.asarray(values, dtype=np.float64), np.log(np.asarray(lengths, dtype=np.float64))
    if given.ndim != 2 or places.size < 2 or len(given) != places.size:
        raise ValueError(f"values (lengths >= 2, seeds) are needed, got shape {given.shape} and {places.size} lengths")
    deviations = places - places.mean()
    return np.asarray(deviations @ np.log(given) / (deviations @ deviations))


def slopes_of(models: Models, plan: Plan, number: Callable[[GaussianRun], float] | None = None) -> dict[Model, Floats]:
    """`length_slopes` of every model that the plan has, by default of the average KL; NaN for runs that are missing."""
    measure = number or (lambda run: run.average)
    return {
        model: length_slopes(table(models.get(model, {}), measure, plan.lengths, plan.seeds), plan.lengths)
        for model in plan.every
    }


@dataclass(frozen=True)
class EqualEarlyLoss:
    """How much larger the late KL of a model is than that of a reference family where their early KL are equal.

    values: ln of the ratio, one for each seed (jackknife pseudo-values); NaN where it cannot be had. exponent: of the
    common law late ~ early^exponent. gap: by how much ln(early) of the model lies outside the range of the reference.
    """

    values: Floats
    exponent: float
    gap: float

    @property
    def comparable(self) -> bool:
        """The early loss lies within a factor two of the reference's, so that little is extrapolated."""
        return self.gap <= NEAR


def equal_early_loss(
    model: Sequence[GaussianRun],
    family: Sequence[GaussianRun],
    reference: Sequence[GaussianRun],
    seeds: int,
    early: Callable[[GaussianRun], float] = lambda run: run.early,
) -> EqualEarlyLoss:
    """Compare runs of one length: a model, all of its family (it among them), and the family it is held to.

        ln late = a_family + b ln early,   excess = mean over the model's runs of ln late - a_reference - b ln early

    with one exponent b for both families, by least squares over sizes and seeds. A jackknife over seeds, which leaves
    out all runs of one, gives as many pseudo-values. Raises ValueError without runs.
    """
    if not (model and family and reference):
        raise ValueError("model, family, reference: at least one run of each is needed")

    def fitted(without: int | None) -> tuple[float, float]:
        parts = [
            np.log([(early(run), run.late) for run in runs if run.seed != without] or np.empty((0, 2)))
            for runs in (model, family, reference)
        ]
        if any(len(part) == 0 for part in parts):
            return math.nan, math.nan
        own, *groups = parts
        centred = np.concatenate([part - part.mean(axis=0) for part in groups])
        spread = float(centred[:, 0] @ centred[:, 0])
        slope = float(centred[:, 0] @ centred[:, 1]) / spread if spread > 0 else math.nan
        known = groups[-1].mean(axis=0)
        there = own.mean(axis=0)
        return float(there[1] - known[1] - slope * (there[0] - known[0])), slope

    present = sorted({run.seed for run in (*model, *reference)})
    whole, slope = fitted(None)
    values = np.full(seeds, np.nan)
    if len(present) > 1:
        for seed in present:
            values[seed] = len(present) * whole - (len(present) - 1) * fitted(seed)[0]
    else:
        values[present] = whole
    places = np.log([early(run) for run in reference])
    at = float(np.mean(np.log([early(run) for run in model])))
    return EqualEarlyLoss(values, slope, max(0.0, float(places.min()) - at, at - float(places.max())))


def equal_early_losses(
    models: Models, architecture: str, length: int, seeds: int, early: Callable[[GaussianRun], float]
) -> dict[Model, EqualEarlyLoss]:
    """Every other model of these at one length against all models of one architecture; empty where runs are missing."""
    at = {model: runs[length] for model, runs in models.items() if runs.get(length)}
    reference = [run for model, runs in at.items() if model.architecture == architecture for run in runs]
    found = {}
    for model, runs in at.items():
        if model.architecture != architecture and reference:
            kind = (model.architecture, model.variant)
            alike = [run for other, those in at.items() if (other.architecture, other.variant) == kind for run in those]
            found[model] = equal_early_loss(runs, alike, reference, seeds, early)
    return found
