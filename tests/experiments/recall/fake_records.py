"""Records of copy and denoise as the sweeps write them, of trainings whose course is given."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from experiments.recall.run import Parameters
from experiments.recall.runs import MODRELU, RecallRun, recall_runs

EVERY = 250
RATES = {"orth_rnn": MODRELU, "exp_rnn": MODRELU}


def record(
    architecture: str,
    delay: int = 100,
    seed: int = 0,
    *,
    task: str = "copy",
    success: int | None = None,
    updates: int = 4500,
    accuracy: float = 0.125,
    falling: float = 0.0,
    rate: float | None = None,
    options: dict[str, Any] | None = None,
    labels: str = "true",
    inside: dict[str, Any] | None = None,
    trained_on: bool = False,
) -> dict[str, Any]:
    """One record. success: updates until then, else it has all `updates` and ends with `accuracy`.

    falling: the share by which the loss falls in the last half. trained_on: success would not have ended it.
    """
    recipe = RATES.get(architecture)
    fit: dict[str, Any] = {"optimizer": "adam", "learning_rate": 0.001, "batch": 10}
    fit |= {} if trained_on else {"success": 0.99}
    if recipe:
        fit |= {"optimizer": recipe.optimizer, "alpha": 0.99}
        options = {"activation": recipe.activation} | (options or {})
    fit["learning_rate"] = rate if rate is not None else recipe.rate if recipe else 0.001
    chosen = Parameters(
        architecture=architecture, task=task, delay=delay, options=options or {}, fit=fit, labels=labels
    )
    made = success or updates
    evaluations = made // EVERY
    losses = np.linspace(0.2, 0.18, evaluations)
    losses[evaluations // 2 :] = losses[: evaluations // 2].min(initial=1.0) * (1 - falling)
    accuracies = np.full(evaluations, 0.2 if success else accuracy)
    accuracies[-2:] = 0.995 if success else accuracy
    return {
        "parameters": chosen.model_dump(),
        "seed": seed,
        "stale": False,
        "result": {
            "validation_losses": losses.tolist(),
            "accuracies": accuracies.tolist(),
            "updates": made,
            "updates_to_success": success,
            "reason": "accuracy reached" if success else "all epochs done",
            "baseline_loss": 10 * np.log(8) / (delay + 20),
            **(inside or {}),
        },
    }


def cell(architecture: str, delay: int = 100, *, seeds: int = 3, **said: Any) -> list[dict[str, Any]]:
    """Seeds of one training; a list is one value for each seed."""

    def of(seed: int) -> dict[str, Any]:
        return {name: value[seed] if isinstance(value, list) else value for name, value in said.items()}

    return [record(architecture, delay, seed, **of(seed)) for seed in range(seeds)]


def runs(*records: Iterable[dict[str, Any]]) -> list[RecallRun]:
    return recall_runs(one for some in records for one in some)


def attention(before: float, after: float, held: float | None = 0.5, held_before: float | None = 0.1) -> dict[str, Any]:
    """Shares of attention as a record has them."""

    def shares(value: float, inside: float | None) -> dict[str, Any]:
        return {"attention": {"on_symbols": value, "on_other_times": before, "set_at_cue": inside}}

    return {"before": shares(before, held_before), "after": shares(after, held)}


def gradients(law: Callable[[np.ndarray], np.ndarray], length: int) -> dict[str, Any]:
    """ln of norms by distance after training, and none that change before it."""
    distance = np.arange(length)
    flat: Sequence[float] = np.zeros(length).tolist()
    return {"before": {"gradient_norms": flat}, "after": {"gradient_norms": law(distance).tolist()}}
