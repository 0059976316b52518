"""Figures of Gaussian language models: KL by position, against length, against information and state.

What they know of the second half stands beside what their state could hold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from experiments.gaussians.baselines import Baselines, baselines_of, in_bins, linear_state_information
from experiments.gaussians.runs import NAMES, GaussianRun, Model, Models
from experiments.gaussians.sizes import SIZES
from experiments.gaussians.statements import collapse
from experiments.gaussians.statements.length import relative
from lib.report import figures

EXACT: dict[str, dict[str, Any]] = {
    "nothing": {"color": "#555555", "linestyle": "-", "linewidth": 0.8},
    "its own half": {"color": "#555555", "linestyle": (0, (1, 1)), "linewidth": 1.2},
    "last 4 tokens": {"color": "#888888", "linestyle": "--", "linewidth": 0.8},
    "last 16 tokens": {"color": "#888888", "linestyle": "-.", "linewidth": 0.8},
    "last 64 tokens": {"color": "#888888", "linestyle": ":", "linewidth": 0.8},
}
"""Lines of predictors of known memory, by what they know."""
LOSS = "KL (nats per number)"
VARIANTS = "*psd"
Curve = Callable[[GaussianRun], float]
LIMIT: dict[str, Any] = {"color": "#444444", "linestyle": "-", "linewidth": 0.9}
SHARES = (-0.1, 1.4)


def draw_clocks(panels: Sequence[Axes], by_clock: Mapping[str, Models], lines: Sequence[Baselines]) -> None:
    """KL over that of N(0, 1) against the length, a panel for each clock: every seed a marker, means as lines.

    One look for each network, whatever its clock. Grey: exact windows. A panel without runs says so.
    """
    found = {known_as(model) for models in by_clock.values() for model in models}
    networks = sorted(found, key=lambda known: (list(SIZES).index(known[0]), len(known[1]), known[1]))
    looks = figures.looks(Model(size).look for size, _ in networks)
    styles = dict(zip(networks, looks, strict=True))
    for axes, (clock, models) in zip(panels, by_clock.items(), strict=True):
        for name in ("last 4 tokens", "last 16 tokens"):
            exact = [(line.length, line.curves()[name].mean() / line.independent.mean())
                     for line in lines if name in line.curves()]  # fmt: skip
            axes.plot(*zip(*exact, strict=True), **EXACT[name])
        for model, by_length in models.items():
            style = styles[known_as(model)]
            points = [(length, relative(run)) for length, runs in by_length.items() for run in runs]
            seeds = {**style, "linestyle": "none", "markersize": 4, "markerfacecolor": "none"}
            axes.plot(*zip(*points, strict=True), **seeds)
            means = {length: np.mean([relative(run) for run in by_length[length]]) for length in sorted(by_length)}
            axes.plot(list(means), list(means.values()), **{**style, "marker": ""})
        if not models:
            axes.text(0.5, 0.5, "not recorded yet", transform=axes.transAxes, ha="center")
        axes.set(xscale="log", xlabel=f"{clock}\nlength $L$ (tokens)", ylim=(0, 1.05))
        axes.set_xticks([line.length for line in lines], [str(line.length) for line in lines])
        axes.minorticks_off()
    panels[0].set_ylabel("KL / KL of N(0, 1)")
    handles = [
        Line2D([], [], **{**style, "markersize": 4}, label=Model(size).name + (f", {state}" if state else ""))
        for (size, state), style in styles.items()
    ]
    if handles:
        panels[0].figure.legend(handles=handles, loc="outside upper center", ncols=3, fontsize=8)


def known_as(model: Model) -> tuple[str, str]:
    """Size and state of a model, without its clock."""
    return model.size, ", ".join(word for word in model.variant.split(", ") if word.startswith("state"))


def draw_positions(
    models: Models, lengths: Sequence[int], lines: Sequence[str] = ("nothing", "its own half")
) -> Figure:
    """KL by position: a row of panels for each architecture, a column for each length; mean over seeds, seeds thin."""
    kinds = list(dict.fromkeys(model.architecture for model in models))
    figure: Figure
    figure, panels = plt.subplots(
        len(kinds), len(lengths), figsize=(6.5, 0.6 + 1.9 * len(kinds)), sharey=True, sharex="col", squeeze=False
    )
    for row, kind in zip(panels, kinds, strict=True):
        own = {model: by_length for model, by_length in models.items() if model.architecture == kind}
        for axes, length in zip(row, lengths, strict=True):
            draw_position_curves(axes, own, length, lines)
        row[0].set_ylabel(f"{NAMES[kind]}\n{LOSS}")
        row[0].legend(handles=_handles(own), fontsize=8, handlelength=2.2, loc="lower right")
    for axes, length in zip(panels[-1], lengths, strict=True):
        axes.set_xlabel(f"position, $L$ = {length}")
        logarithmic(axes, "x")
    logarithmic(panels[0][0], "y")
    return figure


def draw_position_curves(
    axes: Axes, models: Models, length: int, lines: Sequence[str], curve: str = "divergence"
) -> None:
    """One panel of it; curve: "divergence", or another that is recorded in bins."""
    shown = [run for by_length in models.values() for run in by_length.get(length, ())]
    if shown:
        exact = baselines_of(shown[0]).curves()
        for name in lines:
            line = in_bins(exact[name], shown[0])
            axes.plot(places_of(shown[0]), np.where(line > 1e-9, line, np.nan), **EXACT[name])
    for by_length, style in zip(models.values(), styles_of(models), strict=True):
        runs = by_length.get(length, ())
        values = np.array([run.result[curve] for run in runs], dtype=np.float64)
        for one in values:
            axes.plot(places_of(runs[0]), one, color=style["color"], linewidth=0.4, alpha=0.6)
        if runs:
            axes.plot(places_of(runs[0]), values.mean(axis=0), **{**style, "markersize": 3}, markevery=(2, 5))
    axes.set(xscale="log", yscale="log")


def places_of(run: GaussianRun) -> Any:
    """Middles of the recorded bins of positions, geometric."""
    return np.sqrt(np.multiply(run.result["first_positions"], run.result["last_positions"]))


def draw_averages(panels: Sequence[Axes], models: Models, lines: Sequence[Baselines], curve: Curve, label: str) -> None:
    """A number of every run against the length: a panel for each architecture, means as lines, every seed a marker.

    Panels of architectures that are not recorded yet stay empty.
    """
    for axes, kind in zip(panels, dict.fromkeys(model.architecture for model in models), strict=False):
        own = {model: by_length for model, by_length in models.items() if model.architecture == kind}
        for name, style in EXACT.items():
            exact = [(line.length, line.curves()[name].mean()) for line in lines if name in line.curves()]
            if exact and name != "its own half":
                axes.plot(*zip(*exact, strict=True), **style)
        for by_length, style in zip(own.values(), styles_of(own), strict=True):
            points = [(length, curve(run)) for length, runs in by_length.items() for run in runs]
            seeds = {**style, "linestyle": "none", "markersize": 4, "markerfacecolor": "none"}
            axes.plot(*zip(*points, strict=True), **seeds)
            means = {length: np.mean([curve(run) for run in by_length[length]]) for length in sorted(by_length)}
            axes.plot(list(means), list(means.values()), **{**style, "marker": ""})
        axes.set(xscale="log", xlabel="length $L$ (tokens)")
        lengths = sorted({length for by_length in own.values() for length in by_length})
        axes.set_xticks(lengths, [str(length) for length in lengths])
        axes.minorticks_off()
        axes.legend(handles=_handles(own), fontsize=8, title=NAMES[kind], title_fontsize=9, loc="lower center",
                    bbox_to_anchor=(0.5, 1.0))  # fmt: skip
    panels[0].set_ylabel(label)


def draw_entropy(panels: Sequence[Sequence[Axes]], runs: Sequence[GaussianRun], length: int) -> None:
    """The entropy of the process in two rows of panels: against the length, and by position at one length."""
    measured = {run.length: run for run in sorted(runs, key=lambda run: run.length) if run.measured}
    for axes in panels[0]:
        axes.plot(list(measured), [run.result["average_entropy"] for run in measured.values()], **EXACT["its own half"])
    for axes in panels[1] if length in measured else ():
        run = measured[length]
        axes.plot(places_of(run), run.result["entropy"], **EXACT["its own half"])


def draw_courses(panels: Sequence[Axes], models: Models, lengths: Sequence[int]) -> None:
    """Validation KL against the step, a panel for each length, every seed a line."""
    for axes, length in zip(panels, lengths, strict=True):
        for by_length, style in zip(models.values(), styles_of(models), strict=True):
            for run in by_length.get(length, ()):
                losses = np.array(run.result["validation_losses"], dtype=np.float64)
                steps = run.parameters["epoch_steps"] * np.arange(1, losses.size + 1)
                axes.plot(steps, losses, **{**style, "markersize": 3, "linewidth": 0.8}, markevery=(4, 8))
        axes.set(xlabel=f"step, $L$ = {length}")
        logarithmic(axes, "x")
    logarithmic(panels[0], "y")
    panels[0].set_ylabel(f"validation {LOSS}")
    legend_above(panels, models)


def draw_collapse(
    panels: Sequence[Axes],
    by_clock: Mapping[str, Mapping[int, Models]],
    curves: Mapping[str, collapse.Cells],
    floor: float,
) -> None:
    """KL against information per number of the state, a panel for each clock: the models of each number of copies.

    Every seed a marker, larger ones for longer sequences; lines join the means of a length over the states. Grey: the
    floor, and the rising curve through the means of the cells of `curves`, which may be empty.
    """
    groups: dict[tuple[int, int], dict[str, list[Sequence[GaussianRun]]]] = {}
    for clock, shown in by_clock.items():
        for copies, models in shown.items():
            for length, runs in ((length, runs) for found in models.values() for length, runs in found.items()):
                groups.setdefault((length, copies), {}).setdefault(clock, []).append(runs)
    looks = figures.ordered_styles(len(groups))
    for axes, clock in zip(panels, by_clock, strict=True):
        if cells := curves[clock]:
            x, y = collapse.rising(cells.variables[collapse.COLLAPSE], np.nanmean(cells.kl, axis=1))
            axes.plot(np.exp(x), np.exp(y), color="#888888", linestyle="-", linewidth=2.5, alpha=0.5, zorder=1)
        axes.axhline(floor, color="#888888", linestyle=":", linewidth=0.9)
        axes.set(xlabel=f"{clock}\n{collapse.COLLAPSE} (nats per number)")
    for ((length, copies), by_panel), style in zip(sorted(groups.items()), looks, strict=True):
        seeds = {**style, "linestyle": "none", "markerfacecolor": "none", "markersize": 1.5 + np.log2(length) / 2}
        for axes, clock in zip(panels, by_clock, strict=True):
            means = []
            for runs in by_panel.get(clock, []):
                place = runs[0].information / runs[0].state()
                axes.plot([place] * len(runs), [run.average for run in runs], **seeds)
                means.append((place, np.mean([run.average for run in runs])))
            axes.plot(*np.reshape(sorted(means), (-1, 2)).T, **{**style, "marker": "", "linewidth": 0.9})
        panels[0].plot([], [], **{**seeds, "linestyle": style["linestyle"]}, label=f"$L$ = {length}, {copies} copies")
    for axes in panels:
        logarithmic(axes, "x")
    logarithmic(panels[0], "y")
    panels[0].set_ylabel(LOSS)
    if groups:
        panels[0].figure.legend(loc="outside upper center", ncols=2, fontsize=8)


def styles_of(models: Iterable[Model]) -> Iterator[dict[str, Any]]:
    """A colour for each architecture; line and marker for the size, open markers of their own for variants."""
    there = list(models)
    sizes = figures.looks(model.look for model in there if not model.variant)
    variants = list(dict.fromkeys(model.variant for model in there if model.variant))
    for model in there:
        if model.variant:
            marker = VARIANTS[variants.index(model.variant) % len(VARIANTS)]
            own = {"linestyle": (0, (8, 2)), "marker": marker, "markerfacecolor": "none"}
            yield {**next(figures.looks([model.look])), **own}
        else:
            yield next(sizes)


def logarithmic(axes: Axes, *names: str) -> None:
    """Logarithmic axes of these names ("x", "y") with a few ticks that are written out, after all is drawn."""
    for name in names:
        axis = axes.xaxis if name == "x" else axes.yaxis
        axes.set(**{f"{name}scale": "log"})
        low, high = sorted(axes.get_xlim() if name == "x" else axes.get_ylim())
        for steps in ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 4, 6, 8)):
            decades = 10.0 ** np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1)
            ticks = [step * ten for ten in decades for step in steps if low <= step * ten <= high]
            if len(ticks) >= 3:
                break
        if not ticks:  # hardly any range
            ticks = [float(f"{value:.2g}") for value in np.geomspace(low, high, 4)[1:3]]
        most = 4 if max(ticks) < 5000 else 3  # wide numbers need room
        ticks = ticks[:: math.ceil(len(ticks) / most)]
        axis.set_major_locator(FixedLocator(ticks))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_locator(NullLocator())


def legend_above(panels: Sequence[Axes], models: Models, ncols: int = 4, line: bool = True) -> None:
    """One legend of all models over the panels."""
    handles = [
        Line2D([], [], **{**style, "markersize": 4, **({} if line else {"linestyle": "none"})}, label=str(model))
        for model, style in zip(models, styles_of(models), strict=True)
    ]
    panels[0].figure.legend(handles=handles, loc="outside upper center", ncols=ncols, fontsize=8)


def _handles(models: Models) -> list[Line2D]:
    styles = styles_of(models)
    return [
        Line2D([], [], **{**style, "markersize": 4}, label=_short(model))
        for model, style in zip(models, styles, strict=True)
    ]


def _short(model: Model) -> str:
    """The size alone, where a panel or a legend names the family."""
    return str(model).removeprefix(NAMES[model.architecture]).lstrip(" -,") or model.name


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
