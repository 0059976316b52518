"""The gate: which trainings may speak for an architecture.

A network that was stopped early shows what its training did, not what it can do. So a statement about an architecture,
to its favour or against it, needs trainings that had reached a plateau. Two ways lead through the gate:

- `near_optimum`: the smallest loss that any predictor can have is known, and every seed is close to it;
- `settled`: else, twice the budget, other rates and other starts bring nothing, and the seeds agree.

`plateau_of` asks recorded runs for both. The slope at the end of a schedule that takes the rate to zero is no evidence,
nor is patience at a constant rate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lib.report.records import REASONS

CLOSE = 0.1  # nats per sequence above the optimum
SHARE = 0.1  # of the effect that decides, which a longer or another training may change
FEWEST = 3  # seeds
UNCONVERGED, DISSENT, *_, UNMET = REASONS
Budget = tuple[int, float] | None  # epochs and rate; None: the usual ones of each network


@dataclass(frozen=True)
class Plateau:
    """reached, or the reason why not, one of ``records.REASONS``; sentence: what was found, and what was asked for."""

    reached: bool
    reason: str
    sentence: str


def near_optimum(
    excess: Mapping[str, Sequence[float]], *, effect: float | None = None, fewest: int = FEWEST
) -> Plateau:
    """Is every seed of every network close to the smallest loss possible?

    excess: by network the validation loss of its seeds minus the optimum, in nats per sequence; NaN where the optimum
    or a run is missing. Asked for is at most `CLOSE`, or `SHARE` of the `effect` that decides (in the same unit) if
    that is more. Not converged if a network has no seed that is close; seeds disagree if it has some; a precondition is
    not met with fewer than `fewest` seeds, with a number missing, or with one below zero by more than the bound, as
    from a wrong optimum. Raises ValueError without networks, for a negative or missing effect, for infinite excesses.
    """
    if not excess:
        raise ValueError("at least one network is needed, got none")
    bound = CLOSE if effect is None else max(CLOSE, SHARE * _positive(effect))
    told, failing = [], []
    for name, given in excess.items():
        values = _losses(given, name)
        if len(values) < fewest or np.isnan(values).any():
            known = np.count_nonzero(~np.isnan(values))
            missing = f"{name}: {known} of {max(len(values), fewest)} seeds have a known excess"
            return Plateau(False, UNMET, missing)
        if values.min() < -bound:
            return Plateau(False, UNMET, f"{name}: {values.min():.2g} nats per sequence, below the given optimum")
        close = np.count_nonzero(values <= bound)
        told.append(f"{name} {values.min():.3g} to {values.max():.3g}")
        if close < len(values):
            failing.append(DISSENT if close else UNCONVERGED)
    found = f"nats per sequence above the optimum: {', '.join(told)}; asked for: at most {bound:.2g} in every seed"
    return Plateau(not failing, _worst(failing), found)


def settled(
    losses: Sequence[float],
    *,
    doubled: Sequence[float],
    rates: Mapping[float, float],
    others: Mapping[str, float] | None = None,
    effect: float,
    fewest: int = FEWEST,
) -> Plateau:
    """Would a longer or another training of the same network change a number by more than `SHARE` of the effect?

    losses: final validation losses by seed at a whole schedule; doubled: of one or more of the first seeds, in their
    order, at twice the budget or more and a whole schedule; rates: loss by factor of the learning rate, with 1 and a
    factor below and above it; others: by name the best loss of another start, clock or curriculum of the same network;
    effect: what decides, in the unit of the losses.

    Reached if doubling moves no seed by more than a tenth of the effect, up or down (a longer training that ends
    higher, unstable or overfitted, is no plateau), no other rate or training is lower by more, and the seeds lie within
    that. Not converged or, where only the seeds are apart, seeds disagree; a precondition is not met without a doubled
    run, other rates, or `fewest` seeds. Raises ValueError for an effect that is not positive and for infinite losses.
    """
    bound = SHARE * _positive(effect)
    values, longer = _losses(losses, "losses"), _losses(doubled, "doubled")
    if np.isnan(values).any() or len(values) < fewest:
        ended = np.count_nonzero(~np.isnan(values))
        return Plateau(False, UNMET, f"{ended} of {max(len(values), fewest)} seeds have ended")
    if not len(longer) or len(longer) > len(values) or np.isnan(longer).any():
        return Plateau(False, UNMET, "no run at twice the budget stands beside these seeds")
    _losses(list(rates.values()), "rates"), _losses(list((others or {}).values()), "others")
    tried = {factor: loss for factor, loss in rates.items() if not np.isnan(loss)}
    if 1 not in tried or min(tried) >= 1 or max(tried) <= 1:
        return Plateau(False, UNMET, "the learning rate was not tried at a smaller and at a larger value")
    moved = max((longer - values[: len(longer)]).tolist(), key=abs)
    by_rate = tried[1] - min(tried.values())
    spread = float(np.ptp(values))
    beaten = {name: float(values.min()) - loss for name, loss in (others or {}).items() if not np.isnan(loss)}
    ahead = max(beaten, key=beaten.__getitem__) if beaten else ""
    found = f"a longer training moves the loss by {moved:+.2g}, other rates gain {by_rate:.2g}, seeds span {spread:.2g}"
    found += f", {ahead} gains {beaten[ahead]:.2g}" if ahead else ""
    found += f"; asked for: at most {bound:.2g}, a tenth of the effect"
    if max([abs(moved), by_rate, *beaten.values()]) > bound:
        return Plateau(False, UNCONVERGED, found)
    return Plateau(spread <= bound, "" if spread <= bound else DISSENT, found)


def any_way(*ways: Plateau) -> Plateau:
    """The first way through the gate that is open; if none is, the last one, with its reason."""
    if not ways:
        raise ValueError("at least one way through the gate is needed, got none")
    return next((way for way in ways if way.reached), ways[-1])


def all_ways(*ways: Plateau) -> Plateau:
    """Reached if every one is; else the first that is not."""
    if not ways:
        raise ValueError("at least one plateau is needed, got none")
    return next((way for way in ways if not way.reached), ways[0])


def refuting(ways: Sequence[Plateau], refute: Callable[[list[int]], bool]) -> tuple[list[int], Plateau]:
    """Of a statement about all networks, the places of those that may speak, and their gate.

    It fails already if those at a plateau refute it: then they alone speak. Else all do, and all have to pass.
    """
    passed = [place for place, way in enumerate(ways) if way.reached]
    speaking = passed if passed and refute(passed) else list(range(len(ways)))
    return speaking, all_ways(*(ways[place] for place in speaking))


class Training(NamedTuple):
    """One recorded run of a network: its seed, budget, learning rate, final loss, and the version of its experiment.

    whole: whether its schedule came to its end; it did not if the training diverged, and the loss is the best before.
    """

    seed: int
    epochs: int
    rate: float
    loss: float
    version: int = 0
    whole: bool = True


def usual_budget(runs: Sequence[Training]) -> tuple[int, float]:
    """Epochs and rate that most runs of a network have, of several the longest. Raises ValueError without runs."""
    if not runs:
        raise ValueError("at least one training is needed, got none")
    counted = Counter((run.epochs, run.rate) for run in runs)
    return max(counted, key=lambda budget: (counted[budget], budget))


def plateau_of(
    networks: Mapping[str, Sequence[Training]],
    *,
    effect: float | Mapping[str, float] | None,
    optimum: bool = False,
    others: Mapping[str, Mapping[str, float]] | None = None,
    budget: Budget = None,
) -> Plateau:
    """The gate for recorded runs, by network: each has `settled`, or, if losses are excesses, is `near_optimum`.

    Runs at twice the budget, by default the usual one, and at other rates are what `settled` asks for. Once one is
    there, longer ones count too, of each seed the one that moves the loss most. A rate gains what it gains in seeds
    that have both. A run that is not whole has no final loss at either budget; near the optimum, or at another rate,
    what it reached counts. effect: in the unit of the losses, for all or by network, None if there is none. others: as
    for `settled`. A precondition is not met without networks. ValueError for records of two versions.
    """
    versions = sorted({run.version for runs in networks.values() for run in runs})
    if len(versions) > 1:
        raise ValueError(f"no gate joins records of several versions, got {versions}; sweep the older ones again")
    if not networks:
        return Plateau(False, UNMET, "there is no network to judge")
    bounds = effect if isinstance(effect, Mapping) else dict.fromkeys(networks, effect)
    told = others or {}
    ways = [_way(name, runs, bounds.get(name), optimum, told.get(name, {}), budget) for name, runs in networks.items()]
    return all_ways(*ways)


def _way(
    name: str, runs: Sequence[Training], effect: float | None, optimum: bool, others: Mapping[str, float], at: Budget
) -> Plateau:
    if not runs:
        return Plateau(False, UNMET, f"{name}: no training is recorded")
    epochs, rate = at or usual_budget(runs)
    own = {run.seed: run.loss for run in runs if (run.epochs, run.rate) == (epochs, rate)}
    near = near_optimum({name: list(own.values())}, effect=effect) if optimum else None
    if near and near.reached:
        return near
    if effect is None:
        return near or Plateau(False, UNMET, f"{name}: there is no effect to compare with")
    ended = {(run.epochs, run.rate, run.seed): run.loss for run in runs if run.whole}
    longer: dict[int, float] = {}
    if any((2 * epochs, rate, seed) in ended for seed in own):
        for (took, at_rate, seed), loss in ended.items():
            if seed in own and at_rate == rate and took >= 2 * epochs:
                longer[seed] = max(longer.get(seed, own[seed]), loss, key=lambda one: abs(one - own[seed]))
    seeds = sorted(own, key=lambda seed: seed not in longer)  # those first that stand beside a longer run
    moved: dict[float, list[float]] = {}
    for run in runs:
        if run.epochs == epochs and run.seed in own:
            moved.setdefault(run.rate / rate, []).append(run.loss - own[run.seed])
    rates = {factor: float(np.mean(changes)) for factor, changes in moved.items()}
    way = settled(
        [ended.get((epochs, rate, seed), np.nan) for seed in seeds],
        doubled=list(longer.values()),
        rates=rates,
        others=others,
        effect=effect,
    )
    if near and way.reason == UNMET != near.reason:  # what is missing says less than how far the seeds are
        return near
    return Plateau(way.reached, way.reason, f"{name}: {way.sentence}")


def _losses(given: Sequence[float], name: str) -> npt.NDArray[np.float64]:
    try:
        values = np.asarray(given, dtype=np.float64)
    except ValueError:  # such as lists of several lengths
        values = np.empty((0, 0))
    if values.ndim != 1 or np.isinf(values).any():
        raise ValueError(f"{name}: a finite number for every seed is needed, NaN where it is missing, got {given!r}")
    return values


def _positive(effect: float) -> float:
    if not 0 < effect < np.inf:
        raise ValueError(f"an effect above 0 is needed, got {effect}")
    return effect


def _worst(reasons: Sequence[str]) -> str:
    return UNCONVERGED if UNCONVERGED in reasons else (reasons[0] if reasons else "")
