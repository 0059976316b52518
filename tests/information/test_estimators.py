"""Entropy and mutual information of counts, against mpmath, exact expectations and the papers' definitions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lib.information import entropy, mutual_information
from lib.information.estimators import ESTIMATORS

NAMES = list(ESTIMATORS)
count_lists = st.lists(st.integers(0, 10**6), min_size=1, max_size=12).filter(any)


def printed_g(n: int) -> mpmath.mpf:
    """L2M, Eq. 9, as printed."""
    half = mpmath.mpf(1) / 2
    return mpmath.digamma(n) + half * (-1) ** n * (mpmath.digamma((n + 1) * half) - mpmath.digamma(n * half))


def defined_entropy(counts: list[int], estimator: str) -> mpmath.mpf:
    """The four definitions, written out with 40 digits."""
    with mpmath.workdps(40):
        seen = [n for n in counts if n > 0]
        total = mpmath.mpf(sum(seen))
        if estimator == "grassberger2003":
            return mpmath.log(total) - sum(n * mpmath.digamma(n) for n in seen) / total
        if estimator == "grassberger2008":
            return mpmath.log(total) - sum(n * printed_g(n) for n in seen) / total
        plugin = -sum(n / total * mpmath.log(n / total) for n in seen)
        return plugin if estimator == "plugin" else plugin + (len(seen) - 1) / (2 * total)


def outcomes(samples: int, law: list[float]) -> Iterator[tuple[list[int], float]]:
    """Every multinomial outcome with its probability."""
    for bars in itertools.combinations(range(samples + len(law) - 1), len(law) - 1):
        edges = (-1, *bars, samples + len(law) - 1)
        counts = [b - a - 1 for a, b in itertools.pairwise(edges)]
        log_weight = math.lgamma(samples + 1) - sum(math.lgamma(n + 1) for n in counts)
        yield counts, math.exp(log_weight) * math.prod(p**n for p, n in zip(law, counts, strict=True))


def expected_entropy(samples: int, law: list[float], estimator: str) -> float:
    return math.fsum(w * entropy(counts, estimator) for counts, w in outcomes(samples, law))


def true_entropy(law: list[float]) -> float:
    return -math.fsum(p * math.log(p) for p in law)


def missing(samples: int, law: list[float], factor: int) -> float:
    """sum_i p_i int_0^{1 - factor p_i} t^(N-1)/(1-t) dt: what unseen symbols take away, exactly."""

    def integrand(t: float) -> mpmath.mpf:
        return t ** (samples - 1) / (1 - t)

    return float(sum(p * mpmath.quad(integrand, [0, 1 - factor * p]) for p in law))


@pytest.mark.parametrize("estimator", NAMES)
@given(counts=count_lists)
def test_estimators_equal_their_definitions(estimator: str, counts: list[int]) -> None:
    assert entropy(counts, estimator) == pytest.approx(float(defined_entropy(counts, estimator)), rel=1e-13, abs=1e-13)


@given(counts=count_lists, seed=st.integers(0, 100))
def test_order_shape_type_and_empty_cells_do_not_matter(counts: list[int], seed: int) -> None:
    shuffled = np.random.default_rng(seed).permutation(np.array(counts + [0] * len(counts)))
    for array in (shuffled.reshape(2, -1), shuffled.astype(np.float64), shuffled.astype(np.uint64)):
        assert entropy(array) == pytest.approx(entropy(counts), rel=1e-14, abs=1e-14)


def test_closed_form_of_g_equals_the_printed_form_and_its_recursion() -> None:
    closed = ESTIMATORS["grassberger2008"].logarithm
    for n in [*range(1, 60), 1001, 10**6, 10**6 + 1]:
        assert float(closed(np.array(float(n)))) == pytest.approx(float(printed_g(n)), rel=1e-14)
    # Grassberger's recursion: G(1) = -gamma - ln 2, G(2) = G(1) + 2, G(2n+1) = G(2n), G(2n+2) = G(2n) + 2/(2n+1).
    values = closed(np.arange(1.0, 101.0))
    assert values[0] == pytest.approx(-float(mpmath.euler) - math.log(2), rel=1e-15)
    assert values[1] == pytest.approx(values[0] + 2, rel=1e-15)
    assert np.allclose(values[2::2], values[1:-1:2], rtol=1e-15)
    assert np.allclose(values[3::2] - values[1:-2:2], 2 / np.arange(3, 100, 2), rtol=1e-12)


@pytest.mark.parametrize("estimator", NAMES)
def test_one_sample_and_one_symbol(estimator: str) -> None:
    assert entropy([1], estimator) == pytest.approx(float(defined_entropy([1], estimator)), abs=1e-15)
    exact_zero = estimator in ("plugin", "miller_madow")
    assert (entropy([7], estimator) == 0.0) == exact_zero


@pytest.mark.parametrize("samples", [3, 8, 15])
@pytest.mark.parametrize("law", [[0.5, 0.5], [0.7, 0.2, 0.1], [0.01, 0.99], [0.25, 0.25, 0.25, 0.25]])
def test_exact_bias_of_both_grassberger_estimators(samples: int, law: list[float]) -> None:
    """E H = H + [ln N - psi(N)] - sum p int_0^(1-ap) t^(N-1)/(1-t) dt for all N, p; a = 1 (2003) or 2 (2008)."""
    surplus = math.log(samples) - float(mpmath.digamma(samples))
    for factor, estimator in ((1, "grassberger2003"), (2, "grassberger2008")):
        theory = true_entropy(law) + surplus - missing(samples, law, factor)
        assert expected_entropy(samples, law, estimator) == pytest.approx(theory, abs=1e-12)


def test_well_sampled_bias_of_all_four() -> None:
    """N times the bias: +1/2 for Grassberger's (erratum 12), -(K-1)/2 for plug-in, 0 for Miller-Madow."""
    law, samples = [0.5, 0.3, 0.2], 120
    scaled = {name: samples * (expected_entropy(samples, law, name) - true_entropy(law)) for name in NAMES}
    assert scaled["grassberger2003"] == pytest.approx(0.5, abs=2e-3)
    assert scaled["grassberger2008"] == pytest.approx(0.5, abs=2e-3)
    assert scaled["plugin"] == pytest.approx(-1.0, abs=0.02)
    assert scaled["miller_madow"] == pytest.approx(0.0, abs=0.02)
    assert abs(scaled["grassberger2003"]) > 0.4, "the estimator is not unbiased, as the word may suggest"


def test_two_by_two_information_has_the_plugin_bias_under_grassberger_2003() -> None:
    """Erratum 12: both estimates of a 2 x 2 table are too large by 1/(2N)."""
    law, samples = [0.3, 0.2, 0.2, 0.3], 28
    table = np.array(law).reshape(2, 2)
    truth = 2 * math.log(2) - true_entropy(law)
    bias = {
        name: math.fsum(w * mutual_information(np.reshape(c, (2, 2)), name) for c, w in outcomes(samples, law)) - truth
        for name in ("grassberger2003", "plugin", "miller_madow")
    }
    assert samples * bias["grassberger2003"] == pytest.approx(0.5, abs=0.05)
    assert samples * bias["plugin"] == pytest.approx(0.5, abs=0.05)
    assert samples * abs(bias["miller_madow"]) < 0.05
    assert table.sum() == pytest.approx(1.0)


def test_independent_table_is_not_zero_under_grassberger_2008() -> None:
    """Erratum 14: the two estimators differ, and exact independence is not recognised by G."""
    table = np.outer([3, 2], [4, 1])
    assert mutual_information(table, "plugin") == pytest.approx(0.0, abs=1e-15)
    expected = (
        defined_entropy([15, 10], "grassberger2008")
        + defined_entropy([20, 5], "grassberger2008")
        - defined_entropy([12, 3, 8, 2], "grassberger2008")
    )
    assert mutual_information(table, "grassberger2008") == pytest.approx(float(expected), rel=1e-12)
    assert abs(float(expected)) > 1e-3
    assert mutual_information(table, "grassberger2008") != pytest.approx(mutual_information(table), abs=1e-3)


@pytest.mark.parametrize("estimator", ["grassberger2003", "miller_madow", "plugin"])
def test_identical_variables_with_as_many_symbols_as_samples_are_biased_down(estimator: str) -> None:
    """Erratum 15, summed over all outcomes: I(X;X) = H(X) = ln K with N = K = 6."""
    law = [1 / 6] * 6
    diagonal = [mutual_information(np.diag(counts), estimator) for counts in ([6, 0, 0, 0, 0, 0], [2, 1, 1, 1, 1, 0])]
    singles = [entropy(counts, estimator) for counts in ([6], [2, 1, 1, 1, 1])]
    assert diagonal == pytest.approx(singles)
    assert expected_entropy(6, law, estimator) < math.log(6) - 0.02


def test_identical_variables_under_grassberger_2008_are_biased_down_too() -> None:
    """By the exact bias formula proved above, at N = K = 40."""
    surplus = math.log(40) - float(mpmath.digamma(40))
    assert surplus - missing(40, [1 / 40] * 40, 2) < -0.02


@given(st.lists(st.lists(st.integers(0, 50), min_size=3, max_size=3), min_size=2, max_size=4))
def test_information_is_symmetric_and_the_sum_of_three_entropies(rows: list[list[int]]) -> None:
    table = np.array(rows)
    if not table.any():
        table[0, 0] = 1
    for name in NAMES:
        value = mutual_information(table, name)
        assert value == pytest.approx(mutual_information(table.T, name), abs=1e-13)
        parts = [defined_entropy(list(map(int, part.ravel())), name) for part in (table.sum(1), table.sum(0), table)]
        assert value == pytest.approx(float(parts[0] + parts[1] - parts[2]), abs=1e-12)
    assert mutual_information(table, "plugin") > -1e-12, "the plug-in is a Kullback-Leibler divergence"


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ([], "empty"),
        ([0, 0], "all zero"),
        ([3, -1], "-1"),
        ([1.5, 2.0], "1.5"),
        ([1.0, float("nan")], "NaN"),
        ([1.0, float("inf")], "NaN or infinity"),
        ([True, False], "bool"),
        (["a"], "type"),
        ([2**62, 2**62], "2\\^63"),
        (np.ma.array([1, 2, 3], mask=[0, 0, 1]), "masked"),
        ([[1], [1, 2]], "ragged"),
        ([1, 2j], "complex"),
    ],
)
def test_bad_counts_are_refused_by_name(counts: list[object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        entropy(counts)  # type: ignore[arg-type]


@given(counts=count_lists)
def test_counts_of_any_kind_of_array(counts: list[int]) -> None:
    expected = entropy(counts)
    for same in (np.array(counts, ">i4"), np.ma.array(counts), torch.tensor(counts), torch.tensor(counts).double()):
        assert entropy(same) == expected
    small = [count % 100 for count in counts] + [1]
    assert entropy(torch.tensor(small, dtype=torch.bfloat16, requires_grad=True)) == entropy(small)
    assert mutual_information(torch.tensor([small, small])) == mutual_information([small, small])


def test_unknown_estimators_and_wrong_shapes_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="grassberger2003, grassberger2008, miller_madow, plugin"):
        entropy([1, 2], "grassberger")
    with pytest.raises(ValueError, match="choose one of"):
        mutual_information([[1, 2]], "Plugin")
    for shape in ((4,), (2, 2, 1)):
        with pytest.raises(ValueError, match="two dimensions"):
            mutual_information(np.ones(shape, dtype=int))


def test_counts_whose_sum_overflows_are_refused() -> None:
    with np.errstate(over="raise"), pytest.raises(ValueError, match="sum to inf; the sum must stay below"):
        entropy([1e308, 1e308])
