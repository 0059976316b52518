"""Exact error terms of model-based estimators: I + marginal - conditional, I + shuffled - conditional."""

from __future__ import annotations

from itertools import product

import mpmath
import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.information import direct_estimate, gaussian_mutual_information, vclub_estimate
from lib.information.model_estimates import cyclic_shift
from lib.processes import AutoregressiveGaussian, HierarchicalGaussian, MarkovChain
from lib.report import claims
from lib.theory.gaussian_predictor import GaussianPredictor
from lib.theory.model_error import (
    ErrorTerms,
    divergence,
    gaussian_error_terms,
    gaussian_jeffreys,
    markov_error_terms,
    table_error_terms,
)


def covariance(size: int, seed: int) -> np.ndarray:
    root = np.random.default_rng(seed).standard_normal((size, size + 2))
    return root @ root.T


def gaussian_divergence(p: np.ndarray, q: np.ndarray) -> float:
    """KL of mean-zero Gaussians by its textbook formula, which the library does not use."""
    trace = np.trace(np.linalg.solve(q, p))
    return float((trace - len(p) + np.linalg.slogdet(q)[1] - np.linalg.slogdet(p)[1]) / 2)


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 7), st.integers(0, 10**6), st.data())
def test_gaussian_terms_are_differences_of_textbook_divergences(size: int, seed: int, data: st.DataObject) -> None:
    cut = data.draw(st.integers(1, size - 1))
    p, q = covariance(size, seed), covariance(size, seed + 1)
    independent = p.copy()
    independent[:cut, cut:] = independent[cut:, :cut] = 0.0
    first = gaussian_divergence(p[:cut, :cut], q[:cut, :cut])
    terms = gaussian_error_terms(p, q, cut)
    assert terms.information == pytest.approx(
        gaussian_mutual_information(p, range(cut), range(cut, size)), rel=1e-9, abs=1e-12
    )
    assert terms.marginal == pytest.approx(gaussian_divergence(p[cut:, cut:], q[cut:, cut:]), rel=1e-7, abs=1e-9)
    assert terms.conditional == pytest.approx(gaussian_divergence(p, q) - first, rel=1e-7, abs=1e-9)
    assert terms.shuffled == pytest.approx(gaussian_divergence(independent, q) - first, rel=1e-7, abs=1e-9)


def test_sympy_derives_both_estimators_of_two_gaussians_from_moments() -> None:
    rho, r, v = sympy.Rational(3, 5), sympy.Rational(1, 4), sympy.Rational(3, 2)
    given_x = lambda spread: -sympy.log(2 * sympy.pi * (1 - r**2)) / 2 - spread / (2 * (1 - r**2))  # noqa: E731
    alone = -sympy.log(2 * sympy.pi * v) / 2 - 1 / (2 * v)
    direct = given_x(1 - 2 * r * rho + r**2) - alone
    vclub = given_x(1 - 2 * r * rho + r**2) - given_x(1 + r**2)
    assert sympy.simplify(vclub - r * rho / (1 - r**2)) == 0
    q = np.array([[1.0, 0.25], [0.25, 1.0]])
    terms = gaussian_error_terms([[1.0, 0.6], [0.6, 1.0]], q, marginal=[[1.5]])
    assert terms.direct == pytest.approx(float(direct), rel=1e-14)
    assert terms.vclub == pytest.approx(float(vclub), rel=1e-14)


def test_at_q_equal_p_direct_is_the_information_and_vclub_the_jeffreys_divergence() -> None:
    p = covariance(6, 3)
    terms = gaussian_error_terms(p, p, 2)
    claims.check("l2m-direct", terms.direct, terms.information, 1e-12, part="q = p")
    claims.check("l2m-vclub", terms.vclub, gaussian_jeffreys(p, 2), 1e-10, part="q = p",
                 outcome="misprint", erratum=18, printed=terms.information)  # fmt: skip
    with pytest.raises(claims.ClaimFailed):  # a model that is wrong by a tenth is told apart
        claims.check("l2m-direct", gaussian_error_terms(p, p + 0.1 * np.eye(6), 2).direct, terms.information, 1e-12)
    with pytest.raises(claims.ClaimFailed):  # what the printed reading would need
        claims.check("l2m-vclub", terms.vclub, terms.information, 0.1)


def test_a_tiny_information_keeps_its_digits() -> None:
    rho = 1e-100
    terms = gaussian_error_terms([[1.0, rho], [rho, 1.0]], [[1.0, rho], [rho, 1.0]])
    assert terms.information == pytest.approx(rho**2 / 2, rel=1e-12)
    assert terms.vclub == pytest.approx(rho**2, rel=1e-12)


def test_vclub_crosses_the_information_where_both_divergences_are_equal() -> None:
    rho = mpmath.mpf("0.8")
    information = -mpmath.log(1 - rho**2) / 2
    r = float(mpmath.findroot(lambda x: x * rho / (1 - x**2) - information, 0.5))
    truth = [[1.0, 0.8], [0.8, 1.0]]
    at, below, above = (gaussian_error_terms(truth, [[1.0, x], [x, 1.0]]) for x in (r, r - 0.01, r + 0.01))
    assert at.shuffled == pytest.approx(at.conditional, rel=1e-9)
    assert below.vclub < below.information < above.vclub
    with pytest.raises(claims.ClaimFailed):
        claims.check("l2m-vclub", below.vclub, at_least=below.information)


def test_marginal_error_alone_overestimates_and_conditional_error_alone_underestimates() -> None:
    p = AutoregressiveGaussian(0.9).covariance(8)
    wide = GaussianPredictor.from_covariance(p[4:, 4:])
    wide = GaussianPredictor(wide.weights, np.concatenate([[4.0], wide.variances[1:]]))
    over = gaussian_error_terms(p, p, marginal=wide)
    under = gaussian_error_terms(p, AutoregressiveGaussian(0.5).covariance(8), marginal=p[4:, 4:])
    assert over.direct - over.information == pytest.approx((0.25 - 1 + np.log(4)) / 2, rel=1e-12)
    assert under.direct == under.information - under.conditional < under.information
    for terms in (over, under):  # neither bound: each refutes one
        assert terms.direct != pytest.approx(terms.information, abs=0.01)


def test_a_model_that_degrades_with_length_grows_too_slowly_and_one_that_stays_as_good_does_not() -> None:
    lengths = 4 ** np.arange(1, 6)
    laws = [HierarchicalGaussian(layers).covariance() for layers in range(1, 6)]

    def slope(values: list[float]) -> float:
        return float(np.polyfit(np.log(lengths), np.log(values), 1)[0])

    truth = slope([gaussian_mutual_information(c, range(len(c) // 2), range(len(c) // 2, len(c))) for c in laws])

    def exponents(kept: list[float]) -> list[float]:
        """Of both estimators, when the model believes in this share of every correlation."""
        terms = []
        for law, share in zip(laws, kept, strict=True):
            believed = share * law + (1 - share) * np.diag(np.diagonal(law))
            half = len(law) // 2
            terms.append(gaussian_error_terms(law, believed, half, marginal=believed[half:, half:]))
        return [slope([term.direct for term in terms]), slope([term.vclub for term in terms])]

    degraded = exponents((lengths / 4) ** -0.3)
    claims.check("l2m-underestimate", degraded, at_most=truth - 0.015)
    for kept in (np.ones(5), (lengths / 1024) ** 0.3):  # exact, and better at every length
        with pytest.raises(claims.ClaimFailed):
            claims.check("l2m-underestimate", exponents(kept), at_most=truth - 0.015)


def test_predictor_reproduces_densities_cross_entropies_and_covariance() -> None:
    p, q = covariance(5, 7), covariance(5, 8)
    model = GaussianPredictor.from_covariance(q)
    x = np.random.default_rng(0).standard_normal((4, 5))
    density = -0.5 * (np.einsum("ni,ij,nj->n", x, np.linalg.inv(q), x) + np.linalg.slogdet(2 * np.pi * q)[1])
    np.testing.assert_allclose(model.log_densities(x).sum(axis=1), density, rtol=1e-10)
    np.testing.assert_allclose(model.covariance(), q, rtol=1e-9)
    entropy = np.linalg.slogdet(2 * np.pi * np.e * p)[1] / 2
    assert model.cross_entropies(p).sum() - entropy == pytest.approx(gaussian_divergence(p, q), rel=1e-9)
    assert model.divergences(p).sum() == pytest.approx(gaussian_divergence(p, q), rel=1e-9)
    np.testing.assert_allclose(GaussianPredictor.from_covariance(p).divergences(p), 0.0, atol=1e-14)


def test_a_window_predicts_as_well_as_its_entries_allow() -> None:
    p = covariance(6, 9)
    windowed = GaussianPredictor.windowed(p, 2)
    for place in range(6):
        seen = list(range(max(0, place - 2), place))
        rest = p[place, place] - (
            p[place, seen] @ np.linalg.solve(p[np.ix_(seen, seen)], p[seen, place]) if seen else 0
        )
        assert windowed.variances[place] == pytest.approx(rest, rel=1e-10)
    np.testing.assert_allclose(GaussianPredictor.windowed(p, 5).weights, GaussianPredictor.from_covariance(p).weights)
    chain = AutoregressiveGaussian(0.7).covariance(6)  # Markov: one entry is enough, none is not
    np.testing.assert_allclose(GaussianPredictor.windowed(chain, 1).divergences(chain), 0.0, atol=1e-14)
    assert GaussianPredictor.windowed(chain, 0).divergences(chain).sum() > 1.0


def random_law(shape: tuple[int, ...], seed: int) -> np.ndarray:
    law = np.random.default_rng(seed).random(shape) + 0.05
    return law / law.sum()


def test_table_terms_are_the_sums_of_their_definition_in_forty_digits() -> None:
    p, q, alone = random_law((3, 4), 1), random_law((3, 4), 2), random_law((4,), 3)
    with mpmath.workdps(40):
        joint, model = (mpmath.matrix(t.tolist()) for t in (p, q))
        px = [sum(joint[i, j] for j in range(4)) for i in range(3)]
        py = [sum(joint[i, j] for i in range(3)) for j in range(4)]
        qx = [sum(model[i, j] for j in range(4)) for i in range(3)]
        log_given = lambda i, j: mpmath.log(model[i, j] / qx[i])  # noqa: E731
        cells = list(product(range(3), range(4)))
        inside = sum(joint[i, j] * log_given(i, j) for i, j in cells)
        direct = inside - sum(py[j] * mpmath.log(float(alone[j])) for j in range(4))
        vclub = inside - sum(px[i] * py[j] * log_given(i, j) for i, j in cells)
    terms = table_error_terms(p, q, alone)
    assert terms.direct == pytest.approx(float(direct), rel=1e-13)
    assert terms.vclub == pytest.approx(float(vclub), rel=1e-13)
    with mpmath.workdps(40):  # of a perfect model: Jeffreys divergence of the table and the product of its marginals
        jeffreys = sum((joint[i, j] - px[i] * py[j]) * mpmath.log(joint[i, j] / (px[i] * py[j])) for i, j in cells)
    assert table_error_terms(p, p).vclub == pytest.approx(float(jeffreys), rel=1e-13)


@pytest.mark.parametrize(("length", "split"), [(2, 1), (4, 2), (5, 1), (5, 3)])
def test_markov_terms_are_those_of_the_table_of_all_sequences(length: int, split: int) -> None:
    p, step = random_law((2,), 4), np.array([[0.7, 0.3], [0.2, 0.8]])
    q, wrong, start = random_law((2,), 5), np.array([[0.5, 0.5], [0.4, 0.6]]), np.array([0.9, 0.1])

    def table(initial: np.ndarray, transition: np.ndarray, steps: int) -> np.ndarray:
        joint = initial
        for _ in range(steps - 1):
            joint = joint[..., None] * transition
        return joint

    whole = (2**split, 2 ** (length - split))
    truth, model = table(p, step, length).reshape(whole), table(q, wrong, length).reshape(whole)
    for begin, alone in ((None, None), (start, table(start, wrong, length - split).ravel())):
        fast = markov_error_terms((p, step), (q, wrong), length, split, begin)
        plain = table_error_terms(truth, model, alone)
        for name in ("information", "marginal", "conditional", "shuffled"):
            assert getattr(fast, name) == pytest.approx(getattr(plain, name), rel=1e-11, abs=1e-14), name


def test_errors_inside_the_second_half_cancel_in_the_direct_estimator_of_a_chain() -> None:
    chain = MarkovChain([[0.7, 0.3], [0.2, 0.8]])
    wrong = np.array([[0.5, 0.5], [0.4, 0.6]])
    terms = [markov_error_terms((chain.initial, chain.transition), (chain.initial, wrong), n) for n in (4, 40, 400)]
    assert terms[0].marginal < terms[1].marginal < terms[2].marginal
    # the first symbol's distribution under q still depends on the split; differences are below 1e-4 from 20 steps on
    assert terms[1].direct == pytest.approx(terms[2].direct, abs=1e-9)


def test_vclub_is_infinite_where_the_information_is_finite() -> None:
    chain = MarkovChain([[0.5, 0.5], [1.0, 0.0]])
    law = (chain.initial, chain.transition)
    terms = markov_error_terms(law, law, 2)
    assert terms.information == pytest.approx(chain.mutual_information(1), rel=1e-12) and terms.vclub == np.inf
    assert np.isfinite(table_error_terms(chain.joint_distribution(2), chain.joint_distribution(2)).direct)


def test_an_expectation_that_does_not_exist_is_refused() -> None:
    terms = ErrorTerms(0.1, np.inf, np.inf, np.inf)
    for name in ("direct", "vclub"):
        with pytest.raises(ValueError, match="both infinite"):
            getattr(terms, name)


def test_divergence_of_nearly_equal_laws_keeps_its_digits() -> None:
    p, epsilon = np.array([0.5, 0.5]), 1e-9
    q = p + np.array([epsilon, -epsilon])
    with mpmath.workdps(50):
        exact = sum(mpmath.mpf(a) * mpmath.log(mpmath.mpf(a) / mpmath.mpf(b)) for a, b in zip(p, q, strict=True))
    assert divergence(p, q) == pytest.approx(float(exact), rel=1e-12)
    assert divergence(p, p) == 0.0
    assert divergence([1.0, 0.0], [0.5, 0.5]) == pytest.approx(np.log(2), rel=1e-15)
    assert divergence([0.5, 0.5], [1.0, 0.0]) == np.inf


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.floats(-280, 0), st.floats(-280, 0)), min_size=1, max_size=5),
    st.lists(st.tuples(st.floats(-280, 0), st.floats(-14, 0), st.sampled_from([-1, 1])), max_size=3),
)
def test_divergence_has_all_digits_at_every_ratio(far: list, near: list) -> None:
    """As sum q - p + p ln(p / q), which is the divergence of the masses given, whether or not they sum to one."""
    pairs = [(10.0**a, 10.0**b) for a, b in far] + [
        (10.0**a, 10.0**a * (1 + sign * 10.0**b / 2)) for a, b, sign in near
    ]
    p, q = (np.array(masses) for masses in zip(*pairs, strict=True))
    with mpmath.workdps(60):
        exact = sum((b := mpmath.mpf(y)) - (a := mpmath.mpf(x)) + a * mpmath.log(a / b) for x, y in pairs)
    assert divergence(p, q) == pytest.approx(float(exact), rel=1e-12, abs=1e-300)


def test_a_probability_too_small_for_the_quotient_still_counts() -> None:
    tiny = 1e-17
    assert divergence([tiny, 1 - tiny], [0.5, 0.5]) == pytest.approx(np.log(2), rel=1e-15)
    assert table_error_terms([[0.5, tiny], [tiny, 0.5]], np.full((2, 2), 0.25)).information == pytest.approx(np.log(2))
    assert divergence([0.5, 0.5], [1e-310, 1.0]) == pytest.approx(0.5 * (310 * np.log(10) - 2 * np.log(2)), rel=1e-12)


@pytest.mark.parametrize("variance", [1e-300, 1e-17, 1e-12, 1e-8, 0.3, 0.7, 1 - 1e-5, 1 + 1e-5, 3.0, 1e9, 1e300])
def test_divergence_of_gaussians_has_all_digits_at_every_ratio(variance: float) -> None:
    with mpmath.workdps(400):
        exact = (mpmath.mpf(variance) - 1 - mpmath.log(mpmath.mpf(variance))) / 2
    found = GaussianPredictor.from_covariance([[1.0]]).divergences([[variance]])
    assert found[0] == pytest.approx(float(exact), rel=1e-10)  # a variance is the square of a root, rounded


def test_laws_may_be_given_in_single_precision() -> None:
    law = np.array([[0.1, 0.2], [0.3, 0.4]])
    given, wide = (table_error_terms(kind(law), np.full((2, 2), 0.25)) for kind in (np.float32, np.float64))
    assert given.information == pytest.approx(wide.information, rel=1e-5)
    for wrong in (np.float32(law) * np.float32(1.0001), np.float64(np.float32(law))):
        with pytest.raises(ValueError, match="sum to one"):
            table_error_terms(wrong, np.full((2, 2), 0.25))


def test_samples_agree_with_the_exact_terms_and_not_with_those_of_another_model() -> None:
    p, q = AutoregressiveGaussian(0.9).covariance(12), AutoregressiveGaussian(0.8).covariance(12)
    model, alone = GaussianPredictor.from_covariance(q), GaussianPredictor.from_covariance(q[6:, 6:])
    x = np.random.default_rng(0).standard_normal((20000, 12)) @ np.linalg.cholesky(p).T
    partners = cyclic_shift(len(x))
    strange = np.hstack([x[:, :6], x[partners, 6:]])
    log_alone = alone.log_densities(x[:, 6:]).sum(axis=1)
    log_joint, log_strange = (model.log_densities(z)[:, 6:].sum(axis=1) for z in (x, strange))
    direct, terms = direct_estimate(log_joint, log_alone), gaussian_error_terms(p, q)
    vclub = vclub_estimate(log_joint - log_alone, log_strange - log_alone[partners], partners)
    # a function of y alone leaves vCLUB as it is when the negatives are a permutation
    assert vclub.value == pytest.approx(vclub_estimate(log_joint, log_strange).value, rel=1e-9)
    for estimate, value, other in (
        (direct, terms.direct, terms.information),
        (vclub, terms.vclub, gaussian_jeffreys(p)),
    ):
        assert abs(estimate.value - value) < 4 * estimate.standard_error < abs(estimate.value - other)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[1.0, 0.5]], np.eye(2)), "square matrix"),
        (([[1.0, 2.0], [2.0, 1.0]], np.eye(2)), "smallest eigenvalue is -1|canonical correlation"),
        (([[1.0, 0.5], [0.4, 1.0]], np.eye(2)), "symmetric"),
        (([[1.0, np.nan], [np.nan, 1.0]], np.eye(2)), "finite"),
        ((np.eye(3), np.eye(2)), "size 3"),
        ((np.eye(2), np.eye(2), 2), "1 <= split < length = 2"),
        ((np.eye(2), np.eye(2), 0), "1 <= split < length = 2"),
    ],
)
def test_impossible_gaussians_are_refused(arguments: tuple, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        gaussian_error_terms(*arguments)


def test_impossible_tables_chains_and_predictors_are_refused() -> None:
    law, step = np.array([0.5, 0.5]), np.full((2, 2), 0.5)
    for call, message in (
        (lambda: table_error_terms(step, step), "sum to one"),
        (lambda: table_error_terms(step / 2, np.full((2, 3), 1 / 6)), "shape"),
        (lambda: table_error_terms(step / 2, [[0.0, 0.0], [0.5, 0.5]]), "row of zeros"),
        (lambda: table_error_terms(step / 2, step / 2, [1.0]), "2 probabilities"),
        (lambda: markov_error_terms((law, step), (law, np.eye(3)), 4), "shape"),
        (lambda: markov_error_terms((law, step), (law, step + 0.1), 4), "rows"),
        (lambda: markov_error_terms((law, step), (law, step), 1), "lengths"),
        (lambda: markov_error_terms((law, step), (law, step), 4, split=1.5), "splits"),
        (lambda: GaussianPredictor(np.eye(2), np.ones(2)), "strictly"),
        (lambda: GaussianPredictor(np.zeros((2, 2)), np.array([1.0, 0.0])), "> 0"),
        (lambda: GaussianPredictor(np.zeros((2, 2)), np.ones(3)), "shapes"),
        (lambda: GaussianPredictor.windowed(np.eye(2), -1), "window: a whole number of at least 0"),
        (lambda: GaussianPredictor.windowed(np.eye(4), 1.5), "window: a whole number .* got 1.5"),
        (lambda: GaussianPredictor.windowed(np.eye(4), "a"), "window: a whole number .* got 'a'"),
        (lambda: GaussianPredictor.from_covariance(np.eye(2)).log_densities(np.ones((1, 3))), r"\(n, 2\)"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
