"""Context windows: nilpotent SSMs, acyclic ReLU RNNs, exact ranks."""

from __future__ import annotations

import warnings
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.report import claims
from lib.theory.windows import block_nilpotent as graph
from lib.theory.windows import rational_matrices as rational
from lib.theory.windows.context_window import (
    dependence,
    eigenvalue_bound,
    nilpotent_shift,
    rnn_outputs,
    rnn_states,
    rotated_shift,
    ssm_outputs,
)

EPS = float(np.finfo(float).eps)


def layered(generator: np.random.Generator, layers: int, width: int = 3) -> tuple[np.ndarray, ...]:
    layer = np.repeat(np.arange(layers), width)
    A = generator.standard_normal((len(layer), len(layer))) * (layer[:, None] > layer)
    return (A, *(generator.standard_normal(shape) for shape in ((len(A), 2), len(A), (3, len(A)))))


def moved(form: object, network: tuple[np.ndarray, ...], seed: int = 0, length: int = 12) -> np.ndarray:
    inputs, others = np.random.default_rng(seed).standard_normal((2, 16, length, 2))
    return dependence(lambda x: form(*network, x), inputs, others, np.arange(length))  # type: ignore[operator]


def window(form: object, network: tuple[np.ndarray, ...]) -> int:
    return int(np.flatnonzero(moved(form, network)).max()) + 1


def fractions(matrix: object) -> np.ndarray:
    return np.vectorize(Fraction, otypes=[object])(np.asarray(matrix))


def symbolic_appearances(triangular: sympy.Matrix) -> list[int]:
    p, q, r = sympy.symbols("p q r")
    basis = sympy.Matrix([[1, 0, 0], [p, 1, 0], [q, r, 1]])
    A, B = (basis * triangular * basis.inv()).expand(), sympy.Matrix(sympy.symbols("beta1:4"))
    x, hidden = sympy.symbols("x1:7"), sympy.zeros(3, 1)
    for symbol in x:
        hidden = (A * hidden + B * symbol).expand()
    return [int(hidden.has(symbol)) for symbol in x]


def test_the_state_of_a_symbolic_nilpotent_matrix_is_free_of_older_inputs() -> None:
    a, b, c, d = sympy.symbols("a b c d")
    nilpotent = sympy.Matrix([[0, a, b], [0, 0, c], [0, 0, 0]])
    check = {"claim": "ngram-window", "expected": [0, 0, 0, 1, 1, 1], "tolerance": 0}
    claims.check(measured=symbolic_appearances(nilpotent), **check)
    for wrong in (nilpotent + sympy.diag(0, 0, d), nilpotent.subs(c, 0)):  # not nilpotent; A^2 = 0 sees less
        with pytest.raises(claims.ClaimFailed):
            claims.check(measured=symbolic_appearances(wrong), **check)


@pytest.mark.parametrize("form", [ssm_outputs, rnn_outputs])
def test_windows_of_layered_networks_are_exact_to_the_last_bit(form: object) -> None:
    claim = "ngram-window" if form is ssm_outputs else "ngram-rnn"
    generator = np.random.default_rng(1)
    networks = [layered(generator, n) for n in range(1, 6)]
    claims.check(claim, [window(form, network) for network in networks], [1, 2, 3, 4, 5], 0)
    A, *rest = networks[2]
    claims.check(claim, moved(form, networks[2])[3:].max(), at_most=0)
    with pytest.raises(claims.ClaimFailed):  # one word too few
        claims.check(claim, moved(form, networks[2])[2:].max(), at_most=0)
    with pytest.raises(claims.ClaimFailed):  # a neuron that feeds itself
        claims.check(claim, moved(form, (A + np.diag([0.5] * len(A)), *rest))[3:].max(), at_most=0)
    with pytest.raises(claims.ClaimFailed):  # n in the place of n - 1: four words of context
        claims.check(claim, [window(form, network) for network in networks[1:]], [1, 2, 3, 4], 0)


def test_a_spectral_radius_of_one_half_fades_but_gives_no_window() -> None:
    generator = np.random.default_rng(2)
    A, *rest = layered(generator, 3)
    fading = generator.standard_normal(A.shape)
    fading *= 0.5 / np.abs(np.linalg.eigvals(fading)).max()
    curve = moved(ssm_outputs, (fading, *rest), length=30)
    claims.check("ngram-window", curve[3:].min(), at_least=1e-14)
    assert curve[29] < 1e-4 * curve[1]
    with pytest.raises(claims.ClaimFailed):
        claims.check("ngram-window", moved(ssm_outputs, (A, *rest))[3:].min(), at_least=1e-14)


def test_in_another_basis_the_zeros_are_only_rounding_errors() -> None:
    generator = np.random.default_rng(3)
    A, *rest = layered(generator, 3)
    Q = np.linalg.qr(generator.standard_normal(A.shape))[0]
    bounds = {"at_least": 1e-18, "at_most": 1e-10}
    claims.check("ngram-window", moved(ssm_outputs, (Q @ A @ Q.T, *rest))[3:].max(), **bounds)
    for wrong in (A, 0.5 * Q):  # block form is exact; a scaled rotation is not nilpotent
        with pytest.raises(claims.ClaimFailed):
            claims.check("ngram-window", moved(ssm_outputs, (wrong, *rest))[3:].max(), **bounds)


def test_outputs_are_those_of_the_unrolled_sum() -> None:
    generator = np.random.default_rng(4)
    A, B, b, C = (fractions(generator.integers(-3, 4, shape)) for shape in ((3, 3), (3, 2), 3, (2, 3)))
    inputs = fractions(generator.integers(-3, 4, (6, 2)))
    found = ssm_outputs(A, B, b, C, inputs)
    power, hidden = fractions(np.eye(3, dtype=int)), 0 * b
    for lag in range(6):
        hidden = hidden + power @ B @ inputs[5 - lag]
        power = power @ A
    assert np.all(found[-1] == C @ np.maximum(hidden + b, 0))
    states = rnn_states(A, B, b, inputs)
    assert np.all(states[0] == np.maximum(B @ inputs[0] + b, 0))
    assert np.all(states[5] == np.maximum(A @ states[4] + B @ inputs[5] + b, 0))


@given(st.integers(2, 12), st.integers(0, 2**32 - 1), st.floats(-6, -2))
@settings(max_examples=40, deadline=None)
def test_eigenvalues_of_a_perturbed_shift_obey_the_bound(size: int, seed: int, exponent: float) -> None:
    generator = np.random.default_rng(seed)
    noise = generator.standard_normal((size, size))
    delta = 10.0**exponent
    noise *= delta / np.linalg.norm(noise, 2)
    radius = np.abs(np.linalg.eigvals(nilpotent_shift(size) + noise)).max()
    assert radius <= eigenvalue_bound(size, delta + 1e-12)
    bound = eigenvalue_bound(size, delta)
    assert bound**size == pytest.approx(delta * np.sum(bound ** np.arange(size)), rel=1e-9)


def test_the_bound_is_attained_by_the_worst_perturbation() -> None:
    size, bound = 5, eigenvalue_bound(5, 1e-3)
    resolvent = np.linalg.inv(bound * np.eye(size) - nilpotent_shift(size))
    u, values, v = np.linalg.svd(resolvent)
    worst = nilpotent_shift(size) + np.outer(v[0], u[:, 0]) / values[0]
    assert np.abs(np.linalg.eigvals(worst) - bound).min() < 1e-9
    assert 1 / values[0] >= 1e-3  # triangle inequality: no smaller perturbation puts an eigenvalue there
    assert eigenvalue_bound(3, 0.0) == 0.0 and eigenvalue_bound(1, 0.25) == pytest.approx(0.25)
    with warnings.catch_warnings(action="error"):  # r^-n is beyond float64 for the smaller r
        bound = eigenvalue_bound(1100, 1e-3)
    assert bound**1100 == pytest.approx(1e-3 * np.sum(bound ** np.arange(1100)), rel=1e-9)


def test_computed_eigenvalues_lie_on_a_ring_and_exact_powers_tell_the_truth() -> None:
    generator = np.random.default_rng(5)
    sizes = np.array([3, 8, 32])
    radius = np.array(
        [np.abs(np.linalg.eigvals([rotated_shift(n, generator) for _ in range(20)])).max() for n in sizes]
    )
    claims.check("ngram-window", radius / EPS ** (1 / sizes), at_least=0.3, at_most=3.0)
    bounds = np.array([eigenvalue_bound(n, 10 * EPS) for n in sizes])
    claims.check("ngram-window", radius / bounds, at_most=1.0)
    with pytest.raises(claims.ClaimFailed):  # square root of the precision at every size
        claims.check("ngram-window", radius / EPS**0.5, at_least=0.3, at_most=3.0)
    with pytest.raises(claims.ClaimFailed):
        claims.check("ngram-window", radius / (0.5 * bounds), at_most=1.0)
    exact = [rational.nilpotency_index(matrix) or 0 for matrix in (nilpotent_shift(32), rotated_shift(32, 0))]
    claims.check("ngram-window", exact, [32, 0], 0)
    with pytest.raises(claims.ClaimFailed):
        claims.check("ngram-window", exact, [32, 32], 0)


def partitions(number: int, largest: int) -> list[tuple[int, ...]]:
    if number == 0:
        return [()]
    return [(part, *rest) for part in range(min(number, largest), 0, -1) for rest in partitions(number - part, part)]


def of_blocks(blocks: tuple[int, ...], corner: object = 0) -> sympy.Matrix:
    """Shifts of these lengths, seen in a basis of whole numbers that hides them."""
    size = sum(blocks)
    lower = sympy.eye(size) + sympy.Matrix(size, size, lambda i, j: (i + 2 * j) % 3 - 1 if i > j else 0)
    basis = lower * lower.T
    shifts = sympy.diag(*[sympy.Matrix(n, n, lambda i, j: int(i == j + 1)) for n in blocks])
    shifts[0, 0] += corner
    return basis * shifts * basis.inv()


@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_one_spectrum_has_every_window_up_to_the_number_of_neurons(size: int) -> None:
    z = sympy.Symbol("z")
    matrices = {blocks: of_blocks(blocks) for blocks in partitions(size, size)}
    assert all(matrix.charpoly(z).as_expr() == z**size for matrix in matrices.values())
    windows = {blocks: rational.nilpotency_index(np.array(matrix.tolist())) for blocks, matrix in matrices.items()}
    assert all(window == max(blocks) for blocks, window in windows.items())
    assert set(windows.values()) == set(range(1, size + 1))
    false = {"expected": 1, "tolerance": 0, "outcome": "false", "erratum": 50, "note": "at most the neurons"}
    claims.check("ngram-spectrum", len(set(windows.values())), **false)
    longest = {window for blocks, window in windows.items() if len(blocks) == 1}
    with pytest.raises(claims.ClaimFailed, match="said to be false"):  # one Jordan block: the window is settled
        claims.check("ngram-spectrum", len(longest), **false)
    with pytest.raises(claims.ClaimFailed):  # as the paper has it
        claims.check("ngram-spectrum", len(set(windows.values())), 1, 0)


def test_zero_eigenvalues_and_no_others_give_a_window_of_at_most_the_neurons() -> None:
    def share(matrix: sympy.Matrix) -> float:
        index = rational.nilpotency_index(np.array(matrix.tolist()))
        return (index or 2 * matrix.rows) / matrix.rows

    claims.check("ngram-spectrum", [share(of_blocks(blocks)) for blocks in partitions(5, 5)], at_most=1)
    for corner in (sympy.Rational(1, 2), -1):
        with pytest.raises(claims.ClaimFailed):  # an eigenvalue that is not zero: no power is
            claims.check("ngram-spectrum", share(of_blocks((1, 1, 1, 1), corner)), at_most=1)

    every = np.array(list(product(range(-2, 3), repeat=4))).reshape(-1, 2, 2)
    trace = np.trace(every, axis1=1, axis2=2)
    determinant = every[:, 0, 0] * every[:, 1, 1] - every[:, 0, 1] * every[:, 1, 0]
    square = every @ every
    ends, later = ~square.any(axis=(1, 2)), ~(square @ square @ square).any(axis=(1, 2))
    zero_spectrum = (trace == 0) & (determinant == 0)
    claims.check("ngram-spectrum", [np.sum(zero_spectrum != ends), np.sum(later != ends)], at_most=0)
    for wrong in (trace == 0, determinant == 0):  # one of two coefficients
        with pytest.raises(claims.ClaimFailed):
            claims.check("ngram-spectrum", [np.sum(wrong != ends)], at_most=0)


def test_exact_ranks_are_those_of_sympy_and_of_the_prime_field() -> None:
    generator = np.random.default_rng(6)
    for rows, columns, inner in ((5, 7, 3), (6, 4, 4), (4, 4, 1), (1, 1, 1)):
        integers = generator.integers(-9, 10, (rows, inner)) @ generator.integers(-9, 10, (inner, columns))
        expected = [sympy.Matrix(integers[:k].tolist()).rank() for k in range(1, rows + 1)]
        assert rational.exact_rank_profile(integers) == expected == rational.rank_profile_modulo(integers)
        assert rational.exact_rank(integers / 8.0) == rational.exact_rank(fractions(integers) / 7) == expected[-1]
    assert rational.exact_rank([[1.0, 1.0], [1.0, 1.0 + EPS]]) == 2  # no rounding decides
    assert rational.rank_profile_modulo([[5, 0], [0, 1]], prime=5) == [0, 1]  # a lower bound
    assert rational.nilpotency_index([[1, -1], [1, -1]]) == 2 and rational.nilpotency_index(np.zeros((2, 2))) == 1
    assert rational.nilpotency_index([[0.1 + 0.2, -0.3], [0.3, -0.3]]) is None


MATRICES = np.array(list(product((-1, 0, 1), repeat=9))).reshape(-1, 3, 3)


def test_the_longest_path_is_the_window_for_all_small_networks() -> None:
    true_window = graph.window_by_activation_patterns(MATRICES)
    by_paths = np.array([graph.window_of_network(matrix) or 0 for matrix in MATRICES])
    claims.check("ngram-rnn", np.sum(by_paths != true_window), at_most=0)
    nilpotent = ~np.any(MATRICES @ MATRICES @ MATRICES, axis=(1, 2))
    block = nilpotent.copy()
    block[nilpotent] = [graph.is_block_nilpotent(matrix) for matrix in MATRICES[nilpotent]]
    finite = true_window > 0
    claims.check("ngram-rnn", np.sum(block & ~finite), at_most=0)
    claims.check("ngram-rnn", [np.sum(finite & ~block), np.sum(nilpotent & ~finite)], at_least=1)
    for wrong in (nilpotent, block):  # neither condition of the paper is the true one
        with pytest.raises(claims.ClaimFailed):
            claims.check("ngram-rnn", np.sum(wrong != finite), at_most=0)
    with pytest.raises(claims.ClaimFailed):
        claims.check("ngram-rnn", np.sum(nilpotent & ~finite), at_most=0)
    with pytest.raises(claims.ClaimFailed):
        claims.check("ngram-rnn", [np.sum(finite & ~finite), np.sum(nilpotent & ~finite)], at_least=1)
    assert finite.sum() == 1 + 6 * 2 + 12 * 4 + 6 * 8  # labelled acyclic digraphs with signs on their arrows
    assert not np.any(true_window[~nilpotent])
    order = [graph.block_nilpotency_order(matrix) for matrix in MATRICES[block]]
    assert np.array_equal(order, true_window[block])


def test_windows_are_right_for_integers_of_any_size_and_type() -> None:
    for factor in (2**21, 2**32, 2**62, 10**30):  # products wrap around, or do not fit into 64 bits at all
        cycle = [[0, factor], [factor, 0]]
        path = [[0, factor, 0], [0, 0, factor], [0, 0, 0]]
        ring = [[0, factor, 0], [0, 0, factor], [factor, 0, 0]]
        assert graph.window_by_activation_patterns(cycle) == 0 and graph.window_of_network(cycle) is None
        assert graph.window_by_activation_patterns(path) == 3 == graph.window_of_network(path)
        assert graph.window_by_activation_patterns(ring) == 0
    narrow = np.array([[[0, 16], [16, 0]], [[0, 16], [0, 0]]])
    for kind in (np.int8, np.uint8, np.int64):
        assert graph.window_by_activation_patterns(narrow.astype(kind)).tolist() == [0, 2]
    some = MATRICES[::97]
    large = graph.window_by_activation_patterns(some.astype(object) * 2**40)
    assert np.array_equal(large, graph.window_by_activation_patterns(some))


def test_ranks_modulo_a_prime_of_objects_and_narrow_integers() -> None:
    table = np.array([[2, 4], [1, 2], [0, 3]])
    for kind in (np.int8, np.uint8, np.int64, np.uint64, object):
        assert rational.rank_profile_modulo(table.astype(kind)) == [1, 1, 2] == rational.exact_rank_profile(table)
    huge = np.array([[10**30, 1], [10**30, 2]], dtype=object)
    assert rational.rank_profile_modulo(huge) == [1, 2] == rational.exact_rank_profile(huge)


def test_acyclic_patterns_of_four_neurons_are_as_many_as_labelled_acyclic_digraphs() -> None:
    patterns = np.array(list(product((0, 1), repeat=12)))
    matrices = np.zeros((len(patterns), 16), dtype=int)
    matrices[:, [k for k in range(16) if k % 5]] = patterns
    finite = [matrix for matrix in matrices.reshape(-1, 4, 4) if graph.window_of_network(matrix) is not None]
    assert len(finite) == 543
    for matrix in finite[::20]:
        index = rational.nilpotency_index(matrix)
        assert index == graph.window_of_network(matrix)  # nothing cancels: powers of the pattern tell the window
        kernels = []
        for k in range(1, 5):
            power = sympy.Matrix(np.linalg.matrix_power(matrix, k).tolist())
            zero_columns = sum(power[:, j].is_zero_matrix for j in range(4))
            kernels.append(len(power.nullspace()) == zero_columns)
        assert graph.is_block_nilpotent(matrix) == all(kernels)


@pytest.mark.parametrize("lag", [0, 1, 2, 7])
def test_the_witness_shows_the_whole_window_and_no_more(lag: int) -> None:
    generator = np.random.default_rng(lag)
    for _ in range(20):
        A = generator.integers(-2, 3, (4, 4)) * (generator.random((4, 4)) < 0.4)
        eye, none, longest = np.eye(4, dtype=int), np.zeros(4, dtype=int), graph.window_of_network(A)
        if longest is not None and lag >= longest:
            with pytest.raises(ValueError, match="lag"):
                graph.window_witness(A, lag)
            continue
        inputs = graph.window_witness(A, lag)
        assert np.all(inputs[0, 1:] == inputs[1, 1:])
        first, second = rnn_states(A, eye, none, inputs)[:, -1]
        assert np.any(first != second)


def test_a_cycle_has_no_window_but_a_path_has() -> None:
    eye, none = np.eye(2, dtype=int), np.zeros(2, dtype=int)

    def change(A: np.ndarray, inputs: np.ndarray) -> float:
        first, second = rnn_outputs(A, eye, none, eye, inputs)[:, -1]
        return float(max(abs(second - first)))

    loop = np.array([[0, 1], [-1, 0]])
    inputs = graph.window_witness(loop, 50)
    claims.check("ngram-rnn", change(loop, inputs), 0.5, 0)
    with pytest.raises(claims.ClaimFailed):  # the same inputs after one arrow of the cycle is cut
        claims.check("ngram-rnn", change(np.array([[0, 0], [-1, 0]]), inputs), 0.5, 0)


def test_paths_that_cancel_give_the_ssm_a_shorter_window_than_the_rnn() -> None:
    A = graph.cancelling_paths_matrix()
    eye, none, inputs = np.eye(4, dtype=int), np.zeros(4, dtype=int), graph.window_witness(A, 2)
    ssm, rnn = (form(A, eye, none, eye, inputs)[:, -1] for form in (ssm_outputs, rnn_outputs))
    assert np.all(ssm[0] == ssm[1]) and np.any(rnn[0] != rnn[1])
    claims.check("ngram-rnn", [rational.nilpotency_index(A), graph.window_of_network(A)], [2, 3], 0)
    with pytest.raises(claims.ClaimFailed):
        claims.check("ngram-rnn", [rational.nilpotency_index(abs(A)), graph.window_of_network(abs(A))], [2, 3], 0)


@given(st.fractions(0, 1), st.integers(1, 30))
@settings(max_examples=30, deadline=None)
def test_the_dense_nilpotent_network_never_forgets(first: Fraction, length: int) -> None:
    network = graph.dense_nilpotent_network()
    assert np.all(network[0] != 0) and not np.any(network[0] @ network[0])
    inputs = np.full((length, 1), Fraction(0), dtype=object)
    inputs[0] = first
    assert rnn_outputs(*network, inputs)[-1, 0] == first
    assert length <= 2 or ssm_outputs(*network, inputs)[-1, 0] == 0


def test_the_claim_about_the_dense_network_fails_for_its_ssm() -> None:
    network, inputs = graph.dense_nilpotent_network(), np.zeros((1001, 1))
    inputs[0] = 0.375
    claims.check("ngram-rnn", rnn_outputs(*network, inputs)[-1, 0], 0.375, 0)
    with pytest.raises(claims.ClaimFailed):
        claims.check("ngram-rnn", ssm_outputs(*network, inputs)[-1, 0], 0.375, 0)


NETWORK = (np.eye(2), np.ones((2, 1)), np.zeros(2), np.ones((1, 2)))


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: ssm_outputs(*NETWORK, np.zeros((4, 2))), "network"),
        (lambda: rnn_outputs(np.eye(3), *NETWORK[1:], np.zeros((4, 1))), "network"),
        (lambda: rnn_states(*NETWORK[:3], np.zeros((0, 1))), "network"),
        (lambda: dependence(np.abs, np.zeros((2, 3, 1)), np.zeros((2, 4, 1)), [0]), "one shape"),
        (lambda: dependence(np.abs, np.zeros((2, 3, 1)), np.zeros((2, 3, 1)), [3]), "lags"),
        (lambda: eigenvalue_bound(3, -1.0), "perturbation"),
        (lambda: nilpotent_shift(0), "size"),
        (lambda: rational.exact_rank([[np.nan]]), "finite"),
        (lambda: rational.exact_rank([1, 2]), "table"),
        (lambda: rational.nilpotency_index(np.zeros((2, 3))), "square"),
        (lambda: rational.rank_profile_modulo([[1]], prime=4), "prime"),
        (lambda: rational.rank_profile_modulo([[0.5]]), "whole"),
        (lambda: graph.window_of_network([[np.inf]]), "finite"),
        (lambda: graph.window_witness(np.eye(2), -1), "lag"),
        (lambda: graph.is_block_nilpotent(np.zeros((2, 2)), 0), "order"),
        (lambda: graph.window_by_activation_patterns(np.zeros((5, 5))), "N <= 4"),
        (lambda: graph.window_by_activation_patterns([[0.5]]), "integers"),
        (lambda: graph.window_by_activation_patterns([1, 2]), "N <= 4"),
        (lambda: graph.is_block_nilpotent([[1]], 0), "order"),
        (lambda: graph.is_block_nilpotent([[1]], -3), "order"),
        (lambda: rational.rank_profile_modulo(np.array([[0.5, 1], [1, 2]], dtype=object)), "fraction"),
        (lambda: rational.rank_profile_modulo(np.array([[None]], dtype=object)), "fractions"),
        (lambda: rational.rank_profile_modulo([[1]], prime="3"), "prime"),
        (lambda: eigenvalue_bound(3, "a"), "perturbation"),
        (lambda: eigenvalue_bound(3, np.inf), "perturbation"),
    ],
)
def test_bad_input_is_refused_with_what_is_allowed(call: object, word: str) -> None:
    with pytest.raises(ValueError, match=word) as refusal:
        call()  # type: ignore[operator]
    assert "allowed" in str(refusal.value) or "needed" in str(refusal.value)
