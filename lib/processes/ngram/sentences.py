"""Languages given as a list of sentences or as a stretch of text: counts of runs of words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Sized
from fractions import Fraction
from functools import cached_property
from math import fsum, lcm, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lib.checks import generator, whole_number

Word = str
Sentence = tuple[Word, ...]

START, END, UNKNOWN = "<start>", "<end>", "<unk>"


def exact_weights(
    given: Sequence[float | Fraction], size: int, name: str, tolerance: float | None = None
) -> tuple[Fraction, ...]:
    """Weights > 0 as exact fractions divided by their sum, which may miss one by the tolerance, if one is given.

    Raises ValueError for a larger sum, or unless there are `size` of them.
    """
    try:
        weights = [_fraction(w) for w in given]
    except (TypeError, ValueError, OverflowError):
        weights = []
    if len(weights) != size or min(weights, default=-1) <= 0:
        raise ValueError(f"{name}: {size} finite weights > 0 are allowed, got {given!r}")
    total = sum(weights, Fraction())
    if tolerance is not None and abs(total - 1) > Fraction(tolerance):
        found = f"{float(min(total, Fraction(10**300))):.12g}"  # larger ones are no float
        raise ValueError(f"{name}: numbers that sum to one to within {tolerance:.3g} are allowed, got the sum {found}")
    return tuple(w / total for w in weights)


def _fraction(weight: Any) -> Fraction:
    """Fraction, which refuses float32 and would keep int64, whose sums wrap around."""
    if isinstance(weight, np.floating):
        return Fraction(float(weight))
    return Fraction(int(weight) if isinstance(weight, np.integer) else weight)


def refuse_marks(words: Sentence) -> Sentence:
    """The words; ValueError if one is a mark for the beginning, the end, or what no rule tells."""
    for word in words:
        if word in (START, END, UNKNOWN):
            raise ValueError(
                f"words: {START}, {END} and {UNKNOWN} mark the ends of sentences and what no rule tells, and are no "
                f"words (a text that has them needs another spelling), got {word!r}"
            )
    return words


class SentenceList:
    """Sentences given one by one, as often as they occur, or with weights.

    sentences: an iterable of sequences of words. weights: one > 0 for each, default 1; equal sentences add up.
    Raises ValueError for no sentence, an empty one, a text in the place of a list of words, or bad weights.
    """

    def __init__(self, sentences: Iterable[Sequence[Word]], weights: Sequence[float | Fraction] | None = None) -> None:
        if isinstance(sentences, str):
            raise ValueError("sentences: lists of words are allowed, got one text; split it into words first")
        ids: dict[Word, int] = {}
        rows: list[int] = []
        lengths: list[int] = []
        if not isinstance(sentences, Iterable):
            raise ValueError(f"sentences: lists of words are allowed, got {sentences!r}")
        for sentence in sentences:
            if isinstance(sentence, str) or not isinstance(sentence, Sized) or len(sentence) == 0:
                raise ValueError(f"sentences: each is a sequence of at least one word, got {sentence!r}")
            if odd := [word for word in sentence if not isinstance(word, str)]:
                raise ValueError(f"sentences: words are texts, got {odd[0]!r}")
            rows.extend(ids.setdefault(word, len(ids)) for word in sentence)
            lengths.append(len(sentence))
        if not lengths:
            raise ValueError("sentences: at least one is needed, got none")
        self.words: tuple[Word, ...] = refuse_marks(tuple(ids))
        self._text = np.array(rows, dtype=np.int64)
        self._ends = np.cumsum(lengths)
        self._lengths = np.array(lengths, dtype=np.int64)
        self._counts = np.ones(len(lengths), dtype=np.int64) if weights is None else _whole(weights, lengths)

    @cached_property
    def _law(self) -> dict[Sentence, int]:
        law: dict[Sentence, int] = {}
        for sentence, count in zip(self._occurrences(), self._counts.tolist(), strict=True):
            law[sentence] = law.get(sentence, 0) + count
        return law

    def _occurrences(self) -> Iterator[Sentence]:
        for end, length in zip(self._ends.tolist(), self._lengths.tolist(), strict=True):
            yield tuple(self.words[i] for i in self._text[end - length : end].tolist())

    def __len__(self) -> int:
        """Number of different sentences."""
        return len(self._law)

    def sentences(self) -> Iterator[Sentence]:
        """Every different sentence once, in order of first appearance."""
        return iter(self._law)

    def __contains__(self, sentence: object) -> bool:
        """Whether the words, a tuple or list, are one of the sentences."""
        return isinstance(sentence, tuple | list) and tuple(sentence) in self._law

    def next_words(self, prefix: Sequence[Word]) -> dict[Word, Fraction]:
        """Distribution of the word after the first words of a sentence, END after a whole one. Cost O(sentences)."""
        size, first, ahead = len(prefix), tuple(prefix), dict[Word, int]()
        for sentence, count in self._law.items():
            if sentence[:size] == first:
                word = sentence[size] if len(sentence) > size else END
                ahead[word] = ahead.get(word, 0) + count
        total = sum(ahead.values())
        return {word: Fraction(count, total) for word, count in ahead.items()}

    def marked_text(self, pads: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[Any]]:
        """Ids of all words with END (id d) after each sentence and `pads` START (id d + 1) before it.

        Returns the ids, the sentence that each belongs to and the count of each sentence, for d different words.
        """
        size = len(self.words)
        owner = np.repeat(np.arange(self._lengths.size), self._lengths + pads + 1)
        text = np.full(owner.size, size + 1)
        ends = np.cumsum(self._lengths + pads + 1) - 1
        text[ends] = size
        place = np.arange(self._text.size) + np.repeat(np.arange(self._lengths.size) * (pads + 1) + pads, self._lengths)
        text[place] = self._text
        return text, owner, self._counts

    def beginnings(self, size: int) -> tuple[Sentence, ...]:
        """The first `size` words of every sentence that has as many, without repetition."""
        return tuple(dict.fromkeys(sentence[:size] for sentence in self._law if len(sentence) >= size))

    def occurrence_probabilities(self, size: int) -> dict[Sentence, Fraction]:
        """For each run of `size` words the probability that a sentence contains it at least once. Cost O(text)."""
        holds: dict[Sentence, int] = {}
        for sentence, count in self._law.items():
            for run in dict.fromkeys(sentence[i : i + size] for i in range(len(sentence) - size + 1)):
                holds[run] = holds.get(run, 0) + count
        total = sum(self._law.values())
        return {run: Fraction(count, total) for run, count in holds.items()}

    def entropy(self) -> float:
        """Entropy of one sentence in nats, -sum p ln p over the different sentences."""
        total = sum(self._law.values())
        return fsum(-p * log(p) for p in (count / total for count in self._law.values()) if p > 0.0)

    def mean_length(self) -> Fraction:
        """Expected number of words in a sentence."""
        total = sum(self._counts.tolist())
        return Fraction(sum(c * n for c, n in zip(self._counts.tolist(), self._lengths.tolist(), strict=True)), total)

    def shortest(self) -> int:
        """Number of words of the shortest sentence."""
        return int(self._lengths.min())

    def is_uniform(self) -> bool:
        """Whether all sentences are equally likely."""
        return len(set(self._law.values())) == 1

    def sample(self, n: int, seed: int | np.random.Generator) -> list[Sentence]:
        """n independent sentences. Raises ValueError for n < 1 or a bad seed."""
        sentences, total = list(self._law), sum(self._law.values())
        law = [count / total for count in self._law.values()]  # Python divides whole numbers that float cannot hold
        drawn = generator(seed).choice(len(sentences), size=whole_number(n, "n", 1), p=law)
        return [sentences[i] for i in drawn]


def _whole(weights: Sequence[float | Fraction], lengths: Sequence[int]) -> NDArray[Any]:
    """Whole numbers in the same proportion, Python's own where 64 bits are too few for counts of all places."""
    law = exact_weights(weights, len(lengths), "weights")
    scale = lcm(*(w.denominator for w in law))
    few = scale <= np.iinfo(np.int64).max // (max(lengths) + 1)
    return np.array([int(w * scale) for w in law], dtype=np.int64 if few else object)
