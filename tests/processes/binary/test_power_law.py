"""Binary sequences with power-law memory: law, limits, samples and negative controls."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import xlogy

from lib.processes import PowerLawBinary, sign_correlation, sign_mutual_information

LN_2 = float(np.log(2.0))


def estimated(sequences: NDArray[np.uint8], lag: int) -> float:
    """Plug-in mutual information of the pairs at a lag, written out."""
    first, second = sequences[:, : sequences.shape[1] - lag].ravel(), sequences[:, lag:].ravel()
    table = np.bincount(2 * first.astype(np.int64) + second, minlength=4).reshape(2, 2) / first.size
    marginal = xlogy(table.sum(0), table.sum(0)).sum() + xlogy(table.sum(1), table.sum(1)).sum()
    return float(xlogy(table, table).sum() - marginal)


def row_spread(sequences: NDArray[np.uint8], lag: int) -> float:
    """Standard error of the mean agreement P(equal), from rows, which are independent."""
    return float((sequences[:, lag:] == sequences[:, :-lag]).mean(axis=1).std() / np.sqrt(len(sequences)))


@given(st.integers(1, 5000), st.just(0.0) | st.floats(1e-200, 0.1), st.floats(0.01, 1.0), st.booleans())
def test_law_is_equation_46_at_every_lag(length: int, amplitude: float, exponent: float, exact: bool) -> None:
    process = PowerLawBinary(length, amplitude, exponent, exact)
    lags = np.unique(np.linspace(0, length - 1, 30).astype(int))
    correlation = np.asarray(process.correlation(lags))
    assert correlation[0] == 1.0
    np.testing.assert_array_equal(process.mutual_information(lags), sign_mutual_information(correlation))
    beyond = lags[1:].astype(float)
    if exact:
        np.testing.assert_allclose(process.mutual_information(lags[1:]), amplitude * beyond**-exponent, rtol=1e-11)
    else:
        leading = 2.0 * correlation[1:] ** 2 / np.pi**2
        np.testing.assert_allclose(leading, amplitude * beyond**-exponent, rtol=1e-12)


def test_equation_47_tends_to_the_power_law_and_the_printed_constant_does_not() -> None:
    process = PowerLawBinary(10**6, 0.1, 0.4)
    lag = 10**6 - 1
    target = 0.1 * lag**-0.4
    assert process.mutual_information(lag) == pytest.approx(target, rel=2e-3)
    printed = sign_mutual_information(np.sqrt(0.1 / (2 * np.pi)) * lag**-0.2)
    other = sign_mutual_information(np.sqrt(0.1 / 2) * np.pi**-1 * lag**-0.2)
    assert printed < target / 20
    assert other < target / 20


def test_equation_47_overshoots_at_lag_one_and_the_exact_law_does_not() -> None:
    with mpmath.workdps(40):
        u = 2 / mpmath.pi * mpmath.asin(mpmath.pi * mpmath.sqrt(mpmath.mpf("0.05")))
        expected = float(u * mpmath.atanh(u) + mpmath.log(1 - u * u) / 2)
    assert PowerLawBinary(10, 0.1, 0.4).mutual_information(1) == pytest.approx(expected, rel=1e-13)
    assert 1.28 < expected / 0.1 < 1.29
    assert PowerLawBinary(10, 0.1, 0.4, exact=True).mutual_information(1) == pytest.approx(0.1, rel=1e-12)


def test_lags_keep_their_shape_and_lag_zero_is_ln_2() -> None:
    process = PowerLawBinary(20)
    assert process.mutual_information(0) == LN_2
    assert np.asarray(process.mutual_information([[1, 2], [3, 4]])).shape == (2, 2)
    assert np.asarray(process.mutual_information([])).shape == (0,)
    assert process.mutual_information(3.0) == process.mutual_information(3)
    assert PowerLawBinary(1).mutual_information([0]) == [LN_2]


@pytest.mark.parametrize("exact", [False, True])
def test_samples_have_the_mutual_information_of_the_law(exact: bool) -> None:
    process = PowerLawBinary(256, 0.1, 0.4, exact)
    sample = process.sample(8000, 3)
    assert sample.dtype == np.uint8
    assert sample.shape == (8000, 256)
    assert set(np.unique(sample)) == {0, 1}
    for lag in (1, 2, 7, 40, 200):
        agreement = (sample[:, lag:] == sample[:, :-lag]).mean()
        expected = 0.5 + np.arcsin(process.correlation(lag)) / np.pi
        error = row_spread(sample, lag)
        assert abs(agreement - expected) < 4.5 * error
        # dI / dP = ln(P / (1 - P)) for a symmetric table: the same bound in nats, and second order for the marginals.
        bound = 5.0 * error * np.log(expected / (1.0 - expected)) + 1e-3 * process.mutual_information(lag)
        assert abs(estimated(sample, lag) - process.mutual_information(lag)) < bound


def test_another_exponent_and_shuffled_sequences_fail_the_same_bound() -> None:
    process = PowerLawBinary(256, 0.1, 0.4)
    sample = process.sample(8000, 3)
    wrong = PowerLawBinary(256, 0.1, 0.5)
    error = row_spread(sample, 40)
    assert abs((sample[:, 40:] == sample[:, :-40]).mean() - 0.5 - np.arcsin(wrong.correlation(40)) / np.pi) > 10 * error
    shuffled = np.random.default_rng(0).permuted(sample, axis=0)  # rows mixed, place by place: no memory left
    for lag in (1, 7, 40):
        # 2 N I is chi-square with one degree of freedom when there is no dependence.
        assert estimated(shuffled, lag) < 25.0 / (2 * 8000 * (256 - lag))
        assert estimated(sample, lag) > 100 * estimated(shuffled, lag)


def test_zero_amplitude_is_independent_fair_bits() -> None:
    process = PowerLawBinary(100, 0.0)
    assert np.all(np.asarray(process.mutual_information(np.arange(1, 100))) == 0.0)
    assert estimated(process.sample(2000, 1), 1) < 25.0 / (2 * 2000 * 99)


@pytest.mark.parametrize("length", [1, 2, 5, 64, 1000])
def test_rows_do_not_depend_on_how_many_are_drawn(length: int) -> None:
    process = PowerLawBinary(length)
    many = process.sample(301, 9)
    for fewer in (1, 2, 5, 132):
        np.testing.assert_array_equal(process.sample(fewer, 9), many[:fewer])
    assert length == 1 or not np.array_equal(process.sample(301, 10), many)


def test_a_generator_is_used_and_advanced() -> None:
    process = PowerLawBinary(50)
    first, second = np.random.default_rng(4), np.random.default_rng(4)
    once = process.sample(20, first)
    np.testing.assert_array_equal(once, process.sample(20, second))
    np.testing.assert_array_equal(once, process.sample(20, 4))
    assert not np.array_equal(once, process.sample(20, first))


def test_number_of_threads_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    process = PowerLawBinary(300)
    several = process.sample(2000, 2)
    monkeypatch.setattr("lib.processes.binary.stationary.available_cores", lambda: 1)
    np.testing.assert_array_equal(process.sample(2000, 2), several)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("length", [2, 3, 100, 300, 4000])
@pytest.mark.parametrize("exponent", [0.1, 0.4, 1.0])
def test_amplitudes_up_to_the_limit_are_accepted_and_no_others(length: int, exponent: float, exact: bool) -> None:
    limit = PowerLawBinary(length, 0.1, exponent, exact).largest_amplitude
    for amplitude in (limit, 0.999 * limit):
        assert PowerLawBinary(length, amplitude, exponent, exact).sample(3, 0).shape == (3, length)
    with pytest.raises(ValueError, match=f"at most {limit:.6g} nats"):
        PowerLawBinary(length, 1.001 * limit, exponent, exact)


def test_an_amplitude_between_the_two_limits_is_sampled_by_a_factor() -> None:
    process = PowerLawBinary(3, 0.18, 0.4)
    assert process.largest_amplitude > 0.18 > PowerLawBinary(4000, 0.1, 0.4).largest_amplitude
    sample = process.sample(40_000, 1)
    agreement = (sample[:, 1:] == sample[:, :-1]).mean()
    assert agreement == pytest.approx(0.5 + np.arcsin(process.correlation(1)) / np.pi, abs=5 / np.sqrt(80_000))


def test_a_longer_sequence_allows_less() -> None:
    allowed = [PowerLawBinary(length, 0.1, 0.4).largest_amplitude for length in (2, 3, 8, 64, 512, 4096)]
    assert allowed == sorted(allowed, reverse=True)
    assert allowed[0] == pytest.approx(2 / np.pi**2)
    assert allowed[-1] == pytest.approx(allowed[-2], rel=1e-5)


def test_three_symbols_cannot_have_any_pairs_one_likes() -> None:
    # c12 = c23 = c with c13 = 0 is possible only to c = 1 / sqrt 2: "independently control any pair" is false.
    correlation = float(sign_correlation(0.3))
    matrix = np.array([[1, correlation, 0], [correlation, 1, correlation], [0, correlation, 1]])
    assert correlation > np.sqrt(0.5)
    assert np.linalg.eigvalsh(matrix)[0] < -0.1
    assert correlation**2 < 1.0  # each pair by itself is fine


def test_a_million_symbols_are_sampled() -> None:
    sample = PowerLawBinary(10**6, 0.05, 1.0).sample(1, 0)
    assert sample.shape == (1, 10**6)
    agreement = (sample[:, 1:] == sample[:, :-1]).mean()
    expected = 0.5 + np.arcsin(PowerLawBinary(2, 0.05, 1.0).correlation(1)) / np.pi
    assert agreement == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"length": 0}, "length"),
        ({"length": 2.5}, "length"),
        ({"length": True}, "length"),
        ({"length": 9, "amplitude": -0.1}, "amplitude.*>= 0"),
        ({"length": 9, "amplitude": float("nan")}, "amplitude"),
        ({"length": 9, "amplitude": 0.5}, "at most"),
        ({"length": 9, "amplitude": 0.7, "exact": True}, "at most"),
        ({"length": 9, "exponent": 0.0}, "exponent"),
        ({"length": 9, "exponent": float("inf")}, "exponent"),
        ({"length": 9, "exponent": "steep"}, "exponent"),
    ],
)
def test_bad_parameters_are_refused(keywords: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PowerLawBinary(**keywords)  # type: ignore[arg-type]


@pytest.mark.parametrize("lags", [[20], [-1], [1.5], [float("nan")], [True], "1", [1, 50]])
def test_bad_lags_are_refused(lags: object) -> None:
    with pytest.raises(ValueError, match=r"lags: .* < 20"):
        PowerLawBinary(20).mutual_information(lags)  # type: ignore[arg-type]


@pytest.mark.parametrize(("n", "seed"), [(0, 1), (2.0, 1), (3, -1), (3, None), (3, 0.5)])
def test_bad_samples_are_refused(n: object, seed: object) -> None:
    with pytest.raises(ValueError, match="allowed"):
        PowerLawBinary(20).sample(n, seed)  # type: ignore[arg-type]


def test_exact_is_true_or_false_and_nothing_else() -> None:
    assert PowerLawBinary(8, exact=np.True_).exact is True  # type: ignore[arg-type]
    for bad in (1, "False", None, 0.3):
        with pytest.raises(ValueError, match=f"exact: True or False is allowed, got {bad!r}"):
            PowerLawBinary(8, exact=bad)  # type: ignore[arg-type]
