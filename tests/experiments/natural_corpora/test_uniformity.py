"""Documents of unequal length, the sampling floor, the block bootstrap, and non-uniformity between splits."""

from __future__ import annotations

from collections import Counter
from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.natural_corpora import resampling, uniformity
from lib.information.documents import segments
from lib.information.estimators import entropy
from lib.information.two_point import auto_mutual_information

LAGS = np.arange(4, 16)
SYMBOLS = 6


def persistent(length: int, memory: float, seed: int | np.random.Generator, symbols: int = SYMBOLS) -> np.ndarray:
    """x_t = x_(t-1) with probability `memory`, else a fresh uniform symbol."""
    random = np.random.default_rng(seed)
    fresh = random.random(length) >= memory
    fresh[0] = True
    drawn = random.integers(symbols, size=length)
    return drawn[np.maximum.accumulate(np.where(fresh, np.arange(length), 0))]


def persistent_information(lags: np.ndarray, memory: float, symbols: int = SYMBOLS) -> np.ndarray:
    """Exact: the symbol is unchanged with probability memory^lag, else fresh."""
    kept = memory ** np.asarray(lags, dtype=float)
    same, other = (1 + (symbols - 1) * kept) / symbols, (1 - kept) / symbols
    return same * np.log(symbols * same) + (symbols - 1) * other * np.log(symbols * other)


@st.composite
def documents(draw):
    pieces = draw(st.lists(st.lists(st.integers(0, 4), max_size=12), min_size=1, max_size=5))
    pieces.append(draw(st.lists(st.integers(0, 4), min_size=4, max_size=12)))
    return pieces


@given(documents(), st.integers(1, 3), st.sampled_from(["grassberger2003", "grassberger2008", "plugin"]))
def test_pairs_of_documents_are_those_that_a_plain_loop_finds(pieces, lag, estimator):
    pairs = [pair for piece in pieces for pair in zip(piece, piece[lag:], strict=False)]
    tables = [Counter(first for first, _ in pairs), Counter(second for _, second in pairs), Counter(pairs)]
    first, second, joint = (entropy(list(table.values()), estimator) for table in tables)
    offsets = np.concatenate([[0], np.cumsum([len(piece) for piece in pieces])])
    measured = segments.segmented_mutual_information(np.concatenate(pieces).astype(int), [lag], offsets, estimator)
    assert measured == pytest.approx([first + second - joint], abs=1e-12)


def test_one_document_gives_what_auto_mutual_information_gives():
    symbols = persistent(20_000, 0.9, 3)
    plain = auto_mutual_information(symbols, LAGS)
    assert segments.segmented_mutual_information(symbols, LAGS) == pytest.approx(plain, abs=1e-12)


def test_a_pair_across_two_documents_never_counts():
    symbols = np.repeat([0, 1, 0, 1], 500)  # long runs: near pairs agree, whatever the document
    together = segments.segmented_mutual_information(symbols, [1, 400])
    apart = segments.segmented_mutual_information(symbols, [1, 400], [0, 500, 1000, 1500, 2000])
    assert together[1] < 0.2 and apart[1] == pytest.approx(log(2), rel=1e-2)


def test_a_large_alphabet_is_counted_by_sorting_with_the_same_result(monkeypatch):
    symbols = persistent(5000, 0.9, 0)
    dense = segments.segmented_mutual_information(symbols, LAGS)
    replicates = resampling.block_bootstrap(symbols, LAGS[:2], blocks=8, replicates=5)
    monkeypatch.setattr(segments, "DENSE_CELLS", 4)
    monkeypatch.setattr(resampling, "DENSE_CELLS", 4)
    assert segments.segmented_mutual_information(symbols, LAGS) == pytest.approx(dense, abs=1e-12)
    sparse = resampling.block_bootstrap(symbols, LAGS[:2], blocks=8, replicates=5)
    assert sparse == pytest.approx(replicates, abs=1e-12)


def test_symbols_far_apart_are_numbered_anew():
    symbols = persistent(2000, 0.8, 1)
    assert segments.segmented_mutual_information(symbols * 10**9, [3]) == pytest.approx(
        segments.segmented_mutual_information(symbols, [3]), abs=1e-12
    )


def test_estimate_less_floor_is_the_exact_information_at_the_same_sample_size():
    lags = np.array([20, 30, 40])
    symbols = persistent(400_000, 0.9, 2, symbols=40)
    curve = segments.segmented_mutual_information(symbols, lags)
    spread = resampling.block_bootstrap(symbols, lags, seed=3).std(axis=0)
    exact = persistent_information(lags, 0.9, symbols=40)
    in_blocks, shuffled = (segments.sampling_floor(symbols, 8, block=block).mean() for block in (200, 1))
    assert np.all(np.abs(curve - in_blocks - exact) < 4 * spread)
    # negative control: with every pair taken for independent the bias of a persistent source stays
    assert np.all(np.abs(curve - shuffled - exact)[1:] > 4 * spread[1:])


def test_the_floor_of_the_plugin_estimator_is_miller_and_madow_s_bias():
    symbols = np.random.default_rng(4).integers(30, size=200_000)
    floors = [segments.sampling_floor(symbols[:n], 8, 5, "plugin").mean() for n in (20_000, 200_000)]
    assert floors[0] / floors[1] == pytest.approx(10, rel=0.1)
    assert floors[1] == pytest.approx(29**2 / 400_000, rel=0.1)  # free cells over twice the pairs
    assert abs(segments.sampling_floor(symbols, 8, 5).mean()) < 0.1 * floors[1]  # psi takes off what full cells have


def test_the_floor_of_fewer_pairs_is_that_of_a_shorter_text_and_not_in_proportion_where_cells_are_rare():
    random = np.random.default_rng(1)
    chances = 1 / np.arange(1, 2001)
    symbols = random.choice(2000, size=120_000, p=chances / chances.sum())
    numbers = [1500, 4000, 40_000, 120_000]
    floor = segments.floor_of_pairs(symbols, numbers, 4, 2, block=1).mean(axis=0)
    expected = [segments.sampling_floor(symbols[:n], 4, 3, block=1).mean() for n in numbers]
    np.testing.assert_allclose(floor, expected, rtol=0.05)
    assert floor[-1] * 120_000 / 1500 > 2 * floor[0]  # as it would be if it went as one over the number of pairs


@pytest.mark.parametrize("size", [2000, 5000])  # tables of all pairs, and pairs that are sorted
def test_the_floor_at_a_lag_is_that_of_the_pairs_that_documents_have_there(size):
    """Independent rare symbols in documents of 1000: at lag 950 a twentieth of the pairs is left, nothing is known."""
    random, lags = np.random.default_rng(1), np.array([1, 300, 600, 850, 950])
    chances = 1 / np.arange(1, size + 1)
    symbols = random.choice(size, size=150_000, p=chances / chances.sum())
    borders = np.arange(0, 150_001, 1000)
    curve = segments.segmented_mutual_information(symbols, lags, borders)
    floor = segments.floor_at_lags(symbols, lags, borders, 4, 2, block=1).mean(axis=0)
    np.testing.assert_allclose(floor, curve, rtol=0.03)
    many = np.arange(1, 951, 13)
    np.testing.assert_allclose(
        segments.floor_at_lags(symbols, many, borders, 4, 2, block=1).mean(axis=0),
        segments.segmented_mutual_information(symbols, many, borders),
        rtol=0.05,
    )
    proportional = resampling.proportional_floor(symbols, lags, borders).mean(axis=0)
    assert proportional[-1] > 2 * curve[-1]
    assert proportional[0] == pytest.approx(curve[0], rel=0.03)


def test_the_floor_at_a_lag_of_one_text_is_that_of_the_whole_text():
    symbols = persistent(400_000, 0.9, 2, symbols=40)
    whole = segments.sampling_floor(symbols, 8, 5)
    lags = [1, 20, 1000]
    at_lags = segments.floor_at_lags(symbols, lags, None, 8, 6)
    assert np.all(np.abs(at_lags.mean(axis=0) - whole.mean()) < 4 * whole.std())


def test_shuffled_text_lies_on_the_floor_at_every_lag():
    symbols = np.random.default_rng(6).permutation(persistent(100_000, 0.9, 7))
    floor = segments.sampling_floor(symbols, 20, 8)
    curve = segments.segmented_mutual_information(symbols, LAGS)
    assert np.all(np.abs(curve - floor.mean()) < 5 * floor.std())
    assert abs(uniformity.band_information(symbols, LAGS, shuffles=20)) < 3 * floor.std()


def test_the_bootstrap_spreads_as_independent_texts_do_and_is_centred_on_the_estimate():
    lags = np.array([5, 10])
    texts = [persistent(60_000, 0.9, 100 + number) for number in range(40)]
    truth = np.std([segments.segmented_mutual_information(text, lags) for text in texts], axis=0, ddof=1)
    replicates = [resampling.block_bootstrap(text, lags, seed=number) for number, text in enumerate(texts[:8])]
    spread = np.mean([curves.std(axis=0) for curves in replicates], axis=0)
    assert np.all((spread / truth > 0.7) & (spread / truth < 1.4))
    assert replicates[0].mean(axis=0) == pytest.approx(segments.segmented_mutual_information(texts[0], lags), abs=1e-12)


def test_the_same_seed_gives_the_same_replicates():
    text = persistent(20_000, 0.9, 9)
    first, second = (resampling.block_bootstrap(text, LAGS, replicates=10, seed=5) for _ in range(2))
    assert np.array_equal(first, second)
    assert np.array_equal(first, resampling.block_bootstrap(text, LAGS, replicates=10, seed=np.random.default_rng(5)))


def test_a_uniform_corpus_is_seldom_called_non_uniform_and_its_interval_holds_zero():
    calls = [
        uniformity.compare_split(text[180_000:], text[:180_000], LAGS, replicates=100, seed=number)
        for number in range(20)
        for text in [persistent(200_000, 0.9, 200 + number)]
    ]
    assert sum(not call.uniform for call in calls) <= 4
    assert sum(call.interval[0] <= 0 <= call.interval[1] for call in calls) >= 15


def test_a_planted_change_is_found_with_its_size():
    low, high = 0.90, 0.94
    expected = log(persistent_information(LAGS, high).mean() / persistent_information(LAGS, low).mean())
    for number in range(5):
        train, other = persistent(300_000, low, 300 + number), persistent(30_000, high, 400 + number)
        call = uniformity.compare_split(other, train, LAGS, seed=number)
        assert not call.uniform and call.interval[0] < expected < call.interval[1] and call.interval[0] > 0


def test_a_text_without_information_has_no_logarithm_to_compare():
    noise = np.random.default_rng(0).integers(4, size=40_000)
    with pytest.raises(ValueError, match="at or below the sampling floor"):
        for number in range(20):  # a chance value above zero in all nine pieces does not repeat
            uniformity.compare_split(noise[:4000], noise, LAGS, replicates=4, seed=number)


def test_pieces_are_contiguous_of_one_length_and_reach_both_ends():
    pieces = resampling.cut_pieces(np.arange(1000), 100, 9)
    assert pieces[0][0] == 0 and pieces[-1][-1] == 999
    assert all(np.array_equal(np.diff(piece), np.ones(99)) for piece in pieces)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: segments.segmented_mutual_information([0.5, 1.0], [1]), "1-D array of integers"),
        (lambda: segments.segmented_mutual_information(np.array([-1, 2, 3]), [1]), "integers >= 0, got -1"),
        (lambda: segments.segmented_mutual_information(np.arange(5), [5]), "lag < 5 are allowed"),
        (lambda: segments.segmented_mutual_information(np.arange(6), [3], [0, 3, 6]), "lag < 3 are allowed"),
        (lambda: segments.segmented_mutual_information(np.arange(6), [0]), "1 <= lag < 6 are allowed"),
        (lambda: segments.segmented_mutual_information(np.arange(6), [1], [0, 7]), "offsets must rise from 0 to"),
        (lambda: segments.sampling_floor(np.arange(600), shuffles=0), "shuffles: a whole number of at least 1"),
        (lambda: segments.sampling_floor(np.arange(60)), "block: 1 to 30 symbols"),
        (lambda: segments.floor_at_lags(np.arange(600), [550]), "block: 1 to 25 symbols are allowed, got 100"),
        (lambda: segments.floor_at_lags(np.arange(600), [1], shuffles=0), "shuffles: a whole number of at least 1"),
        (lambda: segments.floor_of_pairs(np.arange(600), [601]), "pairs: one or more numbers, 1 to 600, are"),
        (lambda: segments.floor_of_pairs(np.arange(600), []), "pairs: one or more numbers"),
        (lambda: segments.floor_of_pairs(np.arange(600), [1.5]), "pairs: a whole number of at least 1"),
        (lambda: resampling.block_bootstrap(np.arange(60), [10], blocks=7), "even number from 2 to 6"),
        (lambda: resampling.block_bootstrap(np.arange(60), [10], blocks=8), "even number from 2 to 6"),
        (lambda: resampling.cut_pieces(np.arange(6), 7, 1), "1 to 6 symbols"),
        (lambda: uniformity.non_uniformity([1.0, 1.0], [1.0, 1.0]), "3 pieces"),
    ],
)
def test_bad_input_is_refused_with_what_is_allowed(call, message):
    with pytest.raises(ValueError, match=message):
        call()
