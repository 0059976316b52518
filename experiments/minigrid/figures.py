"""Ceilings beside Table 4."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes

from experiments.minigrid.ceilings import Ceiling
from experiments.minigrid.runs import PLACES
from experiments.minigrid.statements import MODELS, UNREAD, place_name, printed
from lib.information.intervals import seed_mean
from lib.report import figures


def draw_ceilings(axes: Axes, limits: Mapping[str, Ceiling]) -> None:
    """A row for each place: bars up to what can be had unread, ticks for what can be had read, printed numbers."""
    rows = [(task, place) for task in (*UNREAD, "Memory") for place in PLACES]
    heights = np.arange(len(rows))[::-1]
    names = [place_name(task, place) for task, place in rows]
    unread = [seed_mean(limits[name].blind) for name in names]
    reach = np.array([limit.high - limit.value for limit in unread])
    axes.barh(
        heights, [limit.value for limit in unread], xerr=reach, height=0.62, color="#9AA5B1", ecolor="#444444",
        label="most without the mission",
    )  # fmt: skip
    informed = [float(limits[name].informed.mean()) for name in names]
    axes.plot(informed, heights, "|", color="#222222", markersize=13, label="most with the mission")
    for model, style, shift in zip(MODELS, figures.styles(2), (0.13, -0.13), strict=True):
        values = [printed(task)[place, model] for task, place in rows]
        look = style | {"linestyle": "none", "markersize": 6}
        axes.plot(values, heights + shift, **look, label=f"{model}, printed")
    axes.set(yticks=heights, yticklabels=names, xlim=(0, 1.02), xlabel="mean return")
    axes.grid(axis="y", visible=False)
