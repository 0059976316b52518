"""Figures and tables of what was measured."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lib.measure import results
from lib.report.figures import styles
from lib.report.page import MISSING, table

ENDS = ("-∞", "∞")  # of an interval that the data do not close
BITS = 32 * np.log(2)  # nats that a number of single precision can hold
NAMES = {"character": "characters", "word": "words", "byte_pair": "byte pairs"}


def draw_levels(measured: results.Measured) -> Figure:
    """Information above the floor at each level, with its band, the floor, and the law that holds.

    The line is broken where the information is not above the floor, which a logarithmic axis cannot show.
    """
    found = {level: one for level, one in measured.two_point if one is not None and one.lags}
    figure, panels = _panels(len(found))
    for axes, style, (level, one) in zip(panels, styles(len(found)), found.items(), strict=False):
        _draw_level(axes, one, style)
        axes.set(xlabel=f"distance ({NAMES[level]})")
    panels[0].set_ylabel("information (nats)")
    panels[0].legend(fontsize=7)
    return figure


def _panels(count: int) -> tuple[Figure, list[Axes]]:
    figure, axes = plt.subplots(1, max(1, count), figsize=(3.2 * max(1, count), 3.2), squeeze=False)
    return figure, list(axes[0])


def _draw_level(axes: Axes, one: results.TwoPoint, style: dict[str, Any]) -> None:
    lags, floor = np.array(one.lags), np.array(one.floor)
    excess, low, high = (np.array(row) - floor for row in (one.information, one.band.low, one.band.high))
    shown = excess > 0
    bottom = 0.3 * excess[shown].min() if shown.any() else 1e-6
    axes.fill_between(lags, np.maximum(low, bottom), np.maximum(high, bottom), color=style["color"], alpha=0.25)
    looks = {**style, "linestyle": "-", "markersize": 3}
    axes.plot(lags, np.where(shown, excess, np.nan), **looks, label="less floor")
    axes.plot(lags, np.maximum(floor, bottom), color="#777777", linestyle=":", label="floor")
    if one.drift and one.drift.value > bottom:
        axes.axhline(one.drift.value, color="#444444", linestyle="--", linewidth=0.8, label="drift alone")
    law = law_of(one)
    if law is not None and one.range:
        inside = np.geomspace(*one.range, 50)
        axes.plot(inside, law(inside), color="#222222", linestyle="-", linewidth=1, label=one.verdict)
    axes.set(xscale="log", yscale="log")


def law_of(one: results.TwoPoint) -> Any:
    """The law that holds as a function of the distance, or None."""
    if one.amplitude is None:
        return None
    if one.exponent is not None:
        exponent = one.exponent.value
        return lambda lags: one.amplitude * lags**-exponent
    if one.correlation_length is not None:
        length = one.correlation_length.value
        return lambda lags: one.amplitude * np.exp(-lags / length)
    return None


def level_table(measured: results.Measured) -> str:
    """The verdicts, level by level, in Markdown."""
    rows = [(level, one) for level, one in measured.two_point if one is not None]
    return table(
        [
            ("read as", lambda row: NAMES[row[0]]),
            ("length (symbols)", lambda row: f"{row[1].symbols:,}"),
            ("different symbols", lambda row: f"{row[1].kinds:,}" + _lumped(row[1])),
            ("verdict", lambda row: f"**{row[1].verdict}**"),
            ("distances (symbols)", lambda row: "{} to {}".format(*row[1].range) if row[1].range else None),
            ("correlation length", lambda row: _written(row[1].correlation_length)),
            ("exponent", lambda row: _written(row[1].exponent)),
            ("why", lambda row: row[1].reason),
        ],
        rows,
    )


def drift_table(measured: results.Measured) -> str:
    """Drift, non-uniformity and both laws added up, level by level, in Markdown."""
    rows = [(level, one) for level, one in measured.two_point if one is not None]
    return table(
        [
            ("read as", lambda row: NAMES[row[0]]),
            ("by drift alone (nats)", lambda row: _written(row[1].drift, ".1e")),
            ("ln (first half / second half)", lambda row: _written(row[1].halves, "+.2f")),
            ("exponential and power law together", lambda row: _together(row[1].composite)),
        ],
        rows,
    )


def against_table(against: results.Against) -> str:
    """What of the information the other text has, by range, in Markdown."""
    rows = [(level, share, one) for level, one in against.levels.items() for share in one.ratio]
    return table(
        [
            ("read as", lambda row: NAMES[row[0]]),
            ("distances (symbols)", lambda row: "{} to {}".format(*row[1].range)),
            ("share of the information", lambda row: _written(row[1], ".2f")),
            ("first distance with less than half", lambda row: row[2].half_lost),
        ],
        rows,
    )


def draw_against(against: results.Against) -> Figure:
    """Both curves, floors taken off, at each level."""
    levels = against.levels
    figure, panels = _panels(len(levels))
    for axes, (level, one) in zip(panels, levels.items(), strict=False):
        lags = np.array(one.lags)
        both = {"the text": one.information, "the other": one.other}
        for style, (label, values) in zip(styles(2), both.items(), strict=True):
            heights = np.array(values)
            axes.plot(lags[heights > 0], heights[heights > 0], **{**style, "markersize": 3}, label=label)
        if one.half_lost:
            axes.axvline(one.half_lost, color="#444444", linestyle=":", label="half is lost")
        axes.set(xscale="log", yscale="log", xlabel=f"distance ({NAMES[level]})")
    panels[0].set_ylabel("information (nats)")
    panels[0].legend(fontsize=7)
    return figure


def draw_bipartite(found: results.Bipartite) -> Figure:
    """Loss by position; both estimates of what the halves of L tokens know of each other."""
    figure, (loss, information) = _panels(2)
    loss.plot(found.positions, found.loss, **next(styles(1)))
    loss.set(xscale="log", xlabel="position (tokens)", ylabel="loss (nats per token)")
    estimates = {"direct": (found.direct, found.beta.direct), "vCLUB": (found.vclub, found.beta.vclub)}
    for style, (name, (means, beta)) in zip(styles(2), estimates.items(), strict=True):
        values, errors = np.array(means), np.array(found.standard_errors["direct" if name == "direct" else "vclub"])
        shown = values > 0
        label = f"{name}, beta {_written(beta) or MISSING}"
        lengths = np.array(found.lengths)[shown]
        information.errorbar(
            lengths, values[shown], found.half_width * errors[shown], **{**style, "markersize": 4}, label=label
        )
    information.set(xscale="log", yscale="log", xlabel="length $L$ (tokens)", ylabel="information of halves (nats)")
    information.legend(fontsize=7)
    return figure


def state_table(found: results.Bipartite) -> str:
    """What the text asks of a history state, and what the model has, in Markdown."""
    numbers = found.state.numbers if found.state else [None] * len(found.lengths)
    asked = found.state.asked_nats if found.state else [None] * len(found.lengths)
    return table(
        [
            ("$L$ (tokens)", lambda row: row[0]),
            ("asked: information of the halves (nats)", lambda row: f"{row[1]:.1f}" if row[1] is not None else None),
            ("had: numbers after $L/2$ tokens", lambda row: f"{row[2]:,.0f}" if row[2] is not None else None),
            ("room in them at 32 bits (nats)", lambda row: f"{row[2] * BITS:,.0f}" if row[2] is not None else None),
        ],
        zip(found.lengths, asked, numbers, strict=True),
    )


def _lumped(one: results.TwoPoint) -> str:
    return "" if one.kept == one.kinds else f", {one.kept:,} counted ({100 * one.covered:.0f} % of the text)"


def _written(given: Any, form: str = ".3g") -> str | None:
    if given is None:
        return None
    if given.interval == (None, None):
        return f"{given.value:{form}}"
    ends = zip(ENDS, given.interval, strict=True)
    low, high = (end if number is None else format(number, form) for end, number in ends)
    return f"{given.value:{form}} [{low}, {high}]"


def _together(given: results.Composite | None) -> str | None:
    if given is None:
        return None
    return f"{given.exponential:.2g} exp(-τ/{given.correlation_length:.2g}) + {given.power:.2g} τ^-{given.exponent:.2g}"
