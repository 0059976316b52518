"""How much a model of chosen size can carry, against what books ask for: where a history state is full."""

from __future__ import annotations

import altair as alt
import numpy as np
import torch
from numpy.typing import NDArray

from lib.models import create
from lib.models.catalogue import NAMES
from lib.report import figures
from lib.report.figures.interactive import Playable, choice, chosen, logarithmic, readout, told_apart
from lib.theory import history_state_size

ARCHITECTURES = ("lstm", "mamba", "sliding_window", "transformer")
OPTIONS = {"sliding_window": {"window": 64}}
WIDTHS, DEPTHS, NATS = (16, 64, 256, 1024, 4096), (1, 4, 16, 64), (0.1, 0.3, 1.0, 3.0, 10.0)
LENGTHS = np.array([2, 16, 64, 256, 10**6])  # symbols; the sizes are straight lines between them
BOOKS = "information in books"


def state_sizes() -> NDArray[np.float64]:
    """Numbers in the state of each architecture: shape (architectures, widths, depths, lengths). Takes no memory."""
    with torch.device("meta"):
        layer = np.array([[_sizes(name, width) for width in WIDTHS] for name in ARCHITECTURES], dtype=np.float64)
    return np.asarray(layer[:, :, None] * np.array(DEPTHS)[:, None])


def _sizes(name: str, width: int) -> list[int]:
    """Of a single layer: all layers have states of one size."""
    model = create(name, 2, width, **OPTIONS.get(name, {}))
    return [history_state_size(model, int(length)) for length in LENGTHS]


def full_at(capacity: NDArray[np.float64], amplitude: float, exponent: float) -> NDArray[np.float64]:
    """Length at which amplitude L^exponent reaches a capacity in nats that no longer grows."""
    return np.asarray((capacity / amplitude) ** (1 / exponent))


def filling(amplitude: float, exponent: float) -> Playable:
    """Capacity in nats against the length of a text, of four architectures, and amplitude L^exponent nats of books.

    Choose width, layers and the nats that a number holds. The text says at which length each state is full.
    """
    width = choice("units", "width", WIDTHS, 64)
    depth = choice("depth", "layers", DEPTHS, 4)
    nats = choice("nats", "nats per number", NATS, 1.0)
    settings = (width, depth, nats)
    sizes = state_sizes()
    capacity = sizes[:, :, :, None] * np.array(NATS)[:, None]  # (architectures, widths, depths, nats, lengths)
    grid = {"units": np.array(WIDTHS)[:, None, None], "depth": np.array(DEPTHS)[:, None], "nats": np.array(NATS)}
    names = np.array([NAMES[name] for name in ARCHITECTURES])
    table = {name: column[..., None] for name, column in grid.items()}
    rows = {**table, "model": names[:, None, None, None, None], "length": LENGTHS, "size": capacity}
    lines = chosen(rows, *settings).mark_line(clip=True, aria=False)
    books = chosen({"model": BOOKS, "length": LENGTHS[[0, -1]], "size": amplitude * LENGTHS[[0, -1]] ** exponent})
    grey = {"color": figures.GREY, "linestyle": "-"}
    at = {
        "x": alt.X("length:Q", title="length L (tokens)", **logarithmic(LENGTHS[0], LENGTHS[-1])),
        "y": alt.Y("size:Q", title="information (nats)", **logarithmic(1, 1e9, ".0e")),
        **told_apart("model", [*names, BOOKS], [*figures.looks(ARCHITECTURES), grey]),
    }
    said = readout({**grid, "text": _said(sizes, capacity, names, amplitude, exponent)}, *settings)
    thick = books.mark_line(clip=True, aria=False, strokeWidth=5, opacity=0.7)
    chart = (thick.encode(**at) + lines.encode(**at) + said).properties(width=470, height=280)
    return Playable(chart, *settings)


def _said(
    sizes: NDArray[np.float64],
    capacity: NDArray[np.float64],
    names: NDArray[np.str_],
    amplitude: float,
    exponent: float,
) -> NDArray[np.str_]:
    """In words, the length at which each state is full: shape (widths, depths, nats)."""
    fixed = np.array([np.all(size[..., -1] == size[..., -2]) for size in sizes])
    full = full_at(capacity[..., -1], amplitude, exponent)
    words = np.empty(capacity.shape[1:-1], dtype=object)
    for place in np.ndindex(words.shape):
        lengths = (
            f"{name} {float(f'{full[model, *place]:.3g}'):,.0f}" for model, name in enumerate(names) if fixed[model]
        )
        width, depth, nats = (options[index] for options, index in zip((WIDTHS, DEPTHS, NATS), place, strict=True))
        never = ", ".join(names[~fixed])
        size = f"width {width}, {depth} layer{'s' * (depth != 1)}, {nats:g} nats per number. Full at L = \n"
        words[place] = f"{size}{', '.join(lengths)}; {never} never"
    return words.astype(str)
