"""Attention whose state has a fixed size, forward and backward: in chunks, as one triangle, and step by step.

    python benchmarks/linear_attention.py       # prints tables, writes results/benchmarks/linear_attention.json

All ways of one network give the same outputs and gradients, checked before they are timed; one thread. Attention with a
softmax is the work that linear attention is to save: ours, and that of torch.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import click
import numpy as np
import torch
import torch.nn.functional as F
from timing import as_in_a_sweep, median_seconds
from torch import Tensor

from lib.models.attention.linear import LinearAttentionMixer, TTTLinearMixer, causal_products
from lib.models.attention.patterns import Full
from lib.models.attention.transformer import Attention
from lib.models.base import Module
from lib.report import benchmarks

Way = Callable[[Module, Tensor], Tensor]
BATCH, WIDTH, HEADS = 4, 32, 4
LENGTHS = (64, 256, 1024, 4096)
SQUARE, STEPS = "one triangle, time x time", "step by step"


def heads_of(mixer: Any, x: Tensor) -> Tensor:
    """Queries, keys and values, each (batch, heads, time, head width)."""
    return mixer.in_proj(x).unflatten(-1, (3, HEADS, WIDTH // HEADS)).permute(2, 0, 3, 1, 4)  # type: ignore[no-any-return]


def in_chunks(mixer: Any, x: Tensor, chunk: int) -> Tensor:
    """Linear attention in chunks of another length."""
    q, k, v = heads_of(mixer, x)
    summed = causal_products(F.elu(q) + 1.0, F.elu(k) + 1.0, F.pad(v, (0, 1), value=1.0), chunk)
    mixed: Tensor = mixer.out_proj((summed[..., :-1] / summed[..., -1:]).transpose(1, 2).flatten(2))
    return mixed


def triangular_system(mixer: Any, x: Tensor) -> Tensor:
    """Test-time training with all inner steps in one system."""
    q, k, v, rate = mixer._heads(x)
    start = mixer.initial_weights.transpose(-2, -1)
    system = (rate * (k @ k.transpose(-2, -1))).tril(-1)
    steps = torch.linalg.solve_triangular(system, rate * (v - k @ start), upper=False, unitriangular=True)
    mixed: Tensor = mixer.out_proj((q @ start + (q @ k.transpose(-2, -1)).tril() @ steps).transpose(1, 2).flatten(2))
    return mixed


def step_by_step(mixer: Any, x: Tensor) -> Tensor:
    """The recurrence, recorded by autograd."""
    state, outputs = mixer.initial_state(len(x)), []
    for row in x.unbind(1):
        y, state = mixer.step(row, state)
        outputs.append(y)
    return torch.stack(outputs, dim=1)


def softmax_of_torch(mixer: Any, x: Tensor) -> Tensor:
    mixed = F.scaled_dot_product_attention(*heads_of(mixer, x), is_causal=True)
    return mixer.out_proj(mixed.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]


def ours(mixer: Module, x: Tensor) -> Tensor:
    found: Tensor = mixer(x)
    return found


NETWORKS: dict[str, tuple[Callable[[], Module], dict[str, Way]]] = {
    "linear attention": (
        partial(LinearAttentionMixer, WIDTH, HEADS),
        {
            "chunks (this book)": ours,
            "chunks of 32": partial(in_chunks, chunk=32),
            "chunks of 64": partial(in_chunks, chunk=64),
            SQUARE: partial(in_chunks, chunk=max(LENGTHS)),
            STEPS: step_by_step,
        },
    ),
    "test-time training": (
        partial(TTTLinearMixer, WIDTH, HEADS),
        {"chunks (this book)": ours, SQUARE: triangular_system, STEPS: step_by_step},
    ),
    "softmax attention": (
        lambda: Attention(WIDTH, HEADS, Full()),
        {"compiled loops (this book)": ours, "scaled_dot_product_attention": softmax_of_torch},
    ),
}


def gradients(way: Way, mixer: Module, x: Tensor) -> tuple[Tensor, ...]:
    """Of the sum of squares of all outputs, with respect to the inputs and the weights of the projections."""
    total = way(mixer, x).square().sum()
    found: tuple[Tensor, ...] = torch.autograd.grad(total, (x, *(p for p in mixer.parameters() if p.ndim == 2)))
    return found


@click.command(help=__doc__)
@click.option("--repeats", default=5, show_default=True, help="Timed repeats; the median counts.")
def main(repeats: int) -> None:
    as_in_a_sweep()
    rows: list[dict[str, Any]] = []
    for network, (make, ways) in NETWORKS.items():
        mixer = make()
        for name, way in ways.items():
            row: dict[str, Any] = {"network": network, "way": name}
            measured = {}
            for length in LENGTHS:
                if name == STEPS and length > 1024:
                    continue
                draw = torch.Generator().manual_seed(length)
                x = torch.randn(BATCH, length, WIDTH, generator=draw, requires_grad=True)
                measured[length], found = median_seconds(partial(gradients, way, mixer, x), repeats)
                expected = gradients(next(iter(ways.values())), mixer, x)
                for one, other in zip(found, expected, strict=True):
                    torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3 * float(other.abs().max()))
                row[f"{length} tokens (ms)"] = 1e3 * measured[length]
            last = list(measured)[-2:]
            growth = np.log(measured[last[1]] / measured[last[0]]) / np.log(last[1] / last[0])
            rows.append({**row, "exponent of the last two": round(float(growth), 2)})
    recorded = benchmarks.record(
        benchmarks.FOLDER / "linear_attention.json",
        "Attention whose state has a fixed size",
        f"One layer of width {WIDTH} with {HEADS} heads, outputs and gradients of {BATCH} sequences, median "
        "milliseconds in one run on one thread; time grows as length to the exponent.",
        {"Milliseconds": rows},
        repeats=repeats,
    )
    click.echo(str(recorded))


if __name__ == "__main__":
    main()
