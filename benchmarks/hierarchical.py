"""Hierarchical Gaussians: message passing against NumPy's dense Cholesky factor, with the growth of cost in length.

    python benchmarks/hierarchical.py            # prints a table, writes results/benchmarks/hierarchical.json

The same five questions to both: set-up, a batch of samples, all conditional means of a batch, its log densities, the
bipartite mutual information of the halves. The dense way stops at length 4096. A second table makes one training batch
(64 stacked copies, samples and conditional means, float32) with NumPy, with torch on the CPU, and on CUDA if present.
All ways use one thread. The exponents are fitted over lengths from 256 on, so that calls themselves cost little.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
import numpy as np
import torch
from scipy.linalg import solve_triangular
from timing import as_in_a_sweep, median_seconds

from lib.processes import HierarchicalGaussian
from lib.report import benchmarks

SHORTEST_FITTED = 256
Timings = dict[str, dict[str, dict[str, Any]]]


class DenseGaussian:
    """What one writes without the structure: a covariance matrix and its Cholesky factor."""

    def __init__(self, covariance: np.ndarray) -> None:
        self.covariance = covariance
        self.factor = np.linalg.cholesky(covariance)

    def sample(self, n: int, seed: int) -> np.ndarray:
        return np.random.default_rng(seed).standard_normal((n, len(self.factor))) @ self.factor.T

    def conditional_means(self, x: np.ndarray) -> np.ndarray:
        return x - np.diag(self.factor) * self._whitened(x)

    def log_density(self, x: np.ndarray) -> np.ndarray:
        constant = np.log(np.diag(self.factor)).sum() + 0.5 * len(self.factor) * np.log(2 * np.pi)
        return -0.5 * np.square(self._whitened(x)).sum(axis=1) - constant

    def bipartite_mutual_information(self) -> float:
        half = len(self.factor) // 2
        # the leading block of the factor is the factor of the leading block
        second = np.linalg.cholesky(self.covariance[half:, half:])
        return float(np.log(np.diag(second)).sum() - np.log(np.diag(self.factor))[half:].sum())

    def _whitened(self, x: np.ndarray) -> np.ndarray:
        return solve_triangular(self.factor, x.T, lower=True, check_finite=False).T


def fresh_law(layers: int) -> HierarchicalGaussian:
    """A distribution with nothing left to set up."""
    law = HierarchicalGaussian(layers)
    law.conditional_variances()
    law.levels()
    law.entropy()
    return law


def compare(layers: int, batch: int, repeats: int, dense_layers: int, timings: Timings) -> None:
    """Time the five questions at one length; where both ways are timed, their answers have to agree."""
    length = 4**layers
    seconds, law = median_seconds(lambda: fresh_law(layers), repeats)
    x = law.sample(batch, seed=0)
    questions: dict[str, dict[str, Callable[[], Any]]] = {
        "message passing": {
            "sample": lambda: law.sample(batch, seed=0),
            "conditional means": lambda: law.conditionals(x)[0],
            "log density": lambda: law.log_density(x),
            # information is computed once for each distribution, so the question goes to a new one every time
            "bipartite information": lambda: HierarchicalGaussian(layers).bipartite_mutual_information(),
        }
    }
    record(timings, "message passing", "set-up", length, seconds)
    if layers <= dense_layers:
        seconds, dense = median_seconds(lambda: DenseGaussian(law.covariance()), repeats)
        record(timings, "dense Cholesky", "set-up", length, seconds)
        questions["dense Cholesky"] = {
            "sample": lambda: dense.sample(batch, seed=0),
            "conditional means": lambda: dense.conditional_means(x),
            "log density": lambda: dense.log_density(x),
            "bipartite information": dense.bipartite_mutual_information,
        }
    for question in questions["message passing"]:
        answers = []
        for way, functions in questions.items():
            seconds, answer = median_seconds(functions[question], repeats)
            record(timings, way, question, length, seconds)
            answers.append(answer)
        if len(answers) == 2 and question != "sample":  # samples: the same distribution, other numbers
            assert np.allclose(answers[0], answers[1], rtol=1e-10, atol=1e-10), (question, length)


def record(timings: Timings, way: str, question: str, length: int, seconds: float) -> None:
    timings.setdefault(way, {}).setdefault(question, {"lengths": [], "seconds": []})
    timings[way][question]["lengths"].append(length)
    timings[way][question]["seconds"].append(seconds)


def add_exponents(timings: Timings, shortest: int) -> None:
    """Slope of ln seconds against ln length, over lengths long enough that calls themselves cost little."""
    for questions in timings.values():
        for entry in questions.values():
            lengths, seconds = np.array(entry["lengths"]), np.array(entry["seconds"])
            used = lengths >= shortest
            entry["exponent"] = float(np.polyfit(np.log(lengths[used]), np.log(seconds[used]), 1)[0])


def training_batches(layers: int, batch: int, copies: int, repeats: int) -> dict[str, float]:
    """Seconds for one batch of samples with their conditional means, float32, by each way there is."""
    law, processor = HierarchicalGaussian(layers), HierarchicalGaussian(layers).on_device("cpu")
    seconds = {
        "NumPy": median_seconds(lambda: law.sample_tokens_with_means(batch, copies, 0, np.float32), repeats)[0],
        "torch, CPU": median_seconds(lambda: processor.sample_tokens_with_means(batch, copies), repeats)[0],
    }
    if torch.cuda.is_available():
        on_device = law.on_device("cuda")

        def make() -> None:
            on_device.sample_tokens_with_means(batch, copies)
            torch.cuda.synchronize()

        seconds["torch, CUDA"] = median_seconds(make, repeats)[0]
    return seconds


def tables(timings: Timings, batches: dict[str, dict[str, float]]) -> dict[str, list[dict[str, Any]]]:
    """Seconds by question and length with the exponent of the cost, and milliseconds of a training batch."""
    questions = [
        {"way": way, "question": question}
        | {f"L = {length}": seconds for length, seconds in zip(entry["lengths"], entry["seconds"], strict=True)}
        | {"exponent in L": entry["exponent"]}
        for way, asked in timings.items()
        for question, entry in asked.items()
    ]
    batch_rows = [{"batch": shape} | {way: 1e3 * value for way, value in row.items()} for shape, row in batches.items()]
    return {
        "Seconds for each question, float64": questions,
        "Milliseconds for one training batch (sequences, length, copies), float32": batch_rows,
    }


@click.command(help=__doc__)
@click.option("--layers", default=8, show_default=True, help="Largest number of layers: length 4^layers.")
@click.option("--dense-layers", default=6, show_default=True, help="Largest number of layers of the dense way.")
@click.option("--batch", default=16, show_default=True, help="Sequences in a batch.")
@click.option("--repeats", default=5, show_default=True, help="Timed repeats; the median counts.")
def main(layers: int, dense_layers: int, batch: int, repeats: int) -> None:
    as_in_a_sweep()
    timings: Timings = {}
    for level in range(3, layers + 1):
        compare(level, batch, repeats, dense_layers, timings)
    add_exponents(timings, shortest=SHORTEST_FITTED)
    shapes = [(n, 4, 64) for n in (4, 5, 6)]
    batches = {f"({n}, {4**level}, {c})": training_batches(level, n, c, repeats) for level, n, c in shapes}
    recorded = benchmarks.record(
        benchmarks.FOLDER / "hierarchical.json",
        "Hierarchical Gaussians",
        "Message passing over the layers beside a dense Cholesky factor, median seconds in one run, one thread each; "
        "both ways give the same numbers, but for samples, which are drawn. The exponent is the slope of ln seconds "
        f"against ln L over L >= {SHORTEST_FITTED}.",
        tables(timings, batches),
        threads=1,
        batch=batch,
        repeats=repeats,
    )
    click.echo(str(recorded))


if __name__ == "__main__":
    main()
