"""One language model on long documents: train it, and score every position of windows it has not seen (L2M, Fig. 5)."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, model_validator

from experiments.books.task import DocumentWindows, window_losses
from experiments.books.texts import Shelf, Shelves, longest_document, named_documents, shelves
from lib.information.documents.windows import Windows, document_windows
from lib.models import SequenceModel, create
from lib.models.attention.transformer import LearnedPositionTransformer
from lib.processes.corpora.catalogue import entry
from lib.runs.training import RunParameters, trained
from lib.training import FitSettings
from lib.training.settings import matrix_products

TRAINED = ("transformer", "mamba", "mamba2", "lstm")
EXACT_POSITIONS = 16  # recorded one by one; those after them in bins
VALIDATION, TEST = 1, 2  # streams of random numbers


class Parameters(RunParameters):
    """What a run needs to know besides its seed; `fit` holds settings of FitSettings, `options` some of the network."""

    corpus: str = "books"
    documents: int | None = Field(None, ge=1)  # at most so many of the corpus, spread evenly; all if null
    merges: int = Field(768, ge=0)  # of byte pairs, after the 256 bytes
    context: int = Field(1024, ge=16)  # tokens a network has seen when it predicts the last one of a window
    architecture: str
    width: int = Field(ge=1)
    depth: int = Field(1, ge=1)
    positions: Literal["learned", "sinusoidal", "rotary"] | None = None  # of the Transformer; learned if not given
    options: dict[str, Any] = Field(default_factory=dict)
    epoch_steps: int = Field(ge=1)
    fit: dict[str, Any] = Field(default_factory=dict)
    validation: int = Field(6, ge=1)  # windows of each document
    test: int = Field(24, ge=1)  # windows of each document
    data_seed: int = Field(0, ge=0)  # of validation and test, the same for all runs

    @model_validator(mode="before")
    @classmethod
    def _learned_unless_chosen(cls, given: Any) -> Any:
        if given.get("architecture") == "transformer":
            return {**given, "positions": given.get("positions") or "learned"}
        if given.get("positions") is not None:
            raise ValueError(f"positions: of a transformer they can be chosen, got {given['positions']!r}")
        return given


def check(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """All parameters with their defaults; ValueError for what cannot run. No text of a catalogue's file is read."""
    chosen = Parameters.read(parameters, "book_prediction")
    if chosen.architecture not in TRAINED:
        raise ValueError(f"architecture: one of {', '.join(TRAINED)} is allowed, got {chosen.architecture!r}")
    named_documents(chosen.corpus, chosen.documents)
    longest = longest_document(chosen.corpus)
    if chosen.context >= longest:
        raise ValueError(
            f"context: windows of {chosen.context + 1} tokens need longer documents; "
            f"the longest of {chosen.corpus!r} has {longest} bytes"
        )
    with torch.device("meta"):  # shapes without numbers
        _network(chosen, 256 + chosen.merges, 0)
    return chosen.model_dump()


def data(parameters: Mapping[str, Any]) -> list[str]:
    """Checksums of the corpus."""
    return entry(parameters["corpus"]).checksums


@matrix_products("float32")  # on a GPU too, where cuDNN rounds unless it is told not to
def run(
    parameters: Mapping[str, Any], seed: int, folder: Path, device: str = "cpu", progress: bool = False
) -> dict[str, Any]:
    """Train one network on windows of some documents, and score windows of others, the same for all runs.

    folder: for the checkpoint, from which a second call goes on, and the weights. Returns the course of training and
    negative log-likelihoods in nats per token by the number of tokens seen, on average and for every test document.
    Raises ValueError if a shelf has no document with room for its windows.
    """
    chosen = Parameters(**parameters)
    texts = shelves(chosen.corpus, chosen.merges, chosen.documents)
    test = fixed_windows(texts.test, chosen.context, chosen.test, (chosen.data_seed, TEST))
    validation = fixed_windows(texts.validation, chosen.context, chosen.validation, (chosen.data_seed, VALIDATION))
    task = DocumentWindows(
        texts.training.documents,
        texts.training.starts,
        validation.tokens,
        length=chosen.context + 1,
        epoch_steps=chosen.epoch_steps,
        vocabulary=texts.vocabulary,
        seed=seed,
    )
    model = _network(chosen, texts.vocabulary, np.random.default_rng([seed, 0])).to(device)
    course, result = trained(
        model,
        task,
        chosen.fit,
        folder,
        described={"parameters": chosen.model_dump(), "seed": seed},
        label=f"{chosen.architecture} {chosen.depth}x{chosen.width} at {chosen.context}, seed {seed}",
        progress=progress,
    )
    result |= {
        **_sizes(model, chosen.context),
        **_texts_in_words(texts, test),
        "training_tokens": len(course.training_losses) * chosen.epoch_steps * _batch(chosen) * chosen.context,
        "tokens_per_second": task.tokens_per_second,
    }
    if course.best_epoch:
        losses = window_losses(model, test.tokens, device=device)
        result |= by_position(losses, test.documents)
    return result


def fixed_windows(shelf: Shelf, context: int, per_document: int, seed: tuple[int, int]) -> Windows:
    """Windows of context + 1 tokens that begin with a sentence, spread over every document that has room."""
    return document_windows(
        shelf.documents,
        context + 1,
        per_document=per_document,
        allowed=shelf.starts,
        short="skip",
        seed=np.random.default_rng(seed),
    )


def by_position(losses: NDArray[np.float64], documents: NDArray[np.int64]) -> dict[str, Any]:
    """Means of the losses (windows, context) in nats per token: by bins of tokens seen, in all and for every document.

    Standard errors take a document, not a window or a token, as one observation; every document has as many windows.
    """
    bins = list(itertools.pairwise(position_bins(losses.shape[1])))
    groups = [losses[documents == number] for number in np.unique(documents)]
    table = np.array([[group[:, start:stop].mean() for start, stop in bins] for group in groups])
    means = np.array([group.mean() for group in groups])
    scale = np.sqrt(len(groups)) if len(groups) > 1 else np.nan
    return {
        "first_seen": [int(start) + 1 for start, _ in bins],  # tokens seen before the first one that is predicted
        "last_seen": [int(stop) for _, stop in bins],
        "nll": table.mean(axis=0).tolist(),
        "nll_error": (table.std(axis=0, ddof=min(1, len(groups) - 1)) / scale).tolist(),
        "by_document": np.round(table, 5).tolist(),
        "mean_nll": float(means.mean()),
        "mean_nll_error": float(means.std(ddof=min(1, len(groups) - 1)) / scale),
        "document_means": np.round(means, 6).tolist(),
    }


def position_bins(length: int) -> NDArray[np.int64]:
    """Edges of bins of positions: the first 16 one by one, then two bins per octave, the last one up to `length`."""
    exact = min(length, EXACT_POSITIONS)
    halves = np.arange(1, np.ceil(2 * np.log2(length / exact)) + 1)
    later = np.minimum(length, np.round(exact * 2.0 ** (halves / 2))).astype(np.int64)
    return np.concatenate([np.arange(exact + 1), np.unique(later)])


def _network(chosen: Parameters, vocabulary: int, seed: int | np.random.Generator) -> SequenceModel:
    if chosen.positions == "learned":
        options = {"longest": chosen.context, **chosen.options}
        try:
            return LearnedPositionTransformer(vocabulary, chosen.width, chosen.depth, seed=seed, **options)
        except TypeError as error:
            raise ValueError(f"transformer with learned positions: {error}") from error
    options = {"positions": chosen.positions, **chosen.options} if chosen.positions else chosen.options
    return create(chosen.architecture, vocabulary, chosen.width, chosen.depth, seed=seed, **options)


def _sizes(model: SequenceModel, context: int) -> dict[str, int]:
    return {
        "parameter_count": sum(parameter.numel() for parameter in model.parameters()),
        "body_parameter_count": sum(parameter.numel() for parameter in model.layers.parameters()),
        "state_size": model.state_size(context),
    }


def _texts_in_words(texts: Shelves, test: Windows) -> dict[str, Any]:
    counts = np.bincount(np.concatenate(texts.training.documents), minlength=texts.vocabulary) + 1.0
    unigram = -np.log(counts / counts.sum())
    tokens = sum(document.size for document in texts.test.documents)
    return {
        "vocabulary": texts.vocabulary,
        "tokens_for_training": sum(document.size for document in texts.training.documents),
        "documents": [len(shelf.names) for shelf in (texts.training, texts.validation, texts.test)],
        "test_documents": [texts.test.names[number] for number in np.unique(test.documents)],
        "test_windows": len(test),
        "characters_per_token": texts.test.characters / tokens,
        "unigram_nll": float(unigram[test.tokens[:, 1:]].mean()),  # a model that knows frequencies alone
    }


def _batch(chosen: Parameters) -> int:
    return FitSettings(**chosen.fit).batch
