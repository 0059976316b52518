"""Runs side by side in one process: the records of runs one after the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lib.runs.commands import sweep as command
from lib.runs.definition import Run
from lib.runs.store import Store
from lib.runs.sweep import run_here
from lib.runs.together import run_together
from tests.runs.test_sweep import experiment
from tests.training.test_updates import stand_ins

LONGER = {"profiles": {"smoke": {"set": {"training": 60, "fit": {"epochs": 4, "batch": 4, "learning_rate": 2.0**-6}}}}}


@pytest.fixture
def runs(tmp_path: Path) -> list[Run]:
    return experiment(tmp_path, **LONGER).runs("smoke")


def results(store: Store, runs: list[Run]) -> list[Any]:
    def without_times(result: Any) -> Any:
        return {name: value for name, value in result.items() if "seconds" not in name}

    return [without_times(record["result"]) for record in store.records(runs)]


def test_runs_side_by_side_have_the_results_of_runs_in_turn(runs: list[Run], tmp_path: Path) -> None:
    alone, beside = (Store(tmp_path / name / "results", tmp_path / name / "work") for name in ("alone", "beside"))
    run_here(runs, alone)
    with stand_ins() as made:
        outcome = run_together(runs, beside, 3, device="cpu")
    assert sorted(outcome.done) == sorted(run.identity for run in runs) and not outcome.failed
    assert results(beside, runs) == results(alone, runs)
    assert max(len(graph.branches) for graph in made) == 3 and all(graph.calls for graph in made)
    again = run_together(runs, beside, 3, device="cpu")
    assert len(again.were_done) == len(runs) and not again.done


def test_a_run_that_fails_is_told_and_the_others_go_on(
    runs: list[Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from experiments.binary_sequences import run as binary_run

    store, told = Store(tmp_path / "results", tmp_path / "work"), []
    true_run = binary_run.run

    def breaks(parameters: Any, seed: int, folder: Path, **how: Any) -> Any:
        if seed == 1:
            raise RuntimeError("out of luck")
        return true_run(parameters, seed, folder, **how)

    monkeypatch.setattr(binary_run, "run", breaks)
    outcome = run_together(runs[:4], store, 4, device="cpu", tell=told.append)
    assert len(outcome.done) == len(outcome.failed) == 2
    assert len(told) == 2 and all("RuntimeError: out of luck" in line for line in told)


def test_an_interrupt_ends_all_of_them_and_leaves_what_can_go_on(
    runs: list[Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lib.runs import together

    store = Store(tmp_path / "results", tmp_path / "work")

    def interrupted(*given: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(together, "as_completed", interrupted)
    with stand_ins(), pytest.raises(KeyboardInterrupt):
        run_together(runs[:3], store, 3, device="cpu")
    monkeypatch.undo()
    assert not list(store.recorded.rglob("*.json"))
    run_together(runs[:3], store, 3, device="cpu")
    expected = Store(tmp_path / "again", tmp_path / "other")
    run_here(runs[:3], expected)
    assert results(store, runs[:3]) == results(expected, runs[:3])


def test_a_count_that_is_none_is_refused(runs: list[Run], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least 1 is allowed, got 0"):
        run_together(runs, Store(tmp_path, tmp_path), 0, device="cpu")
    asked = {"name": "l2m-clock", "profile": "smoke", "where": (), "device": "cuda", "threads": 1, "dry_run": True}
    asked |= {"together": 2, "scheduler": None, "slurm": None, "shard": None, "budget": None, "workers": None}
    for other, message in (
        ({"scheduler": "here:1"}, "--together is of one process"),
        ({"device": "cpu"}, "--device cuda is needed, got cpu"),
        ({"workers": 2}, "--workers are processes"),
        ({"workers": 2, "together": None, "shard": "1/2"}, "--workers are processes"),
    ):
        with pytest.raises(ValueError, match=message):
            command.callback(**(asked | other))
