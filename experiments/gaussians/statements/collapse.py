"""Does the KL of models of many sizes and lengths depend on I_BP / dim(state) alone? (L2M version 2, Fig. 3c)"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import isotonic_regression
from scipy.stats import kendalltau

from experiments.gaussians.runs import GaussianRun, Model, Models
from lib.checks import generator, whole_number

FEWEST_CELLS = 4
SAME = 1e-12  # what is rounding, of logarithms
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

    keys: (model, length) of every cell. kl: (cells, seeds), ln of the average KL, or of the floor where that is more;
    NaN where a run is missing. variables: (cells,) for each name of VARIABLES.
    """

    keys: list[tuple[Model, int]]
    kl: Floats
    variables: Mapping[str, Floats]

    def __len__(self) -> int:
        return len(self.keys)


def cells_of(models: Models, seeds: int, floor: float = 0.0) -> Cells:
    """The cells of these models. What lies on the floor, nats per number, counts as lying there, however far below."""
    keys: list[tuple[Model, int]] = []
    rows: list[Floats] = []
    found: dict[str, list[float]] = {name: [] for name in VARIABLES}
    for model, by_length in models.items():
        for length, runs in by_length.items():
            row = np.full(seeds, np.nan)
            row[[run.seed for run in runs]] = np.log([max(run.average, floor) for run in runs])
            keys.append((model, length))
            rows.append(row)
            for name, variable in VARIABLES.items():
                found[name].append(variable(runs[0]))
    return Cells(keys, np.array(rows).reshape(-1, seeds), {name: np.array(values) for name, values in found.items()})


@dataclass(frozen=True)
class Prediction:
    """How well cells are predicted by a rising curve through the others.

    explained: 1 - (squared errors of the curve) / (those of the mean of the others); below 0 the mean is better.
    scatter: root mean square error of the curve, in ln KL.
    """

    explained: float
    scatter: float


def rising(x: ArrayLike, y: ArrayLike) -> tuple[Floats, Floats]:
    """The curve that never falls and is nearest to the points in squares (isotonic regression), whatever its shape.

    x, y: (n,), n >= 1. Returns the different x from small to large, and the curve there; straight between them, and
    level beyond them. Points of the same x have one value. Raises ValueError for other shapes.
    """
    places, values = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if places.ndim != 1 or places.shape != values.shape or not places.size:
        raise ValueError(f"x, y: (n >= 1,) each are needed, got {places.shape} and {values.shape}")
    there, owner, counts = np.unique(places, return_inverse=True, return_counts=True)
    means = np.bincount(owner, values) / counts
    return there, np.asarray(isotonic_regression(means, weights=counts).x)


def predicted(x: ArrayLike, y: ArrayLike) -> Prediction:
    """Leave out one cell at a time, and read it off the rising curve through the others. x, y: (n,), n >= 4.

    NaN in y gives NaN. Raises ValueError for fewer cells, other shapes and a constant x.
    """
    places, values = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if places.ndim != 1 or places.shape != values.shape or places.size < FEWEST_CELLS:
        raise ValueError(f"x, y: (n >= {FEWEST_CELLS},) each are needed, got {places.shape} and {values.shape}")
    if not np.ptp(places) > SAME * np.abs(places).max():
        raise ValueError("x: different values are needed, got a constant")
    if np.isnan(values).any():
        return Prediction(math.nan, math.nan)
    others = ~np.eye(values.size, dtype=bool)
    read = [np.interp(place, *rising(places[rest], values[rest])) for place, rest in zip(places, others, strict=True)]
    of_curve = float(np.sum((values - read) ** 2))
    of_mean = float(np.sum(((values - values.mean()) * values.size / (values.size - 1)) ** 2))
    explained = 1.0 - of_curve / of_mean if np.ptp(values) > 0 else math.nan  # nothing to explain
    return Prediction(explained, math.sqrt(of_curve / values.size))


def foretold(cells: Cells, others: Cells, name: str) -> Floats:
    """Of other cells, the share explained by the rising curve through all of `cells`, in every seed, (seeds,).

    Compared with the mean of `cells`. NaN for a seed without all cells, or if undecidable.
    """
    if not decidable(cells) or not len(others):
        return np.full(cells.kl.shape[1], np.nan)
    x, at = (_rises(some, name) for some in (cells, others))
    found = []
    for known, wanted in zip(cells.kl.T, others.kl.T, strict=True):
        missing = np.isnan(known).any() or np.isnan(wanted).any()
        read = np.full(wanted.size, np.nan) if missing else np.interp(at, *rising(x, known))
        found.append(1.0 - np.sum((wanted - read) ** 2) / np.sum((wanted - known.mean()) ** 2))
    return np.array(found)


def decidable(cells: Cells) -> bool:
    """There are enough cells, of at least two lengths and two sizes of the state."""
    several = len(cells) > 0 and all(np.ptp(cells.variables[name]) > 0 for name in (LENGTH, STATE))
    return several and len(cells) >= FEWEST_CELLS


def per_seed(cells: Cells, name: str, what: Literal["explained", "scatter"] = "explained") -> Floats:
    """What a variable predicts in every seed, (seeds,); NaN for a seed without all cells, or if undecidable."""
    if not decidable(cells):
        return np.full(cells.kl.shape[1], np.nan)
    found = [predicted(_rises(cells, name), column) for column in cells.kl.T]
    return np.array([getattr(one, what) for one in found])


def advantage_over(cells: Cells, name: str, other: str) -> Floats:
    """ln of (scatter about the curve in `other`) / (that about the curve in `name`), by seed: positive if smaller."""
    theirs, own = (per_seed(cells, key, "scatter") for key in (other, name))
    return np.asarray(np.log(np.maximum(theirs, SAME) / np.maximum(own, SAME)))


def order_agreement(cells: Cells, name: str) -> float:
    """Kendall's tau of the means over seeds with a variable: 1 if they rise together, on whatever curve."""
    return float(kendalltau(cells.variables[name], np.nanmean(cells.kl, axis=1)).statistic)


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
    x = _rises(cells, name)
    found = predicted(x, means).explained
    tries = whole_number(permutations, "permutations", 1)
    hits = sum(predicted(x, random.permutation(means)).explained >= found for _ in range(tries))
    return (1 + hits) / (1 + tries)


def _rises(cells: Cells, name: str) -> Floats:
    """The variable, or minus it where KL is to fall with it: with the size of the state alone."""
    return -cells.variables[name] if name == STATE else cells.variables[name]
