"""Figures of networks that recall facts: by length of the document, by rank and age, against the size of the state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.image import AxesImage

from experiments.key_values.runs import Network, Runs, deciding, lengths, networks
from experiments.key_values.yardsticks import excess_of_span, recallable
from lib.processes import SantaFeProcess
from lib.report import figures

SHARE = "share recalled"
PAIRS, NUMBERS = (8, 32, 128, 512), (128, 512, 2048, 8192, 32768)  # at the ticks


def looks_of(runs: Runs) -> dict[Network, dict[str, Any]]:
    """The look of the architecture for each network; other sizes of state have other lines."""
    there = networks(runs)
    return dict(zip(there, figures.looks(network.architecture for network in there), strict=True))


def draw_lengths(axes: Axes, runs: Runs) -> None:
    """Share recalled against pairs, mean over seeds with a bar from the least to the most."""
    for network, look in looks_of(runs).items():
        cells = {pairs: [run.share for run in deciding(runs, network, pairs)] for pairs in lengths(runs)}
        there = {pairs: shares for pairs, shares in cells.items() if shares}
        means = np.array([np.mean(shares) for shares in there.values()])
        reach = np.abs(np.array([[min(shares), max(shares)] for shares in there.values()]).T - means)
        axes.errorbar(list(there), means, yerr=reach, capsize=2, label=network.name, **look)
    axes.set_xscale("log")
    axes.set(xlabel="pairs in a document", ylabel=SHARE, ylim=(None, 1.02))
    _ticks(axes, PAIRS)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))


def draw_spans(axes: Axes, source: SantaFeProcess, pairs: Sequence[int], spans: Sequence[int]) -> None:
    """Thin grey lines, exact: the share that a memory of the last `span` pairs recalls."""
    for span in spans:
        shares = [1.0 - excess_of_span(source, length, span) / recallable(source, length) for length in pairs]
        axes.plot(pairs, shares, color="#666666", linewidth=0.9, linestyle=(0, (1, 1)))
        axes.annotate(
            f"last {span}", (pairs[-1], shares[-1]), (-3, 2), textcoords="offset points", ha="right", fontsize=8
        )


def draw_facts(axes: Axes, runs: Runs) -> AxesImage:
    """Share recalled by rank of the key (down) and age of the mention (across), mean over runs of one network."""
    first = runs[0].result
    mean = np.mean([run.recalled for run in runs], axis=0)  # NaN in all of them or in none: the documents are the same
    image = axes.imshow(np.clip(mean, 0.0, 1.0), vmin=0.0, vmax=1.0, cmap="viridis", aspect="auto")
    axes.set_xticks(range(len(first["ages"])), [_bin(ends) for ends in first["ages"]], rotation=90)
    axes.set_yticks(range(len(first["ranks"])), [_bin(ends) for ends in first["ranks"]])
    axes.set_xlabel(f"age (pairs)\n{runs[0].network.name}")
    return image


def draw_carried(axes: Axes, runs: Runs) -> None:
    """Facts of the first half that are recalled in the second, against the numbers in the state between them."""
    for network, look in looks_of(runs).items():
        own = [run for run in runs if run.network == network]
        style = {**look, "linestyle": "none"}
        axes.plot(
            [run.result["state_size"] for run in own],
            [run.result["carried"] for run in own],
            label=network.name,
            **style,
        )
    axes.set_xscale("log")
    _ticks(axes, NUMBERS)
    axes.set(xlabel="numbers in the state", ylabel="facts carried across the middle")
    if axes.get_legend_handles_labels()[0]:
        axes.axhline(runs[0].result["shared"], color="#444444", linewidth=0.8, linestyle=(0, (1, 1)))
        axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _ticks(axes: Axes, places: Sequence[int]) -> None:
    """These in plain numbers, as far as they lie between the ends of the axis."""
    low, high = axes.get_xlim()
    shown = [place for place in places if low <= place <= high]
    axes.set_xticks(shown, [f"{place:,}" for place in shown])
    axes.minorticks_off()


def _bin(ends: Sequence[int]) -> str:
    first, last = ends
    return f"{first}" if first == last else f"{first}–{last}"
