"""Records of networks that read pixels or characters as the sweeps write them, of trainings whose course is given."""

from __future__ import annotations

from typing import Any

from experiments.pixels_and_characters import characters, pixels

EPOCHS = 10
FLOORS = {"unigram": 4.2, "bigram": 3.5, "trigram": 2.8}


def image_record(architecture: str, last: float, seed: int = 0, *, top: float | None = None, **changes: Any) -> Any:
    """A record whose validation accuracy ends with `last`; top: of the attention after training, 0.2 before."""
    fit = {"optimizer": "adam", "learning_rate": 0.0003, "epochs": EPOCHS} | changes.pop("fit", {})
    chosen = pixels.Parameters(architecture=architecture, fit=fit, **{"order": "permuted"} | changes)
    accuracies = [last * (number + 1) / EPOCHS for number in range(fit["epochs"] - 1)] + [last]
    result: dict[str, Any] = {
        "accuracies": accuracies,
        "validation_losses": [1.0] * len(accuracies),
        "updates": 500 * len(accuracies),
        "test_accuracy": last,
        "largest_class": 0.1135,
        "steps": chosen.side**2 // chosen.together,
    }
    return _record(chosen, seed, result, top)


def text_record(architecture: str, bits: float, seed: int = 0, *, top: float | None = None, **changes: Any) -> Any:
    """A record whose network needs so many bits per character."""
    fit = {"learning_rate": 0.002, **changes.pop("fit", {})}
    chosen = characters.Parameters(architecture=architecture, fit=fit, **changes)
    result: dict[str, Any] = {"bits": bits, "floors": FLOORS, "updates": 4000, "vocabulary": 90}
    return _record(chosen, seed, result, top)


def spread(top: float) -> dict[str, Any]:
    """How attention is spread, as `attention.spread` has it."""
    shares = {"entropy": 3.0 - top, "uniform_entropy": 3.7, "top": top, "uniform_top": 0.2}
    return {"by_lag": [0.04] * 25, **shares}


def _record(chosen: Any, seed: int, result: dict[str, Any], top: float | None) -> dict[str, Any]:
    if top is not None:
        result |= {"before": spread(0.2), "after": spread(top)}
    return {"parameters": chosen.model_dump(), "seed": seed, "stale": False, "result": result}
