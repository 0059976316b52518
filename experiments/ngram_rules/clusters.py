"""Do points of one label lie together? Silhouettes, linear probes, principal components."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lib.checks import real_number, whole_number

Floats = NDArray[np.float64]


def silhouette(points: ArrayLike, labels: ArrayLike) -> float:
    """Mean of (b - a) / max(a, b) over the points, in [-1, 1] (Rousseeuw 1987).

    a is the mean Euclidean distance to the other points of the same label, b the smallest mean distance to the points
    of another label; a point alone with its label counts 0, as do two equal zeros. points (n, dimension), labels (n,).
    1: labels are tight and apart; 0: they overlap. Raises ValueError for other shapes or a single label.
    Cost O(n^2 dimension).
    """
    place, group, count = _labelled(points, labels)
    if len(count) < 2:
        raise ValueError("labels: at least two different ones are needed, got one")
    place = place - place.mean(axis=0)  # distances do not change, and lose fewer digits
    squares = np.sum(place**2, axis=1)
    distance = np.sqrt(np.maximum(squares[:, None] + squares - 2 * place @ place.T, 0.0))
    np.fill_diagonal(distance, 0.0)
    own = np.eye(len(count))[group]  # (n, labels)
    total = distance @ own
    rows = np.arange(len(place))
    others = total / count
    others[rows, group] = np.inf
    nearest = others.min(axis=1)
    inside = total[rows, group] / np.maximum(count[group] - 1, 1)
    larger = np.maximum(inside, nearest)
    value = np.divide(nearest - inside, larger, out=np.zeros_like(larger), where=(larger > 0) & (count[group] > 1))
    return float(value.mean())


def linear_probe(
    points: ArrayLike, labels: ArrayLike, new_points: ArrayLike, new_labels: ArrayLike, penalty: float = 1e-3
) -> float:
    """Share of new points whose label a linear map reads off: ridge regression on one-hot labels, the largest wins.

        W = argmin ||Y - X W||^2 / n + penalty s^2 ||W||^2,   X centred, s^2 the mean variance of a coordinate.

    points (n, dimension), labels (n,). A label that occurs only among the new points cannot be got right.
    Raises ValueError for other shapes or a penalty <= 0. Cost O(n dimension^2 + dimension^3).
    """
    place, group, count = _labelled(points, labels)
    new_place, _, _ = _labelled(new_points, new_labels)
    if new_place.shape[1] != place.shape[1]:
        raise ValueError(f"new_points: dimension {place.shape[1]} is needed, got {new_place.shape[1]}")
    strength = real_number(penalty, "penalty")
    if strength <= 0:
        raise ValueError(f"penalty: a number > 0 is allowed, got {penalty!r}")
    middle = place.mean(axis=0)
    centred = place - middle
    scale = float(np.mean(centred**2)) or 1.0
    one_hot = np.eye(len(count))[group]
    gram = centred.T @ centred / len(place) + strength * scale * np.eye(place.shape[1])
    weights = np.linalg.solve(gram, centred.T @ (one_hot - one_hot.mean(axis=0)) / len(place))
    scores = (new_place - middle) @ weights + one_hot.mean(axis=0)
    names = np.unique(np.asarray(labels))
    return float(np.mean(names[scores.argmax(axis=1)] == np.asarray(new_labels)))


def principal_components(points: ArrayLike, count: int) -> tuple[Floats, Floats, Floats]:
    """The `count` directions of largest variance: coordinates (n, count), shares of the variance, directions.

    Directions are the rows of an array (count, dimension), each signed so that its largest entry is positive.
    Raises ValueError for fewer than two points or more components than dimensions or points.
    """
    place = np.asarray(points, dtype=np.float64)
    if place.ndim != 2 or len(place) < 2 or not np.all(np.isfinite(place)):
        raise ValueError(f"points: finite numbers (n >= 2, dimension) are allowed, got shape {place.shape}")
    if whole_number(count, "count", 1) > min(place.shape):
        raise ValueError(f"count: at most {min(place.shape)} components are allowed, got {count}")
    centred = place - place.mean(axis=0)
    _, spread, directions = np.linalg.svd(centred, full_matrices=False)
    top = directions[:count]
    top = top * np.sign(top[np.arange(count), np.abs(top).argmax(axis=1)])[:, None]
    shares = spread[:count] ** 2 / max(float(np.sum(spread**2)), np.finfo(np.float64).tiny)
    return centred @ top.T, shares, top


def _labelled(points: ArrayLike, labels: ArrayLike) -> tuple[Floats, NDArray[np.int64], NDArray[np.int64]]:
    place, names = np.asarray(points, dtype=np.float64), np.asarray(labels)
    if place.ndim != 2 or names.shape != place.shape[:1] or not len(place) or not np.all(np.isfinite(place)):
        raise ValueError(
            f"points, labels: finite numbers (n >= 1, dimension) and (n,) are allowed, got {place.shape}, {names.shape}"
        )
    _, group, count = np.unique(names, return_inverse=True, return_counts=True)
    return place, group, count
