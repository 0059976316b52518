"""Several small networks as one batch: what that could save, and what it saves.

    python benchmarks/stacking.py          # prints tables, writes results/benchmarks/stacking.json

Networks of equal shape that differ in seed or learning rate can be trained together, each weight with one more axis.
On one core that can save what an update costs before it has any data: calls, allocations, the steps of Adam on small
tensors. The first table has this share for networks of the sweeps: the milliseconds of an update on their batch, and of
one on the fewest tokens there are. The second stacks Transformers of PyTorch's own modules with `torch.func.vmap` and
trains them beside the same ones, and beside ours, one by one; their losses agree. The ways take turns; medians count.
OMP_NUM_THREADS sets the threads. CUDA is timed too, if it is there: there an update of such a network is launches, and
little else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click
import numpy as np
import torch
import torch.nn.functional as F
from plain_networks import HEADS, PLAIN, devices, finish, ours
from timing import as_in_a_sweep
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, stack_module_state, vmap
from training import seconds_in_turn, update

from experiments.gaussians.sizes import gaussian_language_model
from lib.models.base import sinusoids
from lib.processes import HierarchicalGaussian
from lib.report import benchmarks

SHAPES = (("rnn", 8, 25), ("lstm", 8, 25), ("lstm", 64, 25), ("transformer", 16, 20), ("mamba", 16, 25))
LENGTH = 512  # of binary sequences
RATE = 1e-3


def gaussian_update(model: Any, law: HierarchicalGaussian, rows: int, device: str) -> Callable[[], None]:
    """Forward, backward and a step of AdamW on tokens that are there."""
    tokens = torch.randn(rows, law.length, 8, device=device)
    optimizer = torch.optim.AdamW(model.parameters(), RATE)

    def run() -> None:
        optimizer.zero_grad(set_to_none=True)
        found = model.predictions(tokens)
        torch.distributions.Normal(found.means, found.deviations).log_prob(tokens).mean().neg().backward()
        optimizer.step()
        finish(device)

    return run


def overheads(device: str, repeats: int) -> list[dict[str, Any]]:
    """Milliseconds of an update on its batch and on next to nothing, and the share that stacking could save."""
    rows = []
    for name, width, batch in SHAPES:
        whole, least = (
            update(ours(name, width, 1).to(device).train(), torch.randint(0, 2, size).to(device), device)
            for size in ((batch, LENGTH), (1, 3))
        )
        rows.append({"network": f"{name} {width}", "tokens": batch * LENGTH} | _share(whole, least, repeats))
    for name in ("gpt2-2x32", "mamba-2x32"):
        for layers, sequences in ((2, 64), (3, 16)):
            law, smallest = HierarchicalGaussian(layers), HierarchicalGaussian(1)
            whole, least = (
                gaussian_update(gaussian_language_model(name, copies=8, longest=one.length).to(device), one, n, device)
                for one, n in ((law, sequences), (smallest, 1))
            )
            row = {"network": f"{name}, Gaussians of {law.length}", "tokens": sequences * law.length}
            rows.append(row | _share(whole, least, repeats))
    return rows


def _share(whole: Callable[[], Any], least: Callable[[], Any], repeats: int) -> dict[str, float]:
    seconds = seconds_in_turn({"whole": whole, "least": least}, repeats, 60.0)
    found = {"update, ms": 1e3 * seconds["whole"], "without data, ms": 1e3 * seconds["least"]}
    return found | {"stacking saves at most, %": 100 * seconds["least"] / seconds["whole"]}


class Block(nn.Module):
    """A Transformer of one layer out of functions that `vmap` knows."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(2, width), nn.Linear(width, 2)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.mix, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        x = x + sinusoids(torch.arange(x.shape[1], device=x.device), x)
        q, k, v = self.mix(self.norms[0](x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        x = x + self.down(F.gelu(self.up(self.norms[1](x))))
        return self.head(self.norms[2](x))


def one_by_one(models: Sequence[nn.Module], batches: Tensor, device: str) -> Callable[[], list[float]]:
    optimizers = [torch.optim.Adam(model.parameters(), RATE) for model in models]

    def run() -> list[float]:
        losses = []
        for model, optimizer, tokens in zip(models, optimizers, batches, strict=True):
            optimizer.zero_grad(set_to_none=True)
            loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        finish(device)
        return [float(loss) for loss in losses]

    return run


def stacked(models: Sequence[nn.Module], batches: Tensor, device: str) -> Callable[[], list[float]]:
    """The same updates with one more axis; Adam works element by element, so that it needs no change."""
    given, buffers = stack_module_state(list(models))
    weights = {name: tensor.detach().clone().requires_grad_() for name, tensor in given.items()}
    optimizer = torch.optim.Adam(weights.values(), RATE)

    def loss(own: dict[str, Tensor], tokens: Tensor) -> Tensor:
        logits = functional_call(models[0], (own, {}), (tokens[:, :-1],))
        return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())

    together = vmap(grad_and_value(loss), randomness="error")
    assert not buffers

    def run() -> list[float]:
        gradients, losses = together(weights, batches)
        for name, tensor in weights.items():
            tensor.grad = gradients[name]
        optimizer.step()
        finish(device)
        return [float(value) for value in losses]

    return run


def trial(count: int, width: int, batch: int, length: int, device: str, repeats: int) -> dict[str, Any]:
    """Milliseconds per update and network, stacked and one by one."""
    batches = torch.randint(0, 2, (count, batch, length), generator=torch.Generator().manual_seed(0)).to(device)

    def networks() -> list[nn.Module]:
        torch.manual_seed(0)
        return [Block(width).to(device) for _ in range(count)]

    first, second = one_by_one(networks(), batches, device), stacked(networks(), batches, device)
    for _ in range(3):
        np.testing.assert_allclose(second(), first(), rtol=1e-4)
    mine = one_by_one([ours("transformer", width, 1).to(device).train() for _ in range(count)], batches, device)
    ways = {"stacked": second, PLAIN: first, "ours, one by one": mine}
    seconds = seconds_in_turn(ways, repeats, 60.0)
    row = {"networks": count, "width": width, "sequences": batch, "length": length}
    return row | {way: 1e3 * value / count for way, value in seconds.items()}


@click.command(help=__doc__)
@click.option("--repeats", default=7, show_default=True, help="Timed updates of each way; medians count.")
def main(repeats: int) -> None:
    as_in_a_sweep(torch.get_num_threads())
    tables: dict[str, list[dict[str, Any]]] = {}
    for device in devices():
        tables[f"An update, and one without data, {device}"] = overheads(device, repeats)
        tables[f"Milliseconds an update and network, Transformers of one layer, {device}"] = [
            trial(count, 16, batch, length, device, repeats)
            for count in (3, 8)
            for batch, length in ((2, 32), (4, 128), (20, LENGTH))
        ]
        for title, rows in tables.items():
            click.echo(title)
            for row in rows:
                click.echo(f"  {row}")
    recorded = benchmarks.record(
        benchmarks.FOLDER / "stacking.json",
        "Small networks as one batch",
        "Training several networks of equal shape with one more axis: the most that it could save on this device, and "
        "what it saves. Medians of updates taken in turn.",
        tables,
        threads=torch.get_num_threads(),
        repeats=repeats,
    )
    click.echo(str(recorded))


if __name__ == "__main__":
    main()
