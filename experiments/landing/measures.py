"""The numbers of the table of architectures: sizes, costs and reaches of untrained models, shares of recorded ones."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from experiments.landing.ngram import NgramModel
from lib.models import create
from lib.models.catalogue import NAMES
from lib.report.catalogue import find
from lib.report.gate import Training, usual_budget
from lib.runs import store
from lib.theory import history_state_size
from lib.training import multiply_adds

VOCABULARY, WIDTH, DEPTH, WINDOW, ORDER = 256, 64, 2, 64, 4  # of the models that are built for the table
APART = 16  # tokens between those whose multiply-adds are counted
COPIES = 8  # of a Gaussian in a sequence, as the paper has them
SIZE = 16  # numbers of state a channel of Mamba and Mamba2, where nothing is said
LONG = 100_000  # tokens, up to which states are counted
NATS = 1.0  # that a number of a state is taken to hold
ARCHITECTURES = {
    name: NAMES[name]
    for name in ("rnn", "lstm", "transformer", "sliding_window", "linear_attention", "mamba", "mamba2")
} | {"ngram": "n-gram model", "rel_rnn": NAMES["rel_rnn"], "mem_rnn": NAMES["mem_rnn"]}
"""The rows: key of the look, and name on pages."""

OPTIONS: dict[str, dict[str, int]] = {
    "sliding_window": {"window": WINDOW},
    "mamba2": {"size": 32, "head_width": 8},
    "rel_rnn": {"embedding": WIDTH, "buffer": 10, "relevant": 10},
    "mem_rnn": {"embedding": WIDTH},
}
GAUSSIANS, POSITIONS, RECALL = "l2m-fig4", "l2m-clock", "book-recall"
SEEDS = 3  # at least, of a network whose share is shown


@functools.cache
def model(name: str) -> Any:
    """The model of a row, untrained. Raises ValueError for a name that is no row."""
    if name not in ARCHITECTURES:
        raise ValueError(f"name: one of {', '.join(ARCHITECTURES)} is allowed, got {name!r}")
    if name == "ngram":
        return NgramModel(ORDER, VOCABULARY)
    return create(name, VOCABULARY, WIDTH, DEPTH, seed=0, **OPTIONS.get(name, {}))


def published_fit() -> tuple[float, float]:
    """A and beta of A L^beta nats between the halves of L tokens of books, as the paper fits them."""
    amplitude, exponent = find("l2m-bp-law").paper_value["pg19"]["direct"]
    return float(amplitude), float(exponent)


def growth_rate(name: str) -> float:
    """d ln dim z / d ln L over the last factor of ten up to LONG tokens."""
    before, after = (history_state_size(model(name), length) for length in (LONG // 10, LONG))
    return math.log10(after / before)


def full_at(name: str) -> float:
    """Tokens L at which A L^beta nats fill the state; infinite where the state grows as fast or faster."""
    amplitude, exponent = published_fit()
    if growth_rate(name) >= exponent:
        return math.inf
    return float((most_nats(name) / amplitude) ** (1 / exponent))


def most_nats(name: str) -> float:
    """What the state is taken to hold at most, nats, after LONG tokens.

    A number holds NATS, but a state that is a function of some last tokens no more than these, ln of the vocabulary
    each: those that the gradient reaches through a window, and those of which the state of an n-gram model consists.
    """
    size, token = history_state_size(model(name), LONG), math.log(VOCABULARY)
    if name == "ngram":
        return size * token
    held = NATS * size
    return min(held, gradient_reach(name) * token) if "window" in OPTIONS.get(name, {}) else held


def token_cost(name: str) -> tuple[int, int]:
    """Multiply-adds c_0 and c_1 of c = c_0 + c_1 l, the step that reads token l, once a window is full.

    Raises ValueError where the counts are no straight line.
    """
    places = [WINDOW, WINDOW + APART, WINDOW + 2 * APART]
    counts = multiply_adds(model(name), [place - 1 for place in places])
    steps = np.diff(counts)
    if steps[0] != steps[1] or steps[0] % APART:
        raise ValueError(f"{name}: multiply-adds {counts} of tokens {places} do not lie on a line")
    slope = int(steps[0]) // APART
    return counts[0] - slope * places[0], slope


def gradient_reach(name: str) -> int:
    """How many tokens before the last one have an influence on its logits: of those further back the gradient is 0.

    VOCABULARY different tokens are read once, so that a row of the embedding is a place. Raises ValueError where the
    gradient reaches the first of them.
    """
    network = create(name, VOCABULARY, WIDTH, DEPTH, seed=0, **OPTIONS.get(name, {})).double()
    logits = network(torch.arange(VOCABULARY)[None])[0, -1]
    (gradient,) = torch.autograd.grad(logits.square().sum(), network.embedding.weight)
    reached = gradient.abs().amax(dim=1).nonzero()[:, 0]
    back = VOCABULARY - 1 - int(reached.min())
    if back == VOCABULARY - 1:
        raise ValueError(f"{name}: the gradient reaches all {back} tokens before the last")
    return back


def captured_shares() -> dict[str, dict[int, list[float]]]:
    """Captured share of the information between halves, by architecture and length, of every recorded Gaussian model.

    Models as the paper has them, all sizes and seeds: Transformers with positions, Mambas without, stopped early.
    Trainings that left nothing to measure are left out.
    """
    found: dict[str, dict[int, list[float]]] = {}
    for record in store.so_far(GAUSSIANS)[1]:
        parameters = record["parameters"]
        if not parameters["model"] and parameters["precision"] == "float32" and (share := _share(record)) is not None:
            found.setdefault(_gaussian(parameters), {}).setdefault(4 ** parameters["layers"], []).append(share)
    return found


def shares_with_positions() -> dict[str, dict[int, list[float]]]:
    """The same of models that all learn positions, trained longer, by architecture and length.

    All sizes that have `SEEDS` seeds, each at the budget and rate that most of its seeds have, of several the longest;
    of Mamba and Mamba2 those with the default size of the state.
    """
    cells: dict[tuple[str, int, str], dict[Training, float]] = {}
    for record in store.so_far(POSITIONS)[1]:
        parameters, result, fit = record["parameters"], record["result"], record["parameters"]["fit"]
        chosen = parameters["model"]
        if chosen.get("positions") != "learned" or chosen.get("size", SIZE) != SIZE or parameters["copies"] != COPIES:
            continue
        if (share := _share(record)) is not None:
            one = Training(record["seed"], fit["epochs"], fit["learning_rate"], result["average_divergence"])
            cells.setdefault((_gaussian(parameters), 4 ** parameters["layers"], parameters["size"]), {})[one] = share
    found: dict[str, dict[int, list[float]]] = {}
    for (name, length, _), shares in cells.items():
        if len(usual := _usual(shares)) >= SEEDS:
            found.setdefault(name, {}).setdefault(length, []).extend(usual)
    return found


def _share(record: Mapping[str, Any]) -> float | None:
    result = record["result"]
    if result["average_divergence"] is None:
        return None
    return float(result["captured_information"]["value"] / result["true_information"])


def recalled_shares() -> dict[str, tuple[int, list[float]]]:
    """Pairs of the longest recorded documents of facts, and the share recalled in every seed, by architecture.

    The share is 1 - excess / what a perfect memory saves, of the documents themselves. Networks with the default size
    of the state, at the budget and rate that most seeds have, of several the longest.
    """
    cells: dict[str, dict[int, dict[Training, float]]] = {}
    for record in store.so_far(RECALL)[1]:
        parameters, result, fit = record["parameters"], record["result"], record["parameters"]["fit"]
        if None in result.get("loss_by_pair", [None]) or parameters["options"].get("size", SIZE) != SIZE:
            continue
        loss, least = (float(np.mean(result[name])) for name in ("loss_by_pair", "optimum_by_pair"))
        one = Training(record["seed"], fit["epochs"], fit["learning_rate"], loss)
        by_pairs = cells.setdefault(parameters["architecture"], {})
        by_pairs.setdefault(parameters["pairs"], {})[one] = 1 - (loss - least) / (
            math.log(parameters["values"]) - least
        )
    return {name: (max(found), _usual(found[max(found)])) for name, found in cells.items()}


def _usual(shares: Mapping[Training, float]) -> list[float]:
    """By seed, at the budget and rate that most seeds have, of several the longest."""
    budget = usual_budget(list(shares))
    return [shares[one] for one in sorted(shares) if (one.epochs, one.rate) == budget]


def _gaussian(parameters: Mapping[str, Any]) -> str:
    family = str(parameters["size"]).partition("-")[0]
    return "transformer" if family == "gpt2" else family
