"""Predictors whose memory is known: what the loss of a network is worth in facts, exactly.

All of a `SantaFeProcess` with V values, p_k = P(key k), over documents of so many pairs; losses in nats per pair.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lib.checks import whole_number
from lib.processes import SantaFeProcess


def unseen(source: SantaFeProcess, pairs: int, span: int | None = None) -> NDArray[np.float64]:
    """P(key of pair t is none of the last `span` keys), t = 1 .. pairs: sum_k p_k (1 - p_k)^min(t - 1, span).

    span: all that precede if None. Raises ValueError for pairs below 1 and spans below 0. Cost O(pairs x topics).
    """
    earlier = np.arange(whole_number(pairs, "pairs", 1))
    seen = earlier if span is None else np.minimum(earlier, whole_number(span, "span", 0))
    law = source.topic_law
    return np.array([law @ (1.0 - law) ** int(count) for count in seen])


def optimum(source: SantaFeProcess, pairs: int) -> float:
    """The smallest mean loss that any predictor can have: ln V x share of pairs whose key is new."""
    return float(np.log(source.values) * unseen(source, pairs).mean())


def recallable(source: SantaFeProcess, pairs: int) -> float:
    """Mean loss that a perfect memory saves: ln V x share of pairs whose key was mentioned before."""
    return float(np.log(source.values)) - optimum(source, pairs)


def excess_of_span(source: SantaFeProcess, pairs: int, span: int) -> float:
    """How far above the optimum the best predictor is that sees the last `span` pairs, as a window does."""
    return float(np.log(source.values) * unseen(source, pairs, span).mean()) - optimum(source, pairs)


def excess_of_keys(source: SantaFeProcess, pairs: int, keys: int) -> float:
    """How far above it one is that never forgets, but keeps the facts of the `keys` likeliest keys alone."""
    law = source.topic_law[whole_number(keys, "keys", 0) :]
    earlier = np.arange(whole_number(pairs, "pairs", 1))
    return float(np.log(source.values) * np.mean([law @ (1.0 - (1.0 - law) ** int(count)) for count in earlier]))


def like_keys(source: SantaFeProcess, pairs: int, excess: float) -> float:
    """The number of keys whose `excess_of_keys` is this, between whole numbers by a straight line; NaN for NaN."""
    if np.isnan(excess):
        return np.nan
    found = [excess_of_keys(source, pairs, keys) for keys in range(source.topics + 1)]
    return float(np.interp(-excess, -np.array(found), np.arange(source.topics + 1)))
