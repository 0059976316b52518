"""Figures of networks that learned an n-gram language: accuracy and divergence against sizes, and what they keep.

What they keep is shown by eigenvalues, by how far back they listen, by iterated maps and by states.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Circle

from experiments.ngram_rules.runs import COUNTERS, NETWORKS, Measure, Record, along, divergence, measured, rates
from lib.models.catalogue import NAMES
from lib.report import figures

NOT_NAMED = (144, 288)  # beside sizes that are
MEASURES: dict[Measure, str] = {"greedy": "greedy", "sampled": "drawn"}
Groups = Mapping[str, Sequence[Record]]


def draw_accuracy(records: Iterable[Record], axis: str, label: str, mark: float | None = None) -> None:
    """Two panels, greedy and drawn, over all prompts; the counters too where they change with the axis."""
    every = list(records)
    figure, panels = plt.subplots(1, 2, figsize=(6.5, 3.4), sharey=True)
    shown = sorted({size for kind in NETWORKS for size in along(every, kind, axis)})
    for axes, measure in zip(panels, MEASURES, strict=True):
        for kind, style in zip(NETWORKS, figures.looks(NETWORKS), strict=True):
            curve = along(every, kind, axis)
            values = [rates(group, measure, prompts="prompts") for group in curve.values()]
            draw_spread(axes, curve, values, style, NAMES[kind])
        if axis == "sentences":
            curve = along(every, "relu_ssm", axis)
            for writer, style in zip(COUNTERS, figures.looks(COUNTERS), strict=True):
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
    for kind, style in zip(NETWORKS, figures.looks(NETWORKS), strict=True):
        curve = along(every, kind, "sentences")
        draw_spread(axes, curve, [divergence(group) for group in curve.values()], style, NAMES[kind])
    axes.set(yscale="log", xlabel="number of training sentences", ylabel="divergence $D$ (nats per word)")
    _size_axis(axes, sorted({size for kind in NETWORKS for size in along(every, kind, "sentences")}))
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


def draw_eigenvalues(groups: Groups) -> None:
    """Eigenvalues of all seeds in the complex plane, with the unit circle and the disc they start in."""
    _, panels = plt.subplots(1, len(groups), figsize=(6.5, 3.5), sharex=True, sharey=True, squeeze=False)
    for axes, (name, records) in zip(panels[0], groups.items(), strict=True):
        values = measured(records, "transition", "eigenvalues").reshape(-1, 2)
        outside = np.hypot(*values.T) > 1
        axes.plot(*values[~outside].T, ".", markersize=2, alpha=0.5, color="#3070b0", label="inside")
        axes.plot(*values[outside].T, "^", markersize=4, color="#b04020", label="outside")
        axes.add_patch(Circle((0, 0), 1, fill=False, linestyle="--", color="#b04020"))
        axes.add_patch(Circle((0, 0), 3**-0.5, fill=False, linestyle=":", color="#555555"))
        axes.set(xlabel=f"real part ({name})", aspect="equal")
    panels[0, 0].set(ylabel="imaginary part")
    panels[0, 0].legend(loc="upper left", fontsize=7, handletextpad=0.1, borderaxespad=0.1)


def draw_counts(groups: Groups) -> None:
    """How many seeds have how many eigenvalues outside the unit circle."""
    _, axes = plt.subplots(figsize=(6.5, 2.8))
    counts = {name: measured(records, "transition", "outside").astype(int) for name, records in groups.items()}
    top = max(int(found.max()) for found in counts.values())
    width = 0.8 / len(groups)
    for index, (name, found) in enumerate(counts.items()):
        places = np.arange(top + 1) + (index - (len(groups) - 1) / 2) * width
        hatch = ("", "///", "...")[index % 3]
        axes.bar(places, np.bincount(found, minlength=top + 1), width, label=name, hatch=hatch, edgecolor="#222222")
    axes.set(xlabel="eigenvalues outside the unit circle", ylabel="seeds", xticks=np.arange(top + 1))
    axes.legend()


def draw_influence(groups: Groups, window: int, floor: float = 1e-4) -> None:
    """Mean change of the next-word distribution when one earlier word is replaced, against how far back it stands."""
    _, axes = plt.subplots(figsize=(6.5, 3.6))
    for (name, records), style in zip(groups.items(), figures.styles(len(groups)), strict=True):
        curves = np.maximum(measured(records, "influence", "mean"), floor)
        draw_spread(axes, range(curves.shape[1]), list(curves.T), style, name)
    axes.axvline(window - 0.5, color="#777777", linewidth=0.8)
    axes.set(
        yscale="log",
        ylim=(floor, 2),
        xlabel="places back of the replaced word",
        ylabel="change of the distribution (1-norm)",
    )
    axes.legend(fontsize=8, ncols=2, loc="lower left")


def draw_iterated(records: Sequence[Record]) -> None:
    """Four measures of k steps of the RNN: norms of powers, of Jacobians, ratios of states, and norms without input."""
    _, axes = plt.subplots(figsize=(6.5, 3.8))
    curves: dict[str, Any] = {
        r"$\|A^k\|$, without ReLU": measured(records, "transition", "power_norms"),
        "Jacobian, largest norm": measured(records, "transition", "local_norms"),
        "difference of states, largest ratio": measured(records, "transition", "state_ratios", "largest"),
        "difference of states, mean ratio": measured(records, "transition", "state_ratios", "mean"),
        "state without input, mean ratio": measured(records, "transition", "iterated_norms", "mean"),
    }
    for (name, values), style in zip(curves.items(), figures.styles(len(curves)), strict=True):
        draw_spread(axes, range(1, values.shape[1] + 1), list(values.T), style, name)
    axes.axhline(1.0, color="#777777", linewidth=0.8)
    axes.set(yscale="log", xlabel="steps $k$ (words)", ylabel="growth over $k$ steps")
    axes.legend(fontsize=8)


def draw_states(axes: Axes, picture: Sequence[Sequence[float]]) -> None:
    """States on their two first principal components; a colour and a marker for each context."""
    points = np.array(picture)
    contexts = np.unique(points[:, 2])
    for context, style in zip(contexts, figures.styles(len(contexts)), strict=True):
        some = points[points[:, 2] == context]
        axes.plot(some[:, 0], some[:, 1], style["marker"], color=style["color"], markersize=4)
    axes.set(xlabel="first component", ylabel="second component")
