"""One language model of real text: train it, let it write, and measure what it wrote (Shen 2019, Fig. 2, 3, 8, 10)."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field

from experiments.natural_corpora.resampling import proportional_floor, resampled_curve
from experiments.natural_corpora.written.quality import quality, vocabulary_of, word_runs
from experiments.natural_corpora.written.texts import CORPORA, Level, Material, Name, Pieces, codes, material, rows_of
from lib.models import create
from lib.processes import corpora
from lib.runs.training import RunParameters, trained
from lib.training import CarriedText, NextToken, generate, position_losses
from lib.training.settings import matrix_products
from lib.training.tasks import Task

SAMPLE = 400  # characters that are shown: the first of the first row
DIGITS = 5  # of recorded curves


class Parameters(RunParameters):
    """What a run needs to know besides its seed; `fit` and `options` may hold what FitSettings and the model accept."""

    architecture: str
    width: int = Field(ge=1)
    depth: int = Field(1, ge=1)
    options: dict[str, Any] = Field(default_factory=dict)
    fit: dict[str, Any] = Field(default_factory=dict)
    text: Name = "wikitext2-held-out"
    level: Level = "character"
    words: int = Field(8000, ge=0)  # in the vocabulary at most, at level "word"
    fewest: int = Field(3, ge=1)  # times that such a word occurs in the training text
    training: int = Field(100_000_000, ge=100)  # characters of the training text, from its beginning, at most
    validation: int = Field(250_000, ge=100)  # characters that decide which epoch counts
    tested: int = Field(250_000, ge=100)  # characters of the test
    window: int = Field(100, ge=1)  # tokens through which gradients go back
    reset: float = Field(0.01, ge=0, le=1)  # probability that a window begins without a state
    context: int | None = Field(None, ge=2)  # tokens of windows that are trained on by themselves; None: carried text
    written: int = Field(2_000_000, ge=1000)  # characters
    row: int = Field(32_768, ge=16)  # characters of a row that is written from nothing, about
    largest_lag: int = Field(1000, ge=20)
    lag_count: int = Field(36, ge=5)  # at most, evenly spaced in the logarithm
    blocks: int = Field(32, ge=2)
    replicates: int = Field(40, ge=2)


class Windows(NextToken):
    """Windows of a text, each by itself; fewer at once where they are scored, since a word has many logits."""

    def validation_loss(self, model: Any, device: torch.device) -> float:
        return float(position_losses(model, self.validation, batch=32, device=device).mean())


def check(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """All parameters with their defaults; ValueError for what cannot run. The network is built without its numbers."""
    chosen = Parameters.read(parameters, "written_text")
    with torch.device("meta"):
        model = create(chosen.architecture, 2, chosen.width, chosen.depth, **chosen.options)
    if chosen.context is None and model.state_size(10**6) != model.state_size(2 * 10**6):
        raise ValueError(f"context: a {chosen.architecture} is trained on windows, so a number of tokens is allowed")
    if chosen.row <= chosen.largest_lag:
        raise ValueError(f"row: more than largest_lag = {chosen.largest_lag} is allowed, got {chosen.row}")
    most = min(chosen.written, chosen.training) // chosen.largest_lag
    if chosen.blocks % 2 or chosen.blocks > most:
        raise ValueError(f"blocks: an even number from 2 to {most} is allowed, got {chosen.blocks}")
    return chosen.model_dump()


def data(parameters: Mapping[str, Any]) -> list[str]:
    """Checksums of the corpora that are read."""
    return [checksum for name in CORPORA[parameters["text"]] for checksum in corpora.entry(name).checksums]


@matrix_products("float32")  # on a GPU too, where cuDNN rounds unless it is told not to
def run(
    parameters: Mapping[str, Any], seed: int, folder: Path, device: str = "cpu", progress: bool = False
) -> dict[str, Any]:
    """Train one network, write with the weights of its best epoch, and measure what was written and what was read.

    folder: for the checkpoint, from which a second call goes on, and the weights. Returns losses by epoch, those of
    validation and test in nats per character, information at a distance of the written text and of as much training
    text, measures of quality of both and of the test, the beginning of what was written, and characters per second.
    """
    chosen = Parameters(**parameters)
    texts = cut(material(chosen.text), chosen)
    pieces = Pieces(texts.training, chosen.level, chosen.fewest, chosen.words)
    tokens = [pieces.encode(text) for text in texts]
    vocabulary = len(pieces.symbols)
    options = {"seed": np.random.default_rng([seed, 0]), **chosen.options}
    model = create(chosen.architecture, vocabulary, chosen.width, chosen.depth, **options).to(device)
    course, result = trained(
        model,
        task_of(chosen, tokens[0], tokens[1], seed, vocabulary),
        chosen.fit,
        folder,
        described={"parameters": chosen.model_dump(), "seed": seed},
        label=f"{chosen.level} {chosen.architecture} {chosen.width}x{chosen.depth} seed {seed}",
        progress=progress,
    )
    result |= {
        "vocabulary": vocabulary,
        "spelled": pieces.spelled(tokens[0]),
        "unknown": [float((part == len(pieces.letters) - 1).mean()) for part in tokens],
        "unigram_loss": unigram_loss(tokens[0], tokens[1], vocabulary),
        "tokens_per_character": [len(part) / len(text) for part, text in zip(tokens, texts, strict=True)],
    }
    if not course.best_epoch:
        return result
    tested = task_of(chosen, tokens[0], tokens[2], seed, vocabulary)
    tested.steps(chosen.fit.get("batch", 50))
    result["test_loss"] = float(tested.validation_loss(model, torch.device(device)))
    started = time.perf_counter()
    rows = write(model, chosen, pieces, tokens[0], seed, device, progress)
    seconds = time.perf_counter() - started
    return {**result, **measured(rows, texts, pieces, chosen), "writing_seconds": seconds}


def cut(texts: Material, chosen: Parameters) -> Material:
    """The parts as long as a run wants them. Raises ValueError if one of them is shorter than what it is needed for."""
    lengths = {"training": chosen.training, "validation": chosen.validation, "test": chosen.tested}
    parts = Material(*(text[:length] for text, length in zip(texts, lengths.values(), strict=True)))
    needed = max(2 * chosen.largest_lag, 2 * (chosen.context or chosen.window))
    for name, part in zip(lengths, parts, strict=True):
        if len(part) < needed:
            raise ValueError(f"{name}: {needed} characters of {chosen.text} are needed, there are {len(part)}")
    return parts


def task_of(chosen: Parameters, training: NDArray[Any], held_out: NDArray[Any], seed: int, vocabulary: int) -> Task:
    """A text that is carried through, or its windows in random order."""
    if chosen.context is None:
        given: Any = {"window": chosen.window, "reset": chosen.reset, "seed": seed, "vocabulary": vocabulary}
        return CarriedText(training, held_out, **given)
    return Windows(
        windows(training, chosen.context), windows(held_out, chosen.context), seed=seed, vocabulary=vocabulary
    )


def windows(tokens: NDArray[Any], context: int) -> NDArray[Any]:
    """Rows of `context` tokens and the one after them, side by side, so that every token but the first is predicted."""
    number = (len(tokens) - 1) // context
    if not number:
        raise ValueError(
            f"context: at most {len(tokens) - 1}, the tokens of the text but one, is allowed, got {context}"
        )
    return np.asarray(tokens[np.arange(number)[:, None] * context + np.arange(context + 1)])


def unigram_loss(training: NDArray[Any], held_out: NDArray[Any], vocabulary: int) -> float:
    """Nats per token of the frequencies of the training text, one added to each count."""
    counts = np.bincount(training, minlength=vocabulary) + 1.0
    return -float(np.log(counts / counts.sum())[held_out].mean())


def write(
    model: Any,
    chosen: Parameters,
    pieces: Pieces,
    training: NDArray[Any],
    seed: int,
    device: str = "cpu",
    progress: bool = False,
) -> list[str]:
    """Rows without a prompt, whose first tokens have the frequencies of the training text.

    Models with marked positions write within their context, of which the latest half is read anew when it is full.
    """
    counts = np.bincount(training, minlength=len(pieces.symbols)).astype(np.float64)
    characters = float((counts * [len(symbol) for symbol in pieces.symbols]).sum() / counts.sum())  # of a token
    rows, length = -(-chosen.written // chosen.row), max(2, round(chosen.row / characters))
    written = generate(
        model,
        rows,
        length,
        np.random.default_rng([seed, 1]),
        first=counts / counts.sum(),
        context=chosen.context if model.positions else None,
        device=device,
        progress=progress,
    )
    return [pieces.decode(row) for row in written]


def measured(rows: Sequence[str], texts: Material, pieces: Pieces, chosen: Parameters) -> dict[str, Any]:
    """Information at a distance and quality of what was written, beside those of as much training text."""
    length = min(sum(map(len, rows)), len(texts.training))
    read = rows_of(texts.training, chosen.row, length)
    lags = np.unique(np.geomspace(1, chosen.largest_lag, chosen.lag_count).round().astype(np.int64))
    vocabulary, runs = vocabulary_of(texts.training), frozenset(word_runs(texts.training))
    return {
        "lags": lags.tolist(),
        "written": curve(first(rows, length), pieces, lags, chosen),
        "read": curve(read, pieces, lags, chosen),
        "compared_characters": length,
        "quality": quality(rows, vocabulary, runs),
        "quality_of_test": quality([texts.test], vocabulary, runs),
        "sample": "".join(rows)[:SAMPLE],
        "written_characters": sum(map(len, rows)),
    }


def first(rows: Sequence[str], length: int) -> list[str]:
    """Rows up to `length` characters in all."""
    kept: list[str] = []
    for row in rows:
        if length <= 0:
            break
        kept.append(row[:length])
        length -= len(row)
    return kept


def curve(rows: Sequence[str], pieces: Pieces, lags: NDArray[np.int64], chosen: Parameters) -> dict[str, Any]:
    """Information of characters in the same row, its sampling floor and its bootstrap replicates, rounded, in nats."""
    symbols, borders = codes(rows, pieces.letters)
    found = resampled_curve(
        symbols, lags, borders, blocks=chosen.blocks, replicates=chosen.replicates, floor=proportional_floor
    )  # rows keep 97 % of their pairs at the largest lag
    return {name: rounded(values) for name, values in found._asdict().items() if name != "lags"}


def rounded(values: NDArray[np.float64]) -> Any:
    """Numbers with five digits, nested as the array is."""
    if values.ndim > 1:
        return [rounded(part) for part in values]
    return [float(f"{value:.{DIGITS}g}") for value in values]
