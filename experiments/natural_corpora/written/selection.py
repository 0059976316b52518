"""Which networks a statement is about, and whether they were trained to a plateau."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from experiments.natural_corpora.written.runs import Network, Runs, usual
from lib.report.gate import Plateau, all_ways, plateau_of

PROSE = ("prose", "addresses")  # what is not WikiText-2
NARROWEST = {"character": 32, "word": 16}  # widths from which the paper's statements hold
Networks = Mapping[Network, Runs]


@dataclass(frozen=True)
class Selection:
    """Networks that have written, by all their trainings, and those that statements are about.

    A network that is planned from three seeds and has not run is a precondition that is not met.
    """

    found: Networks
    about: frozenset[Network]

    def networks(
        self, level: str, architecture: str, *, depth: int | None = 1, widest: bool = False, from_width: int = 0
    ) -> dict[Network, Runs]:
        """Those of WikiText-2 that are wide enough, or the widest alone; one depth, or all if None."""
        some = [
            network
            for network in sorted(self.about)
            if (network.level, network.architecture) == (level, architecture)
            and network.text not in PROSE
            and depth in (None, network.depth)
            and network.width >= max(NARROWEST[level], from_width)
        ]
        largest = max((network.width for network in some), default=0)
        return {
            network: usual(self.found.get(network, [])) for network in some if not widest or network.width == largest
        }

    def gate(self, networks: Networks) -> Plateau:
        """Were they trained to a plateau? The effect is what size brings: the range of the mean losses of their kin."""
        ways = []
        for network in networks:
            kin = self.networks(network.level, network.architecture, depth=None).values()
            losses = [float(np.mean([run.loss for run in runs])) for runs in kin if runs]
            effect = max(losses, default=0.0) - min(losses, default=0.0)
            trainings = [run.training for run in self.found.get(network, [])]
            ways.append(plateau_of({f"{network}, {network.level}s": trainings}, effect=effect or None))
        return all_ways(*ways) if ways else plateau_of({}, effect=None)

    def pairs(self, architecture: str) -> dict[Network, Network]:
        """Networks of characters with more than one layer, each with that of one layer and its width."""
        some = self.networks("character", architecture, depth=None)
        return {deep: one for deep in some for one in some if deep.depth > one.depth == 1 and deep.width == one.width}

    def of_level(self, level: str) -> list[Runs]:
        """All networks of a level that have read WikiText-2, with their usual seeds."""
        chosen = (network for network in self.found if network.level == level and network.text not in PROSE)
        return [usual(self.found[network]) for network in chosen]
