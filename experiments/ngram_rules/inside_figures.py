"""Figures of what trained networks keep: eigenvalues, how far back they listen, iterated maps, states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Circle

from experiments.ngram_rules.figures import draw_spread
from experiments.ngram_rules.runs import Record, measured
from lib.report import figures

Groups = Mapping[str, Sequence[Record]]


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
    """Mean change of the next-word law when one earlier word is replaced, against how far back it stands."""
    _, axes = plt.subplots(figsize=(6.5, 3.6))
    for (name, records), style in zip(groups.items(), figures.styles(len(groups)), strict=True):
        curves = np.maximum(measured(records, "influence", "mean"), floor)
        draw_spread(axes, range(curves.shape[1]), list(curves.T), style, name)
    axes.axvline(window - 0.5, color="#777777", linewidth=0.8)
    axes.set(
        yscale="log", ylim=(floor, 2), xlabel="places back of the replaced word", ylabel="change of the law (1-norm)"
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
