"""The page of symbols: a letter that two tables list has a row that says what it means where."""

from __future__ import annotations

import re

import pytest

from lib import ROOT

PAGE = (ROOT / "book" / "notation.md").read_text(encoding="utf-8")
LETTERS, RENAMED = "## Letters with more than one meaning", "## Renamed"
FONTS = re.compile(r"\\(?:hat|tilde|bar|operatorname|mathrm|mathcal|text|lvert|rvert)\b")
NAMES = {r"\operatorname", r"\dim", r"\partial"}  # of functions, not letters


def letters(cells: list[str]) -> set[str]:
    """The letters with which the symbols in these cells begin, fonts and hats aside."""
    found = set()
    for symbol in re.findall(r"\$([^$]+)\$", " ".join(cells)):
        if letter := re.match(r"[{(\[\s]*(\\[A-Za-z]+|[A-Za-z])", FONTS.sub("", symbol)):
            found.add(letter[1])
    return found - NAMES


def tables(text: str) -> list[set[str]]:
    """Of each table in a text the letters of its first column."""
    sections = re.split(r"^##+ ", text, flags=re.MULTILINE)
    return [letters(re.findall(r"^\| (\$.*?) \| ", section, flags=re.MULTILINE)) for section in sections]


def without_a_row(page: str) -> set[str]:
    """Letters in the tables of two sections or more that the list of letters does not have."""
    before, _, after = page.partition(LETTERS)
    listed = set().union(*tables(after.partition(RENAMED)[0]))
    found = tables(before)
    everywhere = set().union(*found)
    return {letter for letter in everywhere if sum(letter in one for one in found) > 1} - listed


def test_a_letter_in_two_tables_is_in_the_list_of_letters() -> None:
    assert without_a_row(PAGE) == set()


@pytest.mark.parametrize("letter", [r"\Delta", r"\mu", "y", r"\Lambda", "o"])
def test_a_row_that_is_missing_is_seen(letter: str) -> None:
    start, _, letters_of_page = PAGE.partition(LETTERS)
    row = re.compile(rf"^\| \${re.escape(letter)}\$ \|.*\n", re.MULTILINE)
    assert len(row.findall(letters_of_page)) == 1
    assert without_a_row(start + LETTERS + row.sub("", letters_of_page)) == {letter}


def test_every_row_of_a_table_has_as_many_cells_as_its_head() -> None:
    for table in re.findall(r"(?:^\|.*\n)+", PAGE, re.MULTILINE):
        assert len({line.replace(r"\|", "").count("|") for line in table.splitlines()}) == 1, table[:200]
