"""What a trained network keeps of what it has read: its spectrum, how far back it listens, and where its states lie."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from experiments.ngram_rules.clusters import linear_probe, principal_components, silhouette
from experiments.ngram_rules.languages import PrefixTree
from lib.models.probes.influence import influence
from lib.models.probes.sensitivity import iterated_norms, local_norms, power_norms, spectrum, state_ratios
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
