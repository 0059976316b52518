"""Figures of text as language models see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from experiments.text_information.quality import Line
from experiments.text_information.runs import PUBLISHED, Curve, TextRun
from experiments.text_information.statements import change_by_correction, exponent
from lib.models.catalogue import NAMES
from lib.report import figures

PRINTED = {"PG19": (0, (1, 1)), "Wikipedia": (0, (4, 1.5, 1, 1.5))}
GREY = "#666666"
SPLITS = {2: "$\\ell = L/2$", 3: "$\\ell = L/3$", 4: "$\\ell = L/4$"}


def show_legend(axes: Axes, **options: Any) -> None:
    """A legend if there is anything to tell: of a grid that is recorded in part a panel may be empty."""
    if axes.get_legend_handles_labels()[1]:
        axes.legend(**options)


def draw_losses(axes: Axes, runs: Sequence[TextRun]) -> None:
    """Nats per token by position."""
    for run, style in zip(runs, figures.looks(run.family for run in runs), strict=True):
        axes.semilogx(*run.loss_by_position(), **style, markersize=3.5, linewidth=1.2, label=run.name)
    axes.set(xlabel="position in the window (tokens)", ylabel=r"$-\ln q(x_t \mid x_{<t})$ (nats per token)")


def draw_information(axes: Axes, runs: Sequence[TextRun], estimator: str, published: bool = True) -> None:
    """An estimate against L with 95 % intervals, where positive, and the published power laws and points of Fig. 2."""
    for run, style in zip(runs, figures.looks(run.family for run in runs), strict=True):
        curve = run.curve(estimator)
        if curve is not None:
            draw_curve(axes, curve, style, run.name)
    if published:
        draw_published(axes, estimator)
    axes.set(xscale="log", yscale="log", xlabel="length $L$ (tokens of $q$)")


def draw_curve(axes: Axes, curve: Curve, style: Mapping[str, Any], label: str) -> None:
    """Means with 95 % intervals; points that are not positive are left out, intervals are cut at zero."""
    shown = curve.means > 0
    means, ends = curve.means[shown], np.maximum(curve.intervals[shown], 1e-3 * curve.means[shown][:, None])
    reach = np.abs(ends - means[:, None]).T
    axes.errorbar(curve.lengths[shown], means, reach, **style, markersize=4, linewidth=1.2, elinewidth=0.8, label=label)


def draw_published(axes: Axes, estimator: str) -> None:
    """The printed power laws at L = 4 .. 2048 and the points of the figure, as open diamonds."""
    for law in PUBLISHED:
        if law.estimator == estimator:
            lengths = 2.0 ** np.arange(2, 12)
            axes.plot(
                lengths, law.predict(lengths), color=GREY, linestyle=PRINTED[law.text], label=f"{law.text}, printed"
            )
            places = lengths[: len(law.points)]
            axes.plot(places, law.points, "D", markersize=4, markerfacecolor="none", color=GREY)


def draw_quality(axes: Axes, runs: Sequence[TextRun], estimator: str) -> None:
    """beta against the loss per character, which falls to the right; printed exponents as horizontal lines."""
    families = list(dict.fromkeys(run.family for run in runs))
    for family, look in zip(families, figures.looks(families), strict=True):
        for pairs, fill in ((False, None), (True, "none")):
            chosen = [run for run in runs if run.family == family and run.characterwise != pairs]
            points = [(run.loss, exponent(run, estimator)) for run in chosen]
            points = [(loss, beta) for loss, beta in points if beta.known]
            if points:
                x, y = np.array([loss for loss, _ in points]), np.array([beta.value for _, beta in points])
                ends = np.array([beta.ends for _, beta in points])
                label = NAMES.get(family, family) + (", longer tokens" if pairs else "")
                style = {**look, "linestyle": "none", "markerfacecolor": fill, "markersize": 6}
                axes.errorbar(x, y, np.abs(ends - y[:, None]).T, **style, capsize=2, linewidth=1, label=label)
    for law in PUBLISHED:
        if law.estimator == estimator:
            axes.axhline(
                law.exponent, color=GREY, linestyle=PRINTED[law.text], linewidth=1, label=f"printed, {law.text}"
            )
    axes.axhline(0.0, color="#999999", linewidth=0.6)
    axes.set(xlabel="loss (nats per character)")


def draw_line(axes: Axes, line: Line | None, end: float) -> None:
    """A line through exponents and the band of one more model, from the worst of its models to a loss of `end`."""
    if line is None:
        return
    losses = np.linspace(line.losses.max(), end, 40)
    found = [line.at(float(loss)) for loss in losses]
    axes.plot(losses, [beta.value for beta in found], color=GREY, linewidth=1)
    low, high = np.array([beta.ends for beta in found]).T
    axes.fill_between(losses, low, high, color=GREY, alpha=0.15, linewidth=0)


def draw_splits(axes: Axes, run: TextRun, estimator: str) -> None:
    """One model at the three splits, with the power laws from 16 characters on."""
    for (ratio, label), style in zip(SPLITS.items(), figures.styles(len(SPLITS)), strict=True):
        curve = run.curve(estimator, ratio)
        if curve is not None:
            draw_curve(axes, curve, {**style, "linestyle": "none"}, label)
            law = run.law(estimator, ratio)
            if law is not None:
                axes.plot(law.lengths, law.predict(law.lengths), color=style["color"], linestyle=style["linestyle"])
    axes.set(xscale="log", yscale="log", xlabel="length $L$ (tokens of $q$)")


def draw_correction(main: Axes, below: Axes, runs: Sequence[TextRun]) -> None:
    """Direct estimates with the opening corrected (filled) and not (open); below, the change relative to the latter."""
    for run, style in zip(runs, figures.styles(len(runs)), strict=True):
        after, before = run.curve("direct"), run.curve("uncorrected")
        if after is None or before is None:
            continue
        draw_curve(main, after, style, run.name)
        draw_curve(main, before, {**style, "linestyle": "none", "markerfacecolor": "none", "alpha": 0.8}, "")
        lengths, changes = change_by_correction(run)
        known = np.array([change.known for change in changes])
        if known.any():
            values = np.array([change.value for change in changes])[known]
            ends = np.array([change.ends for change in changes])[known]
            below.errorbar(lengths[known], values, np.abs(ends - values[:, None]).T, **style, markersize=4, linewidth=1)
    main.set(xscale="log", yscale="log", ylabel="direct estimate (nats)")
    below.set(xscale="log", xlabel="length $L$ (tokens of $q$)", ylabel="change")
    below.axhline(0.0, color="#444444", linewidth=0.8)
