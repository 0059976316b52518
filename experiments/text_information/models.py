"""The models q of text: what each reads a corpus as, and how it scores it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from lib.information.documents.block_scores import Scorer
from lib.measure.models import numbers_held
from lib.models import create
from lib.models.pretrained import Characters, load_character_lstm, load_smollm2
from lib.models.pretrained.language_model import Precision
from lib.models.scoring import NetworkScorer
from lib.processes.corpora.catalogue import entry
from lib.processes.corpora.reading import sentence_starts
from lib.processes.corpora.tokens import BytePairs, encode_characters
from lib.runs.training import RunParameters, trained
from lib.training import NextToken

SEPARATOR = "<|endoftext|>"  # between documents, in the training of SmolLM2
HELD = 32  # rows of validation, at most: they are scored together
NEUTRAL = "It was late, and nobody said a word for some time. At last he rose, went to the door, and looked out at "


class Model(RunParameters):
    """Which q: a pretrained character LSTM, SmolLM2, or a network trained here on other documents."""

    kind: Literal["character_lstm", "smollm2", "network"]
    name: str = ""  # of the character LSTM
    start: str | None = NEUTRAL  # what every sequence is taken to follow; null: no distribution of a first token
    precision: Precision = "float32"  # of the products in the layers of SmolLM2
    columns: int | None = Field(70, ge=1)  # of the lines that a character LSTM reads; null: a paragraph is a line
    architecture: str = "lstm"
    width: int = Field(64, ge=1)
    depth: int = Field(1, ge=1)
    options: dict[str, Any] = Field(default_factory=dict)
    fit: dict[str, Any] = Field(default_factory=dict)
    merges: int = Field(0, ge=0)  # of byte pairs, learned on the documents of training; 0: tokens are characters
    marker: bool = False  # a network's rows follow a token of their own, and so does what it scores, instead of `start`
    training_tokens: int = Field(1_000_000, ge=1000)  # an equal share of each document
    row: int | None = Field(None, ge=8)  # tokens of a row of training; null: as many as are scored at a time


@dataclass(frozen=True)
class Reading:
    """Documents as a model reads them."""

    scorer: Scorer
    documents: list[NDArray[np.int64]]
    beginnings: list[NDArray[np.int64]]  # of sentences, places of tokens
    report: dict[str, Any]


def read(
    model: Model,
    measured: Sequence[str],
    others: Sequence[str],
    longest: int,
    seed: int,
    folder: Path,
    device: str,
    progress: bool,
) -> Reading:
    """Load or train q, and encode the documents to be measured, in windows of `longest` tokens.

    A network is trained on `others`. ``ValueError`` for documents that are too short, before any training.
    """
    if model.kind == "smollm2":
        return _by_language_model(model, measured, longest, device)
    if model.kind == "character_lstm":
        return _by_character_lstm(model, measured, longest, device)
    coded = _by_pairs(model, measured, others) if model.merges else _by_characters(model, measured, others)
    if max(document.size for document in coded.measured) < longest:
        raise ValueError(
            f"longest: the longest document to be measured has {max(document.size for document in coded.measured)} "
            f"tokens, too few for a window of {longest}"
        )
    start = np.array([coded.vocabulary]) if model.marker else coded.start
    row = model.row or longest + (0 if model.marker or start is None else len(start))  # every position that is scored
    data = training_rows(coded.others, row, model.training_tokens)
    if model.marker:
        data = np.concatenate([np.full((len(data), 1), coded.vocabulary), data], axis=1)
    network, report = _trained(model, data, coded.vocabulary + model.marker, seed, folder, device, progress)
    report |= {
        "state_size": network.state_size(longest // 2),
        "training_tokens": len(report["training_losses"]) * report.pop("rows") * row,
        "vocabulary": coded.vocabulary,
    }
    scorer = NetworkScorer(network, start, device=device)
    return Reading(scorer, coded.measured, coded.beginnings, report | _length_of_tokens(measured, coded.measured))


class Coded(NamedTuple):
    """Documents as tokens of a vocabulary that was made for them."""

    vocabulary: int
    measured: list[NDArray[np.int64]]
    beginnings: list[NDArray[np.int64]]  # of sentences in these
    others: list[NDArray[np.int64]]
    start: NDArray[np.int64] | None


def _by_characters(model: Model, measured: Sequence[str], others: Sequence[str]) -> Coded:
    tokens = encode_characters([*measured, *others])
    documents = [document.astype(np.int64) for document in tokens.documents()]
    numbers = Characters({symbol: number for number, symbol in enumerate(tokens.vocabulary)})
    start = None if model.start is None else numbers.encode(model.start)
    first = documents[: len(measured)]
    beginnings = [sentence_starts(text) for text in measured]
    return Coded(len(tokens.vocabulary), first, beginnings, documents[len(measured) :], start)


def _by_pairs(model: Model, measured: Sequence[str], others: Sequence[str]) -> Coded:
    pairs = BytePairs(others, model.merges)
    pieces = [pairs.encode(text) for text in measured]
    beginnings = [piece.starts_at(sentence_starts(text)) for piece, text in zip(pieces, measured, strict=True)]
    start = None if model.start is None else pairs.encode(model.start).tokens
    first, second = [piece.tokens for piece in pieces], [pairs.encode(text).tokens for text in others]
    return Coded(pairs.vocabulary, first, beginnings, second, start)


def _by_character_lstm(model: Model, measured: Sequence[str], longest: int, device: str) -> Reading:
    pretrained = load_character_lstm(model.name)
    documents = [pretrained.encode(text, "simplify", columns=model.columns) for text in measured]
    start = None if model.start is None else pretrained.encode(model.start, "simplify", columns=None)
    scorer = NetworkScorer(pretrained.model, start, device=device)
    starts = [sentence_starts(pretrained.characters.decode(document)) for document in documents]
    report = {"state_size": pretrained.model.state_size(longest // 2), "vocabulary": len(pretrained.characters)}
    return Reading(scorer, documents, starts, {**report, "characters_per_token": 1.0})


def _by_language_model(model: Model, measured: Sequence[str], longest: int, device: str) -> Reading:
    scorer = load_smollm2(start=model.start or SEPARATOR, precision=model.precision, device=device)
    encoded = [scorer.encode(text) for text in measured]
    starts = [piece.starts_at(sentence_starts(text)) for piece, text in zip(encoded, measured, strict=True)]
    documents = [piece.tokens for piece in encoded]
    report = {
        "vocabulary": scorer.vocabulary,
        "parameter_count": sum(parameter.numel() for parameter in scorer.model.parameters()),
        "state_size": numbers_held(scorer.model.config, longest // 2),
        **_length_of_tokens(measured, documents),
    }
    return Reading(scorer, documents, starts, report)


def _length_of_tokens(texts: Sequence[str], documents: Sequence[NDArray[np.int64]]) -> dict[str, float]:
    return {"characters_per_token": sum(map(len, texts)) / sum(document.size for document in documents)}


def training_rows(documents: Sequence[NDArray[np.int64]], row: int, tokens: int) -> NDArray[np.int64]:
    """About `tokens` tokens in rows (rows, row), the same number from each document that has so many, evenly spaced.

    ``ValueError`` for fewer than two documents, and if less than 20 rows come together.
    """
    if len(documents) < 2:
        raise ValueError(f"a network needs documents to be trained on that are not measured, got {len(documents)}")
    share = tokens // len(documents) // row
    whole = [document[: document.size // row * row].reshape(-1, row) for document in documents]
    chosen = [rows[np.arange(min(share, len(rows))) * len(rows) // max(1, min(share, len(rows)))] for rows in whole]
    data = np.concatenate(chosen)
    if len(data) < 20:
        raise ValueError(
            f"training_tokens: at least 20 rows of {row} are needed to train and validate, got {len(data)} from "
            f"{tokens} tokens of {len(documents)} documents"
        )
    return data


def _trained(
    model: Model, data: NDArray[np.int64], vocabulary: int, seed: int, folder: Path, device: str, progress: bool
) -> tuple[Any, dict[str, Any]]:
    order = np.random.default_rng([seed, 1]).permutation(len(data))
    held = min(HELD, len(data) // 20)
    options = {"seed": np.random.default_rng([seed, 0]), **model.options}
    network = create(model.architecture, vocabulary, model.width, model.depth, **options).to(device)
    _, report = trained(
        network,
        NextToken(data[order[held:]], data[order[:held]], seed=seed, vocabulary=vocabulary),
        model.fit,
        folder,
        described={"model": model.model_dump(), "seed": seed},
        label=f"{model.architecture} {model.width}x{model.depth} seed {seed}",
        progress=progress,
    )
    return network, {**report, "rows": len(data) - held}


def is_text(name: str) -> bool:
    """Whether the catalogue has a text of this name; ``ValueError`` for an unknown one."""
    return entry(name).is_text
