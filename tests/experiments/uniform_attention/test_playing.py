"""The figure to play with shows the gradient that the closed form has, and the exponents of both theorems."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray

from experiments.uniform_attention import playing
from lib.batch.pages import find_page
from lib.report.figures.interactive import Playable
from lib.theory.attention import forms
from tests.report.test_interactive import rows, words

T, LONGEST = 2, 10_000
SETTINGS = [(0.5, 0), (0.75, 60), (0.9, 180), (0.95, 0)]


@pytest.fixture(scope="module")
def disc() -> Playable:
    return playing.disc(T, LONGEST)


def drawn(disc: Playable, modulus: float, angle: float, curve: str) -> dict[int, float]:
    found = (row for row in rows(disc.chart, "size", curve) if row["curve"] == curve)
    return {
        int(row["T"]): float(row["size"])
        for row in found
        if np.isclose([float(row["modulus"]), float(row["angle"])], [modulus, angle]).all()
    }


def size(eigenvalue: complex, time: int) -> float:
    """To ten digits: the more, the longer it takes."""
    return float(abs(forms.closed_form(eigenvalue, T, time - T, digits=10)))


def sizes(eigenvalue: complex) -> NDArray[np.float64]:
    """The same at all times T = 2, 3, ..., by the recursion with thirty digits, which one pass takes."""
    with mpmath.workdps(30):
        found = forms.plain_recursion(mpmath.mpmathify(eigenvalue), T, LONGEST - T)
    return np.array([0.0] * T + [float(abs(value)) for value in found])


@pytest.mark.parametrize(("modulus", "angle"), SETTINGS)
def test_the_gradient_is_that_of_the_closed_form(disc: Playable, modulus: float, angle: float) -> None:
    eigenvalue, curve = complex(modulus * np.exp(1j * np.deg2rad(angle))), drawn(disc, modulus, angle, "gradient")
    assert {playing.ANCHOR, LONGEST} <= set(curve)
    exact, other = sizes(eigenvalue), sizes(0.99 * eigenvalue)
    for time in curve:
        assert curve[time] == pytest.approx(exact[time], rel=1e-3)
    for time in (min(curve), playing.ANCHOR, LONGEST):
        assert curve[time] == pytest.approx(size(eigenvalue, time), rel=1e-3)
        assert curve[time] != pytest.approx(other[time], rel=1e-3)


@pytest.mark.parametrize(("modulus", "angle"), SETTINGS)
def test_both_powers_go_through_the_gradient_at_the_anchor_with_their_own_slopes(
    disc: Playable, modulus: float, angle: float
) -> None:
    eigenvalue, gradient = modulus * np.exp(1j * np.deg2rad(angle)), drawn(disc, modulus, angle, "gradient")
    for name, rate in (("printed power", forms.printed_exponent), ("proved power", forms.exponent)):
        ends = drawn(disc, modulus, angle, name)
        slope = np.diff(np.log(list(ends.values())))[0] / np.diff(np.log(list(ends)))[0]
        assert slope == pytest.approx(float(rate(eigenvalue)), abs=1e-3)
        assert list(ends) == [min(gradient), LONGEST]
        at_anchor = ends[LONGEST] * (playing.ANCHOR / LONGEST) ** float(rate(eigenvalue))
        assert at_anchor == pytest.approx(gradient[playing.ANCHOR], rel=2e-3)


def test_the_gradient_is_drawn_as_points_for_no_line_shows_where_it_dips(disc: Playable) -> None:
    """At lambda = -0.95 two terms of opposite sign cancel, between two times that a line would join."""
    exact = sizes(-0.95)
    assert exact[232:243].min() < 0.1 * min(exact[200], exact[299])
    layers = [layer for panel in disc.chart["concat"] for layer in panel["layer"] if layer["encoding"].get("color")]
    drawn_as = {
        tuple(layer["encoding"]["color"].get("scale", {}).get("domain", ())): layer["mark"]["type"] for layer in layers
    }
    assert drawn_as[playing.CURVES[:1]] == "point" and drawn_as[playing.CURVES[1:]] == "line"


def test_the_caption_says_at_how_many_times() -> None:
    assert f"at {len(playing.times(T, LONGEST))} times" in find_page("uniform_attention").text


@pytest.mark.parametrize(
    ("modulus", "angle", "name"), [(0, 180, "0"), (0, 90, "0"), (0.5, 90, "0 + 0.5i"), (0.5, 120, "-0.25 + 0.433i")]
)
def test_an_eigenvalue_is_named_without_rounding_errors(
    disc: Playable, modulus: float, angle: float, name: str
) -> None:
    assert f"λ = {name};" in words(disc.picture(modulus=modulus, angle=angle)).replace("−", "-")


@pytest.mark.parametrize(("modulus", "angle"), SETTINGS)
def test_the_numbers_in_words_are_those_of_the_theorems(disc: Playable, modulus: float, angle: float) -> None:
    eigenvalue = modulus * np.exp(1j * np.deg2rad(angle))
    said = words(disc.picture(modulus=modulus, angle=angle)).replace("−", "-")
    proved, printed = float(forms.exponent(eigenvalue)), float(forms.printed_exponent(eigenvalue))
    assert f"proved {proved:.3f}, printed {printed:.3f}" in said
    assert abs(proved - printed) > 0.05  # so that one in the place of the other would be seen
