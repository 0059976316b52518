"""Bipartite information of real text as one language model sees it (L2M, Fig. 2b,c, A.1-A.3)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from experiments.text_information.models import Model, Reading, is_text, read
from lib.information.documents.block_scores import BlockScores, score_blocks
from lib.information.documents.growth import scaling_exponent
from lib.information.documents.windows import Windows, document_windows
from lib.information.estimators import ngram_entropy
from lib.models import create
from lib.models.pretrained import character_lstm_names
from lib.processes import corpora
from lib.runs.training import RunParameters
from lib.training import FitSettings
from lib.training.settings import matrix_products

COUNTED = 10_000_000  # tokens whose blocks are counted, at most; an equal share of each document
GROUPS = 40  # at most; documents in a row, whose means are recorded
Estimator = Literal["direct", "uncorrected", "vclub"]


class Parameters(RunParameters):
    """What a run needs to know besides its seed."""

    model: Model
    corpus: str = "books"
    leave_out: list[str] = Field(default_factory=list)  # parts of the corpus, such as a book that q was trained on
    every: int = Field(1, ge=1)  # each such document is measured; a network is trained on the others
    longest: int = Field(2048, ge=16)  # tokens of a window
    ratios: list[int] = Field(default_factory=lambda: [2, 3, 4])  # L / l
    windows: int = Field(200, ge=3)  # at least so many in all
    starts: Literal["sentence", "any"] = "sentence"
    opening: int = Field(2, ge=1)  # first tokens of a block that are corrected; 2 in the paper
    model_weight: float = Field(0.2, ge=0, le=1)  # of the model in the correction
    replicates: int = Field(1000, ge=100)  # of the bootstrap
    block: int = Field(2, ge=1)  # documents drawn together
    documents_at_once: int = Field(8, ge=1)


def check(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """All parameters with their defaults; ValueError for what cannot run."""
    chosen = Parameters.read(parameters, "text_information")
    if not is_text(chosen.corpus):
        raise ValueError(f"corpus: a text is needed, {chosen.corpus!r} is a model")
    corpus = corpora.entry(chosen.corpus)
    if corpus.default is not None:
        raise ValueError(f"corpus: one whose parts are documents is needed, such as books, got {chosen.corpus!r}")
    unknown = sorted(set(chosen.leave_out) - set(corpus.splits))
    if unknown:
        raise ValueError(f"leave_out: parts of {chosen.corpus} are allowed, got {', '.join(unknown)}")
    documents = len(corpus.splits) if corpus.package is None else corpus.package.documents
    if (measured := -(-(documents - len(chosen.leave_out)) // chosen.every)) < 3 * chosen.block:
        raise ValueError(
            f"every: at least {3 * chosen.block} documents are needed for block {chosen.block}, got {measured}"
        )
    model = chosen.model
    if model.kind != "network" and (model.marker or model.merges):
        raise ValueError(f"model: marker and merges are of a network, got them for a {model.kind}")
    if model.kind == "character_lstm" and model.name not in character_lstm_names():
        raise ValueError(f"model.name: one of {', '.join(character_lstm_names())} is allowed, got {model.name!r}")
    if model.kind == "network":
        FitSettings(**model.fit)
        network = create(model.architecture, 2, model.width, model.depth, **model.options)
        if network.positions and model.row is not None:
            raise ValueError(
                f"model.row: a {model.architecture} has to be trained at every position of what it scores, so null is "
                f"allowed, got {model.row}"
            )
        if model.marker and model.start is not None:
            raise ValueError(f"model.start: nothing comes before a marker, so null is allowed, got {model.start!r}")
        if chosen.every < 2:
            raise ValueError(f"every: a network needs documents to be trained on, so at least 2, got {chosen.every}")
    return chosen.model_dump()


def data(parameters: Mapping[str, Any]) -> list[str]:
    """Checksums of the corpus and of the pretrained model."""
    model = {"character_lstm": "charrnn", "smollm2": "smollm2"}.get(parameters["model"]["kind"])
    return corpora.entry(parameters["corpus"]).checksums + (corpora.entry(model).checksums if model else [])


@matrix_products("float32")  # on a GPU too, where cuDNN rounds unless it is told not to
def run(
    parameters: Mapping[str, Any], seed: int, folder: Path, device: str = "cpu", progress: bool = False
) -> dict[str, Any]:
    """Score windows of all documents, and estimate information and exponents at every length and ratio.

    folder: for the training's checkpoint and the scores, from which a second call goes on. Returns numbers of windows
    and documents, loss by position, entropy of the opening, and for each ratio and estimator the lengths, means,
    standard errors, exponent with interval, and the means of groups of documents.
    """
    chosen = Parameters(**parameters)
    measured, others = _texts(chosen)
    reading = read(chosen.model, measured, others, chosen.longest, seed, folder, device, progress)
    windows = _windows(chosen, reading, seed)
    scores = score_blocks(
        reading.scorer,
        windows,
        splits_of(chosen.longest, min(chosen.ratios), chosen.opening),
        chosen.ratios,
        opening=chosen.opening,
        documents_at_once=chosen.documents_at_once,
        folder=folder / "scores",
        identity=chosen.model.model_dump_json(),
        progress=progress,
    )
    share = COUNTED // len(reading.documents)
    opening_entropy = ngram_entropy([document[:share] for document in reading.documents], chosen.opening)
    losses = -scores.tokens.mean(axis=0)
    places = np.unique(np.geomspace(1, chosen.longest, 25).astype(int)) - 1
    result: dict[str, Any] = {
        **reading.report,
        "windows": len(windows),
        "documents": int(np.unique(windows.documents).size),
        "opening_entropy": opening_entropy,
        "mean_loss": float(np.nanmean(losses)),
        "second_half_loss": float(losses[chosen.longest // 2 :].mean()),
        "positions": (places + 1).tolist(),
        "loss_by_position": [None if np.isnan(loss) else round(float(loss), 5) for loss in losses[places]],
        "estimates": [],
    }
    for name, values in estimates_of(scores, opening_entropy, chosen.model_weight).items():
        for index, ratio in enumerate(chosen.ratios):
            fits = ~np.isnan(values[0, :, index])
            summary = _summary(scores.lengths[fits, index], values[:, fits, index], windows, chosen, seed)
            result["estimates"].append({"estimator": name, "ratio": ratio, **summary})
    return result


def splits_of(longest: int, ratio: int, opening: int) -> NDArray[np.int64]:
    """l = 2, 4, 8, ... with ratio l <= longest, as in the paper, from the first that leaves room for the opening."""
    splits = 2 ** np.arange(1, int(np.log2(longest // ratio)) + 1, dtype=np.int64)
    return splits[(ratio - 1) * splits >= opening]


def estimates_of(scores: BlockScores, opening_entropy: float, weight: float) -> dict[str, NDArray[np.float64]]:
    """Values of every window whose means are the estimates; "uncorrected" only if q predicts first tokens."""
    known = not np.isnan(scores.opening).any()
    found = {"direct": scores.direct(opening_entropy, weight if known else 0.0), "vclub": scores.vclub()}
    return {**found, "uncorrected": scores.direct()} if known else found


def _texts(chosen: Parameters) -> tuple[list[str], list[str]]:
    corpus = corpora.load(chosen.corpus)
    names = corpora.entry(chosen.corpus).chosen(None) or tuple(map(str, range(len(corpus.documents))))
    kept = [text for name, text in zip(names, corpus.documents, strict=True) if name not in chosen.leave_out]
    measured = kept[:: chosen.every]
    return measured, [text for number, text in enumerate(kept) if number % chosen.every]


def _windows(chosen: Parameters, reading: Reading, seed: int) -> Windows:
    long_enough = sum(document.size >= chosen.longest for document in reading.documents)
    return document_windows(
        reading.documents,
        chosen.longest,
        per_document=-(-chosen.windows // max(1, long_enough)),
        allowed=reading.beginnings if chosen.starts == "sentence" else None,
        short="skip",
        vocabulary=reading.scorer.vocabulary,
        seed=np.random.default_rng([seed, 2]),
    )


def _summary(
    lengths: NDArray[np.int64], values: NDArray[np.float64], windows: Windows, chosen: Parameters, seed: int
) -> dict[str, Any]:
    groups = np.array_split(np.unique(windows.documents), min(GROUPS, np.unique(windows.documents).size))
    of_groups = [values[np.isin(windows.documents, group)].mean(axis=0) for group in groups]
    result = {
        "lengths": lengths.tolist(),
        "means": values.mean(axis=0).tolist(),
        "by_group": [[round(float(value), 4) for value in row] for row in of_groups],
    }
    if lengths.size >= 3 and np.all(values.mean(axis=0) > 0):
        found = scaling_exponent(
            lengths, values, windows.documents, replicates=chosen.replicates, block=chosen.block,
            seed=np.random.default_rng([seed, 3]),
        )  # fmt: skip
        finite = [end if np.isfinite(end) else None for end in found.interval]
        result |= {
            "standard_errors": found.standard_errors.tolist(),
            "exponent": found.exponent,
            "amplitude": found.amplitude,
            "interval": finite,
        }
    return result
