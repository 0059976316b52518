"""Recorded values as a table wants them: numbers to six digits, arrays by their number and their worst entry."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from lib.report.catalogue import Claim
from lib.report.claims import WORDS
from lib.report.comparison import show
from lib.report.records import Record

LISTED = 3  # numbers that are written out; longer arrays are counted
LONGEST_TEXT = 90  # characters of a mapping or a note in a table


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
    numbers = list(_flat(value))
    if len(numbers) <= LISTED:
        return ", ".join(recorded(number) for number in numbers)
    ordered = all(isinstance(number, int | float) for number in numbers)
    return _counted(len(numbers), *((min(numbers), max(numbers)) if ordered else ()))


def _counted(number: int, smallest: Any = None, largest: Any = None) -> str:
    if smallest is None or largest is None:
        return f"{number} values"
    if smallest == largest:
        return f"{number} values, all {float(smallest):.4g}"
    return f"{number} values in [{float(smallest):.4g}, {float(largest):.4g}]"


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        for entry in value:
            yield from _flat(entry)
    else:
        yield value


def _size(value: Any) -> int:
    return math.prod(value["shape"]) if isinstance(value, dict) and "shape" in value else len(list(_flat(value)))


def ours(record: Record) -> str:
    """What was measured; of an array that was held against another one, how many values and the largest deviation.

    Nothing for what is undecided: its sentence says what was found.
    """
    count = _size(record.get("measured"))
    if record.get("tolerance") is None or record.get("deviation") is None or count <= LISTED:
        return recorded(record.get("measured"))
    return f"{count} values, largest deviation {float(record['deviation']):.2g}"


def allowed(record: Record) -> str:
    """What ``measured`` was held against: expected value and tolerance, the interval around it, or the bounds."""
    expected = record.get("expected")
    if record.get("tolerance") is not None:
        scale = " relative" if record.get("relative") else ""
        centre = recorded(expected) if _size(expected) <= LISTED else ""
        return f"{centre} ± {float(record['tolerance']):.3g}{scale}".strip()
    if record.get("within") is not None:
        return _interval(record["within"], expected, record.get("confidence"))
    bounds = [("≥", record.get("at_least")), ("≤", record.get("at_most"))]
    return ", ".join(f"{sign} {recorded(bound)}" for sign, bound in bounds if bound is not None)


def _interval(within: Any, expected: Any, confidence: Any) -> str:
    sure = "" if confidence is None else f" ({100 * confidence:.6g} %)"
    if _size(within) == 2:
        return f"{recorded(expected)} in [{recorded(within)}]{sure}"
    return f"expected in each of {_size(within) // 2} intervals{sure}"


def paper_value(claim: Claim, record: Record | None = None) -> str:
    """The paper's own number: as recorded, else the printed form, else what a claim that differs was held against."""
    if record is None:
        return recorded(claim.paper_value)
    for key in ("paper", "printed"):
        if record.get(key) is not None:
            return recorded(record[key])
    if record["outcome"] == "differs":
        return recorded(record["expected"]) if record.get("expected") is not None else allowed(record)
    return recorded(claim.paper_value)


def shortened(text: str) -> str:
    """A note cut at a word if it is long: the page with the check has all of it."""
    return textwrap.shorten(text, LONGEST_TEXT, placeholder=" …")


def origin(record: Record) -> str:
    """Day and commit of a record."""
    made = record.get("provenance", {})
    return f"{str(made.get('date', ''))[:10]}, commit {made.get('commit', 'unknown')}"


def age(record: Record) -> str:
    """What the present code says of a part whose record is of older code, if it was run at a lower profile."""
    beside = record.get("beside")
    if not beside:
        return ""
    agrees = _side(beside) == _side(record)
    return f"the {beside['profile']} check of the present code {'agrees' if agrees else f'says: {_word(beside)}'}"


def _side(record: Record) -> str:
    # at another scale the same finding has another word
    return "holds" if record["outcome"] == "reduced" else str(record["outcome"])


def _word(record: Record) -> str:
    return WORDS[record["outcome"]][1]


def counted(statuses: Mapping[str, int]) -> list[str]:
    """The statuses to be counted: all, but that a check fails only where one does, for else there is no page."""
    return [status for status, number in statuses.items() if number or status != "fails"]


def tally(total: Mapping[str, int], older: Mapping[str, int]) -> str:
    """Counts of claims by status in one line, and how many of the claims rest on records of older code."""
    told = " · ".join(f"{total[status]} {WORDS[status][1]}" for status in counted(total))
    return f"{told}; of which {rest_on_older(older)}"


def rest_on_older(older: Mapping[str, int]) -> str:
    """How many claims, by status, rest on records of older code."""
    number = sum(older.values())
    return f"{number} {'rests' if number == 1 else 'rest'} on records of older code"
