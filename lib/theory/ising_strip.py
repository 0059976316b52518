"""Correlation lengths of Ising strips of finite width, and of the infinite square lattice they tend to."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lib.theory.ising import spin_configurations

_WIDEST = 10  # a transfer matrix of 1024 x 1024
_SMALLEST_GAP = 1e-12  # of the two largest eigenvalues: below it three digits of the length are left
CRITICAL_COUPLING = 0.5 * float(np.log(1.0 + np.sqrt(2.0)))  # of the square lattice: sinh(2 K) = 1


def strip_correlation_length(width: int, couplings: ArrayLike) -> NDArray[np.float64]:
    """xi along an endless strip, `width` spins around, of nearest-neighbour Ising spins.

    The transfer matrix from one ring to the next has positive entries, so its largest eigenvalue is simple and

        xi = 1 / (2 ln(lambda_1 / lambda_2))

    is finite at every temperature: van Hove's theorem in one line. xi is the length of mutual information, half that of
    the spins. Width 1 is the chain; at width 2 the two spins of a ring share one bond.

    width: 1 to 10. couplings: K = beta |J| > 0, ferromagnetic, any shape. Returns the same shape. Raises ValueError
    otherwise. Cost O(8^width) each.
    """
    if not 1 <= width <= _WIDEST:
        raise ValueError(f"width: 1 to {_WIDEST} spins are allowed, got {width!r}")
    strengths = _positive(couplings)
    rings = spin_configurations(width).astype(np.float64)
    along = rings @ rings.T
    around = (rings * np.roll(rings, -1, axis=1)).sum(axis=1) if width > 2 else rings[:, 0] * rings[:, -1]
    if width == 1:
        around = np.zeros(2)
    lengths = np.empty(strengths.shape)
    for place in np.ndindex(strengths.shape):
        exponents = strengths[place] * (along + 0.5 * (around[:, None] + around))
        # Spin flips commute with the matrix: lambda_1 is even under them, lambda_2 odd, each the largest of its half.
        half = rings.shape[0] // 2
        matrix = np.exp(exponents - exponents.max())
        same, flipped = matrix[:half, :half], matrix[:half, ::-1][:, :half]
        even, odd = (np.linalg.eigvalsh(same + sign * flipped)[-1] for sign in (1.0, -1.0))
        if not even / odd - 1.0 > _SMALLEST_GAP:
            raise ValueError(
                f"couplings: at {strengths[place]:.4g} rounding hides the gap of width {width}; smaller is allowed"
            )
        lengths[place] = 0.5 / np.log(even / odd)
    return lengths


def square_lattice_correlation_length(couplings: ArrayLike) -> NDArray[np.float64]:
    """xi along an axis of the infinite square lattice: 1 / (2 (ln coth K - 2 K)) above the critical temperature.

    Below it 1 / (4 (2 K - ln coth K)), and infinite at `CRITICAL_COUPLING`: Onsager's solution. As in
    `strip_correlation_length`, the length of mutual information. couplings: K = beta |J| > 0, any shape; ValueError
    otherwise.
    """
    strengths = _positive(couplings)
    disorder = -np.log(np.tanh(strengths)) - 2.0 * strengths
    with np.errstate(divide="ignore"):
        return np.asarray(np.where(disorder > 0.0, 0.5, 0.25) / np.abs(disorder))


def _positive(couplings: ArrayLike) -> NDArray[np.float64]:
    array = np.asarray(couplings, dtype=np.float64)
    if not np.all((array > 0.0) & np.isfinite(array)):
        raise ValueError("couplings: finite numbers > 0 are allowed")
    return array
