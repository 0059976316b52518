"""Theorem 4.1: language models from the rules of an n-gram language."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lib.processes import NgramLanguage
from lib.theory import memorizing_ssm, ngram_ssm
from lib.theory.memorizing.languages import distances, smoothed_law, smoothed_logits, sparse_logits, valid_starts

LANGUAGE = NgramLanguage.from_paper()
LAWS = LANGUAGE.rules.laws()
STARTS = valid_starts(LANGUAGE)


def largest_distance(model) -> float:
    return max(float(d.max()) for d in distances(model, LAWS, STARTS))


@pytest.mark.parametrize("width", [1, 2, 16])
@pytest.mark.parametrize("epsilon", [1e-3, 1e-6])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_every_valid_start_is_within_epsilon(width: int, epsilon: float, dtype: type) -> None:
    model = ngram_ssm(LANGUAGE, width, epsilon, dtype=dtype)
    assert model.ssm.hidden_size == len(LANGUAGE.trigrams()) == 145
    assert model.ssm.C.dtype == dtype and model.embedding.shape == (79, width)
    assert epsilon / 2 * 0.99 < largest_distance(model) < epsilon


@pytest.mark.parametrize("epsilon", [1e-1, 1e-3, 1e-6])
def test_rounding_that_breaks_the_bound_is_refused(epsilon: float) -> None:
    """Two of these word vectors are 0.003 apart, and float32 lets the words before the last three through."""
    with pytest.raises(ValueError, match=r"dtype: float32 rounds too coarsely.*'winner_take_all'.*take float64"):
        ngram_ssm(LANGUAGE, 3, epsilon, dtype=np.float32)
    assert largest_distance(ngram_ssm(LANGUAGE, 3, epsilon)) < epsilon
    assert largest_distance(ngram_ssm(LANGUAGE, 3, epsilon, dtype=np.float32, method="gap")) < epsilon
    assert largest_distance(ngram_ssm(LANGUAGE, 16, epsilon, dtype=np.float32, method="paper")) > epsilon  # not tried


def test_the_trial_takes_no_random_numbers_from_the_seed() -> None:
    spent, fresh = np.random.default_rng(5), np.random.default_rng(5)
    word_vectors = ngram_ssm(LANGUAGE, 16, 0.1, seed=spent).embedding
    fresh.standard_normal((79, 16))
    model = memorizing_ssm(word_vectors[LANGUAGE.rules.contexts], smoothed_logits(LAWS, 0.1), 3, seed=fresh)
    assert model.order == 3 and spent.random() == fresh.random()


@pytest.mark.parametrize("method", ["gap", "sorted"])
def test_any_word_vectors_will_do(method: str) -> None:
    for width in (1, 3):
        vectors = np.random.default_rng(width).standard_normal((79, width))
        assert largest_distance(ngram_ssm(LANGUAGE, width, 1e-3, method=method, embedding=vectors)) < 1e-3


def test_shared_states_are_those_of_whole_sentences() -> None:
    model = ngram_ssm(LANGUAGE, 2, 1e-3)
    found = dict(enumerate(distances(model, LAWS, STARTS), start=3))
    sentences = LANGUAGE.sentences()[::997]
    for sentence in sentences:
        ids = LANGUAGE.encode(sentence)
        for t, hidden in enumerate(model.ssm.states(model.embedding[ids][None]), start=1):
            if t >= 3:
                row = LANGUAGE.rules.index[tuple(ids[t - 3 : t].tolist())]
                distance = np.abs(model.laws(hidden)[0] - LAWS[row]).sum()
                where = np.flatnonzero((STARTS[t - 1].ids == ids[:t]).all(axis=1))
                assert distance == pytest.approx(found[t][where[0]], abs=1e-12)


def test_valid_starts_are_all_starts_once() -> None:
    expected = [{sentence[:t] for sentence in LANGUAGE.sentences() if len(sentence) >= t} for t in range(1, 21)]
    for level, starts in zip(STARTS, expected, strict=True):
        assert len(level.ids) == len(starts)
        assert {LANGUAGE.decode(row) for row in level.ids} == starts


@pytest.mark.parametrize(
    ("n", "end", "got"), [(1, True, "n >= 2 is allowed, got n = 1"), (3, False, "a rule after all its words.*'b c'")]
)
def test_starts_that_no_rule_goes_on_from_are_refused(n: int, end: bool, got: str) -> None:
    language = NgramLanguage.from_templates(["{X} b c"], {"X": ["a", "d"]}, n, end=end, padding=False)
    with pytest.raises(ValueError, match=got):
        valid_starts(language)
    sound = NgramLanguage.from_templates(["{X} b c"], {"X": ["a", "d"]}, 3)
    assert [len(level.ids) for level in valid_starts(sound)][-1] == 2


def test_the_law_after_a_start_is_that_of_its_last_three_words() -> None:
    model = ngram_ssm(LANGUAGE, 2, 1e-6)
    for text in ("Ron woke at seven o'clock and was too", "He got up and put on his jeans because he didn't want to"):
        words = tuple(text.replace("'", "’").split())
        expected = LANGUAGE.next_word_distribution(words)
        found = model.next_word_distribution(words)
        assert len(found) == 80 and sum(found.values()) == pytest.approx(1)
        assert sum(abs(found[word] - expected.get(word, 0)) for word in found) < 1e-6
    ended = model.next_word_distribution(("go", "back", "to", "bed"))
    assert ended["<end>"] > 1 - 1e-6


@pytest.mark.parametrize("width", [1, 16])
def test_written_sentences_are_valid_and_as_frequent_as_they_should_be(width: int) -> None:
    model = ngram_ssm(LANGUAGE, width, 1e-6)
    start = LANGUAGE.encode("Ron woke at")
    texts = model.sample(np.tile(start, (3000, 1)), seed=1)
    assert all(text in LANGUAGE for text in texts)
    counts = np.unique([text[3] for text in texts], return_counts=True)[1]
    assert len(counts) == 12 and np.abs(counts - 250).max() < 5 * np.sqrt(250)
    assert texts == model.sample(np.tile(start, (3000, 1)), seed=1)


def test_a_model_of_other_rules_writes_other_sentences() -> None:
    """The share of valid sentences can be below 1: a coarse epsilon strays."""
    model = ngram_ssm(LANGUAGE, 2, 0.5)
    texts = model.sample(np.tile(LANGUAGE.encode("Ron woke at"), (200, 1)), seed=0)
    assert 0 < np.mean([text in LANGUAGE for text in texts]) < 0.9
    assert max(map(len, texts)) <= 100


@pytest.mark.parametrize("epsilon", [1e-6, 1e-3, 1.9])
def test_smoothing_takes_half_of_epsilon(epsilon: float) -> None:
    laws = np.array([[0.5, 0.5, 0, 0], [1, 0, 0, 0], [0.1, 0.2, 0.3, 0.4]])
    smooth = smoothed_law(laws, epsilon)
    assert np.all(smooth > 0) and np.allclose(smooth.sum(axis=1), 1, rtol=0, atol=1e-15)
    assert np.allclose(np.abs(smooth - laws).sum(axis=1), [epsilon / 2, epsilon / 2, 0], rtol=1e-9, atol=1e-16)
    logits = smoothed_logits(laws, epsilon)
    softmax = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    assert np.allclose(softmax, smooth, rtol=1e-13, atol=0) and np.array_equal(logits.max(axis=1), np.zeros(3))


def test_sparse_logits_are_the_same_law() -> None:
    sparse = sparse_logits(LANGUAGE.rules.sparse_laws(), 1e-3).toarray()
    dense = smoothed_logits(LAWS, 1e-3)
    assert np.allclose(sparse - sparse.max(axis=1, keepdims=True), dense, rtol=0, atol=1e-12)
    assert np.array_equal(sparse != 0, LAWS > 0)
    with pytest.raises(ValueError, match="full row"):
        sparse_logits(smoothed_law(LAWS, 0.1), 0.1)


def test_rules_of_a_text_are_memorised_with_sparse_weights() -> None:
    random = np.random.default_rng(0)
    text = [f"w{k}" for k in random.integers(0, 40, 3000)]
    language = NgramLanguage.from_corpus(text, n=4, end=False)
    model = ngram_ssm(language, 8, 1e-3, method="winner_take_all", sparse=True)
    laws = language.rules.laws()
    assert len(laws) > 2500
    rows = random.choice(len(laws), 500, replace=False)
    assert np.abs(model.next_word_law(language.rules.contexts[rows]) - laws[rows]).sum(axis=1).max() < 1e-3
    assert model.ssm.nbytes < 0.1 * 8 * len(laws) ** 2


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"epsilon": 0.0}, "epsilon: 0 < epsilon < 2"),
        ({"epsilon": 2.0}, "epsilon: 0 < epsilon < 2"),
        ({"epsilon": float("nan")}, "epsilon"),
        ({"embedding_dimension": 0}, "embedding_dimension"),
        ({"embedding": np.zeros((79, 3))}, r"embedding: shape \(words, dimension\) = \(79, 2\)"),
        ({"embedding": np.zeros((79, 2))}, "two are equal"),
        ({"embedding_dimension": 1, "method": "winner_take_all"}, "convex hull"),
        ({"language": NgramLanguage.from_paper(4, padding=True)}, "language: one without start marks"),
        ({"epsilon": "a"}, "epsilon"),
        ({"language": "L"}, "language: one with n, words and rules is allowed, got 'L'"),
        ({"language": None}, "language: one with n, words and rules is allowed, got None"),
    ],
)
def test_bad_requests_are_refused(change: dict, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        ngram_ssm(**({"language": LANGUAGE, "embedding_dimension": 2, "epsilon": 1e-3} | change))


def test_rows_that_are_no_laws_are_refused() -> None:
    for laws in ([[0.5, 0.6]], [[1.5, -0.5]], [0.5, 0.5], [[np.nan, 1.0]]):
        with pytest.raises(ValueError, match="laws: rows of probabilities"):
            smoothed_law(laws, 0.1)
    model = ngram_ssm(LANGUAGE, 2, 1e-3)
    for epsilon in ("a", None, 0, 2, np.nan):
        with pytest.raises(ValueError, match="epsilon"):
            smoothed_law([[0.5, 0.5]], epsilon)
        with pytest.raises(ValueError, match="epsilon"):
            sparse_logits(LANGUAGE.rules.sparse_laws(), epsilon)
    with pytest.raises(ValueError, match="laws"):
        smoothed_law([["a", "b"]], 0.1)
    for context in ("woke at", "Ron woke at noon", 5, None, [["Ron"], ["woke"], ["at"]]):
        with pytest.raises(ValueError, match="context"):
            model.next_word_distribution(context)
    with pytest.raises(ValueError, match="starts"):
        model.sample([[0, 1]], seed=0)


def test_rounding_a_finished_model_to_float32_keeps_epsilon() -> None:
    assert largest_distance(ngram_ssm(LANGUAGE, 16, 1e-3).astype(np.float32)) < 1e-3


@pytest.mark.parametrize("longest", ["a", None, 0, -1, 2.5, True])
def test_sentences_have_a_longest_length(longest: Any) -> None:
    with pytest.raises(ValueError, match="longest: a whole number of at least 1"):
        ngram_ssm(LANGUAGE, 2, 0.1).sample([[0, 1, 2]], 0, longest=longest)


@pytest.mark.parametrize("dtype", [int, np.float16, "foo"])
def test_a_model_is_rounded_to_floating_types_alone(dtype: Any) -> None:
    with pytest.raises(ValueError, match="dtype: float32 or a wider"):
        ngram_ssm(LANGUAGE, 2, 0.1).astype(dtype)


def test_ids_of_no_word_are_refused() -> None:
    model = ngram_ssm(LANGUAGE, 2, 0.1)
    for ids in ([[0, 99]], [[-1, 0]], [[0.5, 1]], [0, 1], [[0], [1, 2]]):
        with pytest.raises(ValueError, match="ids: "):
            model.next_word_law(ids)
        with pytest.raises(ValueError, match="starts: "):
            model.sample(ids, 0)


@pytest.mark.parametrize("language", [NgramLanguage([["a", "b", "c", "d"]], n=4), NgramLanguage([["a", "b"]], n=1)])
def test_a_language_without_enough_rules_is_refused(language: NgramLanguage) -> None:
    with pytest.raises(ValueError, match="n >= 2 and n - 1 rules or more"):
        ngram_ssm(language, 2, 1e-3)
