"""Figures that the chapters on binary sequences share: information, correlation lengths, which law is nearer."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MultipleLocator

from experiments.binary_sequences.decay import FLOOR
from experiments.binary_sequences.plateaus import METHODS, SYMBOLS, Trainings
from experiments.binary_sequences.runs import Networks, TrainedRun, best
from experiments.binary_sequences.seed_tables import Lengths
from lib.report import figures
from lib.report.gate import CLOSE

Floats = npt.NDArray[np.float64]
DATA = {"color": "#555555", "linewidth": 1.2, "linestyle": (0, (1, 1))}
SHOWN = (2e-5, 0.2)  # nats


def draw_curves(axes: Axes, networks: Networks, law: Floats) -> None:
    """I against lag on logarithmic axes, best seed with markers and the others thin, and the exact curve of the data.

    law: nats at lags 1, 2, ... The inset has the same best curves on semilogarithmic axes, where an exponential is
    straight.
    """
    small = axes.inset_axes((0.1, 0.075, 0.46, 0.32))  # below the floor, where nothing is measured
    lags = np.arange(1, law.size + 1)
    marked = np.unique(np.geomspace(1, law.size, 14).astype(int)) - 1
    for (network, runs), style in zip(networks.items(), figures.ordered_styles(len(networks)), strict=True):
        chosen = best(runs)
        for run in runs:
            if run is not chosen:
                axes.loglog(lags, _shown(run), color=style["color"], linewidth=0.5, alpha=0.6)
        axes.loglog(lags, _shown(chosen), **style, markevery=marked.tolist(), markersize=3.5, label=str(network))
        small.semilogy(lags, _shown(chosen), color=style["color"], linestyle=style["linestyle"], linewidth=1)
    axes.loglog(lags, law, **DATA, label="data")
    axes.axhline(FLOOR, color="#777777", linewidth=0.6)
    axes.set(xlabel=r"lag $\tau$ (symbols)", ylabel=r"mutual information $I(\tau)$ (nats)", ylim=SHOWN)
    entries = len(networks) + 1
    rows = 1 if entries <= 6 else 2
    axes.legend(title="width", ncols=-(-entries // rows), fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    small.semilogy(lags, law, **DATA)
    small.set(ylim=(FLOOR, SHOWN[1]), xlim=(0, law.size))
    small.tick_params(labelsize=7)


def draw_courses(axes: Axes, tried: Trainings, optimum: float) -> None:
    """Smallest excess so far over the optimum (nats per symbol) against seconds of training, by method of its end."""
    for (label, second), style in zip(METHODS.items(), figures.styles(len(METHODS)), strict=True):
        for run in tried.runs.values():
            if run.second_order == second:
                losses = np.minimum.accumulate(run.result["validation_losses"])
                seconds = np.linspace(0, run.result["training_seconds"], losses.size + 1)[1:]
                drawn = {"color": style["color"], "linestyle": style["linestyle"], "linewidth": 1}
                axes.loglog(seconds, (losses - optimum) * SYMBOLS, **drawn, label=label)
                label = ""  # once in the legend
    axes.axhline(CLOSE, color="#777777", linewidth=0.8)
    axes.set(xlabel="seconds of training on one core", ylabel="excess (nats per sequence)")
    axes.legend()


def draw_lengths(axes: Axes, lengths: Lengths, style: Mapping[str, Any], label: str, shift: float = 1.0) -> None:
    """Best seed with its sampling interval, all seeds as small open markers; shift moves them along the axis."""
    places = lengths.sizes * shift
    finite = np.where(np.isfinite(lengths.sampling), lengths.sampling, lengths.best[:, None])
    reach = np.abs(finite - lengths.best[:, None]).T
    axes.errorbar(places, lengths.best, reach, **{**style, "markersize": 5}, capsize=2, label=label)
    for seed in lengths.seeds.T:
        axes.plot(places, seed, style["marker"], markersize=7, markerfacecolor="none", color=style["color"], alpha=0.6)


def draw_comparisons(
    axes: Axes,
    networks: Networks,
    style: Mapping[str, Any],
    label: str,
    number: str,
    weighting: int,
    shift: float = 0.0,
) -> None:
    """A number of every seed's comparison of laws with its 95 % interval, against the width in octaves.

    number: a field of DecayComparison that is an Interval. weighting: 0 for all lags alike, 1 for precision.
    """
    for network, runs in networks.items():
        for run in runs:
            if run.measured.comparisons:
                found = getattr(run.measured.comparisons[weighting], number)
                x = np.log2(network.width) + shift + 0.08 * run.seed
                axes.plot([x, x], found.ends, color=style["color"], linewidth=1)
                axes.plot(x, found.value, style["marker"], color=style["color"], markersize=4)
    axes.plot([], [], style["marker"], color=style["color"], label=label)
    axes.xaxis.set_major_locator(MultipleLocator(1))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda octave, _: f"{2**octave:g}"))


def ratio_in_bins(run: TrainedRun, law: Floats) -> tuple[Floats, Floats]:
    """Mean of I over the exact curve (nats from lag 1 on) in 17 bins of lags up to 400, and their geometric middles."""
    edges = np.unique(np.geomspace(1, 400, 18).astype(int))
    ratio = run.measured.curve / law
    means = [ratio[a - 1 : b - 1].mean() for a, b in itertools.pairwise(edges)]
    return np.sqrt(edges[:-1] * edges[1:]), np.maximum(means, 0.02)


def _shown(run: TrainedRun) -> Floats:
    """The curve, without values that a logarithmic axis cannot show."""
    return np.where(run.measured.curve > 0, run.measured.curve, np.nan)
