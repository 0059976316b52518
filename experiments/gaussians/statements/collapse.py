"""Does the KL of models of many sizes and lengths depend on I_BP / dim(state) alone? (L2M version 2, Fig. 3c)"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import kendalltau

from experiments.gaussians.runs import GaussianRun, Model, Models
from lib.checks import generator, whole_number

FEWEST_CELLS = 4
Floats = NDArray[np.float64]

VARIABLES: dict[str, Callable[[GaussianRun], float]] = {
    r"$I_{L/2;L} / \dim z$": lambda run: math.log(run.information / run.state()),
    r"$I_{L/2;L} / \dim z$, no convolution": lambda run: math.log(run.information / run.state(scanned=True)),
    r"$L$ alone": lambda run: math.log(run.length),
    r"$\dim z$ alone": lambda run: math.log(run.state()),
    r"$I_{L/2;L}$ / parameters": lambda run: math.log(run.information / run.result["parameter_count"]),
}
"""What ln KL is plotted against, the collapse first."""
COLLAPSE, WITHOUT_WINDOWS, LENGTH, STATE, PARAMETERS = VARIABLES


@dataclass(frozen=True, eq=False)
class Cells:
    """One point for each model and length, with every seed of it.

    keys: (model, length) of every cell. kl: (cells, seeds), ln of the average KL, NaN where a run is missing.
    variables: (cells,) for each name of VARIABLES.
    """

    keys: list[tuple[Model, int]]
    kl: Floats
    variables: Mapping[str, Floats]

    def __len__(self) -> int:
        return len(self.keys)


def cells_of(models: Models, seeds: int) -> Cells:
    """The cells of these models."""
    keys: list[tuple[Model, int]] = []
    rows: list[Floats] = []
    found: dict[str, list[float]] = {name: [] for name in VARIABLES}
    for model, by_length in models.items():
        for length, runs in by_length.items():
            row = np.full(seeds, np.nan)
            row[[run.seed for run in runs]] = np.log([run.average for run in runs])
            keys.append((model, length))
            rows.append(row)
            for name, variable in VARIABLES.items():
                found[name].append(variable(runs[0]))
    return Cells(keys, np.array(rows).reshape(-1, seeds), {name: np.array(values) for name, values in found.items()})


@dataclass(frozen=True)
class Prediction:
    """How well cells are predicted by a straight line through the others.

    explained: 1 - (squared errors of the line) / (those of the mean of the others); below 0 the mean is better.
    scatter: root mean square error of the line, in ln KL. slope: of the line through all cells.
    """

    explained: float
    scatter: float
    slope: float


def predicted(x: ArrayLike, y: ArrayLike) -> Prediction:
    """Leave out one cell at a time. x, y: (n,), n >= 4; NaN in y gives NaN.

    The error of a left-out cell is residual / (1 - leverage), for the line as for the mean, so that nothing is fitted
    anew. Raises ValueError for fewer cells, other shapes and a constant x.
    """
    places, values = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if places.ndim != 1 or places.shape != values.shape or places.size < FEWEST_CELLS:
        raise ValueError(f"x, y: (n >= {FEWEST_CELLS},) each are needed, got {places.shape} and {values.shape}")
    deviations = places - places.mean()
    if not np.ptp(places) > 1e-12 * np.abs(places).max():
        raise ValueError("x: different values are needed, got a constant")
    leverages = deviations**2 / (deviations @ deviations)
    slope = float(deviations @ values / (deviations @ deviations))
    residuals = values - values.mean() - slope * deviations
    of_line = np.sum((residuals / (1 - leverages - 1 / values.size)) ** 2)
    of_mean = np.sum(((values - values.mean()) / (1 - 1 / values.size)) ** 2)
    return Prediction(float(1 - of_line / of_mean), float(np.sqrt(of_line / values.size)), slope)


def decidable(cells: Cells) -> bool:
    """There are enough cells, of at least two lengths and two sizes of the state."""
    several = len(cells) > 0 and all(np.ptp(cells.variables[name]) > 0 for name in (LENGTH, STATE))
    return several and len(cells) >= FEWEST_CELLS


def per_seed(cells: Cells, name: str, what: Literal["explained", "scatter", "slope"] = "explained") -> Floats:
    """What a variable predicts in every seed, (seeds,); NaN for a seed without all cells, or if undecidable."""
    if not decidable(cells):
        return np.full(cells.kl.shape[1], np.nan)
    found = [predicted(cells.variables[name], column) for column in cells.kl.T]
    return np.array([getattr(one, what) for one in found])


def advantage_over(cells: Cells, name: str, other: str) -> Floats:
    """ln of (scatter about the line in `other`) / (scatter about that in `name`) in every seed: positive if smaller."""
    theirs, own = (per_seed(cells, key, "scatter") for key in (other, name))
    smallest = 1e-12  # of scatter that is rounding
    return np.asarray(np.log(np.maximum(theirs, smallest) / np.maximum(own, smallest)))


def order_agreement(cells: Cells, name: str) -> float:
    """Kendall's tau of the means over seeds with a variable: 1 if they rise together, on whatever curve."""
    return float(kendalltau(cells.variables[name], np.nanmean(cells.kl, axis=1)).statistic)


def own_powers(cells: Cells) -> tuple[Floats, Floats]:
    """ln KL = a + b ln I - c ln dim, fitted to every seed: the powers b and c, (seeds,) each. Collapse says b = c."""
    size = cells.variables[STATE]
    information = cells.variables[COLLAPSE] + size
    design = np.column_stack([np.ones(len(cells)), information, -size])
    if np.linalg.matrix_rank(design) < 3:
        raise ValueError("cells: at least two lengths and two sizes of the state are needed")
    found = np.linalg.pinv(design) @ cells.kl
    return np.asarray(found[1]), np.asarray(found[2])


def exchanged_states(cells: Cells) -> Iterator[float]:
    """Share explained by I / dim, means over seeds, with states exchanged among the models in every wrong way."""
    models = list(dict.fromkeys(model for model, _ in cells.keys))
    sizes: dict[Model, dict[int, float]] = {model: {} for model in models}
    for (model, length), size in zip(cells.keys, cells.variables[STATE], strict=True):
        sizes[model][length] = float(size)
    information, means = cells.variables[COLLAPSE] + cells.variables[STATE], np.nanmean(cells.kl, axis=1)
    for order in itertools.permutations(models):
        if order != tuple(models):
            owner = dict(zip(models, order, strict=True))
            given = np.array([sizes[owner[model]].get(length, np.nan) for model, length in cells.keys])
            if not np.isnan(given).any():
                yield predicted(information - given, means).explained


def chance(cells: Cells, name: str, permutations: int = 2000, seed: int | np.random.Generator = 0) -> float:
    """Probability that cells in random order are explained as well, means over seeds; (1 + hits) / (1 + tries)."""
    random, means = generator(seed), np.nanmean(cells.kl, axis=1)
    x = cells.variables[name]
    found = predicted(x, means).explained
    tries = whole_number(permutations, "permutations", 1)
    hits = sum(predicted(x, random.permutation(means)).explained >= found for _ in range(tries))
    return (1 + hits) / (1 + tries)
