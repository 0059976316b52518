"""The picture on the first page: how fast four sources forget, from one call each."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from lib.information import auto_mutual_information
from lib.processes import MarkovChain, PowerLawBinary, RepetitiveSequence, corpora
from lib.report import figures

LENGTH = 4096  # symbols in a row; pairs never cross rows


@dataclass(frozen=True)
class Curve:
    """Mutual information in nats at every lag: measured, and the exact curve where there is one."""

    name: str
    measured: NDArray[np.float64]
    law: NDArray[np.float64] | None = None


def lags(largest: int = 1000, count: int = 45) -> NDArray[np.int64]:
    """Whole lags from 1 to ``largest``, evenly spread on a logarithmic axis."""
    return np.unique(np.geomspace(1, largest, count).round().astype(np.int64))


def measure(sequences: int = 2000, seed: int = 0) -> list[Curve]:
    """Real text, a power law, a source that repeats itself and a Markov chain, estimated by the same call.

    The last curve is the control: real text with the characters of each row in random order. What it has left is the
    difference between the rows and the bias of the estimator, so text cannot be said to remember below it.
    ``sequences`` rows are drawn of each artificial source. Cost O(lags * symbols).
    """
    random, at = np.random.default_rng(seed), lags()
    text = corpora.load("sotu").tokens("character").rows(LENGTH)
    power_law = PowerLawBinary(LENGTH, amplitude=0.1, exponent=0.4)
    repetitive = RepetitiveSequence(p=0.35)
    chain = MarkovChain([[0.95, 0.05], [0.05, 0.95]])

    def sampled(name: str, rows: NDArray[Any], law: ArrayLike) -> Curve:
        return Curve(name, auto_mutual_information(rows, at), np.asarray(law, dtype=np.float64))

    return [
        Curve("real text (characters)", auto_mutual_information(text, at)),
        sampled("power law", power_law.sample(sequences, random), power_law.mutual_information(at)),
        sampled("repetitive text", repetitive.sample(sequences, LENGTH, random), repetitive.mutual_information(at)),
        sampled("Markov chain", chain.sample(sequences, LENGTH, random), chain.mutual_information(at)),
        Curve("real text, rows shuffled", auto_mutual_information(random.permuted(text, axis=1), at)),
    ]


def draw(curves: list[Curve]) -> Figure:
    """Mutual information against lag on logarithmic axes: markers are measured, lines are exact curves."""
    figure: Figure
    figure, axes = plt.subplots(figsize=(6.5, 4.0))
    for curve, style in zip(curves, figures.styles(len(curves)), strict=True):
        line = style.pop("linestyle")
        axes.loglog(lags(), curve.measured, linestyle="", **style)
        axes.loglog(lags(), curve.measured if curve.law is None else curve.law, linestyle=line, color=style["color"])
        axes.loglog([], [], linestyle=line, label=curve.name, **style)
    axes.set(xlabel="lag (symbols)", ylabel="mutual information (nats)", ylim=(5e-5, 1.2))
    figure.legend(loc="outside upper left", ncols=3)
    return figure


if __name__ == "__main__":  # the picture of the README: python -m experiments.landing.figures picture.svg
    figures.use_book_style()
    # on a page of another site the background is unknown, so this copy brings its own
    draw(measure()).savefig(Path(sys.argv[1]), facecolor="white", transparent=False, metadata={"Date": None})
