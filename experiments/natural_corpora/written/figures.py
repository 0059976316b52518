"""Figures of the chapters on networks that write: curves beside that of the text, and quality against range."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from experiments.natural_corpora.written.relations import Number, points
from experiments.natural_corpora.written.selection import Networks, Selection
from lib.models.catalogue import NAMES
from lib.report import figures

LOWEST = 1e-5  # nats
READ: dict[str, Any] = {"color": "#555555", "linewidth": 1.4, "linestyle": (0, (1, 1))}


def draw_curves(axes: Axes, networks: Networks) -> None:
    """Information of written text less its floor: the seed with the smallest loss, and that of the text, dotted.

    Networks from the narrowest, dark, to the widest. Axes without any say so.
    """
    there = [(network, min(runs, key=lambda run: run.loss)) for network, runs in networks.items() if runs]
    for (network, run), style in zip(there, figures.ordered_styles(len(there)), strict=True):
        curve = run.curves("written")[0]
        seen = np.where(curve > LOWEST, curve, np.nan)
        label = str(network.width) if network.depth == 1 else f"{network.width}×{network.depth}"
        axes.plot(run.lags, seen, **style, markersize=3, markevery=4, linewidth=1, label=label)
    if there:
        run = there[0][1]
        read = run.curves("read")[0]
        axes.plot(run.lags, np.where(read > LOWEST, read, np.nan), **READ, label="read")
        axes.legend(fontsize=7)
    else:
        axes.text(0.5, 0.5, "not recorded yet", ha="center", va="center", transform=axes.transAxes, color="#666666")
    axes.set(xscale="log", yscale="log", xlim=(0.9, 1100), ylim=(LOWEST, 2))


def draw_relation(axes: Axes, selection: Selection, level: str, pair: tuple[Number, Number]) -> None:
    """Quality against range: a point for each network, with the look of its architecture."""
    groups = [runs for runs in selection.of_level(level) if runs]
    for name in sorted({runs[0].network.architecture for runs in groups}):
        own = [runs for runs in groups if runs[0].network.architecture == name]
        place = points(own, pair)
        style = next(iter(figures.looks([name])))
        axes.plot(place[:, 0], place[:, 1], style["marker"], color=style["color"], markersize=5, label=NAMES[name])
    axes.locator_params(axis="x", nbins=3)
