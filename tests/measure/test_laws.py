"""The rule that reads a curve: known sources get their verdict and number, and what is no law gets none."""

from __future__ import annotations

import numpy as np
import pytest

from lib.information.intervals import Interval
from lib.measure.curves import Curve, blocks_of, distances, drift, halves, measure_curve
from lib.measure.laws import fit_concatenated, read_curve
from lib.measure.symbols import Symbols
from lib.measure.two_point import _from_drift
from lib.processes import MarkovChain, PowerLawBinary

LAGS = np.unique(np.geomspace(1, 1000, 48).round().astype(np.int64))


def symbols(rows):
    rows = np.atleast_2d(rows)
    ids, kinds = rows.ravel().astype(np.uint8), len(np.unique(rows))
    return Symbols("character", ids, np.arange(len(rows) + 1) * rows.shape[1], kinds, kinds, 1.0)


def verdict(rows, seed=0):
    given = symbols(rows)
    return read_curve(measure_curve(given, distances(given, 1000), seed), len(given))


def made(values, noise=1e-6, floor=1e-5, seed=0):
    """A curve of these values with independent noise in every replicate."""
    drawn = np.random.default_rng(seed).standard_normal((401, len(LAGS))) * noise
    seen = values + drawn[0]
    return Curve(LAGS, seen + floor, np.full(len(LAGS), floor), np.full(len(LAGS), noise / 10), seen + drawn[1:])


def chain(stay, length, seed):
    return MarkovChain([[stay, 1 - stay], [1 - stay, stay]]).sample(1, length, seed)


@pytest.mark.parametrize("exponent", [0.5, 1.0, 1.5])
def test_a_power_law_source_gives_its_exponent(exponent):
    found = verdict(PowerLawBinary(4096, 0.05, exponent, exact=True).sample(40, seed=3))
    assert found.verdict == "power law" and found.correlation_length is None
    assert found.exponent.low < exponent < found.exponent.high and found.exponent.high - found.exponent.low < 0.5
    assert found.range[1] >= 10 * found.range[0]


@pytest.mark.parametrize("stay", [0.8, 0.9, 0.97])
def test_a_markov_source_gives_its_correlation_length(stay):
    found, length = verdict(chain(stay, 150_000, 3)), -1 / (2 * np.log(2 * stay - 1))
    assert found.verdict == "exponential" and found.exponent is None
    assert found.correlation_length.low < length < found.correlation_length.high < 1.4 * length


def test_independent_symbols_have_nothing_above_the_floor():
    for seed in range(5):
        assert verdict(np.random.default_rng(seed).integers(30, size=60_000)).verdict == "nothing above the floor"


def test_too_little_is_not_judged():
    assert verdict(chain(0.9, 4000, 0)).verdict == "too short to say"
    assert verdict(chain(0.55, 8000, 0)).verdict == "too short to say"  # seen at a distance or two


def test_every_block_leaves_a_pair_at_every_distance():
    """Documents of unequal length: the pairs of a large distance may all start in one block of the text."""
    random = np.random.default_rng(0)
    for lengths in ([3] * 100 + [80], [371, *[12] * 20, 198], *(random.integers(2, 120, size=n) for n in (3, 9, 40))):
        ids = random.integers(3, size=sum(lengths)).astype(np.uint8)
        given = Symbols("character", ids, np.append(0, np.cumsum(lengths)), 3, 3, 1.0)
        lags, borders = distances(given, 1000), np.linspace(0, len(ids), blocks_of(len(ids)) + 1).astype(int)
        assert np.isfinite(measure_curve(given, lags).replicates).all()
        document = np.repeat(np.arange(len(lengths)), lengths)
        for lag in lags:
            starts = np.flatnonzero(document[lag:] == document[:-lag])
            assert np.histogram(starts, borders)[0].max() < len(starts)


def test_a_repeated_text_is_level_and_has_no_law():
    assert verdict(np.tile([0, 1, 1, 0, 1], 10_000)).verdict == "neither"


@pytest.mark.parametrize(
    ("values", "expected", "number"),
    [
        (0.5 * LAGS**-0.8, "power law", 0.8),
        (0.5 * np.exp(-LAGS / 20), "exponential", 20),
        (0.5 * np.exp(-LAGS / 3) + 0.05 * LAGS**-0.3, "power law", 0.3),  # beyond the first distances
        (0.5 * np.exp(-np.sqrt(LAGS)), "neither", None),  # stretched
        (np.full(len(LAGS), 0.1), "neither", None),
        (np.zeros(len(LAGS)), "nothing above the floor", None),
        (np.where(LAGS <= 3, 0.1, 0.0), "too short to say", None),
    ],
)
def test_planted_curves_are_read(values, expected, number):
    found = read_curve(made(values), 10**6)
    assert found.verdict == expected, found
    given = found.exponent or found.correlation_length
    assert (given is None) == (number is None)
    if given is not None:
        assert given.value == pytest.approx(number, rel=0.05) and given.low < number < given.high


def test_noise_does_not_decide():
    """A curve that both laws fit within its noise is not judged."""
    values = np.where(LAGS <= 12, 0.1 * LAGS**-0.7, 0.0)
    assert read_curve(made(values, noise=0.03), 10**6).verdict in ("too short to say", "nothing above the floor")


def test_a_mixed_law_is_found_again():
    values = 0.5 * np.exp(-LAGS / 3) + 0.02 * LAGS**-0.5
    found = fit_concatenated(LAGS, values, 0.01 * values)
    assert found.correlation_length == pytest.approx(3, rel=0.1) and found.exponent == pytest.approx(0.5, abs=0.04)
    assert found.exponential == pytest.approx(0.5, rel=0.1) and found.power == pytest.approx(0.02, rel=0.15)
    for kwargs in ({"lags": LAGS[:3]}, {"spread": np.zeros(len(LAGS))}):
        with pytest.raises(ValueError, match=r"at least 5 lags|positive lags and spreads"):
            fit_concatenated(**({"lags": LAGS, "curve": values, "spread": values} | kwargs))


def test_drift_is_what_change_of_composition_gives():
    random = np.random.default_rng(0)
    share = np.repeat(np.linspace(0.2, 0.8, 32), 2000)  # the chance of a one changes from part to part
    found = drift(symbols((random.random(64_000) < share).astype(int)))
    mean, both = (
        share.mean(),
        np.array([[np.mean((1 - share) ** 2), np.mean(share * (1 - share))], [0, np.mean(share**2)]]),
    )
    both[1, 0] = both[0, 1]
    expected = float((both * np.log(both / np.outer([1 - mean, mean], [1 - mean, mean]))).sum())
    assert found.low < expected < found.high and found.value == pytest.approx(expected, rel=0.1)
    still = drift(symbols(random.integers(2, size=64_000)))
    assert abs(still.value) < 3e-5


def test_a_law_whose_far_half_is_drift_says_so_and_no_other_does():
    curve = made(0.01 * LAGS**-0.5)
    found = read_curve(curve, 10**6)
    assert found.verdict == "power law" and found.range == (1, 1000)
    far = 0.01 * LAGS[LAGS >= np.sqrt(1000)] ** -0.5  # the farther half in ln distance

    def told(share):
        level = share * far.mean()
        return _from_drift(found, curve, Interval(level, 0.9 * level, 1.1 * level))

    assert "; drift alone gives 62% of the information from 34 on" in told(0.62)
    assert told(0.45) == told(-1) == _from_drift(found, curve, Interval(0.01, -0.001, 0.021)) == ""
    nothing = read_curve(made(np.zeros(len(LAGS))), 10**6)
    assert nothing.verdict != "power law" and not _from_drift(nothing, curve, Interval(0.01, 0.009, 0.011))


def test_halves_that_differ_are_told_apart_and_equal_ones_are_not():
    lags = np.array([1, 2, 4, 8])
    alike = halves(symbols(chain(0.9, 60_000, 3)), lags)
    other = halves(symbols(np.hstack([chain(0.9, 30_000, 1), chain(0.8, 30_000, 2)])), lags)
    assert alike.low < 0 < alike.high and other.low > 0.3
    assert np.isnan(halves(symbols(np.random.default_rng(0).integers(2, size=20_000)), lags).value)


def test_distances_end_where_blocks_and_documents_do():
    assert distances(symbols(np.zeros((1, 3200), dtype=int)), 1000).max() <= 3200 // blocks_of(3200)
    rows = symbols(np.zeros((100, 50), dtype=int))
    assert distances(rows, 1000).max() <= 45  # a tenth of the pairs is left


def unequal(kinds, documents, longest, seed):
    """Independent words by Zipf's law in documents of 2 to `longest`: there is nothing to be found at any distance."""
    random = np.random.default_rng(seed)
    lengths = random.integers(2, longest + 1, size=documents)
    chances = 1 / np.arange(1, kinds + 1)
    ids = random.choice(kinds, size=lengths.sum(), p=chances / chances.sum()).astype(np.uint16)
    return Symbols("word", ids, np.append(0, np.cumsum(lengths)), kinds, kinds, 1.0)


def test_the_floor_is_that_of_as_many_pairs_however_few_a_cell_has():
    given = unequal(1500, 3000, 79, 0)
    curve = measure_curve(given, distances(given, 1000))
    assert curve.lags.max() > 40 and curve.information[-1] > 0.2  # nearly all of it floor
    assert np.all(np.abs(curve.excess) < np.maximum(4 * curve.noise, 0.05 * curve.information))


@pytest.mark.parametrize("width", [80, 100, 101, 102, 202])
def test_no_period_of_the_text_is_taken_for_its_floor(width):
    random = np.random.default_rng(width)
    records = np.tile(np.repeat(np.arange(1, 11), width // 10 + 1)[:width], (30_000 // width, 1))
    records[:, width // 2] = random.integers(1, 11, size=len(records))
    records[:, -1] = 0  # the end of a line
    flat = symbols(records.reshape(1, -1))
    assert np.all(measure_curve(flat, np.array([1, 5])).floor < 0.03)  # of 2.3 nats; runs of a symbol leave this much


@pytest.mark.parametrize("longest", [2, 5, 50])
def test_no_symbol_of_a_short_document_is_paired_with_itself(longest):
    random = np.random.default_rng(longest)
    lengths = random.integers(1, longest + 1, size=60_000 // (longest + 1))
    ids = random.integers(20, size=lengths.sum()).astype(np.uint8)
    assert abs(drift(Symbols("word", ids, np.append(0, np.cumsum(lengths)), 20, 20, 1.0)).value) < 0.01


def test_a_half_with_the_stump_of_a_long_document_has_a_curve():
    random = np.random.default_rng(0)
    lengths = np.append(3000, random.integers(20, 60, size=74))
    ids = random.integers(3, size=lengths.sum()).astype(np.uint8)
    given = Symbols("character", ids, np.append(0, np.cumsum(lengths)), 3, 3, 1.0)
    assert np.isnan(halves(given, distances(given, 1000)).value)  # nothing is above the floor, and no error


def test_a_half_that_may_have_nothing_has_no_interval():
    lags = np.arange(1, 9)
    for seed in range(6):
        found = halves(symbols(np.hstack([chain(0.9, 10_000, seed), chain(0.522, 10_000, seed + 9)])), lags)
        assert np.isnan(found.value) or np.isnan(found.high) or found.high < 50


@pytest.mark.parametrize(("exponent", "level"), [(0.03, True), (0.15, False)])
def test_a_power_law_that_may_be_level_is_none(exponent, level):
    wave = 1 + 0.03 * np.sin(np.log(LAGS))  # by which one half of the distances falls and the other hardly does
    found = read_curve(made(0.1 * wave * LAGS**-exponent, noise=0.001), 10**6)
    assert (found.verdict, found.exponent is None) == (("neither", True) if level else ("power law", False))
    assert level == ("may as well be level" in found.reason)


@pytest.mark.parametrize("length", [20_000, 200_000])
def test_a_level_curve_with_noise_is_level_and_not_too_short(length):
    random, places = np.random.default_rng(length), np.arange(length)
    coins = random.random(length) < np.where(places < length // 2, 0.1, 0.9)  # 0.2218 nats at every distance
    found = verdict(coins)
    assert found.verdict == "neither" and "level" in found.reason


def test_information_of_unequal_parts_is_not_nothing():
    length, random = 200_000, np.random.default_rng(3)
    topics = np.repeat(0.5 + 0.1 * random.standard_normal(32), length // 32)
    rising = np.linspace(0.4, 0.6, length)
    for chances in (topics, rising):
        found = verdict(random.random(length) < chances)
        assert found.verdict in ("neither", "too short to say")
    shuffled = verdict(random.permutation(random.random(length) < topics))
    assert shuffled.verdict == "nothing above the floor"


def test_what_lies_beyond_a_gap_is_told_where_no_verdict_is_given():
    random, columns = np.random.default_rng(5), 110
    text = random.integers(0, 2, 60_000)
    how = random.random(len(text))
    for place in range(columns, len(text)):
        if how[place] < 0.8:
            text[place] = text[place - 1] if how[place] < 0.2 else text[place - columns]
    found = verdict(text)
    assert found.verdict == "too short to say" and found.reason.endswith("to 3, and at others")
