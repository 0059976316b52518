"""Tables in Markdown: a line for each row, and what is missing is shown as missing."""

from __future__ import annotations

import numpy as np
import pytest

from lib.information.intervals import UNKNOWN, Interval
from lib.report.page import MISSING, Column, listed, mean_and_span, span, table


def cells(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]


def test_a_cell_is_what_its_column_says_of_the_row() -> None:
    columns: list[Column] = [("number", str), ("square", lambda n: n * n), ("number", lambda n: f"{n:.1f}")]
    head, rule, *rows = cells(table(columns, (2, 3)))
    assert head == ["number", "square", "number"] and rule == ["---"] * 3
    assert rows == [["2", "4", "2.0"], ["3", "9", "3.0"]]
    assert len(cells(table(columns, []))) == 2


@pytest.mark.parametrize("value", [None, float("nan"), np.float64("nan"), UNKNOWN])
def test_what_is_not_known_is_shown_as_missing(value: object) -> None:
    assert cells(table([("", lambda row: row)], [value]))[2] == [MISSING]


@pytest.mark.parametrize(("value", "shown"), [(0, "0"), (0.0, "0.0"), ("", ""), (Interval(1, 0, 2), "1 [0, 2]")])
def test_what_is_known_is_shown(value: object, shown: str) -> None:
    assert cells(table([("", lambda row: row)], [value]))[2] == [shown]


def test_a_bar_in_a_cell_begins_no_other() -> None:
    line = table([(r"|D| \| E", lambda row: row)], ["a|b"]).splitlines()
    assert line[0] == r"| \|D\| \| E |" and line[2] == r"| a\|b |"


def test_many_numbers_are_told_by_their_ends_their_mean_or_each() -> None:
    values = [3.0, 1.0, 2.0]
    assert span(values, ".0f") == "1 to 3"
    assert mean_and_span(np.array(values), ".1f") == "2.0 (1.0 to 3.0)"  # type: ignore[arg-type]
    assert listed(values, ".1f") == "3.0, 1.0, 2.0"
    assert span([1.0, 1.2], ".0f") == "1" and mean_and_span([1.0, 1.2], ".1f") == "1.1 (1.0 to 1.2)"
    assert mean_and_span([0.5, 0.5], ".1f") == "0.5 (0.5)" and mean_and_span([0.5], ".1f") == "0.5"
    assert span([], ".0f") is None and mean_and_span([], ".0f") is None and listed([], "") == ""
