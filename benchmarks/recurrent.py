"""RNN and LSTM on the CPU: our networks beside the same ones of PyTorch's modules, a whole step of training.

    python benchmarks/recurrent.py            # prints a table, writes results/benchmarks/recurrent.json

Two tables: one update of the whole network, which is forward, backward and a step of Adam on binary tokens, and the
recurrent layer alone, forward and backward. Both ways start from the same weights and have to give the same logits
before they are timed. They take turns of a few updates, as in a training, and the shortest time of each counts: what
other processes take away only adds. Beside the time of the clock stands that of the processor. Our loops take 16
sequences at a time and leave the rest of the last piece empty, so that 48 sequences suit them, and 50 do not: both are
timed.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

import click
import torch
from plain_networks import OURS, PLAIN, ours, theirs
from timing import as_in_a_sweep
from training import update

from lib.report import benchmarks

NETWORKS = ("rnn", "lstm")
UPDATES = 4  # of one way in its turn
ALIKE = 1e-5  # largest difference of two logits in float32


def pair(name: str, width: int, tokens: torch.Tensor) -> dict[str, Any]:
    """Our network and that of PyTorch's modules with the same weights; RuntimeError if they are not one function."""
    one, other = ours(name, width, 1), theirs(name, width, 1, tokens.shape[1])[PLAIN]
    with torch.no_grad():
        other.embedding.load_state_dict(one.embedding.state_dict())
        other.head.load_state_dict(one.head.state_dict())
        (layer,) = one.layers
        weights = [layer.weight_ih, layer.weight_hh, layer.bias, torch.zeros_like(layer.bias)]
        for theirs_, given in zip(other.layers.parameters(), weights, strict=True):
            theirs_.copy_(given)
        difference = float((one(tokens) - other(tokens)).abs().max())
    if not difference < ALIKE:
        raise RuntimeError(f"{name} of width {width}: logits differ by {difference}, at most {ALIKE} is allowed")
    return {OURS: one, PLAIN: other}


def layers_alone(models: dict[str, Any], inputs: torch.Tensor) -> dict[str, Callable[[], Any]]:
    """Forward and backward of the one layer of each network."""
    first = {OURS: models[OURS].layers[0], PLAIN: models[PLAIN].layers}

    def both_ways(layer: Any) -> Any:
        out = layer(inputs)
        out = out[0] if isinstance(out, tuple) else out
        return torch.autograd.grad(out, [inputs, *layer.parameters()], torch.ones_like(out))

    return {way: lambda layer=layer: both_ways(layer) for way, layer in first.items()}


def compared(runs: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Least milliseconds of the clock and of the processor over all turns; first calls, which compile, are left out."""
    taken: dict[str, list[tuple[float, float]]] = {way: [] for way in runs}
    for turn in range(repeats + 1):
        for way, run in runs.items():
            for _ in range(UPDATES if turn else 1):
                start, busy = time.perf_counter(), time.process_time()
                run()
                if turn:
                    taken[way].append((time.perf_counter() - start, time.process_time() - busy))
    row = {}
    for place, kind in enumerate(("ms", "ms of the processor")):
        least = {way: 1e3 * min(both[place] for both in times) for way, times in taken.items()}
        row |= {f"{way}, {kind}": value for way, value in least.items()}
        row |= {f"times faster, {kind}": least[PLAIN] / least[OURS]}
    return row


@click.command(help=__doc__)
@click.option("--batch", "batches", multiple=True, default=(48, 50), show_default=True, help="Sequences in a batch.")
@click.option("--length", default=512, show_default=True, help="Tokens of a sequence; the last one is only predicted.")
@click.option("--width", "widths", multiple=True, default=(8, 32, 64), show_default=True, help="Widths.")
@click.option("--repeats", default=20, show_default=True, help="Turns of each way; the shortest time counts.")
@click.option("--threads", default=1, show_default=True, help="Threads of both ways.")
def main(batches: tuple[int, ...], length: int, widths: tuple[int], repeats: int, threads: int) -> None:
    as_in_a_sweep(threads)
    networks, layers = [], []
    for name, width, batch in itertools.product(NETWORKS, widths, batches):
        tokens = torch.randint(0, 2, (batch, length), generator=torch.Generator().manual_seed(0))
        inputs = torch.randn(batch, length - 1, 2, generator=torch.Generator().manual_seed(0)).requires_grad_()
        models, shape = pair(name, width, tokens), {"network": name, "width": width, "sequences": batch}
        updates = {way: update(model, tokens, "cpu") for way, model in models.items()}
        networks.append(shape | compared(updates, repeats))
        layers.append(shape | compared(layers_alone(models, inputs), repeats))
        click.echo(f"{networks[-1]}\n{layers[-1]}")
    recorded = benchmarks.record(
        benchmarks.FOLDER / "recurrent.json",
        "RNN and LSTM on the CPU",
        "Networks of one layer beside nn.RNN and nn.LSTM with the same weights, milliseconds of the clock and of the "
        "processor: the shortest of updates taken in turn in one run, float32. PyTorch's modules have a second bias. "
        "Our loops take 16 sequences at a time: 48 fill them, of 50 the last two have a piece of their own.",
        {"Forward, backward and a step of Adam, the whole network": networks, "The recurrent layer alone": layers},
        packages=["torch", "numba"],
        threads=torch.get_num_threads(),
        length=length,
        repeats=repeats,
    )
    click.echo(str(recorded))


if __name__ == "__main__":
    main()
