"""The claims about text, judged as the chapter does, in worlds where they hold and where they fail."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from experiments.text_information import published, shapes, statements
from experiments.text_information.models import Model
from experiments.text_information.runs import (
    PUBLISHED,
    Published,
    TextRun,
    best,
    longest_trained,
    text_runs,
    trained_here,
)
from experiments.text_information.shapes import LINE, LOG_POWER, bend, power_law_advantage
from experiments.text_information.statements import (
    chance_level,
    change_by_correction,
    change_of_late_exponent,
    difference_of_exponents,
    exponent,
    exponent_against_quality,
    exponent_on,
    information_against_quality,
    judge_agreement,
    judge_exponent,
    judge_far,
    judge_measured,
    magnitude,
    rank_correlation,
)
from lib.information.intervals import UNKNOWN, Interval
from lib.report import claims
from lib.report.gate import Plateau, plateau_of
from lib.report.verdicts import UNCONVERGED, UNMET, judge_printed
from tests.experiments.text_information.fake_records import grid, power, record, world

NETWORK = next(given for given in grid() if given["model"]["kind"] == "network")


def run_of(noise: float = 0.02, **laws: Callable[[np.ndarray], Any]) -> TextRun:
    return text_runs([record(NETWORK, laws, noise=noise)])[0]


def says(measured: Interval, **bounds: float) -> str:
    return judge_measured("l2m-bp-law", measured, part="here", explanation="outside", **bounds)


def refused(claim: str, measured: Interval, **bounds: float) -> None:
    """The check itself refuses what the chapter would record as agreement."""
    with pytest.raises(claims.ClaimFailed):
        claims.check(claim, [measured.low, measured.high], outcome="reduced", **bounds)


@pytest.mark.parametrize(("planted", "verdict"), [(0.5, "agrees"), (-0.2, "differs"), (1.3, "differs")])
def test_exponents_outside_zero_and_one_are_refused(planted: float, verdict: str) -> None:
    beta = exponent(run_of(direct=power(2, planted)), "direct")
    assert says(beta, at_least=0, at_most=1) == verdict
    if verdict == "differs":
        refused("l2m-bp-law", beta, at_least=0, at_most=1)


def test_an_exponent_that_may_be_zero_is_undecided(capsys: pytest.CaptureFixture[str]) -> None:
    beta = exponent(run_of(noise=1.5, direct=power(2, 0.02)), "direct")
    assert judge_measured("l2m-bp-law", beta, at_least=0, at_most=1, part="here", explanation="outside") == "undecided"
    assert "undecided · l2m-bp-law (here): precondition not met: no value with an interval" in capsys.readouterr().out
    wide = Interval(0.1, -0.2, 0.4)
    assert judge_measured("l2m-bp-law", wide, at_least=0, at_most=1, part="here", explanation="outside") == "undecided"
    assert "undecided · l2m-bp-law (here): interval too wide: 0.1 [-0.2, 0.4]" in capsys.readouterr().out


def test_a_power_law_is_told_from_a_logarithm() -> None:
    rises = power_law_advantage(run_of(vclub=power(2, 0.6)), "vclub")
    bends = power_law_advantage(run_of(vclub=lambda lengths: 1 + 3 * np.log(lengths)), "vclub")
    assert rises.low > 0.5 and bends.high < -0.5
    refused("l2m-bp-law", bends, at_least=0)
    same = power_law_advantage(run_of(noise=0.5, vclub=power(2, 0.05)), "vclub")
    assert says(same, at_least=0) == "undecided"


def cubed(lengths: np.ndarray) -> np.ndarray:
    return np.log(lengths) ** 3


def test_a_cube_of_the_logarithm_passes_against_a_line_and_not_against_its_own_family() -> None:
    cube, law = run_of(vclub=cubed), run_of(vclub=power(2, 0.5))
    assert says(power_law_advantage(cube, "vclub"), at_least=0) == "agrees"
    found = power_law_advantage(cube, "vclub", LOG_POWER)
    assert says(found, at_least=0) == "differs"
    refused("l2m-bp-law", found, at_least=0)
    assert says(power_law_advantage(law, "vclub", LOG_POWER), at_least=0) == "agrees"
    bounds = {"at_least": -0.1, "at_most": 0.1}
    assert says(bend(law, "vclub"), **bounds) == "agrees"
    assert says(bend(cube, "vclub"), **bounds) == "differs"
    refused("l2m-bp-law", bend(cube, "vclub"), **bounds)
    exact = run_of(noise=0.0, vclub=cubed)
    curve = exact.curve("vclub")
    assert curve is not None
    x = np.log(curve.lengths[curve.lengths >= 16])
    early, late = (np.polyfit(x[some], 3 * np.log(x[some]), 1)[0] for some in (slice(4), slice(3, 9)))
    assert bend(exact, "vclub").value == pytest.approx(early - late)
    assert bend(run_of(vclub=lambda lengths: lengths - 40.0), "vclub") == UNKNOWN
    with pytest.raises(ValueError, match="rival"):
        power_law_advantage(law, "vclub", "ln L")


def test_the_advantage_is_that_of_two_fits() -> None:
    lengths = 2.0 ** np.arange(2, 12)
    curve, weights = np.sqrt(lengths) + np.log(lengths) ** 2, 1 / lengths

    def rest(shape: np.ndarray) -> float:
        amplitude = (weights * curve) @ shape / ((weights * shape) @ shape)
        return float(weights @ (curve - amplitude * shape) ** 2)

    power_law = min(rest(lengths**beta) for beta in shapes.EXPONENTS)
    log_power = min(rest(np.log(lengths) ** k) for k in shapes.LOG_POWERS)
    slope, level = np.polyfit(np.log(lengths), curve, 1, w=np.sqrt(weights))
    line = float(weights @ (curve - level - slope * np.log(lengths)) ** 2)
    for rival, other in ((LINE, line), (LOG_POWER, log_power)):
        found = shapes.advantage_over(rival, lengths, curve[None], weights)
        assert found == pytest.approx([(other - power_law) / (other + power_law)], rel=1e-9)


def memoryless(documents: int = 40, lengths: Sequence[int] = (4, 8, 16, 32, 64, 128), words: int = 2000) -> TextRun:
    """Independent words of one law, which q learns as it reads: no information, whatever the direct estimate says.

    q is the predictive law of a Pitman-Yor process with mass 5 and discount 0.6.
    """
    random, law = np.random.default_rng(0), 1 / np.arange(1, words + 1) ** 1.5

    def cost(first: np.ndarray, second: np.ndarray) -> float:
        counts, total = np.zeros(words), 0.0
        for place, word in enumerate(np.concatenate([first, second])):
            there = 5 + 0.6 * np.count_nonzero(counts)
            if place >= first.size:
                total -= np.log((max(counts[word] - 0.6, 0.0) + there / words) / (place + 5))
            counts[word] += 1
        return total

    texts = random.choice(words, size=(documents, lengths[-1]), p=law / law.sum())
    values = np.zeros((2, documents, len(lengths)))
    for row, (text, stranger) in enumerate(zip(texts, np.roll(texts, -1, axis=0), strict=True)):
        for column, length in enumerate(lengths):
            x, y, foreign = text[: length // 2], text[length // 2 : length], stranger[length // 2 : length]
            after = cost(x, y)
            values[:, row, column] = cost(x[:0], y) - after, cost(x, foreign) - after
    named = {"direct": values[0], "uncorrected": values[0], "vclub": values[1]}
    estimates = [{"estimator": key, "ratio": 2, "lengths": list(lengths), "means": own.mean(axis=0).tolist(),
                  "by_group": own.tolist()} for key, own in named.items()]  # fmt: skip
    result = {"estimates": estimates, "characters_per_token": 4.0, "second_half_loss": 1.0, "documents": documents}
    return TextRun(Model(kind="smollm2"), "", 0, {}, result)


def test_words_without_memory_pass_by_the_direct_estimate_and_not_by_what_is_left_of_it() -> None:
    run = memoryless()
    assert says(exponent(run, "direct"), at_least=0, at_most=1) == "agrees"
    assert says(power_law_advantage(run, "direct"), at_least=0) == "agrees"
    assert says(exponent(run, "own"), at_least=0, at_most=1) != "agrees"
    direct, own, vclub = run.curve("direct"), run.curve("own"), run.curve("vclub")
    assert direct is not None and own is not None and vclub is not None
    np.testing.assert_allclose(own.by_group, vclub.by_group)  # a foreign text helps at every length
    assert np.all(direct.intervals[:, 0] > 0) and np.mean(np.abs(own.means) < 0.2 * direct.means) > 0.5
    assert own.intervals[-1, 0] < 0 < own.intervals[-1, 1]


def test_a_foreign_text_that_costs_takes_nothing_from_the_direct_estimate() -> None:
    law = {"direct": power(2, 0.5), "uncorrected": power(3, 0.5)}
    dear, cheap = run_of(noise=0.0, vclub=power(4, 0.5), **law), run_of(noise=0.0, vclub=power(2, 0.5), **law)
    for run, amplitude in ((dear, 2.0), (cheap, 1.0)):
        curve = run.curve("own")
        assert curve is not None
        np.testing.assert_allclose(curve.means, amplitude * curve.lengths**0.5)
        np.testing.assert_allclose(curve.by_group.mean(axis=0), curve.means)
    noisy = run_of(vclub=power(2, 0.5), **law)
    assert says(exponent(noisy, "own"), at_least=0, at_most=1) == "agrees"
    assert says(power_law_advantage(noisy, "own"), at_least=0) == "agrees"
    assert run_of(direct=power(2, 0.5)).curve("own") is None  # without a stranger


def test_the_printed_exponent_has_to_lie_in_a_narrow_interval(capsys: pytest.CaptureFixture[str]) -> None:
    said = {"part": "here", "widest": 0.3, "explanation": "weaker"}
    right = exponent(run_of(direct=power(2.27, 0.76)), "direct")
    assert judge_printed("l2m-bp-law", right, 0.76, **said) == "agrees"
    slipped = exponent(run_of(direct=power(2.27, 0.70)), "direct")
    assert judge_printed("l2m-bp-law", slipped, 0.76, **said) == "differs"
    with pytest.raises(claims.ClaimFailed):
        claims.check("l2m-bp-law", slipped.value, 0.76, within=slipped.ends)
    assert judge_printed("l2m-bp-law", Interval(0.7, 0.4, 0.9), 0.76, **said) == "undecided"
    assert judge_printed("l2m-bp-law", UNKNOWN, 0.76, **said) == "undecided"
    wide, unknown = capsys.readouterr().out.splitlines()[-2:]
    assert "(here): interval too wide" in wide and "(here): precondition not met" in unknown


def test_less_than_the_paper_found_is_what_a_smaller_model_is_expected_to_find_and_more_differs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    said: dict[str, Any] = {"part": "here", "widest": 0.3, "explanation": "weaker"}
    right, less, more = (exponent(run_of(direct=power(2.27, beta)), "direct") for beta in (0.76, 0.5, 0.9))
    assert judge_exponent("l2m-bp-law", right, 0.76, **said) == "agrees"
    assert judge_exponent("l2m-bp-law", less, 0.76, **said) == "undecided"
    assert "precondition not met: 0.50" in capsys.readouterr().out
    assert judge_exponent("l2m-bp-law", more, 0.76, **said) == "differs"
    assert judge_exponent("l2m-bp-law", right, 0.76, later=right, **said) == "agrees"
    assert judge_exponent("l2m-bp-law", right, 0.76, later=less, **said) == "undecided"
    assert "the first lengths alone decide" in capsys.readouterr().out
    assert judge_exponent("l2m-bp-law", more, 0.76, later=right, **said) == "differs"  # a later fit saves nothing
    late = {"condition": "to plateau", "plateau": Plateau(False, UNCONVERGED, "twice the budget gains")}
    assert judge_exponent("l2m-bp-law", less, 0.76, **said, **late) == "undecided"
    assert "twice the budget gains" in capsys.readouterr().out  # the gate comes first
    told: dict[str, Any] = {"part": "here", "explanation": "they scale differently"}
    for difference, verdict in ((0.02, "agrees"), (0.3, "undecided"), (-0.3, "differs")):
        found = Interval(difference, difference - 0.03, difference + 0.03)
        assert judge_agreement("l2m-two-estimators", found, 0.1, **told) == verdict
        if verdict != "agrees":
            refused("l2m-two-estimators", found, at_least=-0.1, at_most=0.1)


def test_a_wide_interval_decides_nothing_on_either_side_of_its_end(capsys: pytest.CaptureFixture[str]) -> None:
    said: dict[str, Any] = {"part": "here", "widest": 0.5, "explanation": "better models do not lead there"}
    for ends in ((-0.3, 0.70), (-0.3, 0.72)):
        assert judge_far("l2m-bp-law", Interval(0.2, *ends), 0.71, **said) == "undecided"
        assert "interval too wide" in capsys.readouterr().out
    assert judge_far("l2m-bp-law", Interval(0.5, 0.4, 0.70), 0.71, **said) == "differs"
    assert judge_far("l2m-bp-law", Interval(0.7, 0.5, 0.8), 0.71, **said) == "agrees"
    assert judge_far("l2m-bp-law", UNKNOWN, 0.71, **said) == "undecided"


@pytest.mark.parametrize("ratio", [3, 4])
def test_a_split_with_another_exponent_is_noticed(ratio: int) -> None:
    entries = record(NETWORK, {"direct": power(2, 0.5)})
    other = record(NETWORK, {"direct": power(2, 0.8)})
    same, wrong = text_runs([entries])[0], text_runs([other])[0]
    bounds = {"at_least": -0.1, "at_most": 0.1}
    assert says(difference_of_exponents((same, "direct", ratio), (same, "direct", 2)), **bounds) == "agrees"
    difference = difference_of_exponents((wrong, "direct", ratio), (same, "direct", 2))
    assert difference.low < 0.3 < difference.high or abs(difference.value - 0.3) < 0.01
    assert says(difference, **bounds) == "differs"
    refused("l2m-bp-law", difference, **bounds)


def test_exponents_that_grow_or_fall_with_quality_are_told_apart_from_none() -> None:
    level = chance_level(9)
    bounds = {"at_least": level, "gap": level}
    for slope, verdict in ((-0.3, "agrees"), (0.3, "differs")):
        local = trained_here(text_runs(world(lambda loss, slope=slope: 0.5 + slope * (loss - 1.7))))
        for value in (exponent_against_quality(local, "direct"), exponent_against_quality(local, "vclub")):
            assert says(value, **bounds) == verdict
            if verdict == "differs":
                refused("l2m-bp-law", value, at_least=level)
    flat = trained_here(text_runs(world(lambda loss: 0.4, noise=0.05)))
    assert says(exponent_against_quality(flat, "vclub"), **bounds) == "undecided"


def test_information_that_falls_with_quality_is_refused() -> None:
    level = chance_level(9)
    better = trained_here(text_runs(world()))
    assert says(information_against_quality(better, "vclub"), at_least=level, gap=level) == "agrees"
    worse = trained_here(text_runs(world(lambda loss: 0.3 * loss)))
    found = information_against_quality(worse, "vclub")
    assert says(found, at_least=level, gap=level) == "differs"
    refused("l2m-bp-law", found, at_least=level)


def test_a_correction_that_is_lost_in_the_growth_is_told_from_one_that_is_not() -> None:
    def changes(law: Callable[[np.ndarray], Any], shift: float) -> tuple[TextRun, list[Interval]]:
        run = run_of(direct=law, uncorrected=lambda lengths: law(lengths) + shift)
        return run, change_by_correction(run)[1]

    run, growing = changes(power(2, 0.7), 5.0)
    assert says(magnitude(growing[0]), at_least=0.1) == "agrees"
    assert says(magnitude(growing[-1]), at_most=0.1) == "agrees"
    shift = difference_of_exponents((run, "direct", 2), (run, "uncorrected", 2))
    assert says(shift, at_least=-0.05, at_most=0.05) == "differs"  # on lengths as short as these
    run, flat = changes(power(8, 0.02), 8.0)
    assert says(magnitude(flat[-1]), at_most=0.1) == "differs"
    refused("l2m-ngram-correction", magnitude(flat[-1]), at_most=0.1)
    run, small = changes(power(20, 0.3), 0.5)
    assert says(magnitude(small[0]), at_least=0.1) == "differs"
    refused("l2m-ngram-correction", magnitude(small[0]), at_least=0.1)
    shift = difference_of_exponents((run, "direct", 2), (run, "uncorrected", 2))
    assert says(shift, at_least=-0.05, at_most=0.05) == "agrees"
    bent = run_of(direct=power(2, 0.5), uncorrected=power(2, 0.3))
    wrong = difference_of_exponents((bent, "direct", 2), (bent, "uncorrected", 2))
    refused("l2m-ngram-correction", wrong, at_least=-0.05, at_most=0.05)


def test_the_late_exponent_forgives_a_shift_that_the_growth_swallows_and_no_other() -> None:
    bounds = {"at_least": -0.05, "at_most": 0.05}
    run = run_of(direct=power(20, 0.5), uncorrected=lambda lengths: 20 * lengths**0.5 + 10)
    assert says(change_of_late_exponent(run), **bounds) == "agrees"
    exact = run_of(noise=0.0, direct=power(2, 0.5), uncorrected=lambda lengths: 2 * lengths**0.5 + 1)
    curve = exact.curve("direct")
    assert curve is not None
    late = curve.lengths[curve.lengths.size // 2 :]
    fitted = np.polyfit(np.log(late), np.log(2 * late**0.5 + 1), 1)[0]
    assert change_of_late_exponent(exact).value == pytest.approx(0.5 - fitted)
    bent = run_of(direct=power(2, 0.5), uncorrected=power(2, 0.3))
    assert says(change_of_late_exponent(bent), **bounds) == "differs"
    refused("l2m-ngram-correction", change_of_late_exponent(bent), **bounds)
    assert change_of_late_exponent(run_of(direct=power(2, 0.5))) == UNKNOWN


def planted(law: Callable[[np.ndarray], np.ndarray], points: int = 10) -> Published:
    return Published("text", "vclub", 1.0, 0.5, tuple(law(4 * 2.0 ** np.arange(points)).tolist()))


def test_published_points_of_a_logarithm_are_refused_as_a_power_law() -> None:
    straight, bent = planted(power(3, 0.6)), planted(lambda lengths: 1 + 3 * np.log(lengths))
    claims.check("l2m-bp-law", published.advantage(straight).low, at_least=0.0)
    claims.check("l2m-bp-law", published.local_exponents(straight), np.full(9, 0.6), 1e-12)
    with pytest.raises(claims.ClaimFailed):
        claims.check("l2m-bp-law", published.advantage(bent).value, at_least=0.0)
    level = planted(lambda lengths: 3 * np.minimum(lengths, 256) ** 0.6)
    for points in (5, 6, 10):
        bound = published.smallest_of_logarithms(planted(cubed, points))
        for offset in (-np.log(4) + 1e-9, -1.0, 0.0, 5.0):  # a / b, of all that are positive from L = 4 on
            line = planted(lambda lengths, offset=offset: offset + np.log(lengths), points)
            smallest = published.local_exponents(line).min()
            assert smallest < bound + 1e-8
            if offset > -np.log(4) + 1e-6:
                with pytest.raises(claims.ClaimFailed):
                    claims.check("l2m-bp-law", smallest, at_least=bound)
        claims.check("l2m-bp-law", published.local_exponents(planted(power(3, 0.6), points)).min(), at_least=bound)
    with pytest.raises(claims.ClaimFailed):
        claims.check("l2m-bp-law", published.local_exponents(level).min(), at_least=bound)


def test_of_the_published_points_the_direct_ones_of_wikipedia_are_no_nearer_to_a_power_law() -> None:
    found = {(law.text, law.estimator): says(published.advantage(law, LOG_POWER), at_least=0) for law in PUBLISHED}
    assert found.pop(("Wikipedia", "direct")) == "undecided"
    assert set(found.values()) == {"agrees"}
    wrong = published.advantage(planted(cubed), LOG_POWER)
    assert says(wrong, at_least=0) == "differs"
    refused("l2m-bp-law", wrong, at_least=0)


def test_one_exponent_is_refused_where_the_early_one_is_another() -> None:
    bounds = {"at_least": -0.1, "at_most": 0.1}
    assert published.bend(planted(power(3, 0.6))).value == pytest.approx(0.0, abs=1e-12)
    assert published.residual(planted(power(3, 0.6))) < 1e-12
    assert says(published.bend(planted(power(3, 0.6))), **bounds) == "agrees"
    for early, late in ((0.9, 0.6), (0.4, 0.7)):

        def kinked(lengths: np.ndarray, early: float = early, late: float = late) -> np.ndarray:
            return np.where(lengths <= 32, (lengths / 32) ** early, (lengths / 32) ** late)

        found = published.bend(planted(kinked))
        assert found.value == pytest.approx(early - late)
        assert says(found, **bounds) == "differs"
        refused("l2m-bp-law", found, **bounds)
    assert says(published.bend(planted(power(3, 0.6), points=5)), **bounds) == "agrees"
    x = np.log(4 * 2.0 ** np.arange(10))
    noisy = np.exp(0.5 * x + published.READING * np.random.default_rng(0).standard_normal((4000, 10)))
    found = [published.bend(Published("text", "vclub", 1.0, 0.5, tuple(row))) for row in noisy.tolist()]
    assert np.mean([one.low <= 0.0 <= one.high for one in found]) == pytest.approx(0.95, abs=0.015)


def test_of_the_published_points_those_of_wikipedia_bend() -> None:
    bounds = {"at_least": -0.1, "at_most": 0.1}
    found = {(law.text, law.estimator): says(published.bend(law), **bounds) for law in PUBLISHED}
    assert found == {
        ("PG19", "direct"): "undecided",
        ("PG19", "vclub"): "agrees",
        ("Wikipedia", "direct"): "differs",
        ("Wikipedia", "vclub"): "undecided",
    }
    for law in PUBLISHED:
        slopes = np.polyfit(np.log(law.lengths), np.log(law.points), 1)
        rest = np.log(law.points) - np.polyval(slopes, np.log(law.lengths))
        assert published.residual(law) == pytest.approx(np.sqrt((rest**2).mean()))
        assert (published.residual(law) > 3 * published.READING) == (law.text == "Wikipedia")


def test_estimators_that_scale_alike_are_told_from_those_that_do_not() -> None:
    like = run_of(direct=power(2, 0.55), vclub=power(3, 0.5))
    found = difference_of_exponents((like, "direct", 2), (like, "vclub", 2))
    assert says(found, at_least=-0.1, at_most=0.1) == says(found, at_least=0.0) == "agrees"
    unlike = run_of(direct=power(2, 0.4), vclub=power(2, 0.7))
    wrong = difference_of_exponents((unlike, "direct", 2), (unlike, "vclub", 2))
    refused("l2m-two-estimators", wrong, at_least=-0.1, at_most=0.1)
    refused("l2m-two-estimators", wrong, at_least=0.0)


def test_of_some_documents_alone_the_exponent_is_theirs() -> None:
    entry = record(grid()[0], {"direct": power(2, 0.5)}, noise=0.0)
    (estimate,) = (one for one in entry["result"]["estimates"] if one["ratio"] == 2)
    lengths = np.array(estimate["lengths"])
    estimate["by_group"][1::2] = [(9 * lengths**0.1).tolist()] * 17  # every second document is another
    estimate["means"] = np.mean(estimate["by_group"], axis=0).tolist()
    (run,) = text_runs([entry])
    assert exponent_on(run, "direct", 2).value == pytest.approx(0.5)
    assert exponent_on(run, "direct", 1).value == pytest.approx(exponent(run, "direct").value) != pytest.approx(0.5)
    assert exponent_on(run, "vclub", 2) == exponent_on(run, "direct", 17) == UNKNOWN
    entry["result"]["documents"] = 35  # then groups of documents are recorded
    assert exponent_on(text_runs([entry])[0], "direct", 2) == UNKNOWN


def test_changes_are_exact_where_documents_do_not_scatter() -> None:
    run = run_of(noise=0.0, direct=power(2, 0.5), uncorrected=lambda lengths: 2 * lengths**0.5 + 1)
    lengths, found = change_by_correction(run)
    expected = -1 / (2 * lengths**0.5 + 1)
    np.testing.assert_allclose([change.value for change in found], expected)
    np.testing.assert_allclose([change.ends for change in found], np.stack([expected] * 2, axis=1))


def test_magnitudes_of_intervals_around_zero_begin_at_zero() -> None:
    assert magnitude(Interval(-0.2, -0.3, 0.1)) == Interval(0.2, 0.0, 0.3)
    assert magnitude(Interval(-0.2, -0.3, -0.1)) == Interval(0.2, 0.1, 0.3)
    assert not magnitude(UNKNOWN).known


def test_random_orders_seldom_exceed_the_level_of_chance() -> None:
    assert chance_level(9) == pytest.approx(0.6, abs=0.03)  # tables of Spearman's coefficient
    assert chance_level(5) == pytest.approx(0.8, abs=0.11)
    assert chance_level(20) < chance_level(9) < chance_level(6)


def test_rank_correlations_leave_out_models_without_a_value_and_need_five() -> None:
    order, replicates = np.arange(6.0), np.tile(np.arange(6.0)[:, None], (1, 40))
    values = order**3
    assert rank_correlation(order, values, replicates).ends == (1.0, 1.0)
    values[2] = np.nan
    assert rank_correlation(order, values, replicates).value == pytest.approx(1.0)
    values[3] = np.nan
    assert not rank_correlation(order, values, replicates).known
    replicates[:2, :20] = np.nan
    assert not rank_correlation(order, order, replicates).known  # half of the replicates have too few models
    with pytest.raises(ValueError, match="resampled"):
        rank_correlation(order, order, replicates[:5])
    assert exponent_against_quality([], "direct") is not None and not exponent_against_quality([], "direct").known


def test_verdicts_need_bounds_and_a_world_of_noise_gives_none() -> None:
    with pytest.raises(ValueError, match="at_least or at_most"):
        says(Interval(0, -1, 1))
    assert says(UNKNOWN, at_least=0) == "undecided"
    assert says(Interval(0.2, 0.1, 0.3), at_least=0.4) == "differs"
    assert says(Interval(0.2, 0.1, 0.3), at_least=0.4, gap=0.4) == "undecided"


Trainings = list[tuple[int, int, float, float]]  # seed, epochs by those of the world, factor of the rate, added loss


def with_trainings(more: Trainings) -> list[TextRun]:
    """A world of networks with one training each, of the best of which there are more."""
    runs = text_runs(world(lambda loss: 0.76 + 0.5 * (1.4 - loss)))
    chosen = best(runs)
    for seed, longer, factor, added in more:
        fit = chosen.parameters["model"]["fit"]
        changed = {"epochs": longer * chosen.epochs, "learning_rate": factor * fit["learning_rate"]}
        parameters = chosen.parameters | {"model": chosen.parameters["model"] | {"fit": fit | changed}}
        result = chosen.result | {"second_half_loss": chosen.loss + added}
        runs.append(
            replace(chosen, model=Model(**parameters["model"]), seed=seed, parameters=parameters, result=result)
        )
    return runs


SEEDS: Trainings = [(1, 1, 1.0, 0.001), (2, 1, 1.0, 0.002)]
RATES: Trainings = [(0, 1, 1 / 3, 0.1), (0, 1, 3.0, 0.1)]
NEAREST = 0.04  # nats per character, from the best network of the world to the next


def test_what_is_said_of_text_needs_a_network_that_has_learned_what_it_can() -> None:
    def gated(*more: tuple[int, int, float, float]) -> tuple[str, str]:
        runs = with_trainings(list(more))
        chosen = best(longest_trained(runs))
        gate = statements.plateau(runs, chosen)
        said = {"part": "p", "explanation": "e", "condition": "to plateau", "plateau": gate}
        found = judge_measured("l2m-bp-law", exponent(chosen, "direct"), at_least=0, at_most=1, **said)
        off = judge_measured("l2m-bp-law", exponent(chosen, "direct"), at_most=0.1, **said)
        assert (found, off) == (("agrees", "differs") if gate.reached else ("undecided", "undecided"))
        return found, gate.reason

    assert gated(*SEEDS, *RATES, (0, 2, 1.0, -0.001)) == ("agrees", "")
    assert gated(*SEEDS, *RATES, (0, 2, 1.0, -0.5)) == ("undecided", UNCONVERGED)
    assert gated(*SEEDS, *RATES) == gated() == ("undecided", UNMET)
    assert gated(*RATES, (0, 2, 1.0, -0.001)) == ("undecided", UNMET)  # one seed
    runs = with_trainings([])
    foreign = next(run for run in runs if run.family == "pretrained")
    assert statements.plateau(runs, foreign).reason == UNMET


def test_a_training_may_change_a_tenth_of_the_distance_to_the_nearest_network_and_not_of_the_range_of_all() -> None:
    runs = with_trainings([])
    losses = [run.loss for run in runs if run.model.kind == "network"]
    assert statements.nearest_difference(runs, best(runs)) == pytest.approx(NEAREST) and NEAREST < np.ptp(losses) / 10
    for gain, reached in ((0.09 * NEAREST, True), (0.12 * NEAREST, False), (0.5 * NEAREST, False)):
        every = with_trainings([*SEEDS, *RATES, (0, 2, 1.0, -gain)])
        gate = statements.plateau(every, best(longest_trained(every)))
        assert (gate.reached, gate.reason) == (reached, "" if reached else UNCONVERGED)
        alike = [run for run in every if run.network == best(runs).network]
        by_range = plateau_of({"": [statements._training(run) for run in alike]}, effect=float(np.ptp(losses)))
        assert by_range.reached  # as it was asked before, which hides all of these


def test_the_nearest_difference_is_that_of_best_losses_of_networks() -> None:
    runs = trained_here(text_runs(world()))
    lowest: dict[str, float] = {}
    for run in runs:
        lowest[run.network] = min(lowest.get(run.network, np.inf), run.loss)
    for run in runs:
        others = [loss for network, loss in lowest.items() if network != run.network]
        expected = min(abs(loss - lowest[run.network]) for loss in others)
        assert statements.nearest_difference(runs, run) == pytest.approx(expected)
    first = runs[0]
    again = replace(first, result=first.result | {"second_half_loss": first.loss + 1e-6})  # of the same network
    other = replace(first, variant="windows anywhere", parameters=first.parameters | {"starts": "anywhere"})
    assert statements.nearest_difference([*runs, again, other], first) == statements.nearest_difference(runs, first)
    pretrained = [run for run in text_runs(world()) if run.family == "pretrained"]
    for some in ([], runs[:1], [first, again], pretrained, [first, *pretrained]):
        assert statements.nearest_difference(some, first) is None
    assert statements.nearest_difference(runs, pretrained[0]) is None
    same = next(run for run in runs if run.network != first.network)
    same = replace(same, result=same.result | {"second_half_loss": first.loss * same.token_length})
    assert statements.nearest_difference([first, same], first) is None
    assert statements.plateau([first, same], same).sentence.endswith("there is no effect to compare with")


@pytest.mark.parametrize(
    ("more", "shown", "asked", "reason"),
    [
        ([*SEEDS, *RATES, (0, 2, 1.0, -0.001)], 2, 1, ""),  # the doubled one of three that had settled
        ([*SEEDS, *RATES, (0, 2, 1.0, -0.5)], 2, 1, UNCONVERGED),
        ([*SEEDS, *RATES, *((seed, 2, 1.0, 0.0) for seed in range(3))], 2, 1, ""),  # as many seeds of the longer ones
        ([*SEEDS, *RATES, *((seed, 2, 1.0, 0.0) for seed in range(4))], 2, 1, ""),  # and more
        ([*SEEDS, *RATES, (0, 2, 1.0, 0.0), (0, 4, 1.0, -0.5)], 4, 2, UNMET),  # the usual budget had settled, not this
        ([*SEEDS, *RATES, (0, 2, 1.0, 0.0), (0, 8, 1.0, -0.5)], 8, 8, UNMET),  # no training of half or twice its budget
        ([*SEEDS, *RATES, (3, 2, 1.0, -0.001)], 2, 2, UNMET),  # of a seed that has no shorter training
        ([*SEEDS, *RATES, (0, 2, 0.5, -0.001)], 2, 2, UNMET),  # of a rate that has none
    ],
)
def test_the_gate_judges_the_training_that_is_shown(more: Trainings, shown: int, asked: int, reason: str) -> None:
    runs = with_trainings(more)
    first = best(with_trainings([]))
    chosen = best([run for run in longest_trained(runs) if run.network == first.network])
    assert chosen.epochs == shown * first.epochs
    gate = statements.plateau(runs, chosen)
    assert gate.reason == reason and gate.sentence.startswith(f"{first.name}, {asked * first.epochs} epochs: ")


def test_a_training_between_two_others_is_asked_about_the_longer_one() -> None:
    runs = with_trainings([*SEEDS, *RATES, (0, 2, 1.0, -0.001)])
    first = best(with_trainings([]))
    gate = statements.plateau(runs, first)
    assert gate.reached and gate.sentence.startswith(f"{first.name}, {first.epochs} epochs: ")
    after = with_trainings([*SEEDS, *RATES, (0, 2, 1.0, -0.001), (0, 4, 1.0, -0.5)])
    middle = next(run for run in after if run.network == first.network and run.epochs == 2 * first.epochs)
    assert statements.plateau(after, middle).reason == UNMET  # it is not the end, and alone


def test_the_whole_page_of_verdicts_in_a_world_like_the_papers() -> None:
    runs = text_runs(world(lambda loss: 0.76 + 0.5 * (1.4 - loss)))
    chosen = best(runs)
    assert chosen.name == "LSTM 256"
    assert says(exponent(chosen, "direct"), at_least=0, at_most=1) == "agrees"
    assert exponent(chosen, "direct").low <= 0.76 <= exponent(chosen, "direct").high
    assert says(power_law_advantage(chosen, "direct"), at_least=0) == "agrees"
    assert shapes.EXPONENTS.min() < 0 < 1 < shapes.EXPONENTS.max()
