"""The optimum from records of seeds: the bias of the logarithm goes, the interval holds the truth, few are refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from experiments.binary_sequences import run as networks
from experiments.binary_sequences.law.optimum import EXPERIMENT, check, combined, optimum, run
from experiments.binary_sequences.law.orthant import sign_block_law
from lib.processes import PowerLawBinary
from lib.runs.definition import Experiment

SMALL: dict[str, Any] = {"length": 9, "training": 30, "validation": 40, "particles": 8}


def records(scatter: float, seeds: int, rows: int = 4000, seed: int = 0) -> tuple[list[dict[str, Any]], float]:
    """Records whose probabilities have no bias and lognormal errors, and the loss that they are of."""
    rng = np.random.default_rng(seed)
    truth = -rng.gamma(60.0, 1.0, rows)
    logs = truth + scatter * rng.standard_normal((seeds, rows)) - scatter**2 / 2
    made = [
        {"seed": number, "parameters": {"length": 101}, "result": {"log_likelihood": row.tolist()}}
        for number, row in enumerate(logs)
    ]
    return made, float(-truth.mean() / 100)


def test_a_run_follows_the_validation_sequences_of_the_networks(tmp_path):
    result = run(check(SMALL), 3, tmp_path)
    chosen = networks.Parameters(architecture="rnn", width=1, **{k: v for k, v in SMALL.items() if k != "particles"})
    _, validation = networks._data(chosen)
    law = sign_block_law(np.asarray(PowerLawBinary(9, 0.1, 0.4).correlation(np.arange(1, 5))))
    prefix = {5: law, 4: law.sum(axis=-1)}
    exact = -np.mean([math.log(prefix[5][tuple(row[:5])] / prefix[4][tuple(row[:4])]) for row in validation])
    many = run(check({**SMALL, "particles": 3000}), 3, tmp_path)
    assert many["loss_by_position"][many["places"].index(5)] == pytest.approx(exact, abs=2e-3)
    for found in (result, many):
        assert len(found["log_likelihood"]) == 40
        assert found["loss"] == pytest.approx(-np.mean(found["log_likelihood"]) / 8, rel=1e-12)
        assert found["places"] == list(range(2, 10))
        assert np.mean(found["loss_by_position"]) == pytest.approx(found["loss"], rel=1e-12)
    assert run(check(SMALL), 3, tmp_path) == result
    assert run(check(SMALL), 4, tmp_path)["loss"] != result["loss"]


@pytest.mark.parametrize("changes", [{"particles": 0}, {"length": 4}, {"amplitude": 0.3}, {"width": 2}])
def test_parameters_that_cannot_run_are_refused(changes: dict[str, Any]):
    with pytest.raises(ValueError, match=next(iter(changes))):
        check({**SMALL, **changes})


@pytest.mark.parametrize("profile", ["smoke", "laptop", "paper"])
def test_the_sequences_are_those_of_the_networks_in_every_profile(profile: str):
    trained = Experiment("binary_sequences").runs(profile)
    shared = ("length", "training", "validation", "amplitude", "exponent", "data_seed")
    for single in Experiment(EXPERIMENT).runs(profile):
        for key in shared:
            assert {network.parameters[key] for network in trained} == {single.parameters[key]}
        check(single.parameters)


def test_the_bias_of_the_logarithm_falls_with_the_seeds_and_the_jackknife_removes_it():
    made, truth = records(0.4, 6)
    by_seeds = combined(made)
    assert by_seeds.shape == (6,)
    assert np.all(np.diff(by_seeds) < 0)  # fewer seeds, larger losses
    biases = by_seeds - truth
    noise = 0.4 / math.sqrt(4000 * 6) / 100
    assert biases[0] == pytest.approx(0.4**2 / 2 / 100, abs=4 * noise)
    assert biases[5] > 4 * noise
    found = optimum(made)
    assert abs(found.value - truth) < 4 * noise
    # an average of logarithms, what a careless reader of the records would take, misses the truth
    assert -np.mean([record["result"]["log_likelihood"] for record in made]) / 100 - truth > 30 * noise
    assert found.value < by_seeds[5]


def test_the_interval_holds_the_truth_as_often_as_it_says():
    held = []
    for seed in range(300):
        made, truth = records(0.3, 6, rows=200, seed=seed)
        found = optimum(made)
        held.append(found.low <= truth <= found.high)
    assert 0.89 <= np.mean(held) <= 0.99
    made, truth = records(0.3, 6, rows=200)
    shifted = [
        {**record, "result": {"log_likelihood": [value - 1.0 for value in record["result"]["log_likelihood"]]}}
        for record in made
    ]
    assert not optimum(shifted).low <= truth


def test_estimates_without_scatter_are_exact():
    made, truth = records(0.0, 3)
    assert optimum(made).ends == pytest.approx((truth, truth), rel=1e-12)
    np.testing.assert_allclose(combined(made), truth, rtol=1e-12)


def test_few_seeds_a_seed_twice_and_several_questions_are_refused():
    made, _ = records(0.1, 4, rows=5)
    for wrong in (made[:2], [*made, made[0]], []):
        with pytest.raises(ValueError, match="three different seeds"):
            optimum(wrong)
    with pytest.raises(ValueError, match="one question"):
        combined([*made[:3], {**made[3], "parameters": {"length": 100}}])
