"""What the length of a text does to its information: the estimate, what it is where there is nothing, and the rest."""

from __future__ import annotations

import altair as alt
import numpy as np
from numpy.typing import ArrayLike, NDArray

from experiments.natural_corpora.resampling import cut_pieces
from lib.information.documents.segments import floor_of_pairs, pair_numbers, segmented_mutual_information
from lib.report.figures import GREY, styles
from lib.report.figures.interactive import Playable, choice, chosen, logarithmic, readout, told_apart

LENGTHS = (3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000)  # characters
ESTIMATORS = {"plug-in": "plugin", "Grassberger 2003": "grassberger2003"}
CURVES = ("estimate", "floor", "difference")
WHOLE = "difference, longest text"
LONGEST_LAG = 1000
LOWEST, HIGHEST = 1e-5, 3.0  # nats


def curves(text: ArrayLike, lags: ArrayLike, estimator: str, seed: int = 0) -> NDArray[np.float64]:
    """I(tau) as estimated, its sampling floor and their difference, in nats: shape (3, lags). O(length) per lag.

    The floor is that of the whole text, raised as there are fewer pairs at a lag.
    """
    estimate = segmented_mutual_information(text, lags, estimator=estimator)
    pairs = pair_numbers(lags, [0, np.size(text)])
    floor = floor_of_pairs(text, pairs, seed=seed, estimator=estimator).mean(axis=0)
    return np.stack([estimate, floor, estimate - floor])


def lengths(letters: ArrayLike, count: int = 12, at: int = 100, seed: int = 0) -> Playable:
    """Estimate, floor and difference at lags up to 1000 for a length of text and an estimator that a reader chooses.

    letters: a text as integers >= 0; of each length the piece in its middle is taken, and behind stands the difference
    for the longest. count: of lags. at: the lag that is told in words. seed: of the shuffles behind the floor.
    Raises ValueError for a text that is shorter than the two shortest lengths. Cost O(count) for each character.
    """
    symbols = np.asarray(letters)
    sizes = tuple(size for size in LENGTHS if size <= symbols.size)
    if len(sizes) < 2:
        raise ValueError(f"letters: a text of {LENGTHS[1]} characters or more is needed, got {symbols.size}")
    length = choice("length", "length of the text (characters)", sizes, min(sizes[-1], 100_000))
    estimator = choice("estimator", "estimator", list(ESTIMATORS), "Grassberger 2003")
    settings = (length, estimator)
    lags = np.unique([*np.geomspace(1, LONGEST_LAG, count).round().astype(int), at])
    pieces = [cut_pieces(symbols, size, 3)[1] for size in sizes]
    values = np.array([[curves(piece, lags, name, seed) for name in ESTIMATORS.values()] for piece in pieces])
    # (lengths, estimators, curves, lags)
    grid = {"length": np.array(sizes)[:, None], "estimator": np.array(list(ESTIMATORS))}
    table = {name: column[..., None, None] for name, column in grid.items()}
    shown = np.maximum(values, LOWEST / 1e3)  # what is below the picture is not on a logarithmic axis
    rows = {**table, "curve": np.array(CURVES)[:, None], "lag": lags, "nats": shown}
    longest = {"estimator": grid["estimator"][:, None], "curve": WHOLE, "lag": lags, "nats": shown[-1, :, 2]}
    grey = {"color": GREY, "linestyle": "-"}
    scales = {
        "x": alt.X("lag:Q", title="distance (characters)", **logarithmic(1, LONGEST_LAG)),
        "y": alt.Y("nats:Q", title="mutual information (nats)", **logarithmic(LOWEST, HIGHEST, ".0e")),
        **told_apart("curve", [*CURVES, WHOLE], [*styles(len(CURVES)), grey]),
    }
    behind = chosen(longest, estimator).mark_line(clip=True, aria=False, strokeWidth=5, opacity=0.6).encode(**scales)
    lines = chosen(rows, *settings).mark_line(clip=True, aria=False).encode(**scales)
    said = readout({**grid, "text": _said(sizes, values[..., lags == at][..., 0], at)}, *settings)
    return Playable((behind + lines + said).properties(width=470, height=280), *settings)


def _said(sizes: tuple[int, ...], told: NDArray[np.float64], at: int) -> list[list[str]]:
    """In words, the numbers at one lag for each length and estimator; told: (lengths, estimators, curves)."""
    return [
        [
            f"{size:,} characters, {name}, at distance {at}: estimate {_signed(estimate)}, \n"
            f"floor {_signed(floor)}, difference {_signed(rest)} nats; of {sizes[-1]:,} characters {_signed(whole)}"
            for name, (estimate, floor, rest), whole in zip(ESTIMATORS, row, told[-1, :, 2], strict=True)
        ]
        for size, row in zip(sizes, told, strict=True)
    ]


def _signed(value: float) -> str:
    return f"{value:.2g}".replace("-", "−")
