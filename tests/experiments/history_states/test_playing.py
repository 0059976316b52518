"""The figure to play with shows the sizes of real models, and the length at which books fill them."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.history_states import playing
from lib.models import create
from lib.models.catalogue import NAMES
from lib.report.figures.interactive import Playable
from lib.theory import history_state_size
from lib.theory.history import counted_history_state_size
from tests.report.test_interactive import rows, words

AMPLITUDE, EXPONENT = 2.27, 0.76


@pytest.fixture(scope="module")
def figure() -> Playable:
    return playing.filling(AMPLITUDE, EXPONENT)


@pytest.mark.parametrize(("architecture", "depth"), [("lstm", 1), ("mamba", 4), ("transformer", 16)])
@pytest.mark.parametrize("nats", [0.3, 10.0])
def test_a_capacity_is_the_size_of_a_real_model_times_the_nats_of_a_number(
    figure: Playable, architecture: str, depth: int, nats: float
) -> None:
    model = create(architecture, 2, 16, depth)
    found = {int(row["length"]): float(row["size"]) for row in rows(figure.chart, "model", NAMES[architecture])
             if (row["model"], row["units"], row["depth"], row["nats"])
             == (NAMES[architecture], "16", f"{depth}", f"{nats:g}")}  # fmt: skip
    assert found[16] == pytest.approx(nats * counted_history_state_size(model, 16), rel=1e-3)
    assert found[10**6] == pytest.approx(nats * history_state_size(model, 10**6), rel=1e-3)
    assert found[16] != pytest.approx(nats * counted_history_state_size(create(architecture, 2, 16, depth + 1), 16))


@pytest.mark.parametrize(("width", "depth", "nats"), [(16, 1, 1.0), (64, 4, 0.1), (256, 64, 3.0)])
def test_the_length_in_words_is_the_one_at_which_books_have_what_the_state_holds(
    figure: Playable, width: int, depth: int, nats: float
) -> None:
    said = words(figure.picture(units=width, depth=depth, nats=nats))
    layers = "1 layer" if depth == 1 else f"{depth} layers"
    assert f"width {width}, {layers}, {nats:g} nats per number" in said
    held = nats * history_state_size(create("lstm", 2, width, depth), 10**6)
    lengths = np.exp(np.linspace(0, 40, 400_001))  # where the curve of books passes it, without solving for it
    crossing = lengths[np.searchsorted(AMPLITUDE * lengths**EXPONENT, held)]
    full = float(said.partition("LSTM ")[2].partition(", ")[0].replace(",", ""))
    assert full == pytest.approx(crossing, rel=0.02)
    assert full != pytest.approx(2 * crossing, rel=0.02)
    assert f"{NAMES['transformer']} never" in said and f"{NAMES['lstm']} never" not in said
