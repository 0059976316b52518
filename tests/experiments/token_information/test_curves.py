"""Two-point information of tokens: bias of counting, plateaus, bootstrap, planted laws, what every check refuses."""

from fractions import Fraction
from itertools import pairwise, product

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.token_information.curves import measure_token_curve
from experiments.token_information.exponents import (
    centred_interval,
    fitted_constant_exponent,
    judge_between,
    power_law_exponent,
)
from experiments.token_information.planted import PlantedTokens
from experiments.token_information.plateau import common_starts, document_information
from experiments.token_information.resampled import (
    balanced_groups,
    half_samples,
    resampled_entropies,
)
from lib.information import entropy, fit_power_law, mutual_information
from lib.information.bias import entropy_of, expected_entropy, independence_bias, poisson_entropy_bias
from lib.information.corrections import fit_two_point_bias
from lib.information.documents.segments import shuffled_partners
from lib.information.estimators import ESTIMATORS
from lib.report import claims

LAGS = 2 ** np.arange(10)
PG19 = [2.06, 0.743, 0.213, 0.0968, 0.0731, 0.0398, 0.0249, 0.0157, 0.00896, 0.00452, 0.00193, 0.000781, 0.000771]


def measured(source, rows, seed=0, **settings_):
    tokens = source.sample(rows, seed)
    borders = source.length * np.arange(rows + 1)
    return measure_token_curve(tokens.ravel(), borders, LAGS, seed=seed, **{"replicates": 10, **settings_})


@pytest.fixture(scope="module")
def small():
    """512 symbols, 184320 pairs: bias is a small part of the near points."""
    return measured(PlantedTokens(4608, bits=5), 45)


@pytest.fixture(scope="module")
def large():
    """2048 symbols, as many pairs: bias is most of the curve."""
    return measured(PlantedTokens(4608, bits=7), 45)


@pytest.fixture(scope="module")
def topical():
    return measured(PlantedTokens(4608, bits=4, topics=4, tilt=0.7), 45, replicates=20)


def expected_curve(source, pairs):
    marginal = source.marginal()
    bias = []
    for lag in LAGS:
        cells, copies = source.pair_law(int(lag))
        joint = poisson_entropy_bias(cells, pairs, copies=copies)
        bias.append(2 * poisson_entropy_bias(marginal, pairs) - joint)
    return source.mutual_information(LAGS) + np.array(bias)


# --- bias in closed form


@pytest.mark.parametrize(("name", "k"), [("grassberger2003", 1), ("grassberger2008", 2)])
@pytest.mark.parametrize("rate", [0.01, 0.7, 3.0, 20.0])
def test_the_poisson_mean_of_the_estimators_is_the_exponential_integral(name, k, rate):
    mpmath.mp.dps = 30
    logarithm = ESTIMATORS[name].logarithm
    counts = np.arange(1, 120)
    weights = [mpmath.exp(-rate) * mpmath.mpf(rate) ** int(n) / mpmath.factorial(int(n)) for n in counts]
    mean = sum(
        w * int(n) * mpmath.mpf(float(f)) for w, n, f in zip(weights, counts, logarithm(counts * 1.0), strict=True)
    )
    closed = rate * (mpmath.log(rate) + mpmath.e1(k * rate))
    assert abs(mean - closed) < 1e-12 * max(1, abs(closed))


@pytest.mark.parametrize("name", ["grassberger2003", "grassberger2008"])
def test_the_bias_of_fixed_numbers_of_draws_is_the_poisson_one_up_to_the_inverse_of_their_number(name):
    law = 1.0 / np.arange(1, 200)
    law /= law.sum()
    for samples in (300, 3000):
        exact = expected_entropy(law, samples, name) - entropy_of(law)
        assert abs(exact - poisson_entropy_bias(law, samples, name)) < 1.0 / samples


def test_the_bias_at_independence_is_that_of_the_three_entropies():
    law = np.array([0.5, 0.25, 0.125, 0.125])
    other = np.array([0.7, 0.2, 0.1])
    plain = (
        poisson_entropy_bias(law, 9) + poisson_entropy_bias(other, 9) - poisson_entropy_bias(np.outer(law, other), 9)
    )
    assert abs(independence_bias(law, other, 9) - plain) < 1e-14
    copied = poisson_entropy_bias([0.5, 0.25, 0.125], 9, copies=[1, 1, 2])
    assert abs(copied - poisson_entropy_bias(law, 9)) < 1e-15


def test_the_bias_of_counting_refuses_what_is_no_law():
    for law in ([0.5, 0.6], [1.5, -0.5], [], [np.nan, 1.0]):
        with pytest.raises(ValueError, match="probabilities"):
            poisson_entropy_bias(law, 10)
    with pytest.raises(ValueError, match="estimator"):
        independence_bias([1.0], [1.0], 10, "plugin")
    with pytest.raises(ValueError, match="samples"):
        poisson_entropy_bias([1.0], 0)


# --- pairs and replicates


def counted_entropies(first, second, groups, weights, estimator):
    """The definition of `resampled_entropies`: pairs of every row picked out and counted."""
    found = []
    for row in weights:
        x, y = first[row[groups] > 0], second[row[groups] > 0]
        pairs = np.unique(np.stack([x, y]), axis=1, return_counts=True)[1]
        found.append([entropy(counts, estimator) for counts in (np.bincount(x), np.bincount(y), pairs)])
    return np.array(found)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 9), st.sampled_from(sorted(ESTIMATORS)))
def test_one_pass_over_sorted_pairs_equals_counting_every_replicate(seed, size, estimator):
    random = np.random.default_rng(seed)
    first, second = random.integers(size, size=(2, 60))
    groups = np.concatenate([np.arange(6), random.integers(6, size=54)])
    weights = half_samples(6, 4, random)
    fast = resampled_entropies(first, second, groups, weights, estimator)
    assert np.allclose(fast, counted_entropies(first, second, groups, weights, estimator), rtol=0, atol=1e-12)
    table = np.zeros((size, size), dtype=int)
    np.add.at(table, (first, second), 1)
    assert abs(fast[0] @ [1, 1, -1] - mutual_information(table, estimator)) < 1e-12


def test_half_samples_keep_half_of_the_groups_and_come_with_the_other_half():
    weights = half_samples(8, 6, 3)
    assert weights.shape == (7, 8)
    assert weights[0].all()
    assert np.all(weights[1:].sum(axis=1) == 4)
    assert np.all(weights[1:4] + weights[4:] == 1)
    for wrong in ((7, 6), (8, 5)):
        with pytest.raises(ValueError, match="even"):
            half_samples(*wrong, 0)


def test_groups_hold_whole_documents_and_are_balanced():
    lengths = np.array([9, 1, 8, 2, 7, 3, 6, 4, 5, 5])
    group = balanced_groups(lengths, 4)
    load = np.bincount(group, weights=lengths)
    assert load.size == 4
    assert load.max() - load.min() <= 2
    for wrong in (3, 12, 66):
        with pytest.raises(ValueError, match="groups"):
            balanced_groups(lengths, wrong)


def test_pairs_that_do_not_fit_are_refused():
    one = np.zeros(3, dtype=int)
    with pytest.raises(ValueError, match="one length"):
        resampled_entropies(one, one[:2], one, np.ones((1, 1), dtype=np.uint8))
    with pytest.raises(ValueError, match="keeps no pair"):
        resampled_entropies(one, one, one, np.array([[0, 1]], dtype=np.uint8))
    with pytest.raises(ValueError, match="0 or 1"):
        resampled_entropies(one, one, one, np.array([[2]], dtype=np.uint8))
    with pytest.raises(ValueError, match="groups from 0"):
        resampled_entropies(one, one, one + 1, np.array([[1]], dtype=np.uint8))


# --- plateaus


def test_common_starts_are_the_places_with_room_for_the_largest_lag():
    borders = np.array([0, 5, 5, 12, 14])
    plain = [i for a, b in pairwise(borders) for i in range(a, b) if i + 3 < b]
    assert common_starts(borders, 3).tolist() == plain
    with pytest.raises(ValueError, match="longer than 7"):
        common_starts(borders, 7)


@pytest.mark.parametrize("within", [False, True])
def test_partners_are_a_permutation_and_at_least_a_block_apart(within):
    borders = np.array([0, 500, 530, 1600, 3000])
    partners = shuffled_partners(borders, 16, within=within, seed=4)
    document = np.repeat(np.arange(4), np.diff(borders))
    assert np.all(partners[document == 1] == -1)  # shorter than eight blocks
    met = partners >= 0
    assert np.count_nonzero(~met) == 30
    if within:
        assert np.array_equal(document[partners[met]], document[met])
        # no block meets itself or its neighbour; only the incomplete block at the end may repeat a partner
        assert np.abs(partners[met] - np.flatnonzero(met)).min() >= 16
        assert np.unique(partners[met]).size > 0.98 * np.count_nonzero(met)
    else:
        assert np.mean(document[partners[met]] != document[met]) > 0.4
    with pytest.raises(ValueError, match="block"):
        shuffled_partners(borders, 400, within=within, seed=0)


def test_document_information_is_that_of_the_table_and_at_most_the_entropy_of_the_document():
    laws = np.array([[0.5, 0.5, 0.0], [0.1, 0.2, 0.7]])
    weights = np.array([0.25, 0.75])
    total = Fraction(0)
    joint = {}
    for a, b in product(range(3), repeat=2):
        joint[a, b] = sum(Fraction(w) * Fraction(p[a]) * Fraction(p[b]) for w, p in zip(weights, laws, strict=True))
        total += joint[a, b]
    margin = [sum(joint[a, b] for b in range(3)) for a in range(3)]
    plain = sum(float(v) * np.log(float(v / (margin[a] * margin[b]))) for (a, b), v in joint.items() if v)
    found = document_information(laws, weights)
    assert abs(float(total) - 1) < 1e-15
    assert abs(found - plain) < 1e-14
    assert 0 < found < entropy_of(weights)
    assert abs(document_information(laws[[1, 1]], weights)) < 1e-15
    for wrong in ((laws, [0.5, 0.6]), (laws * 2, weights), (laws, [1.0]), (-laws, weights)):
        with pytest.raises(ValueError, match=r"laws|sum to 1"):
            document_information(*wrong)


# --- planted tokens


@pytest.mark.parametrize("topics", [1, 4])
def test_the_pair_law_has_the_stated_information(topics):
    source = PlantedTokens(64, bits=4, suffixes=8, topics=topics, tilt=0.6)
    for lag in (1, 5, 40):
        cells, copies = source.pair_law(lag)
        assert abs(cells @ copies - 1) < 1e-12
        information = 2 * entropy_of(source.marginal()) + float(copies @ (cells * np.log(cells)))
        assert abs(information - source.mutual_information(lag)) < 1e-11
    assert source.vocabulary == source.marginal().size == 128
    assert (source.topic_information() > 1e-3) == (topics > 1)


def test_sampled_tokens_follow_the_pair_law_on_average():
    source = PlantedTokens(512, bits=4, suffixes=4, topics=2, tilt=0.5)
    tokens = source.sample(400, 5)
    assert tokens.shape == (400, 512)
    assert np.abs(np.bincount(tokens.ravel(), minlength=64) / tokens.size - source.marginal()).max() < 0.005
    for lag in (1, 8):
        table = np.zeros((64, 64))
        np.add.at(table, (tokens[:, :-lag].ravel(), tokens[:, lag:].ravel()), 1)
        assert abs(mutual_information(table) / source.mutual_information(lag) - 1) < 0.03
    with pytest.raises(ValueError, match="divisor"):
        PlantedTokens(8, suffixes=6, topics=4)
    with pytest.raises(ValueError, match="tilt"):
        PlantedTokens(8, tilt=1.5)
    with pytest.raises(ValueError, match="at least 1"):
        source.mutual_information(0)


# --- token curves


def test_the_curve_counts_the_pairs_of_common_starts(small):
    source = PlantedTokens(4608, bits=5)
    tokens = source.sample(45, 0)
    room = 4608 - int(LAGS[-1])
    size = source.vocabulary
    for k, lag in ((0, 1), (9, 512)):
        codes = tokens[:, :room].ravel() * size + tokens[:, lag : lag + room].ravel()
        table = np.bincount(codes, minlength=size * size).reshape(size, size)
        assert abs(small.counted[0, k] - mutual_information(table, "grassberger2008")) < 1e-11
    assert small.pairs == 45 * room


def test_the_expected_curve_foretells_the_counted_one(small, large):
    for bits, found in ((5, small), (7, large)):
        expected = expected_curve(PlantedTokens(4608, bits=bits), found.pairs)
        assert np.all(np.abs(found.counted[0] - expected) < 0.02 * expected + 0.015)


def test_halving_brings_the_planted_amplitude_back_where_a_constant_does_not(large):
    exact = PlantedTokens(4608, bits=7).mutual_information(1)
    with_constant = large.counted[0, 0] - large.unrelated[0]
    assert with_constant < 0.6 * exact
    assert abs(large.information[0, 0] / exact - 1) < 0.3
    rows = large.beyond_documents
    assert np.allclose(rows, large.information - large.document_information[:, None])


def test_documents_of_one_law_tell_nothing_and_topics_tell_what_they_do(small, topical):
    low, high = centred_interval(small.document_information)
    assert low < 0.002
    assert high > -0.002
    exact = PlantedTokens(4608, bits=4, topics=4, tilt=0.7).topic_information()
    low, high = centred_interval(topical.document_information)
    assert 0 < low < exact < high


def test_token_curves_refuse_bad_arguments():
    tokens, borders = np.zeros(4000, dtype=int), 500 * np.arange(9)
    for wrong in (
        {"lags": [0, 1]},
        {"lags": [2, 1]},
        {"lags": [1.5]},
        {"lags": [1], "groups": 3},
        {"lags": [1], "groups": 34},
        {"lags": [600]},
        {"lags": [1], "block": 100},
        {"lags": [1], "shuffles": 0},
    ):
        with pytest.raises(ValueError, match=r"allowed|longer|block"):
            measure_token_curve(tokens, borders, wrong.pop("lags"), **{"groups": 4, "block": 16, **wrong})
    with pytest.raises(ValueError, match="symbols"):
        measure_token_curve(-tokens - 1, borders, [1])


# --- exponents


def test_exponents_of_exact_curves_are_exact():
    curves = np.tile(1.1 * LAGS**-0.91, (5, 1))
    fit = power_law_exponent(LAGS, curves)
    assert abs(fit.exponent - 0.91) < 1e-12
    assert np.allclose(fit.interval, 0.91)
    assert fit.lags[-1] == 512
    constant = fitted_constant_exponent(LAGS, curves + 0.01)
    assert abs(constant.exponent - 0.91) < 1e-6
    assert abs(constant.constant - 0.01) < 1e-7
    assert constant.at_the_end == 0
    assert np.allclose(constant.predict(LAGS), curves[0] + 0.01)


def test_lags_that_do_not_stand_clear_of_zero_are_left_out():
    curves = np.tile(1.1 * LAGS**-0.91, (5, 1))
    curves[1:, 6] += np.array([1, -1, 1, -1]) * 0.012  # half of the value there: two standard deviations
    assert power_law_exponent(LAGS, curves).lags.tolist() == LAGS[:6].tolist()
    curves[2, 2] = -1.0
    with pytest.raises(ValueError, match="first 2 lags"):
        power_law_exponent(LAGS, curves)
    with pytest.raises(ValueError, match="allowed"):
        power_law_exponent(LAGS[:3], curves)


def test_a_curve_that_is_nearly_all_bias_sends_the_fitted_constant_to_an_end(large):
    fit = fitted_constant_exponent(large.lags, large.counted)
    assert fit.at_the_end > 0.5
    assert fit.exponent < 0.2


def test_centred_intervals_carry_the_spread_of_the_replicates_to_the_estimate():
    replicates = np.linspace(100, 101, 201)
    low, high = centred_interval([5.0, *replicates], groups=16)
    assert low + high == pytest.approx(10)
    assert (high - low) / 2 == pytest.approx(2.15 * replicates.std(), rel=0.01)  # Student's, 13 degrees of freedom
    few = centred_interval([5.0, *replicates[:3]], groups=4)
    assert few[1] - few[0] > 4 * 1.96 * replicates[:3].std()
    with pytest.raises(ValueError, match="at least two replicates"):
        centred_interval([5.0, 100.0])


def test_centred_intervals_hold_a_mean_of_few_groups_as_often_as_they_say():
    random, held = np.random.default_rng(0), 0
    for _ in range(1000):
        groups = random.standard_normal(16)
        weights = half_samples(16, 30, random)
        held += abs(groups.mean()) < np.ptp(centred_interval([groups.mean(), *(weights[1:] @ groups / 8)])) / 2
    assert 0.93 < held / 1000 < 0.98  # quantiles of the replicates: 0.88


# --- verdicts and negative controls


def test_the_formula_of_the_bias_is_refused_with_the_other_estimator_and_for_pairs_that_know_each_other(small):
    law = PlantedTokens(4608, bits=5).marginal()
    right, wrong = (independence_bias(law, law, small.pairs, name) for name in ("grassberger2008", "grassberger2003"))
    reach = 0.02 * right + 1 / np.sqrt(small.pairs)
    claims.check("l2m-tp-bias", small.unrelated[0], right, reach)
    for value, expected in ((small.unrelated[0], wrong), (small.counted[0, 0], right)):
        with pytest.raises(claims.ClaimFailed):
            claims.check("l2m-tp-bias", value, expected, reach)


def test_checks_of_the_expected_curve_refuse_the_other_correction():
    source, pairs = PlantedTokens(4608, bits=5), 2**18
    curve = expected_curve(source, pairs)
    raw, fitted = fit_power_law(LAGS, curve).exponent, fit_two_point_bias(LAGS, curve).exponent
    claims.check("l2m-tp-bias", fitted, 0.91, 0.02)
    claims.check("l2m-tp-bias", raw, at_most=0.71)
    with pytest.raises(claims.ClaimFailed):
        claims.check("l2m-tp-bias", raw, 0.91, 0.02)
    with pytest.raises(claims.ClaimFailed):
        claims.check("l2m-tp-bias", fitted, at_most=0.71)


def test_the_amplitude_of_a_constant_is_refused_by_the_check_of_halving_and_is_right_with_many_pairs():
    source, amplitudes = PlantedTokens(4608, bits=7), {}
    for pairs in (2**19, 2**26):
        law, curve = source.marginal(), expected_curve(source, pairs)
        bias = independence_bias(law, law, pairs)
        rise = independence_bias(law, law, pairs // 2) - bias
        halved = curve - bias * (expected_curve(source, pairs // 2) - curve) / rise
        amplitudes[pairs] = fit_two_point_bias(LAGS, curve).amplitude, fit_power_law(LAGS, halved).amplitude
    claims.check("l2m-tp-bias", amplitudes[2**19][1], 1.1, 0.16)
    claims.check("l2m-tp-bias", amplitudes[2**19][0], at_most=1.045, remark=True)  # few pairs
    with pytest.raises(claims.ClaimFailed):
        claims.check("l2m-tp-bias", amplitudes[2**19][0], 1.1, 0.16)
    with pytest.raises(claims.ClaimFailed):
        claims.check("l2m-tp-bias", amplitudes[2**26][0], at_most=1.045, remark=True)  # many pairs


def test_checks_of_samples_refuse_the_uncorrected_exponent_and_the_larger_vocabulary(small, large):
    some = LAGS < 64
    raw = fit_power_law(LAGS, small.counted[0]).exponent
    halved = fit_power_law(LAGS[some], small.information[0][some]).exponent
    with pytest.raises(claims.ClaimFailed):
        claims.check("l2m-tp-bias", raw, 0.91, 0.05)
    with pytest.raises(claims.ClaimFailed):
        claims.check("l2m-tp-bias", halved, at_most=0.86)
    share = [found.unrelated[0] / found.pair_entropy.min() for found in (small, large)]
    with pytest.raises(claims.ClaimFailed):
        claims.check("l2m-tp-bias", share[1], at_most=0.01)
    source = PlantedTokens(4608, bits=5)
    good = [abs(fit_two_point_bias(LAGS, expected_curve(source, 2**n)).exponent - 0.91) < 0.2 for n in (18, 20)]
    bad = abs(fit_two_point_bias(LAGS, large.counted[0]).exponent - 0.91) < 0.2
    claims.check("l2m-tp-bias", np.mean([*good, bad]), at_most=0.99, remark=True)  # one fell to C = 0
    with pytest.raises(claims.ClaimFailed):
        claims.check("l2m-tp-bias", np.mean(good), at_most=0.99, remark=True)
    assert share[0] < share[1]


def test_the_check_of_topics_refuses_another_tilt_and_the_plateau_with_its_bias(topical):
    interval = centred_interval(topical.document_information)
    value = topical.document_information[0]
    exact, other = (PlantedTokens(8, topics=4, tilt=tilt).topic_information() for tilt in (0.7, 0.35))
    claims.check("l2m-tp-bias", value, exact, within=interval)
    with pytest.raises(claims.ClaimFailed):
        claims.check("l2m-tp-bias", value, other, within=interval)
    with pytest.raises(claims.ClaimFailed):
        shift = topical.unrelated[0] + 0.01
        claims.check("l2m-tp-bias", value + shift, exact, within=(interval[0] + shift, interval[1] + shift))


def test_the_check_of_the_share_refuses_a_far_distance(large):
    near, far = (centred_interval(large.bias_share[:, k])[1] for k in (0, 9))
    claims.check("l2m-tp-bias", near, at_most=0.9, remark=True)
    with pytest.raises(claims.ClaimFailed):
        claims.check("l2m-tp-bias", far, at_most=0.9, remark=True)


def test_the_published_points_give_their_legend_and_two_exponents_and_a_straight_line_does_not():
    distance = 2.0 ** np.arange(len(PG19))
    refit = fit_power_law(distance, PG19)
    assert abs(refit.exponent - 0.91) < 0.01
    assert abs(refit.amplitude / 1.10 - 1) < 0.02

    def bend(points):
        near, far = distance <= 8, (distance >= 8) & (distance <= 256)
        ends = [fit_power_law(distance[some], np.asarray(points)[some]).exponent for some in (near, far)]
        return ends[0] - ends[1]

    claims.check("l2m-tp-law", bend(PG19), at_most=0.1, outcome="differs", note="bent")
    with pytest.raises(claims.ClaimFailed):
        claims.check("l2m-tp-law", bend(1.1 * distance**-0.91), at_most=0.1, outcome="differs", note="straight")


def test_the_check_that_vocabularies_span_the_printed_exponent_refuses_a_span_beside_it():
    claims.check("l2m-tp-law", 0.91, at_least=0.84, at_most=1.24, outcome="reduced")
    for ends in ((1.0, 1.24), (0.6, 0.84)):
        with pytest.raises(claims.ClaimFailed):
            claims.check("l2m-tp-law", 0.91, at_least=ends[0], at_most=ends[1], outcome="reduced")


@pytest.mark.parametrize(
    ("exponents", "verdict"),
    [([0.84, 1.0, 1.24], "agrees"), ([1.0, 1.24], "differs"), ([0.7, 0.84], "differs"), ([0.91], "undecided")],
)
def test_a_printed_exponent_is_between_those_of_the_vocabularies_or_on_one_side_of_all(
    exponents: list[float], verdict: str
) -> None:
    assert judge_between("l2m-tp-law", 0.91, exponents, part="here") == verdict
    if verdict == "differs":
        with pytest.raises(claims.ClaimFailed):
            claims.check("l2m-tp-law", 0.91, at_least=min(exponents), at_most=max(exponents))
