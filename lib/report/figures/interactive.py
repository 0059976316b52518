"""Figures to play with: numbers computed beforehand, of which sliders choose what is drawn.

Vega-Lite draws them, in Jupyter as on a page. Where no script runs, and on paper, stands a picture of the same chart as
it starts. Why Vega-Lite: its sliders are those of the browser, which keys and fingers already know, its lines are SVG,
and its script takes 0.9 MB for the whole book, where that of Bokeh with its sliders takes 1.7 and that of Plotly 4.8.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from decimal import ROUND_FLOOR, Context, Decimal
from importlib.metadata import version
from numbers import Real
from typing import Any

import altair as alt
import matplotlib as mpl
import numpy as np
import vl_convert
from IPython.display import display
from matplotlib.colors import to_hex
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_output
from numpy.typing import ArrayLike, NDArray

from lib.report.figures import MARKERS, STYLE, styles

CHART, PICTURE, SCRIPT = "application/vnd.vegalite.v5+json", "image/svg+xml", "application/javascript"
VEGA_LITE = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
CLASS, READOUT = "playable", "readout"
SHOWN = "# the figure above, to play with"
LARGEST = 250_000  # characters that describe one chart: a page loads them at every visit
TAKEN = {"width", "height", "padding", "autosize", "background", "cursor", "datum", "event", "item", "parent"}
DIGITS = 4  # of the numbers in a chart
NEAR = 1e-6  # part of a slider's step up to which two numbers are the same
SLIDING = Context(prec=12, rounding=ROUND_FLOOR)  # of steps, shown as they add up; one past the end is never taken
DASHES: dict[str, list[float]] = {"-": [1, 0], "--": [7, 3], "-.": [7, 2, 2, 2], ":": [2, 2]}
POINT = {"symbolSize": 70, "clipHeight": 22}  # in a legend; as high as a line there, so that both stand on one
SHAPES = dict(zip(MARKERS, ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross"), strict=True))

START = f"""
for (const data of document.querySelectorAll('script.{CLASS}')) {{
  const image = data.closest('.cell').previousElementSibling.querySelector('img');
  const place = document.createElement('div');
  const said = document.createElement('p');
  place.className = '{CLASS}';
  said.setAttribute('role', 'status');
  const chart = {{...JSON.parse(data.textContent), description: image.alt}};
  if (chart.concat && innerWidth < 600) chart.columns = 1;
  vegaEmbed(place, chart, {{actions: false, defaultStyle: false, renderer: 'svg'}}).then(({{view}}) => {{
    place.append(said);
    image.before(place);
    const say = () => {{ said.textContent = place.querySelector('.{READOUT}_marks text').textContent; }};
    for (const moved of ['input', 'change']) place.addEventListener(moved, () => view.runAsync().then(say));
  }});
}}
"""
"""Puts each chart in the place of its picture, and lets a screen reader speak its line of numbers when it changes."""

KEYS = """document.addEventListener('focusin', ({target}) => {
  if (target.closest('.vega-bindings')) target.dataset.lmSuppressShortcuts = true;
});"""
"""In JupyterLab, which else takes arrows and letters for commands of its own: sliders and lists get their keys."""


class Playable:
    """A chart with settings to play with, in a notebook, on a page and on paper.

    chart: drawn from `chosen` rows and with a `readout`. settings: made by `slider` or `choice`.
    Raises ValueError for a chart of more than 250 000 characters, and without settings or a readout.
    Cost: a second for the first picture of a process, a tenth for others.
    """

    def __init__(self, chart: Any, *settings: alt.Parameter) -> None:
        if not settings:
            raise ValueError("settings: one or more are needed, got none")
        self.chart: dict[str, Any] = _looking_as_in_the_book(chart).add_params(*settings).to_dict()
        text = json.dumps(self.chart)
        if len(text) > LARGEST:
            raise ValueError(f"chart: up to {LARGEST} characters are allowed, got {len(text)}; take fewer settings")
        if f'"name": "{READOUT}"' not in text:
            raise ValueError("chart: a readout is needed, which says its numbers to who cannot see them")

    def picture(self, **values: Any) -> str:
        """SVG of the chart as it starts, or with these settings instead; raises ValueError for one that is not there.

        >>> Playable(chart, slider("p", "probability", [0, 0.5, 1], 0)).picture(p=0.5)        # doctest: +SKIP
        """
        known = {setting["name"]: setting for setting in self.chart["params"]}
        for name, value in values.items():
            if name not in known:
                raise ValueError(f"settings: {_listed(known)} are allowed, got {name}")
            bind = known[name]["bind"]
            if not _among(value, options := _options(bind), bind.get("step", 0)):
                raise ValueError(f"setting {name}: one of {_listed(options)} is allowed, got {value!r}")
        params = [{**known[name], "value": values.get(name, known[name]["value"])} for name in known]
        return str(vl_convert.vegalite_to_svg({**self.chart, "params": params}, vl_version=VEGA_LITE))

    def _ipython_display_(self) -> None:
        display({SCRIPT: KEYS, "text/plain": ""}, raw=True)
        display(self._repr_mimebundle_(), raw=True)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        return {CHART: self.chart, PICTURE: self.picture(), "text/plain": "A figure to play with"}


def slider(name: str, label: str, values: ArrayLike, start: float) -> alt.Parameter:
    """A slider over evenly spaced numbers; ``name`` is the column of the table that it chooses from.

    Raises ValueError where the numbers do not rise by equal steps, ``start`` is not one of them, or the name is none.
    """
    _refuse_name(name)
    numbers = np.asarray(values)
    if not (even := _evenly(numbers)) > 0:
        raise ValueError(f"slider {name}: two or more numbers that rise by equal steps are allowed, got {values!r}")
    if not _among(start, numbers, even):
        raise ValueError(f"slider {name}: it starts at one of {_listed(numbers)}, got {start!r}")
    first, last = (Decimal(f"{end:.{SLIDING.prec}g}") for end in (numbers[0], numbers[-1]))
    step = SLIDING.divide(last - first, Decimal(numbers.size - 1))
    bind = alt.binding_range(min=float(first), max=float(last), step=float(step), name=label)
    return alt.param(name=name, value=start, bind=bind)


def choice(name: str, label: str, options: Sequence[Any], start: Any) -> alt.Parameter:
    """A list of words or numbers to choose from; ``name`` is the column of the table.

    Raises ValueError where there is nothing to choose, ``start`` is not among them, an option is neither word nor
    number, or the name is none.
    """
    _refuse_name(name)
    if not all(_is_number(option) or isinstance(option, str) for option in options):
        raise ValueError(f"choice {name}: words or numbers are allowed, got {_listed(options)}")
    if len(set(options)) < max(2, len(options)):
        raise ValueError(f"choice {name}: two or more different options are allowed, got {_listed(options)}")
    if not _among(start, options):
        raise ValueError(f"choice {name}: it starts at one of {_listed(options)}, got {start!r}")
    return alt.param(name=name, value=start, bind=alt.binding_select(options=list(options), name=label))


def chosen(columns: Mapping[str, ArrayLike], *settings: alt.Parameter) -> alt.Chart:
    """A chart of those rows of a table that agree with all settings, each of which has a column there.

    columns: arrays of numbers or words that broadcast to a common shape, an entry for each row. Numbers are kept to
    four digits, but those that a setting chooses from as they are. Raises ValueError for shapes that do not fit,
    numbers that are not finite, a setting without a column, and an option of a setting without rows.
    """
    try:
        arrays = [np.ravel(array) for array in np.broadcast_arrays(*map(np.asarray, columns.values()))]
    except ValueError:
        shapes = {name: np.shape(array) for name, array in columns.items()}
        raise ValueError(f"columns: shapes that broadcast are allowed, got {shapes}") from None
    table = dict(zip(columns, arrays, strict=True))
    numbers = [name for name, array in table.items() if array.dtype.kind in "iuf"]
    for name in numbers:
        if not np.isfinite(table[name]).all():
            raise ValueError(f"column {name}: finite numbers are allowed, got {_listed(np.unique(table[name]))}")
    conditions = [_condition(table, setting) for setting in settings]
    exact = {str(setting.name) for setting in settings}
    written = [[_written(value, name in exact) for value in array] for name, array in table.items()]
    text = "\n".join([",".join(table), *map(",".join, zip(*written, strict=True))])
    source = alt.InlineData(values=text, format=alt.CsvDataFormat(type="csv", parse=dict.fromkeys(numbers, "number")))
    chart = alt.Chart(source)
    return chart.transform_filter(" && ".join(conditions)) if conditions else chart


def readout(columns: Mapping[str, ArrayLike], *settings: alt.Parameter) -> alt.Chart:
    """What stands above a chart and says its numbers in words: the column ``text`` of a table, one row per setting."""
    if "text" not in columns:
        raise ValueError(f"readout: a column text is needed, got {_listed(columns)}")
    line = chosen(columns, *settings).properties(name=READOUT)
    rows = 1 + max(str(text).count("\n") for text in np.ravel(np.asarray(columns["text"])))
    words = line.mark_text(align="left", baseline="top", fontSize=13, lineBreak="\n", lineHeight=17)
    return words.encode(text="text:N", x=alt.value(0), y=alt.value(-17 * rows - 8))


def told_apart(
    column: str, names: Sequence[str], looks: Iterable[Mapping[str, Any]] = (), points: bool = False
) -> dict[str, Any]:
    """Encodings by which curves of these names differ in colour and in stroke, as in all figures, with a legend.

    looks: colour and line style of each, as `figures.looks` gives them; else those of `figures.styles`.
    points: they are drawn as points, which differ in shape instead.
    """
    given = list(looks) or list(styles(len(names)))
    legend = alt.Legend(title=None, values=list(names), **(POINT if points else {}))
    colours = alt.Scale(domain=list(names), range=[look["color"] for look in given])
    seen = {"color": alt.Color(f"{column}:N", scale=colours, legend=legend)}
    if points:
        shapes = alt.Scale(domain=list(names), range=[SHAPES[style["marker"]] for style in styles(len(names))])
        return {**seen, "shape": alt.Shape(f"{column}:N", scale=shapes, legend=legend)}
    strokes = alt.Scale(domain=list(names), range=[_dashes(look["linestyle"]) for look in given])
    return {**seen, "strokeDash": alt.StrokeDash(f"{column}:N", scale=strokes, legend=legend)}


def _dashes(stroke: Any) -> list[float]:
    """Pixels drawn and left out, of one of Matplotlib's line styles."""
    return DASHES[stroke] if isinstance(stroke, str) else [2.0 * length for length in stroke[1]]


def logarithmic(lowest: float, highest: float, labels: str = "~s") -> dict[str, Any]:
    """Scale and axis between two positive numbers, with a label at powers of ten; ``labels`` as in D3, `.0e` for 1e-3.

    Raises ValueError unless 0 < lowest < highest.
    """
    if not 0 < lowest < highest:
        raise ValueError(f"a logarithmic axis: 0 < lowest < highest is needed, got {lowest} and {highest}")
    first, last = math.ceil(math.log10(lowest)), math.floor(math.log10(highest))
    powers = [10.0**power for power in range(first, last + 1, 1 + (last - first) // 8)]
    scale = alt.Scale(type="log", domain=[lowest, highest], nice=False)
    return {"scale": scale, "axis": alt.Axis(values=powers, format=labels)}


def script() -> str:
    """All of the script that the charts of a page need, without anything from the network. Takes seconds."""
    bundle = vl_convert.javascript_bundle(START, vl_version=VEGA_LITE)
    return f"(() => {{\n{bundle}\n}})();\n"  # no module, which a page from disk may not load, but its own names


def script_version() -> str:
    """Short digest of what decides the `script`."""
    return hashlib.sha256(f"{version('vl-convert-python')} {VEGA_LITE} {START}".encode()).hexdigest()[:8]


def page_outputs(notebook: NotebookNode) -> NotebookNode:
    """The notebook for a page: after a cell with the picture of a chart its description, for the `script` to draw.

    It has a cell of its own, for every output of a cell that makes a figure would become a figure of that name; so
    the output that only Jupyter needs is left out.
    """
    cells = []
    for cell in notebook.cells:
        cells.append(cell)
        if "outputs" in cell:
            cell.outputs = [output for output in cell.outputs if output.get("data", {}).get(SCRIPT) != KEYS]
        for output in cell.get("outputs", []):
            if chart := output.get("data", {}).pop(CHART, None):
                text = json.dumps(chart, separators=(",", ":")).replace("<", "\\u003c")
                markup = f'<script type="application/json" class="{CLASS}">{text}</script>'
                described = [new_output("display_data", {"text/html": markup})]
                # Not shown; but of a cell without any source MyST-NB leaves out the outputs too.
                cells.append(new_code_cell(SHOWN, metadata={"tags": ["remove-input"]}, outputs=described))
    notebook.cells = cells
    return notebook


def _refuse_name(name: str) -> None:
    if not name.isidentifier() or name in TAKEN:
        raise ValueError(f"setting: a name without blanks and none of Vega's {_listed(sorted(TAKEN))}, got {name!r}")


def _condition(table: Mapping[str, Any], setting: alt.Parameter) -> str:
    """Which rows a setting chooses, as Vega says it; numbers of a slider are equal up to a small part of a step."""
    name, bind = str(setting.name), setting.param.bind.to_dict()
    if name not in table:
        raise ValueError(f"setting {name}: a column of the table is needed, got {_listed(table)}")
    for option in _options(bind):
        if not _among(option, np.unique(table[name]), bind.get("step", 0)):
            raise ValueError(f"setting {name}: rows for every option are needed, got none for {option}")
    return f"abs(datum.{name} - {name}) < {bind['step'] / 4}" if "step" in bind else f"datum.{name} == {name}"


def _options(bind: Mapping[str, Any]) -> list[Any]:
    """All that a slider or a list has to choose from."""
    if "options" in bind:
        return list(bind["options"])
    first, last, step = (Decimal(repr(bind[name])) for name in ("min", "max", "step"))
    return [float(first + count * step) for count in range(int((last - first) / step) + 1)]


def _among(value: Any, options: Iterable[Any], step: float = 0) -> bool:
    """Whether a word, or a number up to a small part of a slider's step, is an option; True and False are neither."""
    if _is_number(value):
        return any(_is_number(one) and abs(float(value) - float(one)) <= NEAR * step for one in options)
    return isinstance(value, str) and any(isinstance(one, str) and value == one for one in options)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _evenly(numbers: NDArray[Any]) -> float:
    """The step of numbers that rise by equal ones, up to a quarter of `NEAR`; 0 where they do not or are no numbers."""
    if numbers.ndim != 1 or numbers.size < 2 or numbers.dtype.kind not in "iuf" or not np.isfinite(numbers).all():
        return 0.0
    even, step = np.linspace(numbers[0], numbers[-1], numbers.size, retstep=True)
    return float(step) if np.all(np.abs(numbers - even) <= NEAR / 4 * step) else 0.0


def _looking_as_in_the_book(chart: Any) -> Any:
    style = mpl.rc_params_from_file(STYLE, use_default_template=False)
    ink, text, grid = (to_hex(style[name]) for name in ("axes.edgecolor", "text.color", "grid.color"))
    sizes = {"labelFontSize": 12, "titleFontSize": 13}
    words = {"labelColor": text, "titleColor": text, "titleFontWeight": "normal", **sizes}
    lines = {"domainColor": ink, "tickColor": ink, "gridColor": grid, "gridOpacity": style["grid.alpha"]}
    return chart.configure(
        background="transparent",
        font="DejaVu Sans, sans-serif",
        axis={**words, **lines},
        legend={**words, "orient": "bottom", "columns": 2, "symbolSize": 500, "labelLimit": 300},
        view={"stroke": None},
        text={"color": text},
        mark={"color": next(styles(1))["color"]},
        line={"strokeWidth": style["lines.linewidth"] + 0.3},
    )


def _written(value: Any, exact: bool = False) -> str:
    if isinstance(value, float | np.floating):
        return repr(float(value)).removesuffix(".0") if exact else f"{value:.{DIGITS}g}"
    word = str(value)
    return '"' + word.replace('"', '""') + '"' if set(word) & set(',"\r\n') else word


def _listed(values: Any) -> str:
    return ", ".join(str(value) for value in values)
