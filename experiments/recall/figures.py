"""Figures of the chapter on copy and denoise: losses by updates, where attention lies, gradients by distance."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from experiments.recall.run import Parameters, task_of
from experiments.recall.runs import RecallRun, best_recipe, delays, of_network
from experiments.recall.statements import LENGTHS
from lib.report import figures

CURVES = ("orth_rnn", "exp_rnn", "rel_rnn")  # the networks of Fig. 4


def draw_courses(axes: Axes, runs: Iterable[RecallRun]) -> None:
    """Loss of every seed over that without memory, against updates, of one network by its best recipes.

    A colour and a line for each delay, the same in all panels; the first seed with markers. The grey line is the best
    that a network without memory can have.
    """
    everything = list(runs)
    looks = dict(zip(LENGTHS, figures.ordered_styles(len(LENGTHS)), strict=True))
    axes.axhline(1.0, color=figures.GREY, linewidth=0.8)
    axes.set_yscale("log")
    for delay in delays(everything):
        for place, run in enumerate(best_recipe([run for run in everything if run.delay == delay])):
            losses = np.array(run.result["validation_losses"], dtype=np.float64)
            updates = run.parameters["updates"] * np.arange(1, len(losses) + 1)
            look: dict[str, Any] = {"linewidth": 0.6, **{k: v for k, v in looks[delay].items() if k != "marker"}}
            if place == 0:
                look = {**looks[delay], "markersize": 3, "markevery": 0.15, "label": f"T = {delay}"}
            axes.plot(updates, losses / task_of(Parameters(**run.parameters)).baseline_loss, **look)
    if not everything:
        axes.text(0.5, 0.5, "not yet recorded", transform=axes.transAxes, ha="center", fontsize=9)


def watched(runs: Iterable[RecallRun]) -> list[RecallRun]:
    """The RelRNN whose attention is shown, of the shortest delay, best recipe and first seed; none where none is."""
    seen = [run for run in of_network(runs, "rel_rnn") if "attention" in run.inside("after")]
    return [best_recipe([run for run in seen if run.delay == delays(seen)[0]])[0]] if seen else []


def draw_attention(axes: Axes, run: RecallRun) -> Any:
    """At each step of recall (down), the share of attention on each symbol (across); returns the image."""
    shares = np.array(run.inside("after")["attention"]["on_each_symbol"], dtype=np.float64)
    first, last = 0.5, len(shares) + 0.5
    image = axes.imshow(shares, extent=(first, last, last, first))
    axes.set(xlabel=f"symbol\n({run.task}, T = {run.delay})", ylabel="step of recall")
    axes.grid(visible=False)
    return image


def draw_lags(axes: Axes, run: RecallRun) -> None:
    """Share of all attention by how many steps ago a state was, before and after training."""
    for (when, label), style in zip((("before", "untrained"), ("after", "trained")), figures.styles(2), strict=True):
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
