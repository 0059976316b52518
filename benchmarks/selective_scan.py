"""Mamba on the CPU: our scan and models beside those one would install, forward and backward.

    python benchmarks/selective_scan.py          # prints tables, writes results/benchmarks/selective_scan.json

Three tables: the scan alone, whole networks of two layers, and peak memory against length. All ways of one table take
turns, so that a busy machine slows them alike; medians count. The sequential path of transformers is timed once, in
networks only up to --sequential-length. Memory is measured on Linux. OMP_NUM_THREADS sets the threads of all ways.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
import torch.nn.functional as F
import transformers
from mambapy.pscan import pscan
from timing import as_in_a_sweep
from torch import Tensor, nn
from transformers.models.mamba.modeling_mamba import mamba_selective_scan

from lib.models import LSTM, Mamba, Mamba2
from lib.models.interchange import configuration
from lib.models.kernels.scan import selective_scan
from lib.models.kernels.scan.plain import chunked_selective_scan, sequential_selective_scan
from lib.report import benchmarks

Run = Callable[[], Any]
SIZE, CHANNELS = 16, 128  # of the scan in a Mamba of width 64
OURS, SEQUENTIAL = "ours", "transformers, sequential"


class PlainLSTM(nn.Module):
    """nn.LSTM between an embedding of the full width and a head."""

    def __init__(self, vocabulary: int, width: int, depth: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.layers = nn.LSTM(width, width, depth, batch_first=True)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.layers(self.embedding(tokens))[0])


def scan_inputs(batch: int, length: int) -> list[Tensor]:
    """Values as at the start of training; all with gradients."""
    torch.manual_seed(0)
    rate = -torch.arange(1.0, SIZE + 1.0).repeat(CHANNELS, 1)
    sequences = [torch.randn(batch, length, CHANNELS), torch.rand(batch, length, CHANNELS) * 0.1]
    maps = [torch.randn(batch, length, SIZE) for _ in range(2)]
    return [x.requires_grad_() for x in (*sequences, rate, *maps, torch.ones(CHANNELS))]


def scan_of_mambapy(u: Tensor, delta: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor) -> Tensor:
    """As in mambapy's own MambaBlock."""
    states = pscan((delta[..., None] * A).exp(), (delta * u)[..., None] * B[:, :, None])
    return (states @ C[..., None]).squeeze(-1) + D * u


def scan_of_transformers(u: Tensor, delta: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor) -> Tensor:
    """The path it takes without further packages; its tensors have time as last axis."""
    u_, delta_, B_, C_ = (x.transpose(1, 2) for x in (u, delta, B, C))
    return mamba_selective_scan(u_, delta_, A, B_, C_, D).transpose(1, 2)


def from_zero(scan: Callable[..., tuple[Tensor, Tensor]]) -> Callable[..., Tensor]:
    return lambda u, *rest: scan(u, *rest, u.new_zeros(u.shape[0], CHANNELS, SIZE))[0]


SCANS: dict[str, Callable[..., Tensor]] = {
    OURS: selective_scan,
    "mambapy, parallel": scan_of_mambapy,
    "torch, chunked": from_zero(chunked_selective_scan),
    "torch, sequential": from_zero(sequential_selective_scan),
    SEQUENTIAL: scan_of_transformers,
}


def scan_runs(batch: int, length: int) -> dict[str, Run]:
    inputs = scan_inputs(batch, length)
    return {name: lambda scan=scan: torch.autograd.grad(scan(*inputs).sum(), inputs) for name, scan in SCANS.items()}


def model_runs(batch: int, length: int, width: int, depth: int) -> dict[str, Run]:
    mamba, mamba2 = Mamba(2, width, depth), Mamba2(2, width, depth)

    def theirs(model: Any, **options: Any) -> Any:
        if model is mamba:
            return transformers.MambaForCausalLM(transformers.MambaConfig(**configuration(mamba), **options))
        return transformers.Mamba2ForCausalLM(transformers.Mamba2Config(**configuration(mamba2)))

    models = {
        "Mamba, ours": mamba,
        "Mamba, transformers with mambapy": theirs(mamba, use_mambapy=True),
        "Mamba, " + SEQUENTIAL: theirs(mamba, use_associative_scan=False),
        "Mamba2, ours": mamba2,
        "Mamba2, transformers": theirs(mamba2),
        "LSTM, ours": LSTM(2, width, depth, embedding=width),
        "LSTM, nn.LSTM": PlainLSTM(2, width, depth),
    }
    tokens = torch.randint(0, 2, (batch, length + 1), generator=torch.Generator().manual_seed(0))

    def step(model: Any) -> None:
        model.zero_grad()
        if isinstance(model, transformers.PreTrainedModel):
            logits = model(tokens[:, :-1], use_cache=False).logits
        else:
            logits = model(tokens[:, :-1])
        F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()).backward()

    return {name: lambda model=model: step(model.train()) for name, model in models.items()}


def median_milliseconds(runs: dict[str, Run], repeats: int, once: str = "") -> dict[str, float]:
    """Of every run, in turns; the first of each is not counted, except for `once`, which runs only that time."""
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(repeats + 1):
        for name, run in runs.items():
            slow = bool(once) and name.endswith(once)
            if turn > 0 and slow:
                continue
            start = time.perf_counter()
            run()
            if turn > 0 or slow:
                taken[name].append(1e3 * (time.perf_counter() - start))
    return {name: float(np.median(values)) for name, values in taken.items()}


def timings(
    runs: Callable[[int], dict[str, Run]],
    lengths: list[int],
    repeats: int,
    sequential_length: int,
    baselines: list[str],
) -> list[dict[str, Any]]:
    """Milliseconds by way and length, and how many times those of the baselines at the largest length they share."""
    columns: dict[int, dict[str, float]] = {}
    for length in lengths:
        chosen = runs(length)
        if length > sequential_length:
            chosen = {name: run for name, run in chosen.items() if not name.endswith(SEQUENTIAL)}
        columns[length] = median_milliseconds(chosen, repeats, once=SEQUENTIAL)
        click.echo(f"{length}: " + ", ".join(f"{name} {value:.1f}" for name, value in columns[length].items()))
    rows = []
    for name in columns[lengths[0]]:
        row: dict[str, Any] = {"way": name} | {f"L = {n}, ms": columns[n].get(name) for n in lengths}
        last = max(n for n in lengths if name in columns[n])
        rows.append(row | {f"times {one}": columns[last][name] / columns[last][one] for one in baselines})
    return rows


def peak_memory(way: str, batch: int, length: int) -> float:
    """Megabytes that one scan with gradients adds to the largest resident size of a fresh process."""
    command = [sys.executable, __file__, "--measure-memory", way, "--lengths", str(length), "--batch", str(batch)]
    # glibc then gives large freed blocks back at once; otherwise what is measured is its habit of keeping them
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "1000000"}
    return float(subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout)


def measure_memory(way: str, batch: int, length: int) -> float:
    """The same in this process: Linux forgets the peak so far when told to."""
    for size in (8, length):  # the first run compiles
        inputs = scan_inputs(batch, size)
        Path("/proc/self/clear_refs").write_text("5")
        before = resident_megabytes("VmRSS")
        torch.autograd.grad(SCANS[way](*inputs).sum(), inputs)
    return resident_megabytes("VmHWM") - before


def resident_megabytes(field: str) -> float:
    status = Path("/proc/self/status").read_text()
    return float(next(line.split()[1] for line in status.splitlines() if line.startswith(field))) / 1e3


def memory_rows(batch: int, lengths: list[int]) -> list[dict[str, Any]]:
    rows = []
    for length in lengths:
        row: dict[str, Any] = {"length": length, "all states, MB": batch * length * CHANNELS * SIZE * 4e-6}
        for way in SCANS:
            if way == OURS or (way != SEQUENTIAL and length <= 4096):
                row[f"{way}, MB"] = peak_memory(way, batch, length)
        rows.append(row)
        click.echo(str(row))
    return rows


@click.command(help=__doc__)
@click.option("--batch", default=4, show_default=True, help="Sequences in a batch.")
@click.option("--width", default=64, show_default=True, help="Width of the networks.")
@click.option("--depth", default=2, show_default=True, help="Layers of the networks.")
@click.option("--lengths", default="256,1024", show_default=True, help="Lengths of the sequences.")
@click.option("--repeats", default=9, show_default=True, help="Timed repeats; the median counts.")
@click.option("--sequential-length", default=256, show_default=True, help="Longest for the slowest network.")
@click.option("--measure-memory", default="", hidden=True)
def main(
    batch: int, width: int, depth: int, lengths: str, repeats: int, sequential_length: int, measure_memory: str
) -> None:
    as_in_a_sweep(torch.get_num_threads())
    sizes = [int(length) for length in lengths.split(",")]
    if measure_memory:
        click.echo(str(globals()["measure_memory"](measure_memory, batch, sizes[0])))
        return
    scans = timings(lambda n: scan_runs(batch, n), sizes, repeats, max(sizes), [OURS])
    networks = timings(
        lambda n: model_runs(batch, n, width, depth),
        sizes,
        repeats,
        sequential_length,
        ["Mamba, ours", "LSTM, nn.LSTM"],
    )
    tables = {
        f"The scan alone, forward and backward, {CHANNELS} channels of {SIZE} states": scans,
        f"Networks of {depth} layers of width {width}, one step of training without the optimiser": networks,
    }
    if sys.platform == "linux":
        tables["Peak memory of the scan with its gradients"] = memory_rows(batch, [1024, 4096, 16384])
    recorded = benchmarks.record(
        benchmarks.FOLDER / "selective_scan.json",
        "Mamba on the CPU",
        "The selective scan, and networks with it, beside mambapy, transformers and nn.LSTM; median milliseconds in "
        "one run in which all take turns, float32. Missing entries take minutes or do not fit.",
        tables,
        packages=("torch", "numba", "transformers", "mambapy"),
        threads=torch.get_num_threads(),
        batch=batch,
        repeats=repeats,
    )
    click.echo(str(recorded))


if __name__ == "__main__":
    main()
