"""Runs of copy and denoise: what a record holds, that killed ones end in the same numbers, and what is refused."""

import numpy as np
import pytest
import torch

from experiments.recall import run as module
from lib.processes import CopyTask, DenoiseTask
from lib.training import StepLabels
from lib.training.loop import FINISHED_BY_SUCCESS

FIT = {"optimizer": "adam", "learning_rate": 0.01, "batch": 6, "clip": 1.0, "patience": None, "epochs": 4}
SMALL = {"delay": 4, "symbols": 2, "recall": 2, "width": 8, "updates": 8, "evaluated": 40, "watched": 5, "fit": FIT}
REL = {"architecture": "rel_rnn", "options": {"buffer": 2, "relevant": 2}}


def run(folder, seed=0, **changes):
    return module.run(module.check({"task": "copy", **SMALL, **changes}), seed, folder)


def without_clock(result):
    return {key: value for key, value in result.items() if key != "training_seconds"}


def test_a_record_holds_the_course_and_what_is_inside(tmp_path):
    result = run(tmp_path, **REL, transfer=[2], gradients=True, transferred=10)
    assert len(result["accuracies"]) == len(result["validation_losses"]) == 4
    assert (result["updates"], result["updates_to_success"]) == (32, None)
    assert result["baseline_loss"] == pytest.approx(2 * np.log(2) / 8) and result["baseline_accuracy"] == 0.5
    assert set(result["transfer"]) == {"8"} and 0 <= result["transfer"]["8"]["accuracy"] <= 1
    for when in ("before", "after"):
        assert len(result[when]["gradient_norms"]) == 8
        shares = result[when]["attention"]
        assert 0 < shares["on_symbols"] < 1 and 0 <= shares["set_at_cue"] <= 1
        assert np.shape(shares["on_each_symbol"]) == (2, 2)
    assert result["before"] != result["after"]
    drawn = np.array(result["after"]["attention"]["map"])
    assert drawn.shape == (2, 8) and np.all(np.abs(drawn.sum(axis=1) - 1000) <= 8)
    assert "map" not in result["before"]["attention"]
    assert "map" not in run(tmp_path / "other", seed=1, **REL)["after"]["attention"]


def test_networks_that_do_not_attend_have_no_attention(tmp_path):
    result = run(tmp_path, architecture="lstm")
    assert "before" not in result and "after" not in result and "transfer" not in result


def test_success_ends_a_run_and_says_after_how_many_updates(tmp_path):
    fit = {**FIT, "epochs": 60, "success": 0.99, "learning_rate": 0.02}
    result = run(tmp_path, architecture="orth_rnn", updates=20, evaluated=200, fit=fit)
    assert result["reason"] == FINISHED_BY_SUCCESS
    assert result["updates_to_success"] == result["updates"] == 20 * len(result["accuracies"]) < 20 * 60
    assert result["accuracy"] > 0.95 and result["loss"] < result["baseline_loss"] / 2


def test_nothing_is_learnt_from_shuffled_labels(tmp_path):
    fit = {**FIT, "epochs": 20, "success": 0.99, "learning_rate": 0.02}
    result = run(tmp_path, architecture="orth_rnn", updates=20, evaluated=400, fit=fit, labels="shuffled")
    assert result["updates_to_success"] is None
    assert abs(result["accuracies"][-1] - 0.5) < 0.1
    assert min(result["validation_losses"]) > 0.95 * result["baseline_loss"]


@pytest.mark.parametrize("architecture", ["rel_rnn", "exp_rnn"])
def test_a_killed_run_ends_with_the_numbers_of_one_that_was_not(tmp_path, monkeypatch, architecture):
    options = REL["options"] if architecture == "rel_rnn" else {}
    asked = {"architecture": architecture, "options": options, "task": "denoise", "transfer": [2], "transferred": 5}
    whole = run(tmp_path / "whole", seed=2, **asked)
    evaluation, left = StepLabels.evaluation, iter([True, True])

    def killed(self, model, device):
        if next(left, False):
            return evaluation(self, model, device)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(StepLabels, "evaluation", killed)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "broken", seed=2, **asked)
    assert (tmp_path / "broken" / "checkpoint.safetensors").exists()
    assert without_clock(run(tmp_path / "broken", seed=2, **asked)) == without_clock(whole)
    # negative control: another seed has other numbers
    assert without_clock(run(tmp_path / "third", seed=3, **asked)) != without_clock(whole)


@pytest.mark.parametrize("architecture", ["lstm", "rnn", "orth_rnn", "rel_lstm"])
def test_inputs_are_unit_vectors_that_are_not_trained(architecture):
    chosen = module.Parameters(architecture=architecture, task="denoise", **SMALL)
    model = module._network(chosen, DenoiseTask(4, 2, 2), 0)
    assert torch.equal(model.embedding.weight, torch.eye(model.vocabulary))
    assert not model.embedding.weight.requires_grad
    assert model.vocabulary == DenoiseTask(4, 2, 2).vocabulary


def test_shuffled_labels_are_those_of_another_sequence():
    task = CopyTask(5)
    inputs, targets = module.ShuffledLabels(task).sample(7, 0)
    same, own = task.sample(7, 0)
    assert np.array_equal(inputs, same)
    assert sorted(targets.tolist()) == sorted(own.tolist())
    assert not any(np.array_equal(a, b) for a, b in zip(targets, own, strict=True))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"architecture": "lstm", "task": "recite"}, "task"),
        ({"architecture": "lsd"}, "architecture: one of"),
        ({"architecture": "lstm", "delay": 0}, "delay"),
        ({"architecture": "lstm", "fit": {"success": 2}}, "success"),
        ({"architecture": "lstm", "transfer": [0]}, "transfer: multiples"),
        ({"architecture": "lstm", "labels": "shuffled", "fit": {"batch": 1}}, "batches of at least 2"),
        ({"architecture": "rel_rnn", "options": {"select": "luck"}}, "select"),
        ({"architecture": "lstm", "delays": 3}, "delays"),
        ({"architecture": "mamba", "gradients": True}, "gradients: one of rnn, .*rel_lstm is allowed, got mamba"),
    ],
)
def test_what_cannot_run_is_refused_before_it_starts(changes, message):
    with pytest.raises(ValueError, match=message):
        module.check({"task": "copy", **SMALL, **changes})
