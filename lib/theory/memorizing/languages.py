"""Theorem 4.1 end to end: a state space language model from the rules of an n-gram language.

Nandakumar, Qu, Mi and Liu, Def. 3.5-4.2, Thm. 4.1 and 4.3, Prop. 4.4: embed words, memorise for every context of n - 1
words the logarithms of a smoothed distribution, and apply a softmax. One neuron for each context.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy.sparse import csr_array

from lib.checks import generator, plain_array, real_array, real_number, whole_number
from lib.theory.memorizing.checks import float_type
from lib.theory.memorizing.construction import MemorizingSSM, Method, memorizing_ssm

_TRIED = 256  # rules that a model is tried on, where there are more

Array = NDArray[Any]
Ids = NDArray[np.int64]


class Rules(Protocol):
    """Contexts (N, n - 1) of word ids, next-word distributions (N, K + 1); the last entry is the end of a sentence."""

    @property
    def contexts(self) -> Ids: ...

    def laws(self) -> Array: ...

    def sparse_laws(self) -> csr_array: ...


class Language(Protocol):
    """What is asked of an n-gram language; `lib.processes.NgramLanguage` is one."""

    @property
    def n(self) -> int: ...

    @property
    def words(self) -> tuple[str, ...]: ...

    @property
    def rules(self) -> Rules: ...

    def sentences(self) -> tuple[tuple[str, ...], ...]: ...


@dataclass(frozen=True, eq=False)
class NgramSSM:
    """A language model softmax(C relu(h_t + b)) over K words and the end of the sentence.

    words (K,); n; embedding (K, m), a row for each word; ssm with a neuron for each context; epsilon as asked for.
    """

    words: tuple[str, ...]
    n: int
    embedding: Array
    ssm: MemorizingSSM
    epsilon: float

    def laws(self, hidden: Array) -> Array:
        """softmax(C relu(h + b)) of states (sequences, h): distributions of the next word (sequences, K + 1)."""
        logits = self.ssm.outputs(hidden)
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))

    def next_word_law(self, ids: ArrayLike) -> Array:
        """Distribution of the next word (sequences, K + 1) after words given by their ids (sequences, t)."""
        return self.laws(self.ssm.hidden(self.embedding[self._known(ids, "ids")]))

    def next_word_distribution(self, context: tuple[str, ...] | str) -> dict[str, float]:
        """{word: probability} after a context of n - 1 words or more, every word with its positive probability."""
        given = context.split() if isinstance(context, str) else context
        spelled = tuple(given) if isinstance(given, Iterable) else ()
        known = isinstance(given, Iterable) and all(isinstance(word, str) and word in self.words for word in spelled)
        if len(spelled) < self.n - 1 or not known:
            raise ValueError(f"context: at least {self.n - 1} words of the vocabulary are allowed, got {context!r}")
        law = self.next_word_law([[self.words.index(word) for word in spelled]])[0]
        return dict(zip((*self.words, "<end>"), law.tolist(), strict=True))

    def sample(self, starts: ArrayLike, seed: int | np.random.Generator, longest: int = 100) -> list[tuple[str, ...]]:
        """Sentences that the model writes, word by word, after the given first words, ids (sequences, t >= n - 1).

        A sentence ends with its end mark or, failing that, after `longest` words. Cost O(longest sequences h d).
        """
        random, rows = generator(seed), self._known(starts, "starts")
        most = whole_number(longest, "longest", 1)
        if rows.shape[1] < self.n - 1:
            raise ValueError(f"starts: ids (sequences, t >= {self.n - 1}) are allowed, got shape {rows.shape}")
        hidden, written, open_rows = self.ssm.hidden(self.embedding[rows]), rows, np.ones(len(rows), dtype=bool)
        end = len(self.words)
        while open_rows.any() and written.shape[1] < most:
            running = np.cumsum(self.laws(hidden), axis=1)
            drawn = (running < random.random((len(rows), 1)) * running[:, -1:]).sum(axis=1)
            following = np.where(open_rows, drawn, end)
            written = np.column_stack([written, following])
            open_rows &= following != end
            hidden = self.ssm.step(hidden, self.embedding[np.minimum(following, end - 1)])
        names = (*self.words, "<end>")
        return [tuple(names[i] for i in row if i != end) for row in written.tolist()]

    def _known(self, ids: ArrayLike, name: str) -> Ids:
        array, size = plain_array(ids, name), len(self.words)
        if array.ndim != 2 or array.dtype.kind not in "iu" or np.any(array < 0) or np.any(array >= size):
            raise ValueError(f"{name}: word ids 0 .. {size - 1} of shape (sequences, t) are allowed, got {ids!r}")
        return array.astype(np.int64)

    def astype(self, dtype: DTypeLike) -> NgramSSM:
        """The model with all numbers rounded to another floating type; ValueError as for `MemorizingSSM.astype`."""
        return replace(self, embedding=self.embedding.astype(float_type(dtype)), ssm=self.ssm.astype(dtype))


def ngram_ssm(
    language: Language,
    embedding_dimension: int,
    epsilon: float,
    *,
    method: Method = "auto",
    embedding: ArrayLike | None = None,
    sparse: bool = False,
    dtype: DTypeLike = np.float64,
    seed: int | np.random.Generator = 0,
) -> NgramSSM:
    """An SSM with one neuron for each rule of the language, within epsilon of its n-gram model (Thm. 4.1).

        || softmax(y_t) - P(next | w_{t-n+2} .. w_t) ||_1 < epsilon     for every valid start w_1 .. w_t, t >= n - 1.

    language: with n, words and rules, as `NgramLanguage` has them. embedding (K, m): one row per word, all different,
    by default whole numbers (e = 1), a circle (e = 2), or random points of a sphere. sparse: C keeps only what can
    follow, for thousands of rules; needs one-hot features. method, dtype, seed: as in `memorizing_ssm`.
    The smoothed distribution takes epsilon / 2 of the distance and leaves the rest to rounding. The bound is tried on
    all rules up to 256, else on 256 of them, after other words. For method "paper" it is not tried and can fail: see
    `memorizing_ssm`. Raises ValueError for a bound that rounding breaks, epsilon outside (0, 2), a language with start
    marks, n = 1 or fewer than n - 1 rules, an embedding of the wrong shape or with equal rows, and whatever
    `memorizing_ssm` refuses.
    """
    if not all(hasattr(language, name) for name in ("n", "words", "rules")):
        raise ValueError(f"language: one with n, words and rules is allowed, got {language!r}")
    width, size = whole_number(embedding_dimension, "embedding_dimension", 1), len(language.words)
    allowed, random = _distance(epsilon), generator(seed)
    table = word_embedding(size, width, random) if embedding is None else real_array(embedding, "embedding")
    if table.shape != (size, width):
        raise ValueError(f"embedding: shape (words, dimension) = ({size}, {width}) is allowed, got {table.shape}")
    if len(np.unique(table, axis=0)) < size:
        raise ValueError("embedding: a different vector for every word is allowed, two are equal")
    rules = language.rules
    if language.n < 2 or len(rules.contexts) < language.n - 1:
        found = f"n = {language.n} and {len(rules.contexts)} of them"
        raise ValueError(f"language: n >= 2 and n - 1 rules or more are allowed, got {found}")
    if np.max(rules.contexts, initial=-1) >= size:
        raise ValueError("language: one without start marks is allowed (padding=False), `<start>` has no vector")
    logits = sparse_logits(rules.sparse_laws(), allowed) if sparse else smoothed_logits(rules.laws(), allowed)
    ssm = memorizing_ssm(table[rules.contexts], logits, language.n - 1, method, dtype=dtype, seed=random)
    model = NgramSSM(tuple(language.words), language.n, table.astype(dtype), ssm, allowed)
    if method != "paper":
        _refuse_rounding(model, rules)
    return model


def _refuse_rounding(model: NgramSSM, rules: Rules) -> None:
    """ValueError if the model is epsilon away from the rules, or further, where other words precede the context."""
    random, count = np.random.default_rng(0), len(rules.contexts)  # its own: the weights do not depend on the trial
    some = np.arange(count) if count <= _TRIED else np.sort(random.choice(count, _TRIED, replace=False))
    older = rules.contexts[random.permutation(some)]
    found = model.next_word_law(np.concatenate([older, rules.contexts[some]], axis=1)).astype(np.float64)
    farthest = float(np.abs(found - rules.sparse_laws()[some].toarray()).sum(axis=1).max())
    if not farthest < model.epsilon:
        raise ValueError(
            f"dtype: {model.ssm.dtype} rounds too coarsely for these word vectors, epsilon = {model.epsilon} and "
            f"method {model.ssm.method!r}: a law is off by {farthest:.2g}; take float64, another seed or another method"
        )


def smoothed_law(laws: ArrayLike, epsilon: float) -> Array:
    """Positive distributions at distance epsilon / 2 from `laws` (N, K + 1) in the 1-norm (Def. 4.2).

    A distribution with Z zeros gets epsilon / (4 Z) in each of them; the rest is scaled by 1 - epsilon / 4. One
    without zeros stays as it is. Raises ValueError for rows that are no distributions, or epsilon outside (0, 2).
    """
    given, allowed = real_array(laws, "laws"), _distance(epsilon)
    if given.ndim != 2 or not np.all(given >= 0) or not np.allclose(given.sum(axis=1), 1, rtol=0, atol=1e-9):
        raise ValueError(
            f"laws: rows of probabilities >= 0 that sum to 1 are allowed, got {given.shape}, sums {given.sum(axis=-1)}"
        )
    zeros = (given == 0).sum(axis=1, keepdims=True)
    share = allowed / (4 * np.maximum(zeros, 1))
    return np.asarray(np.where(given == 0, share, given * (1 - np.where(zeros > 0, allowed / 4, 0))))


def smoothed_logits(laws: ArrayLike, epsilon: float) -> Array:
    """Logarithms of `smoothed_law`, shifted so that the likeliest words have 0: the softmax does not see the shift."""
    logits = np.log(smoothed_law(laws, epsilon))
    return np.asarray(logits - logits.max(axis=1, keepdims=True))


def sparse_logits(laws: csr_array, epsilon: float) -> csr_array:
    """The same logits, shifted so that the words that cannot follow have 0: stored are only those that can.

    laws sparse (N, K + 1), each row with a zero. Raises ValueError for a row without, or epsilon outside (0, 2).
    """
    table, allowed = csr_array(laws), _distance(epsilon)
    table.eliminate_zeros()
    followers = np.diff(table.indptr)
    if followers.max() == table.shape[1]:
        raise ValueError("laws: rows with a word that cannot follow are allowed; a full row has nothing to leave out")
    share = allowed / (4 * (table.shape[1] - followers))
    logits = np.log(table.data * (1 - allowed / 4)) - np.repeat(np.log(share), followers)
    return csr_array((logits, table.indices, table.indptr), shape=table.shape)


def _distance(epsilon: float) -> float:
    number = real_number(epsilon, "epsilon")
    if not 0 < number < 2:
        raise ValueError(f"epsilon: 0 < epsilon < 2 is allowed (distributions are never further apart), got {epsilon}")
    return number


def word_embedding(words: int, width: int, generator: np.random.Generator) -> Array:
    """Vectors (words, width), all different: whole numbers, points of a circle, or random points of a sphere."""
    if width == 1:
        return np.arange(words, dtype=np.float64)[:, None] - words // 2
    if width == 2:
        angles = 2 * np.pi * np.arange(words) / words
        return np.column_stack([np.cos(angles), np.sin(angles)])
    vectors = generator.standard_normal((words, width))
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


@dataclass(frozen=True)
class Starts:
    """All valid starts of t words: ids (count, t), row of the start of t - 1 words, row of the rule (-1: too short)."""

    ids: Ids
    parents: Ids
    rules: Ids


def valid_starts(language: Language) -> list[Starts]:
    """Every valid start of every sentence, once, for t = 1, 2, ... (Def. 3.2). Cost O(words of all sentences).

    Raises ValueError for n = 1, and where a context has no rule, as at the end of sentences without an end.
    """
    if language.n < 2:
        raise ValueError(f"language: one of n >= 2 is allowed, got n = {language.n}")
    number = {word: i for i, word in enumerate(language.words)}
    rule = {tuple(context): row for row, context in enumerate(language.rules.contexts.tolist())}
    known = language.n - 1
    levels: list[Starts] = []
    sentences = {tuple(number[word] for word in sentence) for sentence in language.sentences()}
    before: dict[tuple[int, ...], int] = {(): 0}
    for t in range(1, max(map(len, sentences)) + 1):
        starts = sorted({sentence[:t] for sentence in sentences if len(sentence) >= t})
        contexts = [start[-known:] for start in starts] if t >= known else []
        if without := [context for context in contexts if context not in rule]:
            words = " ".join(language.words[i] for i in without[0])
            raise ValueError(f"language: one with a rule after all its words is allowed, got none after {words!r}")
        rows = [rule[context] for context in contexts] or [-1] * len(starts)
        levels.append(Starts(np.array(starts), np.array([before[start[:-1]] for start in starts]), np.array(rows)))
        before = {start: row for row, start in enumerate(starts)}
    return levels


def distances(model: NgramSSM, laws: ArrayLike, levels: list[Starts]) -> Iterator[Array]:
    """1-norm distances between model and n-gram distribution on all valid starts of t words, for each t >= n - 1.

    Each start runs through the recurrence from its first word; starts share the states of what they have in common.
    """
    exact = np.asarray(laws)
    hidden = np.zeros((1, model.ssm.hidden_size), dtype=model.ssm.dtype)
    for level in levels:
        hidden = model.ssm.step(hidden[level.parents], model.embedding[level.ids[:, -1]])
        if level.rules[0] >= 0:
            yield np.abs(model.laws(hidden).astype(np.float64) - exact[level.rules]).sum(axis=1)
