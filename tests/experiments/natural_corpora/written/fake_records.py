"""Records of networks whose curves are known, as a sweep would leave them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

LAGS = np.unique(np.geomspace(1, 1000, 36).round().astype(int))
READ = 0.5 * np.exp(-LAGS / 3) + 0.02 * LAGS**-0.4  # nats: words, then a power law
FLOOR, NOISE = 1e-3, 1e-5


def curve(values: np.ndarray, seed: int) -> dict[str, Any]:
    """What a run records of a curve without floor."""
    noise = NOISE * np.random.default_rng(seed).standard_normal((40, LAGS.size))
    floor = np.full(LAGS.size, FLOOR)
    return {
        "curve": (values + floor).tolist(),
        "floor": floor.tolist(),
        "replicates": (values + floor + noise).tolist(),
    }


def record(
    values: np.ndarray,
    architecture: str = "lstm",
    width: int = 32,
    *,
    seed: int = 0,
    level: str = "character",
    depth: int = 1,
    loss: float = 1.5,
    epochs: int = 10,
    rate: float = 0.004,
    quality: Mapping[str, float | None] = {},
    text: str = "wikitext2-held-out",
) -> dict[str, Any]:
    asked = {"level": level, "text": text, "architecture": architecture, "width": width, "depth": depth, "words": 4000}
    return {
        "parameters": {**asked, "fit": {"epochs": epochs, "learning_rate": rate}},
        "seed": seed,
        "version": 1,
        "result": {
            "validation_losses": [loss + 1, loss],
            "tokens_per_character": [1.0, 1.0, 1.0],
            "lags": LAGS.tolist(),
            "written": curve(values, seed),
            "read": curve(READ, seed + 100),
            "quality": {"spelling": 0.5, "brackets": None, "titles": None, **quality},
            "quality_of_test": dict.fromkeys(("spelling", "brackets", "quotes", "titles", "repeated", "read"), 0.25),
        },
    }


def trained(values: np.ndarray, *arguments: Any, loss: float = 1.5, **options: Any) -> Iterable[dict[str, Any]]:
    """Three seeds, one at twice the budget and two other rates: a network that passes the gate beside its kin."""
    for seed in range(3):
        yield record(values, *arguments, seed=seed, loss=loss + 1e-4 * seed, **options)
    yield record(values, *arguments, loss=loss, epochs=20, **options)
    for rate in (0.004 / 3, 0.012):
        yield record(values, *arguments, loss=loss + 0.01, rate=rate, **options)
