"""The figure to play with shows both kinds of information of the source that is chosen."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.bipartite_against_two_point.playing import side_by_side
from lib.information import bipartite_mutual_information
from lib.processes import AutoregressiveGaussian, EquicorrelatedGaussian, IdenticalTokens
from lib.report.figures.interactive import Playable
from tests.report.test_interactive import rows, words

LAGS, LENGTHS = np.array([1, 3, 10, 30]), np.array([2, 8, 32, 128])
SOURCES = {
    "identical tokens": IdenticalTokens(5),
    "autoregression": AutoregressiveGaussian(0.9),
    "equicorrelated": EquicorrelatedGaussian(0.3),
}
TWO_POINT = {name: source.mutual_information(LAGS) for name, source in SOURCES.items()}
BIPARTITE = {name: source.bipartite_mutual_information(LENGTHS) for name, source in SOURCES.items()}


@pytest.fixture(scope="module")
def figure() -> Playable:
    return side_by_side(LAGS, TWO_POINT, LENGTHS, BIPARTITE)


def independent(name: str) -> tuple[float, float]:
    """Both kinds by another way: in closed form, or from the determinants of the covariance."""
    if name == "identical tokens":
        return np.log(5), np.log(5)
    covariance = SOURCES[name].covariance(128)
    pair = covariance[np.ix_([0, 30], [0, 30])]
    return bipartite_mutual_information(pair, 1), bipartite_mutual_information(covariance, 64)


@pytest.mark.parametrize("name", SOURCES)
def test_the_numbers_in_words_and_the_ends_of_the_curves_are_those_of_the_source(figure: Playable, name: str) -> None:
    near, far = independent(name)
    said = words(figure.picture(source=name))
    assert f"{name}:" in said and f"{near:.3g} nats at lag 30, {far:.3g} nats between halves" in said
    tables = [[row for row in rows(figure.chart, "nats", end) if row["source"] == name] for end in ("30", "128")]
    assert [float(table[-1]["nats"]) for table in tables] == pytest.approx([near, far], rel=1e-3)
    assert all(f"{name}:" not in words(figure.picture(source=other)) for other in SOURCES if other != name)


def test_a_curve_for_another_source_is_noticed() -> None:
    swapped = side_by_side(LAGS, TWO_POINT | {"autoregression": TWO_POINT["equicorrelated"]}, LENGTHS, BIPARTITE)
    assert f"{independent('autoregression')[0]:.3g} nats at lag" not in words(swapped.picture(source="autoregression"))


def test_what_is_too_small_to_be_seen_is_left_out_and_curves_of_other_sources_are_refused(figure: Playable) -> None:
    faint = {"white": np.array([1e-3, 1e-9, 0, 0]), "other": np.ones(4)}
    kept = rows(side_by_side(LAGS, faint, LENGTHS, faint).chart, "nats", "30")
    assert [row["x"] for row in kept if row["source"] == "white"] == ["1"]
    with pytest.raises(ValueError, match="same sources"):
        side_by_side(LAGS, TWO_POINT, LENGTHS, faint)
