"""The experiment on text: its parameters are checked, a run is small, repeatable, and goes on where it stopped."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest

from experiments.text_information import run as text_run
from experiments.text_information.models import training_rows
from experiments.text_information.run import check, data, run, splits_of
from lib.information.documents.growth import resampled_means
from lib.processes.corpora.tokens import BytePairs
from lib.runs.definition import Experiment
from lib.runs.definition import check as check_runs
from lib.training import NextToken

SMALL = {
    "model": {"kind": "network", "width": 8, "training_tokens": 12000, "row": 32, "start": "The end.",
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


def test_every_profile_can_run_and_names_its_data():
    experiment = Experiment("text-information")
    for profile in experiment.profiles:
        runs = experiment.runs(profile)
        check_runs(runs)
        assert all(json.dumps(data(found.parameters)) for found in runs)


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
    plain = text_run.score_blocks
    monkeypatch.setattr(
        text_run,
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


def test_byte_pairs_are_learned_on_the_documents_of_training_and_windows_count_them(tmp_path, monkeypatch):
    plain = text_run._texts
    monkeypatch.setattr(text_run, "_texts", lambda chosen: [[text[:4000] for text in texts] for texts in plain(chosen)])
    change = {"merges": 64, "marker": True, "start": None, "row": None, "training_tokens": 20000}
    result = run(check(changed(model=change)), 0, tmp_path)
    assert result["vocabulary"] == 256 + 64 and 1.3 < result["characters_per_token"] < 3
    assert result["loss_by_position"][0] is not None and result["positions"][-1] == 48
    assert {entry["estimator"] for entry in result["estimates"]} == {"direct", "vclub", "uncorrected"}
    _, others = text_run._texts(text_run.Parameters(**changed(model=change)))
    assert BytePairs(others, 64).vocabulary == result["vocabulary"]


def test_a_marked_network_is_trained_at_the_very_positions_that_it_scores(tmp_path, monkeypatch):
    seen = []
    plain = NextToken.loss
    monkeypatch.setattr(
        NextToken, "loss", lambda self, model, batch: (seen.append(batch), plain(self, model, batch))[1]
    )
    model = {"architecture": "transformer", "marker": True, "start": None, "row": None}
    result = run(check(changed(model=model)), 0, tmp_path)
    rows = np.concatenate(seen)
    assert rows.shape[1] == 1 + 48 and (rows[:, 0] == result["vocabulary"]).all()
    assert (rows[:, 1:] < result["vocabulary"]).all()
    assert result["training_tokens"] == rows[:, 1:].size
    assert result["state_size"] == 2 * 8 * 24  # keys and values of half a window


def test_rows_of_training_are_spread_over_every_document():
    documents = [np.arange(100), 1000 + np.arange(57), 2000 + np.arange(9)]
    rows = training_rows(documents, 5, 150)
    assert rows.shape == (10 + 10 + 1, 5) and len(np.unique(rows)) == rows.size
    assert (np.diff(rows, axis=1) == 1).all()
    assert rows[:10, 0].tolist() == list(range(0, 100, 10)) and rows[-2, 0] >= 1045
    with pytest.raises(ValueError, match=r"at least 20 rows of 50 are needed.*got 3"):
        training_rows(documents, 50, 10000)
    with pytest.raises(ValueError, match="documents to be trained on"):
        training_rows(documents[:1], 5, 100)


def test_documents_that_are_too_short_are_refused_before_any_training(tmp_path, monkeypatch):
    monkeypatch.setattr("experiments.text_information.models.trained", lambda *a, **k: pytest.fail("trained"))
    with pytest.raises(ValueError, match=r"has \d+ tokens, too few for a window of 1000000"):
        run(check(changed(longest=1_000_000)), 0, tmp_path)


def test_a_missing_package_is_a_message_with_the_command_that_gets_it(tmp_path, monkeypatch):
    monkeypatch.setattr("lib.models.pretrained.language_model.missing_packages", lambda names: ["gguf"])
    given = check({**SMALL, "model": {"kind": "smollm2", "start": None}})
    with pytest.raises(ValueError, match=r"gguf is needed to read this model.*`pip install gguf`"):
        run(given, 0, tmp_path)


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
        ({"every": 60}, "every: at least 6 documents are needed for block 2, got 5"),
        ({"corpus": "gpt2_samples", "leave_out": []}, "one whose parts are documents is needed"),
        ({"model": {"architecture": "transformer"}}, "model.row: a transformer has to be trained at every position"),
        ({"model": {"marker": True}}, "model.start: nothing comes before a marker"),
        ({"model": {"merges": -1}}, "merges"),
        ({"model": {"kind": "character_lstm", "name": "darwin", "merges": 10}}, "are of a network"),
        ({"starts": "word"}, "starts"),
        ({"model_weight": 2}, "model_weight"),
    ],
)
def test_parameters_that_cannot_run_are_refused_before_anything_starts(change, message):
    with pytest.raises(ValueError, match=message):
        check(changed(**change))
