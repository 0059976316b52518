"""The cluster algorithm against all configurations of a small ring, and the claim about critical points, refused."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.long_range_ising.clusters import couplings, simulate
from lib.information import fit_power_law
from lib.information.intervals import seed_mean
from lib.report.verdicts import judge
from lib.theory.ising import boltzmann_distribution, spin_configurations

SPINS, ALPHA, STRENGTH = 8, 1.5, 0.25


def exact(strength: float) -> tuple[float, float, float]:
    """Moment ratio, <m^2> and the correlation of neighbours by enumeration of the ring."""
    strengths, spins = couplings(ALPHA, SPINS), spin_configurations(SPINS).astype(float)
    energy = np.zeros(len(spins))
    for distance in range(1, SPINS):
        energy -= 0.5 * strengths[distance - 1] * (spins * np.roll(spins, -distance, axis=1)).sum(axis=1)
    law, mean = boltzmann_distribution(energy, strength), spins.mean(axis=1)
    square, neighbours = float(law @ mean**2), float(law @ (spins * np.roll(spins, -1, axis=1)).mean(axis=1))
    return square**2 / float(law @ mean**4), square, neighbours


def test_couplings_add_up_all_images_and_look_alike_both_ways_round() -> None:
    found = couplings(2.5, 6)
    images = np.arange(-100_000, 100_001)
    plain = [np.sum(np.abs(d + 6.0 * images) ** -2.5) for d in range(1, 6)]
    np.testing.assert_allclose(found, plain, rtol=1e-6)
    np.testing.assert_allclose(found, found[::-1], rtol=1e-13)


def test_averages_are_those_of_the_boltzmann_law_and_of_no_other_strength() -> None:
    random = np.random.default_rng(0)
    runs = [simulate(ALPHA, STRENGTH, SPINS, 10_000, random, correlations=True) for _ in range(8)]
    ratio, square, neighbours = exact(STRENGTH)
    found = seed_mean([run.square for run in runs], 0.999)
    assert found.low < square < found.high and found.high - found.low < 0.02
    assert not found.low < exact(1.1 * STRENGTH)[1] < found.high
    assert np.mean([run.binder for run in runs]) == pytest.approx(ratio, abs=0.01)
    assert np.mean([run.correlation[1] for run in runs]) == pytest.approx(neighbours, abs=0.06)
    assert all(run.correlation[0] == pytest.approx(1.0) and run.correlation.shape == (5,) for run in runs)


def test_at_zero_temperature_the_ring_is_one_cluster() -> None:
    for strength in (1e17, 1e308):  # a step of exp(1) / 2 K is lost beside the summed couplings
        frozen = simulate(1.5, strength, 16, 20, 0)
        assert (frozen.binder, frozen.square) == (1.0, 1.0)


def test_one_seed_gives_one_run() -> None:
    first, again, other = (simulate(1.5, 0.2, 32, 50, seed) for seed in (1, 1, 2))
    assert (first.binder, first.square) == (again.binder, again.square) != (other.binder, other.square)
    assert first.correlation.size == 0


def test_a_critical_point_is_refused_where_couplings_fall_too_fast(capsys: pytest.CaptureFixture) -> None:
    rule = {"at_least": 0, "part": "magnet", "explanation": "no magnet"}

    def change(alpha: float, strength: float) -> dict[str, object]:
        random = np.random.default_rng(3)
        runs = [[simulate(alpha, strength, size, 100, random).binder for size in (32, 256)] for _ in range(4)]
        return {"": seed_mean(np.diff(runs, axis=1)[:, 0])}

    assert judge("shen-statmech", change(1.5, 0.26), **rule) == "agrees"
    assert judge("shen-statmech", change(2.5, 0.75), **rule) == "differs"
    assert "no magnet" in capsys.readouterr().out


def test_the_information_falls_more_steeply_below_the_critical_point_and_not_beside_itself(
    capsys: pytest.CaptureFixture,
) -> None:
    """By the fits of the page: the same strength twice, or the stronger one first, does not pass for it."""
    rule = {"at_least": 0, "part": "steeper below the critical point", "explanation": "no flatter"}
    reach, random = np.array([2, 4, 8, 16, 32]), np.random.default_rng(5)

    def exponents(strength: float) -> np.ndarray:
        runs = [simulate(1.5, strength, 256, 100, random, correlations=True).correlation[reach] for _ in range(4)]
        return np.array([fit_power_law(reach, c * np.arctanh(c) + 0.5 * np.log1p(-(c**2))).exponent for c in runs])

    weak, critical = exponents(0.18), exponents(0.23)
    assert judge("shen-statmech", seed_mean(weak - critical), **rule) == "agrees"
    assert judge("shen-statmech", seed_mean(critical - weak), **rule) == "differs"
    assert judge("shen-statmech", seed_mean(exponents(0.23) - critical), **rule) == "undecided"
    assert "no flatter" in capsys.readouterr().out


def test_bad_input_is_refused() -> None:
    good = {"alpha": 1.5, "strength": 0.2, "spins": 8, "sweeps": 100}
    for bad in (
        {"alpha": 1.0}, {"alpha": 500.0}, {"strength": 0.0}, {"strength": np.nan}, {"spins": 3}, {"sweeps": 9},
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"allowed|finite|whole"):
            simulate(**(good | bad), seed=0)
