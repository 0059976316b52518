"""Records of Gaussian language models as the sweep writes them, with a KL of a known law."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch

from experiments.gaussians.baselines import baselines
from experiments.gaussians.information import restart_error
from experiments.gaussians.run import position_bins
from experiments.gaussians.runs import GaussianRun, trained_runs
from experiments.gaussians.sizes import gaussian_language_model
from lib.processes import HierarchicalGaussian
from lib.runs.definition import Experiment

Law = Callable[[np.ndarray], Any]  # positions from 1 -> KL in nats per number
COPIES, LAYERS = 8, (3, 4, 5)
SIZES = ("gpt2-2x32", "gpt2-2x64", "mamba-2x32", "mamba-2x64", "mamba-4x64", "mamba2-2x32", "mamba2-2x64")


@cache
def numbers(size: str, layers: int, copies: int = COPIES, changes: tuple[Any, ...] = ()) -> dict[str, int]:
    """Parameters and states of the real model; no weights are made."""
    length = 4**layers
    with torch.device("meta"):
        model = gaussian_language_model(size, copies=copies, longest=length, **dict(changes))
    return {
        "parameter_count": sum(parameter.numel() for parameter in model.parameters()),
        "state_size": model.state_size(length // 2),
        "scanned_state_size": model.scanned_state_size(length // 2),
    }


@cache
def entropies(layers: int) -> np.ndarray:
    return 0.5 * np.log(2 * np.pi * np.e * HierarchicalGaussian(layers).conditional_variances())


@cache
def restarted(layers: int) -> float:
    return restart_error(HierarchicalGaussian(layers), 1)


def parameters(size: str, layers: int, **changes: Any) -> dict[str, Any]:
    chosen = {"size": size, "layers": layers, "family": "subvolume", "coupling": "symmetric", "copies": COPIES}
    fit = {"batch": 2048 // 4**layers, "epochs": 30, "learning_rate": 0.003}
    return chosen | {"model": {}, "precision": "float32", "epoch_steps": 150, "fit": fit, **changes}


def record(
    size: str, layers: int, law: Law, seed: int = 0, chosen: dict[str, Any] | None = None, **changes: Any
) -> dict[str, Any]:
    """One record of a model whose KL follows `law`; chosen: all parameters, else changes of the usual ones."""
    chosen = chosen or parameters(size, layers, **changes)
    copies, length = chosen["copies"], 4**layers
    half, bins = length // 2, position_bins(4**layers)
    kl = np.broadcast_to(np.asarray(law(np.arange(1, length + 1)), dtype=np.float64), (length,))
    gains, entropy = baselines(layers, windows=()).halves[half:], entropies(layers)
    kept = gains - kl[half:]

    def binned(values: np.ndarray) -> list[float]:
        return [float(values[start:stop].mean()) for start, stop in itertools.pairwise(bins)]

    def estimate(value: float) -> dict[str, float]:
        return {"value": copies * value, "standard_error": 0.4}

    captured = float(np.maximum(kept, 0).sum())
    own, error = max(captured, 0.3), copies * restarted(layers)
    start = baselines(layers, windows=()).independent.mean()
    course = kl.mean() + (start - kl.mean()) * np.exp(-np.arange(1, 31) / 5.0)
    return {
        "parameters": chosen,
        "seed": seed,
        "stale": False,
        "provenance": {"seconds": 100.0, "date": "2026-01-01", "peak_memory_MB": 500.0},
        "result": {
            **numbers(size, layers, copies, tuple(chosen["model"].items())),
            "length": length,
            "training_losses": course.tolist(),
            "validation_losses": course.tolist(),
            "best_epoch": 30,
            "reason": "all epochs done",
            "training_seconds": 90.0,
            "data_share": 0.1,
            "tokens_per_second": 20000.0,
            "average_divergence": float(kl.mean()),
            "average_divergence_error": 0.01 * float(kl.mean()),
            "average_cross_entropy": float(kl.mean() + entropy.mean()),
            "average_loss": float(kl.mean() + entropy.mean() + 0.001),
            "average_entropy": float(entropy.mean()),
            "untrained_divergence": float(start),
            "first_positions": [int(place) + 1 for place in bins[:-1]],
            "last_positions": [int(place) for place in bins[1:]],
            "divergence": binned(kl),
            "divergence_error": binned(0.01 * kl),
            "cross_entropy": binned(kl + entropy),
            "loss": binned(kl + entropy + 0.001),
            "entropy": binned(entropy),
            "true_information": copies * float(gains.sum()),
            "net_information": estimate(float(kept.sum())),
            "captured_information": estimate(captured),
            "restarted_direct": estimate(float(kept.sum()) + 1.2 * error / copies),
            "restart_error": error,
            "own_information_lower": estimate(own - 0.3),
            "own_information_upper": estimate(own + 0.3),
        },
    }


def runs_at(size: str, law: Callable[[int], Law], seeds: int = 3, layers: int = 3, **changes: Any) -> list[GaussianRun]:
    """Runs of one model at one length; law(seed) gives the KL."""
    return trained_runs(record(size, layers, law(seed), seed, **changes) for seed in range(seeds))


def grid(
    law: Callable[[str, int], Law],
    sizes: tuple[str, ...] = SIZES,
    layers: tuple[int, ...] = LAYERS,
    seeds: int = 3,
    noise: float = 0.02,
) -> list[dict[str, Any]]:
    """Records of a grid; law(size, layers) gives the KL, which every seed multiplies by a factor of its own."""
    found = []
    for size in sizes:
        for number in layers:
            for seed in range(seeds):
                factor = np.exp(noise * np.random.default_rng([seed, number, SIZES.index(size)]).standard_normal())
                plain = law(size, number)
                found.append(record(size, number, lambda at, f=factor, g=plain: f * np.asarray(g(at)), seed))
    return found


def diverged(size: str = "mamba-2x32", layers: int = 3) -> dict[str, Any]:
    """A record of a training that left no network."""
    whole = record(size, layers, lambda at: 0.1)
    kept = ("length", "parameter_count", "state_size", "scanned_state_size")
    whole["result"] = {name: whole["result"][name] for name in kept}
    whole["result"] |= {"training_losses": [], "validation_losses": [], "best_epoch": 0, "reason": "diverged"}
    whole["result"] |= {"training_seconds": 1.0, "data_share": 0.1, "tokens_per_second": 1.0}
    return whole


Share = Callable[[str, str, int, int, int], float]  # size, clock, state, length, copies -> KL over that of N(0, 1)


def clock_records(share: Share, gain: float = 1.0, worse: float = 1.2, noise: float = 0.002) -> list[dict[str, Any]]:
    """The runs of `l2m-clock` at laptop size, with these KL; not the longest, of which many lack runs for the gate.

    noise: of seeds, relative. gain: factor by which twice the budget, from 40 epochs on, lowers KL; worse: by which
    another rate raises it.
    """
    found = []
    for number, run in enumerate(Experiment("l2m-clock").runs("laptop")):
        asked = run.parameters
        size, layers, changes, fit = asked["size"], asked["layers"], asked["model"], asked["fit"]
        twice = changes["positions"] == "none" or asked["copies"] == 16  # at 80 epochs, by one of 160
        larger = size in ("mamba-2x64", "mamba2-2x64")  # at 160 and 80 epochs, without runs for the gate
        gated = ((size, layers) == ("mamba-2x32", 4) and twice) or larger
        most = 640 if (asked["copies"], changes.get("size")) == (16, 16) else 160  # at 320, by one of 640
        if fit["epochs"] > (most if gated else 80):
            continue
        level = baselines(layers, windows=()).independent.mean()
        level *= share(size, changes["positions"], changes.get("size", 0), 4**layers, asked["copies"])
        level *= np.exp(noise * np.random.default_rng(number).standard_normal())
        slow = size.startswith("gpt2") or (larger and layers == 4)
        usual = 0.01 if slow else 0.03  # of the longest budget that all seeds have
        level *= (worse if fit["learning_rate"] != usual else 1.0) / gain ** max(0.0, np.log2(fit["epochs"] / 40))
        found.append(record(size, layers, lambda at, value=level: value, run.seed, chosen=asked))
    return found
