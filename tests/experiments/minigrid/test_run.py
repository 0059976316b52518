"""Runs of agents: what is recorded, what is refused, and the same numbers after a stop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.minigrid import ppo, run
from experiments.minigrid.ppo import Course

TINY: dict[str, Any] = {
    "task": "GoToDoor",
    "layer": "rel_lstm",
    "width": 8,
    "frames": 96,
    "episodes": 4,
    "ppo": {"processes": 2, "frames": 16, "recurrence": 8},
}


def test_a_run_records_its_course_and_both_tests(tmp_path: Path) -> None:
    found = run.run(run.check(TINY), 0, tmp_path)
    assert found["updates"] == 3 and found["frames"] == [32.0, 64.0, 96.0]
    assert len(found["mean_return"]) == len(found["success_rate"]) == 3
    assert set(found["tests"]) == {"train", "test"}
    for test in found["tests"].values():
        assert 0 <= test["mean_return"] <= test["success_rate"] <= 1 and test["standard_error"] >= 0
    assert (tmp_path / "model.safetensors").exists()


def test_a_run_that_was_stopped_ends_in_the_same_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run.run(run.check(TINY), 1, tmp_path / "whole")
    update = ppo._update

    def stopped(*arguments: Any) -> Any:
        if len(arguments[-1].episodes) == 2:
            raise KeyboardInterrupt
        return update(*arguments)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(ppo, "_update", stopped)
        run.run(run.check(TINY), 1, tmp_path / "parts")
    again = run.run(run.check(TINY), 1, tmp_path / "parts")
    clocks = {"training_seconds"}
    assert {key: again[key] for key in again.keys() - clocks} == {key: whole[key] for key in whole.keys() - clocks}


def test_an_agent_that_has_learned_nothing_can_be_tested(tmp_path: Path) -> None:
    found = run.run(run.check({**TINY, "frames": 0}), 0, tmp_path)
    assert found["updates"] == 0 and found["frames"] == [] and found["tests"]["train"]["success_rate"] < 1


def test_parts_of_a_course_are_means_over_episodes() -> None:
    course = Course(episodes=[1, 3, 0, 0], returns=[0.5, 1.5, 0.0, 0.0], successes=[1, 2, 0, 0])
    assert run.in_parts(course, 10, parts=2) == {
        "frames": [20.0, 40.0],
        "mean_return": [0.5, None],
        "success_rate": [0.75, None],
    }
    many = Course(episodes=[1] * 120, returns=list(np.arange(120.0)), successes=[0] * 120)
    parts = run.in_parts(many, 5)
    assert len(parts["frames"]) == 50 and parts["frames"][-1] == 600.0
    assert parts["mean_return"][0] == pytest.approx(np.mean(np.arange(parts["frames"][0] / 5)))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"task": "DoorKey-5x5"}, "task: one of RedBlueDoors"),
        ({"rule": "beside"}, "rule: of GoToObject"),
        ({"layer": "gru"}, "layer"),
        ({"memory": "always"}, "memory"),
        ({"ppo": {"frames": 20, "recurrence": 8}}, "a multiple of recurrence = 8"),
        ({"buffer": 0}, "buffer"),
    ],
)
def test_what_cannot_run_is_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        run.check({**TINY, **wrong})
