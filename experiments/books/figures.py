"""Figures of networks on long documents: NLL by position, paired differences, against size, during training."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

from experiments.books.contrasts import Crossing, curves_of, resampled
from experiments.books.runs import Counted, Network, Networks
from experiments.books.statements import Pair, early_loss, late_loss
from lib.report import figures

NLL = "NLL (nats per token)"


def styles_of(networks: Iterable[Network]) -> dict[Network, dict[str, Any]]:
    """A colour for each architecture, line and marker for each size."""
    there = list(networks)
    return dict(zip(there, figures.looks(network.architecture for network in there), strict=True))


def draw_positions(panels: Sequence[Axes], networks: Networks, shown: Sequence[Sequence[str]]) -> None:
    """NLL by tokens seen: in each panel the networks of some architectures; mean over documents, band of the seeds."""
    styles = styles_of(networks)
    for axes, architectures in zip(panels, shown, strict=True):
        for network, runs in networks.items():
            if network.architecture in architectures:
                curves, style = curves_of(runs), styles[network]
                own = curves.values.mean(axis=1)
                places = places_of(curves)
                axes.fill_between(
                    places, own.min(axis=0), own.max(axis=0), color=style["color"], alpha=0.2, linewidth=0
                )
                axes.plot(places, own.mean(axis=0), **style, markevery=(1, 4), label=f"{network}")
        tokens_seen(axes)
        if axes.get_legend_handles_labels()[0]:  # none of these is recorded yet
            axes.legend(fontsize=8, loc="lower left", bbox_to_anchor=(0.0, 1.0), borderaxespad=0.2)
    panels[0].set_ylabel(NLL)


def draw_counted(panels: Sequence[Axes], counted: Counted, orders: Sequence[int]) -> None:
    """NLL of tables of counts by tokens seen, thin and grey, with the tokens that they see written at the right end."""
    places = places_of(counted)
    for axes in panels:
        for order in orders:
            axes.plot(places, counted.curves[order], color="#666666", linewidth=0.9, linestyle=(0, (1, 1)))
            axes.annotate(
                f"{order}",
                (places[-1], counted.curves[order][-1]),
                (3, 0),
                textcoords="offset points",
                color="#444444",
                fontsize=8,
                va="center",
            )


def draw_differences(
    panels: Sequence[Axes],
    networks: Networks,
    pairs: Sequence[Pair],
    crossings: Mapping[Pair, Crossing],
    replicates: int,
    seed: int,
) -> None:
    """Second minus first of each pair by tokens seen, a panel for each, with 95 % bands; pairs not recorded are empty.

    Shaded: the interval of the crossing, where it begins within the context.
    """
    for axes, pair in zip(panels, pairs, strict=True):
        first, second = pair
        axes.axhline(0, color="#444444", linewidth=0.8)
        if first in networks and second in networks:
            curves = [curves_of(networks[network]) for network in pair]
            drawn = resampled(curves, replicates, seed)
            low, high = np.quantile(drawn[1] - drawn[0], [0.025, 0.975], axis=0)
            places, style = places_of(curves[0]), styles_of([second])[second]
            axes.fill_between(places, low, high, color=style["color"], alpha=0.25, linewidth=0)
            axes.plot(places, curves[1].mean - curves[0].mean, **{**style, "markersize": 3})
            found, last = crossings.get(pair), float(curves[0].last[-1])
            if found is not None and found.low < last and found.high > 1:
                axes.axvspan(max(found.low, 1.0), min(found.high, last), color="#888888", alpha=0.2, linewidth=0)
        tokens_seen(axes)
        axes.set_xlabel(f"tokens seen $t$\n{second}\nminus {first}")


def draw_sizes(panels: Sequence[Axes], networks: Networks) -> None:
    """Mean NLL against the parameters of the layers (first panel) and the state at the end of the context (second)."""
    kinds = dict.fromkeys(network.architecture for network in networks)
    styles = styles_of(networks)
    for axes, key in zip(panels, ("body_parameter_count", "state_size"), strict=True):
        for kind in kinds:
            own = {network: runs for network, runs in networks.items() if network.architecture == kind}
            plain = [runs for network, runs in own.items() if not network.variant]
            places = [runs[0].result[key] for runs in plain]
            means = [np.mean([run.mean for run in runs]) for runs in plain]
            axes.plot(places, means, "-", color=next(figures.looks([kind]))["color"], linewidth=0.8)
            for network, runs in own.items():
                style = {**styles[network], "linestyle": "none"}
                if network.variant:
                    style["markerfacecolor"] = "none"
                values = [run.mean for run in runs]
                axes.plot([runs[0].result[key]] * len(runs), values, **style, label=f"{network}")
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.tick_params(axis="x", labelrotation=45)
    panels[0].set(xlabel="parameters of the layers", ylabel=NLL)
    panels[1].set(xlabel="numbers in the state after $L$ tokens")


def draw_equal_early(axes: Axes, ladders: Sequence[Networks]) -> None:
    """Early minus late NLL against early NLL: a line for each ladder of rungs, a marker for every seed."""
    styles = styles_of(next(iter(rungs)) for rungs in ladders if rungs)
    sides: list[dict[str, Any]] = [{"xytext": (5, 3), "ha": "left"}, {"xytext": (-4, -9), "ha": "right"}]
    for rungs, side in zip(ladders, itertools.cycle(sides), strict=False):
        if not rungs:
            continue
        style = styles[next(iter(rungs))]
        points = [
            [(early_loss([run]), early_loss([run]) - late_loss([run])) for run in runs] for runs in rungs.values()
        ]
        means = [[fmean(values) for values in zip(*seeds, strict=True)] for seeds in points]
        axes.plot(*zip(*means, strict=True), color=style["color"], linestyle=style["linestyle"], linewidth=0.9)
        every = [point for seeds in points for point in seeds]
        name = next(iter(rungs)).name
        axes.plot(*zip(*every, strict=True), **style | {"linestyle": "none"}, label=name)
        for runs, (early, gained) in zip(rungs.values(), means, strict=True):
            millions = runs[0].tokens / 1e6
            words = f"{millions:.0f}" if millions >= 10 else f"{millions:.1f}"
            axes.annotate(words, (early, gained), **side, textcoords="offset points", fontsize=8)
    axes.margins(x=0.08)
    axes.set(xlabel="early " + NLL, ylabel="early minus late (nats per token)")
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=8)


def draw_courses(axes: Axes, networks: Networks) -> None:
    """Validation loss against the tokens trained on, mean over seeds."""
    styles = styles_of(networks)
    for network, runs in networks.items():
        shortest = min(len(run.result["validation_losses"]) for run in runs)
        losses = np.mean([run.result["validation_losses"][:shortest] for run in runs], axis=0)
        tokens = runs[0].batch * runs[0].context * int(runs[0].parameters["epoch_steps"]) / 1e6
        axes.plot(tokens * np.arange(1, shortest + 1), losses, **styles[network], label=f"{network}")
    axes.set(xlabel="tokens trained on (millions)", ylabel="validation " + NLL)
    axes.legend(fontsize=8, ncols=2)


def places_of(curves: Any) -> Any:
    """Geometric middles of the bins."""
    return np.sqrt(curves.first * curves.last.astype(np.float64))


def tokens_seen(axes: Axes) -> None:
    """The axis of positions: powers of four, written out."""
    axes.set(xscale="log", xlabel="tokens seen $t$")
    axes.xaxis.set_major_locator(FixedLocator([4.0**power for power in range(7)]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_locator(NullLocator())
