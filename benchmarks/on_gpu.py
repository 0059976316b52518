"""On a GPU: our scans beside mamba-ssm, our networks beside cuDNN and one core, and trainings side by side.

    python benchmarks/on_gpu.py          # prints tables, writes results/benchmarks/on_gpu.json; a few minutes

Six tables, all of one run. The scan of Mamba alone, forward and backward, by plain torch, by mamba-ssm through `lib`
and, where it is short enough, by the sequential reference of mamba-ssm. RNN and LSTM beside `nn.RNN` and `nn.LSTM`,
which are cuDNN's. Updates of networks of the sweeps launched kernel by kernel, replayed as a CUDA graph, and replayed
with those of seven others in one graph. What several processes that share the GPU do together, in both ways. An update
on the GPU and on one core of the same machine with its compiled loops. And the scan of Mamba2, for which Triton first
tries its kernels for minutes. Ways of a row take turns; medians count. A table is recorded as soon as it is there.
Without mamba-ssm its columns are empty.
"""

from __future__ import annotations

import importlib.util
import multiprocessing
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any

import click
import numpy as np
import torch
from plain_networks import MAMBA2 as MAMBA2_OPTIONS
from plain_networks import NETWORKS, OURS, PLAIN, ours, theirs
from recurrent import pair
from torch import Tensor
from training import seconds_in_turn, update

from lib.models import create
from lib.models.kernels.scan import scalar, selective
from lib.models.kernels.scan.plain import chunked_scalar_decay_scan, chunked_selective_scan
from lib.report import benchmarks
from lib.training import FitSettings, NextToken, graphs
from lib.training.settings import matrix_products
from lib.training.updates import Updates

CUDA = "cuda"
TORCH, FUSED, REFERENCE = "plain torch", "mamba-ssm", "mamba-ssm, sequential reference"
LONGEST_REFERENCE = 1024
CUDNN, CORE, CARD = "nn.RNN and nn.LSTM", "one core", "GPU"
SIZES = ((8, 50, 511), (64, 50, 511), (256, 50, 511), (64, 2, 1024))  # width, batch, tokens
SIZES_OF_A_CORE = ((8, 50, 511), (64, 50, 511), (64, 2, 1024))
SLOW = 0.3  # seconds; a way that takes longer is timed once
LAUNCHED, REPLAYED, SIDE = "launched", "one graph", "eight in one graph"
MANY = 8  # networks in one graph
LEARNING = (  # of the sweeps: network, width, layers, sequences, tokens, vocabulary
    ("transformer", 32, 2, 16, 64, 2),
    ("mamba", 32, 2, 16, 64, 2),
    ("transformer", 32, 2, 8, 256, 2),
    ("mamba", 32, 2, 8, 256, 2),
    ("mamba2", 32, 2, 8, 256, 2),
    ("lstm", 64, 1, 50, 511, 2),
    ("transformer", 64, 2, 8, 1024, 1024),
    ("mamba", 64, 4, 8, 1024, 1024),
)
MAMBA, MAMBA2 = "The scan of Mamba, forward and backward", "The scan of Mamba2, forward and backward"
UPDATES, ONE_CORE = "An update of RNN and LSTM beside cuDNN", "An update on a GPU and on one core"
GRAPHS, SHARED = "An update launched and replayed", "Processes that share a GPU"
SHOWN = {
    MAMBA: "the scan of Mamba",
    UPDATES: "updates of whole networks beside cuDNN",
    GRAPHS: "updates launched kernel by kernel, as a CUDA graph, and eight networks in one graph, by network",
    SHARED: "updates a second of networks of two layers of width 32, on 8 sequences of 256 tokens, that share the GPU",
    ONE_CORE: "updates of whole networks beside one core",
    MAMBA2: "the scan of Mamba2, with full factors and with TF32",
}  # what a table is about
Run = Callable[[], Any]


def timed(function: Callable[..., Tensor], inputs: Sequence[Tensor]) -> Run:
    """Forward and backward, to the end of what the GPU has to do."""

    def run() -> None:
        torch.autograd.grad(function(*inputs).sum(), inputs)
        torch.cuda.synchronize()

    return run


def peak(run: Run) -> float:
    """MB of the GPU that one call needs beyond what is there."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    run()
    return (torch.cuda.max_memory_allocated() - before) / 1e6


def row(shape: dict[str, Any], runs: dict[str, Run], repeats: int) -> dict[str, Any]:
    """Milliseconds and megabytes of every way."""
    found = shape | {f"{name}, ms": 1e3 * value for name, value in seconds_in_turn(runs, repeats, SLOW).items()}
    return found | {f"{name}, MB": peak(run) for name, run in runs.items()}


def selective_inputs(batch: int, length: int, channels: int, size: int) -> list[Tensor]:
    torch.manual_seed(0)
    rate = -torch.arange(1.0, size + 1.0).repeat(channels, 1)
    sequences = [torch.randn(batch, length, channels), torch.rand(batch, length, channels) * 0.1]
    maps = [torch.randn(batch, length, size) for _ in range(2)]
    return [x.to(CUDA).requires_grad_() for x in (*sequences, rate, *maps, torch.ones(channels))]


def selective_scans(repeats: int) -> list[dict[str, Any]]:
    """The scan of Mamba with 16 numbers a channel."""

    def chunked(u: Tensor, *rest: Tensor) -> Tensor:
        return chunked_selective_scan(u, *rest, u.new_zeros(u.shape[0], *rest[1].shape))[0]

    found = []
    for batch, length, channels in ((8, 128, 64), (8, 1024, 128), (8, 1024, 1536), (8, 4096, 1536)):
        inputs = selective_inputs(batch, length, channels, 16)
        runs = {TORCH: timed(chunked, inputs)}
        if installed():
            from mamba_ssm.ops.selective_scan_interface import selective_scan_ref

            runs[FUSED] = timed(selective.selective_scan, inputs)

            def reference(u: Tensor, delta: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor) -> Tensor:
                return selective_scan_ref(u.mT, delta.mT, A, B.mT, C.mT, D)

            if length <= LONGEST_REFERENCE:
                runs[REFERENCE] = timed(reference, inputs)
        found.append(row({"batch": batch, "length": length, "channels": channels}, runs, repeats))
        click.echo(str(found[-1]))
    return found


def scalar_scans(repeats: int) -> list[dict[str, Any]]:
    """The scan of Mamba2; mamba-ssm rounds factors to TF32, so that plain torch is shown with and without."""
    found = []
    for batch, length, heads, width, size in ((8, 128, 4, 16, 16), (8, 1024, 24, 64, 64), (8, 4096, 24, 64, 128)):
        torch.manual_seed(0)
        parts = [torch.randn(batch, length, heads, width), torch.rand(batch, length, heads) * 0.1]
        parts += [-torch.rand(heads) - 0.1, *(torch.randn(batch, length, size) for _ in range(2)), torch.ones(heads)]
        inputs = [x.to(CUDA).requires_grad_() for x in parts]
        runs = {TORCH: timed(chunked_scalar_decay_scan, inputs)}
        runs[f"{TORCH}, TF32"] = rounded(timed(chunked_scalar_decay_scan, inputs))
        if installed():
            runs[f"{FUSED}, TF32"] = rounded(timed(scalar.scalar_decay_scan, inputs))
        shape = {"batch": batch, "length": length, "heads": heads, "of width": width, "size": size}
        found.append(row(shape, runs, repeats))
        click.echo(str(found[-1]))
    return found


def rounded(run: Run) -> Run:
    def with_rounding() -> None:
        with matrix_products("tf32"):
            run()

    return with_rounding


def beside_cudnn(repeats: int) -> list[dict[str, Any]]:
    """Updates of whole networks with the same weights."""
    found = []
    for name in ("rnn", "lstm"):
        for width, batch, length in SIZES:
            tokens = torch.randint(0, 2, (batch, length + 1), generator=torch.Generator().manual_seed(0))
            models = pair(name, width, tokens)
            runs = {
                {OURS: OURS, PLAIN: CUDNN}[way]: update(model.to(CUDA), tokens.to(CUDA), CUDA)
                for way, model in models.items()
            }
            shape = {"network": name, "width": width, "batch": batch, "tokens": length}
            found.append(row(shape, runs, repeats))
            click.echo(str(found[-1]))
    return found


def beside_one_core(repeats: int) -> list[dict[str, Any]]:
    """Milliseconds of an update of one layer, where there is a GPU and where there is none."""
    torch.set_num_threads(1)
    found = []
    for name in NETWORKS:
        for width, batch, length in SIZES_OF_A_CORE:
            tokens = torch.randint(0, 2, (batch, length + 1), generator=torch.Generator().manual_seed(0))
            runs = {CORE: update(ours(name, width, 1), tokens, "cpu")}
            runs[CARD] = update(ours(name, width, 1).to(CUDA), tokens.to(CUDA), CUDA)
            if name == "transformer":
                runs["GPT2 of transformers, GPU"] = update(
                    theirs(name, width, 1, length)["transformers"].to(CUDA), tokens.to(CUDA), CUDA
                )
            shape = {"network": name, "width": width, "batch": batch, "tokens": length}
            seconds = seconds_in_turn(runs, repeats, 1.0)
            found.append(shape | {f"{way}, ms": 1e3 * value for way, value in seconds.items()})
            found[-1]["core over GPU"] = seconds[CORE] / seconds[CARD]
            click.echo(str(found[-1]))
    return found


def updates_of(name: str, width: int, depth: int, batch: Tensor, vocabulary: int, seed: int = 0) -> Updates:
    """Updates of a network by rows (n, tokens + 1) on the GPU, after a first one."""
    options = MAMBA2_OPTIONS if name == "mamba2" else {}
    model = create(name, vocabulary, width, depth, seed=seed, **options).to(CUDA)
    settings = FitSettings(optimizer="adam", learning_rate=1e-3, clip=1.0)
    task = NextToken(batch.cpu().numpy(), batch[:1].cpu().numpy())
    found = Updates(model, task, settings, settings.make_optimizer(model.parameters()), left=10**6)
    found(batch, 1e-3, 0)
    return found


def launched_and_replayed(repeats: int) -> list[dict[str, Any]]:
    """Milliseconds of an update and network by each way."""
    found = []
    for name, width, depth, rows, length, vocabulary in LEARNING:
        random = torch.Generator().manual_seed(0)
        batch = torch.randint(0, vocabulary, (rows, length + 1), generator=random).to(CUDA)
        plain, alone, *several = (
            updates_of(*(name, width, depth, batch, vocabulary), seed) for seed in range(MANY + 2)
        )
        plain.capturing = plain.stepping = False
        graph = graphs.captured([one.branch(batch, [batch]) for one in several])
        runs = {LAUNCHED: synchronous(lambda one=plain, batch=batch: one(batch, 1e-3, 1))}
        if alone.replayed(batch):
            runs[REPLAYED] = synchronous(lambda one=alone, batch=batch: one(batch, 1e-3, 1))
        if graph is not None:
            runs[SIDE] = synchronous(lambda one=graph, batch=batch: one([[batch]] * MANY))
        seconds = seconds_in_turn(runs, 3 * repeats, SLOW)
        shape = {"network": name, "width": width, "layers": depth, "sequences": rows, "tokens": length}
        shape["vocabulary"] = vocabulary
        per = {way: value / (MANY if way == SIDE else 1) for way, value in seconds.items()}
        found.append(shape | {f"{way}, ms": 1e3 * value for way, value in per.items()})
        click.echo(str(found[-1]))
    return found


def synchronous(work: Run) -> Run:
    def run() -> None:
        work()
        torch.cuda.synchronize()

    return run


def share(name: str, barrier: Any, results: Any, updates: int) -> None:
    """One of several processes that train on the GPU at once: the seconds from a common start to its own end."""
    torch.set_num_threads(1)
    batch = torch.randint(0, 2, (8, 257), generator=torch.Generator().manual_seed(0)).to(CUDA)
    one = updates_of(name, 32, 2, batch, 2)
    for way in (LAUNCHED, REPLAYED):
        one.capturing = way == REPLAYED
        for _ in range(10):
            one(batch, 1e-3, 1)
        torch.cuda.synchronize()
        barrier.wait()
        start = time.perf_counter()
        for _ in range(updates):
            one(batch, 1e-3, 1)
        torch.cuda.synchronize()
        results.put((way, time.perf_counter() - start))
        barrier.wait()


def together(updates: int, counts: Sequence[int] = (1, 4, 12)) -> list[dict[str, Any]]:
    """Updates a second of as many small networks at once: two layers of width 32, 8 sequences of 256 tokens."""
    context = multiprocessing.get_context("spawn")
    found = []
    for name in ("transformer", "mamba"):
        for count in counts:
            barrier, results = context.Barrier(count), context.Queue()
            processes = [context.Process(target=share, args=(name, barrier, results, updates)) for _ in range(count)]
            for process in processes:
                process.start()
            seconds: dict[str, list[float]] = {LAUNCHED: [], REPLAYED: []}
            for _ in range(2 * count):
                way, taken = results.get(timeout=120)
                seconds[way].append(taken)
            for process in processes:
                process.join()
            rates = {f"updates a second, {way}": updates * count / max(taken) for way, taken in seconds.items()}
            found.append({"network": name, "processes": count} | rates)
            click.echo(str(found[-1]))
    return found


def installed() -> bool:
    return importlib.util.find_spec("mamba_ssm") is not None


def description(tables: Collection[str]) -> str:
    """What the tables of these titles show, and what of the six is not there. ValueError for another title."""
    if other := [title for title in tables if title not in SHOWN]:
        raise ValueError(f"tables: titles out of {list(SHOWN)} are allowed, got {other}")
    there, missing = ([SHOWN[title] for title in SHOWN if (title in tables) is wanted] for wanted in (True, False))
    text = (
        f"On a GPU, float32 with full factors where nothing else is said: {'; '.join(there)}. "
        "Median of calls taken in turn in one run; MB: what one call needs beyond what is there."
    )
    return text + (f" Not timed yet: {'; '.join(missing)}." if missing else "")


@click.command(help=__doc__)
@click.option("--repeats", default=15, show_default=True, help="Timed calls; the median counts.")
@click.option("--updates", default=150, show_default=True, help="Of every process that shares the GPU.")
def main(repeats: int, updates: int) -> None:
    if not torch.cuda.is_available():
        raise click.ClickException(f"CUDA finds no GPU (torch {torch.__version__})")
    tables: dict[str, list[dict[str, Any]]] = {}
    with matrix_products("float32"):
        for title, rows in (
            (MAMBA, lambda: selective_scans(repeats)),
            (UPDATES, lambda: beside_cudnn(repeats)),
            (GRAPHS, lambda: launched_and_replayed(repeats)),
            (SHARED, lambda: together(updates)),
            (ONE_CORE, lambda: beside_one_core(min(repeats, 7))),
            (MAMBA2, lambda: scalar_scans(repeats)),  # last: Triton tries its kernels for minutes
        ):
            tables[title] = rows()
            where = benchmarks.record(
                benchmarks.FOLDER / "on_gpu.json",
                "On a GPU",
                description(tables),
                tables,
                packages=["triton", "transformers", *(["mamba-ssm"] if installed() else [])],
                repeats=repeats,
                cudnn=torch.backends.cudnn.version(),
                matrix_product_tflops=matrix_rate(),
            )
    click.echo(str(where))


def matrix_rate() -> float:
    """10^12 operations a second of float32 products with full factors, the ceiling of what is above."""
    a, b = (torch.randn(4096, 4096, device=CUDA) for _ in range(2))
    seconds = seconds_in_turn({"product": lambda: ((a @ b), torch.cuda.synchronize())}, 10, 5.0)["product"]
    return float(np.round(2 * 4096**3 / seconds / 1e12, 1))


if __name__ == "__main__":
    main()
