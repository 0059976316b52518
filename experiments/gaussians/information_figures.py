"""Figures of what Gaussian language models know of the second half, beside what their state could hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from experiments.gaussians.baselines import linear_state_information
from experiments.gaussians.figures import EXACT, legend_above, logarithmic, styles_of
from experiments.gaussians.runs import Models

LIMIT: dict[str, Any] = {"color": "#444444", "linestyle": "-", "linewidth": 0.9}
SHARES = (-0.1, 1.4)


def draw_information(panels: Sequence[Axes], models: Models, lengths: Sequence[int]) -> None:
    """Captured information against the size of the state, every seed, a panel for each length, as a share of all.

    A thick bar beside it spans the bounds of the model's own information, if it is shorter than the axis. Horizontal:
    the true information; dotted: the most that a linear state of so many numbers has.
    """
    for axes, length in zip(panels, lengths, strict=True):
        shown = [run for by_length in models.values() for run in by_length.get(length, ())]
        for by_length, style in zip(models.values(), styles_of(models), strict=True):
            for run in by_length.get(length, ()):
                at = run.state() * 1.05 ** (run.seed - 1)
                value, error = (number / run.information for number in run.estimate("captured_information"))
                axes.errorbar(at, value, error, **{**style, "linestyle": "none", "markersize": 4.5})
                own = [run.estimate(f"own_information_{end}")[0] / run.information for end in ("lower", "upper")]
                if own[1] - own[0] < SHARES[1] - SHARES[0]:
                    axes.plot([at * 1.25] * 2, own, color=style["color"], linewidth=2.2, alpha=0.5)
        if shown:
            copies, layers = shown[0].parameters["copies"], shown[0].parameters["layers"]
            sizes = np.geomspace(0.05 * min(run.state() for run in shown), 2 * max(run.state() for run in shown), 80)
            best = linear_state_information(layers, copies, sizes) / shown[0].information
            axes.plot(sizes, best, **EXACT["its own half"])
            axes.axhline(1.0, **LIMIT)
        axes.set(xlabel=rf"$\dim z$, $L$ = {length}", yscale="linear", ylim=SHARES)
        logarithmic(axes, "x")
    panels[0].set_ylabel("information, of what there is")
    legend_above(panels, models, 3, line=False)


def draw_restarted(axes: Axes, models: Models, lengths: Sequence[int]) -> None:
    """The direct estimator started afresh over the true information, and the captured one (small), by length."""
    for number, (by_length, style) in enumerate(zip(models.values(), styles_of(models), strict=True)):
        shift = 1.06 ** (number - (len(models) - 1) / 2)
        for length in lengths:
            for run in by_length.get(length, ()):
                value, error = run.estimate("restarted_direct")
                look = {**style, "linestyle": "none", "markersize": 5}
                axes.errorbar(length * shift, value / run.information, error / run.information, **look)
    axes.axhline(1.0, **LIMIT)
    axes.set(xscale="log", xlabel="length $L$ (tokens)", ylabel="started afresh / true information")
    axes.set_yscale("symlog", linthresh=1, linscale=2)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_xticks(list(lengths), [str(length) for length in lengths])
    axes.minorticks_off()
    legend_above([axes], models, 3, line=False)
