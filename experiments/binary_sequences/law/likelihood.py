"""ln p of given signs of a stationary Gaussian: what remains to lose for one who knows the distribution.

A fully adapted particle filter (Geweke 1991, Hajivassiliou and McFadden 1998, Keane 1994 for the weights; Pitt and
Shephard 1999 for resampling before the draw). With the Cholesky factor L of the covariance, Z_t = sum_{j<=t} L_tj e_j,
and given e_1 .. e_{t-1} the sign s_t = +-1 has the probability

    w_t = Phi(s_t m_t / L_tt),    m_t = sum_{j<t} L_tj e_j    (the best linear prediction, and its error L_tt).

Every particle is weighted by w_t, and e_t is drawn from the part of the normal distribution that gives the sign. The
mean weight is an unbiased estimate of P(s_1 .. s_n) for any number of particles; its logarithm is too small on average.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.linalg
from numba import njit
from numpy.typing import ArrayLike, NDArray

from lib.checks import whole_number

BLOCK = 32  # symbols whose predictions from all that went before are one product of matrices
FEWEST = 0.75  # share of the particles: an effective number below it is a reason to resample
ROOT_HALF = math.sqrt(0.5)
CLOSE, TAIL = 0.425, 5.0  # ends of the three ranges of the quantile
LEAST, MOST = 1e-300, 1.0 - 2.0**-53  # probabilities whose quantiles are finite

# Numerators and denominators of the quantile, highest power first: Wichura, Algorithm AS 241, Appl. Statist. 37, 477.
MIDDLE = np.array(
    [
        [2.5090809287301226727e3, 5.2264952788528545610e3],
        [3.3430575583588128105e4, 2.8729085735721942674e4],
        [6.7265770927008700853e4, 3.9307895800092710610e4],
        [4.5921953931549871457e4, 2.1213794301586595867e4],
        [1.3731693765509461125e4, 5.3941960214247511077e3],
        [1.9715909503065514427e3, 6.8718700749205790830e2],
        [1.3314166789178437745e2, 4.2313330701600911252e1],
        [3.3871328727963666080e0, 1.0],
    ]
)
NEAR = np.array(
    [
        [7.74545014278341407640e-4, 1.05075007164441684324e-9],
        [2.27238449892691845833e-2, 5.47593808499534494600e-4],
        [2.41780725177450611770e-1, 1.51986665636164571966e-2],
        [1.27045825245236838258e0, 1.48103976427480074590e-1],
        [3.64784832476320460504e0, 6.89767334985100004550e-1],
        [5.76949722146069140550e0, 1.67638483018380384940e0],
        [4.63033784615654529590e0, 2.05319162663775882187e0],
        [1.42343711074968357734e0, 1.0],
    ]
)
FAR = np.array(
    [
        [2.01033439929228813265e-7, 2.04426310338993978564e-15],
        [2.71155556874348757815e-5, 1.42151175831644588870e-7],
        [1.24266094738807843860e-3, 1.84631831751005468180e-5],
        [2.65321895265761230930e-2, 7.86869131145613259100e-4],
        [2.96560571828504891230e-1, 1.48753612908506148525e-2],
        [1.78482653991729133580e0, 1.36929880922735805310e-1],
        [5.46378491116411436990e0, 5.99832206555887937690e-1],
        [6.65790464350110377720e0, 1.0],
    ]
)


def log_likelihood(sequences: ArrayLike, correlation: ArrayLike, particles: int, seed: int) -> NDArray[np.float64]:
    """Estimates of ln p(x_t | x_1 .. x_{t-1}) in nats, (rows, length); their sum over t estimates ln P(x_1 .. x_n).

    exp of a sum has the mean P(x_1 .. x_n) exactly; the sum itself is low by about half its variance. sequences:
    symbols 0 and 1 (1: positive), (rows, length). correlation: of the Gaussians at lags 0 .. length - 1. particles:
    how many follow each row, >= 1. seed: a whole number >= 0; a row depends on it and on the place of the row alone.
    Once no particle has a weight that float64 can hold, -inf: possible only next to a covariance that is singular.

    Raises ValueError for other symbols, another number of correlations, correlations that are no positive definite
    covariance of unit variance, particles < 1, seed < 0. Cost length^2 / 2 products, length draws per row and particle.
    """
    symbols = np.asarray(sequences)
    if symbols.ndim != 2 or symbols.shape[1] == 0 or not np.all((symbols == 0) | (symbols == 1)):
        raise ValueError(f"sequences: symbols 0 and 1 are allowed, (rows, length >= 1), got {symbols!r:.200}")
    rows, length = symbols.shape
    factor = _factor(correlation, length)
    count, start = whole_number(particles, "particles", 1), whole_number(seed, "seed", 0)
    signs = np.where(symbols == 1, 1.0, -1.0)
    found = np.empty((rows, length))
    noise = np.empty((length, count))
    for row in range(rows):
        stream = np.random.Generator(np.random.SFC64(np.random.SeedSequence(start, spawn_key=(row,))))
        _follow(signs[row], factor, 1.0 - stream.random((length, count)), stream.random(length), noise, found[row])
    return found


def _factor(correlation: ArrayLike, length: int) -> NDArray[np.float64]:
    row = np.asarray(correlation, dtype=np.float64)
    if row.shape != (length,) or row[0] != 1.0 or not np.all(np.isfinite(row)):
        raise ValueError(f"correlation: numbers at lags 0 .. {length - 1} are needed, 1 at lag 0, got {row!r:.200}")
    try:
        return np.ascontiguousarray(scipy.linalg.cholesky(scipy.linalg.toeplitz(row), lower=True))
    except np.linalg.LinAlgError:
        raise ValueError("correlation: the covariance of a Gaussian is needed, got one not positive definite") from None


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _follow(signs: Any, factor: Any, uniform: Any, offsets: Any, noise: Any, found: Any) -> None:
    """Fill in `found` for one sequence. noise: (length, particles), any content.

    Within a block, what is known of the steps ahead moves with the particles; their older past moves at its end, once.
    """
    length, count = uniform.shape
    weight, chance = np.full(count, 1.0 / count), np.empty(count)
    source, origin, spare = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count)
    for start in range(0, length, BLOCK):
        stop = min(start + BLOCK, length)
        ahead = np.zeros((stop - start, count))
        if start > 0:
            np.dot(np.ascontiguousarray(factor[start:stop, :start]), noise[:start], ahead)
        for i in range(count):
            origin[i] = i
        moved = False
        for t in range(start, stop):
            mean = ahead[t - start]
            for j in range(start, t):
                for i in range(count):
                    mean[i] += factor[t, j] * noise[j, i]
            total, squares = 0.0, 0.0
            for i in range(count):
                chance[i] = normal_probability(signs[t] * mean[i] / factor[t, t])
                weight[i] *= chance[i]
                total += weight[i]
            if not total > 0.0:
                found[t:] = -np.inf
                return
            found[t] = math.log(total)
            for i in range(count):
                weight[i] /= total
                squares += weight[i] * weight[i]
            if squares * count * FEWEST > 1.0:
                _systematic(weight, offsets[t], source)
                weight[:] = 1.0 / count
                for j in range(start, t):
                    _move(noise[j], source, spare)
                for j in range(t + 1, stop):
                    _move(ahead[j - start], source, spare)
                _move(chance, source, spare)
                _move(origin, source, spare)
                moved = True
            for i in range(count):
                noise[t, i] = -signs[t] * normal_quantile(min(max(uniform[t, i] * chance[i], LEAST), MOST))
        if moved:
            for j in range(start):
                _move(noise[j], origin, spare)


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _systematic(weight: Any, offset: float, source: Any) -> None:
    """Who follows whom: particle i is drawn floor or ceil of count x weight_i times, on average just that."""
    count = weight.size
    i, passed = 0, weight[0]
    for k in range(count):
        while passed * count < k + offset and i < count - 1:
            i += 1
            passed += weight[i]
        source[k] = i


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _move(values: Any, source: Any, spare: Any) -> None:
    for i in range(values.size):
        spare[i] = values[source[i]]
    for i in range(values.size):
        values[i] = spare[i]


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def normal_probability(x: Any) -> Any:
    """Phi(x) = P(Z < x), to 1e-12 of its value down to Phi(-37.5), the end of float64's normal numbers."""
    return 0.5 * math.erfc(-x * ROOT_HALF)


@njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def normal_quantile(p: Any) -> Any:
    """x with Phi(x) = p for 1e-300 <= p < 1, to 1e-14 of its value (Wichura, Algorithm AS 241, 1988)."""
    q = p - 0.5
    if abs(q) <= CLOSE:
        r = CLOSE * CLOSE - q * q
        return q * _ratio(r, MIDDLE)
    r = math.sqrt(-math.log(p if q < 0.0 else 1.0 - p))
    x = _ratio(r - 1.6, NEAR) if r <= TAIL else _ratio(r - TAIL, FAR)
    return -x if q < 0.0 else x


@njit(nogil=True, cache=True, error_model="numpy", inline="always")  # type: ignore[untyped-decorator]
def _ratio(r: Any, powers: Any) -> Any:
    above, below = powers[0, 0], powers[0, 1]
    for k in range(1, 8):
        above, below = above * r + powers[k, 0], below * r + powers[k, 1]
    return above / below
