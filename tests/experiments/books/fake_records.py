"""Records of networks on long documents as the sweep writes them, with losses of a known law."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch

from experiments.books.run import Parameters as BookParameters
from experiments.books.run import _network, _sizes, by_position, check
from experiments.books.runs import EXPERIMENT, BookRun, trained_runs
from lib.runs.definition import Experiment

Law = Callable[[np.ndarray], Any]  # tokens seen -> NLL in nats per token
BOOKS, WINDOWS = 10, 2


@cache
def sizes(architecture: str, depth: int, width: int, positions: str | None, context: int) -> dict[str, int]:
    """Parameters and states of the real network; no weights are made."""
    options = {"lstm": {"embedding": 64}, "mamba2": {"size": 16, "head_width": 32}}.get(architecture, {})
    chosen = BookParameters(
        architecture=architecture,
        depth=depth,
        width=width,
        positions=positions,
        context=context,
        options=options,
        epoch_steps=1,
    )
    with torch.device("meta"):
        return _sizes(_network(chosen, 1024, 0), context)


def record(parameters: dict[str, Any], law: Law, seed: int, noise: float = 0.002) -> dict[str, Any]:
    """One record. All networks have the same books and teeth; noise: of a seed's level, and by book of its own."""
    context = parameters["context"]
    seen = np.arange(1, context + 1)
    shared = np.random.default_rng(7)
    books = 0.15 * shared.standard_normal(BOOKS)
    teeth = 0.2 * shared.standard_normal(context) * np.exp(-seen / 10)
    kind = [parameters[key] for key in ("depth", "width")]
    own = np.random.default_rng([seed, *kind, len(parameters["architecture"])])
    level = noise * own.standard_normal()
    scatter = noise * own.standard_normal((BOOKS, 1))
    table = np.asarray(law(seen), dtype=np.float64) + books[:, None] + teeth + level + scatter
    losses, numbers = np.repeat(table, WINDOWS, axis=0), np.repeat(np.arange(BOOKS), WINDOWS)
    found = by_position(losses, numbers)
    epochs = parameters["fit"].get("epochs", 12)
    course = found["mean_nll"] + 2.0 * np.exp(-np.arange(1, epochs + 1) / 3.0)
    return {
        "parameters": parameters,
        "seed": seed,
        "stale": False,
        "provenance": {"seconds": 100.0, "date": "2026-01-01", "peak_memory_MB": 500.0},
        "result": {
            **sizes(*(parameters[key] for key in ("architecture", "depth", "width", "positions", "context"))),
            **found,
            "vocabulary": 1024,
            "tokens_for_training": 8_000_000,
            "documents": [20, 5, 10],
            "test_documents": [f"book {number}" for number in range(BOOKS)],
            "test_windows": BOOKS * WINDOWS,
            "characters_per_token": 2.7,
            "unigram_nll": 6.0,
            "training_losses": course.tolist(),
            "validation_losses": course.tolist(),
            "best_epoch": epochs,
            "reason": "all epochs done",
            "training_seconds": 90.0,
            "training_tokens": epochs * 200 * 2 * context,
            "tokens_per_second": 20000.0,
        },
    }


def laptop(law: Callable[[dict[str, Any]], Law], noise: float = 0.002) -> list[dict[str, Any]]:
    """Records of the whole grid of profile laptop; law(parameters) gives the loss of a network."""
    runs = Experiment(EXPERIMENT).runs("laptop")
    return [record(dict(run.parameters), law(dict(run.parameters)), run.seed, noise) for run in runs]


def runs_of(
    law: Law, architecture: str = "transformer", depth: int = 2, width: int = 64, seeds: int = 3, **changes: Any
) -> list[BookRun]:
    """Runs of one network, with a noise of the seed unless it is switched off."""
    noise = changes.pop("noise", 0.002)
    given = {"architecture": architecture, "depth": depth, "width": width, "epoch_steps": 200, "fit": {"batch": 2}}
    if architecture == "transformer":
        given["positions"] = "sinusoidal"
    parameters = check({**given, **changes})
    return trained_runs(record(parameters, law, seed, noise) for seed in range(seeds))


def diverged() -> dict[str, Any]:
    """A record of a training that left no network."""
    whole = record(dict(Experiment(EXPERIMENT).runs("laptop")[0].parameters), lambda seen: 4.0 + 0 * seen, 0)
    for name in ("first_seen", "last_seen", "nll", "nll_error", "by_document", "mean_nll", "document_means"):
        del whole["result"][name]
    whole["result"] |= {"training_losses": [], "validation_losses": [], "best_epoch": 0, "reason": "diverged"}
    return whole


def falling(level: float, slope: float) -> Law:
    """level at one token seen, and slope for every factor e."""
    return lambda seen: level + slope * np.log(seen)


def as_in_the_paper(parameters: dict[str, Any]) -> Law:
    """Larger networks better, Mamba ahead early, the Transformer ahead late, as the claim has it."""
    size = 0.05 * np.log2(parameters["width"] * parameters["depth"])
    if parameters["architecture"] == "transformer":
        return falling(4.72 - size, -0.06)
    if parameters["architecture"] == "mamba":
        return falling(4.72 - size - 0.05, -0.035)  # twice the depth: 0.05 more, both cancel in its level
    return falling(4.9 - size, -0.02)
