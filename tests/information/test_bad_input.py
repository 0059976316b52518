"""What no estimator can use is refused by its name, never computed with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lib.information.bias import expected_entropy, poisson_entropy_bias
from lib.information.compression import huffman_lengths
from lib.information.decay.weighted import weighted_fit
from lib.information.documents.growth import scaling_exponent
from lib.information.documents.leave_out import leave_blocks_out
from lib.information.documents.segments import sampling_floor
from lib.information.intervals import jackknife, seed_mean
from lib.processes import HierarchicalGaussian, LaggedSum, MarkovChain

TEXT = np.arange(400) % 3
LAGS, CURVE, SPREAD = np.arange(1.0, 6.0), np.ones(5), np.full(5, 0.1)
GROWING = np.tile(np.arange(1.0, 5.0), (4, 1))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: leave_blocks_out(TEXT, [1], blocks=2.5), "blocks: a whole number"),
        (lambda: leave_blocks_out(TEXT, [1], blocks="a"), "blocks: a whole number"),
        (lambda: leave_blocks_out(TEXT, [1], blocks=4, workers=0), "workers: a whole number of at least 1"),
        (lambda: leave_blocks_out(TEXT, [1], blocks=4, workers=1.5), "workers: a whole number of at least 1"),
        (lambda: leave_blocks_out(TEXT, [1], blocks=4).replicates(1.5), "count: a whole number of at least 1"),
        (lambda: leave_blocks_out(TEXT, [1], blocks=4).replicates(-1), "count: a whole number of at least 1"),
        (lambda: sampling_floor(TEXT, shuffles=1.5), "shuffles: a whole number of at least 1"),
        (lambda: sampling_floor(TEXT, shuffles=True), "shuffles: a whole number of at least 1"),
        (lambda: sampling_floor(TEXT, block=1.5), "block: a whole number of at least 1"),
        (lambda: sampling_floor(TEXT, block=201), "block: 1 to 200 symbols are allowed, got 201"),
        (lambda: seed_mean([1, 2], "a"), "confidence: a finite real number"),
        (lambda: jackknife(1.0, {}), "replicates: "),
        (lambda: poisson_entropy_bias([0.5, 0.5], 5, []), "estimator: one of"),
        (lambda: weighted_fit(LAGS, CURVE, SPREAD, "exponential", "a"), "fastest: a finite real number"),
        (lambda: weighted_fit(LAGS, CURVE, SPREAD, "exponential", np.nan), "fastest: a finite real number"),
        (lambda: weighted_fit([np.nan, 2, 3, 4, 5], CURVE, SPREAD), "positive finite lags"),
        (lambda: weighted_fit(LAGS, CURVE, [np.inf] * 5), "positive finite lags and spreads"),
        (lambda: scaling_exponent([4, 8, 16, np.inf], GROWING), "positive finite lengths"),
        (lambda: scaling_exponent([4, 8, np.nan, 16], GROWING), "positive finite lengths"),
        (lambda: huffman_lengths([np.inf, 1.0]), "all > 0 and finite"),
        (lambda: expected_entropy(np.full(10, 0.1001), 3), "must sum to 1"),
        (lambda: MarkovChain([[0.5, 0.5], [0.5, 0.5]]).joint_distribution(10**30), "too many to enumerate"),
        (lambda: LaggedSum().joint_distribution(10**30), "too many to enumerate"),
        (lambda: HierarchicalGaussian(2).bipartite_mutual_information(1.5), "splits: whole numbers"),
    ],
)
def test_it_is_refused_by_its_name(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_single_precision_and_no_splits_at_all_are_no_bad_input() -> None:
    law = np.full(10, 0.1)
    assert expected_entropy(law.astype(np.float32), 3) == pytest.approx(expected_entropy(law, 3), rel=1e-6)
    assert np.shape(HierarchicalGaussian(2).bipartite_mutual_information([])) == (0,)
