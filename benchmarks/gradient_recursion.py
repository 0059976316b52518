"""Gradients through attention: the recursion against sums over paths, and against automatic differentiation.

    python benchmarks/gradient_recursion.py      # prints tables, writes results/benchmarks/gradient_recursion.json

First ds_{1+k}/dh_1 from given matrices E and F (float64): path after path, paths with shared beginnings, by degree, and
by the recursion. Then the same gradient of a real attentive network with all its preparations: the matrices of Cor. 1
one by one, the evaluation that `attentive_rnn_gradient` uses, and the Jacobian of the running network by torch.func.
Ways that are timed at the same size have to give the same numbers. All ways use one thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
import numpy as np
import torch
from timing import as_in_a_sweep, median_seconds

from lib.models import AttentiveRNN
from lib.report import benchmarks
from lib.theory import attentive_rnn_gradient
from lib.theory.gradients import recursion
from lib.theory.gradients.blocks import gradient_by_blocks
from lib.theory.gradients.states import read_states

Way = Callable[[], Any]
LONGEST_PATHS = 16  # k up to which a sum over 2^k paths is timed
LONGEST_BLOCKS = 200  # k up to which the matrices of Cor. 1 are made one by one


def paths_against_recursion(k: int, hidden: int, repeats: int) -> dict[str, Any]:
    """Seconds for C_k from random matrices, with the number of matrix products of each way."""
    generator = np.random.default_rng(0)
    E = list(generator.standard_normal((k + 1, hidden, hidden)) / hidden)
    F = [list(generator.standard_normal((n, hidden, hidden)) / hidden) for n in range(k + 1)]
    ways: dict[str, Way] = {
        "recursion": lambda: recursion.recursion(E, F)[k],
        "recursion, by degree": lambda: sum(recursion.terms_by_degree(E, F)[k]),
    }
    if k <= LONGEST_PATHS:
        ways["paths, shared beginnings"] = lambda: recursion.shared_sum_over_paths(E, F)
        ways["path after path"] = lambda: recursion.sum_over_paths(E, F)
    return {"k": k, "paths": f"2^{k}"} | timed(ways, repeats)


def real_network(k: int, hidden: int, repeats: int) -> dict[str, Any]:
    """Seconds for ds_{1+k}/dh_1 of a network with learned attention, forward pass included."""
    network = AttentiveRNN(hidden, hidden, gain=0.5)
    x = torch.from_numpy(np.random.default_rng(0).standard_normal((k + 1, hidden)))

    def automatic() -> Any:
        h = network.trace(x).h[0].detach()
        return torch.func.jacrev(lambda h: network.trace(x, replace={1: h}).s[k])(h).detach().numpy()

    ways: dict[str, Way] = {"assembled (Lemma 1)": lambda: attentive_rnn_gradient(network, x, 1, k)}
    if k <= LONGEST_BLOCKS:
        ways["matrix by matrix (Cor. 1)"] = lambda: gradient_by_blocks(read_states(network, x), 1, k)
    ways["torch.func.jacrev"] = automatic
    return {"k": k} | timed(ways, repeats)


def timed(ways: dict[str, Way], repeats: int) -> dict[str, float]:
    """Seconds of every way; all have to agree with the first."""
    seconds, first = {}, None
    for name, way in ways.items():
        seconds[name], answer = median_seconds(way, repeats)
        first = answer if first is None else first
        assert np.allclose(answer, first, rtol=1e-9, atol=1e-11), name
    return seconds


@click.command(help=__doc__)
@click.option("--hidden", default=16, show_default=True, help="Rows of the matrices, units of the network.")
@click.option("--longest", default=400, show_default=True, help="Largest distance k of the real network.")
@click.option("--repeats", default=5, show_default=True, help="Timed repeats; the median counts.")
def main(hidden: int, longest: int, repeats: int) -> None:
    as_in_a_sweep()
    distances = [k for k in (4, 8, 12, 16, 32, 64) if k <= longest]
    lengths = [k for k in (25, 50, 100, 200, 400, 800) if k <= longest]
    recorded = benchmarks.record(
        benchmarks.FOLDER / "gradient_recursion.json",
        "Gradients through attention",
        f"The recursion beside sums over paths and automatic differentiation, {hidden} units, median seconds in one "
        "run, one thread; all ways give the same numbers.",
        {
            "Seconds for the gradient over k steps, from given matrices": [
                paths_against_recursion(k, hidden, repeats) for k in distances
            ],
            "Seconds for the gradient over k steps of a real network": [
                real_network(k, hidden, repeats) for k in lengths
            ],
        },
        threads=torch.get_num_threads(),
        hidden=hidden,
        repeats=repeats,
    )
    click.echo(str(recorded))


if __name__ == "__main__":
    main()
