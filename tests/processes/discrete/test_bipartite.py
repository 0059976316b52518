"""Finite-state sources: exact two-point and bipartite information against enumeration, claims with controls."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lib.processes import CopyTask, IdenticalTokens, IsingChain, MarkovChain, RepetitiveSequence
from lib.processes.discrete.lagged_sum import LaggedSum
from lib.processes.discrete.markov import stationary_distribution
from lib.processes.discrete.santa_fe import SantaFeProcess
from lib.processes.discrete.tables import block_lengths, information_of_deviation, information_of_table
from lib.report import claims

WEATHER = [[0.7, 0.2, 0.1], [0.3, 0.4, 0.3], [0.1, 0.4, 0.5]]
CYCLE = [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]


def random_chain(seed: int, size: int) -> MarkovChain:
    return MarkovChain(np.random.default_rng(seed).dirichlet(np.full(size, 0.5), size=size))


def enumerated(joint: np.ndarray, split: int) -> float:
    """I(first split symbols; the others) of a table of all sequences."""
    return float(information_of_table(joint.reshape(joint.shape[0] ** split, -1)))


@pytest.mark.parametrize("chain", [MarkovChain(WEATHER), MarkovChain(CYCLE), random_chain(1, 4), random_chain(2, 2)])
def test_bipartite_information_of_a_chain_is_that_of_one_step_at_every_split(chain: MarkovChain) -> None:
    for length in range(2, 7):
        joint = chain.joint_distribution(length)
        assert joint.sum() == pytest.approx(1.0)
        for split in range(1, length):
            assert chain.bipartite_mutual_information(length, split) == pytest.approx(
                enumerated(joint, split), abs=1e-12
            )


def test_a_hidden_chain_is_no_markov_chain_and_its_halves_share_more_than_neighbours() -> None:
    """Negative control: one-step information does not bound the bipartite one of a source with hidden state."""
    process, length = RepetitiveSequence(0.2), 8
    forward = process.initial_distribution[None]
    for _ in range(length):
        forward = np.einsum("sa,iab->sib", forward, process.emission).reshape(-1, 3)
    joint = forward.sum(axis=1).reshape((2,) * length)
    assert enumerated(joint, 4) > 1.2 * float(process.mutual_information(1))


@pytest.mark.parametrize("lag", [0, 1, 2, 5, 6])
def test_two_point_information_is_that_of_the_marginal_of_all_sequences(lag: int) -> None:
    for chain in (MarkovChain(WEATHER), MarkovChain(CYCLE), random_chain(3, 3)):
        joint = chain.joint_distribution(lag + 1)
        table = joint.reshape(3, -1, 3).sum(axis=1) if lag else np.diag(joint)
        assert chain.mutual_information(lag) == pytest.approx(float(information_of_table(table)), abs=1e-13)


def test_lags_may_come_in_any_order_and_shape() -> None:
    chain = MarkovChain(WEATHER)
    lags = np.array([[7, 0, 1], [1, 30, 2]])
    single = [[float(chain.mutual_information(int(lag))) for lag in row] for row in lags]
    np.testing.assert_allclose(chain.mutual_information(lags), single, rtol=1e-12)
    assert chain.mutual_information([]).shape == (0,)


@pytest.mark.parametrize("lag", [1, 10, 100, 500])
def test_tiny_information_keeps_its_digits(lag: int) -> None:
    with mpmath.workdps(900):
        matrix = mpmath.matrix([[mpmath.mpf(x) for x in row] for row in MarkovChain(WEATHER).transition.tolist()])
        for i in range(3):
            matrix[i, 2] = 1 - matrix[i, 0] - matrix[i, 1]
        law = (matrix ** (2**12))[0, :]
        power = matrix**lag
        expected = mpmath.fsum(
            law[a] * power[a, b] * mpmath.log(power[a, b] / law[b]) for a in range(3) for b in range(3)
        )
    assert MarkovChain(WEATHER).mutual_information(lag) == pytest.approx(float(expected), rel=1e-11, abs=1e-320)


def test_a_chain_of_small_probabilities_has_its_stationary_law_to_every_digit() -> None:
    tiny = 1e-12
    law = stationary_distribution([[1 - tiny, tiny], [0.5, 0.5]])
    p = Fraction(tiny)
    assert law[1] == pytest.approx(float(p / (p + Fraction(1, 2))), rel=1e-14)


@given(st.integers(0, 10**6), st.integers(1, 6))
def test_the_stationary_law_stays_and_information_never_grows_with_the_lag(seed: int, size: int) -> None:
    chain = random_chain(seed, size)
    np.testing.assert_allclose(chain.initial @ chain.transition, chain.initial, atol=1e-13)
    curve = chain.mutual_information(np.arange(12))
    assert np.all(curve >= 0.0)
    assert np.all(np.diff(curve) <= 1e-12)


def test_transient_states_have_no_probability() -> None:
    chain = MarkovChain([[0.5, 0.25, 0.25], [0.0, 0.3, 0.7], [0.0, 0.6, 0.4]])
    assert chain.initial[0] == 0.0
    inner = MarkovChain([[0.3, 0.7], [0.6, 0.4]])
    np.testing.assert_allclose(chain.mutual_information([0, 1, 5]), inner.mutual_information([0, 1, 5]))


def test_a_periodic_chain_never_forgets() -> None:
    np.testing.assert_allclose(MarkovChain(CYCLE).mutual_information([0, 1, 2, 1000]), np.log(3))


FAR = [1, 10**6, 10**9, 10**12, 10**15, 2**62]
TWO_WORLDS = [[0.9, 0.1, 0, 0], [0.2, 0.8, 0, 0], [0, 0, 0.5, 0.5], [0, 0, 0.5, 0.5]]
RARE_WORLD = [[0.9, 0.1, 0], [0.2, 0.8, 0], [0, 0, 1]]


@pytest.mark.parametrize(
    ("chain", "lags", "kept"),
    [
        (MarkovChain(CYCLE), FAR, np.log(3)),
        (MarkovChain(np.eye(5), np.full(5, 0.2)), FAR, np.log(5)),
        (MarkovChain(TWO_WORLDS, [0.2, 0.1, 0.35, 0.35]), FAR[1:], -0.3 * np.log(0.3) - 0.7 * np.log(0.7)),
        (
            MarkovChain(RARE_WORLD, [2e-9 / 3, 1e-9 / 3, 1 - 1e-9]),
            FAR[1:],
            -1e-9 * np.log(1e-9) - (1 - 1e-9) * np.log1p(-1e-9),
        ),
        (
            MarkovChain(TWO_WORLDS, [0.9995 * 2 / 3, 0.9995 / 3, 0.00025, 0.00025]),
            FAR[1:],
            -0.0005 * np.log(0.0005) - 0.9995 * np.log(0.9995),
        ),
    ],
    ids=["cycle", "identity", "two classes", "a rare class", "a class that nearly all are in"],
)
def test_what_never_fades_is_kept_at_every_distance(chain: MarkovChain, lags: list[int], kept: float) -> None:
    """The phase of a cycle, and the class of a reducible chain: rounding must not grow with the lag."""
    np.testing.assert_allclose(chain.mutual_information(lags), kept, rtol=1e-10)


@pytest.mark.parametrize("lag", [10**6, 10**9, 3 * 10**9, 10**10])
def test_a_cycle_that_slips_rarely_fades_at_its_own_rate(lag: int) -> None:
    """P = (1 - p) S + p 1/3 for the shift S: P^t = (1 - p)^t S^t + (1 - (1 - p)^t)/3, with p = 2^-30."""
    with mpmath.workdps(40):
        kept = (1 - mpmath.mpf(2) ** -30) ** lag
        same, other = (1 + 2 * kept) / 3, (1 - kept) / 3
        expected = same * mpmath.log(3 * same) + 2 * other * mpmath.log(3 * other)
    chain = MarkovChain((1 - 2.0**-30) * np.roll(np.eye(3), 1, axis=1) + 2.0**-30 / 3, np.full(3, 1 / 3))
    assert chain.mutual_information(lag) == pytest.approx(float(expected), rel=1e-13 if lag <= 3 * 10**9 else 1e-5)


@pytest.mark.parametrize("convert", [np.float32, np.float16, lambda p: torch.tensor(p, dtype=torch.bfloat16)])
def test_narrow_floats_are_probabilities_to_their_own_rounding(convert: Callable) -> None:
    weather, start = convert([[0.9, 0.1], [0.2, 0.8]]), convert([2 / 3, 1 / 3])
    chain = MarkovChain(weather, start)
    np.testing.assert_allclose(chain.transition.sum(axis=1), 1.0, rtol=1e-15)
    np.testing.assert_allclose(chain.initial, [2 / 3, 1 / 3], rtol=4e-3)
    assert information_of_table(np.float32(1.0000002) * np.full((2, 2), 0.25, np.float32)) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: MarkovChain([[0.3, 0.7 + 1e-7], [0.2, 0.8]]), "to within 1e-09, row 0 has 1.0000001$"),
        (lambda: MarkovChain(np.float32([[0.3, 0.7 + 1e-6], [0.2, 0.8]])), "to within 4.77e-07, row 0 has 1.00000"),
        (lambda: MarkovChain([[0.9, 0.1], [0.2, 0.8]], [2 / 3, 1 / 3 + 1e-7]), "within 1e-09 are .* sum 1.0000001$"),
        (lambda: information_of_table([[0.5, 0.5 + 1e-7]]), "within 1e-09 is .* sum 1.0000001$"),
    ],
)
def test_a_wrong_sum_is_told_with_its_digits_and_the_tolerance(build: Callable, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.parametrize("given", ["ragged", "masked"])
@pytest.mark.parametrize(
    "read",
    [
        SantaFeProcess(0.5).log_probabilities,
        LaggedSum().next_symbol_distribution,
        CopyTask(1, recall=1).symbol_times,
        lambda phase: RepetitiveSequence(0.5).sample(1, 1, 1, phase=phase),
    ],
)
def test_ragged_and_masked_symbols_are_refused(read: Callable, given: str) -> None:
    symbols = [[0, 1, 0], [1]] if given == "ragged" else np.ma.masked_equal([[0, 1, 0]], 1)
    with pytest.raises(ValueError, match=r"^\w+: .*(ragged|masked)"):
        read(symbols)


@pytest.mark.parametrize("exponent", [0.01, 0.3, 0.99])
def test_rare_topics_keep_their_logarithm(exponent: float) -> None:
    with mpmath.workdps(50):
        weights = [mpmath.mpf(k) ** (-1 / mpmath.mpf(exponent)) for k in range(1, 4097)]
        expected = [float(mpmath.log(weights[k] / sum(weights) / 2)) for k in (0, 1, 4095)]
    measured = SantaFeProcess(exponent).log_probabilities([[0], [2], [8190]])
    np.testing.assert_allclose(measured[:, 0], expected, rtol=1e-13)


@pytest.mark.parametrize("size", [2, 5])
def test_samples_of_a_chain_have_its_pairs(size: int) -> None:
    chain, n = random_chain(size, size), 100_000
    sample = chain.sample(n, 4, 9)
    assert sample.dtype == np.uint8
    for lag in (1, 3):
        expected = chain.initial[:, None] * np.linalg.matrix_power(chain.transition, lag)
        counts = np.bincount(sample[:, 0].astype(int) * size + sample[:, lag], minlength=size**2).reshape(size, size)
        assert np.all(np.abs(counts / n - expected) <= 5 * np.sqrt(expected * (1 - expected) / n))


def test_impossible_symbols_are_never_drawn() -> None:
    chain = MarkovChain([[0.0, 0.9, 0.1, 0.0], [0.1, 0.0, 0.9, 0.0], [0.3, 0.7, 0.0, 0.0], [0.2, 0.2, 0.2, 0.4]])
    sample = chain.sample(50, 2000, 3).astype(int)
    assert sample.max() == 2
    assert np.all(np.diff(sample, axis=1) != 0)
    cycle = MarkovChain(CYCLE).sample(5, 30, 1).astype(int)
    assert np.all(np.diff(cycle, axis=1) % 3 == 1)


def test_rows_depend_on_the_seed_alone() -> None:
    chain = MarkovChain(WEATHER)
    np.testing.assert_array_equal(chain.sample(7, 11, 4)[:3], chain.sample(3, 11, np.random.default_rng(4)))
    large = MarkovChain(np.full((300, 300), 1 / 300)).sample(2, 50, 0)
    assert large.dtype == np.uint16
    assert large.max() > 255


@pytest.mark.parametrize("size", [1, 2, 5])
def test_identical_tokens_share_ln_m_by_enumeration_and_as_a_chain(size: int) -> None:
    source, chain = IdenticalTokens(size), MarkovChain(np.eye(size), np.full(size, 1 / size))
    for length in range(2, 6):
        joint = np.zeros((size,) * length)
        joint[(np.arange(size),) * length] = 1 / size
        np.testing.assert_allclose(chain.joint_distribution(length), joint)
        for split in range(1, length):
            exact = enumerated(joint, split)
            assert exact == pytest.approx(np.log(size), abs=1e-14)
            assert source.bipartite_mutual_information(length, split) == pytest.approx(exact, abs=1e-14)
            assert chain.bipartite_mutual_information(length, split) == pytest.approx(exact, abs=1e-14)
    lags = [0, 1, 2, 10**6]
    np.testing.assert_allclose(source.mutual_information(lags), np.log(size))
    np.testing.assert_allclose(chain.mutual_information(lags), np.log(size), atol=1e-14)


def test_identical_tokens_are_identical_and_uniform() -> None:
    sample = IdenticalTokens(300).sample(60_000, 3, 8)
    assert sample.dtype == np.uint16
    assert np.all(sample == sample[:, :1])
    counts = np.bincount(sample[:, 0], minlength=300)
    assert np.all(np.abs(counts - 200) < 6 * np.sqrt(200))


def test_claim_about_identical_tokens_fails_for_another_vocabulary_and_for_shuffled_tokens() -> None:
    size, n = 5, 4000
    sample = IdenticalTokens(size).sample(n, 6, 1)

    def estimate(left: np.ndarray, right: np.ndarray) -> float:
        weights = size ** np.arange(left.shape[1])
        codes = left.astype(int) @ weights * size ** right.shape[1] + right.astype(int) @ weights
        counts = np.bincount(codes, minlength=size ** (left.shape[1] + right.shape[1]))
        return float(information_of_table(counts.reshape(size ** left.shape[1], -1) / n))

    tolerance = 5 * (size - 1) / n
    two_point, bipartite = estimate(sample[:, :1], sample[:, 5:]), estimate(sample[:, :3], sample[:, 3:])
    claims.check("l2m-identical", [two_point, bipartite], np.log(size), tolerance)
    shuffled = np.random.default_rng(0).permutation(sample)
    for wrong in (np.log(size + 1), estimate(sample[:, :3], shuffled[:, 3:]), estimate(sample[:, :1], shuffled[:, 5:])):
        with pytest.raises(claims.ClaimFailed):
            claims.check("l2m-identical", wrong, np.log(size), tolerance)
    almost = MarkovChain(0.99 * np.eye(size) + 0.01 / size, np.full(size, 1 / size))
    with pytest.raises(claims.ClaimFailed):
        claims.check("l2m-identical", almost.mutual_information([1, 100]), np.log(size), 1e-3)


def test_an_ising_chain_has_one_bipartite_value() -> None:
    chain = IsingChain(1.0, 0.7, 0.2).markov_chain()
    np.testing.assert_allclose(chain.bipartite_mutual_information([2, 10, 1000]), chain.mutual_information(1))


@given(st.floats(-0.2, 0.2))
def test_deviation_form_equals_the_plain_sum(deviation: float) -> None:
    rows, columns = np.array([0.4, 0.6]), np.array([0.5, 0.5])
    table = np.outer(rows, columns) + deviation * np.array([[1, -1], [-1, 1]])
    with mpmath.workdps(800):
        exact_table = [
            [
                mpmath.mpf(float(r)) / 1 * mpmath.mpf(float(c)) + s * mpmath.mpf(deviation)
                for c, s in zip(columns, signs, strict=True)
            ]
            for r, signs in zip(rows, [[1, -1], [-1, 1]], strict=True)
        ]
        exact = float(
            mpmath.fsum(
                entry * mpmath.log(entry / (mpmath.mpf(float(r)) * mpmath.mpf(float(c)))) if entry > 0 else 0
                for row, r in zip(exact_table, rows, strict=True)
                for entry, c in zip(row, columns, strict=True)
            )
        )
    measured = float(information_of_deviation(deviation * np.array([[1, -1], [-1, 1]]), rows, columns))
    assert measured == pytest.approx(exact, rel=1e-12, abs=1e-300)
    if np.all(table >= 0):
        assert float(information_of_table(table)) == pytest.approx(exact, abs=1e-14)


def test_blocks_default_to_halves_and_broadcast() -> None:
    first, second = block_lengths([2, 5, 8], None)
    np.testing.assert_array_equal(first, [1, 2, 4])
    np.testing.assert_array_equal(second, [1, 3, 4])
    assert IdenticalTokens(3).bipartite_mutual_information([[4], [6]], [1, 2, 3]).shape == (2, 3)


@pytest.mark.parametrize(
    "transition",
    [[[0.5, 0.5]], [[0.5, 0.6], [0.5, 0.5]], [[1.5, -0.5], [0.5, 0.5]], [[np.nan, 1], [0, 1]], "P", [], np.eye(2)],
)
def test_bad_transitions_are_refused(transition: object) -> None:
    with pytest.raises(ValueError, match="transition"):
        MarkovChain(transition)  # type: ignore[arg-type]


@pytest.mark.parametrize("initial", [[0.5, 0.5], [1.0], [0.9, 0.2], [np.nan, 1.0], [1.5, -0.5]])
def test_a_law_that_moves_is_refused(initial: list[float]) -> None:
    with pytest.raises(ValueError, match="initial"):
        MarkovChain([[0.9, 0.1], [0.5, 0.5]], initial)


def test_bad_requests_are_refused() -> None:
    chain, source = MarkovChain(WEATHER), IdenticalTokens(3)
    for call in (
        lambda: chain.mutual_information(-1),
        lambda: source.mutual_information([0.5]),
        lambda: chain.bipartite_mutual_information(1),
        lambda: chain.bipartite_mutual_information(4, 4),
        lambda: source.bipartite_mutual_information(4, 0),
        lambda: source.bipartite_mutual_information([4, 5], [1, 2, 3]),
        lambda: source.bipartite_mutual_information(4.0),
        lambda: chain.joint_distribution(0),
        lambda: chain.joint_distribution(40),
        lambda: chain.sample(0, 1, 0),
        lambda: source.sample(1, 0, 0),
        lambda: source.sample(1, 1, -5),
        lambda: IdenticalTokens(0),
        lambda: IdenticalTokens(2.5),
        lambda: information_of_table([[0.5, 0.6], [0.0, 0.0]]),
        lambda: information_of_table([0.5, 0.5]),
    ):
        with pytest.raises(ValueError, match=r"allowed|match"):
            call()


def test_a_transition_may_be_a_tensor_and_what_is_no_real_number_is_refused() -> None:
    parameter = torch.nn.Parameter(torch.tensor([[0.75, 0.25], [0.25, 0.75]]))
    chain = MarkovChain(parameter.bfloat16(), parameter.mean(dim=0))
    assert chain.mutual_information(3) == MarkovChain(parameter.tolist()).mutual_information(3)
    for bad in (np.eye(2) + 0j, [["1", "0"], ["0", "1"]], np.ma.array(np.eye(2), mask=np.eye(2)), 10**400):
        with pytest.raises(ValueError, match=r"^transition: "):
            MarkovChain(bad)  # type: ignore[arg-type]
    for bad in ([0.5 + 1j, 0.5], ["0.5", "0.5"], np.ma.array([0.5, 0.5], mask=[1, 0]), [None, 1.0]):
        with pytest.raises(ValueError, match=r"^initial: "):
            MarkovChain(parameter, bad)  # type: ignore[arg-type]


def test_lengths_beyond_63_bits_are_refused_as_they_were_given() -> None:
    for arguments in ((2**63,), (8, 2**63)):
        with pytest.raises(ValueError, match="got 9223372036854775808"):
            MarkovChain(WEATHER).bipartite_mutual_information(*arguments)


def test_a_table_of_one_symbol_is_no_view_of_the_chain() -> None:
    chain = MarkovChain([[0.9, 0.1], [0.5, 0.5]])
    before = chain.mutual_information(1)
    chain.joint_distribution(1)[:] = 0.5
    assert chain.mutual_information(1) == before and np.allclose(chain.joint_distribution(1), [5 / 6, 1 / 6])
