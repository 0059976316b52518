"""Generation: tokens per second of every architecture, beside PyTorch's modules and transformers' generate.

    python benchmarks/generation.py          # prints a table, writes results/benchmarks/generation.json

All draw binary tokens one by one from the model's distribution, with a cache where there is one; PyTorch's encoder has
none and reads the text anew for every token. An RNN or LSTM steps by nn.RNN and nn.LSTM, and by the cells that PyTorch
has for single steps, with the same weights. The ways of one network take turns; medians count. A way that takes
longer than --patience seconds is timed once. OMP_NUM_THREADS sets the threads. CUDA is timed too, if it is there.

A second table has texts of 128 characters in long rows. There a Transformer, once its context of 256 is full, reads the
latest half of it anew.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import click
import torch
import transformers
from plain_networks import NETWORKS, OURS, PARALLEL, PLAIN, PlainRecurrent, devices, finish, ours, theirs
from timing import as_in_a_sweep
from training import seconds_in_turn

from lib.models import create
from lib.report import benchmarks
from lib.training import generate

CHARACTERS, CONTEXT = 128, 256  # of a text: how many kinds there are, and how many a Transformer is trained on
CELLS = "PyTorch cells"
WRITERS = ("lstm", "transformer", "mamba")


def drawn(logits: torch.Tensor) -> torch.Tensor:
    return torch.multinomial(logits.softmax(dim=-1), 1)[:, 0]


def write(model: Any, batch: int, length: int, device: str) -> Callable[[], None]:
    """A call that draws `batch` sequences."""
    start = torch.randint(0, 2, (batch, 1), generator=torch.Generator().manual_seed(0)).to(device)

    def by_transformers() -> None:
        text = model.generate(
            start, attention_mask=torch.ones_like(start), do_sample=True, top_k=0, use_cache=True,
            min_new_tokens=length - 1, max_new_tokens=length - 1, pad_token_id=0,
        )  # fmt: skip
        assert text.shape == (batch, length)
        finish(device)

    @torch.no_grad()
    def step_by_step() -> None:
        token, state = start[:, 0], None
        for _ in range(length - 1):
            logits, state = model.step(token, state)
            token = drawn(logits)
        finish(device)

    @torch.no_grad()
    def reading_again() -> None:
        text = start
        for _ in range(length - 1):
            text = torch.cat([text, drawn(model(text)[:, -1])[:, None]], dim=1)
        finish(device)

    if isinstance(model, transformers.PreTrainedModel):
        return by_transformers
    return step_by_step if isinstance(model, PlainRecurrent) else reading_again


class Cells(PlainRecurrent):
    """The same network, whose steps are nn.RNNCell or nn.LSTMCell, made for single steps."""

    def __init__(self, plain: PlainRecurrent) -> None:
        torch.nn.Module.__init__(self)
        self.embedding, self.head = plain.embedding, plain.head
        kind = {torch.nn.RNN: torch.nn.RNNCell, torch.nn.LSTM: torch.nn.LSTMCell}[type(plain.layers)]
        sizes = [plain.layers.input_size] + [plain.layers.hidden_size] * (plain.layers.num_layers - 1)
        self.cells = torch.nn.ModuleList(kind(size, plain.layers.hidden_size) for size in sizes)
        for layer, cell in enumerate(self.cells):
            weights = {name: getattr(plain.layers, f"{name}_l{layer}") for name, _ in cell.named_parameters()}
            cell.load_state_dict(weights)

    def step(self, token: torch.Tensor, state: Any) -> tuple[torch.Tensor, Any]:
        mixed, states = self.embedding(token), []
        for cell, before in zip(self.cells, state or [None] * len(self.cells), strict=True):
            states.append(cell(mixed, before))
            mixed = states[-1][0] if isinstance(cell, torch.nn.LSTMCell) else states[-1]
        return self.head(mixed), states


def with_cells(others: dict[str, Any]) -> dict[str, Any]:
    """These ways, and that of cells where a network has them; RuntimeError if its logits are others."""
    plain = others.get(PLAIN)
    if not isinstance(plain, PlainRecurrent):
        return others
    cells, tokens = Cells(plain), torch.tensor([0, 1, 1])
    with torch.no_grad():
        (first, ours), (second, theirs) = cells.step(tokens, None), plain.step(tokens, None)
        for one, other in ((first, second), (cells.step(tokens, ours)[0], plain.step(tokens, theirs)[0])):
            if not torch.allclose(one, other, atol=1e-5):
                raise RuntimeError(f"cells have other logits than modules, by {float((one - other).abs().max())}")
    return others | {CELLS: cells}


def written(name: str, width: int, rows: int, length: int, device: str, repeats: int, patience: float) -> float:
    """Thousand characters per second of one network that writes a text."""
    model = create(name, CHARACTERS, width, **({"embedding": 64} if name == "lstm" else {})).to(device).eval()
    context = CONTEXT if model.positions else None
    call = partial(generate, model, rows, length, 0, batch=rows, context=context, device=device)
    return 1e-3 * rows * length / seconds_in_turn({OURS: call}, repeats, patience)[OURS]


@click.command(help=__doc__)
@click.option("--batch", default=100, show_default=True, help="Sequences generated together.")
@click.option("--length", default=256, show_default=True, help="Tokens of a sequence.")
@click.option("--width", "widths", multiple=True, default=(16, 64), show_default=True, help="Widths.")
@click.option("--depth", "depths", multiple=True, default=(1, 2), show_default=True, help="Numbers of layers.")
@click.option("--repeats", default=3, show_default=True, help="Timed runs; the median counts.")
@click.option("--patience", default=10.0, show_default=True, help="Seconds from which one timed run is enough.")
def main(batch: int, length: int, widths: tuple[int], depths: tuple[int], repeats: int, patience: float) -> None:
    as_in_a_sweep(torch.get_num_threads())
    tables: dict[str, list[dict[str, Any]]] = {}
    for device in devices():
        rows = tables.setdefault(f"Thousand tokens a second, {device}", [])
        for name in NETWORKS:
            for width, depth in [(width, depth) for width in widths for depth in depths]:
                model = ours(name, width, depth).to(device).eval()
                runs = {OURS: partial(generate, model, batch, length, 0, batch=batch, device=device)}
                others = with_cells(theirs(name, width, depth, length))
                others.pop(PARALLEL, None)  # the scan of a whole text plays no part in a step
                runs |= {way: write(other.to(device).eval(), batch, length, device) for way, other in others.items()}
                seconds = seconds_in_turn(runs, repeats, patience)
                speeds = {way: 1e-3 * batch * (length - 1) / value for way, value in seconds.items()}
                rows.append({"network": name, "width": width, "layers": depth} | speeds)
                click.echo(str(rows[-1]))
        texts = tables.setdefault(f"Thousand characters per second of a text, {device}", [])
        for name in WRITERS:
            for width in widths:
                speed = written(name, width, batch, 4 * length, device, repeats, patience)
                texts.append({"network": name, "width": width, OURS: speed})
                click.echo(str(texts[-1]))
    recorded = benchmarks.record(
        benchmarks.FOLDER / "generation.json",
        "Generation",
        "Drawing binary tokens one by one, median of runs taken in turn. PyTorch's TransformerEncoder has no cache and "
        "reads the text anew for every token. Cells are nn.RNNCell and nn.LSTMCell.",
        tables,
        packages=["transformers"],
        threads=torch.get_num_threads(),
        batch=batch,
        length=length,
        repeats=repeats,
    )
    click.echo(str(recorded))


if __name__ == "__main__":
    main()
