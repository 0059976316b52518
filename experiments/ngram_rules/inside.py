"""What a trained network keeps of what it has read: its spectrum, how far back it listens, and where its states lie.

Whether points of one label lie together is asked by silhouettes, linear probes and principal components.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from experiments.ngram_rules.languages import PrefixTree
from experiments.ngram_rules.sensitivity import (
    influence,
    iterated_norms,
    local_norms,
    power_norms,
    spectrum,
    state_ratios,
)
from lib.checks import real_number, whole_number
from lib.models.recurrent.relu import ReluRNNLayer
from lib.processes.ngram.language import NgramLanguage

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]
STEPS = 12  # that the map is iterated
FEWEST, MOST = 4, 8  # beginnings that end in one context
PICTURED = 12  # contexts in the picture of the states
SEQUENCES, PAIRS, JACOBIANS = 200, 300, 12
GRAMS = (1, 2, 3, 4)  # last words that are looked for in the states


def inside(model: Any, language: NgramLanguage, tree: PrefixTree, seed: int) -> dict[str, Any]:
    """ "states" and "influence" of any network, and "transition" of one whose first layer has a matrix A.

    seed: of the beginnings, pairs of states and replaced words that are looked at.
    """
    random = np.random.default_rng([seed, 0, 4])
    found: dict[str, Any] = {
        "influence": _influence(model, tree, random),
        "states": _states(model, language.n, tree, random),
    }
    if hasattr(model.layers[0], "transition"):
        found["transition"] = _transition(model, tree, random)
    return found


def features(model: Any, tree: PrefixTree, nodes: Ids) -> Floats:
    """What the head reads after each of these beginnings, (nodes, width): relu(h + b) of the SSM, h of the RNN."""
    rows, place = np.unique(tree.sentence[nodes], return_inverse=True)
    read: list[torch.Tensor] = []
    hook = model.head.register_forward_pre_hook(lambda head, given: read.append(given[0]))
    with torch.no_grad():
        model(torch.from_numpy(tree.tokens[rows, :-1]))
    hook.remove()
    return np.asarray(read[0].double().numpy()[place, tree.depth[nodes] - 1])


def balanced_nodes(tree: PrefixTree, words: int, random: np.random.Generator) -> tuple[Ids, Ids]:
    """Beginnings in equal parts by their last words: nodes, and the number of the context of each.

    Contexts with at least FEWEST beginnings, at most MOST of each.
    """
    nodes = random.permutation(np.flatnonzero((tree.depth >= words) & ~tree.is_whole))
    _, context = np.unique(tree.last_words(words)[nodes], axis=0, return_inverse=True)
    order = np.argsort(context, kind="stable")
    nodes, context = nodes[order], context[order]
    count = np.bincount(context)
    rank = np.arange(len(nodes)) - np.repeat(np.cumsum(count) - count, count)
    chosen = (rank < MOST) & (count[context] >= FEWEST)
    return nodes[chosen], np.unique(context[chosen], return_inverse=True)[1]


def _transition(model: Any, tree: PrefixTree, random: np.random.Generator) -> dict[str, Any]:
    layer = model.layers[0]
    matrix = layer.transition.detach().double().numpy()
    found = spectrum(matrix)
    result: dict[str, Any] = {
        "eigenvalues": [[_short(value.real), _short(value.imag)] for value in found.eigenvalues],
        "radius": found.radius,
        "outside": found.outside,
        "power_norms": power_norms(matrix, STEPS).tolist(),
    }
    if not isinstance(layer, ReluRNNLayer):
        return result
    nodes = random.permutation(np.flatnonzero((tree.depth >= 3) & ~tree.is_whole))[: 2 * PAIRS]
    states = features(model, tree, nodes)
    read = torch.from_numpy(tree.tokens[random.integers(len(tree.tokens), size=PAIRS), :STEPS])
    with torch.no_grad():
        driven = (model.embedding(read) @ layer.input_matrix.T + layer.bias).double().numpy()
    apart = np.any(states[:PAIRS] != states[PAIRS:], axis=1)
    ratios = state_ratios(matrix, states[:PAIRS][apart], states[PAIRS:][apart], driven[apart])
    iterated = iterated_norms(matrix, states, STEPS)
    return result | {
        "iterated_norms": {"mean": iterated.mean(axis=1).tolist(), "largest": iterated.max(axis=1).tolist()},
        "state_ratios": {"mean": ratios.mean(axis=1).tolist(), "largest": ratios.max(axis=1).tolist()},
        "local_norms": local_norms(matrix, states[:JACOBIANS], driven[:JACOBIANS]).max(axis=1).tolist(),
    }


def _influence(model: Any, tree: PrefixTree, random: np.random.Generator) -> dict[str, Any]:
    """Means by place (row t - 1: after t words) and places back; and over all places that have so many words behind."""
    time = int(tree.lengths.min()) - 1
    rows = random.integers(len(tree.tokens), size=SEQUENCES)
    mean, largest = influence(model, tree.tokens[rows, :time], random, tokens=tree.end)
    return {
        "by_place": [[_short(value) for value in row[: place + 1]] for place, row in enumerate(mean)],
        "mean": np.nanmean(mean, axis=0).tolist(),
        "largest": np.nanmax(largest, axis=0).tolist(),
    }


def _states(model: Any, order: int, tree: PrefixTree, random: np.random.Generator) -> dict[str, Any]:
    nodes, context = balanced_nodes(tree, order - 1, random)
    points = features(model, tree, nodes)
    grams = {count: np.unique(tree.last_words(count)[nodes], axis=0, return_inverse=True)[1] for count in GRAMS}
    half = random.permutation(len(nodes)) % 2 == 0
    shown = np.isin(context, random.permutation(int(context.max()) + 1)[:PICTURED])
    coordinates, shares, _ = principal_components(points, 2)
    return {
        "points": len(nodes),
        "contexts": int(context.max()) + 1,
        "silhouette": {str(count): silhouette(points, label) for count, label in grams.items()},
        "probe": {
            str(count): linear_probe(points[half], label[half], points[~half], label[~half])
            for count, label in grams.items()
        },
        "classes": {str(count): int(label.max()) + 1 for count, label in grams.items()},
        "explained": shares.tolist(),
        "picture": [
            [_short(x), _short(y), int(number)]
            for (x, y), number in zip(coordinates[shown], context[shown], strict=True)
        ],
    }


def _short(value: float) -> float:
    """Four digits are enough to draw a point."""
    return float(f"{value:.4g}")


def silhouette(points: ArrayLike, labels: ArrayLike) -> float:
    """Mean of (b - a) / max(a, b) over the points, in [-1, 1] (Rousseeuw 1987).

    a is the mean Euclidean distance to the other points of the same label, b the smallest mean distance to the points
    of another label; a point alone with its label counts 0, as do two equal zeros. points (n, dimension), labels (n,).
    1: labels are tight and apart; 0: they overlap. Raises ValueError for other shapes or a single label.
    Cost O(n^2 dimension).
    """
    from sklearn.metrics import silhouette_score  # takes a second to load, here and below

    place, names, count = _labelled(points, labels)
    if len(count) < 2:
        raise ValueError("labels: at least two different ones are needed, got one")
    if len(count) == len(names):
        return 0.0  # scikit-learn refuses labels that all differ
    return float(silhouette_score(place - place.mean(axis=0), names))  # distances lose fewer digits around zero


def linear_probe(
    points: ArrayLike, labels: ArrayLike, new_points: ArrayLike, new_labels: ArrayLike, penalty: float = 1e-3
) -> float:
    """Share of new points whose label a linear map reads off: ridge regression on one-hot labels, the largest wins.

        W = argmin ||Y - X W||^2 / n + penalty s^2 ||W||^2,   X centred, s^2 the mean variance of a coordinate.

    points (n, dimension), labels (n,). A label that occurs only among the new points cannot be got right.
    Raises ValueError for other shapes or a penalty <= 0. Cost O(n dimension^2 + dimension^3).
    """
    from sklearn.linear_model import Ridge

    place, names, _ = _labelled(points, labels)
    new_place, new_names, _ = _labelled(new_points, new_labels)
    if new_place.shape[1] != place.shape[1]:
        raise ValueError(f"new_points: dimension {place.shape[1]} is needed, got {new_place.shape[1]}")
    strength = real_number(penalty, "penalty")
    if strength <= 0:
        raise ValueError(f"penalty: a number > 0 is allowed, got {penalty!r}")
    known, group = np.unique(names, return_inverse=True)
    scale = float(place.var(axis=0).mean()) or 1.0
    ridge = Ridge(alpha=strength * scale * len(place)).fit(place, np.eye(len(known))[group])
    scores = ridge.predict(new_place).reshape(len(new_place), len(known))  # of a single label Ridge drops the axis
    return float(np.mean(known[scores.argmax(axis=1)] == new_names))


def principal_components(points: ArrayLike, count: int) -> tuple[Floats, Floats, Floats]:
    """The `count` directions of largest variance: coordinates (n, count), shares of the variance, directions.

    Directions are the rows of an array (count, dimension), each signed so that its largest entry is positive.
    Raises ValueError for fewer than two points or more components than dimensions or points.
    """
    from sklearn.decomposition import PCA

    place = np.asarray(points, dtype=np.float64)
    if place.ndim != 2 or len(place) < 2 or not np.all(np.isfinite(place)):
        raise ValueError(f"points: finite numbers (n >= 2, dimension) are allowed, got shape {place.shape}")
    if whole_number(count, "count", 1) > min(place.shape):
        raise ValueError(f"count: at most {min(place.shape)} components are allowed, got {count}")
    with np.errstate(invalid="ignore"):  # equal points have no variance to share
        found = PCA(count, svd_solver="full").fit(place)
    return found.transform(place), np.nan_to_num(found.explained_variance_ratio_), found.components_


def _labelled(points: ArrayLike, labels: ArrayLike) -> tuple[Floats, NDArray[Any], NDArray[np.int64]]:
    place, names = np.asarray(points, dtype=np.float64), np.asarray(labels)
    if place.ndim != 2 or names.shape != place.shape[:1] or not len(place) or not np.all(np.isfinite(place)):
        raise ValueError(
            f"points, labels: finite numbers (n >= 1, dimension) and (n,) are allowed, got {place.shape}, {names.shape}"
        )
    return place, names, np.unique(names, return_counts=True)[1]
