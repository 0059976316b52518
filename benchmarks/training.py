"""Training: tokens per second of every architecture, beside PyTorch's modules and transformers.

    python benchmarks/training.py            # prints tables, writes results/benchmarks/training.json

One update is forward, backward and a step of Adam on binary tokens. The ways of one network take turns, so that a busy
machine slows them alike; medians count. A way that takes longer than --patience seconds per update is timed once, and
the sequential path of transformers' Mamba only up to --sequential-width and one layer. OMP_NUM_THREADS sets the threads
of all ways. CUDA is timed too, if it is there.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import click
import numpy as np
import torch
import torch.nn.functional as F
from plain_networks import LIBRARY, NETWORKS, OURS, devices, finish, logits, ours, theirs
from timing import as_in_a_sweep

from lib.report import benchmarks

SHORTEST = 0.01  # seconds of a turn, at least


def update(model: Any, tokens: torch.Tensor, device: str) -> Callable[[], None]:
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)

    def run() -> None:
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(logits(model, tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten()).backward()
        optimizer.step()
        finish(device)

    return run


def seconds_in_turn(runs: dict[str, Callable[[], Any]], repeats: int, patience: float) -> dict[str, float]:
    """Median seconds of each, of several calls at once where they are short.

    The first call, which compiles, does not count, but stays the only one if it was slow.
    """
    times: dict[str, list[float]] = {name: [] for name in runs}
    calls, slow = dict.fromkeys(runs, 1), set()
    for repeat in range(repeats + 1):
        for name, run in runs.items():
            if name in slow:
                continue
            start = time.perf_counter()
            for _ in range(calls[name]):
                run()
            taken = (time.perf_counter() - start) / calls[name]
            calls[name] = max(1, int(SHORTEST / max(taken, 1e-7)))
            if repeat == 0 and taken > patience and name != OURS:
                slow.add(name)
            if repeat or name in slow:
                times[name].append(taken)
    return {name: float(np.median(values)) for name, values in times.items()}


@click.command(help=__doc__)
@click.option("--batch", default=50, show_default=True, help="Sequences in a batch.")
@click.option("--length", default=512, show_default=True, help="Tokens of a sequence.")
@click.option("--width", "widths", multiple=True, default=(16, 64), show_default=True, help="Widths.")
@click.option("--depth", "depths", multiple=True, default=(1, 2), show_default=True, help="Numbers of layers.")
@click.option("--repeats", default=5, show_default=True, help="Timed updates; the median counts.")
@click.option("--sequential-width", default=16, show_default=True, help="Largest width of transformers' slow path.")
@click.option("--patience", default=10.0, show_default=True, help="Seconds from which one timed update is enough.")
def main(
    batch: int,
    length: int,
    widths: tuple[int],
    depths: tuple[int],
    repeats: int,
    sequential_width: int,
    patience: float,
) -> None:
    as_in_a_sweep(torch.get_num_threads())
    tables: dict[str, list[dict[str, Any]]] = {}
    counts: list[dict[str, Any]] = []
    for device in devices():
        rows = tables.setdefault(f"Thousand tokens a second, {device}", [])
        for name in NETWORKS:
            for width, depth in [(width, depth) for width in widths for depth in depths]:
                models = {OURS: ours(name, width, depth), **theirs(name, width, depth, length)}
                if name == "mamba" and (width > sequential_width or depth > 1):
                    del models[LIBRARY]
                shape = {"network": name, "width": width, "layers": depth}
                tokens = torch.randint(0, 2, (batch, length), generator=torch.Generator().manual_seed(0)).to(device)
                runs = {way: update(model.to(device).train(), tokens, device) for way, model in models.items()}
                seconds = seconds_in_turn(runs, repeats, patience)
                rows.append(shape | {way: 1e-3 * batch * (length - 1) / value for way, value in seconds.items()})
                if device == "cpu":
                    sizes = {way: sum(p.numel() for p in model.parameters()) for way, model in models.items()}
                    counts.append(shape | sizes)
                click.echo(str(rows[-1]))
    recorded = benchmarks.record(
        benchmarks.FOLDER / "training.json",
        "Training",
        "Forward, backward and one step of Adam, median of updates taken in turn in one run. nn.RNN and nn.LSTM have "
        "a second bias, GPT2 learned positions; transformers' Mamba is its sequential path unless mambapy is named.",
        tables | {"Parameters": counts},
        packages=["transformers", "mambapy"],
        threads=torch.get_num_threads(),
        batch=batch,
        length=length,
        repeats=repeats,
    )
    click.echo(str(recorded))


if __name__ == "__main__":
    main()
