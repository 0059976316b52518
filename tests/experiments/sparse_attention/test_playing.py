"""The figure to play with shows the gradient of the exact recursion, and a bound that lies below it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from experiments.sparse_attention import playing
from lib.batch.pages import find_page
from lib.report.figures.interactive import Playable
from lib.theory.attention import paths
from lib.theory.attention.sparse import gradient_recursion
from tests.report.test_interactive import rows, words

T, LONGEST = 4, 40
SETTINGS = [("window", 2, Fraction(2, 5)), ("hub and window", 4, Fraction(7, 10)), ("random", 8, Fraction(9, 10))]


@pytest.fixture(scope="module")
def figure() -> Playable:
    return playing.sparse(T, LONGEST)


def drawn(figure: Playable, pattern: str, kappa: int, eigenvalue: Fraction, curve: str) -> dict[int, float]:
    wanted = (pattern, f"{kappa}", f"{float(eigenvalue):g}")
    return {int(row["k"]): float(row[curve]) for row in rows(figure.chart, " ".join(playing.CURVES))
            if (row["pattern"], row["kappa"], row["eigenvalue"]) == wanted}  # fmt: skip


@pytest.mark.parametrize(("pattern", "kappa", "eigenvalue"), SETTINGS)
def test_gradient_and_bound_are_the_exact_ones(
    figure: Playable, pattern: str, kappa: int, eigenvalue: Fraction
) -> None:
    attended = playing.patterns(T + LONGEST, T, kappa)[pattern]
    exact = [float(value) for value in gradient_recursion(eigenvalue, attended, T, LONGEST)]
    gradient, bound = (drawn(figure, pattern, kappa, eigenvalue, curve) for curve in playing.CURVES)
    assert list(gradient.values()) == pytest.approx([exact[k] for k in gradient], rel=1e-3)
    seen = {k for k in playing.distances(LONGEST).tolist() if playing.LOWEST <= exact[k] <= playing.HIGHEST}
    assert seen <= set(gradient)
    other = gradient_recursion(eigenvalue, playing.patterns(T + LONGEST, T, 1)["no attention"], T, LONGEST)
    assert list(gradient.values()) != pytest.approx([float(other[k]) for k in gradient], rel=1e-3)
    steps = len(paths.shortest_path(attended, T, LONGEST)) - 1
    most = paths.largest_attention(attended)
    assert bound[LONGEST] == pytest.approx(float(eigenvalue**steps / Fraction(most) ** (steps + 1)), rel=1e-3)
    assert all(bound[k] <= 1.001 * gradient[k] for k in bound)
    said = words(figure.picture(pattern=pattern, kappa=kappa, eigenvalue=float(eigenvalue))).replace("−", "-")
    assert f"{pattern}, κ = {most}, {steps} recurrent step{'s' * (steps != 1)} on" in said
    assert f"gradient at k = {LONGEST} {exact[-1]:.1e}" in said


@pytest.mark.parametrize("eigenvalue", [Fraction(1, 2), Fraction(1, 10)])
def test_without_attention_the_gradient_is_a_power_wherever_it_is_drawn(figure: Playable, eigenvalue: Fraction) -> None:
    gradient = drawn(figure, "no attention", 1, eigenvalue, "gradient")
    expected = {k: float(eigenvalue) ** k for k in gradient}
    assert len(gradient) > 4 and gradient == pytest.approx(expected, rel=1e-3)
    assert expected[max(gradient)] >= playing.LOWEST  # nothing below the picture bends what is in it


def test_no_line_joins_distances_between_which_the_gradient_jumps(figure: Playable) -> None:
    """Within the tree the bound changes a thousandfold from one distance to the next, and a line would not show it."""
    tree = playing.curves(playing.patterns(T + LONGEST, T, 1)["tree"], T, np.arange(LONGEST + 1))
    assert np.abs(np.diff(np.log(tree[:, 1]))).max() > np.log(1e3)
    assert {layer["mark"]["type"] for layer in figure.chart["layer"]} == {"point", "text"}


def test_the_caption_says_at_how_many_distances() -> None:
    page = find_page("sparse_attention").text
    assert f"at {len(playing.distances(300))} distances $k$ up to 300" in page


def test_a_single_step_is_one(figure: Playable) -> None:
    said = [row["text"] for row in rows(figure.chart, "text")]
    assert any(" 1 recurrent step on " in text for text in said) and not any(
        " 1 recurrent steps" in text for text in said
    )
