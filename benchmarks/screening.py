"""Attention to past states on the CPU: compiled loops beside the same steps in PyTorch, and beside PyTorch's LSTM.

    python benchmarks/screening.py            # prints tables, writes results/benchmarks/screening.json

Two tables over the length of sequences: milliseconds of the processor for an update, which is forward, backward and a
step of Adam on one thread, and the bytes that a forward pass keeps for the way back, weights aside. Both forms have the
same weights and have to give the same logits before they are timed. The bytes of PyTorch's steps are counted on the
device `meta`, which computes nothing: MemRNN would need gigabytes. Ways take turns, and of each the
shortest time counts.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import click
import torch
from recurrent import compared
from timing import as_in_a_sweep
from torch import Tensor
from training import update

from lib.models import create
from lib.models.catalogue import NAMES
from lib.models.kernels.screening import cell
from lib.models.recurrent import backtracking, gated_orthogonal, orthogonal, screening
from lib.report import benchmarks

NETWORKS = ("orth_rnn", "rel_rnn", "mem_rnn", "rel_lstm", "mem_lstm", "sab", "goru")
COMPILED, PLAIN, FUSED = "ours", "PyTorch modules", "PyTorch's LSTM"
KEPT = ("rel_rnn", "mem_rnn")
SYMBOLS, ALIKE = 10, 1e-4
GATED_FORWARD = gated_orthogonal.GatedOrthogonalLayer.forward


def stepped(*arguments: Any, trace: bool = False, **options: Any) -> cell.Screened:
    """The steps of torch, called as the compiled loop is."""
    return cell.stepped(*arguments, **options)


def stepped_layer(layer: backtracking.BacktrackingLayer, x: Tensor) -> Tensor:
    """Outputs by the steps of torch, with gradients or without."""
    return layer.stepped(x)[0]


def stepped_gates(layer: gated_orthogonal.GatedOrthogonalLayer, x: Tensor, hidden: Tensor | None = None) -> Tensor:
    """The same for a gated layer, which goes by steps from a state that it is given."""
    return GATED_FORWARD(layer, x, x.new_zeros(x.shape[0], layer.width) if hidden is None else hidden)


@contextlib.contextmanager
def step_by_step() -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for room in (screening, orthogonal):
            stack.enter_context(mock.patch.object(room, "screening", stepped))
        stack.enter_context(mock.patch.object(backtracking.BacktrackingLayer, "forward", stepped_layer))
        stack.enter_context(mock.patch.object(gated_orthogonal.GatedOrthogonalLayer, "forward", stepped_gates))
        yield


def plainly(run: Callable[[], Any]) -> Callable[[], Any]:
    """The same with torch's steps."""

    def slowly() -> Any:
        with step_by_step():
            return run()

    return slowly


def refuse_unlike(name: str, model: Any, tokens: Tensor) -> None:
    """RuntimeError if both forms are not one function."""
    difference = float((model(tokens) - plainly(lambda: model(tokens))()).detach().abs().max())
    if not difference < ALIKE:
        raise RuntimeError(f"{name}: logits differ by {difference}, at most {ALIKE} is allowed")


def bytes_kept(model: Any, tokens: Tensor) -> int:
    """Bytes of all that a forward pass keeps for the way back, each storage once, weights left out."""
    kept: dict[int, Any] = {}

    def pack(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage()._cdata] = tensor.untyped_storage()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        out = model(tokens)
    own = {x.untyped_storage()._cdata for x in (*model.parameters(), *model.buffers())}
    del out
    return sum(storage.nbytes() for name, storage in kept.items() if name not in own)


def memory(name: str, width: int, tokens: Tensor) -> dict[str, int]:
    """Bytes by form."""
    model = create(name, SYMBOLS, width, seed=0)
    if name not in KEPT:
        return {FUSED: bytes_kept(model, tokens)}
    with step_by_step():
        plain = bytes_kept(create(name, SYMBOLS, width, seed=0).to("meta"), tokens.to("meta"))
    return {COMPILED: bytes_kept(model, tokens), PLAIN: plain}


def memory_table(width: int, batch: int, lengths: tuple[int, ...]) -> list[dict[str, Any]]:
    """Megabytes at each length, and the exponent over the last step of lengths."""
    rows = []
    for name in (*KEPT, "lstm"):
        found = [memory(name, width, tokens_of(batch, length)) for length in lengths]
        for form in found[0]:
            row: dict[str, Any] = {"network": NAMES[name], "form": form}
            row |= {f"T = {length}": one[form] / 1e6 for length, one in zip(lengths, found, strict=True)}
            if len(lengths) > 1:
                growth = math.log(found[-1][form] / found[-2][form]) / math.log(lengths[-1] / lengths[-2])
                row["exponent at the end"] = growth
            rows.append(row)
    return rows


def tokens_of(batch: int, length: int) -> Tensor:
    return torch.randint(0, SYMBOLS, (batch, length), generator=torch.Generator().manual_seed(0))


def timed(name: str, width: int, tokens: Tensor, repeats: int, plain: bool) -> dict[str, Any]:
    """One row of times."""
    model = create(name, SYMBOLS, width, seed=0)
    run = update(model, tokens, "cpu")
    if plain:
        refuse_unlike(name, model, tokens)
    other = plainly(run) if plain else run  # twice the same way, if the other is not asked for
    found = compared({COMPILED: run, PLAIN: other}, repeats)
    return {key: value for key, value in found.items() if key.endswith("processor") and (plain or COMPILED in key)}


@click.command(help=__doc__)
@click.option("--batch", default=10, show_default=True, help="Sequences in a batch.")
@click.option("--width", default=128, show_default=True, help="Hidden units.")
@click.option("--length", "lengths", multiple=True, default=(100, 200, 400, 800), show_default=True, help="Lengths.")
@click.option("--plain-longest", default=200, show_default=True, help="Longest sequences timed step by step.")
@click.option("--repeats", default=3, show_default=True, help="Turns of each way; the shortest time counts.")
def main(batch: int, width: int, lengths: tuple[int, ...], plain_longest: int, repeats: int) -> None:
    as_in_a_sweep()
    times = []
    for name in (*NETWORKS, "lstm"):
        for length in lengths:
            plain = name in NETWORKS and length <= plain_longest
            row = timed(name, width, tokens_of(batch, length + 1), repeats, plain)
            times.append({"network": NAMES[name], "T": length} | row)
            click.echo(str(times[-1]))
    kept = memory_table(width, batch, lengths)
    for row in kept:
        click.echo(str(row))
    recorded = benchmarks.record(
        benchmarks.FOLDER / "screening.json",
        "Attention to past states on the CPU",
        "RNNs and LSTMs that attend to all their past states (mem), to 10 last and 10 screened ones (rel), or to the "
        "best 9 of every second one (SAB), and GORU, which attends to none: compiled loops beside the same steps in "
        "PyTorch, with the same weights, float32. Times are milliseconds of the processor, the shortest of updates "
        "taken in turn in one run on one thread. "
        "Our LSTM of this width is PyTorch's own.",
        {"Forward, backward and a step of Adam": times, "Megabytes kept for the way back": kept},
        packages=["torch", "numba"],
        threads=torch.get_num_threads(),
        batch=batch,
        width=width,
        repeats=repeats,
    )
    click.echo(str(recorded))


if __name__ == "__main__":
    main()
