"""Figures of what is inside networks that recall: where attention lies, and what gradients reach by which paths."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from experiments.recall.inside.relevance import BINS, GLANCES
from experiments.recall.runs import RecallRun, best_recipe, delays, of_network
from lib.report import figures

WHEN = (("before", "untrained"), ("after", "trained"))


def watched(runs: Iterable[RecallRun]) -> list[RecallRun]:
    """The RelRNN whose attention is shown, of the shortest delay, best recipe and first seed; none where none is."""
    seen = [run for run in of_network(runs, "rel_rnn") if "attention" in run.inside("after")]
    return [best_recipe([run for run in seen if run.delay == delays(seen)[0]])[0]] if seen else []


def draw_attention(axes: Axes, run: RecallRun) -> Any:
    """At each step of recall (down), the share of attention on each symbol (across); returns the image."""
    shares = np.array(run.inside("after")["attention"]["on_each_symbol"], dtype=np.float64)
    first, last = 0.5, len(shares) + 0.5
    image = axes.imshow(shares, extent=(first, last, last, first))
    axes.set(xlabel=f"place of the symbol\n({run.task}, T = {run.delay})", ylabel="step of recall")
    axes.grid(visible=False)
    return image


def draw_lags(axes: Axes, run: RecallRun) -> None:
    """Share of all attention by how many steps ago a state was, before and after training."""
    for (when, label), style in zip(WHEN, figures.styles(2), strict=True):
        shares = run.inside(when)["attention"]["by_lag"]
        axes.plot(range(len(shares)), shares, **style, markersize=3, label=label)
    axes.set(xlabel=f"steps ago\n({run.task}, T = {run.delay})", ylabel="share of attention", ylim=(0, None))


def draw_gradients(
    axes: Axes, runs: Iterable[RecallRun], *, buffer: int | None = None, relevant: int | None = None
) -> None:
    """Fig. 3: ln of the gradient by distance of RelLSTM, a line for each size of what is not held; every seed.

    Give the size of the buffer or of the set that is held.
    """
    held = {"buffer": buffer} if relevant is None else {"relevant": relevant}
    (fixed, size), free = next(iter(held.items())), "relevant" if relevant is None else "buffer"
    cells: dict[int, list[RecallRun]] = {}
    for run in runs:
        options = run.parameters["options"]
        if run.architecture == "rel_lstm" and "gradient_norms" in run.inside("after") and options.get(fixed) == size:
            cells.setdefault(options[free], []).append(run)
    for (number, some), style in zip(sorted(cells.items()), figures.ordered_styles(len(cells)), strict=True):
        look = {"color": style["color"], "linestyle": style["linestyle"], "linewidth": 0.9}
        for place, run in enumerate(some):
            axes.plot(run.inside("after")["gradient_norms"], **look, label=f"{number}" if place == 0 else None)
    symbol = r"$\rho$" if free == "relevant" else r"$\nu$"
    axes.set(xlabel="distance from the last step")
    if cells:
        axes.legend(title=symbol, fontsize=8)


def with_relevance(runs: Iterable[RecallRun]) -> dict[str, list[RecallRun]]:
    """Full attention with the numbers of `relevance`, by task: those that success ended, then those it did not."""
    found: dict[str, list[RecallRun]] = {}
    for run in sorted(runs, key=lambda run: run.trained_on):
        if run.architecture == "mem_rnn" and "relevance" in run.inside("after"):
            found.setdefault(f"{run.task}, trained on" if run.trained_on else run.task, []).append(run)
    return found


def draw_kinds(axes: Axes, runs: Iterable[RecallRun]) -> None:
    """Share of the states by the share of later steps that look at them, before and after training; every seed."""
    places = (np.arange(BINS) + 0.5) / BINS
    _draw_seeds(axes, list(runs), "away", places)
    axes.set(xlabel="share of later steps that look at it", ylim=(0, None))


def draw_glances(axes: Axes, runs: Iterable[RecallRun]) -> None:
    """Norm of the gradient by the symbols' states along paths with so many glances, over the whole; every seed."""
    _draw_seeds(axes, list(runs), "by_glances", np.arange(GLANCES + 2))
    axes.set(xlabel="times that a path goes through attention", yscale="log", ylim=(1e-3, None))
    axes.set_xticks(range(GLANCES + 2), [*map(str, range(GLANCES + 1)), f"{GLANCES + 1}+"])


def _draw_seeds(axes: Axes, runs: list[RecallRun], number: str, places: Any) -> None:
    for (when, label), style in zip(WHEN, figures.styles(2), strict=True):
        for place, run in enumerate(runs):
            look = {**style, "markersize": 3, "linewidth": 0.8}
            axes.plot(places, run.inside(when)["relevance"][number], **look, label=None if place else label)
