"""Records of the binary sequences, sorted by network and reduced to what a chapter shows of them.

The numbers behind the statements have one column for every seed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from experiments.binary_sequences.decay import (
    FEWEST_POINTS,
    SIGNS,
    WEIGHTINGS,
    DecayComparison,
    GroupedCurve,
    compare_decay,
    shared,
)
from lib.information import fit_exponential
from lib.models.catalogue import NAMES
from lib.runs.definition import Experiment
from lib.training.loop import FINISHED_BY_PATIENCE
from lib.training.settings import FitSettings

Record = Mapping[str, Any]
Floats = npt.NDArray[np.float64]
_LENGTH_OF_TRAINING = {"epochs", "patience"}  # settings of `fit` that make no variant
Axis = Literal["width", "depth"]
TAIL = 1e-2  # nats: a tenth of the information at lag one; the exact curve of the data falls there at lag 320
RESOLVED = 0.25  # standard error of a point over its value, at most


@dataclass(frozen=True)
class Network:
    """What was trained, but for the seed. variant: choices that differ from the family's, "" if none."""

    architecture: str
    width: int
    depth: int = 1
    variant: str = ""

    def __str__(self) -> str:
        size = f"{self.width}" if self.depth == 1 else f"{self.width}×{self.depth}"
        return f"{size}, {self.variant}" if self.variant else size

    @property
    def name(self) -> str:
        """Architecture and size in words."""
        return f"{NAMES[self.architecture]} {self}"


@dataclass(frozen=True)
class TrainedRun:
    """One record. What is measured is computed when it is first asked for, from the record alone."""

    network: Network
    seed: int
    result: Mapping[str, Any]
    steps: int = 0  # of second order that its training was to end with
    sequences: int = 0  # that it generated and that are measured

    @property
    def second_order(self) -> bool:
        """Whether its training was to end with steps of second order."""
        return self.steps > 0

    @property
    def generated(self) -> bool:
        """False for a training that diverged in its first epoch and left no network to draw from."""
        return "information" in self.result

    @property
    def validation_loss(self) -> float:
        """Smallest over the epochs, nats per symbol; infinite if there is none."""
        return float(min(self.result["validation_losses"], default=np.inf))

    @property
    def training_loss(self) -> float:
        """Of the last epoch, nats per symbol; infinite if there is none."""
        return float([np.inf, *self.result["training_losses"]][-1])

    @property
    def converged(self) -> bool:
        """Training ended because the validation loss had ceased to improve, not because the epochs were over."""
        return bool(self.result["reason"] == FINISHED_BY_PATIENCE)

    @cached_property
    def measured(self) -> GroupedCurve:
        """Two-point information of the generated sequences."""
        return GroupedCurve(
            np.array(self.result["information"], dtype=np.float64),
            np.array(self.result["group_lags"], dtype=np.int64),
            np.array(self.result["information_by_group"], dtype=np.float64),
        )

    @cached_property
    def tail_points(self) -> slice:
        """Which of `long_lags` show the tail: from the first below TAIL to the last that the groups resolve."""
        curve = np.array(self.result.get("long_information", []), dtype=np.float64)
        below = np.flatnonzero(curve < TAIL)
        if not below.size:
            return slice(0, 0)
        groups = np.array(self.result["long_information_by_group"], dtype=np.float64)
        errors = groups.std(axis=0, ddof=1) / np.sqrt(len(groups))
        blurred = np.flatnonzero(~(errors <= RESOLVED * curve)[below[0] :])
        return slice(below[0], below[0] + blurred[0] if blurred.size else curve.size)

    @cached_property
    def tail(self) -> tuple[DecayComparison, ...]:
        """Exponential against power law at the `tail_points` of what was generated beyond the window, both weightings.

        Empty where these are fewer than five, or nothing longer was generated.
        """
        some = self.tail_points
        if some.stop - some.start < FEWEST_POINTS:
            return ()
        lags = np.array(self.result["long_lags"], dtype=np.int64)[some]
        curve = np.array(self.result["long_information"], dtype=np.float64)[some]
        groups = np.array(self.result["long_information_by_group"], dtype=np.float64)[:, some]
        return tuple(compare_decay(lags, curve, groups, floor=0.0, weighting=weighting) for weighting in WEIGHTINGS)

    @property
    def tail_length(self) -> float:
        """xi of an exponential through the `tail_points`, in symbols, by least squares in ln I."""
        lags, curve = (np.array(self.result[key])[self.tail_points] for key in ("long_lags", "long_information"))
        return fit_exponential(lags, curve, floor=0.0).correlation_length

    @property
    def tail_law(self) -> str:
        """The law that both weightings name, or "undecided"."""
        return shared(comparison.verdict for comparison in self.tail)

    @property
    def tail_sign(self) -> float:
        """-1 for an exponential tail, 1 for a power law, 0 for undecided, NaN where there is no tail to judge."""
        return SIGNS[self.tail_law] if self.tail else np.nan

    @property
    def divergences(self) -> Floats:
        """KL divergence from the true next-symbol distribution to the model's, t = 2, 3, ..., nats, exact."""
        losses: Floats = np.array(self.result["exact_losses"], dtype=np.float64)
        return losses - np.array(self.result["true_conditional_entropies"], dtype=np.float64)


Runs = Sequence[TrainedRun]
Networks = Mapping[Network, Runs]


def trained_runs(records: Iterable[Record]) -> list[TrainedRun]:
    """The records as runs, by architecture, variant, depth, width and seed."""
    runs = [
        TrainedRun(network_of(record), record["seed"], record["result"], sequences=record["parameters"]["generated"])
        for record in records
    ]
    return sorted(runs, key=lambda run: (*_order(run.network), run.seed))


def network_of(record: Record) -> Network:
    """Which network a record is of; settings that are not those of its family make a variant, named by them."""
    parameters = record["parameters"]
    family = _families()[parameters["architecture"]]
    usual = {**family.get("options", {}), **FitSettings(**family.get("fit", {})).model_dump()}
    chosen = {**parameters["options"], **parameters["fit"]}
    different = {
        key: value
        for key, value in chosen.items()
        if key not in _LENGTH_OF_TRAINING and (key not in usual or usual[key] != value)
    }
    variant = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in sorted(different.items()))
    return Network(parameters["architecture"], parameters["width"], parameters["depth"], variant)


def of_network(
    runs: Iterable[TrainedRun],
    architecture: str,
    width: int | None = None,
    depth: int | None = 1,
    variant: str | None = "",
) -> dict[Network, list[TrainedRun]]:
    """Runs that left a network, by network, seeds in order; None stands for every width, depth or variant."""
    found: dict[Network, list[TrainedRun]] = {}
    for run in runs:
        network = run.network
        asked = ((network.width, width), (network.depth, depth), (network.variant, variant))
        if run.generated and network.architecture == architecture and all(b is None or a == b for a, b in asked):
            found.setdefault(network, []).append(run)
    return {network: found[network] for network in sorted(found, key=_order)}


def best(runs: Runs) -> TrainedRun:
    """The seed with the smallest validation loss, as Shen chooses. Raises ValueError without runs."""
    if not runs:
        raise ValueError("runs: at least one is needed, got none")
    return min(runs, key=lambda run: run.validation_loss)


def mean_ratio(run: TrainedRun, law: npt.ArrayLike, first: int, last: int) -> float:
    """Mean of I over the exact curve (nats at lags 1, 2, ...) at lags first .. last."""
    exact = np.asarray(law, dtype=np.float64)[first - 1 : last]
    return float(np.mean(run.measured.curve[first - 1 : last] / exact))


def farthest_octave(run: TrainedRun, law: npt.ArrayLike, last: int) -> float:
    """The mean of I over the exact curve (nats at lags 1, 2, ...), or its inverse, in the octave where it is larger.

    Octaves are the lags 1, 2, 3 to 4, 5 to 8, ... up to last. A mean below a thousandth counts as that much.
    """
    edges = [0, *(2**n for n in range((last - 1).bit_length())), last]
    means = [mean_ratio(run, law, below + 1, up) for below, up in pairwise(edges)]
    return float(np.exp(np.abs(np.log(np.maximum(means, 1e-3))).max()))


def law(runs: Iterable[TrainedRun]) -> str:
    """The law that every seed names, or "undecided"."""
    return shared(run.measured.law for run in runs)


def tail_law(runs: Iterable[TrainedRun]) -> str:
    """The law that the tail of every seed follows, or "undecided", also where a seed has no tail to judge."""
    return shared(run.tail_law for run in runs)


def _order(network: Network) -> tuple[str, str, int, int]:
    return network.architecture, network.variant, network.depth, network.width


@cache
def _families() -> dict[str, Any]:
    return Experiment("binary_sequences").families
