"""Memorising SSMs: outputs, windows, nilpotency, refusals."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from lib.theory import memorizing_ssm
from lib.theory.memorizing.exact import rationals
from lib.theory.memorizing.weights import gap_order, natural_order
from lib.theory.memorizing.winner import NotACorner, separators

ANY_DATA = ("paper", "gap", "sorted", "auto")  # methods that separate every set of different sequences
EXACT = ("paper", "gap", "sorted", "shift_register")


def data(count: int, length: int, width: int, seed: int = 0, sphere: bool = False) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    inputs = generator.standard_normal((count, length, width))
    if sphere:
        inputs /= np.linalg.norm(inputs, axis=2, keepdims=True)
    return inputs, generator.standard_normal((count, 2))


def by_definition(model, inputs):
    """y = C relu(h_n + b), h_t = A h_{t-1} + B x_t, with the full matrices and one sequence at a time."""
    outputs = []
    for sequence in inputs:
        h = np.zeros(model.hidden_size)
        for x in sequence:
            h = model.A @ h + model.B @ x
        outputs.append(model.C @ np.maximum(h + model.b, 0))
    return np.array(outputs)


@pytest.mark.parametrize("method", ANY_DATA)
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 3, 1), (3, 3, 2), (7, 2, 3), (30, 3, 1), (30, 3, 16), (20, 5, 2)])
def test_every_sequence_gets_its_output(method: str, shape: tuple[int, int, int]) -> None:
    inputs, outputs = data(*shape)
    model = memorizing_ssm(inputs, outputs, shape[1], method=method)
    count, _, width = shape
    assert [a.shape for a in (model.A, model.B, model.b, model.C)] == [
        (count, count),
        (count, width),
        (count,),
        (2, count),
    ]
    tolerance = 1e-14 * max(1.0, model.condition)
    assert np.abs(model(inputs) - outputs).max() <= tolerance
    assert np.abs(by_definition(model, inputs) - outputs).max() <= tolerance


@pytest.mark.parametrize("method", ["winner_take_all", "shift_register"])
@pytest.mark.parametrize(("shape", "sphere"), [((25, 3, 4), True), ((60, 2, 16), False), ((40, 3, 2), True)])
def test_methods_that_need_corners_work_where_there_are_corners(
    method: str, shape: tuple[int, ...], sphere: bool
) -> None:
    inputs, outputs = data(*shape, sphere=sphere)
    model = memorizing_ssm(inputs, outputs, shape[1], method=method)
    assert np.abs(by_definition(model, inputs) - outputs).max() < 1e-9
    if method == "winner_take_all":
        assert np.array_equal(model.features(inputs) > 0, np.eye(shape[0], dtype=bool))
        assert model.condition == pytest.approx(1, abs=1e-9)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(1, 4), st.integers(1, 3))
def test_small_integers_with_many_coincidences_are_memorised(seed: int, count: int, length: int, width: int) -> None:
    generator = np.random.default_rng(seed)
    inputs = np.unique(generator.integers(-1, 2, (count, length, width)), axis=0).astype(float)
    if len(inputs) < length:
        return
    outputs = generator.standard_normal((len(inputs), 1))
    for method in ("gap", "sorted", "auto"):
        for neurons in (len(inputs), len(inputs) + seed % 7):
            model = memorizing_ssm(inputs, outputs, length, method=method, hidden_size=neurons)
            assert np.abs(model(inputs) - outputs).max() < 1e-8


@pytest.mark.parametrize("method", EXACT)
def test_a_power_of_the_transition_is_exactly_zero(method: str) -> None:
    inputs, outputs = data(20, 3, 2, sphere=True)
    model = memorizing_ssm(inputs, outputs, 3, method=method)
    A = rationals(model.A)
    assert not np.any(A @ A @ A)  # Fractions: no rounding
    assert np.any(A @ A)
    assert not np.any(np.linalg.matrix_power(model.A, 3))
    left, right = rationals(model.left.astype(np.float32)), rationals(model.right.astype(np.float32))
    if method != "shift_register":  # its other weights are no dyadic fractions, and need not be
        assert not np.any(left @ (right @ left) @ (right @ left) @ right)


@pytest.mark.parametrize("method", EXACT)
def test_below_float64_the_factors_are_still_nilpotent_and_their_rounded_product_need_not_be(method: str) -> None:
    inputs, outputs = data(20, 3, 2, sphere=True)
    model = memorizing_ssm(inputs, outputs, 3, method=method, dtype=np.float32)
    left, right, A = rationals(model.left), rationals(model.right), rationals(model.A)
    assert not np.any(left @ (right @ left) @ (right @ left) @ right)
    assert np.any(A @ A @ A) == (method in ("paper", "gap"))


@pytest.mark.parametrize("dtype", [int, np.float16, "foo", complex])
def test_weights_are_rounded_to_floating_types_alone(dtype: Any) -> None:
    model = memorizing_ssm(*data(4, 2, 2), 2)
    with pytest.raises(ValueError, match="dtype: float32 or a wider"):
        model.astype(dtype)


def test_the_register_is_strictly_triangular_and_forgets_exactly() -> None:
    inputs, outputs = data(30, 4, 3, sphere=True)
    model = memorizing_ssm(inputs, outputs, 4, method="shift_register")
    assert not np.any(np.triu(model.A))
    older = np.random.default_rng(1).standard_normal((30, 6, 3)) * 1e6
    assert np.array_equal(model(np.concatenate([older, inputs], axis=1)), model(inputs))


@pytest.mark.parametrize("method", ["gap", "sorted", "winner_take_all"])
def test_inputs_before_the_window_do_not_count(method: str) -> None:
    inputs, outputs = data(12, 3, 8)
    model = memorizing_ssm(inputs, outputs, 3, method=method)
    older = np.random.default_rng(1).standard_normal((12, 5, 8))
    assert np.abs(model(np.concatenate([older, inputs], axis=1)) - outputs).max() < 1e-9
    assert np.abs(model(inputs[:, 1:]) - outputs).max() > 1e-3  # the oldest input of the window does count


@pytest.mark.parametrize("method", ANY_DATA)
def test_a_shorter_order_sees_a_shorter_window(method: str) -> None:
    inputs, outputs = data(9, 4, 2)
    model = memorizing_ssm(inputs, outputs, 2, method=method)
    assert np.abs(model(inputs) - outputs).max() < 1e-9
    assert np.abs(model(inputs[:, -2:]) - outputs).max() < 1e-9
    assert np.abs(np.linalg.matrix_power(model.A, 2)).max() < 1e-12


def test_an_order_beyond_the_length_is_allowed_up_to_the_hidden_size() -> None:
    inputs, outputs = data(6, 2, 1)
    model = memorizing_ssm(inputs, outputs, 6, method="gap")
    assert np.abs(model(inputs) - outputs).max() < 1e-12
    with pytest.raises(ValueError, match="hidden size"):
        memorizing_ssm(inputs, outputs, 7)


def test_equal_windows_need_equal_outputs() -> None:
    inputs, outputs = data(5, 3, 1)
    inputs[3, 1:] = inputs[1, 1:]
    with pytest.raises(ValueError, match="sequences 1 and 3 agree"):
        memorizing_ssm(inputs, outputs, 2)
    outputs[3] = outputs[1]
    model = memorizing_ssm(inputs, outputs, 2)
    assert model.hidden_size == 5
    assert np.abs(model(inputs) - outputs).max() < 1e-9


def test_fewer_neurons_than_the_order_are_refused_with_the_reason() -> None:
    inputs = np.array([[[0.0], [1.0], [2.0]], [[5.0], [1.0], [2.0]]])  # differ in the oldest input alone
    with pytest.raises(ValueError, match=r"A\^2 = 0, so only the last 2 inputs"):
        memorizing_ssm(inputs, [[0.0], [1.0]], 3)
    model = memorizing_ssm(inputs, [[0.0], [1.0]], 3, hidden_size=3)
    assert model.A.shape == (3, 3)
    assert np.abs(model(inputs) - [[0.0], [1.0]]).max() < 1e-12


@pytest.mark.parametrize("method", ["auto", "gap", "sorted", "paper"])
def test_spare_neurons_change_no_output(method: str) -> None:
    inputs, outputs = data(4, 3, 2)
    model = memorizing_ssm(inputs, outputs, 3, method=method, hidden_size=9)
    assert model.A.shape == (9, 9)
    assert np.abs(model(inputs) - outputs).max() < 1e-9


@pytest.mark.parametrize("method", ["winner_take_all", "shift_register", "auto"])
@pytest.mark.parametrize("spare", [0, 1, 5, 40])
def test_spare_neurons_take_no_corner_away(method: str, spare: int) -> None:
    for inputs, order in ((np.eye(3)[:, None], 1), (data(7, 2, 2, sphere=True)[0], 2), (data(2, 1, 1)[0], 1)):
        outputs = np.random.default_rng(1).standard_normal((len(inputs), 2))
        model = memorizing_ssm(inputs, outputs, order, method, hidden_size=len(inputs) + spare)
        assert model.hidden_size == len(inputs) + spare and model.C.shape == (2, model.hidden_size)
        assert np.abs(by_definition(model, inputs) - outputs).max() < 1e-10
        assert np.abs(np.linalg.matrix_power(model.A, order)).max() < 1e-12
        if method != "shift_register":
            assert model.method == "winner_take_all"
            assert np.array_equal(model.features(inputs) > 0, np.eye(len(inputs), model.hidden_size, dtype=bool))


def test_spare_neurons_and_merged_windows_keep_sparse_outputs() -> None:
    inputs = np.array([[[3.0], [0.0]], [[4.0], [0.0]], [[5.0], [2.0]]])
    outputs = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 2.0]])  # the first two windows are one
    for wanted in (outputs, csr_array(outputs)):
        model = memorizing_ssm(inputs, wanted, 1, hidden_size=9)
        assert (model.method, model.hidden_size, len(model.windows)) == ("winner_take_all", 9, 2)
        assert np.abs(model(inputs) - outputs).max() < 1e-12 and model.residual < 1e-12


@pytest.mark.parametrize("spare", [0, 1, 3, 6, 20])
def test_a_register_answers_only_for_those_without_a_neuron(spare: int) -> None:
    inputs, outputs = data(12, 3, 3, sphere=True)
    if spare >= 6:
        inputs[:, 1:] = inputs[:1, 1:]  # constants span nothing
    model = memorizing_ssm(inputs, outputs, 3, "shift_register", hidden_size=12 + spare)
    assert np.abs(by_definition(model, inputs) - outputs).max() < 1e-9
    assert not np.any(np.triu(model.A))
    few, wanted = data(3, 3, 3, sphere=True)  # fewer sequences than the register has places
    assert memorizing_ssm(few, wanted, 3, "shift_register", hidden_size=7 + spare).residual < 1e-10


@pytest.mark.parametrize("method", ["paper", "gap", "winner_take_all"])
def test_the_residual_is_the_largest_error_on_what_was_memorised(method: str) -> None:
    inputs, outputs = data(300, 3, 3) if method == "paper" else data(1500, 1, 20, sphere=True)
    model = memorizing_ssm(inputs, outputs, inputs.shape[1], method)
    assert model.residual == pytest.approx(np.abs(model(inputs) - outputs).max(), abs=1e-9)
    assert model.residual < (1.0 if method == "paper" else 1e-6)
    assert model.astype(np.float32).residual > 100 * model.residual
    if method == "paper":
        inputs, outputs = data(500, 3, 3)
        assert memorizing_ssm(inputs, outputs, 3, "paper").residual > 1 > memorizing_ssm(inputs, outputs, 3).residual


def test_tensors_that_are_trained_are_memorised() -> None:
    inputs, outputs = (torch.tensor(part, dtype=torch.bfloat16, requires_grad=True) for part in data(6, 2, 3))
    model = memorizing_ssm(inputs, outputs, 2)
    assert np.abs(model(inputs) - outputs.detach().double().numpy()).max() < 1e-12


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"inputs": np.zeros((3, 2))}, r"inputs: shape \(N, n, m\)"),
        ({"inputs": np.zeros((0, 2, 1))}, r"inputs: shape \(N, n, m\)"),
        ({"inputs": np.full((3, 2, 1), np.nan)}, "inputs: finite"),
        ({"inputs": "words"}, "inputs: real numbers"),
        ({"inputs": np.ones((3, 2, 1)) + 1j}, "inputs: real numbers"),
        ({"outputs": csr_array(np.eye(3) + 1j)}, "outputs: real numbers"),
        ({"dtype": "foo"}, "dtype: float32 or a wider"),
        ({"dtype": np.float16}, "dtype: float32 or a wider"),
        ({"dtype": torch.float32}, "dtype: float32 or a wider"),
        ({"inputs": np.zeros((3, 2, 1))}, "sequences 0 and 1 are equal"),
        ({"outputs": np.zeros((2, 1))}, r"outputs: shape \(N, p\) with N = 3"),
        ({"outputs": np.zeros(3)}, r"outputs: shape \(N, p\)"),
        ({"outputs": np.full((3, 1), np.inf)}, "outputs: finite"),
        ({"order": 0}, "order: a whole number of at least 1"),
        ({"order": 1.5}, "order: a whole number"),
        ({"order": 4}, "order: at most the hidden size"),
        ({"method": "magic"}, "paper, gap, sorted, winner_take_all, shift_register"),
        ({"hidden_size": 2}, "hidden_size: a whole number of at least 3"),
        ({"dtype": np.int64}, "dtype: float32 or a wider"),
        ({"seed": -1}, "seed"),
        ({"outputs": csr_array(np.eye(3)), "method": "gap"}, "sparse"),
    ],
)
def test_what_cannot_work_is_refused(change: dict, words: str) -> None:
    arguments = {"inputs": np.array([[[0.0], [1.0]], [[1.0], [0.0]], [[2.0], [2.0]]]), "outputs": np.eye(3), "order": 2}
    memorizing_ssm(**arguments)
    with pytest.raises(ValueError, match=words):
        memorizing_ssm(**(arguments | change))


def test_a_window_between_two_others_has_no_winner() -> None:
    inputs = np.array([[[0.0], [7.0]], [[1.0], [7.0]], [[2.0], [7.0]]])
    with pytest.raises(NotACorner, match="sequence 1 lies in the convex hull of sequences 0, 2"):
        memorizing_ssm(inputs, np.eye(3), 2, method="winner_take_all")
    assert memorizing_ssm(inputs, np.eye(3), 2).method == "gap"
    assert memorizing_ssm(inputs[:2], np.eye(2), 2).method == "winner_take_all"


def test_a_register_that_holds_constants_is_refused() -> None:
    inputs = np.stack([np.arange(5.0) ** 2, np.zeros(5), np.zeros(5)], axis=1)[:, :, None]  # the oldest input varies
    with pytest.raises(ValueError, match="span"):
        memorizing_ssm(inputs, np.eye(5), 3, method="shift_register")
    assert np.abs(memorizing_ssm(inputs, np.eye(5), 3)(inputs) - np.eye(5)).max() < 1e-10


def test_no_acyclic_network_of_that_size_tells_apart_the_oldest_input() -> None:
    """A walk of n - 1 edges leads to every neuron that sees the oldest of n inputs: n - 1 features are constants."""
    generator = np.random.default_rng(0)
    length, count = 4, 12
    inputs = np.zeros((count, length, 1))
    inputs[:, 0, 0] = generator.standard_normal(count)
    ranks = {}
    for neurons in (count, count + length - 2):
        A = np.zeros((neurons, neurons))
        for lag in range(1, length):
            A[lag, lag - 1] = 1
        A[length - 1 :, length - 2] = 1  # all others see the whole window
        h = np.zeros((count, neurons))
        for t in range(length):
            h = h @ A.T + np.outer(inputs[:, t, 0], np.arange(neurons) == 0)
        b = np.full(neurons, 1.0)
        b[length - 1 :] = -np.sort(inputs[:, 0, 0])[: neurons - length + 1]
        ranks[neurons] = np.linalg.matrix_rank(np.maximum(h + b, 0))
    assert ranks == {count: count - length + 2, count + length - 2: count}


def test_biases_leave_one_sequence_standing_at_a_time() -> None:
    hidden = np.random.default_rng(3).standard_normal((25, 25))
    for order in (natural_order, gap_order):
        b, sequences, neurons = order(hidden)
        features = np.maximum(hidden + b, 0)[np.ix_(sequences, neurons)]
        assert sorted(sequences) == sorted(neurons) == list(range(25))
        assert not np.any(np.tril(features, -1)) and np.all(np.diag(features) > 0)


def test_the_gap_order_takes_the_widest_gap_by_brute_force() -> None:
    hidden = np.random.default_rng(4).standard_normal((9, 9))
    left, free, expected = set(range(9)), set(range(9)), []
    while len(left) > 1:
        gaps = {}
        for neuron in free:
            first, second = sorted((hidden[row, neuron], row) for row in left)[-1:-3:-1]
            gaps[(first[0] - second[0]) / hidden[:, neuron].std()] = (first[1], neuron)
        row, neuron = gaps[max(gaps)]
        expected.append((row, neuron))
        left.remove(row)
        free.remove(neuron)
    _, sequences, neurons = gap_order(hidden)
    assert list(zip(sequences, neurons, strict=True))[:-1] == expected


def test_separators_agree_on_spheres_with_the_general_way() -> None:
    words = np.random.default_rng(5).standard_normal((6, 3))
    words /= np.linalg.norm(words, axis=1, keepdims=True)
    triples = np.stack(np.meshgrid(*[np.arange(6)] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
    for windows in (words[triples], words[triples] * (1 + 1e-6 * np.arange(216))[:, None, None]):  # spheres, and not
        functionals, thresholds = separators(windows)
        scores = windows.reshape(216, -1) @ functionals.T - thresholds
        assert np.allclose(np.diag(scores), 1, atol=1e-9)
        np.fill_diagonal(scores, -1)
        assert scores.max() <= -1 + 1e-9


def test_sparse_outputs_give_the_same_network() -> None:
    inputs, _ = data(30, 3, 8)
    outputs = np.random.default_rng(6).standard_normal((30, 50)) * (np.random.default_rng(7).random((30, 50)) < 0.1)
    dense, sparse = (memorizing_ssm(inputs, y, 3, method="winner_take_all") for y in (outputs, csr_array(outputs)))
    assert np.allclose(dense(inputs), sparse(inputs), rtol=0, atol=1e-12)
    assert np.allclose(sparse.C.toarray(), dense.C) and sparse.nbytes < dense.nbytes


@pytest.mark.parametrize("method", ["gap", "sorted", "winner_take_all", "shift_register"])
def test_float32_networks_compute_in_float32(method: str) -> None:
    inputs, outputs = data(40, 3, 16)
    model = memorizing_ssm(inputs, outputs, 3, method=method, dtype=np.float32)
    assert {a.dtype for a in (model.A, model.B, model.b, model.C, model(inputs))} == {np.dtype(np.float32)}
    assert np.abs(model(inputs) - outputs).max() < 1e-7 * model.condition + 1e-6
    rounded = memorizing_ssm(inputs, outputs, 3, method=method).astype(np.float32)
    assert rounded.dtype == np.float32 and rounded(inputs).dtype == np.float32


def test_states_are_the_running_hidden_states() -> None:
    inputs, outputs = data(5, 4, 2)
    model = memorizing_ssm(inputs, outputs, 4)
    for t, h in enumerate(model.states(inputs), start=1):
        assert np.allclose(h, model.hidden(inputs[:, :t]), rtol=0, atol=1e-13)
    with pytest.raises(ValueError, match=r"inputs: shape \(sequences, T >= 1, 2\)"):
        model(inputs[:, :, :1])


def test_seeds_repeat_and_differ() -> None:
    inputs, outputs = data(6, 3, 1)
    first, same, other = (
        memorizing_ssm(inputs, outputs, 3, method="gap", seed=s) for s in (1, np.random.default_rng(1), 2)
    )
    assert np.array_equal(first.A, same.A) and not np.array_equal(first.A, other.A)
    assert Fraction(float(first.A[0, 0])).denominator <= 2**25


@pytest.mark.parametrize("method", ["paper", "gap", "sorted", "winner_take_all"])
def test_one_hot_inputs_are_memorised(method: str) -> None:
    letters = np.stack(np.meshgrid(*[np.arange(4)] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
    outputs = np.random.default_rng(0).standard_normal((64, 2))
    model = memorizing_ssm(np.eye(4)[letters], outputs, 3, method=method)
    assert np.abs(model(np.eye(4)[letters]) - outputs).max() < 1e-14 * max(100.0, model.condition)


@pytest.mark.parametrize("method", ["gap", "sorted", "auto"])
def test_all_words_over_three_whole_numbers_are_memorised(method: str) -> None:
    digits = np.stack(np.meshgrid(*[np.arange(3.0)] * 6, indexing="ij"), axis=-1).reshape(-1, 6, 1)
    outputs = np.random.default_rng(0).standard_normal((729, 1))
    model = memorizing_ssm(digits, outputs, 6, method=method)
    assert np.abs(model(digits) - outputs).max() < 1e-5
    A = rationals(model.A[:6, :6])  # the columns beyond are zero
    assert not np.any(model.A[:, 6:]) and not np.any(np.linalg.matrix_power(A, 6))


@pytest.mark.parametrize("method", ["gap", "sorted", "winner_take_all", "shift_register"])
@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_the_unit_of_the_inputs_does_not_matter(method: str, unit: float) -> None:
    inputs, outputs = data(20, 3, 3, sphere=True)
    model, other = (memorizing_ssm(x, outputs, 3, method=method) for x in (inputs, unit * inputs))
    assert np.abs(other(unit * inputs) - outputs).max() < 1e-9
    assert 0.01 < other.condition / model.condition < 100


def test_inputs_that_are_not_finite_have_no_states() -> None:
    inputs, outputs = data(5, 2, 3)
    for wrong in (np.nan, np.inf):
        with pytest.raises(ValueError, match="inputs: finite"):
            memorizing_ssm(inputs, outputs, 2).hidden(inputs * wrong)


@pytest.mark.parametrize("spread", [7, 33, 100])
def test_corners_are_corners_in_any_units(spread: int) -> None:
    """Columns scaled by powers of two, up to 2^200 apart: the same windows are singled out, or the same one is not."""
    random = np.random.default_rng(spread)
    for draw in range(20):
        windows = random.standard_normal((12, 3, 2 + draw % 3))
        windows[:, 0, 1] = 3.0  # a constant has no spread
        alternating = np.where(np.indices(windows.shape[1:]).sum(axis=0) % 2, 2.0**spread, 2.0**-spread)
        for scale in (alternating, 2.0 ** random.integers(-spread, spread + 1, windows.shape[1:])):
            try:
                separators(windows)
            except NotACorner as inside:
                with pytest.raises(NotACorner) as refused:
                    separators(windows * scale)
                assert refused.value.window == inside.window
                continue
            functionals, thresholds = separators(windows * scale)
            scores = (windows * scale).reshape(12, -1) @ functionals.T - thresholds
            assert np.allclose(np.diag(scores), 1, atol=1e-9)
            np.fill_diagonal(scores, -1)
            assert scores.max() <= -1 + 1e-9


@pytest.mark.parametrize("method", ["auto", "winner_take_all", "shift_register", "gap", "sorted", "paper"])
@pytest.mark.parametrize("ratio", [1e3, 1e10, 1e-16])
def test_inputs_in_mixed_units_are_memorised(method: str, ratio: float) -> None:
    inputs, outputs = data(12, 3, 2)
    model = memorizing_ssm(inputs * [1.0, ratio], outputs, 3, method)
    assert model.residual < 1e-12 * max(1.0, model.condition)
    assert model.method == ("winner_take_all" if method == "auto" else method)


@pytest.mark.parametrize("method", [*ANY_DATA, "winner_take_all", "shift_register"])
@pytest.mark.parametrize("unit", [1e-300, 1e-170, 1e-155, 1e155, 1e200, 1e306])
def test_tiny_and_huge_inputs_are_memorised_as_well(method: str, unit: float) -> None:
    inputs, outputs = data(12, 3, 2)
    for neurons in (12, 14):
        model, plain = (memorizing_ssm(x, outputs, 3, method, hidden_size=neurons) for x in (unit * inputs, inputs))
        assert np.abs(model(unit * inputs) - outputs).max() < 1e-11
        assert 0.01 < model.condition / plain.condition < 100
    # moderate inputs are taken as they are, so that no weight of theirs depends on a unit
    for power in (16, -160, 320):
        moved = memorizing_ssm(2.0**power * inputs, outputs, 3, method)
        plain = memorizing_ssm(inputs, outputs, 3, method)
        assert np.array_equal(moved.B * 2.0**power, plain.B)
        assert all(np.array_equal(getattr(moved, name), getattr(plain, name)) for name in ("left", "right", "b", "C"))


def test_windows_too_close_for_one_hot_features_are_memorised_otherwise() -> None:
    close = np.array([[[1.0]], [[1 + 3e-16]]])
    model = memorizing_ssm(close, [[1.0], [2.0]], 1)
    assert (model.method, model.residual) in [("gap", 0.0), ("sorted", 0.0)]
    with pytest.raises(ValueError, match="close to separate them in float64; try methods 'gap' and 'sorted'"):
        memorizing_ssm(close, [[1.0], [2.0]], 1, "winner_take_all")
    close = 1 + 1e-7 * data(3, 1, 2)[0]
    with pytest.raises(ValueError, match="close to separate them in float32; try float64 or methods 'gap'"):
        memorizing_ssm(close, np.eye(3), 1, "winner_take_all", dtype=np.float32)
    with pytest.raises(ValueError, match="close to separate them in float32"):  # sparse outputs have no other way
        memorizing_ssm(close, csr_array(np.eye(3)), 1, dtype=np.float32)


def test_of_two_ways_out_the_better_one_is_kept() -> None:
    """Windows that differ by few roundings of float32; both other ways are taken with the same random numbers."""
    chosen = set()
    for draw in range(25):
        inputs, outputs = data(10, 2, 6, seed=draw)
        inputs = 1 + 4e-7 * inputs
        random, others = np.random.default_rng(draw), {}
        try:
            memorizing_ssm(inputs, outputs, 2, "winner_take_all", dtype=np.float32, seed=random)
            continue
        except ValueError as error:
            assert "too close" in str(error)
        for method in ("gap", "sorted"):
            try:
                others[method] = memorizing_ssm(inputs, outputs, 2, method, dtype=np.float32, seed=random).residual
            except ValueError:
                others[method] = np.inf
        if min(others.values()) == np.inf:
            with pytest.raises(ValueError, match=r"sorted: windows .* rounding in float32 are allowed"):
                memorizing_ssm(inputs, outputs, 2, dtype=np.float32, seed=draw)
            continue
        model = memorizing_ssm(inputs, outputs, 2, dtype=np.float32, seed=draw)
        assert model.residual == min(others.values()) == others[model.method]
        chosen.add(model.method)
    assert chosen == {"gap", "sorted"}


@pytest.mark.parametrize("method", [*ANY_DATA, "winner_take_all", "shift_register"])
def test_what_a_method_cannot_do_is_said_under_its_name(method: str) -> None:
    line = np.arange(5.0)[:, None, None] * np.ones((2, 1))  # not one corner but the ends
    if method in ("winner_take_all", "shift_register"):
        with pytest.raises(NotACorner, match=f"^{method}: sequence . lies in the convex hull"):
            memorizing_ssm(line, np.eye(5), 2, method, hidden_size=7)
    close = np.array([[[1.0]], [[1 + 3e-16]]])
    if method in ("paper", "shift_register"):
        with pytest.raises(ValueError, match=f"^{method}: .* allowed"):
            memorizing_ssm(close, np.eye(2), 1, method)
    with pytest.raises(ValueError, match=r"^(gap|sorted|paper|winner_take_all|shift_register): .*float32"):
        memorizing_ssm(1e-60 * data(5, 1, 3)[0], np.eye(5), 1, method, dtype=np.float32)
