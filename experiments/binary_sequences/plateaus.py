"""Networks on binary sequences that were trained until nothing is gained, and what the gate says of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from experiments.binary_sequences.runs import Axis, Network, Record, Runs, TrainedRun
from lib.information.intervals import Interval
from lib.report.gate import (
    FEWEST,
    UNCONVERGED,
    Plateau,
    Training,
    all_ways,
    any_way,
    near_optimum,
    plateau_of,
    usual_budget,
)
from lib.training import FitSettings

SYMBOLS = 511  # that are predicted in a sequence
LONGER = 1.1  # times the correlation length of a network, which a smaller one may have at a smaller loss
SECOND_ORDER = "Adam, then second order"
METHODS = {"Adam": False, SECOND_ORDER: True}


@dataclass(frozen=True)
class Trainings:
    """All trainings of one network from one start, as the gate sees them (nats per symbol), and what they left."""

    runs: Mapping[Training, TrainedRun]

    @property
    def methods(self) -> dict[str, dict[Training, TrainedRun]]:
        """By how their end was trained, a key of `METHODS`; a method counts with `FEWEST` seeds at its usual budget."""
        of = {
            name: {key: run for key, run in self.runs.items() if run.second_order is second}
            for name, second in METHODS.items()
        }
        return {name: runs for name, runs in of.items() if len(usual(runs)) >= FEWEST}

    @property
    def ended(self) -> dict[Training, TrainedRun]:
        """Those of the method that left the smaller mean loss; all trainings, where no method counts.

        Passes of the two are no common measure of a budget.
        """
        whole = list(self.methods.values())
        return min(whole, key=lambda runs: _mean_loss(usual(runs))) if whole else dict(self.runs)

    @property
    def seeds(self) -> Runs:
        """Those of the usual budget of that method, in order."""
        return usual(self.ended)

    def excess(self, optimum: float) -> list[float]:
        """Of every seed of the usual budget, nats per sequence above the smallest loss possible (nats per symbol)."""
        return [above(run, optimum) for run in self.seeds]


def usual(runs: Mapping[Training, TrainedRun]) -> Runs:
    """Those of the usual budget, in order."""
    budget = usual_budget(list(runs)) if runs else None
    return tuple(runs[key] for key in sorted(runs) if (key.epochs, key.rate) == budget)


def lengthened(tried: Trainings) -> tuple[tuple[int, int], list[tuple[TrainedRun, TrainedRun]]] | None:
    """Passes of the longest budget at the usual rate and of the longest that is at most half of it, shorter first.

    With both runs of every seed that has them, by the method that ended lower; None where no seed has.
    """
    if not tried.ended:
        return None
    _, rate = usual_budget(list(tried.ended))
    runs = {(key.epochs, key.seed): run for key, run in tried.ended.items() if key.rate == rate}
    budgets = {(short, long) for short, seed in runs for long, other in runs if seed == other and 2 * short <= long}
    if not budgets:
        return None
    short, long = max(budgets, key=lambda pair: pair[::-1])
    seeds = sorted(seed for epochs, seed in runs if epochs == long and (short, seed) in runs)
    return (short, long), [(runs[short, seed], runs[long, seed]) for seed in seeds]


def above(run: TrainedRun, optimum: float) -> float:
    """Nats per sequence by which the best epoch of a run lies above the smallest loss possible (nats per symbol)."""
    return (run.validation_loss - optimum) * SYMBOLS


def trainings(records: Iterable[Record]) -> dict[Network, Trainings]:
    """The records of `binary-plateau` by network; a start that is not the printed one is its variant.

    Runs that left no network are left out.
    """
    found: dict[Network, dict[Training, TrainedRun]] = {}
    for record in records:
        asked, fit = record["parameters"], FitSettings(**record["parameters"]["fit"])
        network = Network(asked["architecture"], asked["width"], asked["depth"], asked["options"].get("start", ""))
        run = TrainedRun(network, record["seed"], record["result"], fit.newton, asked["generated"])
        if run.generated:
            key = Training(run.seed, fit.passes, fit.learning_rate, run.validation_loss, record.get("version", 0))
            found.setdefault(network, {})[key] = run
    return {network: Trainings(found[network]) for network in sorted(found, key=_order)}


def _order(network: Network) -> tuple[str, int, int, str]:
    return network.architecture, network.depth, network.width, network.variant


def best_starts(
    found: Mapping[Network, Trainings], architecture: str, axis: Axis = "width", width: int = 8
) -> dict[Network, Runs]:
    """The seeds of every network from the start whose mean loss is the smallest, along one axis.

    Along the axis "depth" networks have this width, along "width" one layer.
    """
    chosen: dict[int, Network] = {}
    for network, tried in found.items():
        on_axis = network.depth == 1 if axis == "width" else network.width == width
        if network.architecture == architecture and on_axis:
            size = getattr(network, axis)
            if size not in chosen or _mean_loss(tried.seeds) < _mean_loss(found[chosen[size]].seeds):
                chosen[size] = network
    return {chosen[size]: found[chosen[size]].seeds for size in sorted(chosen)}


def _mean_loss(runs: Runs) -> float:
    return float(np.mean([run.validation_loss for run in runs]))


def gate(
    found: Mapping[Network, Trainings], wanted: Sequence[Network], optimum: Interval, *, lengths: bool = False
) -> Plateau:
    """Were all these networks trained to a plateau?

    Each by the first way that is open: all its seeds near the optimum (nats per symbol), or else nothing gained by
    twice the budget, other rates and another start of the same network, and seeds together, where the effect that
    decides is what its training leaves above the optimum. A network that is missing is a precondition not met. Of a
    statement about correlation lengths `in_length` is asked, too.
    """
    if not wanted:
        return plateau_of({}, effect=None)
    ways = [_way(found, network, optimum) for network in wanted]
    there = [network for network in wanted if lengths and network in found]
    return all_ways(*ways, *(in_length(found, network) for network in there))


def _way(found: Mapping[Network, Trainings], network: Network, optimum: Interval) -> Plateau:
    tried, name = found.get(network, Trainings({})), f"{network.name}, nats per sequence"
    if not tried.runs:
        return plateau_of({network.name: []}, effect=None)
    excess = tried.excess(optimum.value)
    other_starts = {
        f"start {other.variant or 'as printed'}": min(found[other].excess(optimum.value))
        for other in found
        if other != network and replace(other, variant=network.variant) == network
    }
    losses = [key._replace(loss=above(run, optimum.value)) for key, run in tried.ended.items()]
    effect = max(float(np.mean(excess)), 1e-9)
    return any_way(
        near_optimum({network.name: excess}), plateau_of({name: losses}, effect=effect, others={name: other_starts})
    )


def in_length(found: Mapping[Network, Trainings], network: Network) -> Plateau:
    """Has no smaller network of its kind both a smaller loss and a correlation length that is more than `LONGER` times?

    What a smaller network does a larger one can do, so that its training would then have stopped short of a length it
    can have, however near the optimum it is: the last tenth of a nat of a sequence can double a length. Compared
    are medians of the fitted lengths over seeds, with networks that are no deeper and no wider.
    """
    own = found[network].seeds
    length, loss = _median_length(own), _mean_loss(own)
    ahead = {
        other.name: _median_length(found[other].seeds) / length
        for other in found
        if other.architecture == network.architecture
        and other.depth <= network.depth
        and other.width <= network.width
        and (other.depth, other.width) != (network.depth, network.width)
        and _mean_loss(found[other].seeds) < loss
    }
    most = max(ahead, key=ahead.__getitem__, default="")
    if not most or not ahead[most] > LONGER:
        return Plateau(
            True, "", f"{network.name}: no smaller network has a longer correlation length at a smaller loss"
        )
    told = f"{most}, which is smaller, has a smaller loss and {ahead[most]:.2f} times its correlation length"
    return Plateau(False, UNCONVERGED, f"{network.name}: {told}; asked for: at most {LONGER:g}")


def _median_length(runs: Runs) -> float:
    return float(np.median([run.measured.xi for run in runs]))


def missing(architecture: str, axis: Axis, size: int, there: Iterable[Network], width: int = 8) -> list[Network]:
    """The network of this size, if none of those that are there has it."""
    if any(getattr(network, axis) == size for network in there):
        return []
    return [Network(architecture, size) if axis == "width" else Network(architecture, width, size)]
