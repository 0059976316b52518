"""A whole run on a text of known statistics, what it refuses, and a text that goes on where it was killed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from experiments.natural_corpora.written import run as written
from experiments.natural_corpora.written.runs import network_of, written_runs
from experiments.natural_corpora.written.texts import Material, Pieces
from lib.models import create
from lib.training import CarriedText

WORDS = np.array(["one ", "two ", "three ", "four ", "( five ) ", "\n"])
FIT = {"optimizer": "adam", "learning_rate": 0.02, "batch": 4, "epochs": 2, "patience": None}
SIZES = {"width": 8, "validation": 1500, "tested": 1500, "written": 3000, "row": 400, "window": 20, "words": 20}
SMALL = {**SIZES, "largest_lag": 40, "lag_count": 8, "blocks": 4, "replicates": 6, "fit": FIT}


def text(length: int, seed: int) -> str:
    return "".join(np.random.default_rng(seed).choice(WORDS, size=length // 4))


@pytest.fixture(autouse=True)
def known_text(monkeypatch: pytest.MonkeyPatch) -> Material:
    given = Material(text(8000, 0), text(4000, 1), text(4000, 2))
    monkeypatch.setattr(written, "material", lambda name: given)
    return given


def done(folder: Path, **changed: Any) -> dict[str, Any]:
    return written.run(written.check({**SMALL, **changed}), 0, folder)


@pytest.mark.parametrize(
    "model",
    [
        {"architecture": "lstm", "options": {"embedding": 6}},
        {"architecture": "transformer", "options": {"heads": 2}, "context": 16},
        {"architecture": "lstm", "level": "word", "options": {"embedding": None, "tied": True, "dropout": 0.1}},
    ],
    ids=["characters", "windows", "words"],
)
def test_a_run_trains_writes_and_measures(tmp_path: Path, model: dict[str, Any]) -> None:
    result = done(tmp_path, **model)
    assert result["validation_losses"][-1] < result["unigram_loss"]
    lags = len(result["lags"])
    for whose in ("written", "read"):
        kept = result[whose]
        assert np.shape(kept["replicates"]) == (6, lags) and len(kept["curve"]) == len(kept["floor"]) == lags
        mean = np.mean(kept["replicates"], axis=0)
        assert np.allclose(mean, kept["curve"], rtol=1e-3, atol=1e-6)
    assert result["read"]["curve"][0] > 1.0 and result["read"]["curve"][-1] - result["read"]["floor"][-1] < 0.1
    assert len(result["sample"]) == written.SAMPLE and result["written_characters"] >= 0.9 * SMALL["written"]
    assert result["writing_seconds"] > 0 and result["quality_of_test"]["spelling"] > 0.98
    assert len(json.dumps(result, allow_nan=False)) < 20_000
    record = {"parameters": written.check({**SMALL, **model}), "seed": 0, "result": result}
    (network,) = written_runs([record])
    assert network == network_of(record["parameters"])


def test_the_same_seed_is_the_same_run_and_another_is_another(tmp_path: Path) -> None:
    model = {"architecture": "lstm", "options": {"embedding": 4, "dropout": 0.2}, "width": 4}
    first, again = (done(tmp_path / name, **model) for name in ("first", "again"))
    assert first["sample"] == again["sample"] and first["written"] == again["written"]
    other = written.run(written.check({**SMALL, **model}), 1, tmp_path / "other")
    assert other["sample"] != first["sample"]


def test_what_was_read_is_measured_as_long_as_what_was_written(known_text: Material) -> None:
    pieces = Pieces(known_text.training, "character")
    chosen = written.Parameters(**{**SMALL, "architecture": "lstm"})
    rows = [known_text.training[start : start + 400] for start in range(0, 3000, 400)]
    found = written.measured(rows, known_text, pieces, chosen)
    assert found["compared_characters"] == sum(map(len, rows))
    assert found["written"] == found["read"]  # the same text: the same numbers
    assert found["quality"]["read"] > 0.95
    shuffled = ["".join(np.random.default_rng(3).permutation(list(row))) for row in rows]
    moved = written.measured(shuffled, known_text, pieces, chosen)
    assert moved["written"]["curve"][0] < 0.2 < moved["read"]["curve"][0]


def test_windows_predict_every_token_but_the_first_once() -> None:
    rows = written.windows(np.arange(23), 5)
    assert rows[:, 1:].ravel().tolist() == list(range(1, 21)) and rows[:, 0].tolist() == [0, 5, 10, 15]
    with pytest.raises(ValueError, match="context: at most 22"):
        written.windows(np.arange(23), 23)


def test_the_unigram_loss_is_that_of_the_frequencies() -> None:
    training, held_out = np.array([0, 0, 1]), np.array([0, 1, 2])
    expected = -np.log([3 / 6, 2 / 6, 1 / 6]).mean()
    assert written.unigram_loss(training, held_out, 3) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("architecture", "options", "context"), [("mamba", {}, None), ("transformer", {"heads": 2}, 16)]
)
def test_only_models_with_positions_write_within_a_context(
    architecture: str,
    options: dict[str, Any],
    context: int | None,
    known_text: Material,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pieces = Pieces(known_text.training, "character")
    asked = {**SMALL, "architecture": architecture, "context": 16, "written": 1000, "row": 60, "width": 4}
    model = create(architecture, len(pieces.symbols), 4, **options)
    seen, generate = [], written.generate

    def watched(*given: Any, **named: Any) -> Any:
        seen.append(named["context"])
        return generate(*given, **named)

    monkeypatch.setattr(written, "generate", watched)
    rows = written.write(model, written.Parameters(**asked), pieces, pieces.encode(known_text.training), 0)
    assert seen == [context] and sum(map(len, rows)) >= 1000


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"architecture": "transformer"}, "context: a transformer is trained on windows"),
        ({"architecture": "lstm", "row": 40}, "row: more than largest_lag = 40"),
        ({"architecture": "lstm", "level": "sentence"}, "level"),
        ({"architecture": "lstm", "blocks": 5}, r"blocks: an even number from 2 to \d+ is allowed, got 5"),
        ({"architecture": "lstm", "blocks": 10_000}, "blocks: an even number .* got 10000"),
        ({"architecture": "lstm", "tested": 100_000}, None),
        ({"architecture": "lstm", "fit": {"rate": 1}}, "no such setting"),
    ],
)
def test_what_cannot_run_is_refused(changed: dict[str, Any], message: str | None) -> None:
    if message is None:
        written.check({**SMALL, **changed})  # as much as there is, where there is less
        return
    with pytest.raises(ValueError, match=message):
        written.check({**SMALL, **changed})


def test_a_text_shorter_than_a_context_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(written, "material", lambda name: Material(text(8000, 0), "short", text(4000, 2)))
    with pytest.raises(ValueError, match="validation: 80 characters of wikitext2-held-out are needed, there are 5"):
        done(tmp_path, architecture="lstm")


def test_carried_text_and_windows_are_chosen_by_the_context() -> None:
    tokens = np.random.default_rng(0).integers(5, size=2000)
    for context, kind in ((None, CarriedText), (16, written.Windows)):
        chosen = written.Parameters(**{**SMALL, "architecture": "lstm", "context": context})
        task = written.task_of(chosen, tokens, tokens, 0, 5)
        assert isinstance(task, kind)
        task.steps(4)
        model = create("lstm", 5, 4)
        assert task.validation_loss(model, torch.device("cpu")) == pytest.approx(np.log(5), abs=0.3)
