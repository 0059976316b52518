"""Records of networks on long documents, sorted by network and seed, and reduced to what the chapter shows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lib.models.catalogue import NAMES
from lib.report import gate
from lib.runs.definition import Experiment
from lib.training.settings import FitSettings

EXPERIMENT = "l2m-fig5"
COUNTS = "book-counts"
ORDER = ("transformer", "mamba", "mamba2", "lstm")
EARLY, LATE = (17, 64), (513, None)  # tokens seen: first and last; None is all of the context
PUBLISHED = {
    "GPT2": ("transformer", 2.977),
    "GPT2-medium": ("transformer", 2.771),
    "Mamba-130M": ("mamba", 3.111),
    "Mamba-370M": ("mamba", 2.875),
    "Mamba-790M": ("mamba", 2.766),
}
"""L2M (2025), Table F.1: architecture and average NLL in nats per token; sizes ascend within an architecture."""

Record = Mapping[str, Any]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Network:
    """What was trained, but for the seed. variant: choices that differ from its family's, "" if none."""

    architecture: str
    depth: int
    width: int
    variant: str = ""

    @property
    def name(self) -> str:
        """As in "Mamba 4×64": layers and width."""
        return f"{NAMES[self.architecture]} {self.depth}×{self.width}"

    def __str__(self) -> str:
        return f"{self.name}, {self.variant}" if self.variant else self.name


@dataclass(frozen=True)
class BookRun:
    """One record."""

    network: Network
    seed: int
    parameters: Record
    result: Record
    version: int = 0  # of the experiment

    @property
    def measured(self) -> bool:
        """False for a training that diverged in its first epoch and left nothing to measure."""
        return self.result.get("mean_nll") is not None

    @property
    def mean(self) -> float:
        """NLL over all positions of all windows (E.39), nats per token."""
        return float(self.result["mean_nll"])

    @property
    def context(self) -> int:
        return int(self.parameters["context"])

    @property
    def state_between_halves(self) -> float:
        """Numbers in the state after half of the context; a Transformer has as many again for the other half."""
        whole = float(self.result["state_size"])
        return whole / 2 if self.network.architecture == "transformer" else whole

    @property
    def by_document(self) -> Floats:
        """NLL (documents, bins) in nats per token."""
        return np.array(self.result["by_document"], dtype=np.float64)

    @property
    def steps(self) -> int:
        """Updates that were made."""
        return len(self.result["training_losses"]) * int(self.parameters["epoch_steps"])

    @property
    def batch(self) -> int:
        return FitSettings(**self.parameters["fit"]).batch

    @property
    def tokens(self) -> int:
        """That were trained on."""
        return self.steps * self.batch * self.context

    @property
    def budget(self) -> tuple[int, float]:
        """Epochs, as planned, and learning rate."""
        fit = FitSettings(**self.parameters["fit"])
        return fit.epochs, fit.learning_rate


Runs = Sequence[BookRun]
Networks = Mapping[Network, Runs]


@dataclass(frozen=True)
class Counted:
    """Tables of counts that see k = 0, 1, ... tokens of the past, scored on the windows of the networks."""

    tokens: int  # that were counted
    curves: Floats  # (k, bins), NLL in nats per token
    means: Floats  # (k,), over all positions
    first: NDArray[np.int64]  # (bins,), tokens seen
    last: NDArray[np.int64]


def network_of(parameters: Record) -> Network:
    """Which network these parameters are of: positions that are not added, or options no family has, are a variant."""
    architecture = parameters["architecture"]
    usual: dict[str, Any] = {}
    for family in Experiment(EXPERIMENT).families.values():
        if family["architecture"] == architecture:
            usual |= family.get("options", {})
    different = {
        key: value
        for key, value in parameters["options"].items()
        if key != "heads" and (key not in usual or usual[key] != value)
    }
    words = [f"{key.replace('_', ' ')} {value}" for key, value in sorted(different.items())]
    marked = parameters.get("positions") or "sinusoidal"
    words = words if marked == "sinusoidal" else [f"{marked} positions", *words]
    return Network(architecture, parameters["depth"], parameters["width"], ", ".join(words))


def trained_runs(records: Iterable[Record]) -> list[BookRun]:
    """The records as runs, by architecture, size, variant and seed."""
    runs = [
        BookRun(
            network_of(record["parameters"]),
            record["seed"],
            record["parameters"],
            record["result"],
            record.get("version", 0),
        )
        for record in records
    ]
    return sorted(runs, key=lambda run: (*_order(run.network), run.seed))


def of_networks(
    runs: Iterable[BookRun], architecture: str | None = None, variant: str | None = ""
) -> dict[Network, list[BookRun]]:
    """Runs that left something to measure, by network, seeds in order; None stands for all."""
    found: dict[Network, list[BookRun]] = {}
    for run in runs:
        network = run.network
        if run.measured and architecture in (None, network.architecture) and variant in (None, network.variant):
            found.setdefault(network, []).append(run)
    return {network: found[network] for network in sorted(found, key=_order)}


def usual_budget(runs: Iterable[BookRun]) -> tuple[int, float]:
    """Epochs and rate that most runs have, of several the longest. Raises ValueError without runs."""
    return gate.usual_budget([gate.Training(run.seed, *run.budget, 0.0, run.version) for run in runs])


def at_equal_tokens(runs: Sequence[BookRun], budget: tuple[int, float] | None = None) -> list[BookRun]:
    """Of each network the runs at a budget, by default that of most runs; all of its runs, where none has it."""
    if not runs:
        return []
    usual = budget or usual_budget(runs)
    there = {run.network for run in runs if run.budget == usual}
    return [run for run in runs if run.budget == usual or run.network not in there]


def counted_tables(records: Iterable[Record]) -> list[Counted]:
    """The records of COUNTS, those of the fewest tokens first."""
    found = [
        Counted(
            result["counted_tokens"],
            np.array(result["nll"], dtype=np.float64),
            np.array(result["mean_nll"], dtype=np.float64),
            np.array(result["first_seen"]),
            np.array(result["last_seen"]),
        )
        for result in (record["result"] for record in records)
    ]
    return sorted(found, key=lambda counted: counted.tokens)


def planned(profile: str) -> list[Network]:
    """Every network of a profile, recorded or not."""
    networks = {network_of(run.parameters) for run in Experiment(EXPERIMENT).runs(profile)}
    return sorted(networks, key=_order)


def matched(networks: Iterable[Network]) -> list[tuple[Network, Network]]:
    """Transformers with the Mamba of the same width and twice the layers, as the paper pairs them.

    A Transformer with learned positions is taken where there is none with the family's own.
    """
    there = sorted(networks, key=_order)
    pairs = []
    for network in there:
        if network.architecture == "mamba" and not network.variant:
            alike = [
                other
                for other in there
                if (other.architecture, 2 * other.depth, other.width) == ("transformer", network.depth, network.width)
            ]
            if alike:
                pairs.append((alike[0], network))
    return pairs


def roles(networks: Iterable[Network]) -> dict[str, Network]:
    """Which network stands where a network of Table F.1 stands: the n-th size of its architecture, from the smallest.

    Names without a network are left out.
    """
    there = sorted((network for network in networks if not network.variant), key=_order)
    found: dict[str, Network] = {}
    taken: dict[str, int] = {}
    for name, (architecture, _) in PUBLISHED.items():
        own = [network for network in there if network.architecture == architecture]
        place = taken.setdefault(architecture, 0)
        taken[architecture] += 1
        if place < len(own):
            found[name] = own[place]
    return found


def _order(network: Network) -> tuple[int, str, int, int]:
    return ORDER.index(network.architecture), network.variant, network.width, network.depth
