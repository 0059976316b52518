"""Correlation of any two positions of a hierarchical Gaussian: O(layers) each, no matrix.

A coupled entry is made of two entries in two adjacent rows, so two adjacent positions of a layer always come
from at most two adjacent positions of the layer below. A pair of positions therefore carries a 2 x 2 table of
weights down the layers, and collects a constant wherever its two rows meet.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lib.processes.gaussian.layers import ROW_COVARIANCE, Layer


def pair_correlation(layers: list[Layer], first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.float64]:
    """Correlation of positions `first` and `second` (0-based, same shape) of the top layer; same shape."""
    shape = first.shape
    left, right = first.ravel(), second.ravel()
    # weights[a, b] multiplies the correlation of positions left + a and right + b of the current layer
    weights = np.zeros((left.size, 2, 2))
    weights[:, 0, 0] = 1.0
    collected = np.zeros(left.size)
    for layer in layers[::-1]:
        left, left_entries = _entries(layer, left)
        right, right_entries = _entries(layer, right)
        entries = np.einsum("narc,nab,nbsd->nrcsd", left_entries, weights, right_entries, optimize=True)
        weights = np.einsum("nrcsd,cd->nrs", entries, layer.carried)
        inside = np.einsum("nrcsd,cd->nrs", entries, ROW_COVARIANCE - layer.carried)
        offsets = np.arange(2)
        same = (left[:, None] + offsets)[:, :, None] == (right[:, None] + offsets)[:, None, :]
        collected += np.where(same, inside, 0.0).sum(axis=(1, 2))
    correlation = collected + weights[:, 0, 0]  # the layer below the first is one variable of unit variance
    correlation[first.ravel() == second.ravel()] = 1.0
    return correlation.reshape(shape)


def _entries(layer: Layer, start: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """First row and coefficients (pair, position 0 or 1, row 0 or 1, column) of positions start, start + 1.

    The entries before coupling that make up the two coupled positions. A position beyond the sequence gets
    coefficients 0.
    """
    count = start.size
    top = np.where(start % 4 == 0, start // 4 - 1, start // 4)
    top = np.maximum(top, 0)
    coefficients = np.zeros((count, 2, 2, 4))
    chosen = np.arange(count)
    for offset in range(2):
        position = start + offset
        row, column = position // 4, position % 4
        inside = row < layer.rows
        paired_above = inside & (column == 0) & (row > 0)
        paired_below = inside & (column == 3) & (row < layer.rows - 1)
        alone = inside & ~paired_above & ~paired_below
        coefficients[chosen[alone], offset, (row - top)[alone], column[alone]] = 1.0
        for paired, pair, entry in ((paired_above, row - 1, 1), (paired_below, row, 0)):
            matrix = layer.couplings[pair[paired], entry]
            coefficients[chosen[paired], offset, (pair - top)[paired], 3] = matrix[:, 0]
            coefficients[chosen[paired], offset, (pair + 1 - top)[paired], 0] = matrix[:, 1]
    return top, coefficients
