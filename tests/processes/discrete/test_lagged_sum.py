"""Data that can tell three words of context from two: a source of exact order, and machines with windows of 2 and 3."""

from __future__ import annotations

from math import log

import numpy as np
import pytest

from lib.processes.discrete.lagged_sum import LaggedSum
from lib.processes.ngram.language import NgramLanguage
from lib.report import claims
from lib.theory.windows import rational_matrices as rational
from lib.theory.windows.context_window import ssm_outputs


@pytest.mark.parametrize(("order", "symbols", "noise"), [(3, 2, 0.1), (2, 3, 0.0), (4, 2, 0.3), (2, 2, 1.0)])
def test_the_source_needs_exactly_its_order(order: int, symbols: int, noise: float) -> None:
    source, length = LaggedSum(order, symbols, noise), order + 3
    joint = source.joint_distribution(length)
    assert joint.sum() == pytest.approx(1, abs=1e-14)
    np.testing.assert_allclose(joint.sum(axis=0), joint.sum(axis=-1), atol=1e-14)  # stationary
    np.testing.assert_allclose(joint.sum(axis=tuple(range(order, length))), symbols**-order, atol=1e-14)
    for known in range(length):
        pairs = joint.sum(axis=tuple(range(length - 1 - known))).reshape(-1, symbols)
        contexts = np.broadcast_to(pairs.sum(axis=1, keepdims=True), pairs.shape)
        seen = pairs > 0
        entropy = -np.sum(pairs[seen] * np.log(pairs[seen] / contexts[seen]))
        assert source.conditional_entropy(known) == pytest.approx(entropy, abs=1e-12)
    assert source.conditional_entropy(order - 1) == log(symbols)


def test_the_third_order_claim_fails_for_another_order_and_samples_follow_the_law() -> None:
    closed = {order: [LaggedSum(order, 2, 0.1).conditional_entropy(k) for k in range(6)] for order in (2, 3, 4)}
    joint = LaggedSum(3, 2, 0.1).joint_distribution(6)
    measured = []
    for known in range(6):
        pairs = joint.sum(axis=tuple(range(5 - known))).reshape(-1, 2)
        measured.append(-np.sum(pairs * np.log(pairs / pairs.sum(axis=1, keepdims=True))))
    claims.check("ngram-window", measured, closed[3], 1e-12)
    for wrong in (2, 4):
        with pytest.raises(claims.ClaimFailed):
            claims.check("ngram-window", measured, closed[wrong], 1e-12)
    sample = LaggedSum(3, 2, 0.0).sample(50, 40, 7)
    assert np.array_equal(sample[:, 3:], sample[:, 2:-1] ^ sample[:, :-3])
    noisy = LaggedSum(3, 2, 0.1).sample(2000, 50, 8)
    share = np.mean(noisy[:, 3:] == noisy[:, 2:-1] ^ noisy[:, :-3])
    assert abs(share - 0.95) < 5 * np.sqrt(0.95 * 0.05 / (2000 * 47))
    assert np.array_equal(noisy, LaggedSum(3, 2, 0.1).sample(2000, 50, np.random.default_rng(8)))


def parity_machine(gain: float, cut: bool = False) -> tuple[np.ndarray, ...]:
    A = np.zeros((5, 5))
    A[0, 3], A[1, 3] = 1, -1
    A[3, 2] = 0 if cut else 1
    C = gain * np.array([[1.0, 1, 0, 0, 0], [0, 0, 0, 0, 1]])
    return A, np.array([[1.0, -1, 1, 0, 0]]).T, np.array([0.0, 0, 0, 0, 1]), C


def mean_loss(network: tuple[np.ndarray, ...], source: LaggedSum) -> float:
    symbols = np.moveaxis(np.indices((2,) * 7), 0, -1).reshape(-1, 7)
    logits = ssm_outputs(*network, 2.0 * symbols[:, :6, None] - 1)[:, -1]
    chosen = logits[np.arange(128), symbols[:, 6]]
    return float(np.sum(source.joint_distribution(7).ravel() * (np.logaddexp(*logits.T) - chosen)))


def test_a_window_of_three_reaches_the_entropy_that_two_words_cannot() -> None:
    source = LaggedSum(3, 2, 0.1)
    gain = np.log(source.probability_of_sum / (1 - source.probability_of_sum))
    whole, short = parity_machine(gain), parity_machine(gain, cut=True)
    claims.check("ngram-window", [rational.nilpotency_index(m[0]) for m in (whole, short)], [3, 2], 0)
    claims.check("ngram-window", mean_loss(whole, source), source.conditional_entropy(3), 1e-12)
    for wrong in (short, parity_machine(0.9 * gain)):
        with pytest.raises(claims.ClaimFailed):
            claims.check("ngram-window", mean_loss(wrong, source), source.conditional_entropy(3), 1e-12)
    heads = [np.zeros((2, 5)), *np.random.default_rng(9).standard_normal((100, 2, 5))]
    floor = source.conditional_entropy(2) - 1e-12
    claims.check("ngram-window", min(mean_loss((*short[:3], head), source) for head in heads), at_least=floor)
    with pytest.raises(claims.ClaimFailed):
        claims.check("ngram-window", mean_loss(whole, source), at_least=floor)
    with pytest.raises(claims.ClaimFailed):
        claims.check("ngram-window", [rational.nilpotency_index(m[0]) for m in (short, whole)], [3, 2], 0)


def test_two_words_determine_the_language_of_the_paper_and_one_does_not() -> None:
    language = NgramLanguage.from_paper()

    def undecided(known: int) -> int:
        shorter = NgramLanguage.from_paper(n=known + 1)
        laws = ((language.next_word_distribution(t, exact=True), t) for t in language.trigrams())
        return sum(law != shorter.next_word_distribution(t[-known:], exact=True) for law, t in laws)

    claims.check("ngram-window", undecided(2), at_most=0)
    with pytest.raises(claims.ClaimFailed):
        claims.check("ngram-window", undecided(1), at_most=0)


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: LaggedSum(1), "order"),
        (lambda: LaggedSum(3, 1), "symbols"),
        (lambda: LaggedSum(noise=1.5), "noise"),
        (lambda: LaggedSum().next_symbol_distribution([0, 2, 1]), "context"),
        (lambda: LaggedSum().next_symbol_distribution([0.5]), "context"),
        (lambda: LaggedSum().joint_distribution(30), "too many"),
        (lambda: LaggedSum().conditional_entropy(-1), "known"),
    ],
)
def test_bad_input_is_refused_with_what_is_allowed(call: object, word: str) -> None:
    with pytest.raises(ValueError, match=word) as refusal:
        call()  # type: ignore[operator]
    assert "allowed" in str(refusal.value)
