"""Steps of second order: the gradient of every sequence, and the loss after equal times, beside what PyTorch has.

    python benchmarks/second_order.py         # prints tables, writes results/benchmarks/second_order.json

The gradients come from one pass back through the whole batch (ours), from one pass for every sequence, and from
torch.func (vmap of grad over the steps of the network); all have to be the same numbers before they are timed. The
damped equations are solved by a Cholesky factor (ours) and by eigenvectors, which would serve every damping. The
race starts five times from the same weights, those of a few epochs of Adam, and goes on with Adam at each of three
rates, with torch's L-BFGS on all sequences at once, and with our steps, for equal seconds each. One thread.
"""

from __future__ import annotations

import copy
import itertools
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import click
import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from plain_networks import OURS
from timing import as_in_a_sweep, median_seconds

from lib.models import create
from lib.processes import PowerLawBinary
from lib.report import benchmarks
from lib.training import FitSettings, LevenbergMarquardt, NextToken, fit, sequence_gradients
from lib.training.newton import START, damped_solution

ONE, FUNC = "one pass for every sequence", "torch.func"
RATES = (0.003, 0.01, 0.03)
SIZES = (342, 1190, 4422)  # parameters of RNNs of width 16, 32 and 64
ALIKE = 1e-8  # largest difference of two gradients in float64, relative to the largest


def stepwise_loss(names: list[str], weights: tuple[torch.Tensor, ...], row: torch.Tensor) -> torch.Tensor:
    """-ln Q of one sequence by an RNN of one layer, written as its equation, which torch.func takes."""
    w = dict(zip(names, weights, strict=True))
    hidden, losses = torch.zeros_like(w["layers.0.bias"]), []
    for token, following in itertools.pairwise(row):
        entered = F.embedding(token, w["embedding.weight"]) @ w["layers.0.weight_ih"].T
        hidden = torch.tanh(entered + hidden @ w["layers.0.weight_hh"].T + w["layers.0.bias"])
        losses.append(F.cross_entropy(hidden @ w["head.weight"].T + w["head.bias"], following))
    return torch.stack(losses).sum()


def gradient_ways(model: Any, tokens: torch.Tensor) -> dict[str, Callable[[], torch.Tensor]]:
    """Three ways to the gradient of every sequence, (sequences, parameters)."""
    names, weights = zip(*model.named_parameters(), strict=True)

    def one() -> torch.Tensor:
        rows = []
        for row in tokens:
            loss = F.cross_entropy(model(row[None, :-1])[0], row[1:], reduction="sum")
            rows.append(torch.cat([part.flatten() for part in torch.autograd.grad(loss, weights)]))
        return torch.stack(rows)

    def func() -> torch.Tensor:
        by_row = torch.func.vmap(torch.func.grad(lambda w, row: stepwise_loss(list(names), w, row)), (None, 0))
        return torch.cat([part.flatten(1) for part in by_row(tuple(w.detach() for w in weights), tokens)], dim=1)

    return {OURS: lambda: sequence_gradients(model, tokens)[1], ONE: one, FUNC: func}


def gradients(widths: tuple[int, ...], sequences: int, length: int, repeats: int) -> list[dict[str, Any]]:
    rows = []
    for width in widths:
        model = create("rnn", 2, width, 1, start="slow", longest=300, seed=0).double()
        data = PowerLawBinary(length).sample(sequences, np.random.default_rng(0))
        ways = gradient_ways(model, torch.from_numpy(data).long())
        found = {way: run() for way, run in ways.items()}
        for way, other in found.items():
            difference = float((other - found[OURS]).abs().max() / found[OURS].abs().max())
            if not difference < ALIKE:
                raise RuntimeError(f"{way} at width {width} differs by {difference}, at most {ALIKE} is allowed")
        seconds = {way: median_seconds(run, repeats)[0] for way, run in ways.items()}
        rows.append({"width": width} | {f"{way}, ms": 1e3 * value for way, value in seconds.items()})
        rows[-1] |= {f"{way} over ours": seconds[way] / seconds[OURS] for way in (ONE, FUNC)}
        click.echo(str(rows[-1]))
    return rows


def by_eigenvectors(matrix: NDArray[np.float64], damping: float, right: NDArray[np.float64]) -> NDArray[np.float64]:
    values, vectors = np.linalg.eigh(matrix)
    solved: NDArray[np.float64] = vectors @ ((vectors.T @ right) / (values + damping))
    return solved


def equations(sizes: tuple[int, ...], repeats: int) -> list[dict[str, Any]]:
    """(F + mu I) s = g for as many parameters as given, F from half as many random gradients again."""
    rows = []
    for size in sizes:
        gradients = np.random.default_rng(0).standard_normal((3 * size // 2, size))
        right, matrix = gradients.mean(axis=0), gradients.T @ gradients / len(gradients)
        ways = {
            OURS: partial(damped_solution, matrix, START, right),
            "eigenvectors": partial(by_eigenvectors, matrix, START, right),
        }
        found = {way: solve() for way, solve in ways.items()}
        difference = float(np.abs(found[OURS] - found["eigenvectors"]).max() / np.abs(found[OURS]).max())
        if not difference < ALIKE:
            raise RuntimeError(f"solutions for {size} parameters differ by {difference}, at most {ALIKE} is allowed")
        seconds = {way: median_seconds(solve, repeats)[0] for way, solve in ways.items()}
        rows.append({"parameters": size} | {f"{way}, ms": 1e3 * value for way, value in seconds.items()})
        rows[-1]["eigenvectors over ours"] = seconds["eigenvectors"] / seconds[OURS]
        click.echo(str(rows[-1]))
    return rows


def adam(model: Any, data: Any, seconds: float, rate: float) -> None:
    """Batches of 25 at a rate that falls on a cosine to zero over the seconds that it has."""
    optimizer, start = torch.optim.Adam(model.parameters(), rate, betas=(0.9, 0.99)), time.perf_counter()
    random = np.random.default_rng(0)
    while (passed := (time.perf_counter() - start) / seconds) < 1:
        optimizer.param_groups[0]["lr"] = rate * 0.5 * (1 + np.cos(np.pi * passed))
        tokens = torch.from_numpy(data[random.integers(len(data), size=25)]).long()
        optimizer.zero_grad()
        F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


def lbfgs(model: Any, data: Any, seconds: float) -> None:
    """torch's, in float64 with its strong Wolfe search, as many calls as fit."""
    model.double()
    optimizer = torch.optim.LBFGS(model.parameters(), history_size=50, max_iter=5, line_search_fn="strong_wolfe")
    start = time.perf_counter()

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        total = torch.zeros((), dtype=torch.float64)
        for place in range(0, len(data), 500):
            tokens = torch.from_numpy(data[place : place + 500]).long()
            losses = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten(), reduction="sum")
            loss = losses / len(data)
            loss.backward()
            total += loss.detach()
        return total

    while time.perf_counter() - start < seconds:
        optimizer.step(closure)
    model.float()


def second_order(model: Any, data: Any, seconds: float) -> None:
    method, start = LevenbergMarquardt(data), time.perf_counter()
    while time.perf_counter() - start < seconds:
        method.step(model)


def race(widths: tuple[int, ...], seconds: float, sequences: int, length: int) -> list[dict[str, Any]]:
    data = PowerLawBinary(length).sample(sequences, np.random.default_rng(1))
    judge, rows = LevenbergMarquardt(data), []
    for width in widths:
        begun = create("rnn", 2, width, 1, start="slow", longest=300, seed=0)
        settings = FitSettings(optimizer="adam", learning_rate=0.01, epochs=6, batch=25, beta2=0.99, clip=1.0)
        fit(begun, NextToken(data, data[:100]), settings, progress=False)
        losses: dict[str, float] = {}
        for name, run in {
            **{f"Adam, rate {rate}": lambda model, rate=rate: adam(model, data, seconds, rate) for rate in RATES},
            "L-BFGS": lambda model: lbfgs(model, data, seconds),
            OURS: lambda model: second_order(model, data, seconds),
        }.items():
            model = copy.deepcopy(begun)
            run(model)
            losses[name] = judge.loss(model)
        best = min(losses.values())
        above = {name: loss - best for name, loss in losses.items()}
        rows.append({"width": width, "begun with": judge.loss(begun) - best} | above)
        click.echo(str(rows[-1]))
    return rows


@click.command(help=__doc__)
@click.option("--width", "widths", multiple=True, default=(4, 8, 16), show_default=True, help="Widths of the RNN.")
@click.option("--sequences", default=100, show_default=True, help="Sequences whose gradients are computed.")
@click.option("--length", default=256, show_default=True, help="Tokens of these sequences.")
@click.option("--repeats", default=5, show_default=True, help="Timed calls; the median counts.")
@click.option("--seconds", default=40.0, show_default=True, help="Of each method of the race.")
@click.option("--training", default=10000, show_default=True, help="Sequences of 512 tokens in the race.")
def main(widths: tuple[int, ...], sequences: int, length: int, repeats: int, seconds: float, training: int) -> None:
    as_in_a_sweep()
    tables = {
        "The gradient of every sequence": gradients(widths, sequences, length, repeats),
        "The damped equations": equations(SIZES, repeats),
        f"Loss above the smallest after {seconds:.0f} seconds, nats per sequence": race(widths, seconds, training, 512),
    }
    recorded = benchmarks.record(
        benchmarks.FOLDER / "second_order.json",
        "Steps of second order",
        "RNNs of one layer from slow modes on sequences with a power law. Gradients in float64, the same numbers "
        "before they are timed; the race in float32 but for L-BFGS, on the training loss, from the same weights.",
        tables,
        packages=["torch", "numba"],
        threads=torch.get_num_threads(),
        sequences=sequences,
        length=length,
        seconds=seconds,
        training=training,
    )
    click.echo(str(recorded))


if __name__ == "__main__":
    main()
