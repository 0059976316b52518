"""The 2 x 2 coupling between neighbouring rows of a hierarchical Gaussian, which the paper leaves open.

Eq. B.23 of L2M (2025) gives the new correlation of a pair (Z_{i,4}, Z_{i+1,1}) with its last factor missing,
and says only that "a coordinate transformation" produces it. Every reading and every matrix used in the book
is one named row of `COUPLINGS`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

ROW_CORRELATION = -0.25
"""Correlation of any two entries of one row before coupling: an off-diagonal entry of M M^T."""


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
