"""One network that predicts the characters of a text, its state carried from window to window (Kerg 2020, Fig. 7)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field

from experiments.pixels_and_characters.attention import WATCHED_AT_A_TIME, spread
from experiments.pixels_and_characters.networks import read_on, reader
from experiments.pixels_and_characters.tasks import WindowReading, turned
from experiments.pixels_and_characters.texts import floors, refuse_unfit, texts
from lib.processes.corpora.catalogue import entry
from lib.runs.training import RunParameters, trained
from lib.training import CarriedText, FitSettings, text_loss
from lib.training.settings import matrix_products


class Parameters(RunParameters):
    """What a run needs to know besides its seed; `fit` and `options` hold what FitSettings and the network accept.

    An epoch of `fit` is `updates` updates, each on one window of every stream.
    """

    architecture: str
    corpus: str = "books"
    width: int = Field(128, ge=1)
    embedding: int = Field(64, ge=1)
    options: dict[str, Any] = Field(default_factory=dict)
    fit: dict[str, Any] = Field(default_factory=dict)
    window: int = Field(100, ge=1)  # characters that gradients go back through
    memory: Literal["windows", "steps"] = "windows"  # emptied at each; at steps the state is, too
    updates: int = Field(500, ge=1)  # between two evaluations
    characters: int | None = Field(None, ge=2)  # of the training text, the first ones; all if null
    validated: int = Field(200_000, ge=2)  # characters
    tested: int = Field(400_000, ge=3)
    watched: int = Field(16, ge=1)  # windows of the test text whose attention is recorded


def check(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """All parameters with their defaults; ValueError for what cannot run. No text is read.

    The network is built once, and dropped.
    """
    chosen = Parameters.read(parameters, "characters")
    refuse_unfit(chosen.corpus)
    least = min(chosen.validated, chosen.tested, chosen.characters or chosen.validated) // _batch(chosen)
    if chosen.window >= least:
        raise ValueError(
            f"window: below {least} characters are allowed, which is what each of {_batch(chosen)} streams of the "
            f"shortest text has; got {chosen.window}"
        )
    _network(chosen, 2, 0)
    return chosen.model_dump()


def data(parameters: Mapping[str, Any]) -> list[str]:
    """Checksums of the corpus."""
    return entry(parameters["corpus"]).checksums


@matrix_products("float32")  # on a GPU too, where cuDNN rounds unless it is told not to
def run(
    parameters: Mapping[str, Any], seed: int, folder: Path, device: str = "cpu", progress: bool = False
) -> dict[str, Any]:
    """Train one network on a text, with the weights of its best evaluation at the end, and test it.

    folder: for the checkpoint, from which a second call goes on, and the weights. Returns the course of the training in
    nats, bits per character of the test text and what counts of characters have there, and of networks that attend how
    attention is spread before and after. Raises CorpusUnavailable where the text is neither here nor to be had.
    """
    chosen = Parameters(**parameters)
    given = texts(chosen.corpus, chosen.characters, chosen.validated, chosen.tested)
    batch = _batch(chosen)
    reading = WindowReading(chosen.memory)
    task = CarriedText(
        turned(given.training, seed),
        given.validation,
        window=chosen.window,
        updates=chosen.updates,
        vocabulary=given.vocabulary,
        seed=seed,
        reading=reading,
    )
    model = _network(chosen, given.vocabulary, np.random.default_rng([seed, 0])).to(device)
    seen = _stretches(given.test, chosen.watched, 2 * chosen.window)
    before = watched(model, seen, device)
    course, result = trained(
        model,
        task,
        chosen.fit,
        folder,
        described={"parameters": chosen.model_dump(), "seed": seed},
        label=f"{chosen.architecture} {chosen.corpus} seed {seed}",
        progress=progress,
    )
    result |= {
        "updates": len(course.training_losses) * chosen.updates,
        "vocabulary": given.vocabulary,
        "characters": [int(one.size) for one in (given.training, given.validation, given.test)],
        "floors": floors(given.training, given.test, given.vocabulary),
    }
    if before:
        result["before"] = before
    if not course.best_epoch:
        return result
    loss = text_loss(model, given.test, rows=batch, window=chosen.window, device=device, reading=reading)
    result |= {"test_loss": loss, "bits": loss / math.log(2)}
    after = watched(model, seen, device, keep_map=seed == 0)
    return result | ({"after": after} if after else {})


def watched(model: Any, tokens: NDArray[Any], device: str, keep_map: bool = False) -> dict[str, Any]:
    """How attention is spread in the second half of windows (n, two windows), after the first half was read.

    {} of a network without attention. The map is kept where all states are attended to.
    """
    if not hasattr(model, "attended"):
        return {}
    half = tokens.shape[1] // 2

    def groups() -> Iterator[tuple[NDArray[np.int64], NDArray[np.float64]]]:
        for start in range(0, len(tokens), WATCHED_AT_A_TIME):
            rows = torch.from_numpy(tokens[start : start + WATCHED_AT_A_TIME]).to(device).long()
            with torch.no_grad():
                found = read_on(model, rows[:, half:], read_on(model, rows[:, :half]).carried, trace=True)
            assert found.times is not None and found.weights is not None
            yield found.times.cpu().numpy(), found.weights.double().cpu().numpy()

    return spread(groups(), keep_map and model.layers[0].rule.buffer is None)


def _stretches(text: NDArray[Any], count: int, length: int) -> NDArray[Any]:
    """`count` stretches of a text, evenly spread, (count, length)."""
    if text.size < count * length:
        raise ValueError(f"watched: at most {text.size // length} windows of this text can be, got {count}")
    return np.stack([text[start : start + length] for start in np.arange(count) * (text.size // count)])


def _batch(chosen: Parameters) -> int:
    return FitSettings(**chosen.fit).batch


def _network(chosen: Parameters, vocabulary: int, seed: int | np.random.Generator) -> Any:
    return reader(chosen.architecture, vocabulary, chosen.width, chosen.embedding, seed, **chosen.options)
