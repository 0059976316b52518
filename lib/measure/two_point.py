"""A text at one level: its curve, the verdict on it, drift; and one text against another."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lib.information.intervals import Interval
from lib.measure import results
from lib.measure.curves import SHORTEST, Curve, distances, drift, halves, measure_curve
from lib.measure.laws import SEEN, Reading, fit_concatenated, read_curve
from lib.measure.symbols import LEVELS, Level, Symbols, byte_pairs, most_symbols, symbols_of, with_rare_ones_alike
from lib.measure.texts import Text

RANGES = ((1, 9), (10, 49), (50, 1000))  # of distances over which two texts are compared
LARGEST = 1000
HALF = 0.5


def measure_level(text: Text, level: Level, largest: int = LARGEST, seed: int = 0) -> results.TwoPoint:
    """Everything that ``measure.json`` says of a text at a level; distances up to `largest`."""
    symbols = symbols_of(text, level)
    lags = distances(symbols, largest) if len(symbols) >= SHORTEST else np.empty(0, dtype=np.int64)
    if not lags.size:
        return _without_curve(symbols)
    curve = measure_curve(symbols, lags, seed)
    reading, drifting = read_curve(curve, len(symbols)), drift(symbols, seed)
    low, high = curve.band
    composite = None
    if reading.range is not None and curve.lags.size >= 8 and reading.verdict != "too short to say":
        composite = results.Composite(**vars(fit_concatenated(curve.lags, curve.excess, curve.noise)))
    return results.TwoPoint(
        **_counted(symbols),
        lags=curve.lags.tolist(),
        information=results.numbers(curve.information),
        floor=results.numbers(curve.floor),
        band=results.Band(low=results.numbers(low), high=results.numbers(high)),
        verdict=reading.verdict,
        reason=reading.reason + _from_drift(reading, curve, drifting),
        range=reading.range,
        correlation_length=results.Estimate.of(reading.correlation_length),
        exponent=results.Estimate.of(reading.exponent),
        amplitude=reading.amplitude,
        composite=composite,
        drift=results.Estimate.of(drifting),
        halves=results.Estimate.of(halves(symbols, curve.lags[::6], seed)) if reading.range else None,
    )


def _from_drift(reading: Reading, curve: Curve, drifting: Interval) -> str:
    """What is added to the reason of a law if slow change alone gives half of the information at far distances."""
    if reading.amplitude is None or reading.range is None or not drifting.low > 0:
        return ""
    inside = (curve.lags >= np.sqrt(reading.range[0] * reading.range[1])) & (curve.lags <= reading.range[1])
    share = drifting.value / float(curve.excess[inside].mean())
    if not share >= HALF:
        return ""
    far = int(curve.lags[inside][0])
    return f"; drift alone gives {share:.0%} of the information from {far} on, so the law may be one of drift"


def compare(text: Text, other: Text, largest: int = LARGEST, seed: int = 0) -> results.Against:
    """The curves of two texts, level by level, both cut to the shorter length: floors differ with the length.

    Byte pairs are learned on `text` alone, and rare symbols are lumped from the same number on.
    """
    encoding = byte_pairs(text)
    levels = {}
    for level in LEVELS:
        pair = [symbols_of(one, level, encoding if level == "byte_pair" else None, most=2**16) for one in (text, other)]
        length = min(map(len, pair))
        most = most_symbols(length)
        first, second = (_cut(one, length, most) for one in pair)
        compared = _compared(first, second, largest, seed) if length >= SHORTEST else None
        if compared is not None:
            levels[level] = compared
    shown = levels.get("character")
    return results.Against(
        name=other.name,
        sha256=other.sha256,
        ratio=shown.ratio if shown else [],
        half_lost=shown.half_lost if shown else None,
        levels=levels,
    )


def _cut(symbols: Symbols, length: int, most: int) -> Symbols:
    head = symbols.head(length)
    ids, kept, covered = with_rare_ones_alike(head.ids, most)
    return Symbols(head.level, ids, head.offsets, head.kinds, kept, covered)


def _compared(first: Symbols, second: Symbols, largest: int, seed: int) -> results.Comparison | None:
    lags = distances(first, largest)
    lags = lags[np.isin(lags, distances(second, largest))]
    if not lags.size:
        return None
    own, other = (measure_curve(one, lags, seed + place) for place, one in enumerate((first, second)))
    ratio = []
    for near, far in RANGES:
        inside = (lags >= near) & (lags <= far)
        share = _share(own, other, inside) if inside.any() else None
        if share is not None:
            reached = int(lags[inside].min()), int(lags[inside].max())
            ratio.append(results.Share(range=reached, value=share[0], interval=share[1]))
    lost, reason = _half_lost(own, other)
    return results.Comparison(
        symbols=len(first),
        lags=lags.tolist(),
        information=results.numbers(own.excess),
        other=results.numbers(other.excess),
        ratio=ratio,
        half_lost=lost,
        reason=reason,
    )


def _share(own: Curve, other: Curve, inside: npt.NDArray[np.bool_]) -> tuple[float, tuple[float, float | None]] | None:
    """Ratio of the mean information in a range, and its interval; None where `own` is not above its floor there.

    Of two texts whose law is one power law, with exponents 0.4 and 0.8 and 50 000 symbols, it held 1 in 163 of 194:
    blocks of one text do not show by how much texts of long memory differ. Of two Markov chains it did in 95 %.
    """
    below, above = own.means(inside, 0), other.means(inside, 1)
    mean = own.excess[inside].mean()
    if mean < SEEN * below.std():
        return None
    quotients = np.where(below > 0, above / np.where(below > 0, below, 1.0), np.inf)
    low, high = np.quantile(quotients, [0.025, 0.975], method="nearest")
    return float(other.excess[inside].mean() / mean), (float(low), float(high) if np.isfinite(high) else None)


def _half_lost(own: Curve, other: Curve) -> tuple[int | None, str]:
    """The first distance from which on, for two neighbours, the other text has less than half of what is there."""
    seen = own.excess > SEEN * own.noise
    less = other.excess < HALF * own.excess
    sure = less & (HALF * own.excess - other.excess > 2 * np.hypot(HALF * own.noise, other.noise))
    for place in np.flatnonzero(seen & sure):
        following = place + 1
        if following == len(own.lags) or less[following] or not seen[following]:
            return int(own.lags[place]), "the first distance with less than half, by two standard deviations"
    if not seen.any():
        return None, "the text itself has no information above the floor"
    return None, f"at least half, or not to be told from it, as far as distance {own.lags[seen][-1]}"


def _counted(symbols: Symbols) -> dict[str, Any]:
    return {
        "symbols": len(symbols),
        "kinds": symbols.kinds,
        "kept": symbols.kept,
        "covered": symbols.covered,
    }


def _without_curve(symbols: Symbols) -> results.TwoPoint:
    return results.TwoPoint(
        **_counted(symbols),
        lags=[],
        information=[],
        floor=[],
        band=results.Band(low=[], high=[]),
        verdict="too short to say",
        reason=f"the text has {len(symbols)} of them, at most {np.diff(symbols.offsets).max()} in a row",
        range=None,
        correlation_length=None,
        exponent=None,
        amplitude=None,
        composite=None,
        drift=None,
        halves=None,
    )
