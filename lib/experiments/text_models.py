"""The models q of text: what each reads a corpus as, and how it scores it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from lib.information.block_scores import Scorer
from lib.models import create
from lib.models.pretrained import Characters, load_character_lstm, load_smollm2
from lib.models.scorers import NetworkScorer
from lib.processes.corpora.catalogue import WEIGHTS, entry
from lib.processes.corpora.sentence_starts import sentence_starts
from lib.processes.corpora.tokens import encode_characters
from lib.training import FitSettings, NextToken, fit

SEPARATOR = "<|endoftext|>"  # between documents, in the training of SmolLM2
NEUTRAL = "It was late, and nobody said a word for some time. At last he rose, went to the door, and looked out at "


class Model(BaseModel):
    """Which q: a pretrained character LSTM, SmolLM2, or a network trained here on the characters of other documents."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["character_lstm", "smollm2", "network"]
    name: str = ""  # of the character LSTM
    start: str | None = NEUTRAL  # what every sequence is taken to follow; null: no law of a first token
    columns: int | None = Field(70, ge=1)  # of the lines that a character LSTM reads; null: a paragraph is a line
    architecture: str = "lstm"
    width: int = Field(64, ge=1)
    depth: int = Field(1, ge=1)
    options: dict[str, Any] = {}
    fit: dict[str, Any] = {}
    characters: int = Field(1_000_000, ge=1000)  # to train on, an equal share of each document
    row: int = Field(256, ge=8)  # of training, characters


@dataclass(frozen=True)
class Reading:
    """Documents as a model reads them."""

    scorer: Scorer
    documents: list[NDArray[np.int64]]
    beginnings: list[NDArray[np.int64]]  # of sentences, places of tokens
    report: dict[str, Any]


def read(
    model: Model, measured: Sequence[str], others: Sequence[str], seed: int, folder: Path, device: str, progress: bool
) -> Reading:
    """Load or train q, and encode the documents to be measured. A network is trained on `others`."""
    if model.kind == "smollm2":
        return _by_language_model(model, measured, device)
    if model.kind == "character_lstm":
        return _by_character_lstm(model, measured, device)
    tokens = encode_characters([*measured, *others])
    documents = [document.astype(np.int64) for document in tokens.documents()]
    network, report = _trained(
        model, documents[len(measured) :], len(tokens.vocabulary), seed, folder, device, progress
    )
    numbers = Characters({symbol: number for number, symbol in enumerate(tokens.vocabulary)})
    start = None if model.start is None else numbers.encode(model.start)
    scorer = NetworkScorer(network, start, device=device)
    return Reading(scorer, documents[: len(measured)], [sentence_starts(text) for text in measured], report)


def _by_character_lstm(model: Model, measured: Sequence[str], device: str) -> Reading:
    pretrained = load_character_lstm(model.name)
    documents = [pretrained.encode(text, "simplify", columns=model.columns) for text in measured]
    start = None if model.start is None else pretrained.encode(model.start, "simplify", columns=None)
    scorer = NetworkScorer(pretrained.model, start, device=device)
    starts = [sentence_starts(pretrained.characters.decode(document)) for document in documents]
    return Reading(scorer, documents, starts, {})


def _by_language_model(model: Model, measured: Sequence[str], device: str) -> Reading:
    scorer = load_smollm2(start=model.start or SEPARATOR, device=device)
    encoded = [scorer.encode(text) for text in measured]
    starts = [piece.starts_at(sentence_starts(text)) for piece, text in zip(encoded, measured, strict=True)]
    return Reading(scorer, [piece.tokens for piece in encoded], starts, {})


def _trained(
    model: Model,
    documents: Sequence[NDArray[np.int64]],
    vocabulary: int,
    seed: int,
    folder: Path,
    device: str,
    progress: bool,
) -> tuple[Any, dict[str, Any]]:
    if len(documents) < 2:
        raise ValueError(f"a network needs documents to be trained on that are not measured, got {len(documents)}")
    share = model.characters // len(documents) // model.row
    rows = [document[: share * model.row] for document in documents]
    whole = [row[: row.size // model.row * model.row].reshape(-1, model.row) for row in rows]
    data = np.concatenate(whole)
    if len(data) < 20:
        raise ValueError(
            f"characters: at least 20 rows of {model.row} are needed to train and validate, got {len(data)}"
        )
    order = np.random.default_rng([seed, 1]).permutation(len(data))
    held = max(1, len(data) // 20)
    options = {"seed": np.random.default_rng([seed, 0]), **model.options}
    network = create(model.architecture, vocabulary, model.width, model.depth, **options).to(device)
    course = fit(
        network,
        NextToken(data[order[held:]], data[order[:held]], seed=seed, vocabulary=vocabulary),
        FitSettings(**model.fit),
        checkpoint=folder / "checkpoint.safetensors",
        configuration={"model": model.model_dump(), "seed": seed},
        label=f"{model.architecture} {model.width}x{model.depth} seed {seed}",
        progress=progress,
    )
    report = {
        "parameter_count": sum(parameter.numel() for parameter in network.parameters()),
        "training_losses": course.training_losses,
        "validation_losses": course.validation_losses,
        "reason": course.reason,
        "training_seconds": course.seconds,
    }
    return network, report


def identity(name: str) -> list[str]:
    """Checksums of the files of a corpus or a model of the catalogue."""
    found = entry(name)
    if found.package is not None:
        return [found.package.checksum]
    return [file.checksum for file in found.files.values()]


def is_text(name: str) -> bool:
    """Whether the catalogue has a text of this name; ``ValueError`` for an unknown one."""
    return entry(name).layout != WEIGHTS
