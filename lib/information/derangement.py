"""Whose second half goes with whose first: permutations that leave nobody in place.

vCLUB (L2M, Eq. 7) compares q(y_i | x_i) with q(y_j | x_i) for a foreign j. If j = i happens, that pair is no sample of
the product of the marginals: a uniformly random permutation has one fixed point on average, which shrinks the
expectation by the factor 1 - 1/N (erratum 18). A cyclic shift and a random derangement have none.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]


def cyclic_shift(count: int, shift: int = 1) -> Indices:
    """The derangement i -> (i + shift) mod count, (count,).

    For independent samples as good as any other. Samples cut one after another from one text need a shift longer than
    their dependence. Raises ValueError unless count >= 2 and 1 <= shift < count. O(count).
    """
    size = _at_least_two(count)
    step = _whole(shift)
    if step is None or not 1 <= step < size:
        raise ValueError(f"shift: whole numbers 1 <= shift < count = {size} move every element, got {shift!r}")
    return (np.arange(size, dtype=np.int64) + step) % size


def random_derangement(count: int, seed: int | np.random.Generator) -> Indices:
    """A derangement drawn uniformly from all of them, (count,).

    Uniform permutations are drawn until one has no fixed point: a share D_n / n! -> 1/e of them, so e draws on average.
    Raises ValueError unless count >= 2 (one element alone cannot leave its place). O(count) on average.
    """
    size = _at_least_two(count)
    random = np.random.default_rng(seed)
    places = np.arange(size)
    while True:
        permutation = random.permutation(size).astype(np.int64)
        if not np.any(permutation == places):
            return permutation


def _whole(value: Any) -> int | None:
    if isinstance(value, bool | np.bool_):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def _at_least_two(count: Any) -> int:
    size = _whole(count)
    if size is None or size < 2:
        raise ValueError(f"count: whole numbers >= 2 have a derangement, got {count!r}")
    return size
