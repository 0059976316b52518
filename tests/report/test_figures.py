"""Figures: lines differ by more than colour, colours keep their contrast, the same figure is the same file."""

from __future__ import annotations

import io
from collections.abc import Iterator
from itertools import combinations

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from numpy.typing import NDArray

from experiments.landing import figures as landing
from lib.models.catalogue import NAMES
from lib.report import figures

LIGHT, DARK = "#ffffff", "#222832"  # the pages' own backgrounds; the second is the lighter of the dark ones
Colour = NDArray[np.float64]


@pytest.fixture(autouse=True)
def own_figures() -> Iterator[None]:
    with mpl.rc_context():
        mpl.use("Agg")
        figures.use_book_style()
        yield
        plt.close("all")


def rgb(colour: str) -> Colour:
    return np.array(mpl.colors.to_rgb(colour))


def linear(colour: Colour) -> Colour:
    return np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)


def contrast(first: Colour, second: Colour) -> float:
    dim, bright = sorted(float(linear(colour) @ [0.2126, 0.7152, 0.0722]) for colour in (first, second))
    return (bright + 0.05) / (dim + 0.05)


def turned_over(colour: Colour) -> Colour:
    """``invert(1) hue-rotate(180deg)`` as the CSS filter specification defines it."""
    weights = np.array([0.213, 0.715, 0.072])
    return np.clip((2 * np.outer(np.ones(3), weights) - np.eye(3)) @ (1 - colour), 0, 1)


# dichromatic vision as a matrix on linear RGB (Machado, Oliveira and Fernandes 2009, severity 1)
VISION = {
    "all cones": np.eye(3),
    "no L cones": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "no M cones": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
}


def lab(light: Colour) -> Colour:
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ light
    scaled = xyz / np.array([0.9505, 1.0, 1.089])
    root = np.where(scaled > 0.008856, np.cbrt(scaled), 7.787 * scaled + 16 / 116)
    return np.array([116 * root[1] - 16, 500 * (root[0] - root[1]), 200 * (root[1] - root[2])])


def cycle() -> list[dict[str, str]]:
    return list(mpl.rcParams["axes.prop_cycle"])


def test_lines_of_the_cycle_differ_in_colour_and_in_stroke() -> None:
    assert len({line["color"] for line in cycle()}) == len(cycle()) == 6
    assert len({str(line["linestyle"]) for line in cycle()}) == len(cycle())


@pytest.mark.parametrize("count", [1, 6, 36])
def test_styles_are_all_different_without_their_colour(count: int) -> None:
    made = list(figures.styles(count))
    assert len(made) == count
    assert len({(str(style["linestyle"]), style["marker"]) for style in made}) == count


@pytest.mark.parametrize("count", [1, 2, 10, 12])
def test_ordered_styles_grow_lighter_and_differ_without_their_colour(count: int) -> None:
    made = list(figures.ordered_styles(count))
    brightness = [float(linear(rgb(style["color"])).sum()) for style in made]
    assert brightness == sorted(brightness)
    assert len({(style["linestyle"], style["marker"]) for style in made}) == count
    assert all(contrast(rgb(style["color"]), rgb(LIGHT)) >= 3 for style in made)
    assert all(contrast(turned_over(rgb(style["color"])), rgb(DARK)) >= 3 for style in made)


def unlike(styles: list[dict[str, str]]) -> int:
    """How many can be told apart without their colour."""
    return len({(str(style["linestyle"]), style["marker"]) for style in styles})


def test_an_architecture_has_one_colour_and_its_sizes_differ_without_it() -> None:
    (alone,), mixed = figures.looks(["mamba"]), list(figures.looks(["lstm", "mamba", "mamba", "mamba"]))
    assert alone == mixed[1]
    assert {style["color"] for style in mixed[1:]} == {alone["color"]} != {mixed[0]["color"]}
    assert unlike(mixed) == 4
    assert unlike(list(figures.looks(["mamba", "mamba"])) * 2) == 2  # what has the same look is not told apart


def test_all_that_have_a_look_can_be_told_from_the_others() -> None:
    assert set(figures.LOOKS) <= {*NAMES, "pretrained"}
    assert unlike(list(figures.looks(figures.LOOKS))) == len(figures.LOOKS)
    assert unlike(list(figures.looks(4 * ["transformer", "mamba", "mamba2", "lstm", "rnn"]))) == 20
    often = ["transformer", "mamba", "mamba2", "lstm", "rnn", "relu_ssm"]
    assert {style["color"] for style in figures.looks(often)} == {line["color"] for line in cycle()}


def test_what_has_no_look_is_grey_and_still_told_apart() -> None:
    new, other, known = figures.looks(["gru", "no network", "rnn"])
    assert new["color"] == other["color"] != known["color"]
    assert contrast(rgb(new["color"]), rgb(LIGHT)) >= 3 and contrast(turned_over(rgb(new["color"])), rgb(DARK)) >= 3
    assert unlike([new, other, known]) == 3


@pytest.mark.parametrize("number", range(6))
def test_every_colour_stands_out_on_light_and_dark_pages(number: int) -> None:
    colour = rgb(cycle()[number]["color"])
    assert contrast(colour, rgb(LIGHT)) >= 3
    assert contrast(turned_over(colour), rgb(DARK)) >= 3


@pytest.mark.parametrize("name", ["text.color", "axes.labelcolor", "xtick.labelcolor", "ytick.labelcolor"])
def test_text_is_readable_on_light_and_dark_pages(name: str) -> None:
    colour = rgb(str(mpl.rcParams[name]))
    assert contrast(colour, rgb(LIGHT)) >= 7
    assert contrast(turned_over(colour), rgb(DARK)) >= 7


@pytest.mark.parametrize("vision", VISION)
def test_colours_differ_for_every_colour_vision(vision: str) -> None:
    seen = [lab(np.clip(np.array(VISION[vision]) @ linear(rgb(line["color"])), 0, 1)) for line in cycle()]
    assert min(float(np.linalg.norm(a - b)) for a, b in combinations(seen, 2)) > 15


def test_red_and_green_of_equal_brightness_would_be_refused() -> None:
    seen = [lab(np.clip(np.array(VISION["no M cones"]) @ linear(rgb(c)), 0, 1)) for c in ("#8a6a00", "#c8500a")]
    assert np.linalg.norm(seen[0] - seen[1]) < 15


def test_no_text_is_smaller_than_eight_points() -> None:
    sizes = [mpl.rcParams[f"{name}.labelsize"] for name in ("xtick", "ytick", "axes")]
    assert min(*sizes, mpl.rcParams["legend.fontsize"], mpl.rcParams["font.size"]) >= 8


def svg() -> bytes:
    figure, (main, residual) = figures.residual_axes()
    lags = np.arange(1, 10)
    main.loglog(lags, 1 / lags)
    figures.published(main, lags, 1 / lags)
    residual.plot(lags, 0 * lags)
    main.legend()
    file = io.BytesIO()
    figure.savefig(file, format="svg", metadata={"Date": None})
    plt.close(figure)
    return file.getvalue()


def test_the_same_figure_is_the_same_file_with_a_transparent_ground() -> None:
    first = svg()
    assert first == svg()
    assert b"fill: #ffffff" not in first.split(b"axes_1")[0]
    assert b"<text" not in first  # outlines: no font of the reader's machine


def test_published_values_are_open_markers_with_a_name() -> None:
    _, axes = plt.subplots()
    figures.published(axes, [1, 2], [3, 4], label="paper")
    (line,) = axes.get_lines()
    assert (line.get_linestyle(), line.get_markerfacecolor(), line.get_label()) == ("None", "none", "paper")


def test_the_landing_picture_says_what_it_claims() -> None:
    curves = {curve.name: curve for curve in landing.measure(sequences=200, seed=2)}
    text, shuffled = curves["real text (characters)"].measured, curves["real text, rows shuffled"].measured
    lag_30 = int(np.searchsorted(landing.lags(), 30))
    assert text[lag_30] > 3 * shuffled[lag_30]  # text remembers beyond what its mixture explains
    assert text[-1] < 2 * shuffled[-1]  # and no longer does at the end
    repetitive = curves["repetitive text"].measured[1:]
    assert repetitive.max() < 1.3 * repetitive.min()
    assert curves["Markov chain"].measured[lag_30] < text[lag_30] < curves["power law"].measured[lag_30]
    for curve in curves.values():
        if curve.law is not None:  # where the few rows of a test show the law clearly above their noise
            clear = (curve.law > 1e-3) & (landing.lags() < 30)
            assert curve.measured[clear] == pytest.approx(curve.law[clear], rel=0.25)
    (axes,) = landing.draw(list(curves.values())).axes
    assert axes.get_xlabel() == "lag (symbols)" and "nats" in axes.get_ylabel()


@pytest.mark.parametrize(("sizes", "inches"), [((10, 8), 6.5), ((12, 9), 4.0), ((14,), 9.0)])
def test_a_picture_is_readable_where_its_smallest_label_is(sizes: tuple[int, ...], inches: float) -> None:
    fig = plt.figure(figsize=(inches, 2))
    for place, size in enumerate(sizes):
        fig.text(0.1, 0.2 + 0.4 * place, f"$10^{place}$ steps", fontsize=size, rotation=90 * place)
    file = io.StringIO()
    fig.savefig(file, format="svg")
    width = figures.readable_width(file.getvalue())
    assert width == pytest.approx(7 * 72 * inches / min(sizes), rel=1e-3)
    assert figures.readable_width(file.getvalue(), 14.0) == pytest.approx(2 * width)
    assert figures.readable_width('<svg width="300"><text x="1" font-size="12px">a</text></svg>') == 175
    assert figures.readable_width('<svg width="300"></svg>') == 0
    with pytest.raises(ValueError, match="an SVG with a width"):
        figures.readable_width("<p>text</p>")
