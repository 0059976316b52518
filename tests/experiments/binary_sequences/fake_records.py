"""Records of runs on binary sequences as the sweep writes them, with curves of a known kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from experiments.binary_sequences.run import group_lags
from lib.runs.definition import Experiment

Curve = Callable[[np.ndarray], np.ndarray]
LENGTH = 512


def exponential(xi: float, amplitude: float = 0.1) -> Curve:
    return lambda lags: amplitude * np.exp(-lags / xi)


def power_law(exponent: float = 0.4, amplitude: float = 0.1) -> Curve:
    return lambda lags: amplitude * lags**-exponent


def record(
    curve: Curve,
    architecture: str = "rnn",
    width: int = 8,
    depth: int = 1,
    seed: int = 0,
    loss: float = 0.5,
    noise: float = 0.01,
    options: dict[str, Any] | None = None,
    fit: dict[str, Any] | None = None,
    reason: str = "no better validation loss",
) -> dict[str, Any]:
    """One record; the ten groups scatter about the curve by a common factor and by a tilt in ln I."""
    lags, thinned = np.arange(1, LENGTH), group_lags(LENGTH)
    rng = np.random.default_rng([seed, width, depth])
    factor, tilt = noise * rng.standard_normal((2, 10, 1))
    groups = curve(thinned) * np.exp(factor + tilt * (thinned / LENGTH - 0.5))
    information = curve(lags) * np.exp(factor.mean() + tilt.mean() * (lags / LENGTH - 0.5))
    family = Experiment("binary_sequences").families[architecture]
    return {
        "parameters": {
            "architecture": architecture,
            "width": width,
            "depth": depth,
            "length": LENGTH,
            "generated": 2000,
            "options": options or {},
            "fit": {**family["fit"], "epochs": 25, **(fit or {})},
        },
        "seed": seed,
        "stale": False,
        "provenance": {"seconds": 1.0, "date": "2026-01-01", "peak_memory_MB": 1.0},
        "result": {
            "parameter_count": 4 * width,
            "reason": reason,
            "best_epoch": 3,
            "training_losses": [loss + 0.2, loss + 0.1, loss],
            "validation_losses": [loss + 0.2, loss + 0.1, loss],
            "information": information.tolist(),
            "group_lags": thinned.tolist(),
            "information_by_group": groups.tolist(),
            "exact_losses": [0.57, 0.55],
            "true_conditional_entropies": [0.56, 0.54],
            "enumerated_information": curve(np.arange(1, 12)).tolist(),
            "same_estimated": curve(np.arange(1, 12)).tolist(),
            "mean_symbol": 0.5,
        },
    }


def diverged(**choices: Any) -> dict[str, Any]:
    """A record of a training that left no network."""
    whole = record(exponential(10), **choices)
    whole["result"] = {"parameter_count": 1, "reason": "diverged: losses nan and nan in epoch 1", "best_epoch": 0,
                       "training_losses": [], "validation_losses": []}  # fmt: skip
    return whole
