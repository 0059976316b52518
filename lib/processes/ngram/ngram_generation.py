"""Sentences that n-gram rules generate: how many there are, and draws of them."""

from __future__ import annotations

from math import inf

import numpy as np

from lib.checks import generator
from lib.processes.ngram.rules import NgramRules


def count_generated(rules: NgramRules, starts: list[int]) -> int | float:
    """Number of different sentences that the rules generate from these rows; infinite if they can run in a loop.

    Paths are counted from the end: a row has one for each pair that ends the sentence, and as many as its successors
    have. Raises ValueError for a row outside the rules. Cost O(pairs).
    """
    if any(not 0 <= start < len(rules) for start in starts):
        raise ValueError(f"starts: rows 0 to {len(rules) - 1} are allowed, got {starts!r}")
    end = len(rules.words)
    ways: dict[int, int] = {}
    open_rows: set[int] = set()  # on the path to the row in hand: meeting one again is a loop
    stack = list(starts)
    while stack:
        row = stack[-1]
        pairs = slice(int(rules.bounds[row]), int(rules.bounds[row + 1]))
        later = [r for r in rules.successors[pairs].tolist() if r >= 0]
        if row in ways:
            stack.pop()
        elif row in open_rows:
            ways[row] = int(np.sum(rules.following[pairs] == end)) + sum(ways[r] for r in later)
            open_rows.remove(row)
            stack.pop()
        elif row in later or open_rows.intersection(later):
            return inf
        else:
            open_rows.add(row)
            stack.extend(r for r in later if r not in ways)
    return sum(ways[start] for start in starts)


def generate_ids(
    rules: NgramRules, starts: list[int], longest: int, seed: int | np.random.Generator
) -> list[list[int]]:
    """Ids that follow each start, drawn one after the other from the rules, up to the end of the sentence.

    A sentence without an end after `longest` words is cut there. Cost O(words).
    """
    random, end, made = generator(seed), len(rules.words), []
    for start in starts:
        row, ids = start, list[int]()
        while row >= 0 and len(ids) < longest:
            low, high = int(rules.bounds[row]), int(rules.bounds[row + 1])
            reach = np.cumsum(rules.probabilities[low:high])
            pair = low + min(int(np.searchsorted(reach, random.random(), side="right")), high - low - 1)
            if rules.following[pair] != end:
                ids.append(int(rules.following[pair]))
            row = int(rules.successors[pair])
        made.append(ids)
    return made
