"""Figures of the chapter on copy and denoise: losses by updates, where attention lies, gradients by distance."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from experiments.recall.run import Parameters, task_of
from experiments.recall.runs import RecallRun, best_recipe, delays
from experiments.recall.statements import LENGTHS
from lib.report import figures

HIGHEST = 4.0  # losses that are shown; the curve of a training that is lost leaves the panel there
CURVES = ("orth_rnn", "exp_rnn", "rel_rnn")  # the networks of Fig. 4


def draw_courses(axes: Axes, runs: Iterable[RecallRun]) -> None:
    """Loss of every seed over that without memory, against updates, of one network by its best recipes.

    A colour and a line for each delay, the same in all panels; the first seed with markers. The grey line is the best
    that a network without memory can have; beyond `HIGHEST` times it nothing is drawn.
    """
    everything = list(runs)
    looks = dict(zip(LENGTHS, figures.ordered_styles(len(LENGTHS)), strict=True))
    axes.axhline(1.0, color=figures.GREY, linewidth=0.8)
    axes.set_yscale("log")
    lowest = 1.0
    for delay in delays(everything):
        for place, run in enumerate(best_recipe([run for run in everything if run.delay == delay])):
            losses = np.array(run.result["validation_losses"], dtype=np.float64)
            updates = run.parameters["updates"] * np.arange(1, len(losses) + 1)
            look: dict[str, Any] = {"linewidth": 0.6, **{k: v for k, v in looks[delay].items() if k != "marker"}}
            if place == 0:
                look = {**looks[delay], "markersize": 3, "markevery": 0.15, "label": f"T = {delay}"}
            ratios = losses / task_of(Parameters(**run.parameters)).baseline_loss
            lowest = min(lowest, ratios.min(initial=1.0))
            axes.plot(updates, ratios, **look)
    floor = np.inf if axes.get_autoscaley_on() else axes.get_ylim()[0]  # that of panels that share the axis
    axes.set_ylim(min(floor, lowest / 2), HIGHEST)
    if not everything:
        axes.text(0.5, 0.5, "not yet recorded", transform=axes.transAxes, ha="center", fontsize=9)
