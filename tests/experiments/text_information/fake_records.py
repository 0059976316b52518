"""Records of text as the sweep writes them, with estimates of known laws."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from experiments.text_information.models import Model
from experiments.text_information.run import splits_of
from lib.runs.definition import Experiment

Law = Callable[[np.ndarray], Any]  # L in tokens -> nats
CHARACTERS = 2.8  # a token of byte pairs


def grid(profile: str = "laptop") -> list[dict[str, Any]]:
    """Parameters of every run of a profile."""
    return [dict(run.parameters) for run in Experiment("text-information").runs(profile)]


def power(amplitude: float, exponent: float) -> Law:
    return lambda lengths: amplitude * lengths**exponent


def record(
    parameters: Mapping[str, Any],
    laws: Mapping[str, Law],
    loss: float = 1.5,
    noise: float = 0.02,
    documents: int | None = None,
    seed: int = 0,
    stream: int = 0,
) -> dict[str, Any]:
    """One record: `laws` by estimator, `loss` in nats per character, `noise` of a document relative to its estimate.

    A document is as rich or poor for all records of a seed; what it adds at each length is drawn from `stream`.
    """
    model = Model(**parameters["model"])
    longest, count = parameters["longest"], documents or (34 if parameters["every"] == 1 else 17)
    length = CHARACTERS if model.merges or model.kind == "smollm2" else 1.0
    scatter = np.random.default_rng([seed, 7]).standard_normal((count, 1)) * noise
    random = np.random.default_rng([seed, 8, stream])
    places = np.unique(np.geomspace(1, longest, 25).astype(int))
    estimates = []
    for estimator, law in laws.items():
        for ratio in parameters["ratios"]:
            lengths = ratio * splits_of(longest, 2, parameters["opening"])
            lengths = lengths[lengths <= longest].astype(float)
            own = random.standard_normal((count, lengths.size)) * noise
            groups = np.asarray(law(lengths), dtype=float) * (1 + scatter + own)
            estimates.append(
                {"estimator": estimator, "ratio": ratio, "lengths": lengths.tolist(),
                 "means": groups.mean(axis=0).tolist(), "by_group": groups.tolist()}
            )  # fmt: skip
    result: dict[str, Any] = {
        "windows": 6 * count,
        "documents": count,
        "opening_entropy": 5.0,
        "mean_loss": length * loss * 1.05,
        "second_half_loss": length * loss,
        "positions": places.tolist(),
        "loss_by_position": [None if model.start is None and not model.marker and place == 1
                             else length * loss * (1 + 1 / place) for place in places.tolist()],
        "characters_per_token": length,
        "vocabulary": 100,
        "state_size": 256,
        "estimates": estimates,
    }  # fmt: skip
    if model.kind == "network":
        result |= {"parameter_count": 1000 * model.width, "training_tokens": 2 * model.training_tokens}
    origin = {"seconds": 60.0, "date": "2026-01-01T00:00:00", "device": "cpu", "python": "3.11", "torch": "2",
              "numpy": "2", "commit": "abc", "peak_memory_MB": 900.0}  # fmt: skip
    return {"parameters": dict(parameters), "seed": seed, "result": result, "provenance": origin}


def quality(parameters: Mapping[str, Any]) -> float:
    """A loss per character that falls with the width of a network, another one for every family and for byte pairs."""
    model = Model(**parameters["model"])
    if model.kind != "network":
        return {"charlotte_bronte": 1.5, "darwin": 2.0}.get(model.name, 2.2)
    shift = {"lstm": 0.0, "transformer": 0.35, "mamba": -0.11}[model.architecture] + (0.07 if model.merges else 0.0)
    return 2.6 - 0.15 * float(np.log2(model.width)) + shift


def world(
    exponent: Callable[[float], float] = lambda loss: 0.95 - 0.3 * loss,
    amplitude: float = 2.0,
    shift: float = 0.3,
    noise: float = 0.02,
    profile: str = "laptop",
) -> list[dict[str, Any]]:
    """Records of all runs of a profile: beta as a function of the loss, and a correction of `shift` nats."""
    found = []
    for stream, run in enumerate(Experiment("text-information").runs(profile)):
        parameters = dict(run.parameters)
        loss = quality(parameters)
        law = power(amplitude, exponent(loss))
        laws = {
            "direct": law,
            "vclub": lambda lengths, law=law: 1.5 * law(lengths),
            "uncorrected": lambda lengths, law=law: law(lengths) + shift,
        }
        found.append(
            {**record(parameters, laws, loss, noise, stream=stream), "seed": run.seed}
        )  # the texts are the same
    return found
