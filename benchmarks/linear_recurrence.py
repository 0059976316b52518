"""The linear recurrence of the n-gram SSM, forward and backward: ours against recording every step, and doubling.

    python benchmarks/linear_recurrence.py       # prints a table, writes results/benchmarks/linear_recurrence.json

All ways give h_t = A h_{t-1} + u_t of the same u, and the same gradients, checked before they are timed; one thread.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import click
import torch
from timing import as_in_a_sweep, median_seconds
from torch import Tensor

from lib.models.recurrent.relu import _LinearRecurrence
from lib.report import benchmarks

Way = Callable[[Tensor, Tensor], Tensor]
SHAPES = {"one sentence": (1, 20, 145), "forty sentences": (40, 20, 145), "eight long texts": (8, 512, 145)}


def recorded(driven: Tensor, transition: Tensor) -> Tensor:
    """Every step an operation that autograd keeps."""
    hidden = [driven[:, 0]]
    for time in range(1, driven.shape[1]):
        hidden.append(torch.addmm(driven[:, time], hidden[-1], transition.T))
    return torch.stack(hidden, dim=1)


def doubled(driven: Tensor, transition: Tensor) -> Tensor:
    """Sums over 1, 2, 4, ... steps: log T products, and squares of A."""
    hidden, power, reach = driven, transition, 1
    while reach < driven.shape[1]:
        moved = hidden[:, :-reach] @ power.T
        hidden = torch.cat([hidden[:, :reach], hidden[:, reach:] + moved], dim=1)
        power, reach = power @ power, 2 * reach
    return hidden


WAYS: dict[str, Way] = {
    "own backward pass (this book)": _LinearRecurrence.apply,
    "every step recorded by autograd": recorded,
    "doubling, recorded by autograd": doubled,
}


def gradients(way: Way, driven: Tensor, transition: Tensor) -> tuple[Tensor, ...]:
    """Of the sum of squares of all states."""
    found: tuple[Tensor, ...] = torch.autograd.grad(way(driven, transition).square().sum(), (driven, transition))
    return found


@click.command(help=__doc__)
@click.option("--repeats", default=7, show_default=True, help="Timed repeats; the median counts.")
def main(repeats: int) -> None:
    as_in_a_sweep()
    rows: list[dict[str, Any]] = [{"way": way} for way in WAYS]
    for name, (batch, time, width) in SHAPES.items():
        draw = torch.Generator().manual_seed(0)
        driven = torch.randn(batch, time, width, generator=draw, requires_grad=True)
        transition = (torch.randn(width, width, generator=draw) * 0.5 / width**0.5).requires_grad_()
        expected = gradients(recorded, driven, transition)
        for row, way in zip(rows, WAYS.values(), strict=True):
            call = partial(gradients, way, driven, transition)
            seconds, found = median_seconds(call, repeats)
            for one, other in zip(found, expected, strict=True):
                torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3 * float(other.abs().max()))
            row[f"{name}, {batch} x {time} x {width} (ms)"] = 1e3 * seconds
    recorded_run = benchmarks.record(
        benchmarks.FOLDER / "linear_recurrence.json",
        "Linear recurrence with a dense transition",
        "h_t = A h_{t-1} + u_t and its gradients, median milliseconds in one run on one thread: batch x time x width.",
        {"Milliseconds": rows},
        repeats=repeats,
    )
    click.echo(str(recorded_run))


if __name__ == "__main__":
    main()
