"""Memorising SSMs: output weights by substitution, divided differences or one-hot features, against a dense solve.

    python benchmarks/memorization.py            # prints tables, writes results/benchmarks/memorization.json

Random sequences of three vectors with one output. First table: seconds for the output weights C of the same network, by
the structure of its features and by a dense linear solve; both have to give the same weights and outputs. Second table:
the whole memoriser from data to network, with its bytes beside those of dense matrices A and of the features.
All ways use one thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
import numpy as np
from timing import as_in_a_sweep, median_seconds

from lib.report import benchmarks
from lib.theory import memorizing_ssm
from lib.theory.memorizing.construction import MemorizingSSM
from lib.theory.memorizing.transition import generic_transition
from lib.theory.memorizing.weights import gap_order, ramp_weights, sorted_transition, triangular_weights

Array = np.ndarray[Any, Any]
METHODS = ("paper", "gap", "sorted", "winner_take_all", "shift_register")
LENGTH, WIDTH = 3, 16


def data(count: int) -> tuple[Array, Array]:
    generator = np.random.default_rng(0)
    return generator.standard_normal((count, LENGTH, WIDTH)), generator.standard_normal((count, 1))


def gap_problem(count: int) -> tuple[Array, Array, Callable[[], Array]]:
    """Features and outputs of the generic network in gap order, and how the memoriser solves them."""
    x, y = data(count)
    hidden = generic_transition(count, LENGTH, WIDTH, np.random.default_rng(0)).hidden(x)
    b, sequences, neurons = gap_order(hidden)
    features = np.maximum(hidden + b, 0)
    return features, y, lambda: triangular_weights(features, y, sequences, neurons)


def sorted_problem(count: int) -> tuple[Array, Array, Callable[[], Array]]:
    """The same for the network whose neurons read one line."""
    x, y = data(count)
    found, b, sequences, _ = sorted_transition(x[:, ::-1], np.random.default_rng(0))
    hidden = found.hidden(x)
    values = np.ascontiguousarray(hidden[:, :LENGTH])
    return np.maximum(hidden + b, 0), y, lambda: ramp_weights(values, b, sequences, y, LENGTH)


def weights_row(name: str, count: int, repeats: int) -> dict[str, Any]:
    """Seconds for C by structure and by a dense solve; the two have to agree."""
    features, y, solve = {"gap": gap_problem, "sorted": sorted_problem}[name](count)
    own_seconds, own = median_seconds(solve, repeats)
    dense_seconds, dense = median_seconds(lambda: np.linalg.solve(features, y), repeats)
    scale = np.abs(dense).max()
    difference = float(np.abs(own - dense).max() / scale)
    assert difference < 1e-6, (name, count, difference)
    assert np.allclose(features @ own, features @ dense, rtol=0, atol=1e-6), (name, count)
    return {
        "network": name,
        "N": count,
        "structure (s)": own_seconds,
        "dense solve (s)": dense_seconds,
        "times faster": dense_seconds / own_seconds,
        "largest relative difference": difference,
        "output error, structure": float(np.abs(features @ own - y).max()),
        "output error, dense": float(np.abs(features @ dense - y).max()),
    }


def dense_memoriser(x: Array, y: Array) -> Array:
    """What one writes without the structure: a full nilpotent matrix, its states, biases in gap order, a solve."""
    found = generic_transition(len(x), LENGTH, WIDTH, np.random.default_rng(0))
    A, h = found.left @ found.right, np.zeros((len(x), len(x)))
    for t in range(LENGTH):
        h = h @ A.T + x[:, t] @ found.B.T
    b, _, _ = gap_order(h)
    return np.linalg.solve(np.maximum(h + b, 0), y)


def whole_rows(count: int, repeats: int) -> list[dict[str, Any]]:
    """Seconds and megabytes from data to network, by method."""
    x, y = data(count)
    rows = []
    for method in METHODS:

        def build(method: Any = method) -> MemorizingSSM:
            return memorizing_ssm(x, y, LENGTH, method)

        seconds, model = median_seconds(build, repeats)
        error = float(np.abs(model(x) - y).max())
        rows.append({"way": method, "N": count, "seconds": seconds, "MB": model.nbytes / 1e6, "largest error": error})
    seconds, _ = median_seconds(lambda: dense_memoriser(x, y), repeats)
    rows.append({"way": "dense A, dense solve", "N": count, "seconds": seconds, "MB": 2 * 8 * count**2 / 1e6})
    return rows


@click.command(help=__doc__)
@click.option("--sizes", default="1000,4000", show_default=True, help="Numbers of sequences, separated by commas.")
@click.option("--repeats", default=3, show_default=True, help="Timed repeats; the median counts.")
def main(sizes: str, repeats: int) -> None:
    as_in_a_sweep()
    counts = [int(size) for size in sizes.split(",")]
    tables = {
        "Output weights of the same network, one output": [
            weights_row(name, count, repeats) for name in ("gap", "sorted") for count in counts
        ],
        "From data to network": [row for count in counts for row in whole_rows(count, repeats)],
    }
    recorded = benchmarks.record(
        benchmarks.FOLDER / "memorization.json",
        "Memorising state space models",
        f"N random sequences of {LENGTH} vectors of width {WIDTH}, one output, order {LENGTH}, float64. First, "
        "substitution and divided differences against a dense linear solve of the same features: median seconds in one "
        "run, one thread, the same weights. Then whole memorisers; MB of the dense way are those of A and of the "
        "features.",
        tables,
        threads=1,
        repeats=repeats,
    )
    click.echo(str(recorded))


if __name__ == "__main__":
    main()
