"""Figures of networks that learned an n-gram language: accuracy and divergence against sizes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from experiments.ngram_rules.runs import Measure, Record, Writer, along, divergence, rates
from experiments.ngram_rules.tables import NAMES
from lib.report import figures

NOT_NAMED = (144, 288)  # beside sizes that are
MEASURES: dict[Measure, str] = {"greedy": "greedy", "sampled": "drawn"}
COUNTERS: dict[Writer, dict[str, str]] = {"counter": {"color": "#777777", "linestyle": ":", "marker": "x"}}
COUNTERS["counter with back-off"] = {"color": "#777777", "linestyle": "--", "marker": "+"}


def draw_accuracy(records: Iterable[Record], axis: str, label: str, mark: float | None = None) -> None:
    """Two panels, greedy and drawn, over all prompts; the counters too where they change with the axis."""
    every = list(records)
    figure, panels = plt.subplots(1, 2, figsize=(6.5, 3.4), sharey=True)
    shown = sorted({size for kind in NAMES for size in along(every, kind, axis)})
    for axes, measure in zip(panels, MEASURES, strict=True):
        for (kind, name), style in zip(NAMES.items(), figures.styles(len(NAMES)), strict=True):
            curve = along(every, kind, axis)
            draw_spread(
                axes, curve, [rates(group, measure, prompts="prompts") for group in curve.values()], style, name
            )
        if axis == "sentences":
            curve = along(every, "relu_ssm", axis)
            for writer, style in COUNTERS.items():
                values = [rates(group, measure, writer, "prompts") for group in curve.values()]
                draw_spread(axes, curve, values, style, writer)
        if mark is not None:
            axes.axvline(mark, color="#777777", linewidth=0.8)
        axes.set(xlabel=label, ylim=(-0.03, 1.05))
        _size_axis(axes, shown)
        axes.text(0.97, 0.04, MEASURES[measure], transform=axes.transAxes, ha="right")
    panels[0].set(ylabel="accuracy on all prompts")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=4, fontsize=8)


def draw_divergence(records: Iterable[Record]) -> None:
    """Divergence against the number of training sentences."""
    every = list(records)
    _, axes = plt.subplots(figsize=(6.5, 3.4))
    for (kind, name), style in zip(NAMES.items(), figures.styles(len(NAMES)), strict=True):
        curve = along(every, kind, "sentences")
        draw_spread(axes, curve, [divergence(group) for group in curve.values()], style, name)
    axes.set(yscale="log", xlabel="number of training sentences", ylabel="divergence $D$ (nats a word)")
    _size_axis(axes, sorted({size for kind in NAMES for size in along(every, kind, "sentences")}))
    axes.legend()


def draw_spread(axes: Axes, places: Iterable[float], values: list[Any], style: dict[str, Any], label: str) -> None:
    """Means, joined, with bars from the smallest to the largest."""
    x = np.array(list(places), dtype=np.float64)
    if not x.size:
        return
    means = np.array([np.mean(group) for group in values])
    low, high = (np.array([end(group) for group in values]) for end in (np.min, np.max))
    bars = np.maximum(np.vstack([means - low, high - means]), 0.0)
    axes.errorbar(x, means, yerr=bars, **style, markersize=4, linewidth=1.2, elinewidth=0.7, label=label)


def _size_axis(axes: Axes, sizes: Sequence[int]) -> None:
    """A logarithmic axis that names some of the sizes, far enough apart to be read."""
    named = [size for size in sizes if size not in NOT_NAMED]
    axes.set_xscale("log")
    axes.set_xticks(named, [str(size) for size in named])
    axes.minorticks_off()
