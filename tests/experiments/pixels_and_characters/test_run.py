"""Runs on pixels and characters: what a record holds, the same numbers after a stop, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from experiments.pixels_and_characters import characters, pixels
from experiments.pixels_and_characters.networks import PixelClassifier, read_on, reader
from lib.runs.definition import Experiment
from lib.training import loop

IMAGES = {
    "images": "bars", "side": 4, "width": 6, "training": 40, "evaluated": 20, "watched": 3,
    "fit": {"optimizer": "adam", "learning_rate": 0.01, "batch": 10, "patience": None, "epochs": 3},
}  # fmt: skip
TEXT = {
    "corpus": "sotu", "width": 8, "embedding": 4, "window": 9, "updates": 5, "characters": 900, "validated": 498,
    "tested": 498, "watched": 3,
    "fit": {"optimizer": "adam", "learning_rate": 0.01, "batch": 4, "patience": None, "epochs": 3},
}  # fmt: skip
REL = {"architecture": "rel_rnn", "options": {"buffer": 2, "relevant": 2}}


def run(module, folder, given, seed=0, **changes):
    return module.run(module.check({**given, **changes}), seed, folder)


def without_clock(result):
    return {key: value for key, value in result.items() if key != "training_seconds"}


def test_a_record_of_images(tmp_path):
    found = run(pixels, tmp_path / "a", IMAGES, architecture="mem_rnn", together=2)
    assert len(found["accuracies"]) == 3 and found["updates"] == 12 and found["steps"] == 8
    assert 0 <= found["test_accuracy"] <= 1 and 0.1 <= found["largest_class"] < 1
    assert len(found["after"]["map"]) == 8 and "map" not in found["before"]
    assert found["before"]["entropy"] != found["after"]["entropy"]
    assert "map" not in run(pixels, tmp_path / "b", IMAGES, seed=1, architecture="mem_rnn")["after"]
    assert "map" not in run(pixels, tmp_path / "c", IMAGES, **REL)["after"]
    assert "before" not in run(pixels, tmp_path / "d", IMAGES, architecture="rnn")


def test_a_record_of_a_text(tmp_path):
    found = run(characters, tmp_path / "a", TEXT, architecture="mem_rnn")
    assert found["bits"] == pytest.approx(found["test_loss"] / np.log(2)) and found["updates"] == 15
    assert set(found["floors"]) == {"unigram", "bigram", "trigram"} and found["characters"][0] == 900
    assert len(found["after"]["map"]) == 9
    assert "before" not in run(characters, tmp_path / "b", TEXT, architecture="lstm")


def test_labels_of_other_images_are_those_of_no_seed_but_ones_own(tmp_path):
    """The control differs from the run, and the images that are tested on keep their labels."""
    true, shuffled = (
        pixels._parts(pixels.Parameters(architecture="rnn", **IMAGES, labels=labels), 0)
        for labels in ("true", "shuffled")
    )
    assert (true[0].images == shuffled[0].images).all() and (true[2].labels == shuffled[2].labels).all()
    assert sorted(true[0].labels) == sorted(shuffled[0].labels) and (true[0].labels != shuffled[0].labels).any()


@pytest.mark.parametrize(("module", "given"), [(pixels, IMAGES), (characters, TEXT)], ids=["pixels", "characters"])
def test_a_run_that_was_stopped_ends_in_the_same_numbers(module, given, tmp_path, monkeypatch):
    whole = run(module, tmp_path / "whole", given, 1, **REL)
    save = loop.save_checkpoint

    def stopped(*arguments):
        save(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(loop, "save_checkpoint", stopped)
        run(module, tmp_path / "parts", given, 1, **REL)
    assert without_clock(run(module, tmp_path / "parts", given, 1, **REL)) == without_clock(whole)


@pytest.mark.parametrize(
    ("module", "given", "message"),
    [
        (pixels, {**IMAGES, "order": "columns"}, "order"),
        (pixels, {**IMAGES, "side": 5}, "side: a divisor of 28 is allowed, got 5"),
        (pixels, {**IMAGES, "together": 3}, "together: a divisor of 16 pixels is allowed, got 3"),
        (pixels, {**IMAGES, "images": "faces"}, "images"),
        (pixels, {**IMAGES, "architecture": "gru"}, "architecture: one of"),
        (pixels, {**IMAGES, "fit": {"rate": 1}}, "no such setting"),
        (characters, {**TEXT, "window": 200}, r"window: below 124 characters are allowed.*got 200"),
        (characters, {**TEXT, "corpus": "mnist"}, "corpus: parts"),
        (characters, {**TEXT, "corpus": "pbt"}, "did you mean 'ptb'"),
        (characters, {**TEXT, "memory": "never"}, "memory"),
        (characters, {**TEXT, "architecture": "goru", "width": 12}, "a power of 2"),
    ],
)
def test_what_cannot_run_is_refused_before_anything_starts(module, given, message):
    with pytest.raises(ValueError, match=message):
        module.check({"architecture": "rel_rnn", **given})


# --- the profile of the paper, at its sizes, on shapes without numbers ---


def paper(name):
    """One run for each set of parameters."""
    return [run.parameters for run in Experiment(name).runs("paper") if run.seed == 0]


def test_networks_of_the_paper_read_images_of_its_size():
    asked = {one["architecture"]: one for one in paper("kerg-pmnist")}
    assert set(asked) == {"rnn", "orth_rnn", "rel_rnn", "exp_rnn", "lstm", "mem_rnn"}
    assert {one["side"] ** 2 // one["together"] for one in paper("kerg-pmnist")} == {784, 112}
    for name, one in asked.items():
        model = PixelClassifier(name, one["together"], one["width"], **one["options"]).to("meta")
        logits = model(torch.zeros(2, 3, one["together"], device="meta"))
        logits.sum().backward()
        assert logits.shape == (2, 10)


def test_networks_of_the_paper_read_texts_at_its_sizes():
    asked = {one["architecture"]: one for one in paper("kerg-ptb") if one["memory"] == "windows"}
    assert {(one["corpus"], one["width"], one["window"]) for one in asked.values()} == {
        ("ptb", 1024, 150),
        ("ptb", 1024, 125),
    }
    for name, one in asked.items():
        model = reader(name, 50, 64, one["embedding"], 0, **one["options"]).to("meta")
        tokens = torch.zeros(2, 4, dtype=torch.int64, device="meta")
        first = read_on(model, tokens)
        second = read_on(model, tokens, first.carried)
        second.logits.sum().backward()
        assert second.logits.shape == (2, 4, 50) and second.carried[0].shape == (2, 64)
