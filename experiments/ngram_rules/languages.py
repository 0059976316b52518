"""Finite languages: the tree of all beginnings of their sentences, and one whose verb agrees with a noun.

In the tree every beginning of every sentence stands once: what exact averages over the language run over. The noun is
three words back, so that two words of context are not enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lib.checks import whole_number
from lib.processes.ngram.language import NgramLanguage

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]
TEMPLATES = (
    "{opening} the {one} near {whom} {does} a {thing} every {day}",
    "{opening} the {many} near {whom} {do} a {thing} every {day}",
)
SLOTS = {
    "opening": ("we saw that", "they said that", "he knew that"),
    "one": ("dog", "fox", "hen", "cow", "owl"),
    "many": ("dogs", "foxes", "hens", "cows", "owls"),
    "whom": ("him", "her"),
    "does": ("chases", "wants", "finds"),
    "do": ("chase", "want", "find"),
    "thing": ("ball", "bone", "nest", "leaf", "stone"),
    "day": ("monday", "sunday", "morning", "evening"),
}
ORDER = 4  # n: "dogs near him" and the verb


class FiniteLanguage(Protocol):
    """What is asked of a language; `NgramLanguage` is one."""

    @property
    def words(self) -> tuple[str, ...]: ...

    def sentences(self) -> tuple[tuple[str, ...], ...]: ...

    def encode(self, words: Sequence[str]) -> Ids: ...


class PrefixTree:
    """The tree of the beginnings of S equally likely sentences over d words, each closed by the end mark, id d.

    tokens (S, T): ids, the end mark after the last word and in the columns behind it. nodes (S, T + 1): the node after
    0, 1, ... tokens, -1 behind the end. For each of N nodes: depth, parent, word (the token that led here), mass (the
    probability that a sentence begins so), sentence (the first that does). Children have larger numbers than parents.
    Cost O(S T log S).
    """

    def __init__(self, language: FiniteLanguage) -> None:
        rows = [language.encode(sentence) for sentence in language.sentences()]
        self.end = len(language.words)
        self.lengths = np.array([len(row) for row in rows])
        self.tokens = np.full((len(rows), int(self.lengths.max()) + 1), self.end)
        for filled, row in zip(self.tokens, rows, strict=True):
            filled[: len(row)] = row
        self.nodes = np.full((len(rows), self.tokens.shape[1] + 1), -1)
        self.nodes[:, 0] = 0
        links = [np.array([[-1, -1, 0, len(rows), 0]])]  # parent, word, depth, sentences, first sentence
        for depth in range(self.tokens.shape[1]):
            alive = np.flatnonzero(self.lengths >= depth)
            steps = self.nodes[alive, depth] * (self.end + 1) + self.tokens[alive, depth]
            found, first, place, count = np.unique(steps, return_index=True, return_inverse=True, return_counts=True)
            self.nodes[alive, depth + 1] = sum(map(len, links)) + place
            parents, words = np.divmod(found, self.end + 1)
            links.append(np.column_stack([parents, words, np.full(len(found), depth + 1), count, alive[first]]))
        self.parent, self.word, self.depth, counts, self.sentence = np.vstack(links).T
        self.mass = counts / len(rows)

    def __len__(self) -> int:
        return len(self.parent)

    @cached_property
    def child(self) -> Ids:
        """Node that each token leads to, (N, d + 1); -1 where no sentence goes on so."""
        table = np.full((len(self), self.end + 1), -1)
        table[self.parent[1:], self.word[1:]] = np.arange(1, len(self))
        return table

    @cached_property
    def law(self) -> Floats:
        """P(next token | beginning), (N, d + 1); rows of whole sentences are zero."""
        return np.asarray(np.where(self.child >= 0, self.mass[self.child], 0.0) / self.mass[:, None])

    @cached_property
    def is_whole(self) -> NDArray[np.bool_]:
        """Whether a node is a whole sentence with its end mark, (N,)."""
        return np.asarray(self.word == self.end)

    def at_depth(self, depth: int) -> Ids:
        """Nodes of that many tokens. Raises ValueError if no sentence has as many words."""
        found = np.flatnonzero((self.depth == whole_number(depth, "depth", 0)) & ~self.is_whole)
        if not found.size:
            raise ValueError(f"depth: 0 to {int(self.lengths.max())} words are allowed, got {depth}")
        return found

    def last_words(self, count: int) -> Ids:
        """The last `count` tokens of every node, (N, count), oldest first; -1 before the first word. O(N count)."""
        columns, at = [], np.arange(len(self))
        for _ in range(whole_number(count, "count", 1)):
            columns.append(np.where(at >= 0, self.word[at], -1))
            at = np.where(at >= 0, self.parent[at], -1)
        return np.column_stack(columns[::-1])


def agreement_language(n: int = ORDER) -> NgramLanguage:
    """3600 sentences over 38 words, all equally likely; rules of n - 1 = 3 words of context write exactly these.

    After "near him" the verb is singular or plural, as the noun before it was. Two words of context leave ln 2 nats
    more there than three do.
    """
    return NgramLanguage.from_templates(TEMPLATES, SLOTS, n)
