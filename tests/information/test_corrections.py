"""The n-gram correction A.14, the two-point bias A.17-A.18, and the Santa Fe process on which they are shown."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from lib.information import direct_estimate, entropy, fit_power_law
from lib.information.corrections import fit_two_point_bias, ngram_corrected_log_marginal
from lib.processes.discrete.santa_fe import SantaFeProcess
from lib.report import claims

LAGS = 2.0 ** np.arange(11)


def test_correction_is_a_fifth_of_the_model_and_four_fifths_of_the_bigram_entropy() -> None:
    logarithms = np.log(np.random.default_rng(0).random((50, 6)))
    counts = np.array([[5, 3], [2, 9]])
    corrected = ngram_corrected_log_marginal(logarithms, counts)
    cross_entropy = -logarithms[:, 2:].sum(axis=1).mean()  # A.14 as it is written, with expectations
    cross_entropy += -logarithms[:, :2].sum(axis=1).mean() / 5 + 4 / 5 * entropy(counts, "grassberger2008")
    assert -corrected.mean() == pytest.approx(cross_entropy, rel=1e-13)
    np.testing.assert_allclose(
        ngram_corrected_log_marginal(logarithms, counts, model_weight=1.0), logarithms.sum(axis=1)
    )
    assert np.ptp(ngram_corrected_log_marginal(logarithms[:, :2], counts, model_weight=0.0)) == 0.0


def test_correction_shifts_every_length_by_one_constant_which_matters_at_small_lengths_only() -> None:
    source, random = SantaFeProcess(0.7, topics=512), np.random.default_rng(0)
    wrong = source.topic_law[::-1] * 0.5 + source.topic_law * 0.5  # what the model expects after BOS
    pairs = source.sample(100000, 2, random).astype(np.int64)
    counts = np.unique(pairs[:, 0] * 1024 + pairs[:, 1], return_counts=True)[1]
    bos_error = source.topic_law @ np.log(source.topic_law / wrong)
    expected = -0.8 * (bos_error - (entropy(counts, "grassberger2008") - source.entropy(2)))
    lengths = np.array([4, 32, 512])
    exact = source.bipartite_mutual_information(lengths)
    for length, information in zip(lengths.tolist(), exact, strict=True):
        x = source.sample(800, length, random)
        joint = source.log_probabilities(x)[:, length // 2 :].sum(axis=1)
        tokens = source.log_probabilities(x[:, length // 2 :])
        tokens[:, 0] += np.log(wrong / source.topic_law)[x[:, length // 2] // 2]
        naive = direct_estimate(joint, tokens.sum(axis=1))
        repaired = direct_estimate(joint, ngram_corrected_log_marginal(tokens, counts))
        error = 4 * (naive.standard_error + repaired.standard_error)
        assert abs(repaired.value - naive.value - expected) < error
        assert abs(naive.value - information - bos_error) < error
    relative = abs(expected) / exact
    claims.check("l2m-ngram-correction", relative[0], at_least=0.5, part="short")
    claims.check("l2m-ngram-correction", relative[-1], at_most=0.05, part="long")
    with pytest.raises(claims.ClaimFailed):  # on a source whose information does not grow it matters everywhere
        claims.check("l2m-ngram-correction", abs(expected) / exact[0], at_most=0.05)


def test_a_shift_by_a_constant_changes_an_exponent_where_it_is_fitted_to_little_information() -> None:
    def change(before: float, after: float, first: int) -> float:  # of the exponent, from L = 2^first on
        lengths = 2 ** np.arange(first, 14)
        exact = SantaFeProcess(0.7).bipartite_mutual_information(lengths)
        one, other = (np.polyfit(np.log(lengths), np.log(exact + offset), 1)[0] for offset in (before, after))
        return float(other - one)

    said: Any = {"at_most": 0.05, "outcome": "differs", "remark": True, "note": "the fitted exponent changes"}
    claims.check("l2m-ngram-correction", change(1.6, 0.25, 2), part="all lengths", **said)
    for unchanged in (change(1.6, 1.6, 2), change(0.1, 0.05, 2), change(1.6, 0.25, 8)):  # and would be refused there
        with pytest.raises(claims.ClaimFailed, match="agrees with the paper"):
            claims.check("l2m-ngram-correction", unchanged, part="another", **said)


def test_log_marginal_of_wrong_shape_or_without_logarithm_is_refused() -> None:
    for bad, message in (
        (np.zeros(4), "at least two tokens"),
        (np.zeros((4, 1)), "at least two tokens"),
        (np.array([[0.0, -np.inf]]), "finite logarithms are allowed, got -inf"),
        (np.array([[0.0, np.nan]]), "got nan"),
    ):
        with pytest.raises(ValueError, match=message):
            ngram_corrected_log_marginal(bad, [1, 2])
    with pytest.raises(ValueError, match="0 <= weight <= 1"):
        ngram_corrected_log_marginal(np.zeros((2, 3)), [1, 2], model_weight=1.2)
    for weight in ("x", None, np.nan):
        with pytest.raises(ValueError, match="model_weight: a finite real number is allowed"):
            ngram_corrected_log_marginal(np.zeros((2, 3)), [1, 2], model_weight=weight)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least one count"):
        ngram_corrected_log_marginal(np.zeros((2, 3)), [])


@pytest.mark.parametrize("bias", [1e-6, 1e-3, 0.02, 3.0])
@pytest.mark.parametrize("alpha", [0.3, 0.91, 2.0])
def test_a_planted_law_with_bias_is_recovered_where_the_uncorrected_fit_fails(alpha: float, bias: float) -> None:
    curve = 1.1 * LAGS**-alpha + bias
    fit = fit_two_point_bias(LAGS, curve)
    assert fit.exponent == pytest.approx(alpha, rel=1e-6)
    assert (fit.bias, fit.amplitude) == pytest.approx((bias, 1.1), rel=1e-5)
    np.testing.assert_allclose(fit.predict(LAGS), curve, rtol=1e-6)
    np.testing.assert_allclose(fit.corrected(curve), 1.1 * LAGS**-alpha, rtol=1e-4)
    claims.check("l2m-tp-bias", fit.exponent, alpha, 1e-5, part="planted")
    if bias >= 0.02:
        with pytest.raises(claims.ClaimFailed):
            claims.check("l2m-tp-bias", fit_power_law(LAGS, curve).exponent, alpha, 0.01)


def test_no_start_finds_a_smaller_sum_than_the_search() -> None:
    random = np.random.default_rng(3)
    for _ in range(10):
        curve = 1.1 * LAGS**-0.9 * np.exp(0.2 * random.standard_normal(11)) + 0.01
        fit = fit_two_point_bias(LAGS, curve)

        def printed_sum(p: np.ndarray, curve: np.ndarray = curve) -> float:
            gap = curve - curve.min() / (1 + np.exp(-np.clip(p[2], -30, 30)))
            return float(np.sum((np.log(gap) - p[0] + p[1] * np.log(LAGS)) ** 2))

        others = [minimize(printed_sum, [0.0, 0.4, c], method="Nelder-Mead").fun for c in (-8.0, -2.0, 0.0, 3.0)]
        assert fit.loss <= min(others) + 1e-6
        assert 0 < fit.bias < curve.min()


def test_intervals_cover_as_often_as_they_say() -> None:
    random = np.random.default_rng(0)
    alpha, bias, trials = 0.91, 0.01, 600
    hits = np.zeros(2)
    uncorrected = 0
    for _ in range(trials):
        curve = 1.1 * LAGS**-alpha * np.exp(0.05 * random.standard_normal(11)) + bias
        fit = fit_two_point_bias(LAGS, curve)
        hits += [fit.interval[0] < alpha < fit.interval[1], fit.bias_interval[0] < bias < fit.bias_interval[1]]
        low, high = fit_power_law(LAGS, curve).interval
        uncorrected += low < alpha < high
    assert np.all(np.abs(hits / trials - 0.95) < 4 * np.sqrt(0.05 * 0.95 / trials))
    assert uncorrected == 0


@pytest.mark.parametrize("spread", [0.0, 1e-12, 1e-10])
def test_intervals_cover_where_there_is_hardly_any_noise(spread: float) -> None:
    lags, covered = np.arange(1.0, 40.0), 0
    for seed in range(40):
        noise = np.exp(spread * np.random.default_rng(seed).standard_normal(lags.size))
        fit = fit_two_point_bias(lags, lags**-0.9 * noise + 0.01)
        covered += fit.interval[0] <= 0.9 <= fit.interval[1] and fit.bias_interval[0] <= 0.01 <= fit.bias_interval[1]
        assert fit.interval[1] - fit.interval[0] < max(20 * spread, 1e-12)
    assert covered >= 33


def test_both_placements_of_the_residual_agree_without_noise_and_differ_with_it() -> None:
    curve = 1.1 * LAGS**-0.91 + 0.01
    assert fit_power_law(LAGS, curve, offset=True).exponent == pytest.approx(0.91, rel=1e-4)
    noisy = curve * np.exp(0.02 * np.random.default_rng(0).standard_normal(11))
    one, other = fit_two_point_bias(LAGS, noisy), fit_power_law(LAGS, noisy, offset=True)
    assert one.exponent != pytest.approx(other.exponent, rel=1e-4)
    assert one.interval[0] < 0.91 < one.interval[1] and other.interval[0] < 0.91 < other.interval[1]


def test_impossible_curves_are_refused() -> None:
    curve = LAGS**-1.0
    for lags, mi, message in (
        (LAGS[:3], curve[:3], "length >= 4"),
        (LAGS, curve[:-1], "one length"),
        (LAGS, curve - 0.01, "mi: finite numbers > 0"),
        (LAGS - 1, curve, "lags: finite numbers > 0"),
        ([1, 1, 2, 2], curve[:4], "3 different"),
        (LAGS, np.full(11, np.nan), "finite"),
    ):
        with pytest.raises(ValueError, match=message):
            fit_two_point_bias(lags, mi)


def enumerated(source: SantaFeProcess, length: int) -> dict[tuple[int, ...], float]:
    """Probability of every sequence by summing over all settings of the facts."""
    law: dict[tuple[int, ...], float] = {}
    for facts in product(range(source.values), repeat=source.topics):
        for topics in product(range(source.topics), repeat=length):
            word = tuple(source.values * k + facts[k] for k in topics)
            weight = float(np.prod(source.topic_law[list(topics)])) / source.values**source.topics
            law[word] = law.get(word, 0.0) + weight
    return law


@pytest.mark.parametrize("values", [2, 3])
def test_santa_fe_closed_forms_are_sums_over_all_sequences(values: int) -> None:
    source = SantaFeProcess(0.6, topics=3, values=values)
    law = enumerated(source, 4)
    shannon = lambda p: -sum(v * np.log(v) for v in p.values())  # noqa: E731

    def block(places: slice | list[int]) -> dict[tuple[int, ...], float]:
        marginal: dict[tuple[int, ...], float] = {}
        for word, value in law.items():
            part = tuple(np.array(word)[places].tolist())
            marginal[part] = marginal.get(part, 0.0) + value
        return marginal

    total = shannon(law)
    assert source.entropy(4) == pytest.approx(total, rel=1e-12)
    for split in (1, 2, 3):
        information = shannon(block(slice(split))) + shannon(block(slice(split, 4))) - total
        assert source.bipartite_mutual_information(4, split) == pytest.approx(information, rel=1e-10)
    for lag in (1, 3):
        information = 2 * shannon(block([0])) - shannon(block([0, lag]))
        assert source.mutual_information(lag) == pytest.approx(information, rel=1e-10)
    words = np.array(list(law))
    np.testing.assert_allclose(np.exp(source.log_probabilities(words).sum(axis=1)), list(law.values()), rtol=1e-12)
    assert source.entropy(0) == 0.0 and source.mutual_information(0) == source.entropy(1)


@pytest.mark.parametrize("values", [2, 3])
def test_santa_fe_samples_have_its_law_and_never_contradict_themselves(values: int) -> None:
    source = SantaFeProcess(0.6, topics=3, values=values)
    law, n = enumerated(source, 3), 40000
    x = source.sample(n, 3, 0)
    words, counts = np.unique(x, axis=0, return_counts=True)
    probabilities = np.array([law[tuple(word)] for word in words.tolist()])  # KeyError: an impossible word
    assert np.all(np.abs(counts - n * probabilities) < 5 * np.sqrt(n * probabilities))
    assert np.all(np.isfinite(source.log_probabilities(x)))
    assert source.log_probabilities([[0, 1]])[0, 1] == -np.inf
    long = SantaFeProcess(0.7).sample(50, 300, 1)
    assert long.dtype == np.uint16 and np.array_equal(long, SantaFeProcess(0.7).sample(50, 300, 1))


def test_santa_fe_information_grows_with_its_exponent() -> None:
    source = SantaFeProcess(0.7, topics=2**17)
    lengths = 4 ** np.arange(5, 9)
    growth = np.diff(np.log(source.bipartite_mutual_information(lengths))) / np.log(4)
    assert np.all(np.abs(growth - 0.7) < 0.02) and np.all(np.diff(growth) < 0)
    for exponent in (0.0, 1.0, -1.0, "a"):
        with pytest.raises(ValueError, match="exponent"):
            SantaFeProcess(exponent)
    for bad in ([[0, 8]], [[-1]], [0, 1], [[0.5]]):
        with pytest.raises(ValueError, match="sequences"):
            SantaFeProcess(0.5, topics=4).log_probabilities(bad)
    assert repr(SantaFeProcess(0.5, 4, 3)) == "SantaFeProcess(0.5, topics=4, values=3)"
    with pytest.raises(ValueError, match="values"):
        SantaFeProcess(0.5, values=1)
