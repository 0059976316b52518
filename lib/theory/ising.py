"""Small Ising chains by enumeration: energies as printed and as meant, Boltzmann law, conditional laws."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

_LARGEST = 20  # spins: a million configurations


def spin_configurations(length: int) -> NDArray[np.int8]:
    """All 2^N configurations of N spins, (2^N, N) of -1 and +1; the first spin changes slowest, -1 comes first.

    Raises ValueError unless 1 <= N <= 20.
    """
    if not 1 <= length <= _LARGEST:
        raise ValueError(f"length: 1 to {_LARGEST} spins can be enumerated, got {length!r}")
    bits = np.arange(2**length)[:, None] >> np.arange(length - 1, -1, -1)
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

    It counts every pair twice and adds N J(0): at the same beta it is not the Boltzmann law of Eq. 56. Shapes and cost
    as in `pair_energy`.
    """
    s, couplings = _spins(spins), _couplings(interaction)
    size = s.shape[-1]
    padded = np.zeros(max(size, couplings.size))
    padded[: couplings.size] = couplings
    places = np.arange(size)
    matrix = padded[np.abs(places[:, None] - places)]
    return np.asarray(np.einsum("...i,ij,...j->...", s, matrix, s))


def boltzmann_distribution(energies: ArrayLike, beta: float) -> NDArray[np.float64]:
    """exp(-beta E) / Z, the shape of `energies` (Eq. 57). Raises ValueError unless all is finite."""
    exponents = -beta * np.asarray(energies, dtype=np.float64)
    if exponents.size == 0 or not np.all(np.isfinite(exponents)):
        raise ValueError("energies and beta: finite numbers are allowed")
    weights = np.exp(exponents - exponents.max())
    return np.asarray(weights / weights.sum())


def conditional_of_up(distribution: ArrayLike, position: int) -> NDArray[np.float64]:
    """P(s_t = +1 | s_1, ..., s_{t-1}) for every past, (2^(t-1),): Eq. 58-59 by summing over the future.

    distribution: (2^N,), in the order of `spin_configurations`. position: t, counted from 1. Raises ValueError unless
    1 <= t <= N. Cost O(2^N).
    """
    law = np.asarray(distribution, dtype=np.float64)
    length = law.size.bit_length() - 1
    if law.ndim != 1 or law.size != 2**length:
        raise ValueError(f"distribution: 2^N probabilities are allowed, got shape {law.shape}")
    if not 1 <= position <= length:
        raise ValueError(f"position: 1 <= t <= {length} is allowed, got {position!r}")
    table = law.reshape(2 ** (position - 1), 2, 2 ** (length - position)).sum(axis=2)
    return np.asarray(table[:, 1] / table.sum(axis=1))


def _spins(spins: ArrayLike) -> NDArray[np.float64]:
    array = np.asarray(spins, dtype=np.float64)
    if array.ndim == 0 or not np.all(np.abs(array) == 1.0):
        raise ValueError("spins: -1 and +1 are allowed")
    return array


def _couplings(interaction: ArrayLike) -> NDArray[np.float64]:
    array = np.asarray(interaction, dtype=np.float64)
    if array.ndim != 1 or array.size == 0 or not np.all(np.isfinite(array)):
        raise ValueError("interaction: a row J(0), J(1), ... of finite numbers is allowed")
    return array
