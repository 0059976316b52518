"""The estimate of what profile `paper` asks of a GPU: counts against sums by hand, short loops against long ones."""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

from lib import ROOT
from lib.report import benchmarks
from lib.runs.definition import Experiment, experiment_files
from lib.training import CarriedText, FitSettings, NextToken

WITHOUT_A_PLAN = {"binary-optimum", "book-counts", "kerg-minigrid"}  # the last is timed
BESIDE = ("paper_cost", "update_counts", "timing")  # what is imported
FIT = {"optimizer": "sgd", "clip": None, "batch": 3}


@pytest.fixture(scope="module")
def cost() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benchmarks")
        yield importlib.import_module("paper_cost")
    for name in BESIDE:
        sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def counts(cost: Any) -> Any:
    """The module that counts, which `cost` imports."""
    return sys.modules["update_counts"]


def test_operations_of_a_linear_map_are_those_of_its_three_products(counts: Any) -> None:
    with torch.device("meta"):
        two = nn.Sequential(nn.Linear(5, 7, bias=False), nn.Linear(7, 2, bias=False))
        x = torch.empty(3, 5)
    found = counts.counts_of(two, lambda: two(x).sum(), FIT)
    # forward 5 x 7 and 7 x 2; back the gradient of both weights and that of the numbers between them
    assert found.operations == 2 * 3 * (2 * 5 * 7 + 3 * 7 * 2)


def test_views_start_no_kernel(counts: Any) -> None:
    x = torch.empty(4, 6, device="meta")
    with counts.Counter() as counter:
        _ = x.t()[1:].reshape(5, 4).unsqueeze(0).expand(2, 5, 4)
    assert counter.kernels == 0
    with counts.Counter() as counter:
        _ = x.exp().add_(1).sum()
    assert counter.kernels == 3


@pytest.mark.parametrize(
    ("architecture", "steps"), [("orth_rnn", 40), ("goru", 33), ("mem_rnn", 50), ("rel_lstm", 47), ("sab", 100)]
)
def test_a_parabola_through_short_loops_leads_to_the_long_one(
    cost: Any, counts: Any, architecture: str, steps: int
) -> None:
    given = {"architecture": architecture, "options": {}, "width": 4, "fit": FIT}
    plan = cost.of_tokens(given, 5, steps, 1)
    assert architecture in counts.LOOPS and counts.SHORT[-1] < steps
    assert plan.counted() == pytest.approx(plan.update(1, steps), rel=1e-12)


def test_loops_of_cudnn_are_the_kernels_outside_and_four_a_step_and_layer(cost: Any) -> None:
    given = {"architecture": "lstm", "options": {}, "width": 4, "depth": 2, "fit": FIT}
    short, long = (cost.of_tokens(given, 5, steps, 1) for steps in (10, 50))
    assert long.counted().kernels - short.counted().kernels == pytest.approx(4 * 2 * 40)
    assert long.counted().operations == pytest.approx(long.update(2, 50).operations, rel=1e-12)
    own = short.counted().kernels - 4 * 2 * 10
    assert 0 < own < short.update(2, 10).kernels / 2  # embedding, head, loss, optimizer


def test_a_line_does_not_lead_there_where_all_states_are_attended_to(cost: Any, counts: Any) -> None:
    plan = cost.of_tokens({"architecture": "mem_rnn", "options": {}, "width": 4, "fit": FIT}, 5, 40, 1)
    operations = [plan.update(1, steps).operations for steps in counts.SHORT]
    whole = plan.update(1, 40).operations
    assert counts.polynomial(counts.SHORT, operations, 40) == pytest.approx(whole, rel=1e-12)
    assert counts.polynomial(counts.SHORT[:2], operations[:2], 40) != pytest.approx(whole, rel=1e-2)


@pytest.mark.parametrize("architecture", ["transformer", "mamba", "lstm"])
def test_deep_networks_are_counted_from_two_layers(cost: Any, architecture: str) -> None:
    given = {"architecture": architecture, "options": {}, "width": 8, "depth": 4, "fit": FIT}
    plan = cost.of_tokens(given, 5, 12, 1)
    found, whole = plan.counted(), plan.update(4, 12)
    assert found.operations == pytest.approx(whole.operations, rel=1e-12)
    assert architecture == "lstm" or found.kernels == pytest.approx(whole.kernels, rel=1e-12)
    assert 2 * plan.update(2, 12).operations != pytest.approx(whole.operations, rel=1e-3)  # the head is there once


def test_gaussian_models_are_counted_from_two_layers(cost: Any) -> None:
    given = {
        "size": "gpt2-4x64",
        "layers": 2,
        "copies": 2,
        "model": {},
        "epoch_steps": 5,
        "fit": {"batch": 2, "epochs": 3},
    }
    plan = cost.gaussians(given)
    assert (plan.depth, plan.steps, plan.updates) == (4, 16, 15)
    assert plan.counted() == pytest.approx(plan.update(4, 16), rel=1e-12)


def test_updates_are_those_of_the_tasks(cost: Any) -> None:
    given = {"architecture": "rnn", "options": {}, "width": 4, "fit": {"batch": 7, "epochs": 3}}
    plan = cost.binary(given | {"length": 6, "training": 50})
    sequences = torch.zeros(50, 6, dtype=torch.int64).numpy()
    assert plan.updates == 3 * NextToken(sequences, sequences).steps(7) == 24
    text = torch.zeros(1000, dtype=torch.int64).numpy()
    cost.CHARACTERS, kept = 1000, cost.CHARACTERS
    try:
        plan = cost.written(given | {"level": "character", "context": None, "window": 10})
    finally:
        cost.CHARACTERS = kept
    assert plan.updates == 3 * CarriedText(text, text, window=10).steps(7)


def test_every_training_of_profile_paper_is_counted(cost: Any) -> None:
    planned = {name for name in experiment_files() if "paper" in Experiment(name).profiles}
    assert set(cost.PLANS) == planned - WITHOUT_A_PLAN


def test_the_record_counts_the_runs_that_profile_paper_has_now(cost: Any) -> None:
    (recorded,) = [one for one in benchmarks.load() if cost.ALL in one.tables]
    runs = {row["experiment"]: row["runs"] for row in recorded.tables[cost.ALL]}
    trained = {name: sum(seeds for given, seeds in cost.settings_of(name) if cost.PLANS[name](given)) for name in runs}
    assert runs == trained
    assert recorded.description == cost.DESCRIPTION and set(runs) == set(cost.PLANS)
    agents = sum(row["runs"] for row in recorded.tables[cost.AGENTS])
    assert agents == len(Experiment("kerg-minigrid").runs("paper"))


def test_all_runs_of_an_experiment_are_trainings_but_those_of_pretrained_readers(cost: Any) -> None:
    for name in cost.PLANS:
        given = [run.parameters for run in Experiment(name).runs("paper")]
        read = [one for one in given if name == "text-information" and one["model"]["kind"] != "network"]
        assert sum(seeds for one, seeds in cost.settings_of(name) if cost.PLANS[name](one)) == len(given) - len(read)
        assert bool(read) == (name == "text-information")


def test_readers_are_trained_on_rows_as_long_as_their_windows(cost: Any) -> None:
    planned = [cost.readers(given) for given, _ in cost.settings_of("text-information")]
    models = [given["model"] for given, _ in cost.settings_of("text-information")]
    for plan, model in zip(planned, models, strict=True):
        if plan is None:
            continue
        assert plan.steps == 2048
        tokens = plan.updates / model["fit"]["epochs"] * model["fit"]["batch"] * 2048
        assert math.isclose(tokens, model["training_tokens"], rel_tol=0.02)  # less what validates
    assert sum(plan is None for plan in planned) == sum(model["kind"] != "network" for model in models) > 0


def test_hours_of_agents_are_their_updates_times_the_seconds_of_one(cost: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "seconds_of_agent", lambda given, updates: 2.0 if given["layer"] == "mem_lstm" else 1.0)
    monkeypatch.setattr(cost, "as_in_a_sweep", lambda: None)
    rows = cost.agents()
    assert sum(row["runs"] for row in rows) == len(Experiment("kerg-minigrid").runs("paper")) == 63
    updates = math.ceil(5_000_000 / (16 * 128))
    for row in rows:
        once = 2.0 if row["layer"] == "mem_lstm" else 1.0
        assert row["updates of a run"] == updates and row["a run, h"] == pytest.approx(updates * once / 3600)
        assert row["all runs, h"] == pytest.approx(3 * row["a run, h"])


def test_one_setting_of_each_is_planned(cost: Any) -> None:
    for name, plan in cost.PLANS.items():
        given, seeds = next(cost.settings_of(name))
        planned = plan(given)
        if planned is None:
            assert given["model"]["kind"] in ("smollm2", "character_lstm")
            continue
        assert planned.updates >= FitSettings(**given["fit"]).epochs and planned.steps > 1 and seeds >= 1
