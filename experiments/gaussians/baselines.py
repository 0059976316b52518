"""What predictors of known memory miss of a hierarchical Gaussian, exactly: lines to hold trained models to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from experiments.gaussians.information import information_by_position
from experiments.gaussians.runs import GaussianRun
from lib.checks import real_array, real_number, whole_number
from lib.processes import HierarchicalGaussian
from lib.theory.gaussian_predictor import GaussianPredictor
from lib.theory.history import canonical_correlations

WINDOWS = (1, 2, 4, 8, 16, 32, 64)
SHOWN = (4, 16, 64)
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Baselines:
    """KL from the true distribution by position, nats per number, each (length,).

    independent: of N(0, 1), -1/2 ln Var[x_i | x_<i], which is what an untrained model says. halves: of the exact one
    that forgets the first half, 0 there and g_i in the second. windows: of the exact one given the last w tokens.
    """

    length: int
    independent: Floats
    halves: Floats
    windows: dict[int, Floats]

    def curves(self) -> dict[str, Floats]:
        """Those that figures show, by what they call them."""
        named = {f"last {window} tokens": self.windows[window] for window in SHOWN if window in self.windows}
        return {"nothing": self.independent, "its own half": self.halves, **named}

    @property
    def information(self) -> float:
        """Bipartite information of one copy, nats: the sum of the g_i."""
        return float(self.halves.sum())


@cache
def baselines(
    layers: int, family: str = "subvolume", coupling: str = "symmetric", windows: tuple[int, ...] = WINDOWS
) -> Baselines:
    """The lines at length 4^layers; windows that hold the whole sequence are left out. O(length^3), once."""
    law = HierarchicalGaussian(layers, family, coupling)
    matrix, half = law.covariance(), law.length // 2
    return Baselines(
        law.length,
        -0.5 * np.log(law.conditional_variances()),
        np.concatenate([np.zeros(half), information_by_position(matrix, half)]),
        {w: GaussianPredictor.windowed(matrix, w).divergences(matrix) for w in windows if w < law.length},
    )


def baselines_of(run: GaussianRun, windows: tuple[int, ...] = WINDOWS) -> Baselines:
    """The lines for the process that a run was trained on."""
    chosen = run.parameters
    return baselines(chosen["layers"], chosen["family"], chosen["coupling"], windows)


def in_bins(values: Floats, run: GaussianRun) -> Floats:
    """Means of a curve over the bins of positions that a run is recorded in."""
    bins = zip(run.result["first_positions"], run.result["last_positions"], strict=True)
    return np.array([values[first - 1 : last].mean() for first, last in bins])


@cache
def canonical_information(layers: int, family: str = "subvolume", coupling: str = "symmetric") -> Floats:
    """-1/2 ln(1 - r_i^2) of the canonical correlations of the halves of one copy, largest first, nats. O(length^3)."""
    law = HierarchicalGaussian(layers, family, coupling)
    places = np.arange(law.length)
    half = law.length // 2
    correlations = canonical_correlations(law.covariance(), places[:half], places[half:])
    return np.sort(-0.5 * np.log1p(-(correlations**2)))[::-1]


def numbers_needed(layers: int, share: float = 0.99) -> int:
    """The smallest linear state of one copy that has this share of the information about its second half.

    Raises ValueError unless 0 < share <= 1.
    """
    if not 0.0 < real_number(share, "share") <= 1.0:
        raise ValueError(f"share: 0 < share <= 1 is allowed, got {share!r}")
    total = np.cumsum(canonical_information(layers))
    return int(np.argmax(total >= share * total[-1])) + 1


def linear_state_information(layers: int, copies: int, sizes: Iterable[float]) -> Floats:
    """The most that a linear state of so many numbers can tell about the second half of all copies, nats.

    It keeps the largest canonical pairs: m numbers are shared evenly among the copies, and m / copies of them add up
    their information, in between linearly. Raises ValueError for copies below 1, and sizes that are no numbers >= 0.
    """
    copies = whole_number(copies, "copies", 1)
    total = np.concatenate([[0.0], np.cumsum(canonical_information(layers))])
    each = real_array(list(sizes), "sizes") / copies
    if not np.all(each >= 0):
        raise ValueError(f"sizes: numbers >= 0 are allowed, got {sizes!r}")
    return np.asarray(copies * np.interp(each, np.arange(total.size), total))


def linear_loss(layers: int, copies: int, numbers: float) -> float:
    """What the best linear state of so many numbers misses of the second half of all copies, over the KL of N(0, 1)."""
    line = baselines(layers)
    missed = line.information - linear_state_information(layers, copies, [numbers])[0] / copies
    return max(0.0, float(missed / line.independent.sum()))
