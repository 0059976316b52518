"""Monte Carlo of the long-range Ising chain: clusters of aligned spins grow and are turned over as one.

H = -sum_{i<j} J(j - i) s_i s_j on a ring of N spins, J(d) = sum_k |d + k N|^-alpha over all images of the ring, and
K = beta. A cluster grows over each bond between aligned spins with probability 1 - exp(-2 K J) (Wolff 1989), and the
next bond of a spin is drawn from the summed couplings instead of being tried one by one (Luijten and Bloete 1995). So a
cluster of c spins costs O(c log N), where trying all bonds costs O(c N).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit
from scipy.special import zeta

from lib.checks import generator, real_number, whole_number

Floats = npt.NDArray[np.float64]
_FEWEST = 100  # clusters


@dataclass(frozen=True)
class Measured:
    """binder: <m^2>^2 / <m^4>, 1 for a magnet and 1/3 for independent spins; square: <m^2>, m the mean spin.

    correlation: <s_i s_{i+r}> for r = 0 .. N/2; empty where it was not asked for.
    """

    binder: float
    square: float
    correlation: Floats


def couplings(alpha: float, spins: int) -> Floats:
    """J(1) .. J(N - 1) = sum_k |d + k N|^-alpha, images of the ring included, (N - 1,).

    Raises ValueError unless alpha > 1, and where N^alpha overflows: alpha up to about 710 / ln N is allowed. O(N).
    """
    exponent, size = real_number(alpha, "alpha"), whole_number(spins, "spins", 4)
    if exponent <= 1.0:
        raise ValueError(f"alpha: more than 1 is allowed, for the energy of a spin to be finite; got {alpha!r}")
    place = np.arange(1, size) / size
    with np.errstate(over="ignore", invalid="ignore"):
        strengths = np.asarray(size**-exponent * (zeta(exponent, place) + zeta(exponent, 1.0 - place)))
    if not np.all(np.isfinite(strengths)):
        raise ValueError(f"alpha: a smaller number is allowed on {size} spins, got {alpha!r}")
    return strengths


def simulate(
    alpha: float,
    strength: float,
    spins: int,
    sweeps: int,
    seed: int | np.random.Generator,
    *,
    correlations: bool = False,
) -> Measured:
    """Averages over one run in which every spin is turned over about `sweeps` times.

    strength: K > 0. It starts from all spins up. A fifth of the sweeps is not counted; the size of the clusters there
    says how many of them make up the rest, and after each of these the mean spin is noted. correlations: also those of
    about 200 states on the way. Raises ValueError for numbers that are not allowed. O(sweeps N log N).
    """
    if not real_number(strength, "strength") > 0.0:
        raise ValueError(f"strength: a number > 0 is allowed, got {strength!r}")
    summed = np.concatenate([[0.0], np.cumsum(couplings(alpha, spins))])
    wanted, random = whole_number(sweeps, "sweeps", 10) * spins, generator(seed)
    state = np.ones(spins, dtype=np.int8)
    turned, clusters = 0, 0
    while turned < wanted / 5 or clusters < _FEWEST:
        sums = np.concatenate([[state.sum()], _turn(state, summed, strength, 50, random)])
        turned, clusters = turned + int(np.abs(np.diff(sums)).sum()) // 2, clusters + 50
    count = max(_FEWEST, round(wanted * clusters / turned))
    spectrum, squares, fourths = np.zeros(spins // 2 + 1), 0.0, 0.0
    chunk = -(-count // 200) if correlations else count
    for begin in range(0, count, chunk):
        magnetisations = _turn(state, summed, strength, min(chunk, count - begin), random) / spins
        squares += float(np.sum(magnetisations**2))
        fourths += float(np.sum(magnetisations**4))
        if correlations:
            spectrum += np.abs(np.fft.rfft(state)) ** 2
    taken = len(range(0, count, chunk))
    correlation = np.fft.irfft(spectrum, spins)[: spins // 2 + 1] / (taken * spins) if correlations else np.empty(0)
    return Measured((squares / count) ** 2 / (fourths / count), squares / count, correlation)


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _turn(state: Any, summed: Any, strength: Any, flips: Any, random: Any) -> Any:
    """Turn over `flips` clusters of `state` in place; the sum of all spins after each of them."""
    spins = len(state)
    total = 0
    for place in range(spins):
        total += state[place]
    sums = np.empty(flips)
    stack = np.empty(spins, dtype=np.int64)
    for flip in range(flips):
        first = random.integers(0, spins)
        side = state[first]
        state[first] = -side  # turned over: never added twice
        stack[0] = first
        height, size = 1, 1
        while height > 0:
            height -= 1
            spin = stack[height]
            reached, distance = 0.0, 0
            while True:
                reached += -np.log(1.0 - random.random()) / (2.0 * strength)
                # behind the last one even where the step is lost in rounding
                distance = max(np.searchsorted(summed, reached, side="left"), distance + 1)
                if distance >= spins:
                    break
                reached = summed[distance]
                other = (spin + distance) % spins
                if state[other] == side:
                    state[other] = -side
                    stack[height] = other
                    height += 1
                    size += 1
        total -= 2 * side * size
        sums[flip] = total
    return sums
