"""The experiment on an n-gram language: what it refuses, what it records, and how its records are found again."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from experiments.ngram_rules import run as experiment
from experiments.ngram_rules.runs import along, differences, divergence, of_family, rates, share_interval
from experiments.ngram_rules.tables import accuracy_table, readings_table, sentences_table, unseen_table
from experiments.ngram_rules.writing import write
from lib.models import create

FIT = {"optimizer": "adam", "learning_rate": 0.001, "batch": 1, "epochs": 1, "patience": None, "clip": None}
LANGUAGE, TREE = experiment.language_of("paper")


def checked(**given):
    return experiment.check({"architecture": "relu_ssm", "fit": FIT, **given})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"architecture": "gru"}, "architecture"),
        ({"sentences": 7981}, "at most 7980"),
        ({"prompt": 14}, "fewer than 14"),
        ({"given": 14}, "fewer than 14"),
        ({"language": "french"}, "language"),
        ({"architecture": "relu_rnn", "penalty": 0.1}, "penalty"),
        ({"architecture": "lstm", "start": "construction"}, "construction"),
        ({"start": "construction", "width": 64}, "145 neurons"),
        ({"start": "construction", "options": {"window": 3}}, "window: none is allowed with the construction, got 3"),
        ({"options": {"initial": "normal"}}, "initial"),
        ({"fit": {"momentum": 0.9}}, "no such setting"),
        ({"speed": 1}, "speed"),
    ],
)
def test_what_cannot_run_is_refused_before_anything_starts(given, message) -> None:
    with pytest.raises(ValueError, match=message):
        checked(**given)


def test_a_grammar_with_an_empty_slot_is_refused() -> None:
    from lib.processes import NgramLanguage

    with pytest.raises(ValueError, match="slot"):
        NgramLanguage.from_templates(["{A} saw it again"], {"A": ()})


def test_a_prompt_outside_the_language_is_refused() -> None:
    model = create("relu_ssm", TREE.end + 1, 4, embedding=3)
    for prompt in ("woke Harry at", "Harry woke up"):
        with pytest.raises(ValueError, match=r"prompt|words"):
            write(model, LANGUAGE, prompt)


def test_training_sentences_are_drawn_as_their_name_says() -> None:
    rows = {
        drawing: experiment.training_rows(
            experiment.Parameters(architecture="relu_ssm", sentences=400, drawing=drawing), 3
        )
        for drawing in ("distinct", "repeated", "templates")
    }
    assert len(set(rows["distinct"])) == 400 and len(set(rows["repeated"])) < 400
    assert np.array_equal(np.bincount(TREE.lengths[rows["templates"]])[[14, 20]], [200, 200])
    share = np.mean(TREE.lengths[rows["distinct"]] == 20)
    assert abs(share - 6300 / 7980) < 4 * np.sqrt(share * (1 - share) / 400)
    more = experiment.training_rows(experiment.Parameters(architecture="relu_ssm", sentences=500), 3)
    assert np.array_equal(more[:400], rows["distinct"])


def test_the_construction_is_where_training_starts_and_follows_the_rules_on_any_history() -> None:
    chosen = experiment.Parameters(architecture="relu_ssm", start="construction", epsilon=1e-3)
    model = experiment._network(chosen, 0)
    found = experiment.rule_following(model, experiment.histories_of("paper"))
    for kind in found.values():
        assert kind["obeyed"] == 1.0 and kind["divergence"] < 1e-3
    shaken = experiment._network(chosen, 0)
    with torch.no_grad():
        shaken.layers[0].weight_hh += 0.3 * torch.randn(145, 145, generator=torch.Generator().manual_seed(0))
    assert experiment.rule_following(shaken, experiment.histories_of("paper"))["longer"]["obeyed"] < 1


def test_the_penalty_is_the_squared_norm_of_the_cube() -> None:
    chosen = experiment.Parameters(architecture="relu_ssm", penalty=0.5)
    model = experiment._network(chosen, 1)
    a = model.layers[0].transition.detach().double().numpy()
    penalty = experiment._penalty(chosen, 4)(model)
    assert float(penalty.detach()) == pytest.approx(0.5 * np.sum((a @ a @ a) ** 2), rel=1e-4)
    assert experiment._penalty(experiment.Parameters(architecture="relu_ssm"), 4) is None


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory):
    """A few tiny runs, as they are recorded."""
    made = []
    variants = [
        {},
        {"sentences": 5},
        {"architecture": "lstm", "options": {"embedding": 64}, "width": 145},
        {"fit": FIT | {"optimizer": "sgd"}},
    ]
    for given in variants:
        for seed in (1, 0):
            parameters = checked(**given)
            parameters["fit"] = parameters["fit"] | {"epochs": 1}
            result = experiment.run(parameters, seed, Path(tmp_path_factory.mktemp("run")))
            recorded = parameters | {"fit": parameters["fit"] | {"epochs": 25}}  # as if it had been the whole training
            made.append(
                json.loads(json.dumps({"parameters": recorded, "seed": seed, "result": result}, allow_nan=False))
            )
    return made


def test_a_record_holds_exact_rates_for_the_network_and_both_counters(records) -> None:
    for record in records:
        result = record["result"]
        assert result["rules"] == 145 and 20 < result["rules_seen"] <= 145
        for writer in ("network", "counter", "counter with back-off"):
            for average in ("held out", "prompts", "new prompts"):
                rate = result[writer][average]
                assert 0 <= rate["sampled"] <= 1 + 1e-12 and 0 <= rate["greedy"] <= 1 + 1e-12
                assert rate["sampled_unseen"] <= 1 - rate["sampled"] + 1e-9
        assert result["counter"]["prompts"]["greedy_unseen"] == pytest.approx(
            1 - result["counter"]["prompts"]["greedy"]
        )
        assert len(result["divergence_by_depth"]) == 20 and min(result["divergence_by_depth"]) > -1e-9


def test_the_same_seed_gives_the_same_record(records, tmp_path) -> None:
    again = experiment.run(checked(), 0, tmp_path)
    first = next(r for r in records if r["seed"] == 0 and not differences(r["parameters"]))
    assert again["validation_losses"] == first["result"]["validation_losses"]
    assert again["network"] == first["result"]["network"]


def test_records_are_found_by_how_they_differ_from_their_family(records) -> None:
    assert [r["seed"] for r in of_family(records, "relu_ssm")] == [0, 1]
    assert len(of_family(records, "relu_ssm", fit__optimizer="sgd")) == 2
    assert not of_family(records, "relu_ssm", sentences=7)
    fuller = {**records[0], "parameters": records[0]["parameters"] | {"inside": True}}
    assert of_family([*records, fuller], "relu_ssm")[fuller["seed"]] is fuller
    assert len(of_family([fuller, *records], "relu_ssm")) == 2
    curve = along(records, "relu_ssm", "sentences")
    assert list(curve) == [5, 40]
    assert differences(curve[5][0]["parameters"]) == {"sentences": 5}
    assert rates(curve[40]).shape == (2,) and np.all(divergence(curve[40]) > 0)


def test_tables_have_a_row_for_every_group(records) -> None:
    assert readings_table(records).count("\n") == 3
    assert "LSTM" in sentences_table(records) and "counter with back-off" in sentences_table(records)
    assert "| counter | 40 |" in unseen_table(records)
    assert accuracy_table({"x": records[0]["result"]["network"]}).count("|") > 10


def test_the_interval_of_a_share_covers_what_it_should() -> None:
    from scipy.stats import binom

    low, high = share_interval(7, 20)
    assert binom.sf(6, 20, low) == pytest.approx(0.025) and binom.cdf(7, 20, high) == pytest.approx(0.025)
    assert share_interval(25, 25)[0] == pytest.approx(0.025 ** (1 / 25)) and share_interval(25, 25)[1] == 1.0
    assert share_interval(0, 9)[0] == 0.0
    with pytest.raises(ValueError):
        share_interval(3, 2)
