"""The layers of a hierarchical Gaussian: its mixing matrix, its pair couplings, its correlations.

Positions count from 0; a layer of length 4 n has n rows of 4, and position 4 i + r is column r of row i.
With C the correlation matrix of the layer below (n x n), K the columns of M that carry copies and G = M M^T,

    before coupling  Cov = C (x) K K^T + I (x) (G - K K^T),      after it  Cov' = T Cov T^T,

T being block diagonal on the disjoint pairs (4 i + 3, 4 i + 4). Source: L2M (2025), Eq. B.19-B.24.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lib.processes.gaussian.hierarchical_coupling import Coupling

GAMMA = np.sqrt(5.0) / 4.0
RHO = 0.25
MIXING: NDArray[np.float64] = np.array(
    [
        [GAMMA, GAMMA, GAMMA, RHO],
        [-GAMMA, GAMMA, -GAMMA, RHO],
        [-GAMMA, -GAMMA, GAMMA, RHO],
        [GAMMA, -GAMMA, -GAMMA, RHO],
    ]
)
"""M of Eq. B.19: a Hadamard matrix with scaled columns, so its columns are orthogonal."""
LOG_DETERMINANT_OF_MIXING = 0.5 * np.log((5 / 4) ** 3 / 4)
ROW_COVARIANCE = np.where(np.eye(4, dtype=bool), 1.0, -0.25)
"""M M^T, in its exact entries."""


@dataclass(frozen=True)
class Layer:
    """One layer map: `copies` independent copies of a layer of `rows` positions become one of 4 rows.

    couplings: T of the pair between rows i and i + 1, (rows - 1, 2, 2). neighbours: correlation of positions
    p and p + 1 of the new layer, (4 rows - 1,).
    """

    rows: int
    copies: int
    couplings: NDArray[np.float64]
    neighbours: NDArray[np.float64]

    @cached_property
    def carried(self) -> NDArray[np.float64]:
        """K K^T (4, 4): the covariance of two rows is this times the correlation of their positions below."""
        return carried_covariance(self.copies)

    @property
    def log_determinant(self) -> float:
        """log |det| of this map alone, rows and couplings together."""
        return float(self.rows * LOG_DETERMINANT_OF_MIXING + np.log(np.linalg.det(self.couplings)).sum())

    def expand(self, below: NDArray[np.float64]) -> NDArray[np.float64]:
        """Correlation matrix (4 rows, 4 rows) of the new layer from that of the layer below. Cost O(rows^2)."""
        size = 4 * self.rows
        dense = np.einsum("ij,rs->irjs", below, self.carried)
        rows = np.arange(self.rows)
        dense[rows, :, rows, :] += ROW_COVARIANCE - self.carried
        dense = dense.reshape(size, size)
        couple_rows(dense, self.couplings)
        couple_rows(dense.T, self.couplings)
        return np.asarray(dense)


def carried_covariance(copies: int) -> NDArray[np.float64]:
    """K K^T of the first `copies` columns of M: +-5/16, or for three copies the row covariance less 1/16."""
    columns = MIXING[:, :copies]
    return np.asarray(columns @ columns.T)


def couple_rows(values: NDArray[np.float64], couplings: NDArray[np.float64]) -> None:
    """Apply T to the first axis of `values` (4 n, ...), in place. Cost O(size)."""
    last = values[3:-1:4].copy()
    first = values[4::4].copy()
    matrix = couplings.reshape(-1, 2, 2, *(1,) * (values.ndim - 1))
    values[3:-1:4] = matrix[:, 0, 0] * last + matrix[:, 0, 1] * first
    values[4::4] = matrix[:, 1, 0] * last + matrix[:, 1, 1] * first


def build_layers(count: int, copies: int, coupling: Coupling) -> list[Layer]:
    """The layer maps from a single normal variable to length 4^count, lowest first. Cost O(4^count)."""
    layers: list[Layer] = []
    neighbours = np.zeros(0)
    carried = carried_covariance(copies)
    for level in range(count):
        rows = 4**level
        matrices = coupling.matrices(carried[3, 0] * neighbours)
        neighbours = _neighbours_above(neighbours, matrices, carried, coupling.target(carried[3, 0] * neighbours))
        layers.append(Layer(rows, copies, matrices, neighbours))
    return layers


def _neighbours_above(
    below: NDArray[np.float64],
    matrices: NDArray[np.float64],
    carried: NDArray[np.float64],
    target: NDArray[np.float64],
) -> NDArray[np.float64]:
    # Only the first and the last entry of a row change in a coupling, and their partner is one row away.
    above = np.full((below.size + 1, 4), ROW_COVARIANCE[0, 1])
    above[1:, 0] = matrices[:, 1, 1] * ROW_COVARIANCE[0, 1] + matrices[:, 1, 0] * carried[3, 1] * below
    above[:-1, 2] = matrices[:, 0, 0] * ROW_COVARIANCE[2, 3] + matrices[:, 0, 1] * carried[2, 0] * below
    above[:-1, 3] = target
    return above.ravel()[:-1]
