"""Winner-take-all features: one functional for each window that is positive there and nowhere else.

Neuron j reads g_j . v and has a threshold between its own window and the runner-up, so that

    relu(h_j(v_i) + b_j) = 1 if i = j, else 0 exactly.

Such a functional exists if and only if v_j is no convex combination of the other windows: all windows are corners of
their convex hull. Windows on a sphere are; windows made of single numbers that differ at one lag only are not, when
there are three.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.spatial import cKDTree

from lib.theory.memorizing.checks import MIXED, column_units
from lib.theory.memorizing.transition import Transition, fitted_transition, projection

Array = NDArray[np.float64]
_SMALLEST_MARGIN = 1e-9  # of a functional's range: below, a threshold cannot be told from rounding
_DRAWS = 20  # of a projection, until all windows are corners
_BLOCK = 1024  # rows of the table of scores that are held at once


class NotACorner(ValueError):
    """A window that lies in the convex hull of the others: nothing linear singles it out."""

    def __init__(self, window: int, others: tuple[int, ...], method: str = "winner_take_all") -> None:
        self.window, self.others = window, others
        super().__init__(
            f"{method}: sequence {window} lies in the convex hull of sequences {', '.join(map(str, others))}, "
            "so no linear functional singles it out; methods 'gap' and 'sorted' need no corners"
        )


def separators(windows: Array) -> tuple[Array, Array]:
    """Functionals (N, d) and thresholds (N,) with functional . v - threshold = 1 at the own window, <= -1 elsewhere.

    windows (N, order, width), different; d = order * width. Tries the window itself, seen from the origin, the mean and
    the middle, which is right on spheres, then the largest margin by linear programming. Corners are corners in any
    units: coordinates that differ by more than 2^16 are measured in units of their own, powers of two near their
    standard deviations, and no window is refused without a linear program in such units. Raises NotACorner (a
    ValueError). Cost O(N^2 d), and one or two linear programs for each window that needs them; far less for
    `_on_spheres`.
    """
    count, order, width = windows.shape
    windows = windows.reshape(count, -1)
    if count == 1:
        return np.zeros_like(windows), np.full(1, -1.0)
    closest = _on_spheres(windows.reshape(count, order, width))
    if closest > _SMALLEST_MARGIN:
        return windows * (2 / closest), (2 * np.sum(windows**2, axis=1) / closest) - 1
    finest = column_units(windows)
    units = finest if finest.max() / finest.min() > MIXED else np.ones_like(finest)
    windows, finest = windows / units, finest / units
    best, margins = windows.copy(), np.full(count, -np.inf)
    middle = (windows.max(axis=0) + windows.min(axis=0)) / 2
    for centre in (np.zeros(windows.shape[1]), windows.mean(axis=0), middle):
        functionals = windows - centre
        own, second, lowest = _own_and_second(functionals, windows)
        margin = (own - second) / np.where(own > lowest, own - lowest, 1)
        better = margin > margins
        best[better], margins[better] = functionals[better], margin[better]
    for window in np.flatnonzero(margins < _SMALLEST_MARGIN):
        try:
            best[window] = _largest_margin(windows, int(window))
        except NotACorner:
            best[window] = _largest_margin(windows / finest, int(window)) / finest
    own, second, _ = _own_and_second(best, windows)
    scale = 2 / (own - second)
    return best * scale[:, None] / units, scale * (own + second) / 2


def one_hot_transition(latest_first: Array, neurons: int, generator: np.random.Generator) -> tuple[Transition, Array]:
    """Winner-take-all weights and biases; inputs are projected if there are too few neurons to read all of them.

    latest_first (N, order, m); neurons >= N, those beyond N silent. Returns a transition and biases b (neurons,).
    Raises NotACorner. Cost as `separators`, up to 20 times where inputs are projected.
    """
    count, order, inputs = latest_first.shape
    width, spare = min(inputs, max(1, neurons // order)), neurons - count
    for attempt in range(1 if width == inputs else _DRAWS):
        read = np.eye(inputs) if width == inputs else projection(width, inputs, generator)
        seen = latest_first @ read.T
        try:
            functionals, thresholds = separators(seen)
        except NotACorner:
            if attempt == _DRAWS - 1 or width == inputs:
                raise
            continue
        more = (0, spare), (0, 0), (0, 0)
        functionals, seen = np.pad(functionals.reshape(seen.shape), more), np.pad(seen, more, "edge")
        thresholds = np.pad(thresholds, (0, spare), constant_values=1.0)  # 0 . window - 1 < 0: silent
        return fitted_transition(functionals, thresholds, seen, read, generator)
    raise AssertionError


def _on_spheres(windows: Array) -> float:
    """With the inputs of each lag on a sphere, v_j . (v_j - v_i) = sum_s |x_js - x_is|^2 / 2 >= the number returned.

    It is the least half squared distance of different inputs at one lag; 0 if some lag's inputs are on no sphere about
    the origin, or too many to compare. Cost O(order U^2 m) for U different inputs, far below N^2 for words.
    """
    least = np.inf
    for lag in range(windows.shape[1]):
        norms = np.linalg.norm(windows[:, lag], axis=1)
        if np.ptp(norms) > 1e-12 * norms.max():
            return 0.0
        different = np.unique(windows[:, lag], axis=0)
        if len(different) > len(windows) // 2 or len(different) == 1:
            if len(different) > 1:
                return 0.0
            continue
        distance, _ = cKDTree(different).query(different, k=2)
        least = min(least, float(np.min(distance[:, 1]) ** 2 / 2))
    return least if np.isfinite(least) else 0.0


def _own_and_second(functionals: Array, windows: Array) -> tuple[Array, Array, Array]:
    """Of each functional: the value at the own window, the largest and the smallest elsewhere. In blocks of rows."""
    own, second, lowest = (np.empty(len(windows)) for _ in range(3))
    for start in range(0, len(windows), _BLOCK):
        rows = slice(start, start + _BLOCK)
        scores = functionals[rows] @ windows.T
        mine = np.arange(len(scores)), np.arange(start, start + len(scores))
        own[rows], lowest[rows] = scores[mine], scores.min(axis=1)
        scores[mine] = -np.inf
        second[rows] = scores.max(axis=1)
    return own, second, lowest


def _largest_margin(windows: Array, window: int) -> Array:
    """The functional with entries up to 1 that singles out a window by most: maximise t, g . (v_j - v_i) >= t."""
    others = np.delete(np.arange(len(windows)), window)
    differences = windows[window] - windows[others]
    unit = np.abs(differences).max()
    d = windows.shape[1]
    constraints = np.column_stack([-differences / unit, np.ones(len(others))])
    solution = linprog(np.r_[np.zeros(d), -1.0], constraints, np.zeros(len(others)), bounds=[(-1, 1)] * d + [(None, 1)])
    if not solution.success or -solution.fun < _SMALLEST_MARGIN:
        weights = -solution.ineqlin.marginals if solution.success else np.ones(len(others))
        raise NotACorner(window, tuple(others[weights > 1e-9].tolist()))
    return np.asarray(solution.x[:d])
