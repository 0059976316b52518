"""Figures to play with: settings choose the rows that are drawn, a picture stands in, and bad tables are refused."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from lib.report.figures import interactive
from lib.report.figures.interactive import (
    CHART,
    KEYS,
    PICTURE,
    SCRIPT,
    Playable,
    choice,
    chosen,
    readout,
    slider,
    told_apart,
)

X = np.array([0.0, 1.0, 2.0])
POWER = slider("power", "power", [1, 2, 3], 2)
SIGN = choice("sign", "sign", ["plus", "minus"], "plus")


def playable(factor: float = 1.0) -> Playable:
    """y = ± x^power, with the value at 2 in words; a wrong factor is the negative control."""
    powers, signs = np.array([1, 2, 3])[:, None, None], np.array(["plus", "minus"])[:, None]
    y = factor * np.where(signs == "plus", 1, -1) * X**powers
    said = np.array([[f"y(2) = {row[-1]:g}" for row in rows] for rows in y])
    curve = chosen({"power": powers, "sign": signs, "x": X, "y": y}, POWER, SIGN).mark_line().encode(x="x:Q", y="y:Q")
    line = readout({"power": powers[..., 0], "sign": signs[:, 0], "text": said}, POWER, SIGN)
    return Playable(curve + line, POWER, SIGN)


def words(svg: str) -> str:
    return " ".join(re.findall(r">([^<>]+)</t", svg))


def rows(chart: Mapping[str, Any], name: str, value: str = "") -> list[dict[str, str]]:
    """The table of a chart that has columns of these names, parted by blanks, and this value somewhere in it."""
    tables = (list(csv.DictReader(io.StringIO(text))) for text in chart["datasets"].values())
    held = (table for table in tables if set(name.split()) <= set(table[0]))
    return next(table for table in held if not value or any(value in row.values() for row in table))


@pytest.mark.parametrize(("power", "sign", "value"), [(1, "plus", 2), (2, "minus", -4), (3, "minus", -8)])
def test_what_is_drawn_is_what_was_computed_for_the_setting(power: int, sign: str, value: int) -> None:
    assert f"y(2) = {value}" in words(playable().picture(power=power, sign=sign))
    assert f"y(2) = {value}" not in words(playable(1.5).picture(power=power, sign=sign))


def test_a_setting_moves_the_curve_and_only_its_rows_are_drawn() -> None:
    curves = {power: re.findall(r' d="(M[^"]+L[^"]+)"', playable().picture(power=power)) for power in (1, 2, 3)}
    assert len({str(paths) for paths in curves.values()}) == 3
    points = max(curves[2], key=len)
    assert points.count("L") == len(X) - 1


def test_the_table_holds_the_numbers_to_four_digits() -> None:
    chart = Playable(chosen({"power": [1, 2, 3], "y": np.pi * np.array([1, 1e-9, 1e9])}, POWER).mark_point()
                     + readout({"power": [1, 2, 3], "text": 'a, "b"'}, POWER), POWER).chart  # fmt: skip
    assert [float(row["y"]) for row in rows(chart, "y")] == [3.142, 3.142e-9, 3.142e9]
    assert {row["text"] for row in rows(chart, "text")} == {'a, "b"'}


def test_in_jupyter_it_is_a_chart_and_elsewhere_its_picture() -> None:
    bundle = playable()._repr_mimebundle_()
    assert set(bundle) == {CHART, PICTURE, "text/plain"}
    assert bundle[CHART]["$schema"].endswith("v5.20.1.json") and bundle[PICTURE].startswith("<svg")
    assert "y(2) = 4" in words(bundle[PICTURE])
    assert "http" not in re.sub(r'xmlns(:\w+)?="[^"]+"', "", bundle[PICTURE])


def test_jupyter_gets_the_chart_and_leaves_its_keys_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[dict[str, Any]] = []
    monkeypatch.setattr(interactive, "display", lambda data, raw: shown.append(data))
    playable()._ipython_display_()
    keys, chart = shown
    assert set(keys) == {SCRIPT, "text/plain"} and set(chart) == {CHART, PICTURE, "text/plain"}


def test_a_page_gets_the_picture_and_behind_it_the_description_for_the_script() -> None:
    data = {CHART: {"title": "</script><b>"}, PICTURE: "<svg/>"}
    other = new_output("display_data", {"text/plain": "4", SCRIPT: "another()"})
    keys = new_output("display_data", {"text/plain": "", SCRIPT: KEYS})
    chart = new_output("display_data", data)
    notebook = new_notebook(cells=[new_code_cell("x", outputs=[keys, chart, other])])
    drawn, described = interactive.page_outputs(notebook).cells
    first, same = drawn.outputs
    assert first.data == {PICTURE: "<svg/>"} and same == other
    (last,) = described.outputs
    assert described.metadata.tags == ["remove-input"] and described.source.strip()  # an empty cell is not rendered
    markup = last.data["text/html"]
    assert markup.count("</script>") == 1 and f'class="{interactive.CLASS}"' in markup
    assert json.loads(re.sub("<[^>]*>", "", markup)) == data[CHART]
    assert interactive.page_outputs(notebook) == notebook


@pytest.mark.parametrize(("points", "other"), [(False, "strokeDash"), (True, "shape")])
def test_curves_differ_by_more_than_colour(points: bool, other: str) -> None:
    looks = told_apart("curve", "abcd", points=points)
    assert set(looks) == {"color", other}
    for channel in looks.values():
        assert len({str(look) for look in channel.to_dict()["scale"]["range"]}) == 4


LISTS = ([1 / 3, 2 / 3], [1000.25, 1000.5], [1_000_000, 1_000_001], [1e-7, 2e-7], ["a, b", "1"])
SLIDES = (np.arange(10_000.0, 10_006.0), np.linspace(0, 1, 8), np.linspace(0, 1, 12), np.linspace(-2, 0, 4),
          np.arange(1, 4) * 1e-12)  # fmt: skip


@pytest.mark.parametrize("options", [*LISTS, *SLIDES], ids=str)
def test_every_option_draws_its_own_row_whatever_its_digits(options: Any) -> None:
    kind = slider if isinstance(options, np.ndarray) else choice
    made = kind("p", "p", options, options[1])
    rows_said = [f"row {row}." for row in range(len(options))]
    point = chosen({"p": options, "y": 1}, made).mark_point().encode(y="y:Q")
    figure = Playable(point + readout({"p": options, "text": rows_said}, made), made)
    for said, option in zip(rows_said, options, strict=True):
        drawn = words(figure.picture(p=option))
        assert [one for one in rows_said if one in drawn] == [said]


@pytest.mark.parametrize("values", [*SLIDES, np.arange(20) / 20, np.linspace(0.1, 1, 10)], ids=str)
def test_a_slider_reaches_its_last_number(values: Any) -> None:
    bind = slider("p", "p", values, values[0]).param.bind.to_dict()
    first, last, step = (Fraction(repr(bind[name])) for name in ("min", "max", "step"))
    left = last - first - (len(values) - 1) * step
    assert 0 <= left < step / 10**6  # a browser takes no step past the end


def test_a_slider_adds_up_to_numbers_as_one_writes_them() -> None:
    """0.1 + 0.2 is more than 0.3 by a rounding error, which a browser would show beside its slider."""
    for values in (np.arange(1, 11) / 10, np.cumsum(np.full(10, 0.1)), np.linspace(0.1, 1, 10)):
        bind = slider("p", "p", values, values[0]).param.bind.to_dict()
        assert (bind["min"], bind["max"], bind["step"]) == (0.1, 1.0, 0.1)


@pytest.mark.parametrize(
    ("values", "start", "message"),
    [
        ([0, 1, 3], 1, "equal steps"),
        ([1, 0], 1, "equal steps"),
        ([1], 1, "two or more"),
        ([0, 1], 0.5, "got 0.5"),
        ([False, True], 1, "equal steps"),
        ([0, 1], True, "got True"),
        ([0, np.nan], 0, "equal steps"),
        (["a", "b"], "a", "equal steps"),
    ],
)
def test_a_slider_needs_even_steps_and_a_start_among_them(values: list[float], start: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        slider("p", "p", values, start)


@pytest.mark.parametrize(
    ("options", "start"), [(["a"], "a"), (["a", "a"], "a"), (["a", "b"], "c"), ([True, False], True), ([1, 2], True)]
)
def test_a_choice_needs_different_options_and_a_start_among_them(options: list[Any], start: Any) -> None:
    with pytest.raises(ValueError, match="choice p"):
        choice("p", "p", options, start)


@pytest.mark.parametrize("name", ["width", "two words", ""])
def test_a_name_that_vega_has_for_something_else_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="name"):
        slider(name, "width", [1, 2], 1)
    with pytest.raises(ValueError, match="name"):
        choice(name, "width", [1, 2], 1)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"power": [1, 2, 3], "y": [1, 2]}, "broadcast"),
        ({"power": [1, 2, 3], "y": [1, np.nan, 2]}, "finite"),
        ({"y": [1, 2, 3]}, "column of the table"),
        ({"power": [1, 2], "y": 0}, "got none for 3"),
    ],
)
def test_a_table_that_does_not_serve_every_setting_is_refused(columns: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        chosen(columns, POWER)


@pytest.mark.parametrize(("options", "column"), [([1, 0], [True, False]), ([1 / 3, 2 / 3], [0.3333, 0.6667])])
def test_rows_that_only_look_like_an_option_are_refused(options: list[Any], column: list[Any]) -> None:
    with pytest.raises(ValueError, match="rows for every option"):
        chosen({"p": column}, choice("p", "p", options, options[0]))


def test_a_large_number_near_an_option_is_not_the_option() -> None:
    length = choice("length", "length", [1_000_000, 3_000_000], 1_000_000)
    figure = Playable(readout({"length": [1_000_000, 3_000_000], "text": ["one", "three"]}, length), length)
    assert "three" in words(figure.picture(length=3_000_000))
    for near in (1_000_005, 1_000_000.5):
        with pytest.raises(ValueError, match=f"got {near}"):
            figure.picture(length=near)


def test_a_chart_without_settings_without_numbers_in_words_or_too_large_is_refused() -> None:
    curve = chosen({"power": [1, 2, 3], "y": 0}, POWER).mark_point()
    with pytest.raises(ValueError, match="settings"):
        Playable(curve)
    with pytest.raises(ValueError, match="readout"):
        Playable(curve, POWER)
    with pytest.raises(ValueError, match="column text"):
        readout({"power": [1, 2, 3]}, POWER)
    many = chosen({"power": np.array([1, 2, 3])[:, None], "y": np.arange(40_000)}, POWER).mark_point()
    with pytest.raises(ValueError, match="take fewer settings"):
        Playable(many + readout({"power": [1, 2, 3], "text": ""}, POWER), POWER)


@pytest.mark.parametrize(
    ("values", "message"),
    [({"p": 1}, "power, sign"), ({"power": 1.5}, "got 1.5"), ({"sign": 1}, "plus"), ({"power": True}, "got True")],
)
def test_a_picture_of_settings_that_are_not_there_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        playable().picture(**values)
