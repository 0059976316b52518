"""Is a curve of information a power law of L? Against rivals of as many parameters, and by how its exponent falls."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from experiments.text_information.runs import FROM, TextRun
from lib.information.intervals import UNKNOWN, Interval, percentiles

Floats = NDArray[np.float64]
EXPONENTS = np.linspace(-0.5, 1.5, 401)  # tried for a power law in I itself
LOG_POWERS = np.linspace(0.0, 6.0, 601)  # k tried for c (ln L)^k
LINE, LOG_POWER = "a + b ln L", "c (ln L)^k"  # rivals of a power law, two parameters each


def power_law_advantage(run: TextRun, estimator: str, rival: str = LINE) -> Interval:
    """Is a power law nearer to the curve than its rival? (R_rival - R_pow) / (R_rival + R_pow), from -1 to 1.

    R: squared residuals over variances, of the nearest `rival` and of the nearest A L^beta, two parameters each, from
    16 characters on, L in tokens. The interval is that of resampled documents, for the lengths share theirs.
    """
    curve = run.curve(estimator)
    if curve is None or (curve := curve.beyond(FROM / run.token_length)).lengths.size < 4:
        return UNKNOWN
    weights = 1.0 / curve.resampled.var(axis=0, ddof=1)
    value = advantage_over(rival, curve.lengths, curve.by_group.mean(axis=0)[None], weights)[0]
    return percentiles(float(value), advantage_over(rival, curve.lengths, curve.resampled, weights))


def bend(run: TextRun, estimator: str) -> Interval:
    """The exponent of the first three doublings of L less that of the next five, from 16 characters on.

    Unknown if fewer than two lengths lie up to, or from, the third doubling, or an estimate is not positive.
    """
    curve = run.curve(estimator)
    if curve is None or (curve := curve.beyond(FROM / run.token_length)).lengths.size < 3:
        return UNKNOWN
    if curve.lengths[1] > 8.01 * curve.lengths[0] or curve.lengths[-2] < 7.99 * curve.lengths[0]:
        return UNKNOWN
    means = curve.by_group.mean(axis=0)
    if np.any(means <= 0):
        return UNKNOWN
    weights, resampled = bend_weights(curve.lengths), np.where(curve.resampled > 0, curve.resampled, math.nan)
    return percentiles(float(weights @ np.log(means)), np.log(resampled) @ weights)


def bend_weights(lengths: Floats) -> Floats:
    """Weights of ln I: the least squares exponent of the first three doublings less that of the next five."""
    doublings, logarithms, slopes = np.log2(lengths / lengths[0]).round(6), np.log(lengths), []
    for some in (doublings <= 3, (doublings >= 3) & (doublings <= 8)):
        centred = np.where(some, logarithms - logarithms[some].mean(), 0.0)
        slopes.append(centred / (centred @ centred))
    return np.asarray(slopes[0] - slopes[1])


def advantage_over(rival: str, lengths: Floats, curves: Floats, weights: Floats) -> Floats:
    """(R_rival - R_pow) / (R_rival + R_pow) of curves (m, n); ValueError for another rival than LINE, LOG_POWER."""
    if rival == LINE:
        other = _squares(curves, weights, np.stack([np.ones(lengths.size), np.log(lengths)]))
    elif rival == LOG_POWER:
        other = _nearest(curves, weights, np.log(lengths) ** LOG_POWERS[:, None])
    else:
        raise ValueError(f"rival: {LINE!r} or {LOG_POWER!r} is allowed, got {rival!r}")
    power = _nearest(curves, weights, lengths ** EXPONENTS[:, None])
    return np.asarray((other - power) / (other + power))


def _nearest(curves: Floats, weights: Floats, shapes: Floats) -> Floats:
    """Weighted squared residuals of every curve (m, n) against the nearest multiple of one of the shapes (k, n)."""
    scaled, units = curves * np.sqrt(weights), shapes * np.sqrt(weights)
    units = units / np.linalg.norm(units, axis=1, keepdims=True)
    whole = (scaled**2).sum(axis=1)
    return np.asarray(np.maximum(whole - ((scaled @ units.T) ** 2).max(axis=1), 1e-12 * whole))


def _squares(curves: Floats, weights: Floats, basis: Floats) -> Floats:
    """Weighted squared residuals of every curve (m, n) against the nearest combination of a basis (k, n)."""
    root = np.sqrt(weights)
    plane, _ = np.linalg.qr((basis * root).T)  # (n, k), orthonormal
    scaled = curves * root
    rest = scaled - (scaled @ plane) @ plane.T
    return np.asarray(np.maximum((rest**2).sum(axis=1), 1e-12 * (scaled**2).sum(axis=1)))
