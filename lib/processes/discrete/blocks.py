"""Two neighbouring blocks of a sequence: which lengths and splits are allowed."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def block_lengths(lengths: ArrayLike, splits: ArrayLike | None) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Lengths of the first and of the second block, int64 arrays of the common shape.

    lengths: whole numbers L >= 2. splits: the first block has this many symbols, 1 <= split < L; None: L // 2.
    Raises ValueError for anything else, or shapes that do not broadcast.
    """
    whole = _integers(lengths, "lengths")
    if np.any(whole < 2):
        raise ValueError(f"lengths: whole numbers of at least 2 are allowed, got {whole[whole < 2].flat[0]}")
    first = whole // 2 if splits is None else _integers(splits, "splits")
    try:
        whole, first = np.broadcast_arrays(whole, first)
    except ValueError as error:
        raise ValueError(f"splits: shape {first.shape} does not match lengths of shape {whole.shape}") from error
    outside = (first < 1) | (first >= whole)
    if np.any(outside):
        raise ValueError(
            f"splits: 1 <= split < length = {whole[outside].flat[0]} is allowed, got {first[outside].flat[0]}"
        )
    return first, np.asarray(whole - first)


def _integers(values: ArrayLike, name: str) -> NDArray[np.int64]:
    array = np.asarray(values)
    if not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"{name}: whole numbers are allowed, got type {array.dtype}")
    return array.astype(np.int64)
