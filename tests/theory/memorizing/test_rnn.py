"""ReLU RNNs that memorise: winners, projections, and the large biases that cannot; exact where it can be."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import qr
from scipy.special import softmax

from lib.processes.ngram.language import NgramLanguage
from lib.report import claims
from lib.theory.memorizing.rnn import MemorizingRNN, large_bias_states, memorizing_rnn, shift_register
from lib.theory.windows.block_nilpotent import block_nilpotency_order, is_block_nilpotent, window_of_network
from lib.theory.windows.context_window import dependence, rnn_outputs, rnn_states, separating_readout
from lib.theory.windows.rational_matrices import exact_rank, exact_rank_profile, rank_profile_modulo

LANGUAGE = NgramLanguage.from_paper()
CONTEXTS, LAWS = LANGUAGE.rules.contexts, LANGUAGE.rules.laws()
COUNT, WORDS = len(CONTEXTS), len(LANGUAGE.words)


def on_sphere(width: int, seed: int = 0) -> np.ndarray:
    vectors = np.random.default_rng(seed).standard_normal((WORDS, width))
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def on_circle() -> np.ndarray:
    turn = 2 * np.pi * np.arange(WORDS) / WORDS
    return np.stack([np.cos(turn), np.sin(turn)], axis=1)


def embedding(width: int) -> np.ndarray:
    if width == 1:
        return np.random.default_rng(0).permutation(WORDS)[:, None] * 2.0 / WORDS - 1.0
    return on_circle() if width == 2 else on_sphere(width)


def targets(epsilon: float) -> np.ndarray:
    return np.log((1 - epsilon / 4) * LAWS + epsilon / 4 / LAWS.shape[1])


def whole_numbers(width: int) -> np.ndarray:
    return np.random.default_rng(0).integers(-50, 51, (WORDS, width))[CONTEXTS]


def l1_over_starts(network: MemorizingRNN, vectors: np.ndarray) -> float:
    """Largest l1 distance from the rule over all valid starts of three words or more, states shared along prefixes."""
    level: dict[tuple[str, ...], np.ndarray] = {(): np.zeros(network.hidden_size, network.A.dtype)}
    row = {context: i for i, context in enumerate(LANGUAGE.contexts())}
    starts = {s[:t] for s in LANGUAGE.sentences() for t in range(1, len(s) + 1)}
    worst = 0.0
    for length in range(1, 1 + max(map(len, starts))):
        now = [start for start in starts if len(start) == length]
        hidden = np.stack([level[start[:-1]] for start in now])
        hidden = network.step(hidden, vectors[LANGUAGE.encode([start[-1] for start in now])])
        level = dict(zip(now, hidden, strict=True))
        if length >= 3:
            law = LAWS[[row[start[-3:]] for start in now]]
            worst = max(worst, float(np.abs(softmax(hidden @ network.C.T, axis=1) - law).sum(axis=1).max()))
    return worst


@pytest.mark.parametrize("width", [1, 2, 16])
def test_every_valid_start_gets_the_law_of_its_rule(width: int) -> None:
    vectors, method = embedding(width), "sorted" if width == 1 else "winner_take_all"
    for dtype, epsilon in ((np.float64, 1e-6), (np.float32, 1e-6), (np.float64, 1e-3)):
        network = memorizing_rnn(vectors[CONTEXTS], targets(epsilon), method, dtype)  # type: ignore[arg-type]
        assert network.A.dtype == network.C.dtype == dtype
        claims.check("ngram-rnn", [network.hidden_size, window_of_network(network.A)], [COUNT + 2 * width, 3], 0)
        claims.check("ngram-rnn", l1_over_starts(network, vectors), at_most=epsilon)
    with pytest.raises(claims.ClaimFailed):
        claims.check("ngram-rnn", l1_over_starts(network, np.roll(vectors, 1, axis=0)), at_most=epsilon)  # wrong words
    with pytest.raises(claims.ClaimFailed):  # the distributions of other contexts
        moved = memorizing_rnn(vectors[CONTEXTS], np.roll(targets(1e-6), 1, axis=0), method)  # type: ignore[arg-type]
        claims.check("ngram-rnn", l1_over_starts(moved, vectors), at_most=epsilon)


def test_winners_have_the_identity_as_features_and_reproduce_outputs() -> None:
    z, y = on_circle()[CONTEXTS], targets(1e-6)
    network = memorizing_rnn(z, y)
    features = network.states(z)[:, -1, -COUNT:]
    claims.check("ngram-rnn", features, np.eye(COUNT), 1e-11)
    assert np.all(features[~np.eye(COUNT, dtype=bool)] == 0.0) and np.linalg.cond(features) < 1 + 1e-10
    claims.check("ngram-rnn", network.outputs(z)[:, -1], y, 1e-10)
    with pytest.raises(claims.ClaimFailed):
        claims.check("ngram-rnn", features[:, ::-1], np.eye(COUNT), 1e-11)
    with pytest.raises(claims.ClaimFailed):  # thresholds lower by more than the margin: neighbours win too
        b = network.b + np.concatenate([np.zeros(4), np.full(COUNT, 2.5)])
        claims.check("ngram-rnn", rnn_outputs(network.A, network.B, b, network.C, z)[:, -1], y, 1e-10)
    assert is_block_nilpotent(network.A, 3) and not is_block_nilpotent(network.A, 2)


def test_no_older_word_changes_any_bit_of_the_memorising_network() -> None:
    generator = np.random.default_rng(1)
    network = memorizing_rnn(on_circle()[CONTEXTS], targets(1e-3))
    recent = np.concatenate([generator.integers(0, WORDS, (COUNT, 5)), CONTEXTS], axis=1)
    other = generator.permutation(recent)

    def pattern(transition: np.ndarray) -> np.ndarray:
        def run(x: np.ndarray) -> np.ndarray:
            return rnn_outputs(transition, network.B, network.b, network.C, x)

        return (dependence(run, on_circle()[recent], on_circle()[other], np.arange(8)) > 0).astype(int)

    expected = [1, 1, 1, 0, 0, 0, 0, 0]
    claims.check("ngram-rnn", pattern(network.A), expected, 0)
    for row, column, weight in ((2, 0, 0.0), (0, 0, 0.5)):  # the register cut; the register leaking into itself
        wrong = network.A.copy()
        wrong[row, column] = weight
        wrong[row + 1, column + 1] = weight
        with pytest.raises(claims.ClaimFailed):
            claims.check("ngram-rnn", pattern(wrong), expected, 0)


@given(st.integers(1, 12), st.integers(1, 4), st.integers(1, 3), st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_projections_memorise_any_distinct_sequences(count: int, order: int, width: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    z = np.unique(generator.integers(-9, 10, (count, order, width)).astype(float), axis=0)
    y = generator.standard_normal((len(z), 2))
    network = memorizing_rnn(z, y, "sorted")
    assert network.hidden_size == len(z) + (order - 1) * width
    assert window_of_network(network.A) == order
    np.testing.assert_allclose(network.outputs(z)[:, -1], y, atol=1e-9 / max(network.margin, 1e-6))
    older = 5 * generator.standard_normal((2, len(z), 3, width))
    longer, other = (np.concatenate([words, z], axis=1) for words in older)
    assert np.array_equal(network.outputs(longer)[:, -1], network.outputs(other)[:, -1])
    np.testing.assert_allclose(network.outputs(longer)[:, -1], y, atol=1e-9 / max(network.margin, 1e-6))


@given(st.integers(1, 10), st.integers(1, 3), st.integers(0, 2**32 - 1))
@settings(max_examples=30, deadline=None)
def test_winners_memorise_corners_on_no_sphere(count: int, order: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    flat = generator.standard_normal((count, 2 * order))
    flat /= np.linalg.norm(flat, axis=1, keepdims=True)
    stretch = generator.uniform(0.3, 3.0, (2 * order, 2 * order)) + 2 * np.eye(2 * order)
    z = (flat @ stretch + 7.0).reshape(count, order, 2)  # an ellipsoid away from the origin
    network = memorizing_rnn(z, generator.standard_normal((count, 3)))
    np.testing.assert_allclose(network.states(z)[:, -1, -count:], np.eye(count), atol=1e-9 / network.margin)


def test_the_register_in_fractions_is_the_linear_filter_exactly() -> None:
    corners = np.array([[a, b, c] for a in (-1, 1) for b in (-1, 1) for c in (-1, 1)])
    exact = np.vectorize(Fraction, otypes=[object])
    readers = exact(corners).reshape(8, 3, 1)
    A, B, b = shift_register(readers, exact(np.full(8, 2)), exact(np.ones(1, int)))
    inputs = exact(corners).reshape(8, 3, 1) * Fraction(1)
    states = rnn_states(A, B, b, inputs)[:, -1]
    assert np.array_equal(states[:, 2:], np.eye(8, dtype=int))  # 3 - 2 for the own corner, 1 - 2 < 0 for the next
    assert np.array_equal(states[:, 0], corners[:, 2] + 1) and np.array_equal(states[:, 1], corners[:, 1] + 1)
    assert block_nilpotency_order(A) == 3 and len(A) == 8 + 2 * 1


def test_three_words_of_one_number_each_on_a_line_are_refused() -> None:
    z = np.array([[[0.0], [1.0]], [[0.5], [1.0]], [[1.0], [1.0]]])
    with pytest.raises(ValueError, match="sequence 1 lies in the convex hull of sequences 0, 2"):
        memorizing_rnn(z, np.eye(3))
    with pytest.raises(ValueError, match="convex hull"):
        memorizing_rnn(embedding(1)[CONTEXTS], targets(1e-3))
    np.testing.assert_allclose(memorizing_rnn(z, np.eye(3), "sorted").outputs(z)[:, -1], np.eye(3), atol=1e-12)


@pytest.mark.parametrize("width", [1, 2, 16, 48])
def test_large_biases_leave_a_rank_of_one_more_than_the_inputs(width: int) -> None:
    states = large_bias_states(whole_numbers(width), COUNT, 0)
    rank, expected = rank_profile_modulo(states)[-1], min(3 * width + 1, COUNT)
    if expected < COUNT:
        claims.check("ngram-rnn", rank, expected, 0, outcome="false", printed=COUNT, erratum=36)
        with pytest.raises(claims.ClaimFailed):  # without the constant
            claims.check("ngram-rnn", rank, 3 * width, 0, outcome="false", printed=COUNT, erratum=36)
    else:
        claims.check("ngram-rnn", rank, COUNT, 0)
        with pytest.raises(claims.ClaimFailed):
            claims.check("ngram-rnn", rank_profile_modulo(large_bias_states(whole_numbers(47), COUNT, 0))[-1], COUNT, 0)
    if width == 2:
        assert exact_rank_profile(states) == rank_profile_modulo(states)


def independent(A: list[list[int]], B: list[int], b: list[int]) -> bool:
    """Are the last states of three sequences that differ in the oldest of three inputs linearly independent?"""
    inputs = np.array([[0, 1, 2], [1, 1, 2], [2, 1, 2]])[:, :, None]
    return exact_rank(rnn_states(np.array(A), np.array(B)[:, None], np.array(b), inputs)[:, -1]) == 3


def test_three_neurons_in_a_chain_do_not_memorise_three_sequences_and_four_do() -> None:
    draws = np.random.default_rng(0).integers(-3, 4, (1000, 9)).tolist()
    three = any(independent([[0, 0, 0], [p, 0, 0], [q, r, 0]], B, b) for p, q, r, *others in draws
                for B, b in [(others[:3], others[3:])])  # fmt: skip
    four = independent([[0, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0], [0, 1, 0, 0]], [1, 0, 0, 0], [0, 0, 0, -1])
    kept = independent([[1, 0, 0], [0, 0, 0], [1, 0, 0]], [1, 0, 0], [0, 1, -2])  # the first neuron feeds itself
    arguments = {"outcome": "false", "erratum": 36, "printed": [True, True]}
    claims.check("ngram-rnn", [three, four], [False, True], 0, **arguments)
    assert kept
    for refused in ([kept, four], [three, three]):
        with pytest.raises(claims.ClaimFailed):
            claims.check("ngram-rnn", refused, [False, True], 0, **arguments)


def rank_without_window(sequences: np.ndarray) -> int:
    """Of the features of as many neurons: one holds what was read as a number, ramps begin at all values but one."""
    values = np.sort(sequences @ 10 ** np.arange(sequences.shape[1])[::-1])
    A = np.zeros((len(values), len(values)), dtype=int)
    A[:, 0] = 10
    b = -np.insert(values[:-1], 0, 0)
    return exact_rank(rnn_states(A, np.ones((len(values), 1), dtype=int), b, sequences[:, :, None])[:, -1])


@given(st.sets(st.tuples(*[st.integers(1, 9)] * 3), min_size=2, max_size=12))
@settings(max_examples=20)
def test_without_a_window_as_many_neurons_as_sequences_are_enough(chosen: set[tuple[int, int, int]]) -> None:
    different = np.array(sorted(chosen))
    claims.check("ngram-rnn", rank_without_window(different), len(different), 0)
    twice = np.concatenate([different, different[:1]])
    with pytest.raises(claims.ClaimFailed):
        claims.check("ngram-rnn", rank_without_window(twice), len(twice), 0)


def test_states_with_large_biases_are_affine_in_the_inputs() -> None:
    generator = np.random.default_rng(2)
    first, second = generator.integers(-20, 21, (2, 1, 3, 2))
    four = np.concatenate([first, second, 2 * first - second, 0 * first])
    states = large_bias_states(np.concatenate([four, [[[500, 500]] * 3]]), 12, 3)  # the last sets the bias
    assert np.array_equal(states[2], 2 * states[0] - states[1])
    assert exact_rank(large_bias_states(generator.integers(-50, 51, (6, 2, 1)), 9, 4)) == 3


def test_laws_of_the_language_are_in_reach_of_large_biases_and_shuffled_ones_are_not() -> None:
    shuffled = np.random.default_rng(0).permutation(LAWS)
    found, closest, off = [], np.inf, 0.0
    for width in (1, 3):
        affine = np.insert(whole_numbers(width).reshape(COUNT, -1), 0, 50, axis=1)
        for wanted in (LAWS, shuffled):
            C = separating_readout(affine, wanted > 0)
            found.append(int(C is not None))
            if C is not None:
                law = softmax(20 * affine @ C.T, axis=1)
                closest = min(closest, np.abs(law - wanted).sum(axis=1).max())
                off = np.abs(law - shuffled).sum(axis=1).max()
    claims.check("ngram-rnn", found, [0, 0, 1, 0], 0)
    claims.check("ngram-rnn", closest, at_most=1e-6)
    with pytest.raises(claims.ClaimFailed):
        claims.check("ngram-rnn", found, [0, 0, 1, 1], 0)
    with pytest.raises(claims.ClaimFailed):
        claims.check("ngram-rnn", off, at_most=1e-6)


@pytest.mark.parametrize("width", [1, 2, 16, 48])
def test_least_squares_on_large_biases_succeed_only_with_enough_inputs(width: int) -> None:
    states = large_bias_states(whole_numbers(width), COUNT, 0) / 1e7
    fitted = states @ np.linalg.lstsq(states, targets(1e-6))[0]
    distance = np.abs(softmax(fitted, axis=1) - LAWS).sum(axis=1).max()
    narrow, wide = {"at_least": 0.1}, {"at_most": 1e-6}
    right, wrong = (narrow, wide) if 3 * width + 1 < COUNT else (wide, narrow)
    claims.check("ngram-rnn", distance, **right)
    with pytest.raises(claims.ClaimFailed):
        claims.check("ngram-rnn", distance, **wrong)


def test_a_readout_separates_exactly_when_lines_can() -> None:
    square = np.array([[0, 0, 1], [0, 1, 1], [1, 0, 1], [1, 1, 1]])
    conjunction, parity = (np.eye(2, dtype=bool)[labels] for labels in ([0, 0, 0, 1], [0, 1, 1, 0]))
    C = separating_readout(square, conjunction)
    assert C is not None
    logits = square @ C.T
    assert np.all(logits[conjunction] - logits[~conjunction] >= 1 - 1e-9)
    assert separating_readout(square, parity) is None
    both = separating_readout(square, np.array([[1, 1, 0]] * 3 + [[0, 0, 1]], dtype=bool))
    assert both is not None and np.array_equal(both[0], both[1])


Z, Y = np.arange(6.0).reshape(3, 2, 1), np.eye(3)


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: memorizing_rnn(Z[:, :, 0], Y), "inputs"),
        (lambda: memorizing_rnn(Z, Y[:2]), "outputs"),
        (lambda: memorizing_rnn(Z * np.nan, Y), "finite"),
        (lambda: memorizing_rnn(Z[[0, 1, 0]], Y), "equal"),
        (lambda: memorizing_rnn(Z, Y, "other"), "method"),  # type: ignore[arg-type]
        (lambda: memorizing_rnn(Z, Y, "sorted", dtype=np.float16), "float16|dtype"),
        (lambda: large_bias_states(Z, 4, 0), "whole"),
        (lambda: large_bias_states(np.full((2, 2, 1), 2000), 4, 0), "1000"),
        (lambda: large_bias_states(np.ones((2, 3, 1), int), 2, 0), "hidden"),
        (lambda: large_bias_states(np.ones((2, 8, 1), int), 5000, 0), "overflow"),
        (lambda: separating_readout(np.eye(3), np.zeros((3, 2), bool)), "allowed"),
        (lambda: separating_readout(np.full((2, 2), np.nan), np.ones((2, 2), bool)), "finite"),
    ],
)
def test_bad_input_is_refused_with_what_is_allowed(call: object, word: str) -> None:
    with pytest.raises(ValueError, match=word) as refusal:
        call()  # type: ignore[operator]
    assert "allowed" in str(refusal.value)


def test_as_many_neurons_as_contexts_are_enough_on_the_language_of_the_paper() -> None:
    states = memorizing_rnn(embedding(2)[CONTEXTS], np.eye(COUNT)).states(embedding(2)[CONTEXTS])[:, -1]
    held, winners = states[:, :-COUNT], states[:, -COUNT:]
    without = qr(held.T, pivoting=True)[2][: held.shape[1]]  # contexts that the register alone tells apart
    features = np.hstack([held, np.delete(winners, without, axis=1)])
    assert features.shape == (COUNT, COUNT)
    claims.check("ngram-rnn", features @ np.linalg.solve(features, np.eye(COUNT)), np.eye(COUNT), 1e-9)
    with pytest.raises(claims.ClaimFailed):  # one neuron fewer: a rank too small for any outputs
        fitted = features[:, :-1] @ np.linalg.lstsq(features[:, :-1], np.eye(COUNT))[0]
        claims.check("ngram-rnn", fitted, np.eye(COUNT), 1e-9)


def test_on_other_data_a_network_with_a_window_needs_more_neurons_than_sequences() -> None:
    oldest = np.array([[[0], [1], [2]], [[1], [1], [2]]])

    def told_apart(A: np.ndarray, B: np.ndarray) -> bool:
        hidden = np.zeros((2, len(A)), dtype=int)
        for t in range(3):
            hidden = np.maximum(hidden @ A.T + oldest[:, t] @ B.T, 0)
        return not np.array_equal(*hidden)

    values = range(-2, 3)
    pairs = [
        told_apart(np.array([[0, 0], [a, 0]]), np.array([[u], [v]])) for a in values for u in values for v in values
    ]
    chain = told_apart(np.eye(3, k=-1, dtype=int), np.array([[1], [0], [0]]))
    false = {"outcome": "false", "erratum": 36, "printed": [True, True]}
    claims.check("ngram-rnn", [any(pairs), chain], [False, True], 0, **false)
    cycle = told_apart(np.array([[1, 0], [0, 0]]), np.ones((2, 1), dtype=int))
    with pytest.raises(claims.ClaimFailed):  # with a cycle, and so without a window, two neurons do
        claims.check("ngram-rnn", [cycle, chain], [False, True], 0, **false)


def test_the_least_small_integer_counts_with_its_size() -> None:
    inputs = np.full((3, 2, 2), -128, np.int8)
    assert np.array_equal(large_bias_states(inputs, 10, 0), large_bias_states(inputs.astype(np.int16), 10, 0))
    with pytest.raises(ValueError, match="1000 in size"):
        large_bias_states(np.full((3, 2, 2), np.iinfo(np.int64).min), 10, 0)
