"""One layer of a hierarchical Gaussian: mixing matrix, pair couplings, the correlation of any two positions.

Positions count from 0; a layer of length 4 n has n rows of 4, and position 4 i + r is column r of row i.
With C the correlation matrix of the layer below (n x n), K the columns of M that carry copies and G = M M^T,

    before coupling  Cov = C (x) K K^T + I (x) (G - K K^T),      after it  Cov' = T Cov T^T,

T being block diagonal on the disjoint pairs (4 i + 3, 4 i + 4). Source: L2M (2025), Eq. B.19-B.24.

The 2 x 2 coupling between neighbouring rows is left open by the paper. Eq. B.23 of L2M (2025) gives the new correlation
of a pair (Z_{i,4}, Z_{i+1,1}) with its last factor missing, and says only that "a coordinate transformation" produces
it. Every reading and every matrix used in the book is one named row of `COUPLINGS`.

The correlation of two positions needs no matrix and costs O(layers). A coupled entry is made of two entries in two
adjacent rows, so two adjacent positions of a layer always come from at most two adjacent positions of the layer below.
A pair of positions therefore carries a 2 x 2 table of weights down the layers, and collects a constant wherever its two
rows meet.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

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
ROW_CORRELATION = -0.25
"""Correlation of any two entries of one row before coupling: an off-diagonal entry of M M^T."""


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


@dataclass(frozen=True)
class Coupling:
    """New correlation t = neighbours (r_34 + r_12) + current c + constant, and the matrix that produces it.

    r_34 = r_12 = -1/4 are the correlations of the pair's inner neighbours, c is the pair's own. root: the
    square root behind T = S_1^(1/2) S_0^(-1/2), S_0 and S_1 the old and the new 2 x 2 correlation matrix;
    "symmetric" treats both entries alike, "cholesky" remixes the second entry alone.
    """

    meaning: str
    neighbours: float = 0.0
    current: float = 1.0
    constant: float = 0.0
    root: str = "symmetric"

    def target(self, current: NDArray[np.float64]) -> NDArray[np.float64]:
        """Correlation of each pair after coupling, from the one before; any shape."""
        return self.neighbours * 2.0 * ROW_CORRELATION + self.current * current + self.constant

    def matrices(self, current: NDArray[np.float64]) -> NDArray[np.float64]:
        """T of each pair, shape of `current` + (2, 2); both entries keep unit variance. Cost O(1) each."""
        target = self.target(current)
        if self.root == "cholesky":
            scale = np.sqrt((1.0 - target**2) / (1.0 - current**2))
            rows = [[np.ones_like(current), np.zeros_like(current)], [target - current * scale, scale]]
        else:
            # both matrices have eigenvectors (1, 1) and (1, -1): their roots commute
            even = np.sqrt((1.0 + target) / (1.0 + current))
            odd = np.sqrt((1.0 - target) / (1.0 - current))
            rows = [[(even + odd) / 2, (even - odd) / 2], [(even - odd) / 2, (even + odd) / 2]]
        return np.moveaxis(np.array(rows), (0, 1), (-2, -1))


COUPLINGS: dict[str, Coupling] = {
    "symmetric": Coupling("2/5 (neighbours) + 1/5 current correlation: a weighted mean; symmetric root", 0.4, 0.2),
    "cholesky": Coupling("the same weighted mean; only the second entry is remixed", 0.4, 0.2, root="cholesky"),
    "none": Coupling("no coupling: the rows stay independent given the layer below"),
    "constant": Coupling("2/5 (neighbours) + 1/5, the printed form with nothing after 1/5", 0.4, 0.0, 0.2),
    "swapped": Coupling("1/5 (neighbours) + 2/5, the two fractions exchanged", 0.2, 0.0, 0.4),
}
"""The named choices; "symmetric" is the reading with which the paper's two scaling laws hold."""


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
