"""Negative controls: what the natural-corpora chapter checks fails on text without memory and text that differs."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.natural_corpora.tail import Tail, measure_tail, steeper_than_pieces
from lib.information import fit_exponential, fit_power_law
from lib.information.intervals import Interval
from lib.processes import PowerLawBinary
from lib.report import claims
from lib.report.verdicts import decide, judge

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


def bits(exponent: float, length: int, seed: int) -> np.ndarray:
    """Five power-law bits read as one character of 32."""
    rows = PowerLawBinary(length, 0.1, exponent, exact=True).sample(5, seed).astype(np.int64)
    return np.asarray(np.array([1, 2, 4, 8, 16]) @ rows)


def test_a_split_without_memory_is_flatter_than_its_training_text_and_a_uniform_one_is_not() -> None:
    training = bits(0.6, 1_000_000, 1)
    memoryless = np.random.default_rng(2).integers(0, 32, 200_000)
    setting = {"pieces": 4, "replicates": 12, "seed": 0}
    flatter = steeper_than_pieces(memoryless, training, FAR, **setting)
    assert decide([flatter.ends], at_most=-0.15, fewest=2, intervals=True).found == "agrees"
    uniform = steeper_than_pieces(bits(0.6, 200_000, 3), training, FAR, **setting)
    assert decide([uniform.ends], at_most=-0.15, fewest=2, intervals=True).found != "agrees"
    assert uniform.low < 0 < uniform.high
    with pytest.raises(ValueError, match="at least 3 pieces"):
        steeper_than_pieces(memoryless, training, FAR, pieces=2)


def test_what_neither_law_wins_is_undecided_and_no_pass(capsys: pytest.CaptureFixture) -> None:
    rule = {"at_least": 0.9, "gap": 0.8, "fewest": 0, "part": "law", "explanation": "the exponential is preferred"}
    found = [judge("shen-fig3d", favoured, **rule) for favoured in (0.95, 0.6, 0.05)]
    assert found == ["agrees", "undecided", "differs"]
    wide, clear = Interval(1.0, -0.03, 2.03), Interval(1.0, 0.45, 1.55)
    left = {"at_least": 0.1, "fewest": 0, "part": "left", "explanation": "nothing is left"}
    assert [judge("shen-fig3d", one, **left) for one in (wide, clear)] == ["undecided", "agrees"]
    assert capsys.readouterr().out.count("interval too wide") == 2


def test_a_power_law_passes_only_if_documents_do_not_explain_it(capsys: pytest.CaptureFixture) -> None:
    rule = {"at_least": 0.9, "gap": 0.8, "fewest": 0, "part": "law", "explanation": "the exponential is preferred"}
    rule["reason"] = "interval too wide"
    cases = ([[1.0, 0.95]], [[1.0, 0.6]], [[0.95, 0.02]], [[0.76, 0.03]], [[0.05, 0.02]])
    found = [judge("shen-fig3d", case, **rule) for case in cases]
    assert found == ["agrees", "undecided", "undecided", "undecided", "differs"]
    assert capsys.readouterr().out.count("interval too wide") == 3


def test_much_larger_is_refused_for_what_is_little_larger(capsys: pytest.CaptureFixture) -> None:
    rule = {"at_least": 2, "fewest": 0, "part": "ratio", "explanation": "less than twice"}
    for claim in ("shen-gpt2-magnitude", "shen-wt2-validation"):
        cases = (Interval(13, 6, 21), Interval(3, 1.3, 4.6), Interval(1.2, 0.9, 1.6))
        assert [judge(claim, case, **rule) for case in cases] == ["agrees", "undecided", "differs"]
    assert "differs" in capsys.readouterr().out


def test_the_first_ten_distances_of_a_power_law_are_not_called_exponential(capsys: pytest.CaptureFixture) -> None:
    rule = {"at_least": 0, "fewest": 0, "part": "law", "explanation": "a power law fits better"}
    near = np.arange(1, 11)
    random = np.random.default_rng(0)

    def lead(curve: np.ndarray) -> Interval:
        noisy = curve * np.exp(0.03 * random.standard_normal((200, 10)))
        values = [fit_power_law(near, one).aic - fit_exponential(near, one).aic for one in noisy]
        return Interval(np.mean(values), *np.quantile(values, [0.025, 0.975]))

    assert judge("shen-wt2-short", {"a": lead(np.exp(-near / 2.2))}, **rule) == "agrees"
    assert judge("shen-wt2-short", {"a": lead(near**-1.5)}, **rule) == "differs"
    assert "a power law fits better" in capsys.readouterr().out


def test_a_steep_curve_is_not_called_level(remembering: Tail) -> None:
    with pytest.raises(claims.ClaimFailed):
        claims.check("shen-fig6", remembering.raw_interval[1], at_most=0.3)
    claims.check("shen-fig3d", remembering.interval[0], at_least=0.0)
    claims.check("shen-fig3d", remembering.last[0], at_least=0.0)


def test_a_tail_that_is_there_is_found(remembering: Tail, memoryless: Tail) -> None:
    for value, bound in ((remembering.last[0], 0.0), (remembering.favoured, 0.9)):
        claims.check("shen-fig3d", value, at_least=bound)
    with pytest.raises(claims.ClaimFailed):
        claims.check("shen-fig3d", memoryless.favoured, at_least=0.9)


def test_a_wrong_exponent_fails(remembering: Tail) -> None:
    with pytest.raises(claims.ClaimFailed):
        claims.check("shen-wt2-exponent", remembering.exponent, expected=0.3, within=remembering.interval)
