"""A sum of exponentials passes for a power law on a window: what the fit of a single one then measures."""

from __future__ import annotations

import altair as alt
import numpy as np
from numpy.typing import ArrayLike, NDArray

from lib.information import fit_exponential
from lib.report.figures.interactive import Playable, choice, chosen, logarithmic, readout, slider, told_apart

COUNTS = np.arange(1, 9)
WINDOWS = tuple(2**power for power in range(5, 14))  # symbols
RATIO = 4.0  # of neighbouring correlation lengths, the shortest of which is as long as this
CURVES = ("mutual information", "fitted exponential")
LOWEST = 1e-4  # nats; below that the picture ends


def mixture(count: int, lags: ArrayLike, amplitude: float, gamma: float) -> NDArray[np.float64]:
    """I(tau) = sum_j w_j e^(-tau / xi_j) in nats, shape of the lags; xi_j = 4^j and w_j ~ xi_j^-gamma, j = 1 ... count.

    It follows amplitude tau^-gamma, by and large, up to the longest xi_j, and is an exponential beyond.
    """
    lengths = RATIO ** np.arange(1, count + 1)
    tau = np.asarray(lags, dtype=np.float64)[..., None]
    return np.asarray(amplitude * (lengths**-gamma * np.exp(-tau / lengths)).sum(axis=-1))


def spread(window: int) -> NDArray[np.float64]:
    """Places between 1 and the window, evenly on a logarithmic axis."""
    return np.geomspace(1, window, 12)


def fitted(count: int, window: int, amplitude: float, gamma: float) -> tuple[float, NDArray[np.float64]]:
    """Correlation length in symbols of one exponential, fitted at all lags below the window; its curve at `spread`."""
    tau = np.arange(1, window)
    found = fit_exponential(tau, mixture(count, tau, amplitude, gamma), floor=0)
    return found.correlation_length, found.predict(spread(window))


def lengths(amplitude: float = 0.1, gamma: float = 0.4) -> Playable:
    """I(tau) of a sum of exponentials with the single one fitted on a window; beside it, that length by window."""
    count = slider("count", "number of exponentials", COUNTS, 7)
    window = choice("window", "window (symbols)", WINDOWS, 512)
    found = [[fitted(int(n), size, amplitude, gamma) for size in WINDOWS] for n in COUNTS]
    xi = np.array([[length for length, _ in row] for row in found])  # (counts, windows)
    fits = np.array([[values for _, values in row] for row in found])
    grid = {"count": COUNTS[:, None], "window": np.array(WINDOWS)}
    tau = np.unique(np.geomspace(1, WINDOWS[-1], 30).round().astype(int))
    curves = np.array([mixture(int(n), tau, amplitude, gamma) for n in COUNTS])
    scales = {
        "x": alt.X("tau:Q", title="lag τ (symbols)", **logarithmic(1, WINDOWS[-1])),
        "y": alt.Y("nats:Q", title="information (nats)", **logarithmic(LOWEST, 1, ".0e")),
        **told_apart("curve", CURVES),
    }
    kept = np.maximum(curves, LOWEST / 1e3)
    whole = chosen({"count": COUNTS[:, None], "tau": tau, "nats": kept, "curve": CURVES[0]}, count)
    at = np.array([spread(size) for size in WINDOWS])
    table = {name: column[..., None] for name, column in grid.items()}
    line = chosen({**table, "tau": at, "nats": np.maximum(fits, LOWEST / 1e3), "curve": CURVES[1]}, count, window)
    left = (_drawn(whole, scales) + _drawn(line, scales)).properties(width=245, height=230)
    said = readout({**grid, "text": _said(xi, gamma)}, count, window)
    right = _by_window(count, window, xi, gamma).properties(width=245, height=230)
    return Playable(alt.concat(left + said, right, columns=2, bounds="flush", spacing=85), count, window)


def _drawn(chart: alt.Chart, scales: dict[str, alt.SchemaBase]) -> alt.Chart:
    return chart.mark_line(clip=True, aria=False).encode(**scales)


def _by_window(count: alt.Parameter, window: alt.Parameter, xi: NDArray[np.float64], gamma: float) -> alt.LayerChart:
    sizes = np.array(WINDOWS)
    at = {
        "x": alt.X("window:Q", title="window N (symbols)", **logarithmic(WINDOWS[0], WINDOWS[-1])),
        "y": alt.Y("length:Q", title="fitted length ξ (symbols)", **logarithmic(1, 1e5)),
    }
    columns = {"count": COUNTS[:, None], "window": sizes, "length": xi}
    of_window = chosen({"window": sizes, "length": sizes / (3 * gamma)}).mark_line(aria=False, strokeWidth=1)
    all_windows = chosen(columns, count).mark_line(aria=False, point=True).encode(**at)
    one = chosen(columns, count, window).mark_point(size=130, filled=True, opacity=1, aria=False)
    return (
        of_window.encode(**at, color=alt.value("#444444")) + all_windows + one.encode(**at, color=alt.value("#C8500A"))
    )


def _said(xi: NDArray[np.float64], gamma: float) -> list[list[str]]:
    return [
        [
            f"{count} exponential{'s' * (count > 1)}, the longest with ξ = {RATIO**count:.0f}; \n"
            f"fitted below lag {size}: ξ = {length:.3g}, where N/(3γ) = {size / (3 * gamma):.0f}"
            for size, length in zip(WINDOWS, row, strict=True)
        ]
        for count, row in zip(COUNTS.tolist(), xi, strict=True)
    ]
