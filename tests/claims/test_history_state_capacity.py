"""What a state of a given size carries: Gaussian, finite, rounded, noisy; and where Theorem 5.2 needs more."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import betainc, entr
from scipy.stats import norm

from experiments.history_states.behaviour import BinaryExpansionCopier, QuantisedState
from lib.information import gaussian_mutual_information
from lib.models import SequenceModel, create
from lib.models.attention.transformer import LearnedPositionTransformer
from lib.models.scoring import sequence_probabilities
from lib.processes import LinearRNN
from lib.processes.discrete.tables import information_of_table
from lib.report import claims
from lib.theory.history import canonical_correlations, counted_history_state_size, history_state_size
from lib.training import multiply_adds
from tests.experiments.history_states.test_behaviour import shift_register


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
    with pytest.raises(ValueError, match="first, second: indices of a covariance"):
        canonical_correlations([[1, 0], [0, 1]], [0], [2])


def copied(half: int, bits: int | None = None) -> float:
    """Nats between the halves of what the copier writes, its state rounded to `bits` if given."""
    copier = BinaryExpansionCopier(half)
    model = copier if bits is None else QuantisedState(copier, bits)
    return information_of_table(sequence_probabilities(model, 2 * half).reshape(2**half, -1))


@pytest.mark.parametrize("bits", [1, 2, 3])
def test_rounded_digits_carry_at_most_their_bits_and_one_for_the_token(bits: int) -> None:
    values = [copied(half, bits) for half in range(1, 9)]
    claims.check("l2m-thm52", values, at_most=(bits + 1) * np.log(2) + 1e-12)
    with pytest.raises(claims.ClaimFailed):  # as written they carry more
        claims.check("l2m-thm52", copied(8), at_most=(bits + 1) * np.log(2) + 1e-12)


def test_a_smooth_entropy_is_refuted_by_digits_and_not_by_what_it_allows() -> None:
    """H(Y | z) = 0 for every z in (-1, 1): K_f = 2, K_H = 0, and with epsilon = 1 the proof allows ln 4 + ln 2."""
    named = np.log(4) + 0.0 + np.log(2)
    said = {"at_most": named, "outcome": "false", "erratum": 20, "remark": True, "note": "noise, smooth laws"}
    claims.check("l2m-thm52", copied(4), **said)
    for within in (copied(3), copied(8, bits=1)):
        with pytest.raises(claims.ClaimFailed):
            claims.check("l2m-thm52", within, **said)


@given(st.integers(1, 200), st.integers(0, 10**6))
def test_an_exact_number_gives_back_all_its_digits(count: int, seed: int) -> None:
    bits = np.random.default_rng(seed).integers(0, 2, count)
    number = sum((Fraction(2 * int(bit) - 1, 2**place) for place, bit in enumerate(bits, 1)), Fraction(0))
    found = []
    for _ in range(count):
        found.append(int(number > 0))
        number = 2 * number - (1 if number > 0 else -1)
    assert found == bits.tolist() and number == 0


@pytest.mark.parametrize("snr", [3.0, 100.0])
def test_digits_read_through_noise_stay_below_both_bounds_and_without_it_do_not(snr: float) -> None:
    z = (2 * np.arange(2**8) + 1) / 2**8 - 1
    sigma = np.sqrt(np.mean(z**2) / snr)
    read = np.linspace(-1 - 9 * sigma, 1 + 9 * sigma, 8001)
    density = norm.pdf(read, z[:, None], sigma).mean(axis=0)
    noisy = np.trapezoid(entr(density), read) - 0.5 * np.log(2 * np.pi * np.e * sigma**2)
    cells = np.arange(1, 200)
    smooth = (np.log(cells) + 1 / (2 * cells**2 * sigma**2)).min()
    claims.check("l2m-thm52", noisy, at_most=min(smooth, 0.5 * np.log1p(snr)))
    with pytest.raises(claims.ClaimFailed):
        claims.check("l2m-thm52", copied(8), at_most=min(smooth, 0.5 * np.log1p(snr)))


@pytest.mark.parametrize(("dimension", "error"), [(2, 0.5), (3, 0.0), (8, 0.5), (24, 0.3)])
def test_directions_are_at_most_as_many_as_caps_and_a_crowd_is_refused(dimension: int, error: float) -> None:
    half = np.arccos(error) / 2
    most = -np.log(0.5 * betainc((dimension - 1) / 2, 0.5, np.sin(half) ** 2))
    chosen: list[np.ndarray] = []
    for v in np.random.default_rng(0).normal(size=(3000, dimension)):
        v = v / np.linalg.norm(v)
        if not chosen or np.abs(np.array(chosen) @ v).max() <= error:
            chosen.append(v)
    claims.check("l2m-directions", np.log(max(len(chosen), dimension)), at_most=most)  # axes are orthogonal
    cosines = np.abs(np.array(chosen) @ np.array(chosen).T - np.eye(len(chosen)))
    claims.check("l2m-directions", cosines.max(), at_most=error + 1e-12, remark=True)
    with pytest.raises(claims.ClaimFailed):  # one direction more, next to one that is there
        near = chosen[0] + 0.1 * chosen[-1]
        claims.check("l2m-directions", chosen[0] @ near / np.linalg.norm(near), at_most=error, remark=True)
    if dimension < 4:
        with pytest.raises(claims.ClaimFailed):  # all that were drawn, however near to each other
            claims.check("l2m-directions", np.log(3000), at_most=most)
    if dimension == 2:
        assert np.exp(most) == pytest.approx(2 * np.pi / (2 * half))  # arcs on a circle


def test_a_capable_series_grows_as_the_information_and_a_slower_one_has_no_room() -> None:
    """Texts of two halves of four bits, the second of which repeats the last k of the first: registers of one bit."""

    def kept(width: int) -> float:
        model = QuantisedState(shift_register(width), bits=1)
        law = sequence_probabilities(model, 8, first=np.full((2,) * 4, 1 / 16))
        return float(information_of_table(law.reshape(16, 16)))

    for k in (2, 3, 4):
        claims.check("l2m-thm54", kept(k), at_least=k * np.log(2) - 1e-5)
        with pytest.raises(claims.ClaimFailed):  # a neuron fewer has no room for the last of them
            claims.check("l2m-thm54", kept(k - 1), at_least=k * np.log(2) - 1e-5)
    said = {"at_least": 0.76, "outcome": "false", "erratum": 20, "remark": True, "note": "every fixed precision"}

    def growth(model: Callable[[int], SequenceModel]) -> float:
        held = [counted_history_state_size(model(bits), bits) for bits in (2, 32)]
        return float(np.log(held[1] / held[0]) / np.log(16))

    claims.check("l2m-thm54", growth(BinaryExpansionCopier), **said)  # one exact number, whatever the length
    with pytest.raises(claims.ClaimFailed, match="agrees with the paper"):
        claims.check("l2m-thm54", growth(shift_register), **said)


def test_the_state_of_screening_does_not_grow_and_that_of_full_attention_does() -> None:
    def counted(name: str, **options: int) -> list[int]:
        return [counted_history_state_size(create(name, 4, 6, **options), length) for length in (10, 40)]

    screened, whole = counted("rel_rnn", buffer=3, relevant=2), counted("mem_rnn")
    claims.check("kerg-screening", screened, np.full(2, screened[0]), 0)
    with pytest.raises(claims.ClaimFailed):
        claims.check("kerg-screening", whole, np.full(2, whole[0]), 0)


def test_a_wider_mamba_is_dearer_than_linear_by_the_square_of_its_state() -> None:
    widths = np.array([32, 64, 128])
    models = [create("mamba", 4, int(width)) for width in widths]
    work = [multiply_adds(model, [3])[0] for model in models]
    state = [history_state_size(model, 4) for model in models]
    power = np.log(work[2] / work[1]) / np.log(state[2] / state[1])  # c ~ (dim z)^2, less what is linear in it
    claims.check("l2m-ssm-cost", 1 + 0.76 * power, at_least=2.0)
    deeper = [create("mamba", 4, 32, depth) for depth in (2, 8)]
    power = np.log(multiply_adds(deeper[1], [3])[0] / multiply_adds(deeper[0], [3])[0]) / np.log(4)
    claims.check("l2m-ssm-cost", 1 + 0.76 * power, at_least=1.7, at_most=1.9)
    with pytest.raises(claims.ClaimFailed):
        claims.check("l2m-ssm-cost", 1 + 0.76 * power, at_least=2.0)


def test_the_networks_have_the_sizes_of_their_names_and_gpt2_medium_not_that_of_the_table() -> None:
    with torch.device("meta"):
        small, medium = (
            LearnedPositionTransformer(50257, width, depth, longest=1024) for width, depth in ((768, 12), (1024, 24))
        )
    count = [
        sum(x.numel() for x in m.parameters()) - sum(x.numel() for x in m.head.parameters()) for m in (small, medium)
    ]
    assert count[0] == 124_439_808  # of the published network
    said = {"relative": True, "outcome": "misprint", "erratum": 42}
    claims.check("l2m-sizes", count[1] / 1e6, 355.0, 0.01, printed=255.0, **said)
    with pytest.raises(claims.ClaimFailed):
        claims.check("l2m-sizes", count[1] / 1e6, 255.0, 0.01, printed=355.0, **said)
    with pytest.raises(claims.ClaimFailed):
        claims.check("l2m-sizes", count[0] / 1e6, 355.0, 0.01, printed=255.0, **said)


def hidden_markov(states: int, symbols: int, length: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Distribution of sequences, (K^(L/2), K^(L/2)), and joint distribution of past tokens and the state at the cut."""
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


@given(st.floats(0.1, 0.999), st.floats(0.02, 3.0))
def test_a_law_that_is_lipschitz_in_divergence_repairs_it(rho: float, epsilon: float) -> None:
    """I <= H(cell) + max KL within a cell: for AR(1), cells of width 2 epsilon, KL <= rho^2 eps^2 / 2(1 - rho^2)."""
    edges = np.arange(-12, 12 + 2 * epsilon, 2 * epsilon)
    p = np.diff(norm.cdf(edges))
    p = p[p > 0]
    bound = -p @ np.log(p) + rho**2 * epsilon**2 / (2 * (1 - rho**2))
    assert -0.5 * np.log1p(-rho * rho) <= bound + 1e-9
