"""Least squares for y = ln(A exp(-rate x) + C), the common form of exponential (x = lag) and power law (x = ln lag)."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq, least_squares
from scipy.special import stdtrit

Points = npt.NDArray[np.float64]
CONFIDENCE = 0.95
_RATES, _RATIOS = 40, 40  # of the scan before refinement; both logarithmic
_SEARCH = np.array([5.0, 20.0])  # how far refinement may go from the grid, in ln(rate) and ln(ratio)
_LOWEST, _HIGHEST = -25.0, 12.0  # ln(C / amplitude at the first point) that is searched


@dataclass(frozen=True)
class Decay:
    """A fitted A exp(-rate x) + C, with A exp(-rate x) written as exp(log_amplitude - rate (x - origin))."""

    rate: float
    rate_interval: tuple[float, float]
    log_amplitude: float
    origin: float
    offset: float
    rss: float

    def value(self, x: Points) -> Points:
        """A exp(-rate x) + C; infinite beyond float64."""
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(self.log_amplitude - self.rate * (x - self.origin)) + self.offset)


def fit_line(x: Points, y: Points) -> Decay:
    """Ordinary least squares of y = ln A - rate x, with Student's interval of the rate."""
    centre = x.mean()
    unit = float(np.spacing(np.abs(x - centre).max()))  # a power of two rounds nothing, and no square underflows
    away = (x - centre) / unit
    spread = float(np.sum(away**2))
    slope = float(np.sum(away * (y - y.mean())) / spread) / unit
    residuals = y - y.mean() - slope * (x - centre)
    rss = float(residuals @ residuals)
    half = _student(x.size - 2) * float(np.sqrt(max(rss, rounding_floor(y)) / (x.size - 2) / spread)) / unit
    origin = float(x.min())
    return Decay(-slope, (-slope - half, -slope + half), float(y.mean() + slope * (origin - centre)), origin, 0.0, rss)


def fit_line_with_offset(x: Points, y: Points) -> Decay:
    """Least squares of y = ln(A exp(-rate x) + C) with C >= 0.

    With c = C/A the model is ln A + ln(exp(-rate x) + c), so ln A is the mean of what is left and only (rate, c)
    are searched: on a grid, then by Levenberg-Marquardt from its best point, and against the boundary C = 0. The
    interval of the rate holds every rate whose best (A, C) leave RSS <= RSS_min (1 + t^2/(n - 3)), t of Student's
    distribution: the profile likelihood, which for a straight line is Student's interval exactly. A curve that grows
    is one that falls, read backwards.
    """
    line = fit_line(x, y)
    if line.rate < 0:
        low, high = (back := _falling(-x, y, fit_line(-x, y))).rate_interval
        grown = Decay(-back.rate, (-high, -low), back.log_amplitude, -back.origin, back.offset, back.rss)
        return min(grown, _falling(x, y, line), key=lambda fit: fit.rss)
    return _falling(x, y, line)


def _falling(x: Points, y: Points, line: Decay) -> Decay:
    """The fit of all with rate > 0, or the line without an offset."""
    distance = x - line.origin
    rate, log_ratio = _searched(distance, y)
    rss = _rss(distance, y, rate, np.array([log_ratio]))[0]
    if rss >= line.rss * (1 - 1e-9):  # the offset explains nothing: stay at the boundary
        rate, log_ratio, rss = line.rate, -np.inf, line.rss
    log_amplitude = float(np.mean(y - _shape(distance, rate, np.array([log_ratio]))[0]))
    interval = _profile_interval(distance, y, rate, log_ratio, rss) if rate > 0 else line.rate_interval
    return Decay(rate, interval, log_amplitude, line.origin, float(np.exp(log_amplitude + log_ratio)), float(rss))


def _shape(distance: Points, rate: float, log_ratios: Points) -> Points:
    """ln(exp(-rate x) + c): (number of ratios, n)."""
    return np.asarray(np.logaddexp(-rate * distance, log_ratios[:, np.newaxis]), dtype=np.float64)


def _rss(distance: Points, y: Points, rate: float, log_ratios: Points) -> Points:
    left = y - _shape(distance, rate, log_ratios)
    left -= left.mean(axis=1, keepdims=True)
    return np.asarray(np.einsum("kn,kn->k", left, left), dtype=np.float64)


def _searched(distance: Points, y: Points) -> tuple[float, float]:
    """The best (rate, ln c) found from the best grid point of each third of the ratios: valleys are long and flat."""
    steps = np.unique(distance)
    rates = np.geomspace(0.05 / steps[-1], 20 / steps[1], _RATES)
    ratios = np.linspace(_LOWEST, _HIGHEST, _RATIOS)
    table = np.array([_rss(distance, y, rate, ratios) for rate in rates])

    def residuals(point: Points) -> Points:
        left = y - _shape(distance, float(np.exp(point[0])), point[1:])[0]
        return np.asarray(left - left.mean(), dtype=np.float64)

    def slopes(point: Points) -> Points:
        rate = float(np.exp(point[0]))
        share = np.exp(-rate * distance - _shape(distance, rate, point[1:])[0])  # of the decaying term in I
        columns = np.stack((rate * distance * share, share - 1), axis=1)
        return np.asarray(columns - columns.mean(axis=0), dtype=np.float64)

    found = []
    for band in np.array_split(np.arange(_RATIOS), 3):
        i, j = np.unravel_index(np.argmin(table[:, band]), (_RATES, band.size))
        start = np.array([np.log(rates[i]), ratios[band[j]]])
        near = (start - _SEARCH, start + _SEARCH)
        found.append(least_squares(residuals, start, slopes, bounds=near, xtol=1e-15, ftol=1e-15, gtol=1e-15))
    best = min(found, key=lambda result: float(result.cost)).x
    return float(np.exp(best[0])), float(best[1])


def _profile_rss(distance: Points, y: Points, rate: float, fitted: float) -> float:
    """The smallest RSS at a given rate, over A and C >= 0; ``fitted``: ln(C / A) of the best fit of all."""
    ratios = np.linspace(_LOWEST, _HIGHEST, _RATIOS)
    scan = _rss(distance, y, rate, ratios)
    best = int(np.argmin(scan))
    limits = (float(ratios[max(best - 1, 0)]), float(ratios[min(best + 1, ratios.size - 1)]))

    def slope(log_ratio: float) -> float:
        """-1/2 dRSS/d ln c. Its zero has all digits; from values of RSS a minimum has half of them."""
        shape = _shape(distance, rate, np.array([log_ratio]))[0]
        left, share = y - shape, np.exp(log_ratio - shape)  # of the constant in I
        return float((left - left.mean()) @ (share - share.mean()))

    found = [-np.inf, fitted]
    if slope(limits[0]) > 0.0 > slope(limits[1]):
        found.append(brentq(slope, *limits, xtol=1e-15))
    return min(float(scan[best]), float(_rss(distance, y, rate, np.array(found)).min()))


def _profile_interval(distance: Points, y: Points, rate: float, log_ratio: float, rss: float) -> tuple[float, float]:
    freedom = y.size - 3
    allowed = max(rss, rounding_floor(y)) * (1 + _student(freedom) ** 2 / freedom)

    def excess(log_rate: float) -> float:
        return _profile_rss(distance, y, float(np.exp(log_rate)), log_ratio) - allowed

    ends = []
    for direction in (-1.0, 1.0):
        inside, step = float(np.log(rate)), 0.05
        end = 0.0 if direction < 0 else np.inf  # beyond a factor exp(12) the data do not limit the rate
        while abs(inside - np.log(rate)) < 12:
            outside = inside + direction * step
            if excess(outside) > 0:
                end = (
                    float(np.exp(brentq(excess, inside, outside, xtol=1e-14))) if excess(inside) < 0 else np.exp(inside)
                )
                break
            inside, step = outside, 1.6 * step
        ends.append(float(end))
    return ends[0], ends[1]


def rounding_floor(y: Points) -> float:
    """The RSS that rounding alone leaves in ln I: below it a fit is exact."""
    return float(y.size * (8 * np.finfo(np.float64).eps * max(1.0, float(np.abs(y).max()))) ** 2)


def _student(freedom: int) -> float:
    return float(stdtrit(freedom, 0.5 + CONFIDENCE / 2))
