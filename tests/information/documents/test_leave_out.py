"""Curves without each block: the fast way is the plain one, and their spread is that of the bootstrap."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from experiments.natural_corpora.resampling import block_bootstrap
from lib.information import mutual_information
from lib.information.documents.leave_out import leave_blocks_out
from lib.information.documents.segments import segmented_mutual_information
from tests.experiments.natural_corpora.test_uniformity import persistent

BORDERS = np.array([0, 7, 7, 130, 131, 400, 600])


def plain(symbols, lag, offsets, blocks, left_out):
    """The table of all pairs that do not start in a block, and its information."""
    table = np.zeros((symbols.max() + 1,) * 2, dtype=int)
    for start, stop in itertools.pairwise(offsets):
        for place in range(start, stop - lag):
            block = next(b for b in range(blocks) if place < (b + 1) * len(symbols) // blocks)
            if block != left_out:
                table[symbols[place], symbols[place + lag]] += 1
    return mutual_information(table)


@pytest.mark.parametrize("workers", [1, 2])
def test_every_curve_is_that_of_the_pairs_which_are_left(workers):
    symbols = np.random.default_rng(0).integers(5, size=600)
    symbols[1:] = np.where(np.random.default_rng(1).random(599) < 0.6, symbols[:-1], symbols[1:])
    lags = [1, 2, 5, 40]
    found = leave_blocks_out(symbols, lags, BORDERS, blocks=7, workers=workers)
    assert found.curve == pytest.approx(segmented_mutual_information(symbols, lags, BORDERS), abs=1e-12)
    expected = [[plain(symbols, lag, BORDERS, 7, block) for lag in lags] for block in range(7)]
    np.testing.assert_allclose(found.without, expected, atol=1e-12)
    assert not np.allclose(found.without[0], found.without[1], atol=1e-6)


@pytest.mark.parametrize("size", [2, 7, 9, 30])  # 7 x 49 cells are fewer than 400 symbols, 7 x 81 are more
def test_tables_of_all_blocks_and_cells_that_a_block_touched_give_the_same(size):
    symbols = np.random.default_rng(size).integers(size, size=400)
    borders = np.array([0, 60, 61, 400])
    found = leave_blocks_out(symbols, [3, 50], borders, blocks=7)
    expected = [[plain(symbols, lag, borders, 7, block) for lag in (3, 50)] for block in range(7)]
    np.testing.assert_allclose(found.without, expected, atol=1e-12)


@pytest.mark.parametrize("estimator", ["plugin", "miller_madow", "grassberger2008"])
def test_all_estimators_agree_with_the_curve_of_documents(estimator):
    symbols = persistent(2000, 0.9, 3)
    found = leave_blocks_out(symbols, [1, 9], blocks=4, estimator=estimator)
    assert found.curve == pytest.approx(segmented_mutual_information(symbols, [1, 9], None, estimator), abs=1e-12)


def test_replicates_spread_as_the_half_samples_of_blocks_do():
    symbols, lags = persistent(60_000, 0.95, 0), [1, 5, 10, 20]
    spread = leave_blocks_out(symbols, lags).replicates(2000, seed=1).std(axis=0)
    other = block_bootstrap(symbols, lags, replicates=400, seed=2).std(axis=0)
    assert np.all(np.abs(np.log(spread / other)) < 0.25)


def test_replicates_have_the_variance_of_the_jackknife_and_the_mean_of_the_curve():
    found = leave_blocks_out(persistent(5000, 0.8, 1), [1, 4], blocks=10)
    redrawn = found.replicates(20_000, seed=0)
    variance = 9 / 10 * ((found.without - found.without.mean(axis=0)) ** 2).sum(axis=0)
    assert redrawn.mean(axis=0) == pytest.approx(found.curve, abs=4 * np.sqrt(variance.max() / 20_000))
    assert redrawn.var(axis=0) == pytest.approx(variance, rel=0.05)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lags": [300], "blocks": 4}, "none is shorter than the largest lag"),
        ({"lags": [1], "blocks": 1}, "blocks: 2 to"),
        ({"lags": [0]}, "1 <= lag < .* are allowed"),
        ({"lags": [1], "symbols": np.arange(6000) % 5999}, "at most 5792 different"),
        ({"lags": [1], "estimator": "best"}, "unknown estimator"),
    ],
)
def test_bad_input_is_refused(options, message):
    symbols = options.pop("symbols", np.arange(1000) % 3)
    with pytest.raises(ValueError, match=message):
        leave_blocks_out(symbols, options.pop("lags"), **options)


def test_symbols_numbered_with_gaps_are_counted_by_how_many_there_are():
    sparse = np.array([0, 6000] * 4000)
    np.testing.assert_array_equal(leave_blocks_out(sparse, [1]).curve, leave_blocks_out(sparse // 6000, [1]).curve)
