"""Figures of the chapter on pixels and characters: curves of accuracy, and where attention lies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from experiments.pixels_and_characters.runs import PixelRun, ReadingRun, readers_of
from lib.models.catalogue import NAMES
from lib.report import figures

CURVES = ("rel_rnn", "orth_rnn", "rnn")  # the networks of Fig. 8


def draw_curves(axes: Axes, runs: Iterable[PixelRun], order: str) -> None:
    """Fig. 8: share of right validation images by epoch, a line for each seed, the first with markers."""
    everything = list(runs)
    for name, look in zip(CURVES, figures.looks(CURVES), strict=True):
        for place, run in enumerate(readers_of(everything, name, order)):
            epochs = np.arange(1, len(run.accuracies) + 1)
            plain = {key: value for key, value in look.items() if not key.startswith("marker")}
            style: dict[str, Any] = {**plain, "linewidth": 0.7} if place else {**look, "markersize": 3}
            axes.plot(epochs, run.accuracies, **style, label=None if place else NAMES[name])
    if not axes.get_lines():
        axes.text(0.5, 0.5, "not yet recorded", transform=axes.transAxes, ha="center", fontsize=9)


def draw_map(axes: Axes, run: ReadingRun) -> Any:
    """Attention of one sequence: at each step (down), the share on each state so far (across); returns the image."""
    rows = run.inside("after")["map"]
    whole = np.full((len(rows), len(rows)), np.nan)
    for step, row in enumerate(rows):
        whole[step, : len(row)] = np.array(row) / 1000
    image = axes.imshow(whole, vmax=float(np.nanquantile(whole, 0.99)), interpolation="nearest")
    axes.set(xlabel="state attended to", ylabel="step")
    axes.grid(visible=False)
    return image


def draw_lags(axes: Axes, runs: Sequence[ReadingRun]) -> None:
    """Share of all attention by how many steps ago a state was, mean over seeds, before and after training."""
    for (when, label), style in zip((("before", "untrained"), ("after", "trained")), figures.styles(2), strict=True):
        shares = np.mean([run.inside(when)["by_lag"] for run in runs], axis=0)
        axes.plot(range(len(shares)), shares, **style, markersize=3, label=label)
    axes.set(xlabel="steps ago", ylabel="share of attention", ylim=(0, None))


def mapped(runs: Iterable[ReadingRun]) -> list[ReadingRun]:
    """Those whose map is recorded."""
    return [run for run in runs if "map" in run.inside("after")]
