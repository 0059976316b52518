"""Checks of what a state adds to n-grams, each with a case in which it must fail."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.special import softmax

from experiments.more_than_ngrams.two_layers import TwoLayers, TwoLayerSSM, memorise, memorise_sequences
from lib.processes import NgramLanguage
from lib.report import claims
from lib.theory.memorizing.exact import exact_memorizer
from lib.theory.windows.rational_matrices import nilpotency_index


def least_error(decay: float, n: int) -> float:
    """l1 error of the best n-gram model at "a c .. c" and "b c .. c", by an SSM whose state decays so."""
    states = np.eye(2) * decay ** (n - 1)
    first, second = softmax(10 * states @ np.array([[1, 0, 1], [0, 1, 1]]), axis=1)
    return float(np.abs(first - second).sum() / 2)


def test_a_state_that_fades_comes_near_to_an_n_gram_model_and_one_that_stays_does_not() -> None:
    claims.check("ngram-expressive", min(least_error(1.0, n) for n in range(2, 40)), at_least=0.49)
    for decay in (0.0, 0.5):
        with pytest.raises(claims.ClaimFailed):
            claims.check("ngram-expressive", min(least_error(decay, n) for n in range(2, 40)), at_least=0.49)


def test_the_best_n_gram_model_is_half_way() -> None:
    """No distribution is nearer to both than half their distance: 2000 random ones and their mean."""
    first, second = softmax(10 * np.array([[1, 0, 1], [0, 1, 1.0]]), axis=1)
    tried = np.vstack([np.random.default_rng(0).dirichlet(np.ones(3), 2000), (first + second) / 2])
    worse = np.maximum(np.abs(tried - first).sum(axis=1), np.abs(tried - second).sum(axis=1))
    assert worse.min() == pytest.approx(least_error(1.0, 2), abs=1e-12) and worse.argmin() == 2000


def test_rules_grow_in_a_line_where_gaps_are_apart_and_not_where_they_meet() -> None:
    def degree(template: str) -> int:
        counts = []
        for words in range(1, 7):
            gaps = {gap: [f"{gap}{i}" for i in range(words)] for gap in "AB"}
            counts.append(len(NgramLanguage.from_templates([template], gaps, padding=True).rules))
        return next(order for order in range(6) if not np.diff(counts, order + 1).any())

    claims.check("ngram-size", degree("{A} and then we {B}"), 1, 0)
    with pytest.raises(claims.ClaimFailed):
        claims.check("ngram-size", degree("{A} and {B}"), 1, 0)


def test_contexts_of_one_word_take_fewer_rules_where_words_recur_and_not_where_none_does() -> None:
    def more(sentence: str) -> int:
        two, three = (len(NgramLanguage.from_templates([sentence], {}, n, padding=True).rules) for n in (2, 3))
        return three - two

    claims.check("ngram-size", more("a b a c a d"), at_least=1)
    with pytest.raises(claims.ClaimFailed):
        claims.check("ngram-size", more("a b c d e f"), at_least=1)


def test_memorised_sentences_may_share_their_starts_or_not() -> None:
    """Neurons a sentence fall where sentences share starts; where they share none the printed form is not refuted."""
    false = {"at_least": 1, "outcome": "false", "erratum": 44, "note": "no faster than in proportion"}

    def each(sentences: list[str]) -> float:
        return len({text[:t] for text in sentences for t in range(1, len(text) + 1)}) / len(sentences)

    shared = ["ab" + letter for letter in "cdefgh"]
    claims.check("ngram-size", each(shared) / each(shared[:1]), **false)
    with pytest.raises(claims.ClaimFailed):
        apart = [letter * 3 for letter in "cdefgh"]
        claims.check("ngram-size", each(apart) / each(apart[:1]), **false)


def passes(A: np.ndarray, driven: np.ndarray) -> int:
    """Passes in which the states of h_t = relu(A h_{t-1} + u_t), u (T, q), are found by linear steps."""
    on = np.ones(driven.shape, dtype=bool)
    for count in range(1, len(driven) + 2):
        states = [np.zeros(len(A))]
        for u, active in zip(driven, on, strict=True):
            states.append(active * (A @ states[-1] + u))
        guess = np.array(states[:-1]) @ A.T + driven > 0
        if (guess == on).all():
            return count
        on = guess
    raise AssertionError("the theorem promises T + 1 passes")


def test_a_network_that_forgets_takes_few_passes_and_the_tent_map_as_many_as_steps() -> None:
    false = {"at_least": 1, "outcome": "false", "erratum": 45, "note": "it holds of a single pass"}
    driven = np.random.default_rng(0).standard_normal((200, 1))
    claims.check("ngram-parallel", 8 * passes(np.array([[0.5]]), driven) / 200, **false)  # 2^8 > 200
    tent, inputs = np.array([[2.0, -4.0], [2.0, -4.0]]), np.tile([0.0, -1.0], (40, 1))
    inputs[0] += 2 * (math.sqrt(2) - 1)
    with pytest.raises(claims.ClaimFailed):
        claims.check("ngram-parallel", 6 * passes(tent, inputs) / 40, **false)


def test_doublings_give_the_states_of_a_linear_recurrence_and_not_those_with_a_relu() -> None:
    u = np.random.default_rng(1).integers(-3, 4, 50).astype(float)

    def wrong(after: Callable[[float], float]) -> int:
        """States of h_t = after(h_{t-1} / 2 + u_t) that merging steps two by two does not give; exact in binary."""
        states, weights, reach = u.copy(), np.full(50, 0.5), 1
        while reach < 50:
            states[reach:] = states[reach:] + weights[reach:] * states[:-reach]
            weights[reach:] = weights[reach:] * weights[:-reach]
            reach *= 2
        h, found = 0.0, []
        for given in u:
            found.append(h := after(h / 2 + given))
        return int((states != found).sum())

    claims.check("ngram-parallel", wrong(lambda h: h), at_most=0)
    with pytest.raises(claims.ClaimFailed):
        claims.check("ngram-parallel", wrong(lambda h: max(h, 0.0)), at_most=0)


def test_two_layers_memorise_and_those_with_other_weights_do_not() -> None:
    z, y = np.arange(64) / 64, np.random.default_rng(0).standard_normal(64)
    model = memorise(z, y)
    claims.check("ngram-layers", np.abs(model(z) - y).max(), at_most=1e-6)
    claims.check("ngram-layers", model.neurons - 4 * math.isqrt(63) - 4, at_most=0)
    with pytest.raises(claims.ClaimFailed):
        claims.check("ngram-layers", np.abs(TwoLayers(model.b, 1.01 * model.W)(z) - y).max(), at_most=1e-6)


def test_one_layer_has_too_many_neurons_and_a_longer_register_too_long_a_window() -> None:
    def model_of(words: int) -> TwoLayerSSM:
        return memorise_sequences(numbers[:, :words, None], y[:, 0], 7 ** np.arange(words)[::-1, None])

    codes = np.random.default_rng(2).permutation(7**3)[:36]
    numbers = np.stack([codes // 49 % 7, codes // 7 % 7, codes % 7, 0 * codes], axis=1)
    y = np.arange(36)[:, None]
    claims.check("ngram-layers", model_of(3).neurons - 4 * 6 - 2, at_most=0)
    claims.check("ngram-layers", nilpotency_index(model_of(3).A), at_most=3)
    with pytest.raises(claims.ClaimFailed):
        claims.check("ngram-layers", nilpotency_index(model_of(4).A), at_most=3)
    one_layer = exact_memorizer(numbers[:, :3, None], y, 3)
    with pytest.raises(claims.ClaimFailed):
        claims.check("ngram-layers", len(one_layer.A) - 4 * 6 - 2, at_most=0)
