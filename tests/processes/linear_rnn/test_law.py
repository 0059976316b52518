"""Linear RNNs as Gaussian processes: every number against the definition, in more digits or by brute force."""

from __future__ import annotations

import warnings
from typing import Any

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lib.processes.linear_rnn.information import information_of
from lib.processes.linear_rnn.law import LinearRNN
from lib.report import claims
from lib.theory import linear_rnn as theory
from lib.theory.linear_rnn import generating_function

ONE = np.ones((1, 1))


def random_system(d: int, m: int, radius: float, seed: int, initial: Any = "origin") -> LinearRNN:
    """Random weights whose pair matrix has the given spectral radius; initial "random" is a full covariance."""
    generator = np.random.default_rng(seed)
    W, U, O = (generator.standard_normal(shape) for shape in ((m, d), (m, m), (d, m)))  # noqa: E741
    scale = radius / LinearRNN(W, U, O, 1.0).spectral_radius
    if isinstance(initial, str) and initial == "random":
        root = generator.standard_normal((m + d, m + d))
        initial = root @ root.T
    return LinearRNN(scale * W, scale * U, scale * O, 0.7, initial)


def precise_information(system: LinearRNN, lags: list[int], digits: int = 60) -> list[Any]:
    """The determinant formula of Eq. 8 in many digits, state by state."""
    with mpmath.workdps(digits):
        m, n = system.hidden_size, len(system.transition_matrix)
        step = mpmath.matrix(system.transition_matrix.tolist())
        covariance = mpmath.matrix(system.initial_covariance.tolist())
        noise = mpmath.matrix(n)
        for output in range(m, n):
            noise[output, output] = mpmath.mpf(system.noise_variance)
        cross, first, result = covariance[:, m:n], covariance[m:n, m:n], {}
        for lag in range(1, max(lags) + 1):
            covariance, cross = step * covariance * step.T + noise, step * cross
            if lag in lags:
                seen, later = cross[m:n, :], covariance[m:n, m:n]
                explained = mpmath.inverse(first) * seen.T * mpmath.inverse(later) * seen
                result[lag] = -mpmath.log(mpmath.det(mpmath.eye(n - m) - explained)) / 2
        return [result[lag] for lag in lags]


@pytest.mark.parametrize("initial", ["origin", "stationary", "random"])
@pytest.mark.parametrize(("d", "m"), [(1, 1), (1, 3), (2, 2), (3, 2)])
def test_covariances_are_those_of_the_unrolled_process(d: int, m: int, initial: str) -> None:
    system = random_system(d, m, 0.8, seed=d + 10 * m, initial=initial)
    joint = theory.joint_covariance(system.W, system.U, system.O, 0.7, system.initial_covariance, 6)
    lags = np.arange(7)
    blocks = joint[m:, m : m + d].reshape(7, d, d)
    assert np.allclose(system.cross_covariance(lags), blocks, rtol=1e-12, atol=1e-14)
    diagonal = [joint[m + t * d : m + t * d + d, m + t * d : m + t * d + d] for t in lags]
    assert np.allclose(system.covariance(lags), diagonal, rtol=1e-12)
    start = system.initial_covariance[:, m:]
    recursion = theory.cross_covariances(system.W, system.U, system.O, start[:m], start[m:], 6)
    assert np.allclose(system.cross_covariance(lags), recursion, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("radius", [0.3, 0.97, 1.0, 1.3, 2.5])
@pytest.mark.parametrize("initial", ["origin", "random"])
@pytest.mark.parametrize(("d", "m"), [(1, 2), (2, 2), (3, 4)])
def test_information_keeps_its_digits_at_every_scale(radius: float, initial: str, d: int, m: int) -> None:
    system = random_system(d, m, radius, seed=3, initial=initial)
    lags = [2, 5, 30, 120]
    precise = precise_information(system, lags, digits=250)
    measured = system.mutual_information(lags)
    errors = [float(abs(value / exact - 1)) for value, exact in zip(measured, precise, strict=True)]
    assert max(errors) < 1e-9


def test_information_is_exact_where_it_is_smaller_than_any_determinant_can_show() -> None:
    system = random_system(2, 2, 0.5, seed=1)
    lags = [20, 100, 300, 490]
    precise = precise_information(system, lags, digits=400)
    assert precise[-1] < mpmath.mpf("1e-290")
    assert max(float(abs(a / b - 1)) for a, b in zip(system.mutual_information(lags), precise, strict=True)) < 1e-11
    naive = theory.mutual_information_by_determinant(
        system.covariance(0), system.covariance(100), system.cross_covariance(100).T
    )
    assert abs(naive) < 1e-14 and abs(naive / float(precise[1]) - 1) > 0.5


@given(d=st.integers(1, 3), m=st.integers(1, 4), radius=st.floats(0.05, 3.0), seed=st.integers(0, 10**6))
def test_many_lags_at_once_equal_one_step_at_a_time(d: int, m: int, radius: float, seed: int) -> None:
    system = random_system(d, m, radius, seed, initial="random")
    state, cross = system.initial_covariance, system.initial_covariance[:, m:]
    noise = np.diag([0.0] * m + [0.7] * d)
    for _ in range(7):
        state = system.transition_matrix @ state @ system.transition_matrix.T + noise
        cross = system.transition_matrix @ cross
    assert np.allclose(system.covariance(7), state[m:, m:], rtol=1e-9)
    assert np.allclose(system.cross_covariance(7), cross[m:], rtol=1e-8, atol=1e-9 * np.abs(cross).max())
    later = LinearRNN(system.W, system.U, system.O, 0.7, system.state_covariance(7))
    assert np.allclose(later.covariance(5), system.covariance(12), rtol=1e-8)


def test_far_lags_are_read_through_several_digits() -> None:
    system = LinearRNN(0.2 * ONE, 0.9999995 * ONE, 1e-7 * ONE, 1.0, np.array([[2.0, 1.0], [1.0, 2.0]]))
    lags = np.array([0, 1, 511, 512, 513, 262143, 262144, 300001, 10**6])
    largest = max(np.linalg.eigvals(system.transition_matrix))
    values = system.cross_covariance(lags)[2:, 0, 0]
    assert np.allclose(values[1:] / values[:-1], largest ** np.diff(lags[2:]), rtol=1e-8)


@given(d=st.integers(1, 3), m=st.integers(1, 3), radius=st.floats(0.05, 1.2), seed=st.integers(0, 10**6))
def test_output_covariance_is_at_least_the_noise(d: int, m: int, radius: float, seed: int) -> None:
    covariances = random_system(d, m, radius, seed).covariance(np.arange(1, 30))
    sizes = np.abs(covariances).max(axis=(1, 2))
    assert np.all(np.linalg.eigvalsh(covariances)[:, 0] >= 0.7 - 1e-13 * sizes)


def test_noise_floor_claim_fails_for_a_larger_floor() -> None:
    smallest = np.linalg.eigvalsh(random_system(2, 2, 0.8, 0).covariance(np.arange(1, 30)))[:, 0]
    claims.check("shen-eq17", smallest, at_least=0.7 - 1e-12)
    with pytest.raises(claims.ClaimFailed):
        claims.check("shen-eq17", smallest, at_least=0.7 * 1.1)


def test_information_at_lag_one_is_zero_from_the_origin_and_positive_in_the_stationary_law() -> None:
    for d, m in ((1, 1), (2, 3)):
        assert random_system(d, m, 0.9, 5).mutual_information(1) == 0.0
        assert random_system(d, m, 0.9, 5, "stationary").mutual_information(1) > 1e-6
    assert random_system(2, 3, 40.0, 5).mutual_information(1) == 0.0


def test_information_at_lag_zero_is_infinite_unless_the_first_output_does_not_vary() -> None:
    assert LinearRNN(ONE, 0.5 * ONE, ONE, 1.0).mutual_information(0) == np.inf
    frozen = LinearRNN(ONE, 0.5 * ONE, ONE, 1.0, np.diag([1.0, 0.0]))
    assert np.array_equal(frozen.mutual_information([0, 3]), [0.0, 0.0])


def test_a_singular_initial_covariance_counts_only_what_varies() -> None:
    initial = np.diag([0.0, 0.0, 1.0, 0.0])
    system = random_system(2, 2, 0.9, 2, initial)
    nearly = random_system(2, 2, 0.9, 2, initial + np.diag([0, 0, 0, 1e-18]))
    assert np.allclose(system.mutual_information([2, 5, 9]), nearly.mutual_information([2, 5, 9]), rtol=1e-6)


def test_stationary_law_does_not_change_in_time() -> None:
    system = random_system(2, 3, 0.95, 4, "stationary")
    assert np.allclose(system.covariance([0, 1, 10, 1000]), system.covariance(0), rtol=1e-11)
    assert np.allclose(system.state_covariance(5), system.initial_covariance, rtol=1e-11)


def test_stationary_law_of_an_unstable_system_is_refused_with_its_spectral_radius() -> None:
    with pytest.raises(ValueError, match=r"spectral radius.*1\.61803"):
        LinearRNN(ONE, ONE, ONE, 1.0, "stationary")


def test_unit_circle_gives_a_power_law() -> None:
    # M = [[0, 1], [1, 0]]: x_t = x_{t-2} + e_t, so I(x_0; x_t) = 1/2 ln(1 + 2 / (sigma^2 t)) at even t
    system = LinearRNN(ONE, 0 * ONE, ONE, 0.5)
    lags = np.array([2, 10, 1000, 10**5])
    assert np.allclose(system.mutual_information(lags), 0.5 * np.log1p(2 / (0.5 * lags)), rtol=1e-12)
    assert np.all(system.mutual_information(lags + 1) == 0.0)
    random_walk = LinearRNN(0.5 * ONE, 0.5 * ONE, ONE, 1.0)  # eigenvalues 1 and -1/2
    far = np.array([10**5, 10**7])
    decline = random_walk.mutual_information(far)
    assert np.isclose(decline[0] / decline[1], 100.0, rtol=1e-3)


def test_unstable_information_tends_to_a_constant_that_is_followed_far() -> None:
    for d, m in ((1, 1), (2, 2)):
        system = random_system(d, m, 1.2, 9)
        far = system.mutual_information([400, 1000, 10**5, 10**9])
        assert far[0] > 1e-3 and np.allclose(far, far[0], rtol=1e-10)
    growing = random_system(2, 2, 1.2, 9)
    with pytest.raises(ValueError, match="leaves the range of float64"):
        growing.covariance([5, 10**5])


def test_two_modes_that_grow_at_different_rates_are_both_remembered() -> None:
    turn = np.array([[0.8, -0.6], [0.6, 0.8]])
    U = turn @ np.diag([1.5, 1.1]) @ turn.T
    system = LinearRNN(0.1 * turn, U, turn.T, 1.0)
    reference = precise_information(system, [200], digits=120)
    assert np.isclose(float(system.mutual_information(200)), float(reference[0]), rtol=1e-10)
    assert np.isclose(system.mutual_information(5000), system.mutual_information(200), rtol=1e-6)


def test_a_growing_mode_that_never_shows_leaves_the_outputs_finite() -> None:
    for d in (1, 2):
        shown = LinearRNN(0.5 * np.eye(2)[:, :d], 0.4 * np.eye(2), np.eye(2)[:d], 1.0)
        hidden_weights = np.block([[shown.U, np.zeros((2, 1))], [0.3 * np.ones((1, 2)), 1.5 * ONE]])
        padded = LinearRNN(np.vstack([shown.W, np.ones((1, d))]), hidden_weights, np.eye(3)[:d], 1.0)
        lags = np.array([0, 1, 2, 10, 100, 5000])
        assert np.allclose(padded.mutual_information(lags), shown.mutual_information(lags), rtol=1e-10, atol=0)
        assert np.allclose(padded.covariance(lags), shown.covariance(lags), rtol=1e-12)
        assert np.allclose(padded.cross_covariance(lags), shown.cross_covariance(lags), rtol=1e-10, atol=1e-15)
        assert padded.mutual_information(1) == 0.0 and padded.state_covariance(50)[2, 2] > 1e10


def test_without_noise_on_a_growing_mode_the_first_output_is_known_better_and_better() -> None:
    initial = np.ones((2, 2))  # h_0 = x_0 exactly, x_t = 1.1^(t-1) x_0 + e_t
    system = LinearRNN(0 * ONE, 1.1 * ONE, ONE, 1.0, initial)
    lags = np.array([1, 2, 20, 100, 300])
    assert np.allclose(system.mutual_information(lags), 0.5 * np.log1p(1.1 ** (2.0 * (lags - 1))), rtol=1e-9)


def test_jordan_block_at_the_dominant_pole_multiplies_the_decay_by_the_square_of_the_lag() -> None:
    # eigenvalues of M: 1/2 twice (z^2 - U z - W O = (z - 1/2)^2), one block
    system = LinearRNN(-0.25 * ONE, ONE, ONE, 1.0)
    lags = np.array([100, 200, 400])
    scaled = system.mutual_information(lags) * 4.0**lags / lags.astype(float) ** 2
    assert np.allclose(scaled, scaled[-1], rtol=0.03) and np.all(np.abs(np.diff(scaled)) > 0)
    plain = system.mutual_information(lags) * 4.0**lags
    assert not np.allclose(plain, plain[-1], rtol=0.5)
    exact = -0.5 * np.log1p(-((lags - 1.0) ** 2) * 0.25 ** lags.astype(float) / system.covariance(lags)[:, 0, 0])
    assert np.allclose(system.mutual_information(lags), exact, rtol=1e-10)  # Cov = -(t - 1) 2^-t


def test_complex_poles_give_near_zeros_under_an_exponential_envelope() -> None:
    angle = 2 * np.pi / 8.1
    system = LinearRNN(-0.81 * ONE, 1.8 * np.cos(angle) * ONE, ONE, 1.0)
    lags = np.arange(2, 800)
    scaled = system.mutual_information(lags) * np.exp(system.decay_rate() * lags)
    assert np.isclose(system.decay_rate(), -2 * np.log(0.9))
    assert scaled[50:].min() < 1e-3 * scaled[50:].max()
    assert np.isclose(scaled[50:425].max(), scaled[425:].max(), rtol=0.01)


def test_decay_rate_is_that_of_the_curve_and_not_that_of_the_printed_poles() -> None:
    system = random_system(2, 2, 0.85, 7, "stationary")
    far = system.mutual_information(np.array([400, 900]))
    measured = float(np.log(far[0] / far[1]) / 500)
    claims.check("shen-linear-decay", measured, system.decay_rate(), 1e-6, relative=True)
    assert np.isclose(system.decay_rate(), -2 * np.log(system.spectral_radius))
    with pytest.raises(claims.ClaimFailed):
        claims.check("shen-linear-decay", measured, system.decay_rate() * 1.01, 1e-6, relative=True)
    claims.check("shen-linear-decay", np.log10(far[0] / far[1]), at_least=5.0)
    with pytest.raises(claims.ClaimFailed):  # the power law of the binary sequences
        claims.check("shen-linear-decay", 0.4 * np.log10(900 / 400), at_least=5.0)


def test_claim_that_the_poles_are_those_of_the_printed_form_or_of_the_hidden_matrix_fails() -> None:
    system = LinearRNN(-0.75 * ONE, 1.5 * ONE, ONE, 1.0)  # stable in truth, unstable as printed
    lags = np.array([300, 600])
    near, far = [np.max(system.mutual_information(lag + np.arange(60))) for lag in lags]
    measured = np.log(near / far) / 300
    claims.check("shen-poles", measured, system.decay_rate(), 0.02, relative=True)
    printed = LinearRNN(system.U @ system.W, system.U, system.O, 1.0)
    assert printed.spectral_radius > 1 > system.spectral_radius
    for wrong in (printed.decay_rate(), -2 * np.log(1.5)):
        with pytest.raises(claims.ClaimFailed):
            claims.check("shen-poles", measured, wrong, 0.02, relative=True)


def test_decay_rate_does_not_depend_on_the_initial_law() -> None:
    for initial in ("origin", "random", "stationary"):
        system = random_system(2, 3, 0.9, 11, initial)
        near, far = system.mutual_information([1500, 2500])
        assert np.isclose(np.log(near / far) / 1000, system.decay_rate(), rtol=1e-2)


def test_a_mode_that_no_output_shows_is_a_pole_but_does_not_set_the_decay_rate() -> None:
    hidden = LinearRNN([[0.5], [0.3]], np.diag([0.4, 0.95]), [[1.0, 0.0]], 1.0)
    silent = LinearRNN([[0.5], [0.0]], np.diag([0.4, 0.95]), [[1.0, 1.0]], 1.0)
    for system in (hidden, silent):
        assert np.isclose(np.abs(system.poles()[0]), 1 / 0.95)
        near, far = system.mutual_information([100, 200])
        assert np.isclose(np.log(near / far) / 100, system.decay_rate(), rtol=1e-6)
        assert system.decay_rate() > -2 * np.log(0.95) + 0.03
        assert np.all(np.isfinite(system.generating_function(1 / 0.95)))


def test_poles_are_reciprocal_eigenvalues_and_leave_out_the_nilpotent_part() -> None:
    system = random_system(2, 3, 0.9, 1)
    eigenvalues = np.linalg.eigvals(system.transition_matrix)
    assert np.allclose(np.sort_complex(1 / system.poles()), np.sort_complex(eigenvalues))
    assert np.all(np.diff(np.abs(system.poles())) > -1e-12)
    shift = LinearRNN([[1.0], [0.0], [0.0]], np.eye(3, k=-1), [[0.0, 0.0, 0.0]], 1.0)
    assert shift.poles().size == 0 and shift.decay_rate() == np.inf
    delay = LinearRNN([[1.0], [0.0], [0.0]], np.eye(3, k=-1), [[0.0, 0.0, 0.5]], 1.0)  # x_t = x_{t-4} / 2 + e_t
    assert np.allclose(np.abs(delay.poles()), 2**0.25) and len(delay.poles()) == 4


@pytest.mark.parametrize("initial", ["origin", "stationary", "random"])
def test_generating_function_sums_the_covariances_and_equals_the_corrected_closed_form(initial: str) -> None:
    system = random_system(2, 3, 0.9, 2, initial)
    points = np.array([[0.3 + 0.4j, -0.9], [0.2j, 1.0]])
    lags = np.arange(2000)
    terms = system.cross_covariance(lags)
    values = system.generating_function(points)
    start = system.initial_covariance[:, 3:]
    for index in np.ndindex(points.shape):
        point = points[index]
        assert np.allclose(values[index], np.tensordot(point**lags, terms, axes=1), rtol=1e-10, atol=1e-12)
        closed = generating_function(system.W, system.U, system.O, start[:3], start[3:], point)
        assert np.allclose(values[index], closed, rtol=1e-10, atol=1e-12)
    if initial != "origin":
        printed = generating_function(system.W, system.U, system.O, start[:3], start[3:], 0.5, "printed")
        assert not np.allclose(system.generating_function(0.5), printed, rtol=1e-2)


def test_generating_function_is_regular_at_the_reciprocal_eigenvalue_of_u_and_refuses_a_pole() -> None:
    initial = np.array([[2.0, 0.5], [0.5, 1.0]])
    system = LinearRNN(ONE, 0.5 * ONE, -0.04 * ONE, 1.0, initial)  # poles at 1/0.4 and 1/0.1, but not at 1/0.5
    value = system.generating_function(2.0)
    assert value.shape == (1, 1) and not np.iscomplexobj(value)
    lags = np.arange(400)
    assert np.isclose(value[0, 0], np.sum(system.cross_covariance(lags)[:, 0, 0] * 2.0**lags), rtol=1e-12)
    nearby = generating_function(system.W, system.U, system.O, 0.5 * ONE, ONE, 2.0 + 1e-6)
    assert np.isclose(value[0, 0], nearby[0, 0].real, rtol=1e-4)
    with pytest.raises(ValueError, match="no pole"):
        LinearRNN(ONE, 0 * ONE, ONE, 1.0).generating_function(1.0)
    for feedback in (0.55, 0.3, 0.123):  # 1 / lambda is rounded, so that the matrix is not exactly singular there
        rounded = LinearRNN(feedback * ONE, 0.15 * ONE, ONE, 1.0)
        for pole in rounded.poles():
            with pytest.raises(ValueError, match="no pole"):
                rounded.generating_function([0.5, pole])
            assert np.all(np.isfinite(rounded.generating_function(pole * (1 + 1e-9))))


def test_stability_of_the_process_and_of_the_hidden_matrix_are_two_things() -> None:
    fed_back = LinearRNN(ONE, 0.9 * ONE, ONE, 1.0)  # U stable, M not
    held_back = LinearRNN(ONE, 1.2 * ONE, -0.4 * ONE, 1.0)  # M stable, U not
    assert fed_back.spectral_radius > 1 > held_back.spectral_radius
    assert held_back.mutual_information(200) < 1e-20 < 1e-3 < fed_back.mutual_information(200)
    lags = 400  # the convolution loses what the pair keeps
    exact = held_back.cross_covariance(lags)[0, 0]
    by_convolution = theory.cross_covariances(held_back.W, held_back.U, held_back.O, 0 * ONE, ONE, lags)[-1][0, 0]
    assert abs(by_convolution / exact - 1) > 1e3


def test_samples_beyond_the_floats_are_refused() -> None:
    growing = LinearRNN(ONE, ONE, ONE, 1.0)  # the golden ratio to the power of the lag
    assert np.all(np.isfinite(growing.sample(2, 1000, 0)))
    with pytest.raises(ValueError, match=r"below 1\.8e308 are allowed \(spectral radius 1\.61803\)"):
        growing.sample(2, 5000, 0)


def test_samples_have_the_covariances_of_the_process() -> None:
    system = random_system(2, 2, 0.8, 6, "random")
    count = 40000
    sequences = system.sample(count, 5, seed=1)
    assert sequences.shape == (count, 5, 2)
    for t in range(5):
        cross = np.einsum("ni,nj->ij", sequences[:, t], sequences[:, 0]) / count
        spread = np.sqrt(np.outer(np.diag(system.covariance(t)), np.diag(system.covariance(0))) * 2 / count)
        assert np.all(np.abs(cross - system.cross_covariance(t)) < 5 * spread)
    assert np.array_equal(sequences, system.sample(count, 5, seed=np.random.default_rng(1)))


def test_biases_move_the_mean_and_nothing_else() -> None:
    W, U, O = [[0.5], [0.2]], [[0.3, 0.1], [0.0, 0.6]], [[1.0, -1.0]]  # noqa: E741
    plain = LinearRNN(W, U, O, 1.0)
    shifted = LinearRNN(W, U, O, 1.0, hidden_bias=[1.0, -2.0], output_bias=[3.0])
    moved = shifted.sample(50, 30, 0) - plain.sample(50, 30, 0)
    assert np.allclose(moved, moved[:1], atol=1e-10) and np.ptp(moved[0]) > 1
    assert np.array_equal(plain.mutual_information(np.arange(9)), shifted.mutual_information(np.arange(9)))


def test_shapes_follow_the_lags() -> None:
    system = random_system(2, 3, 0.9, 1)
    assert system.cross_covariance(3).shape == system.covariance(3).shape == (2, 2)
    assert system.cross_covariance([3, 1]).shape == (2, 2, 2)
    assert system.mutual_information([[3, 1, 2]]).shape == (1, 3)
    assert np.ndim(system.mutual_information(3)) == 0
    assert system.mutual_information([]).shape == (0,) and system.covariance([]).shape == (0, 2, 2)
    assert np.array_equal(system.covariance(0), np.eye(2)) and np.array_equal(system.cross_covariance(0), np.eye(2))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"U": np.ones((2, 3))}, r"U \(2, 3\)"),
        ({"W": np.ones((3, 1))}, r"W \(3, 1\)"),
        ({"O": np.ones((2, 2))}, r"O \(2, 2\)"),
        ({"U": [1.0, 2.0]}, "U: finite"),
        ({"W": [[np.nan], [1.0]]}, "NaN"),
        ({"W": [[1j], [1.0]]}, "W: "),
        ({"noise_variance": 0.0}, "> 0"),
        ({"noise_variance": -1.0}, "> 0"),
        ({"noise_variance": np.nan}, "finite"),
        ({"initial": "zero"}, "'origin', 'stationary'"),
        ({"initial": np.eye(2)}, r"\(3, 3\)"),
        ({"initial": np.diag([1.0, 1.0, -1.0])}, "correlations have the eigenvalue -1"),
        ({"initial": np.triu(np.ones((3, 3)))}, "symmetric"),
        ({"initial": np.full((3, 3), np.nan)}, "NaN"),
        ({"hidden_bias": [1.0]}, "hidden_bias"),
    ],
)
def test_bad_systems_are_refused(change: dict[str, Any], message: str) -> None:
    good: dict[str, Any] = {"W": [[0.1], [0.2]], "U": 0.5 * np.eye(2), "O": [[1.0, 1.0]], "noise_variance": 1.0}
    LinearRNN(**good)
    with pytest.raises(ValueError, match=message):
        LinearRNN(**(good | change))


@pytest.mark.parametrize("lags", [-1, [3, -2], 1.5, [1, np.nan], "1", True])
def test_bad_lags_are_refused(lags: Any) -> None:
    system = LinearRNN(ONE, 0.5 * ONE, ONE, 1.0)
    for method in (system.mutual_information, system.covariance, system.cross_covariance):
        with pytest.raises(ValueError, match="whole numbers"):
            method(lags)


def test_bad_points_and_counts_are_refused() -> None:
    system = LinearRNN(ONE, 0.5 * ONE, ONE, 1.0)
    for bad in (np.nan, np.inf, "z"):
        with pytest.raises(ValueError, match="finite"):
            system.generating_function(bad)
    for arguments in ((0, 5, 0), (5, 0, 0), (5, 5, -1)):
        with pytest.raises(ValueError, match="at least"):
            system.sample(*arguments)


@pytest.mark.parametrize("power", [-30, -18, 18, 30])
def test_nothing_depends_on_the_units_of_the_hidden_state_and_of_the_outputs(power: int) -> None:
    hidden, output, z = 2.0**power, 2.0 ** (-power // 2), 0.3
    plain = random_system(2, 2, 0.8, 7, "random")
    units = np.repeat([hidden, output], 2)
    initial = plain.initial_covariance * units * units[:, None]
    W, U, O = plain.W * hidden / output, plain.U, plain.O * output / hidden  # noqa: E741
    scaled = LinearRNN(W, U, O, plain.noise_variance * output**2, initial)
    assert scaled.decay_rate() == pytest.approx(plain.decay_rate(), rel=1e-10)
    np.testing.assert_allclose(scaled.poles(), plain.poles(), rtol=1e-10)
    np.testing.assert_allclose(scaled.generating_function(z) / output**2, plain.generating_function(z), rtol=1e-9)
    np.testing.assert_allclose(scaled.mutual_information([1, 2, 9]), plain.mutual_information([1, 2, 9]), rtol=1e-9)


@pytest.mark.parametrize("power", [7, 20, 26])
def test_outputs_may_have_units_of_their_own(power: int) -> None:
    unit, half = np.diag([1.0, 2.0**-power]), 0.5 * np.eye(2)  # of the second output
    start = np.diag([0.0, 0.0, 1.0, 4.0**-power])
    scaled = LinearRNN(half @ np.linalg.inv(unit), half, half, 1.0, start)
    single = LinearRNN(0.5 * ONE, 0.5 * ONE, 0.5 * ONE, 1.0)
    # each output passes through a hidden neuron of its own, and no noise has come back by lag 2: two copies of a system
    assert scaled.mutual_information(2) == pytest.approx(2 * single.mutual_information(2), rel=1e-9)


def test_weights_may_be_tensors_and_are_copied() -> None:
    weights = torch.nn.Parameter(torch.tensor([[0.5, 0.25], [0.125, 0.5]]))
    start, bias = np.eye(4), np.zeros(2)
    system = LinearRNN(weights, weights.bfloat16(), weights.double(), 1.0, start, hidden_bias=bias)
    plain = LinearRNN(*[weights.detach().numpy()] * 3, 1.0, np.eye(4))
    start[:], bias[:] = 7.0, 7.0
    with torch.no_grad():
        weights[:] = 7.0
    assert np.array_equal(system.mutual_information([1, 2, 9]), plain.mutual_information([1, 2, 9]))
    assert np.array_equal(system.initial_covariance, np.eye(4)) and not np.any(system.hidden_bias)


@pytest.mark.parametrize("bad", [torch.ones(1, 1) * 1j, [["1"]], np.ma.masked_all((1, 1)), [[10**400]], None])
def test_weights_that_are_no_real_numbers_are_refused_by_name(bad: Any) -> None:
    for name in ("W", "U", "O", "initial"):
        with pytest.raises(ValueError, match=f"^{name}: "):
            LinearRNN(**{"W": ONE, "U": ONE, "O": ONE, "noise_variance": 1.0, name: bad})


@pytest.mark.parametrize("powers", [[-60] * 3, [200] * 3, [0, 27, -27], [40, -100, 3]])
@pytest.mark.parametrize("initial", ["stationary", "given"])
def test_each_coordinate_of_the_hidden_state_may_have_a_unit_of_its_own(powers: list[int], initial: str) -> None:
    """h -> D h with powers of two changes no output, and no digit of what is computed of them."""
    w = np.array([[0.3, 0.1], [0.2, -0.3], [0.1, 0.2]])
    u = np.array([[0.5, 0.1, 0.0], [0.0, 0.4, 0.1], [0.1, 0.0, 0.3]])
    o = np.array([[0.3, -0.2, 0.1], [0.1, 0.6, 0.2]])
    law = LinearRNN(w, u, o, 1.0, "stationary").initial_covariance

    def found(unit: np.ndarray) -> np.ndarray:
        both = np.append(unit, [1.0, 1.0])
        start = "stationary" if initial == "stationary" else law * both * both[:, None]
        rnn = LinearRNN(unit[:, None] * w, unit[:, None] * u / unit, o / unit, 1.0, start)
        return np.asarray(rnn.mutual_information([1, 2, 3]))

    np.testing.assert_allclose(found(np.exp2(powers)), found(np.ones(3)), rtol=1e-12)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("initial", ["origin", "given"])
def test_the_units_of_a_growing_hidden_state_change_nothing_between_several_outputs(seed: int, initial: str) -> None:
    """h -> D h of an unstable system whose outputs are two or three, D over twelve decades."""
    random = np.random.default_rng(seed)
    m, d = int(random.integers(2, 5)), int(random.integers(2, 4))
    w, u, o = (random.standard_normal(shape) for shape in ((m, d), (m, m), (d, m)))
    half = random.standard_normal((m + d, m + d))
    law = half @ half.T

    def found(unit: np.ndarray) -> np.ndarray:
        both = np.append(unit, np.ones(d))
        start = "origin" if initial == "origin" else law * both * both[:, None]
        rnn = LinearRNN(unit[:, None] * w, unit[:, None] * u / unit, o / unit, 1.0, start)
        assert rnn.spectral_radius > 1
        return np.asarray(rnn.mutual_information([1, 2, 3, 7, 20, 60]))

    units = 10.0 ** random.uniform(-6, 6, m)
    np.testing.assert_allclose(found(units), found(np.ones(m)), rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("unit", [1.0, 1e-3, 1e-6, 1e3])
def test_a_correlation_beyond_one_is_refused_in_any_unit(unit: float) -> None:
    law = np.array([[unit**2, 5 * unit], [5 * unit, 1.0]])
    with pytest.raises(ValueError, match=r"correlations have the eigenvalue -4"):
        LinearRNN([[0.0]], [[0.0]], [[1.0]], 1.0, law)
    law[0, 1] = law[1, 0] = 0.5 * unit
    LinearRNN([[0.0]], [[0.0]], [[1.0]], 1.0, law)
    with pytest.raises(ValueError, match="semidefinite"):
        LinearRNN([[0.0]], [[0.0]], [[1.0]], 1.0, [[0.0, 1e-6], [1e-6, 1.0]])  # of what does not vary


def test_points_may_be_tensors() -> None:
    system = LinearRNN(ONE, 0.5 * ONE, ONE, 1.0)
    for z in (0.25, 0.25j):
        tensor = torch.tensor([z], requires_grad=True)
        assert np.array_equal(system.generating_function(tensor), system.generating_function([z]))
    for bad in (np.ma.array([0.1, 0.2], mask=[0, 1]), np.timedelta64(1), torch.tensor(True)):
        with pytest.raises(ValueError, match=r"^z: "):
            system.generating_function(bad)


@pytest.mark.parametrize("power", [9, 12, 20])
@pytest.mark.parametrize("size", [1, 3])
def test_a_coupling_far_below_the_growth_of_the_hidden_state_is_followed(power: int, size: int) -> None:
    growing = np.diag(10.0 ** np.linspace(0, power, size + 1)[1:])
    system = LinearRNN(0.4 * np.ones((size, 1)), growing, 0.4 * np.ones((1, size)), 1.0)
    exact = [float(value) for value in precise_information(system, [2, 3, 5], digits=400)]
    assert np.allclose(system.mutual_information([2, 3, 5]), exact, rtol=1e-12)


def test_a_weak_coupling_to_the_outputs_leaves_the_decay_rate() -> None:
    assert LinearRNN(1e-13 * ONE, 0.5 * ONE, 1e-13 * ONE, 1.0).decay_rate() == pytest.approx(2 * np.log(2))


@pytest.mark.parametrize("unit", [1e60, 1e140, 1e-140, 1e-200])
def test_units_far_apart_change_nothing_and_warn_of_nothing(unit: float) -> None:
    far, plain = (LinearRNN(0.4 * unit * ONE, 0.5 * ONE, 0.4 / unit * ONE, 1.0) for unit in (unit, 1.0))
    with warnings.catch_warnings(action="error"):
        assert far.decay_rate() == pytest.approx(plain.decay_rate())
        assert np.allclose(far.mutual_information([2, 3]), plain.mutual_information([2, 3]), rtol=1e-12)


def test_units_too_far_apart_are_refused_with_their_scale() -> None:
    system = (4e199 * ONE, 0.5 * ONE, 4e-201 * ONE, 1.0)
    with pytest.raises(ValueError, match=r"at t = 2.*up to 4e\+199"):
        LinearRNN(*system).mutual_information([0, 1, 2, 3])
    with pytest.raises(ValueError, match=r"initial.*up to 4e\+199"):
        LinearRNN(*system, "stationary")


@pytest.mark.parametrize(
    ("inputs", "outputs"),
    [([[0.0], [0.25]], [[1.0, 1.0]]), ([[1.0], [0.25]], [[0.0, 1.0]])],
    ids=["not excited", "not seen"],
)
def test_a_growing_mode_keeps_information_only_if_it_is_excited_and_seen(inputs, outputs):
    growing = [[2.0, 0.0], [0.0, 0.5]]
    hidden = LinearRNN(inputs, growing, outputs, 1.0, "origin")
    rate = hidden.decay_rate()
    assert hidden.spectral_radius == 2.0 and rate > 0
    near, far = hidden.mutual_information([30, 40])
    assert np.log(near / far) / 10 == pytest.approx(rate, rel=1e-3) and far < 1e-6
    shown = LinearRNN([[1.0], [0.25]], growing, [[1.0, 1.0]], 1.0, "origin")
    assert shown.decay_rate() < 0
    modulus = shown.spectral_radius
    assert shown.mutual_information(40) == pytest.approx(0.5 * np.log(modulus**2), rel=1e-6)  # v = sigma^2 = 1


def test_noise_outgrows_a_growing_mode_if_the_start_hides_a_faster_one_from_the_first_output():
    weights = ([[1.0], [0.5]], [[1.6, 0.0], [0.0, 1.2]], [[0.3, 0.4]], 1.0)
    plain = LinearRNN(*weights, "origin")
    values, left = np.linalg.eig(np.asarray(plain.transition_matrix).T)
    order = np.argsort(-np.abs(values))
    fast, slow, row = np.abs(values[order[0]]), np.abs(values[order[1]]), np.real(left[:, order[0]])
    cross = -row[2] / row[0]  # of h and x at the start: the fastest mode has no covariance with x_0
    start = np.array([[50.0, 0.0, cross], [0.0, 50.0, 0.0], [cross, 0.0, 1.0]])
    hidden = LinearRNN(*weights, initial=start)
    near, far = hidden.mutual_information([20, 30])
    assert np.log(near / far) / 10 == pytest.approx(2 * np.log(fast / slow), rel=0.01)
    near, far = plain.mutual_information([20, 30])  # from h_0 = 0 it does not decay
    assert far >= near > 0.5


def test_a_growing_pair_at_a_rational_angle_gives_a_cycle_that_can_be_constant():
    turning = LinearRNN([[1.0], [0.0]], [[0.375, -1.9125], [1.0, 0.0]], [[-0.3375, 0.84375]], 1.0, "origin")
    values = np.linalg.eigvals(np.asarray(turning.transition_matrix))
    assert np.sort(values.imag) == pytest.approx([-1.5, 0.0, 1.5])
    assert np.ptp(turning.mutual_information(np.arange(40, 52))) < 1e-6
    signs = LinearRNN([[1.0], [0.0]], [[0.9, 1.0], [1.0, 0.0]], [[1.25, -2.025]], 1.0, "origin")  # 1.5 and -1.5
    even, odd = signs.mutual_information([60, 61])
    assert signs.mutual_information([80, 81]) == pytest.approx([even, odd], rel=1e-4) and abs(even - odd) > 0.1


def test_a_singular_start_of_two_outputs_hides_a_faster_mode_from_h_0_zero():
    weights = ([[1.0, 0.3], [0.5, -0.8]], [[1.6, 0.0], [0.0, 1.2]], [[0.3, 0.4], [0.15, 0.2]], 1.0)
    values, left = np.linalg.eig(np.asarray(LinearRNN(*weights).transition_matrix).T)
    seen = np.real(left[2:, np.argmax(np.abs(values))])  # what of x_0 excites the fastest mode
    across = np.array([-seen[1], seen[0]]) / np.linalg.norm(seen)
    start = np.zeros((4, 4))
    start[2:, 2:] = np.outer(across, across)
    hidden = LinearRNN(*weights, initial=start)
    near, far = hidden.mutual_information([20, 30])
    assert hidden.decay_rate() < 0 and far < 1e-3 * near
    start[2:, 2:] += 0.01 * np.eye(2)  # a little of all, and it is kept
    near, far = LinearRNN(*weights, initial=start).mutual_information([20, 30])
    assert far == pytest.approx(near, rel=0.1) and far > 1e-3


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("initial", ["origin", "eye"])
def test_information_is_finite_where_its_squared_correlations_are_not(d: int, initial: str) -> None:
    """Correlations over noise reach 1e155 at lag 2, and their square leaves the floats."""
    start = 1e-290 * np.eye(2 * d) if initial == "eye" else initial
    gains = np.array([[1e10, 3e9], [2e9, 1e10]])[:d, :d]
    system = LinearRNN(gains, 0.5 * np.eye(d), np.eye(d) + 0.2 * np.eye(d)[::-1] * (d > 1), 1e-290, start)
    lags = [2, 3, 5]
    exact = np.array([float(value) for value in precise_information(system, lags, digits=900)])
    assert exact.max() > (350 if initial == "origin" else 20)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.allclose(system.mutual_information(lags), exact, rtol=1e-7 if d > 1 else 1e-13, atol=0)


@pytest.mark.parametrize("size", [-100, -3, 0, 2, 5, 20, 160])
@pytest.mark.parametrize(("d", "r"), [(1, 1), (1, 3), (2, 1), (2, 2), (3, 2), (2, 3)])
def test_information_of_a_whitened_signal_keeps_its_digits_whether_large_or_small(d: int, r: int, size: int) -> None:
    """1/2 ln det(1 + S* N^-1 S) in many digits; rows of S are up to twenty powers of ten apart."""
    random = np.random.default_rng(d + 10 * r)
    signals = 10.0 ** (size - 10 * np.arange(d)[:, None]) * random.standard_normal((4, d, r))
    roots = 0.4 * random.standard_normal((4, d, d)) + 2 * np.eye(d)
    noises = np.einsum("kij,klj->kil", roots, roots)
    exact = []
    with mpmath.workdps(900):
        for signal, noise in zip(signals, noises, strict=True):
            S, N = mpmath.matrix(signal.tolist()), mpmath.matrix(noise.tolist())
            exact.append(float(mpmath.log(mpmath.det(mpmath.eye(r) + S.T * mpmath.inverse(N) * S)) / 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = information_of(signals, noises)
    assert np.allclose(found, exact, rtol=1e-12, atol=0)
    assert np.allclose(information_of(signals.astype(complex), noises.astype(complex)), exact, rtol=1e-12, atol=0)


@pytest.mark.parametrize("d", [1, 2])
def test_noise_that_has_left_the_floats_leaves_no_information_behind(d: int) -> None:
    noise = np.stack([np.eye(d), 0.0 * np.eye(d), np.eye(d)])
    noise[1, 0, 0] = d - 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = information_of(np.ones((3, d, 1)), noise)
    assert np.isnan(found[1]) and np.allclose(found[[0, 2]], 0.5 * np.log1p(d), rtol=1e-14)
