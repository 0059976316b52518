"""Training on long documents: windows that come again, byte pairs, losses by position, resuming."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from experiments.books import run as book_run
from experiments.books import texts as book_texts
from experiments.books.run import by_position, check, position_bins, run
from experiments.books.task import DocumentWindows, window_losses
from experiments.books.texts import named_documents, shelves, uses
from lib.information.documents.windows import document_windows
from lib.models import create
from lib.models.attention.transformer import LearnedPositionTransformer
from lib.processes.corpora.catalogue import entry
from lib.processes.corpora.reading import sentence_starts
from lib.processes.corpora.tokens import BytePairs
from lib.runs.definition import Experiment
from lib.runs.definition import check as check_runs

CPU = torch.device("cpu")
TEXTS = ["The cat sat. Where was it? On the mat, said Mr. Brown. " * 20, "A dog barked! Nobody came. " * 40]
SMALL: dict[str, Any] = {
    "corpus": "sotu",
    "documents": 7,
    "merges": 30,
    "context": 32,
    "architecture": "lstm",
    "width": 8,
    "options": {"embedding": 8},
    "epoch_steps": 4,
    "validation": 2,
    "test": 3,
    "fit": {
        "optimizer": "adamw",
        "learning_rate": 0.01,
        "batch": 4,
        "epochs": 3,
        "patience": None,
        "schedule": "cosine",
    },
}


def task(**changes: Any) -> DocumentWindows:
    documents = [np.arange(100) % 7, np.arange(40) % 5, np.arange(9) % 3]
    arguments = {"length": 10, "epoch_steps": 3, "vocabulary": 7, "seed": 1, **changes}
    return DocumentWindows(
        documents, [np.arange(100), np.arange(0, 40, 4), np.arange(9)], np.zeros((2, 5), int), **arguments
    )


def test_byte_pairs_hold_every_byte_of_texts_they_were_not_learned_on():
    pairs = BytePairs(TEXTS[:1], 20)
    assert pairs.vocabulary == 276
    for text in (*TEXTS, "Čas plyne — 時間, été 😀", ""):
        pieces = pairs.encode(text)
        assert pieces.tokens.size == pieces.places.size
        assert pieces.tokens.size <= len(text.encode("utf-8"))
    assert pairs.encode(TEXTS[0]).tokens.size < 0.7 * len(TEXTS[0])


def test_windows_may_start_where_a_sentence_does():
    pairs = BytePairs(TEXTS, 20)
    for text in TEXTS:
        pieces, beginnings = pairs.encode(text), sentence_starts(text)
        found = pieces.starts_at(beginnings)
        assert found.size == beginnings.size
        assert all(text[pieces.places[place] :].lstrip()[0].isupper() for place in found)


def test_merges_that_no_text_has_and_encodings_that_lose_bytes_are_refused():
    with pytest.raises(ValueError, match="merges"):
        BytePairs(["ab"], 500)
    with pytest.raises(ValueError, match="merges"):
        BytePairs(TEXTS, -1)
    pairs = BytePairs(TEXTS, 5)
    pairs._bytes = np.ones(pairs.vocabulary, dtype=np.int64)  # as if merged symbols had lost a byte
    with pytest.raises(ValueError, match="without a token"):
        pairs.encode(TEXTS[0])


def test_windows_stay_inside_documents_and_start_where_they_may():
    windows = task()
    assert windows.starts.size == 91 + 8  # the third document is too short
    for batch in windows.batches(50, 0, CPU):
        steps = np.diff(batch.numpy(), axis=1)
        assert batch.shape == (50, 10)
        assert np.all((steps == 1) | (batch.numpy()[:, 1:] == 0))
    assert windows.trained == 3 * 50 * 9


def test_batches_depend_on_seed_epoch_and_step_alone():
    first = torch.cat(list(task().batches(4, 2, CPU)))
    assert torch.equal(first, torch.cat(list(task().batches(4, 2, CPU))))
    assert not torch.equal(first, torch.cat(list(task().batches(4, 3, CPU))))
    assert not torch.equal(first, torch.cat(list(task(seed=2).batches(4, 2, CPU))))


@pytest.mark.parametrize(
    "changes", [{"length": 101}, {"length": 1}, {"epoch_steps": 0}, {"vocabulary": 5}, {"seed": -1}]
)
def test_windows_that_cannot_be_are_refused(changes: dict[str, int]):
    with pytest.raises(ValueError):
        task(**changes)


def test_losses_of_windows_are_those_of_steps_one_after_the_other():
    model = create("lstm", 7, 6, seed=3, embedding=4)
    windows = np.random.default_rng(0).integers(0, 7, (3, 9))
    state = model.initial_state(3)
    expected = np.empty((3, 8))
    with torch.no_grad():
        for place in range(8):
            logits, state = model.step(torch.from_numpy(windows[:, place]), state)
            chosen = torch.log_softmax(logits.double(), dim=-1).numpy()
            expected[:, place] = -chosen[np.arange(3), windows[:, place + 1]]
    found = window_losses(model, windows)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    batch = torch.from_numpy(windows)
    np.testing.assert_allclose(float(task().loss(model, batch).detach()), found.mean(), rtol=1e-5)


def test_learned_positions_give_the_same_in_parallel_and_step_by_step():
    model = LearnedPositionTransformer(11, 8, 2, longest=12, heads=2, seed=0)
    tokens = torch.from_numpy(np.random.default_rng(1).integers(0, 11, (2, 12)))
    with torch.no_grad():
        parallel, state = model(tokens), model.initial_state(2)
        for place in range(12):
            logits, state = model.step(tokens[:, place], state)
            torch.testing.assert_close(logits, parallel[:, place], atol=1e-5, rtol=1e-4)
    assert model.state_size(12) == 2 * 2 * 8 * 12
    with pytest.raises(ValueError, match="12 positions"):
        model(torch.zeros(1, 13, dtype=torch.int64))
    with pytest.raises(ValueError, match="12 positions"):
        model.step(tokens[:, 0], state)
    with pytest.raises(ValueError, match="spread"):
        LearnedPositionTransformer(11, 8, spread=0.0)


def test_every_position_is_in_one_bin():
    for length in (16, 17, 64, 1000, 1024, 4096):
        edges = position_bins(length)
        assert edges[0] == 0 and edges[-1] == length
        assert np.all(np.diff(edges) > 0)
    assert position_bins(1024).tolist()[16:] == [16, 23, 32, 45, 64, 91, 128, 181, 256, 362, 512, 724, 1024]


def test_errors_take_a_document_for_one_observation():
    documents = np.repeat(np.arange(4), 5)
    levels = np.array([1.0, 2.0, 4.0, 7.0])
    losses = levels[documents, None] + np.where(np.arange(64) < 20, 0.5, 0.0)
    found = by_position(losses, documents)
    np.testing.assert_allclose(found["document_means"], levels + 0.5 * 20 / 64)
    np.testing.assert_allclose(found["mean_nll_error"], levels.std(ddof=1) / 2)
    widths = np.array(found["last_seen"]) - np.array(found["first_seen"]) + 1
    np.testing.assert_allclose(np.array(found["by_document"]) @ widths / 64, found["document_means"], atol=1e-5)
    np.testing.assert_allclose(np.average(found["nll"], weights=widths), found["mean_nll"])
    alone = by_position(losses[:5], documents[:5])
    assert np.isnan(alone["mean_nll_error"])


def test_whole_documents_are_held_out_by_their_place_in_the_catalogue():
    kinds = uses(35)
    assert [kinds.count(use) for use in ("training", "validation", "test")] == [20, 5, 10]
    assert uses(14) == kinds[:14]
    names = named_documents("books")
    assert len(names) == 35 and names == tuple(sorted(names))
    texts = shelves("sotu", 30, 7)
    together = [*texts.training.names, *texts.validation.names, *texts.test.names]
    assert len(set(together)) == 7 and [len(texts.training.names), len(texts.test.names)] == [4, 2]
    assert shelves("sotu", 30, 7) is texts


def test_a_run_goes_on_from_its_checkpoint_to_the_same_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    parameters = check(SMALL)
    whole = run(parameters, 0, tmp_path / "whole")
    loss, calls = DocumentWindows.validation_loss, iter(range(2))

    def killed(self: DocumentWindows, model: Any, device: torch.device) -> float:
        if next(calls, None) is None:
            raise KeyboardInterrupt
        return loss(self, model, device)

    monkeypatch.setattr(DocumentWindows, "validation_loss", killed)
    with pytest.raises(KeyboardInterrupt):
        run(parameters, 0, tmp_path / "killed")
    monkeypatch.undo()
    resumed = run(parameters, 0, tmp_path / "killed")
    timed = {"training_seconds", "tokens_per_second"}
    assert {key: value for key, value in resumed.items() if key not in timed} == {
        key: value for key, value in whole.items() if key not in timed
    }
    assert whole["training_tokens"] == 3 * 4 * 4 * 32
    assert whole["test_windows"] == 3 * len(whole["test_documents"]) == 6
    assert len(whole["nll"]) == len(whole["by_document"][0]) == len(position_bins(32)) - 1
    json.dumps(whole)


def test_all_networks_are_scored_on_the_same_windows():
    texts = shelves("sotu", 30, 7)
    first = book_run.fixed_windows(texts.test, 32, 3, (0, 2))
    again = book_run.fixed_windows(texts.test, 32, 3, (0, 2))
    other = book_run.fixed_windows(texts.test, 32, 3, (1, 2))
    assert np.array_equal(first.tokens, again.tokens) and not np.array_equal(first.tokens, other.tokens)
    for start, number in zip(first.starts, first.documents, strict=True):
        assert start in texts.test.starts[number]
    with pytest.raises(ValueError, match="room"):
        document_windows(texts.test.documents, 10**6, short="skip")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"architecture": "gru"}, "architecture"),
        ({"corpus": "nothing"}, "unknown corpus"),
        ({"corpus": "wikitext2"}, "corpus"),
        ({"corpus": "charrnn"}, "corpus"),
        ({"documents": 6}, "at least 7 documents"),
        ({"context": 10**8}, "longest"),
        ({"merges": -1}, "merges"),
        ({"positions": "learned"}, "positions"),
        ({"positions": "rotary"}, "positions"),
        ({"architecture": "transformer", "positions": "clock"}, "positions"),
        ({"architecture": "transformer", "positions": "rotary", "options": {"heads": 8}}, "even width"),
        ({"width": 0}, "width"),
        ({"options": {"depths": 3}}, "depths"),
        ({"architecture": "transformer", "options": {"embedding": 8}}, "embedding"),
        ({"architecture": "transformer", "options": {"heads": 3}}, "heads"),
        ({"fit": {"epoch": 3}}, "epoch"),
        ({"colour": 1}, "colour"),
    ],
)
def test_parameters_that_cannot_run_are_refused_before_anything_starts(changes: dict[str, Any], told: str):
    with pytest.raises(ValueError, match=told):
        check({**SMALL, **changes})


def test_windows_longer_than_all_documents_are_refused_when_they_are_drawn(tmp_path: Path):
    with pytest.raises(ValueError, match="room"):
        run(check({**SMALL, "context": 30_000, "merges": 30}), 0, tmp_path)


@pytest.mark.parametrize("profile", ["smoke", "laptop", "paper"])
def test_every_run_of_every_profile_can_start(profile: str):
    runs = Experiment("l2m-fig5").runs(profile)
    assert len({single.identity for single in runs}) == len(runs)
    check_runs(runs)
    kinds = {
        (single.parameters["architecture"], single.parameters["depth"], single.parameters["width"]) for single in runs
    }
    if profile != "smoke":
        assert sum(kind[0] == "transformer" for kind in kinds) >= 3
        assert sum(kind[0] == "mamba" for kind in kinds) >= 3


def test_the_identity_of_the_data_is_that_of_all_files():
    assert len(entry("books").checksums) == 35
    assert book_run.data({"corpus": "sotu"}) == entry("sotu").checksums != entry("books").checksums
    assert book_texts.longest_document("books") > 3_000_000  # War and Peace
