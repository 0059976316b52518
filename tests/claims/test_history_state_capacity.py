"""What a state of a given size carries: Gaussian, finite, rounded, noisy; and where Theorem 5.2 needs more."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from lib.information import gaussian_mutual_information
from lib.processes import LinearRNN
from lib.processes.discrete.tables import information_of_table
from lib.report import claims
from lib.theory.history import canonical_correlations, quantised_autoregression_information


def network(m: int, d: int, seed: int) -> LinearRNN:
    random = np.random.default_rng(seed)
    W, U, O = random.normal(size=(m, d)), random.normal(size=(m, m)), random.normal(size=(d, m))  # noqa: E741
    radius = np.abs(np.linalg.eigvals(np.block([[U, W], [O, np.zeros((d, d))]]))).max()
    return LinearRNN(W / radius, 0.9 * U / radius, 0.8 * O, 1.0)


def joint(source: LinearRNN, length: int) -> np.ndarray:
    """Covariance of (h_0, x_0), (h_1, x_1), ...: (length (m+d), length (m+d))."""
    M = source.transition_matrix
    blocks = [[None] * length for _ in range(length)]
    for i in range(length):
        for j in range(i + 1):
            blocks[i][j] = np.linalg.matrix_power(M, i - j) @ source.state_covariance(j)
            blocks[j][i] = blocks[i][j].T
    return np.block(blocks)


def groups(m: int, d: int, cut: int, length: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Indices in `joint` of the tokens up to `cut`, of the state (h, x) at `cut`, and of the tokens after it."""
    tokens = np.arange(length * (m + d)).reshape(length, m + d)
    return tokens[: cut + 1, m:].ravel(), tokens[cut], tokens[cut + 1 :, m:].ravel()


@given(st.integers(1, 3), st.integers(1, 3), st.integers(0, 50))
def test_a_linear_rnn_has_at_most_m_plus_d_canonical_correlations(m: int, d: int, seed: int) -> None:
    length, cut = 8, 3
    covariance = joint(network(m, d, seed), length)
    past, _, future = groups(m, d, cut, length)
    assert np.all(canonical_correlations(covariance, past, future)[m + d :] < 1e-7)


def test_the_hidden_state_alone_is_not_enough_and_with_the_token_it_is() -> None:
    m, d, length, cut = 2, 2, 12, 6
    covariance = joint(network(m, d, 0), length)
    past, state, future = groups(m, d, cut, length)
    correlations = canonical_correlations(covariance, past, future)
    assert correlations[m + d - 1] > 1e-4 > 1e-9 > correlations[m + d]  # the bound m of the hidden state fails
    whole = gaussian_mutual_information(covariance, past, future)
    np.testing.assert_allclose(gaussian_mutual_information(covariance, state, future), whole, rtol=1e-9)
    assert gaussian_mutual_information(covariance, state[:m], future) < 0.999 * whole
    np.testing.assert_allclose(-0.5 * np.log1p(-(correlations**2)).sum(), whole, rtol=1e-12)


def test_canonical_correlations_of_two_variables_are_their_correlation() -> None:
    np.testing.assert_allclose(canonical_correlations([[4, -1.2], [-1.2, 1]], [0], [1]), [0.6])
    for wrong in ([[1, 2], [2, 1]], [[0, 0], [0, 1]]):
        if wrong[0][0] == 0:
            with pytest.raises(ValueError, match="positive definite"):
                canonical_correlations(wrong, [0], [1])
    with pytest.raises(ValueError, match="covariance"):
        canonical_correlations([[1, 0], [0, 1]], [0], [2])


@pytest.mark.parametrize(("rho", "bits"), [(0.0, 1), (0.3, 1), (-0.7, 2), (0.95, 2), (0.99, 3)])
def test_rounded_autoregression_agrees_with_adaptive_quadrature(rho: float, bits: int) -> None:
    edges = norm.ppf(np.arange(2**bits + 1) / 2**bits)
    width = np.sqrt(1 - rho**2)

    def integrand(y: float) -> float:
        p = np.diff(norm.cdf((edges - rho * y) / width))
        p = p[p > 0]
        return -norm.pdf(y) * float(p @ np.log(p))

    places = sorted({float(e / rho) for e in edges[1:-1] if rho and abs(e / rho) < 9})
    doubt = quad(integrand, -9, 9, points=places or None, limit=400, epsabs=1e-11)[0]
    np.testing.assert_allclose(
        quantised_autoregression_information(rho, bits), bits * np.log(2) - doubt, rtol=0, atol=1e-9
    )


@given(st.floats(-0.999, 0.999), st.integers(1, 5))
def test_rounding_loses_information_and_bounds_it_by_its_bits(rho: float, bits: int) -> None:
    rounded = quantised_autoregression_information(rho, bits)
    assert -1e-12 <= rounded <= min(bits * np.log(2), -0.5 * np.log1p(-rho * rho)) + 1e-12
    assert rounded <= quantised_autoregression_information(rho, bits + 1) + 1e-12


def test_without_rounding_one_number_exceeds_every_bound() -> None:
    """The negative control of the corrected claim: the printed form, a constant for all continuous states, fails."""
    rho = 1 - 1e-6
    unbounded = -0.5 * np.log1p(-rho * rho)
    for bits in (1, 2, 4):
        rounded = quantised_autoregression_information(rho, bits)
        claims.check("l2m-thm52", rounded, at_most=bits * np.log(2), outcome="misprint", erratum=20, printed=unbounded)
        with pytest.raises(claims.ClaimFailed):
            claims.check("l2m-thm52", unbounded, at_most=bits * np.log(2))


@pytest.mark.parametrize(("rho", "bits"), [(1.0, 1), (-1.5, 1), (float("nan"), 1), (0.5, 0), (0.5, 11), (0.5, True)])
def test_bad_coefficients_and_bits_are_refused(rho: float, bits: int) -> None:
    with pytest.raises(ValueError, match="allowed"):
        quantised_autoregression_information(rho, bits)


def hidden_markov(states: int, symbols: int, length: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Law of all sequences, (K^(L/2), K^(L/2)), and joint law of past tokens and the state at the cut."""
    random = np.random.default_rng(seed)
    transition = random.dirichlet(np.full(states, 0.2), size=states)
    emission = random.dirichlet(np.full(symbols, 0.2), size=states)
    forward = np.full((1, states), 1 / states)  # (histories, state)
    for step in range(length):
        if step == length // 2:
            cut = forward
        forward = (forward[:, None] * emission.T).reshape(-1, states) @ transition
    return forward.sum(axis=1).reshape(symbols ** (length // 2), -1), cut


@pytest.mark.parametrize("states", [1, 2, 3])
@pytest.mark.parametrize("seed", range(5))
def test_finite_states_carry_at_most_the_logarithm_of_their_number(states: int, seed: int) -> None:
    law, cut = hidden_markov(states, 3, 8, seed)
    captured, carried = information_of_table(law), information_of_table(cut)
    p = cut.sum(axis=0)
    entropy = -np.sum(p[p > 0] * np.log(p[p > 0]))
    assert captured <= carried + 1e-12
    assert carried <= entropy + 1e-12 <= np.log(states) + 2e-12


def test_a_bound_with_too_few_states_fails() -> None:
    law = np.eye(9) / 9  # a copier of two tokens of three kinds: nine states
    assert information_of_table(law) <= np.log(9) + 1e-12
    with pytest.raises(claims.ClaimFailed):
        claims.check("l2m-thm52", information_of_table(law), at_most=np.log(8))


def test_a_constant_entropy_of_the_future_bounds_nothing() -> None:
    """The Lipschitz proof: H(Y | z) = 0 for every z has Lipschitz constant 0, and one ball covers all states."""
    law = np.eye(4) / 4  # z in {0, 1/3, 2/3, 1}, Y = z
    radius, lipschitz_constant = 0.5, 0.0
    printed = np.log(1) + lipschitz_constant * radius  # ln(balls) + K_H epsilon
    assert printed == 0 < information_of_table(law)


@given(st.floats(0.1, 0.999), st.floats(0.02, 3.0))
def test_a_law_that_is_lipschitz_in_divergence_repairs_it(rho: float, epsilon: float) -> None:
    """I <= H(cell) + max KL within a cell: for AR(1), cells of width 2 epsilon, KL <= rho^2 eps^2 / 2(1 - rho^2)."""
    edges = np.arange(-12, 12 + 2 * epsilon, 2 * epsilon)
    p = np.diff(norm.cdf(edges))
    p = p[p > 0]
    bound = -p @ np.log(p) + rho**2 * epsilon**2 / (2 * (1 - rho**2))
    assert -0.5 * np.log1p(-rho * rho) <= bound + 1e-9
