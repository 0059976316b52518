"""Networks on binary sequences that were trained until nothing is gained, and what the gate says of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from experiments.binary_sequences.runs import Axis, Network, Record, Runs, TrainedRun
from lib.information.intervals import Interval
from lib.report.gate import UNMET, Plateau, all_ways, any_way, near_optimum, settled

SYMBOLS = 511  # that are predicted in a sequence


@dataclass(frozen=True)
class Trainings:
    """All trainings of one network from one start.

    seeds: at one budget. longer: first seeds at twice that budget. rates: one seed at that budget, by the factor of the
    learning rate.
    """

    seeds: Runs
    longer: Runs
    rates: Mapping[float, TrainedRun]

    def excess(self, optimum: float) -> list[float]:
        """Of every seed, nats a sequence above the smallest loss possible (nats a symbol)."""
        return [above(run, optimum) for run in self.seeds]


def above(run: TrainedRun, optimum: float) -> float:
    """Nats a sequence by which the best epoch of a run lies above the smallest loss possible (nats a symbol)."""
    return (run.validation_loss - optimum) * SYMBOLS


def trainings(records: Iterable[Record]) -> dict[Network, Trainings]:
    """The records of `binary-plateau` by network; a start that is not the printed one is its variant.

    The budget is the one that most seeds have, of several the longest. Runs that left no network are left out.
    """
    found: dict[Network, dict[tuple[float, int, int], dict[int, TrainedRun]]] = {}
    for record in records:
        asked, fit = record["parameters"], record["parameters"]["fit"]
        network = Network(asked["architecture"], asked["width"], asked["depth"], asked["options"].get("start", ""))
        run = TrainedRun(network, record["seed"], record["result"])
        if run.generated:
            budget = (float(fit["learning_rate"]), int(fit["epochs"]), int(fit["batch"]))
            found.setdefault(network, {}).setdefault(budget, {})[run.seed] = run
    return {network: _sorted(found[network]) for network in sorted(found, key=_order)}


def _sorted(by_budget: Mapping[tuple[float, int, int], Mapping[int, TrainedRun]]) -> Trainings:
    rate, epochs, batch = max(by_budget, key=lambda budget: (len(by_budget[budget]), budget[1]))
    seeds = by_budget[rate, epochs, batch]
    longer = by_budget.get((rate, 2 * epochs, batch), {})
    others = {
        other / rate: runs[0]
        for (other, length, size), runs in by_budget.items()
        if (length, size) == (epochs, batch) and 0 in runs
    }
    return Trainings(_in_order(seeds), _in_order(longer), others)


def _in_order(runs: Mapping[int, TrainedRun]) -> Runs:
    return tuple(runs[seed] for seed in sorted(runs))


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
            if size not in chosen or _mean_loss(tried) < _mean_loss(found[chosen[size]]):
                chosen[size] = network
    return {chosen[size]: found[chosen[size]].seeds for size in sorted(chosen)}


def _mean_loss(tried: Trainings) -> float:
    return float(np.mean([run.validation_loss for run in tried.seeds]))


def gate(found: Mapping[Network, Trainings], wanted: Sequence[Network], optimum: Interval) -> Plateau:
    """Were all these networks trained to a plateau?

    Each by the first way that is open: all its seeds near the optimum (nats a symbol), or else nothing gained by twice
    the budget, other rates and another start of the same network, and seeds together, where the effect that decides is
    what its training leaves above the optimum. A network that is not there is a precondition that is not met.
    """
    return all_ways(*(_way(found, network, optimum) for network in wanted))


def _way(found: Mapping[Network, Trainings], network: Network, optimum: Interval) -> Plateau:
    if network not in found:
        return Plateau(False, UNMET, f"{network.name} is not recorded")
    tried = found[network]
    excess = tried.excess(optimum.value)
    by_start = {
        f"start {other.variant or 'as printed'}": min(found[other].excess(optimum.value))
        for other in found
        if other != network
        and (other.architecture, other.width, other.depth) == (network.architecture, network.width, network.depth)
    }
    way = settled(
        excess,
        doubled=[above(run, optimum.value) for run in tried.longer],
        rates={factor: above(run, optimum.value) for factor, run in tried.rates.items()},
        others=by_start,
        effect=max(float(np.mean(excess)), 1e-9),
    )
    way = Plateau(way.reached, way.reason, f"{network.name}, nats a sequence: {way.sentence}")
    return any_way(near_optimum({network.name: excess}), way)


def missing(architecture: str, axis: Axis, size: int, there: Iterable[Network], width: int = 8) -> list[Network]:
    """The network of this size, if none of those that are there has it."""
    if any(getattr(network, axis) == size for network in there):
        return []
    return [Network(architecture, size) if axis == "width" else Network(architecture, width, size)]
