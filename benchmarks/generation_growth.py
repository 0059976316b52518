"""Generation: processor time of a token by its position in the text, with a cache and without.

    python benchmarks/generation_growth.py   # prints tables, writes results/benchmarks/generation_growth.json

Models of one width and one layer draw binary tokens one by one. The text is cut into stretches of equal length; a
stretch counts with the lower quartile of its tokens' times, since what disturbs a clock only adds, and with the median
over runs, in which the models take turns. Time is that of the one thread, not that on the wall. A Transformer without
its cache reads the text again for every token, so that its text is shorter and its sequences are fewer.
"""

from __future__ import annotations

from typing import Any

import click
import numpy as np
import torch
from numpy.typing import NDArray
from timing import as_in_a_sweep

from experiments.history_states.cost import Rereading, token_seconds
from lib.models import create
from lib.report import benchmarks

NAMES = ["rnn", "lstm", "transformer", "sliding_window", "linear_attention", "mamba", "mamba2"]
OPTIONS: dict[str, dict[str, int]] = {"sliding_window": {"window": 64}, "mamba2": {"size": 16, "head_width": 16}}
UNIT = "µs a token of one sequence"


def by_stretch(seconds: NDArray[np.float64], stretches: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Middle positions of the stretches, and the typical time of a token in each; seconds (runs, tokens - 1)."""
    parts = np.array_split(np.arange(seconds.shape[1]), stretches)
    typical = [np.quantile(seconds[:, part], 0.25, axis=1) for part in parts]
    return np.array([part.mean() + 2 for part in parts]), np.median(typical, axis=1)


@click.command(help=__doc__)
@click.option("--width", default=64, show_default=True, help="Of every model.")
@click.option("--batch", default=64, show_default=True, help="Sequences generated together.")
@click.option("--length", default=2048, show_default=True, help="Tokens of a sequence.")
@click.option("--reread", default=256, show_default=True, help="Tokens without a cache, an eighth of the sequences.")
@click.option("--stretches", default=16, show_default=True, help="Of a text.")
@click.option("--repeats", default=5, show_default=True, help="Timed runs; the median counts.")
def main(width: int, batch: int, length: int, reread: int, stretches: int, repeats: int) -> None:
    as_in_a_sweep()
    models = {name: create(name, 2, width, 1, seed=0, **OPTIONS.get(name, {})).eval() for name in NAMES}
    runs: dict[str, tuple[Any, int, int]] = {name: (model, batch, length) for name, model in models.items()}
    runs["no cache"] = Rereading(models["transformer"]), max(1, batch // 8), reread
    for model, rows, _ in runs.values():
        token_seconds(model, rows, 16)  # the first call is slower
    found: dict[str, list[Any]] = {name: [] for name in runs}
    for repeat in range(repeats):
        for name, (model, rows, tokens) in runs.items():
            found[name].append(1e6 * token_seconds(model, rows, tokens, repeat) / rows)
            click.echo(f"run {repeat + 1} of {name}: mean {found[name][-1].mean():.3g} {UNIT}")
    tables: dict[str, list[dict[str, Any]]] = {}
    for title, names in ((UNIT, NAMES), (f"{UNIT}, without a cache", ["no cache"])):
        typical = {name: by_stretch(np.array(found[name]), stretches) for name in names}
        places = typical[names[0]][0].tolist()
        tables[title] = [
            {"position": place, **{name: float(times[row]) for name, (_, times) in typical.items()}}
            for row, place in enumerate(places)
        ]
    recorded = benchmarks.record(
        benchmarks.FOLDER / "generation_growth.json",
        "Generation by position",
        "Processor time of a token by its position in the text: lower quartile of a stretch, median of runs taken in "
        "turn. Without a cache a Transformer reads the text again for every token.",
        tables,
        threads=torch.get_num_threads(),
        width=width,
        layers=1,
        batch=batch,
        length=length,
        window=OPTIONS["sliding_window"]["window"],
        repeats=repeats,
    )
    click.echo(str(recorded))


if __name__ == "__main__":
    main()
