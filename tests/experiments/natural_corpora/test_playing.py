"""The figure to play with shows estimate, floor and difference of the piece of text that is chosen."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.natural_corpora import playing
from lib.report.figures.interactive import Playable
from tests.report.test_interactive import rows, words

STATES, STAY = 12, 0.8


def chain(length: int = 120_000) -> np.ndarray:
    """A text that keeps its symbol with a chance and else draws one of twelve: I(tau) is known."""
    random = np.random.default_rng(3)
    drawn = random.integers(STATES, size=length)
    kept = random.random(length) < STAY
    return drawn[np.maximum.accumulate(np.where(kept, 0, np.arange(length)))].astype(np.uint8)


TEXT = chain()


@pytest.fixture(scope="module")
def figure() -> Playable:
    return playing.lengths(TEXT, count=6)


def exact(lag: int) -> float:
    """Nats between two symbols: they are the same one with probability STAY^lag, else independent."""
    same = STAY**lag
    equal, other = same / STATES + (1 - same) / STATES**2, (1 - same) / STATES**2
    terms = STATES * equal * np.log(equal * STATES**2)
    return float(terms + (STATES * (STATES - 1) * other * np.log(other * STATES**2) if other > 0 else 0.0))


def column(figure: Playable, length: int, estimator: str) -> dict[str, dict[int, float]]:
    found: dict[str, dict[int, float]] = {}
    for row in rows(figure.chart, "length estimator curve lag nats"):
        if (row["length"], row["estimator"]) == (str(length), estimator):
            found.setdefault(row["curve"], {})[int(row["lag"])] = float(row["nats"])
    return found


@pytest.mark.parametrize(
    ("length", "estimator"), [(3_000, "plug-in"), (30_000, "Grassberger 2003"), (100_000, "plug-in")]
)
def test_estimate_floor_and_difference_are_those_of_the_piece(figure: Playable, length: int, estimator: str) -> None:
    start = (TEXT.size - length) // 2
    piece = TEXT[start : start + length]
    drawn = column(figure, length, estimator)
    if estimator == "plug-in":
        joint = np.zeros((STATES, STATES))
        np.add.at(joint, (piece[:-4], piece[4:]), 1 / (length - 4))
        alone = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0)
        by_hand = float(np.sum(joint * np.log(np.where(joint > 0, joint / alone, 1))))
        assert drawn["estimate"][4] == pytest.approx(by_hand, rel=1e-3)
        miller = (STATES - 1) ** 2 / (2 * length)
        dependent = (1 + STAY**2) / (1 - STAY**2)  # neighbouring pairs are: as many fewer count
        assert drawn["floor"][1] == pytest.approx(miller * dependent, rel=0.35)
        assert drawn["floor"][1] != pytest.approx(miller, rel=0.35)
    assert drawn["difference"][4] == pytest.approx(drawn["estimate"][4] - drawn["floor"][4], abs=2e-4)
    assert drawn["difference"][1] == pytest.approx(exact(1), abs=0.15)
    assert drawn["difference"][4] == pytest.approx(exact(4), abs=0.15)
    assert drawn["difference"][1] != pytest.approx(exact(2), abs=0.15)
    at = (drawn["estimate"][100], drawn["floor"][100])
    said = words(figure.picture(length=length, estimator=estimator))
    assert f"{length:,} characters, {estimator}, at distance 100" in said
    told = [float(part.replace("−", "-")) for part in said.split("estimate ")[1].replace("floor", "").split(",")[:2]]
    assert told == pytest.approx(at, rel=0.06, abs=1e-5)
    assert told != pytest.approx([3 * value for value in at], rel=0.06, abs=1e-5)


def test_longer_texts_have_lower_floors_and_fewer_pairs_higher_ones(figure: Playable) -> None:
    floors = [column(figure, size, "plug-in")["floor"] for size in (3_000, 30_000, 100_000)]
    assert floors[0][1] > 5 * floors[1][1] > 10 * floors[2][1]
    assert floors[0][1000] / floors[0][1] == pytest.approx(2_999 / 2_000, rel=0.1)


def test_a_text_that_is_too_short_is_refused() -> None:
    with pytest.raises(ValueError, match="10000 characters or more is needed, got 9999"):
        playing.lengths(TEXT[:9_999])
