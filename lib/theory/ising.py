"""Small Ising chains by enumeration: energies as printed and as meant, Boltzmann and conditional distributions.

Of strips of finite width, the correlation lengths, and that of the infinite square lattice they tend to.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lib.checks import real_array, real_number, whole_number

_LARGEST = 20  # spins: a million configurations
_WIDEST = 10  # a transfer matrix of 1024 x 1024
_SMALLEST_GAP = 1e-12  # of the two largest eigenvalues: below it three digits of the length are left
_HOT = 1e-3  # a coupling below which the difference of two Boltzmann weights loses digits
CRITICAL_COUPLING = 0.5 * float(np.log(1.0 + np.sqrt(2.0)))  # of the square lattice: sinh(2 K) = 1


def spin_configurations(length: int) -> NDArray[np.int8]:
    """All 2^N configurations of N spins, (2^N, N) of -1 and +1; the first spin changes slowest, -1 comes first.

    Raises ValueError unless 1 <= N <= 20.
    """
    size = whole_number(length, "length", 1)
    if size > _LARGEST:
        raise ValueError(f"length: 1 to {_LARGEST} spins can be enumerated, got {length!r}")
    bits = np.arange(2**size)[:, None] >> np.arange(size - 1, -1, -1)
    return (2 * (bits & 1) - 1).astype(np.int8)


def pair_energy(spins: ArrayLike, interaction: ArrayLike) -> NDArray[np.float64]:
    """H = sum_{i<j} J(j - i) s_i s_j: every pair once (Eq. 56 of Shen 2019).

    spins: (..., N) of -1 and +1. interaction: J(0), J(1), ..., zero beyond its end; J(0) has no part in it. Returns
    (...). Cost O(N^2) each.
    """
    s, couplings = _spins(spins), _couplings(interaction)
    energy = np.zeros(s.shape[:-1])
    for distance in range(1, min(couplings.size, s.shape[-1])):
        energy += couplings[distance] * (s[..., distance:] * s[..., :-distance]).sum(axis=-1)
    return energy


def double_sum_energy(spins: ArrayLike, interaction: ArrayLike) -> NDArray[np.float64]:
    """sum_{i,j=1}^N J(|i - j|) s_i s_j: what stands in the exponents of Eq. 57 and 59 of Shen (2019).

    It counts every pair twice and adds N J(0): at the same beta it is not the Boltzmann distribution of Eq. 56. Shapes
    and cost as in `pair_energy`.
    """
    s, couplings = _spins(spins), _couplings(interaction)
    size = s.shape[-1]
    padded = np.zeros(max(size, couplings.size))
    padded[: couplings.size] = couplings
    places = np.arange(size)
    matrix = padded[np.abs(places[:, None] - places)]
    return np.asarray(np.einsum("...i,ij,...j->...", s, matrix, s))


def boltzmann_distribution(energies: ArrayLike, beta: float) -> NDArray[np.float64]:
    """exp(-beta E) / Z, the shape of `energies` (Eq. 57). Raises ValueError unless all is finite.

    Weights below about 1e-323 of the largest are 0.
    """
    with np.errstate(over="ignore"):
        exponents = -real_number(beta, "beta") * real_array(energies, "energies")
    if exponents.size == 0 or not np.all(np.isfinite(exponents)):
        raise ValueError("energies and beta: finite numbers are allowed")
    weights = np.exp(exponents - exponents.max())
    return np.asarray(weights / weights.sum())


def conditional_of_up(distribution: ArrayLike, position: int) -> NDArray[np.float64]:
    """P(s_t = +1 | s_1, ..., s_{t-1}) for every past, (2^(t-1),): Eq. 58-59 by summing over the future.

    distribution: (2^N,), in the order of `spin_configurations`. position: t, counted from 1. Raises ValueError unless
    1 <= t <= N, for entries that are no probabilities, and where a past has probability 0, as at low temperature by
    underflow. Cost O(2^N).
    """
    law = real_array(distribution, "distribution")
    length = law.size.bit_length() - 1
    if law.ndim != 1 or law.size == 0 or law.size != 2**length:
        raise ValueError(f"distribution: 2^N probabilities are allowed, got shape {law.shape}")
    if not np.all((law >= 0.0) & np.isfinite(law)):
        raise ValueError("distribution: finite probabilities >= 0 are allowed, got a negative or infinite one, or NaN")
    t = whole_number(position, "position", 1)
    if t > length:
        raise ValueError(f"position: 1 <= t <= {length} is allowed, got {position!r}")
    table = law.reshape(2 ** (t - 1), 2, 2 ** (length - t)).sum(axis=2)
    pasts = table.sum(axis=1)
    if not np.all(pasts > 0.0):
        raise ValueError(
            f"distribution: pasts of probability > 0 are allowed, got {np.sum(pasts == 0.0)} of {pasts.size} without"
        )
    return np.asarray(table[:, 1] / pasts)


def _spins(spins: ArrayLike) -> NDArray[np.float64]:
    array = real_array(spins, "spins")
    if array.ndim == 0 or not np.all(np.abs(array) == 1.0):
        raise ValueError("spins: -1 and +1 are allowed")
    return array


def _couplings(interaction: ArrayLike) -> NDArray[np.float64]:
    array = real_array(interaction, "interaction")
    if array.ndim != 1 or array.size == 0 or not np.all(np.isfinite(array)):
        raise ValueError("interaction: a row J(0), J(1), ... of finite numbers is allowed")
    return array


def strip_correlation_length(width: int, couplings: ArrayLike) -> NDArray[np.float64]:
    """xi along an endless strip, `width` spins around, of nearest-neighbour Ising spins.

    The transfer matrix from one ring to the next has positive entries, so its largest eigenvalue is simple and

        xi = 1 / (2 ln(lambda_1 / lambda_2))

    is finite at every temperature: van Hove's theorem in one line. xi is the length of mutual information, half that of
    the spins. Width 1 is the chain; at width 2 the two spins of a ring share one bond.

    width: 1 to 10. couplings: K = beta |J| > 0, ferromagnetic, any shape. Returns the same shape. Raises ValueError
    otherwise. Cost O(8^width) each.
    """
    around_ring = whole_number(width, "width", 1)
    if around_ring > _WIDEST:
        raise ValueError(f"width: 1 to {_WIDEST} spins are allowed, got {width!r}")
    strengths = _positive(couplings)
    rings = spin_configurations(around_ring).astype(np.float64)
    along = rings @ rings.T
    around = (rings * np.roll(rings, -1, axis=1)).sum(axis=1) if width > 2 else rings[:, 0] * rings[:, -1]
    if width == 1:
        around = np.zeros(2)
    half = rings.shape[0] // 2
    lengths = np.empty(strengths.shape)
    for place in np.ndindex(strengths.shape):
        strength = strengths[place]
        exponents = strength * (along + 0.5 * (around[:, None] + around))
        # Spin flips commute with the matrix: lambda_1 is even under them, lambda_2 odd, each the largest of its half.
        matrix = np.exp(exponents - exponents.max())
        same, flipped = matrix[:half, :half], matrix[:half, ::-1][:, :half]
        even = np.linalg.eigvalsh(same + flipped)[-1]
        if strength < _HOT:  # the weights are nearly equal, lambda_2 is of the order of K
            tilt = -np.expm1(-2.0 * strength * along[:half, :half]) / strength  # (1 - flipped / same) / K
            lengths[place] = 0.5 / (np.log(even / np.linalg.eigvalsh(same * tilt)[-1]) - np.log(strength))
            continue
        odd = np.linalg.eigvalsh(same - flipped)[-1]
        if not even / odd - 1.0 > _SMALLEST_GAP:
            raise ValueError(
                f"couplings: at {strength:.4g} rounding hides the gap of width {width}; smaller is allowed"
            )
        lengths[place] = 0.5 / np.log(even / odd)
    return lengths


def square_lattice_correlation_length(couplings: ArrayLike) -> NDArray[np.float64]:
    """xi along an axis of the infinite square lattice: 1 / (2 (ln coth K - 2 K)) above the critical temperature.

    Below it 1 / (4 (2 K - ln coth K)), and infinite at `CRITICAL_COUPLING`, to rounding: Onsager's solution. As in
    `strip_correlation_length`, the length of mutual information. couplings: K = beta |J| > 0, any shape; ValueError
    otherwise.
    """
    strengths = _positive(couplings)
    disorder = -np.log(np.tanh(strengths)) - 2.0 * strengths
    disorder = np.where(np.abs(disorder) < 4.0 * np.finfo(np.float64).eps, 0.0, disorder)
    with np.errstate(divide="ignore"):
        return np.asarray(np.where(disorder > 0.0, 0.5, 0.25) / np.abs(disorder))


def _positive(couplings: ArrayLike) -> NDArray[np.float64]:
    array = real_array(couplings, "couplings")
    if not np.all((array > 0.0) & np.isfinite(array)):
        raise ValueError("couplings: finite numbers > 0 are allowed")
    return array
