"""Direct and vCLUB estimates against exact expectations on finite distributions and Gaussians."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lib.information import direct_estimate, vclub_estimate
from lib.information.documents.growth import resampled_means
from lib.information.documents.leave_out import leave_blocks_out
from lib.information.documents.segments import sampling_floor
from lib.information.documents.windows import document_windows
from lib.information.model_estimates import random_derangement

Table = npt.NDArray[np.float64]
tables = st.lists(st.lists(st.integers(1, 9), min_size=3, max_size=3), min_size=2, max_size=2).map(np.array)


def divergence(p: Table, q: Table) -> float:
    return float(np.sum(p * np.log(p / q)))


def enumerated(weights: npt.NDArray[np.int64], values: Table) -> Table:
    """A sample in which every cell occurs exactly as often as its weight says: its average is the expectation."""
    return np.repeat(values.ravel(), weights.ravel())


@given(counts=tables, model=tables)
def test_direct_estimate_is_information_plus_its_two_errors(counts: npt.NDArray[np.int64], model: Table) -> None:
    """L2M Eq. 6 on a finite distribution, q arbitrary: I + KL(p_Y || q_Y) - KL(p_Y|X || q_Y|X), exactly."""
    p, q = counts / counts.sum(), model / model.sum()
    p_x, p_y, q_y = p.sum(1, keepdims=True), p.sum(0), q.sum(0)
    q_given = q / q.sum(1, keepdims=True)
    estimate = direct_estimate(enumerated(counts, np.log(q_given)), enumerated(counts, np.log(np.tile(q_y, (2, 1)))))
    information = divergence(p, p_x * p_y)
    errors = divergence(p_y, q_y) - divergence(p, p_x * q_given)
    assert estimate.value == pytest.approx(information + errors, abs=1e-12)


@given(counts=tables)
def test_vclub_at_the_true_law_is_the_jeffreys_divergence(counts: npt.NDArray[np.int64]) -> None:
    """Erratum 18: KL(joint || product) + KL(product || joint), which exceeds I unless X and Y are independent."""
    p = counts / counts.sum()
    product = p.sum(1, keepdims=True) * p.sum(0)
    log_conditional = np.log(p / p.sum(1, keepdims=True))
    strangers = np.outer(counts.sum(1), counts.sum(0))
    estimate = vclub_estimate(enumerated(counts, log_conditional), enumerated(strangers, log_conditional))
    jeffreys = divergence(p, product) + divergence(product, p)
    assert estimate.value == pytest.approx(jeffreys, abs=1e-12)
    assert estimate.value >= divergence(p, product) - 1e-12


def test_vclub_is_below_the_information_for_a_poor_model() -> None:
    """vCLUB - I = KL(p_X p_Y || q) - KL(p_XY || q): no upper bound, once q is a worse model of the joint."""
    counts = np.array([[8, 1], [1, 8]])
    p = counts / counts.sum()
    q_given = np.array([[0.1, 0.9], [0.9, 0.1]])
    strangers = np.outer(counts.sum(1), counts.sum(0))
    estimate = vclub_estimate(enumerated(counts, np.log(q_given)), enumerated(strangers, np.log(q_given)))
    q, product = p.sum(1, keepdims=True) * q_given, np.full((2, 2), 0.25)
    information = divergence(p, product)
    assert estimate.value == pytest.approx(information + divergence(product, q) - divergence(p, q), abs=1e-12)
    assert estimate.value < 0 < information


def gaussian_samples(correlation: float, n: int, seed: int) -> tuple[Table, Table, Table]:
    """ln q(y|x), ln q(y) and ln q(y of the next sample | x) at q = p."""
    x, noise = np.random.default_rng(seed).standard_normal((2, n))
    y = correlation * x + np.sqrt(1 - correlation**2) * noise

    def log_density(values: Table, mean: Table, variance: float) -> Table:
        return -0.5 * np.log(2 * np.pi * variance) - (values - mean) ** 2 / (2 * variance)

    variance = 1 - correlation**2
    return (
        log_density(y, correlation * x, variance),
        log_density(y, np.zeros(n), 1.0),
        log_density(np.roll(y, -1), correlation * x, variance),
    )


@pytest.mark.parametrize("correlation", [0.2, 0.6, 0.9])
def test_on_gaussians_direct_finds_the_information_and_vclub_the_jeffreys_divergence(correlation: float) -> None:
    joint, marginal, shuffled = gaussian_samples(correlation, 200_000, seed=1)
    information = -0.5 * np.log(1 - correlation**2)
    jeffreys = correlation**2 / (1 - correlation**2)
    direct, vclub = direct_estimate(joint, marginal), vclub_estimate(joint, shuffled)
    assert abs(direct.value - information) < 4 * direct.standard_error
    assert abs(vclub.value - jeffreys) < 4.5 * vclub.standard_error
    assert vclub.value - information > 5 * vclub.standard_error, "the two are told apart at this sample size"


def test_standard_errors_are_the_spread_over_repetitions() -> None:
    """The direct estimate's, and vCLUB's when it is told the permutation; without it, it is too small here."""
    n, repetitions = 400, 400
    partners = np.roll(np.arange(n), -1)
    values: list[list[float]] = []
    errors: list[list[float]] = []
    for seed in range(repetitions):
        joint, marginal, shuffled = gaussian_samples(0.9, n, seed)
        estimates = [
            direct_estimate(joint, marginal),
            vclub_estimate(joint, shuffled, partners),
            vclub_estimate(joint, shuffled),
        ]
        values.append([estimate.value for estimate in estimates])
        errors.append([estimate.standard_error for estimate in estimates])
    ratio = np.mean(errors, axis=0) / np.std(values, axis=0, ddof=1)
    assert np.all(np.abs(ratio[:2] - 1) < 0.12), ratio
    assert ratio[2] < 0.9


def test_pairing_removes_what_both_terms_share() -> None:
    noise = np.random.default_rng(0).normal(scale=1000, size=50)
    assert direct_estimate(noise + 1, noise).standard_error < 1e-10
    assert vclub_estimate(noise + 1, noise).standard_error < 1e-10
    assert vclub_estimate(noise + 1, noise[:-1]).standard_error > 100


def test_a_small_sample_by_hand() -> None:
    """Differences 1, 2, 6: mean 3, variance 7, standard error sqrt(7/3)."""
    estimate = direct_estimate([1, 2, 6], [0, 0, 0])
    assert estimate.value == 3.0
    assert estimate.standard_error**2 == pytest.approx(float(Fraction(7, 3)), rel=1e-15)


def test_logarithms_come_from_a_model_as_tensors() -> None:
    """1, 2 and 6 have few bits, so bfloat16 is exact."""
    expected, zeros = direct_estimate([1, 2, 6], [0, 0, 0]), torch.zeros(3, dtype=torch.bfloat16)
    for kind in (torch.float32, torch.bfloat16):
        assert direct_estimate(torch.tensor([1.0, 2.0, 6.0], dtype=kind, requires_grad=True), zeros) == expected
    assert vclub_estimate(torch.tensor([1.0, 2.0, 6.0]), zeros, torch.tensor([1, 2, 0])).value == expected.value
    with pytest.raises(ValueError, match="masked"):
        direct_estimate(np.ma.array([1.0, 2.0, 6.0], mask=[0, 0, 1]), zeros)


def test_strangers_that_the_model_forbids_make_vclub_infinite() -> None:
    estimate = vclub_estimate([0.0, 0.0], [-1.0, -np.inf])
    assert estimate.value == np.inf
    assert estimate.standard_error == np.inf


@pytest.mark.parametrize("bad", [[], [1.0], [[1.0, 2.0]], [1.0, np.nan], [1.0, np.inf], [1.0, -np.inf], ["a", "b"]])
def test_bad_samples_are_refused(bad: list[float]) -> None:
    for call in (lambda: direct_estimate(bad, [1.0, 2.0]), lambda: direct_estimate([1.0, 2.0], bad)):
        with pytest.raises(ValueError, match=r"contains|shape"):
            call()
    with pytest.raises(ValueError, match="log_q_joint"):
        vclub_estimate(bad, [1.0, 2.0])


def test_bad_pairing_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="2 samples, log_q_y 3"):
        direct_estimate([1.0, 2.0], [1.0, 2.0, 3.0])
    three = [1.0, 2.0, 3.0]
    for partners, said in (
        ([1, 2, 0, 3], "shape"),
        ([1, 1, 0], "permutation"),
        ([0, 2, 1], "fixed"),
        ([1.0, 2.0, 0.0], "integers"),
    ):
        with pytest.raises(ValueError, match=said):
            vclub_estimate(three, three, partners)
    with pytest.raises(ValueError, match="2-cycle"):
        vclub_estimate([1.0, 2.0], [1.0, 2.0], [1, 0])
    assert vclub_estimate(three, three, [1, 2, 0]).value == 0.0


@pytest.mark.parametrize("joint", [[1e308] * 3, [1e200, 0.0, 0.0]])
def test_averages_that_overflow_are_refused(joint: list[float]) -> None:
    lowest = [-value for value in joint]
    for call in (direct_estimate, vclub_estimate, lambda a, b: vclub_estimate(a, b, [1, 2, 0])):
        with pytest.raises(ValueError, match="a finite average and standard error are needed"):
            call(joint, lowest)
    with pytest.raises(ValueError, match="a finite average"):
        vclub_estimate(joint, lowest[:2])


SEEDED: dict[str, Callable[[Any], Any]] = {
    "derangement": lambda seed: random_derangement(6, seed),
    "floor": lambda seed: sampling_floor(np.arange(600) % 7, shuffles=2, seed=seed),
    "windows": lambda seed: document_windows([np.arange(90) % 5] * 4, 10, seed=seed).starts,
    "means": lambda seed: resampled_means(np.arange(30.0).reshape(10, 3), replicates=5, seed=seed),
    "replicates": lambda seed: leave_blocks_out(np.arange(900) % 7, [1, 2]).replicates(5, seed),
}


@pytest.mark.parametrize("name", SEEDED)
def test_seeds_are_whole_numbers_or_generators_and_nothing_else(name: str) -> None:
    drawn = SEEDED[name]
    for same in (np.int64(3), np.random.default_rng(3)):
        assert np.array_equal(drawn(3), drawn(same))
    for wrong in ("a", None, True, -1, 0.5):
        with pytest.raises(ValueError, match="seed"):
            drawn(wrong)
