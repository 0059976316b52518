"""How well each position of a hierarchical Gaussian is predicted by all before it: O(length), no dense matrix.

A row and the first entry of the next one reveal the copies of the layer below exactly: M is invertible, and the
coupling across the seam is undone where both of its entries are known. So
given everything before the end of row i - 1, the only unknowns that matter for the next five positions are
positions i and i + 1 of each copy, and the fresh normals of two rows. With y_i - E[y_i | y_<i] = s_i e_i and
y_{i+1} - E[y_{i+1} | y_<i] = g_i s_i e_i + s_{i+1} e_{i+1} below, the six quantities

    u = (Z_{i,1}, Z_{i,2}, Z_{i,3}, Z'_{i,4}, Z'_{i+1,1}, Z_{i+1,2})      (a prime: after coupling)

are a 6 x 8 matrix times independent unit normals, and the triangular factor of that matrix holds the new s and
g. The next layer needs nothing else: the pair (s, g) is the diagonal and the first subdiagonal of the Cholesky
factor of the whole covariance, found here without it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lib.processes.gaussian.layers import MIXING, Layer


@dataclass(frozen=True)
class Prediction:
    """Linear prediction of a layer's positions from those before them.

    deviations: s_p, standard deviation of z_p given z_<p, (4 rows,). gains: g_p, coefficient of z_{p+1} on the
    innovation of z_p, (4 rows - 1,). windows: unit lower triangular factor of u for each row, (rows, 6, 6).
    """

    deviations: NDArray[np.float64]
    gains: NDArray[np.float64]
    windows: NDArray[np.float64]


def predictions(layers: list[Layer], backward: bool = False) -> list[Prediction]:
    """The prediction of every layer, lowest first; backward=True predicts from the positions after instead.

    Backward arrays are in reversed order: entry 0 belongs to the last position. Cost O(length).
    """
    mixing = MIXING[::-1] if backward else MIXING
    deviations, gains = np.ones(1), np.zeros(0)
    found = []
    for layer in layers:
        # a reversed sequence has its rows, columns and pairs reversed, and is otherwise the same construction
        couplings = layer.couplings[::-1, ::-1, ::-1] if backward else layer.couplings
        found.append(_predict(layer, mixing, couplings, deviations, gains))
        deviations, gains = found[-1].deviations, found[-1].gains
    return found


def _predict(
    layer: Layer,
    mixing: NDArray[np.float64],
    couplings: NDArray[np.float64],
    deviations: NDArray[np.float64],
    gains: NDArray[np.float64],
) -> Prediction:
    factor = np.swapaxes(
        np.linalg.qr(np.swapaxes(_window(layer, mixing, couplings, deviations, gains), -1, -2), mode="r"), -1, -2
    )
    diagonal = np.diagonal(factor, axis1=-2, axis2=-1)
    unit = factor / diagonal[:, None, :]
    above = np.empty((layer.rows, 4))
    above[:, 1:] = np.abs(diagonal[:, 1:4])
    above[1:, 0] = np.abs(diagonal[:-1, 4])
    above[0, 0] = np.abs(diagonal[0, 0])
    steps = np.empty((layer.rows, 4))
    steps[:, 1:] = unit[:, [2, 3, 4], [1, 2, 3]]
    steps[1:, 0] = unit[:-1, 5, 4]
    steps[0, 0] = unit[0, 1, 0]
    return Prediction(above.ravel(), steps.ravel()[:-1], unit)


def _window(
    layer: Layer,
    mixing: NDArray[np.float64],
    couplings: NDArray[np.float64],
    deviations: NDArray[np.float64],
    gains: NDArray[np.float64],
) -> NDArray[np.float64]:
    """The 6 x 8 matrix of u for each row; columns 0-3 are the unit normals of row i, 4-7 those of row i + 1."""
    rows, copies = layer.rows, layer.copies
    # The last row has no successor: it gets an uncoupled one, whose results are not used.
    next_deviations = np.append(deviations[1:], 1.0)
    transfer = np.append(gains * deviations[:-1], 0.0)
    pairs = np.concatenate([couplings, np.eye(2)[None]])
    own = np.zeros((rows, 4, 8))
    own[:, :, :copies] = mixing[:, :copies] * deviations[:, None, None]
    own[:, :, copies:4] = mixing[:, copies:]
    following = np.zeros((rows, 4, 8))
    following[:, :, :copies] = mixing[:, :copies] * transfer[:, None, None]
    following[:, :, 4 : 4 + copies] = mixing[:, :copies] * next_deviations[:, None, None]
    following[:, :, 4 + copies :] = mixing[:, copies:]
    window = np.empty((rows, 6, 8))
    window[:, :3] = own[:, :3]
    window[:, 3:5] = pairs[:, :, :1] * own[:, 3:4] + pairs[:, :, 1:] * following[:, :1]
    window[:, 5] = following[:, 1]
    return window
