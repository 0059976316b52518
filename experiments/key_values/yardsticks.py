"""Predictors whose memory is known: what the loss of a network is worth in facts, exactly.

All of a `SantaFeProcess` with V values, p_k = P(key k), over documents of so many pairs; losses in nats per pair.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.key_values.run import TEST, ages, recalled
from experiments.key_values.runs import share_by_age
from experiments.key_values.task import KeyValues
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
    found = _excesses(source.exponent, source.topics, source.values, pairs)
    return float(np.interp(-excess, -found, np.arange(source.topics + 1)))


def share_of_keys(source: SantaFeProcess, pairs: int, keys: float) -> float:
    """Share that it recalls of what can be recalled; NaN for NaN. keys: between whole numbers as in `like_keys`."""
    found = _excesses(source.exponent, source.topics, source.values, pairs)
    return 1.0 - float(np.interp(keys, np.arange(source.topics + 1), found)) / recallable(source, pairs)


@cache
def _excesses(exponent: float, topics: int, values: int, pairs: int) -> NDArray[np.float64]:
    """`excess_of_keys` for 0 .. topics keys."""
    source = SantaFeProcess(exponent, topics, values)
    return np.array([excess_of_keys(source, pairs, keys) for keys in range(topics + 1)])


def by_age_of_keys(source: SantaFeProcess, pairs: int, keys: float, documents: int) -> float:
    """`share_by_age` of a memory that never forgets, and keeps the facts of the `keys` likeliest keys.

    It is not zero: in a bin of ranks it knows some keys and others not, and old mentions are of the rarer ones. Of the
    `documents` that networks are tested on. keys: a part of a key is known as often; NaN gives NaN. Raises ValueError
    for fewer than none. Cost O(documents x pairs).
    """
    if keys < 0:
        raise ValueError(f"keys: 0 and more is allowed, got {keys!r}")
    if np.isnan(keys):
        return np.nan
    asked, age = _tested(source.exponent, source.topics, source.values, pairs, documents)
    lacking = np.clip(asked + 1 - keys, 0.0, 1.0)
    found = recalled(np.log(source.values) * np.where(age == 0, 1.0, lacking), asked, source.values)
    return share_by_age(found["by_rank_and_age"], found["facts"])


def by_age_of_decay(source: SantaFeProcess, pairs: int, lost: float, documents: int) -> float:
    """`share_by_age` of a memory that loses each fact, of whatever key, with this chance at every pair."""
    asked, age = _tested(source.exponent, source.topics, source.values, pairs, documents)
    found = recalled(np.log(source.values) * np.where(age == 0, 1.0, 1.0 - (1.0 - lost) ** age), asked, source.values)
    return share_by_age(found["by_rank_and_age"], found["facts"])


@cache
def _tested(exponent: float, topics: int, values: int, pairs: int, documents: int) -> tuple[Any, Any]:
    """Keys, the likeliest 0, of the documents that networks are tested on, and their ages: (documents, pairs) each."""
    task = KeyValues(SantaFeProcess(exponent, topics, values), pairs)
    keys = task.documents(documents, np.random.default_rng([0, 0, TEST]))[:, ::2] - values
    return keys, ages(keys)
