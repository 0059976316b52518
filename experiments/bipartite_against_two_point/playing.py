"""Both kinds of information for a source that a reader chooses, among the curves of all others."""

from __future__ import annotations

from collections.abc import Mapping

import altair as alt
import numpy as np
from numpy.typing import ArrayLike, NDArray

from lib.report.figures.interactive import Playable, choice, chosen, logarithmic, readout

Curves = Mapping[str, NDArray[np.float64]]
SMALLEST = 1e-6  # nats; smaller two-point information is below the picture
FAINT = "#888888"


def side_by_side(lags: ArrayLike, two_point: Curves, lengths: ArrayLike, bipartite: Curves) -> Playable:
    """I(tau) at the lags beside I(L/2; L) at the lengths, both in nats, of one source in front of all.

    two_point, bipartite: a curve for each source. Raises ValueError where they are not of the same sources.
    """
    if set(two_point) != set(bipartite):
        raise ValueError(f"curves of the same sources are needed, got {sorted(two_point)} and {sorted(bipartite)}")
    at, sizes = np.asarray(lags), np.asarray(lengths)
    names = list(two_point)
    source = choice("source", "source", names, names[0])
    words = [
        f"{name}: \n{two_point[name][-1]:.3g} nats at lag {at[-1]}, {bipartite[name][-1]:.3g} nats between halves"
        for name in names
    ]
    left = _panel(source, two_point, at, "two-point information (nats)", "lag τ (symbols)")
    right = _panel(source, bipartite, sizes, "bipartite information (nats)", "length L (symbols)")
    said = readout({"source": names, "text": words}, source)
    return Playable(alt.concat(left + said, right, columns=2, bounds="flush", spacing=85), source)


def _panel(source: alt.Parameter, curves: Curves, x: NDArray[np.int64], what: str, over: str) -> alt.LayerChart:
    """One kind of information: the two-point one on a logarithmic axis, the other on a plain one."""
    names, values = np.array(list(curves))[:, None], np.array(list(curves.values()))
    seen = values > SMALLEST
    columns = [array[seen] for array in np.broadcast_arrays(names, x, values)]
    table = dict(zip(("source", "x", "nats"), columns, strict=True))
    scaled = logarithmic(SMALLEST, 3, ".0e") if "two-point" in what else {}
    at = {
        "x": alt.X("x:Q", title=over, **logarithmic(x[0], x[-1])),
        "y": alt.Y("nats:Q", title=what, **scaled),
    }
    others = chosen(table).mark_line(aria=False, strokeWidth=1).encode(**at, detail="source:N", color=alt.value(FAINT))
    one = chosen(table, source).mark_line(aria=False, strokeWidth=3, point=True).encode(**at)
    return (others + one).properties(width=245, height=230)
