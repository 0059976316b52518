"""Negative controls: what the natural-corpora chapter checks fails on text without memory and text that differs."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.natural_corpora.tail import Tail, measure_tail
from lib.processes import PowerLawBinary
from lib.report import claims

FAR = np.unique(np.geomspace(50, 1000, 16).round().astype(int))


@pytest.fixture(scope="module")
def memoryless() -> Tail:
    """A text of independent characters with the frequencies of Zipf's law."""
    law = 1 / np.arange(1, 61)
    return measure_tail(np.random.default_rng(1).choice(60, 300_000, p=law / law.sum()), FAR, replicates=100, seed=2)


@pytest.fixture(scope="module")
def remembering() -> Tail:
    """Five power-law bits read as one character of 32, long enough for its tail to stand clear of the floor."""
    bits = PowerLawBinary(300_000, 0.1, 0.6, exact=True).sample(5, seed=0).astype(np.int64)
    return measure_tail(np.array([1, 2, 4, 8, 16]) @ bits, FAR, replicates=100, seed=2)


def test_a_text_without_memory_decays_in_no_check(memoryless: Tail) -> None:
    for bound in (memoryless.interval[0], memoryless.raw_interval[0]):
        with pytest.raises(claims.ClaimFailed):
            claims.check("shen-fig3d", bound, at_least=0.0)
    with pytest.raises(claims.ClaimFailed):
        claims.check("shen-fig3d", memoryless.last[0], at_least=0.0)


def test_a_missing_decay_is_not_called_a_difference(memoryless: Tail) -> None:
    """Fig. 6 says that the decay is missing: where it is, the chapter's "differs" has to fail."""
    with pytest.raises(claims.ClaimFailed, match="agrees with the paper"):
        claims.check(
            "shen-fig6",
            memoryless.exponent,
            expected=0.0,
            within=memoryless.interval,
            outcome="differs",
            note="the level tail is the estimator's sampling floor",
        )


def test_a_steep_curve_is_not_called_level(remembering: Tail) -> None:
    with pytest.raises(claims.ClaimFailed):
        claims.check("shen-fig6", remembering.raw_interval[1], at_most=0.3)
    claims.check("shen-fig3d", remembering.interval[0], at_least=0.0)
    claims.check("shen-fig3d", remembering.last[0], at_least=0.0)


def test_a_tail_that_is_there_is_checked_and_not_left_undecided(remembering: Tail, memoryless: Tail) -> None:
    for value, bound in ((remembering.last[0], 0.0), (remembering.favoured, 0.9)):
        claims.check("shen-fig3d", value, at_least=bound)
        with pytest.raises(claims.ClaimFailed):
            claims.check("shen-fig3d", value, at_most=bound, outcome="reduced", note="undecided")
    with pytest.raises(claims.ClaimFailed):
        claims.check("shen-fig3d", memoryless.favoured, at_least=0.9)


def test_a_wrong_exponent_fails(remembering: Tail) -> None:
    with pytest.raises(claims.ClaimFailed):
        claims.check("shen-wt2-exponent", remembering.exponent, expected=0.3, within=remembering.interval)
