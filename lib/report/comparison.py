"""Three ways to compare a measured value with what it should be: a tolerance, an interval, a bound."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Values = NDArray[Any]
LISTED = 3  # recorded numbers that are written out; longer arrays are counted
LONGEST_TEXT = 90  # characters of a mapping or a note in a table


@dataclass(frozen=True)
class Comparison:
    """What came of a comparison: does it agree, how far off is the worst entry, the sentence for the page."""

    agrees: bool
    deviation: float  # tolerance: max |measured - expected|; interval and bounds: largest distance outside
    text: str


def values(given: Any, name: str) -> Values:
    """``given`` as an array of float64 or complex128, or of exact numbers if it holds integers or rationals.

    Raises ``ValueError`` if it is empty, is not numeric, or contains NaN.
    """
    array = np.asarray(given)
    if array.dtype.kind == "f":
        array = array.astype(np.float64)
    elif array.dtype.kind != "c":
        array = array.astype(object)  # integers and rationals stay exact: uint8 differences would wrap around
    if array.size == 0:
        raise ValueError(f"{name} is empty: a comparison of nothing cannot fail")
    try:
        if any(isinstance(entry, str | bytes) for entry in (array.ravel() if array.dtype == object else ())):
            raise TypeError("text")  # numpy would read it as a number
        numbers = array.astype(np.complex128 if array.dtype.kind in "cO" else np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} has to be numeric, given {given!r}") from error
    if np.isnan(numbers).any():
        raise ValueError(f"{name} contains NaN")
    return array


def _real(array: Values, name: str) -> NDArray[np.float64]:
    numbers = array.astype(np.complex128)
    if (numbers.imag != 0).any():
        raise ValueError(f"{name} has to be real to be ordered")
    return np.asarray(numbers.real, dtype=np.float64)


def _same_shape(first: Values, second: Values, name: str) -> None:
    if first.shape != second.shape and first.ndim > 0 and second.ndim > 0:
        raise ValueError(f"shapes differ: measured {first.shape}, {name} {second.shape}")


def show(given: Any) -> str:
    """A value as a reader wants it: six digits, short arrays in full, long ones by shape and range."""
    array = np.asarray(given)
    if array.dtype.kind in "US" or given is None:
        return str(given)
    if array.ndim == 0:
        return _show_one(array.item())
    if array.size <= 6:
        return "[" + ", ".join(_show_one(entry) for entry in array.ravel().tolist()) + "]"
    if array.dtype.kind == "c":
        return f"{array.size} complex values"
    numbers = array.astype(np.float64)
    return f"{array.size} values in [{numbers.min():.4g}, {numbers.max():.4g}]"


def _show_one(number: Any) -> str:
    if isinstance(number, bool | str):
        return str(number)
    if isinstance(number, int):
        return str(number)
    if isinstance(number, complex):
        return f"{number:.6g}"
    return f"{float(number):.6g}"


def within_tolerance(measured: Any, expected: Any, tolerance: float, relative: bool = False) -> Comparison:
    """Is ``|measured - expected| <= tolerance`` (times ``|expected|`` if ``relative``) in every entry?"""
    if not (np.isfinite(tolerance) and tolerance >= 0):
        raise ValueError(f"tolerance has to be finite and not negative, given {tolerance!r}")
    ours, theirs = values(measured, "measured"), values(expected, "expected")
    _same_shape(ours, theirs, "expected")
    # equal infinities agree; subtracting them would give NaN
    gap = np.where(ours == theirs, 0.0, _distance(ours, theirs))
    scale = np.asarray(np.abs(theirs), dtype=np.float64) if relative else np.ones(theirs.shape)
    with np.errstate(invalid="ignore"):  # no share of an infinite number is near it
        agrees = bool(np.all((gap == 0.0) | (np.isfinite(gap) & (gap <= tolerance * scale))))
    worst = float(np.max(gap))
    sign = "≤" if agrees else "exceeds"
    bound = f"{tolerance:.3g}" + (" × |expected|" if relative else "")
    text = f"{show(measured)} against {show(expected)}; |difference| {worst:.2g} {sign} {bound}"
    return Comparison(agrees, worst, text)


def _distance(ours: Values, theirs: Values) -> NDArray[np.float64]:
    with np.errstate(invalid="ignore"):
        return np.asarray(np.abs(ours - theirs), dtype=object).astype(np.float64)


def inside_interval(measured: Any, expected: Any, interval: ArrayLike, confidence: float = 0.95) -> Comparison:
    """Does ``expected`` lie inside the interval ``(low, high)``, or inside each of an array of pairs?

    ``confidence``, strictly between 0 and 1, is only told: the interval is the caller's.
    """
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence: a number between 0 and 1 is needed, given {confidence!r}")
    values(measured, "measured")
    wanted = _real(values(expected, "expected"), "expected")
    pairs = _real(values(interval, "within"), "within")
    if pairs.shape[-1:] != (2,):
        raise ValueError(f"within has to be (low, high) or an array of such pairs, given shape {pairs.shape}")
    low, high = pairs[..., 0], pairs[..., 1]
    if (low > high).any():
        raise ValueError(f"within: the lower end is above the upper end in {show(pairs)}")
    if np.isinf(low).any() or np.isinf(high).any():
        raise ValueError("within: an infinite interval cannot fail; use at_least or at_most")
    _same_shape(low, wanted, "expected")
    outside = np.maximum(np.maximum(low - wanted, wanted - high), 0.0)
    agrees = bool(np.all(outside == 0))
    ends = f"[{low:.6g}, {high:.6g}]" if low.ndim == 0 else f"{low.size} intervals"
    verb = "contains" if agrees else "does not contain"
    text = f"{show(measured)}, {100 * confidence:.6g} % interval {ends} {verb} {show(expected)}"
    if not agrees and outside.size > 1:
        text += f" ({int(np.count_nonzero(outside))} of {outside.size} missed)"
    return Comparison(agrees, float(np.max(outside)), text)


def inside_bounds(measured: Any, at_least: Any = None, at_most: Any = None) -> Comparison:
    """Does ``at_least <= measured <= at_most`` hold for every entry, with either bound left out?"""
    ours = _real(values(measured, "measured"), "measured")
    outside = np.zeros(ours.shape)
    words = []
    for bound, name, sign in ((at_least, "at_least", 1.0), (at_most, "at_most", -1.0)):
        if bound is None:
            continue
        limit = _real(values(bound, name), name)
        if np.isinf(limit).any():
            raise ValueError(f"{name}: an infinite bound cannot fail")
        _same_shape(ours, limit, name)
        outside = np.maximum(outside, sign * (limit - ours))
        words.append(f"{name.replace('_', ' ')} {show(bound)}")
    if at_least is not None and at_most is not None and np.any(np.greater(at_least, at_most)):
        raise ValueError(f"at_least has to be at most at_most, given {show(at_least)} and {show(at_most)}")
    agrees = bool(np.all(outside <= 0))
    text = f"{show(measured)} {'is' if agrees else 'is not'} {' and '.join(words)}"
    return Comparison(agrees, float(np.max(outside)), text)


def recorded(value: Any) -> str:
    """A recorded value in short.

    A number to six digits, up to three numbers one by one, a longer array as "10 values in [low, high]" whether it was
    recorded in full or as a summary, a mapping by its entries, or by its keys if that is long.
    """
    if value is None:
        return ""
    if isinstance(value, dict) and "shape" in value:
        return _counted(math.prod(value["shape"]), value.get("smallest"), value.get("largest"))
    if isinstance(value, dict):
        text = "; ".join(f"{key} {recorded(entry)}" for key, entry in value.items())
        return text if len(text) <= LONGEST_TEXT else f"{len(value)} entries: {', '.join(value)}"
    if not isinstance(value, list):
        return show(value)
    numbers = list(flat(value))
    if len(numbers) <= LISTED:
        return ", ".join(recorded(number) for number in numbers)
    ordered = all(isinstance(number, int | float) for number in numbers)
    return _counted(len(numbers), *((min(numbers), max(numbers)) if ordered else ()))


def ours(record: Mapping[str, Any]) -> str:
    """What was measured; of an array that was held against another one, how many values and the largest deviation.

    Nothing for what is undecided: its sentence says what was found.
    """
    count = size(record.get("measured"))
    if record.get("tolerance") is None or record.get("deviation") is None or count <= LISTED:
        return recorded(record.get("measured"))
    return f"{count} values, largest deviation {float(record['deviation']):.2g}"


def allowed(record: Mapping[str, Any]) -> str:
    """What ``measured`` was held against: expected value and tolerance, the interval around it, or the bounds."""
    expected = record.get("expected")
    if record.get("tolerance") is not None:
        scale = " relative" if record.get("relative") else ""
        centre = recorded(expected) if size(expected) <= LISTED else ""
        return f"{centre} ± {float(record['tolerance']):.3g}{scale}".strip()
    if record.get("within") is not None:
        return _interval(record["within"], expected, record.get("confidence"))
    bounds = [("≥", record.get("at_least")), ("≤", record.get("at_most"))]
    return ", ".join(f"{sign} {recorded(bound)}" for sign, bound in bounds if bound is not None)


def _interval(within: Any, expected: Any, confidence: Any) -> str:
    sure = "" if confidence is None else f" ({100 * confidence:.6g} %)"
    if size(within) == 2:
        return f"{recorded(expected)} in [{recorded(within)}]{sure}"
    return f"expected in each of {size(within) // 2} intervals{sure}"


def size(value: Any) -> int:
    """How many numbers a recorded value has, whether they are listed or summarised."""
    return math.prod(value["shape"]) if isinstance(value, dict) and "shape" in value else len(list(flat(value)))


def _counted(number: int, smallest: Any = None, largest: Any = None) -> str:
    if smallest is None or largest is None:
        return f"{number} values"
    if smallest == largest:
        return f"{number} values, all {float(smallest):.4g}"
    return f"{number} values in [{float(smallest):.4g}, {float(largest):.4g}]"


def flat(value: Any) -> Iterator[Any]:
    """The entries of nested lists, one after the other; what is no list is its own entry."""
    if isinstance(value, list):
        for entry in value:
            yield from flat(entry)
    else:
        yield value
