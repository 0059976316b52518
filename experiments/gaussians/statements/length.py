"""The numbers behind the statements about Gaussian language models, one for every seed, and how they are judged."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from experiments.gaussians.runs import GaussianRun, Model, Models, Plan, by_seed, of_models
from lib.information.intervals import seed_mean
from lib.report.gate import FEWEST, Plateau, Training, plateau_of, usual_budget
from lib.report.verdicts import judge
from lib.training.settings import FitSettings

NEAR = math.log(2.0)  # early losses that are compared may lie this far from those of the reference
DEGRADES = 0.25  # of the KL of N(0, 1): what a model loses more on the longest sequences than on the shortest
Floats = NDArray[np.float64]


def judge_means(claim: str, cases: Mapping[Any, ArrayLike], **asked: Any) -> str:
    """`judge` the intervals of means over seeds; cases: values of every seed by what they are of."""
    return judge(claim, {name: seed_mean(values) for name, values in cases.items()}, **asked)


def relative(run: GaussianRun) -> float:
    """KL over that of N(0, 1), which is what an untrained model says: the share that it has not learned."""
    return run.average / float(run.result["untrained_divergence"])


def usual_runs(runs: Iterable[GaussianRun]) -> dict[Model, dict[int, list[GaussianRun]]]:
    """By model and length, the seeds that had the budget and the rate which most of them had."""
    found = of_models(runs, variant=None)
    for by_length in found.values():
        for length, here in by_length.items():
            budget = usual_budget([_training(run) for run in here])
            by_length[length] = [run for run in here if (_training(run).epochs, _training(run).rate) == budget]
    return found


def plateau(
    runs: Iterable[GaussianRun],
    models: Iterable[Model],
    lengths: Sequence[int],
    *,
    floor: float | None = None,
    effect: float | None = None,
) -> Plateau:
    """Had these models at these lengths reached what they can, so that a statement on them is one on their memory?

    The loss is KL times L: what a sequence of one copy costs above the optimum, in nats. The effect that decides is the
    range of the mean KL of what is compared, or DEGRADES of the KL of N(0, 1) if that is more, times L. A model that is
    not recorded has no training.

    floor: of a KL, nats per number, for statements about the logarithm of what is more, or of the floor. A KL may pass
    in nats and still be off by a factor; loss and effect are then these logarithms and the range of their means. Near
    the optimum is on the floor: a model that is there with every seed has nothing to learn that would count. effect: in
    the place of that range, where more is compared than is given here; without a floor, a KL over that of N(0, 1).
    """
    of, wanted = list(runs), list(models)
    usual = usual_runs(run for run in of if run.model in wanted and run.length in lengths)

    def scaled(divergence: float) -> float:
        return divergence if floor is None else math.log(max(divergence, floor))

    means = [np.mean([scaled(run.average) for run in here]) for cells in usual.values() for here in cells.values()]
    span = effect if effect is not None else float(np.ptp(means)) if means else 0.0
    networks: dict[str, list[Training]] = {}
    effects: dict[str, float] = {}
    for model in wanted:
        for length in lengths:
            here = [run for run in of if run.measured and (run.model, run.length) == (model, length)]
            name = f"{model}, L = {length}"
            networks[name] = [_training(run) for run in here]
            if floor is not None:
                networks[name] = [one._replace(loss=scaled(one.loss / length)) for one in networks[name]]
                effects |= {name: span} if span > 0 else {}
                reached = [run.average <= floor for run in usual.get(model, {}).get(length, [])]
                if len(reached) >= FEWEST and all(reached):
                    del networks[name]
            elif here:
                alone = float(here[0].result["untrained_divergence"])
                effects[name] = (max(span, DEGRADES * alone) if effect is None else effect * alone) * length
    if wanted and len(lengths) and not networks:
        return Plateau(True, "", f"every network is on the floor of {floor:.2g} nats per number in every seed")
    return plateau_of(networks, effect=effects, optimum=floor is None)


def _training(run: GaussianRun) -> Training:
    fit = FitSettings(**run.parameters["fit"])
    return Training(run.seed, fit.epochs, fit.learning_rate, run.average * run.length, run.version)


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
        model: length_slopes(by_seed(models.get(model, {}), measure, plan.lengths, plan.seeds), plan.lengths)
        for model in plan.every
    }


@dataclass(frozen=True)
class EqualEarlyLoss:
    """How much larger the late KL of a model is than that of a reference family where their early KL are equal.

    values: ln of the ratio, one for each seed (jackknife pseudo-values); NaN where it cannot be had. exponent: of the
    common power law late ~ early^exponent. gap: how far ln(early) of the model lies outside the range of the reference.
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
