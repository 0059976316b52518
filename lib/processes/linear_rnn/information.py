"""Mutual information of the first and a later output of a linear-Gaussian system, at any scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lib.processes.linear_rnn.powers import ScaledPowers, descending_schur, echelon, spectral_radius, units

MODERATE = 16.0  # growth up to which the system is followed in its own coordinates
_LARGE = 100.0  # singular values from which squares hide those below 1
_SQUARED = 1e150  # numbers from which squares overflow
_FARTHEST = 960  # powers of two by which a signal is divided, so that noise does not vanish beside it


@dataclass(frozen=True)
class Channel:
    """x_t = C s_t, s_t = T s_{t-1} + noise, s_0 = signal u + rest: what x_t keeps of u.

    readout: C (d, n). transition: T (n, n). innovation: covariance of the noise (n, n). signal (n, r), of a
    standard normal u. rest: covariance (n, n) of what is independent of u.
    """

    readout: NDArray[Any]
    transition: NDArray[Any]
    innovation: NDArray[Any]
    signal: NDArray[Any]
    rest: NDArray[Any]

    def mutual_information(self, times: NDArray[np.int64]) -> NDArray[np.float64]:
        """I(u; x_t) in nats at times (k,), infinite at 0; NaN where a covariance leaves the range of float64.

        With N = Cov(x_t | u) and S = Cov(x_t, u) whitened by the Cholesky factor of N, I = 1/2 sum log1p(s^2)
        over the singular values s of S. For the canonical correlations r of u and x_t, s^2 = r^2 / (1 - r^2),
        so that this is -1/2 sum log1p(-r^2), without loss at either end of r.
        """
        growth = spectral_radius(self.transition)
        information = np.full(len(times), np.inf if self.signal.shape[1] else 0.0)
        plain = np.ones(len(times), dtype=bool)
        if growth > 1.0 and len(self.readout) > 1:
            plain = (times <= 1) | (times * np.log(growth) <= np.log(MODERATE))
        uniform = max(growth, 1.0) if len(self.readout) == 1 else 1.0
        later = times > 0
        if np.any(plain & later):
            information[plain & later] = self._followed(uniform).information(times[plain & later])
        if not np.all(plain):
            information[~plain] = self._graded().information(times[~plain])
        return information

    def _followed(self, growth: float) -> _Followed:
        size, count = len(self.transition), len(self.readout)
        powers = ScaledPowers(self.transition, self.innovation, np.full(size, growth))
        return _Followed(powers, self.readout, np.full(count, growth), self.signal, self.rest)

    def _graded(self) -> _Followed:
        """The same in coordinates that grow in order, each measured in its own growth.

        An unstable system stretches Cov(x_t) beyond what float64 can invert. In a Schur basis of descending
        moduli, coordinate i grows as |lambda_i|^t, and a unitary change of x_t, which changes no information,
        lets each of its components begin with another coordinate.
        """
        unit = units(self.transition)  # of each coordinate: what is negligible depends on it
        transition, readout = self.transition * unit / unit[:, None], self.readout * unit
        innovation, rest = (each / unit / unit[:, None] for each in (self.innovation, self.rest))
        triangle, vectors = descending_schur(transition)
        growth = np.maximum.accumulate(np.maximum(np.abs(np.diag(triangle)), 1.0)[::-1])[::-1]
        back = vectors.conj().T
        rows, pivots = echelon(readout @ vectors)
        powers = ScaledPowers(triangle, back @ innovation @ vectors, growth)
        row_growth = np.append(growth, 1.0)[pivots]
        return _Followed(powers, rows, row_growth, back @ (self.signal / unit[:, None]), back @ rest @ vectors)


@dataclass(frozen=True)
class _Followed:
    """A channel with its scaled powers; rows of the readout are measured in units of row_growth^t."""

    powers: ScaledPowers
    readout: NDArray[Any]
    row_growth: NDArray[np.float64]
    signal: NDArray[Any]
    rest: NDArray[Any]

    def information(self, times: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.concatenate([self._batch(part) for part in self.powers.batches(times)])

    def _batch(self, times: NDArray[np.int64]) -> NDArray[np.float64]:
        read, noise = self.powers.read(self.readout, self.row_growth, times)
        with np.errstate(over="ignore", invalid="ignore"):
            signal, noise = read @ self.signal, noise + read @ self.rest @ read.conj().swapaxes(-1, -2)
        finite = np.isfinite(signal).all(axis=(1, 2)) & np.isfinite(noise).all(axis=(1, 2))
        information = np.full(len(times), np.nan)
        information[finite] = information_of(signal[finite], noise[finite])
        return information


def information_of(signal: NDArray[Any], noise: NDArray[Any]) -> NDArray[np.float64]:
    """1/2 ln det(1 + S* N^-1 S) in nats, with full relative precision however small, and large if S has full rank.

    Otherwise a rounding of S, 1e-16 of its largest singular value, is counted with its small ones.

    signal: S (k, d, r). noise: N (k, d, d), positive definite. Returns (k,), NaN where a variance of N is zero.
    1/2 sum log1p(s^2) over the singular values s of the whitened S; where these are large, and their squares would
    hide the small ones or overflow, `_log_volume`. Cost O((d + r)^3) each.
    """
    scale = np.sqrt(np.abs(np.diagonal(noise, axis1=1, axis2=2)))  # (k, d)
    usable = np.all(scale > 0.0, axis=1)
    if not np.all(usable):
        information = np.full(len(signal), np.nan)
        information[usable] = information_of(signal[usable], noise[usable])
        return information
    several = signal.shape[1] > 1
    factor = _factor(_correlation(noise, scale)) if several else None
    with np.errstate(over="ignore", invalid="ignore"):
        white = signal / scale[:, :, None]
        if factor is not None:
            white = np.linalg.solve(factor, white)
        plain = np.abs(white).max(axis=(1, 2), initial=0.0) < (_LARGE if several else _SQUARED)
    information = np.empty(len(signal))
    if several:
        squares = np.linalg.eigvalsh(white[plain].conj().swapaxes(-1, -2) @ white[plain])
    else:
        squares = np.sum(np.abs(white[plain]) ** 2, axis=2)
    information[plain] = 0.5 * np.sum(np.log1p(np.maximum(squares, 0.0)), axis=1)
    if not np.all(plain):
        root = np.ones((len(signal), 1, 1)) if factor is None else factor
        information[~plain] = _log_volume(signal[~plain], scale[~plain], root[~plain])
    return information


def _log_volume(signal: NDArray[Any], scale: NDArray[np.float64], factor: NDArray[Any]) -> NDArray[np.float64]:
    """1/2 ln det(1 + S* N^-1 S) in nats of any S (k, d, r) and N = F F*, F = scale (k, d) times factor (k, d, d).

    It is 1/2 ln (det(F F* + S S*) / det(F F*)): the sum of ln |R_ii| in the QR factorisation of S* with F* below it,
    less ln |det F|. Each output, a column, is measured in its own power of two; then rows in decreasing order and
    columns pivoted keep large signals from hiding small ones. Returns (k,).
    Cost O(d^2 (d + r)) each.
    """
    powers = np.clip(np.frexp(np.abs(signal).max(axis=2))[1] - np.frexp(scale)[1], 0, _FARTHEST)
    units = np.ldexp(1.0, -powers)[:, :, None]
    rows = np.concatenate([signal * units / scale[:, :, None], factor * units], axis=2).conj().swapaxes(-1, -2)
    rows = np.take_along_axis(rows, np.argsort(-np.abs(rows).max(axis=2), axis=1, kind="stable")[:, :, None], axis=1)
    volume = np.log(2.0) * powers.sum(axis=1) - np.linalg.slogdet(factor)[1]
    while rows.shape[2]:  # Householder's reflections, each on what the one before has left
        largest = np.abs(rows).max(axis=1)
        sizes = largest * np.linalg.norm(rows / largest[:, None], axis=1)
        order = np.argsort(-sizes, axis=1, kind="stable")
        volume += np.log(sizes.max(axis=1))
        rows = np.take_along_axis(rows, order[:, None, :], axis=2)
        mirror = rows[:, :, :1] / sizes.max(axis=1)[:, None, None]
        first = np.abs(mirror[:, 0, 0])
        mirror[:, 0, 0] += np.where(first > 0.0, mirror[:, 0, 0] / np.where(first > 0.0, first, 1.0), 1.0)
        rest = rows[:, :, 1:]
        shares = mirror.conj().swapaxes(-1, -2) @ rest / (1.0 + first)[:, None, None]
        rows = (rest - mirror * shares)[:, 1:]
    return np.asarray(volume)


def _correlation(noise: NDArray[Any], scale: NDArray[np.float64]) -> NDArray[Any]:
    """noise (k, d, d) over scale (k, d) twice, of which the product may leave the floats: powers of two come first."""
    part, power = np.frexp(scale)
    unit = np.ldexp(1.0, -power)
    return np.asarray(noise * unit[:, :, None] * unit[:, None, :] / (part[:, :, None] * part[:, None, :]))


def _factor(correlation: NDArray[Any]) -> NDArray[Any]:
    """Cholesky factors; where rounding has made a matrix singular, a square root of the nearest that is not."""
    try:
        return np.linalg.cholesky(correlation)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(correlation)
        floor = np.finfo(np.float64).eps * correlation.shape[-1]
        return np.asarray(vectors * np.sqrt(np.maximum(values, floor))[:, None, :])
