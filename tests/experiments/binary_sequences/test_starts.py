"""Several starts of one network: which goes on, what the record says of it, and what is refused before any work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.binary_sequences import run
from experiments.binary_sequences.plateaus import trainings
from lib.training import LevenbergMarquardt

FIT = {"optimizer": "adam", "epochs": 1, "batch": 20, "newton": 2, "patience": None}
SMALL = {"length": 24, "training": 60, "validation": 20, "generated": 20, "enumerated": 4, "architecture": "rnn"}


def asked(**more: Any) -> dict[str, Any]:
    return run.check({**SMALL, "width": 2, "starts": 3, "trial": 1, "fit": FIT, **more})


def test_the_start_with_the_smallest_training_loss_goes_on(tmp_path: Path) -> None:
    parameters = asked()
    result = run.run(parameters, 0, tmp_path)
    chosen = run.Parameters(**parameters)
    data = run.sampled(24, chosen.amplitude, chosen.exponent, 60, 20, 0)[0]
    losses = result["losses_of_starts"]
    assert len(set(losses)) == 3
    # the first step of the second order tells of the loss that it starts from
    assert result["training_losses"][0] * 23 == pytest.approx(min(losses), rel=1e-6)
    assert len(result["training_losses"]) == FIT["newton"]
    fresh = [LevenbergMarquardt(data).loss(run._network(chosen, 0, number)) for number in range(3)]
    assert len(set(np.round(fresh, 9))) == 3 and min(fresh) > min(losses)


def test_the_first_start_is_the_network_that_a_run_without_others_trains() -> None:
    several, one = (run.Parameters(**asked(starts=starts)) for starts in (3, 1))
    for left, right in zip(run._network(several, 5, 0).parameters(), run._network(one, 5, 0).parameters(), strict=True):
        assert (left == right).all()


def test_a_run_of_one_start_says_nothing_of_others(tmp_path: Path) -> None:
    assert "losses_of_starts" not in run.run(asked(starts=1), 0, tmp_path)


def test_the_budget_counts_steps_of_second_order_as_passes(tmp_path: Path) -> None:
    parameters = asked()
    record = {"parameters": parameters, "seed": 0, "result": run.run(parameters, 0, tmp_path)}
    (found,) = trainings([record]).values()
    assert [key.epochs for key in found.runs] == [3]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"fit": {**FIT, "newton": 0}}, "starts: 3 of them need steps of second order after them, got fit.newton 0"),
        ({"architecture": "transformer", "width": 4, "starts": 1}, "VanillaRNN, LSTM or ReluRNN without dropout"),
        ({"starts": 0}, "starts"),
    ],
)
def test_what_cannot_be_done_is_refused_before_any_work(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        asked(**given)
