"""How good a written text is: spelling, brackets, quotes, titles, and how much of it is said twice or was read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

LETTERS = re.compile(r"[^\W\d_]{2,}")
TITLE = re.compile(r"^ (=(?: =)*) .*?((?: =)+) ?$", re.MULTILINE)
HEADING = re.compile(r"^ = .*$", re.MULTILINE)
WITHIN = 200  # characters in which a bracket has to be closed
WORDS = 4  # of the runs that are looked for a second time


def quality(
    rows: Sequence[str], vocabulary: frozenset[str], runs: frozenset[tuple[str, ...]]
) -> dict[str, float | None]:
    """Measures of a text in rows, each a share from 0 to 1, None where there is nothing to measure.

    spelling: of the words of two letters and more, those in the vocabulary. brackets: of the opening brackets, those
    that are closed within 200 characters, before the next one opens. quotes: of the lines with a quotation mark, those
    with an even number of them. titles: of the lines that begin like a title of WikiText ("= Name ="), those that end
    with as many signs as they begin with. repeated: of the runs of four words in a row, those that came before in the
    same text. read: of these runs, those in `runs`, the runs of the training text.
    """
    text = "\n".join(rows)
    words = LETTERS.findall(text)
    marks = [line.count('"') for line in text.splitlines() if '"' in line]
    headings = HEADING.findall(text)
    given = [run for row in rows for run in word_runs(row)]
    counts = Counter(given)
    opened = [place for place, letter in enumerate(text) if letter == "("]
    return {
        "spelling": share(sum(word in vocabulary for word in words), len(words)),
        "brackets": share(sum(_is_closed(text, place) for place in opened), len(opened)),
        "quotes": share(sum(count % 2 == 0 for count in marks), len(marks)),
        "titles": share(sum(_is_title(line) for line in headings), len(headings)),
        "repeated": share(len(given) - len(counts), len(given)),
        "read": share(sum(run in runs for run in given), len(given)),
    }


def vocabulary_of(text: str) -> frozenset[str]:
    """Words of two letters and more."""
    return frozenset(LETTERS.findall(text))


def word_runs(text: str) -> list[tuple[str, ...]]:
    """All runs of four words in a row, words between white space."""
    words = text.split()
    return list(zip(*(words[start:] for start in range(WORDS)), strict=False))


def share(count: int, total: int) -> float | None:
    return count / total if total else None


def _is_closed(text: str, place: int) -> bool:
    inside = text[place + 1 : place + 1 + WITHIN]
    closing, opening = inside.find(")"), inside.find("(")
    return closing >= 0 and (opening < 0 or closing < opening)


def _is_title(line: str) -> bool:
    found = TITLE.match(line)
    return found is not None and found[1].count("=") == found[2].count("=")
