"""Exact piecewise linear functions: values, pieces, sums, ReLU and composition against pointwise evaluation."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.report import claims
from lib.theory.smallest.memory import cone_membership
from lib.theory.smallest.piecewise_linear import HiddenLayer, PiecewiseLinear, bends, fewest_kinks, simplest_interpolant

POINTS = [Fraction(k, 6) for k in range(-60, 61)]
rational = st.builds(Fraction, st.integers(-12, 12), st.integers(1, 4))


@st.composite
def functions(draw: st.DrawFn) -> PiecewiseLinear:
    kinks = sorted(draw(st.sets(rational, max_size=4)))
    slopes = draw(st.lists(rational, min_size=len(kinks) + 1, max_size=len(kinks) + 1))
    return PiecewiseLinear(kinks, slopes, draw(rational))


@st.composite
def layers(draw: st.DrawFn) -> HiddenLayer:
    size = draw(st.integers(0, 6))
    lists = [draw(st.lists(rational, min_size=size, max_size=size)) for _ in range(3)]
    return HiddenLayer(*lists)


@settings(max_examples=60, deadline=None)
@given(functions(), functions(), rational)
def test_sums_multiples_and_compositions_agree_at_every_point(
    f: PiecewiseLinear, g: PiecewiseLinear, factor: Fraction
) -> None:
    total, scaled, positive, nested = f + g, factor * f, f.relu(), f.after(g)
    for x in POINTS[::7]:
        assert total(x) == f(x) + g(x)
        assert scaled(x) == factor * f(x)
        assert positive(x) == max(f(x), 0)
        assert nested(x) == f(g(x))
    assert total.pieces <= f.pieces + g.pieces - 1
    assert positive.pieces <= 2 * f.pieces
    assert nested.pieces <= f.pieces * g.pieces


@settings(max_examples=60, deadline=None)
@given(functions())
def test_pieces_are_counted_as_by_second_differences_on_a_fine_grid(f: PiecewiseLinear) -> None:
    step = Fraction(1, 12 * 7)  # kinks are multiples of 1/12, so that they lie on the grid
    for kink, jump in zip(f.kinks, f.jumps, strict=True):
        assert f(kink + step) - 2 * f(kink) + f(kink - step) == jump * step != 0
    assert f.pieces == 1 + len(f.kinks) == len(f.slopes)


def test_a_kink_without_a_jump_is_no_kink() -> None:
    assert PiecewiseLinear([0, 1], [2, 2, 3], 5) == PiecewiseLinear([1], [2, 3], 5)
    bump = HiddenLayer([1, 1, 1], [0, -1, -2], [1, -2, 1]).function()
    assert (bump + -1 * bump).pieces == 1
    assert PiecewiseLinear([0], [1, -1], -1).relu() == PiecewiseLinear([], [0])
    assert PiecewiseLinear([], [0], -2).relu() == PiecewiseLinear([], [0])
    assert PiecewiseLinear([], [0], 2).relu()(7) == 2


@settings(max_examples=60, deadline=None)
@given(layers())
def test_a_layer_of_q_units_is_its_function_and_has_at_most_q_plus_one_pieces(layer: HiddenLayer) -> None:
    f = layer.function()
    assert all(f(x) == layer(x) for x in POINTS[::5])
    assert f.pieces <= layer.size + 1
    assert fewest_kinks(POINTS[::5], [layer(x) for x in POINTS[::5]]) <= len(f.kinks)


def test_piece_count_claim_fails_for_functions_inside_each_other() -> None:
    tent = HiddenLayer([1, 1], [0, Fraction(-1, 2)], [2, -4]).function()
    claims.check("ngram-propA8", tent.pieces - 3, at_most=0, part="one layer")
    with pytest.raises(claims.ClaimFailed):
        claims.check("ngram-propA8", tent.after(tent).pieces - 5, at_most=0, part="two layers")


def test_kink_count_claim_fails_for_a_layer_that_misses_a_value() -> None:
    values = [1, -1, 1, -1, 1, -1]
    short = HiddenLayer([1, 1, 1], [-1, -2, -3], [1, -2, 2]).function()
    assert [short(x) for x in range(1, 7)] != values
    with pytest.raises(claims.ClaimFailed):
        claims.check("ngram-propA8", fewest_kinks(range(6), values) - len(short.kinks), at_most=0, part="kinks")


@settings(max_examples=60, deadline=None)
@given(st.lists(rational, min_size=1, max_size=9), st.data())
def test_the_simplest_interpolant_meets_the_points_with_the_fewest_kinks(
    y: list[Fraction], data: st.DataObject
) -> None:
    gaps = data.draw(st.lists(st.integers(1, 5), min_size=len(y), max_size=len(y)))
    x = np.cumsum(gaps).tolist()
    f = simplest_interpolant(x, y)
    assert [f(at) for at in x] == y
    assert len(f.kinks) == fewest_kinks(x, y)


def test_no_function_with_fewer_kinks_meets_the_points() -> None:
    """Kinks in given gaps are cones again: all placements of one kink fewer are infeasible, by exact programmes."""

    def reachable(y: tuple[int, ...], kinks: int) -> bool:
        count = len(y)
        lines = [[sign * v for v in values] for values in ([1] * count, list(range(count))) for sign in (1, -1)]
        hinges = {
            (gap, sign): [[sign * max(x - end, 0) for x in range(count)] for end in (gap, gap + 1)]
            for gap in range(count - 1)
            for sign in (1, -1)
        }
        return any(
            cone_membership(lines + [ray for key in chosen for ray in hinges[key]], y).weights is not None
            for chosen in combinations(hinges, kinks)
        )

    for y in product((0, 1, 3), repeat=4):
        needed = fewest_kinks(range(4), y)
        assert needed == 0 or not reachable(y, needed - 1)
        assert reachable(y, needed)


def test_bends_are_second_differences_at_even_points() -> None:
    assert bends([1, 2, 3, 4], [0, 1, 4, 9]) == (2, 2)
    assert bends([0, 1, 3], [0, 1, 1]) == (-1,)
    assert fewest_kinks([1, 2, 3, 4, 5], [0, 1, 4, 9, 16]) == 2
    assert fewest_kinks(range(9), [(-1) ** i for i in range(9)]) == 7


@pytest.mark.parametrize(
    "make",
    [
        lambda: PiecewiseLinear([1, 0], [1, 2, 3]),
        lambda: PiecewiseLinear([0], [1]),
        lambda: PiecewiseLinear([0.5], [1, 2]),  # type: ignore[list-item]
        lambda: PiecewiseLinear([], [True]),
        lambda: HiddenLayer([1], [1, 2], [1]),
        lambda: HiddenLayer([1], [1.0], [1]),  # type: ignore[list-item]
        lambda: fewest_kinks([0, 0], [1, 2]),
        lambda: fewest_kinks([0, 1], [1]),
        lambda: simplest_interpolant([], []),
    ],
)
def test_bad_input_is_refused(make: object) -> None:
    with pytest.raises(ValueError, match="allowed"):
        make()  # type: ignore[operator]
