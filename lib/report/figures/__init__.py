"""One look for every figure: transparent SVG, lines told apart by more than colour, in light and dark."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from lib.report.page import running_shell

STYLE = Path(__file__).with_name("book.mplstyle")
MARKERS = ("o", "s", "^", "D", "v", "P")
GREY = "#777777"
LOOKS = {
    "transformer": (0, 0, "odh8H"),
    "sliding_window": (0, 1, "h"),
    "sparse": (0, 3, "Hd"),
    "mamba": (1, 1, "^vD<>"),
    "diagonal_ssm": (1, 0, "v"),
    "mamba2": (2, 5, "XP8"),
    "linear_attention": (2, 0, "P"),
    "ttt_linear": (2, 3, "p"),
    "lstm": (3, 2, "s*"),
    "rnn": (4, 4, "D"),
    "relu_rnn": (4, 0, "8"),
    "relu_ssm": (5, 3, "<"),
    # of Kerg et al.: recurrences in the colour of the RNN, gates in that of the LSTM, attention in two of its own
    "orth_rnn": (4, 0, "XD"),
    "exp_rnn": (4, 2, "d>"),
    "goru": (3, 0, "p*"),
    "mem_rnn": (0, 2, "Pv"),
    "mem_lstm": (0, 4, "X<"),
    "rel_rnn": (1, 2, "o1"),
    "rel_lstm": (1, 3, "s2"),
    "sab": (2, 1, "*3"),
    "pretrained": (5, 0, "D>P<"),
}
"""Of an architecture in all figures: its colour and its first line, by their places in the style, and its markers."""


def use_book_style() -> None:
    """Set the style of the book for this process; in a notebook, draw SVG of exactly the asked-for size."""
    plt.style.use(STYLE)
    if running_shell() is not None:
        from matplotlib_inline.backend_inline import set_matplotlib_formats

        # no date and no cropping: the same figure has to give the same file
        set_matplotlib_formats("svg", bbox_inches=None, metadata={"Date": None})  # type: ignore[no-untyped-call]


def readable_width(picture: str, label: float = 7.0) -> float:
    """How many pixels wide an SVG has to be shown for the font of its smallest label to be ``label`` pixels high.

    Labels are those of Matplotlib, drawn as outlines that are scaled by a hundredth of their size, or text with a size
    of its own, as Vega writes it; raised and lowered digits are not looked at. Zero for a picture without labels.
    Raises ValueError for what is no SVG with a width.
    """
    found = re.search(r'<svg[^>]*?\swidth="([\d.]+)', picture)
    if not found:
        raise ValueError(f"picture: an SVG with a width is needed, got {picture[:60]!r}")
    outlined = re.findall(r'<g id="text_\d+">\s*(?:<!--.*?-->\s*)?<g [^>]*?scale\(([\d.]+)', picture, re.DOTALL)
    sizes = [100 * float(scale) for scale in outlined]
    sizes += [float(size) for size in re.findall(r'<text[^>]*?font-size="([\d.]+)', picture)]
    return label * float(found[1]) / min(sizes) if sizes else 0.0


def styles(count: int) -> Iterator[dict[str, Any]]:
    """``count`` styles (colour, line style, marker) for unordered curves, the first 36 all different."""
    lines = _lines()
    for index in range(count):
        turn = index // len(lines)  # at every turn of the colours the markers go one step further
        yield {**lines[index % len(lines)], "marker": MARKERS[(index + turn) % len(MARKERS)]}


def looks(architectures: Iterable[str]) -> Iterator[dict[str, Any]]:
    """A style for every curve, by its architecture: one colour in all figures, and another line and marker each time.

    So sizes of one architecture differ by line and marker. What is not in LOOKS is grey.
    """
    lines, before = _lines(), Counter[str]()
    for name in architectures:
        known = name if name in LOOKS else ""
        number, first, markers = LOOKS.get(name, (0, 0, "x+1234"))
        line, marker = lines[(first + before[known]) % len(lines)], markers[before[known] % len(markers)]
        before[known] += 1
        yield {"color": lines[number]["color"] if known else GREY, "linestyle": line["linestyle"], "marker": marker}


def ordered_styles(count: int) -> Iterator[dict[str, Any]]:
    """``count`` styles for curves in an order, dark to light, with changing lines and markers."""
    lines = ("-", "--", "-.", ":")
    for index, shade in enumerate(mpl.colormaps["viridis"](np.linspace(0.0, 0.56, count))):
        marker = MARKERS[index % len(MARKERS)]
        yield {"color": mpl.colors.to_hex(shade), "linestyle": lines[index % len(lines)], "marker": marker}


def _lines() -> list[dict[str, Any]]:
    """Colours with their line styles, as the style file has them."""
    return list(mpl.rc_params_from_file(STYLE, use_default_template=False)["axes.prop_cycle"])


def residual_axes(width: float = 6.5, height: float = 4.4) -> tuple[Figure, tuple[Axes, Axes]]:
    """A figure with a main panel and, below it on the same horizontal axis, a panel for the residuals."""
    figure, (main, residual) = plt.subplots(2, 1, figsize=(width, height), sharex=True, height_ratios=[3, 1])
    residual.axhline(0.0, color="#444444", linestyle="-", linewidth=0.8)
    return figure, (main, residual)


def published(axes: Axes, x: ArrayLike, y: ArrayLike, label: str = "published") -> None:
    """Values that the paper printed, as large open diamonds in front of our own curves."""
    axes.plot(x, y, "D", markersize=7, markerfacecolor="none", color="#222222", label=label, zorder=5)
