"""The figure to play with shows the gradient of the exact recursion, and a bound that lies below it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from experiments.sparse_attention import playing
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
    wanted = (pattern, f"{kappa}", f"{float(eigenvalue):g}", curve)
    found = (row for row in rows(figure.chart, "p"))
    return {int(row["k"]): float(row["p"]) for row in found
            if (row["pattern"], row["kappa"], row["eigenvalue"], row["curve"]) == wanted}  # fmt: skip


@pytest.mark.parametrize(("pattern", "kappa", "eigenvalue"), SETTINGS)
def test_gradient_and_bound_are_the_exact_ones(
    figure: Playable, pattern: str, kappa: int, eigenvalue: Fraction
) -> None:
    attended = playing.patterns(T + LONGEST, T, kappa)[pattern]
    exact = [float(value) for value in gradient_recursion(eigenvalue, attended, T, LONGEST)]
    gradient, bound = (drawn(figure, pattern, kappa, eigenvalue, curve) for curve in playing.CURVES)
    assert list(gradient.values()) == pytest.approx([exact[k] for k in gradient], rel=1e-3)
    other = gradient_recursion(eigenvalue, playing.patterns(T + LONGEST, T, 1)["no attention"], T, LONGEST)
    assert list(gradient.values()) != pytest.approx([float(other[k]) for k in gradient], rel=1e-3)
    steps = len(paths.shortest_path(attended, T, LONGEST)) - 1
    most = paths.largest_attention(attended)
    assert bound[LONGEST] == pytest.approx(float(eigenvalue**steps / Fraction(most) ** (steps + 1)), rel=1e-3)
    assert all(bound[k] <= 1.001 * gradient[k] for k in bound)
    said = words(figure.picture(pattern=pattern, kappa=kappa, eigenvalue=float(eigenvalue))).replace("−", "-")
    assert f"{pattern}, κ = {most}, {steps} recurrent steps" in said
    assert f"gradient at k = {LONGEST} {exact[-1]:.1e}" in said


def test_without_attention_the_gradient_is_a_power(figure: Playable) -> None:
    gradient = drawn(figure, "no attention", 1, Fraction(1, 2), "gradient")
    lowest = playing.LOWEST / 1e3
    expected = np.maximum(0.5 ** np.array(list(gradient), dtype=float), lowest)
    assert list(gradient.values()) == pytest.approx(list(expected), rel=1e-3)
