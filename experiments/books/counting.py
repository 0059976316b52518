"""What counting blocks of tokens gives on long documents: the losses that networks of L2M, Fig. 5, are measured by."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from experiments.books.discounted_counts import DiscountedCounts
from experiments.books.run import TEST, by_position, fixed_windows
from experiments.books.texts import named_documents, shelves
from lib.processes.corpora.catalogue import entry
from lib.runs.training import RunParameters


class Parameters(RunParameters):
    """Texts and windows as in book_prediction, and how much is counted."""

    corpus: str = "books"
    documents: int | None = Field(None, ge=1)
    merges: int = Field(768, ge=0)
    context: int = Field(1024, ge=16)
    test: int = Field(24, ge=1)
    data_seed: int = Field(0, ge=0)
    order: int = Field(ge=0)  # tokens of the past that the longest blocks have
    tokens: int | None = Field(None, ge=1)  # at most so many are counted, the same share of every document; all if null


def check(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """All parameters with their defaults; ValueError for what cannot run. No text of a catalogue's file is read."""
    chosen = Parameters.read(parameters, "book_counting")
    named_documents(chosen.corpus, chosen.documents)
    return chosen.model_dump()


def data(parameters: Mapping[str, Any]) -> list[str]:
    """Checksums of the corpus."""
    return entry(parameters["corpus"]).checksums


def run(
    parameters: Mapping[str, Any], seed: int, folder: Path, device: str = "cpu", progress: bool = False
) -> dict[str, Any]:
    """Count blocks in the documents that networks are trained on, and score the windows that networks are scored on.

    Returns the number of tokens counted, and for k = 0 .. order tokens of the past the negative log-likelihood in nats
    a token by position, on average and for every document. Nothing is random: all seeds give the same.
    """
    chosen = Parameters(**parameters)
    texts = shelves(chosen.corpus, chosen.merges, chosen.documents)
    windows = fixed_windows(texts.test, chosen.context, chosen.test, (chosen.data_seed, TEST))
    whole = sum(map(len, texts.training.documents))
    share = 1.0 if chosen.tokens is None else min(1.0, chosen.tokens / whole)
    counted = [document[: int(share * len(document))] for document in texts.training.documents]
    losses = DiscountedCounts(counted, chosen.order, texts.vocabulary).losses(windows.tokens)
    by_order = [by_position(one, windows.documents) for one in losses]
    return {
        "counted_tokens": sum(map(len, counted)),
        "vocabulary": texts.vocabulary,
        "first_seen": by_order[0]["first_seen"],
        "last_seen": by_order[0]["last_seen"],
        "nll": [found["nll"] for found in by_order],  # (order + 1, bins)
        "document_means": [found["document_means"] for found in by_order],
        "mean_nll": [found["mean_nll"] for found in by_order],
        "mean_nll_error": [found["mean_nll_error"] for found in by_order],
    }
