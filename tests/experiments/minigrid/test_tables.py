"""Tables and the figure of the chapter, and what is shown while nothing is recorded."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest

from experiments.minigrid import runs
from experiments.minigrid.ceilings import ceiling
from experiments.minigrid.environments import PLACES
from experiments.minigrid.figures import draw_ceilings
from experiments.minigrid.runs import agent_runs
from experiments.minigrid.tables import BESIDE, beside_another_library, table_of_agents, table_of_ceilings
from lib.report.benchmarks import Benchmark, load
from lib.runs.store import Store
from tests.experiments.minigrid.test_statements import agents


@pytest.fixture(scope="module")
def limits():
    return {name: ceiling(name, 3) for name in PLACES}


def test_every_place_has_its_ceilings_and_its_printed_numbers(limits) -> None:
    head, _, *rows = table_of_ceilings(limits).splitlines()
    assert [row.split("|")[1].strip() for row in rows] == list(PLACES)
    (memory,) = (row for row in rows if "MemoryS7" in row)
    named = dict(zip(*([cell.strip() for cell in line.split("|")[1:-1]] for line in (head, memory)), strict=True))
    assert named["return of MemLSTM, printed"] == "0.40" and named["return of RelLSTM, printed"] == "0.94"
    assert named["return, mission (Memory: cue) unread"].startswith("0.49") and named["return, read"].startswith("0.98")


def test_the_figure_shows_bars_at_the_ceilings_and_points_at_the_printed_numbers(limits) -> None:
    figure, axes = plt.subplots()
    draw_ceilings(axes, limits)
    names = [label.get_text() for label in axes.get_yticklabels()]
    widths = dict(zip(names, (bar.get_width() for bar in axes.patches), strict=True))
    assert widths == {name: pytest.approx(limits[name].blind.mean()) for name in names} and len(names) == 8
    points = {line.get_label(): line.get_xdata() for line in axes.get_lines()}
    assert np.array_equal(points["RelLSTM, printed"], [0.84, 0.74, 0.25, 0.15, 0.5, 0.45, 0.94, 0.3])
    plt.close(figure)


def test_agents_stand_by_task_with_means_over_seeds() -> None:
    found = agent_runs(
        [*agents("DoorKey", "lstm", (0.1, 0.3)), *agents("Memory", "rel_lstm", (0.9,), memory="released")]
    )
    rows = table_of_agents(found).splitlines()[2:]
    assert "RelLSTM, as released" in rows[0] and "| 1 |" in rows[0]
    assert "DoorKey" in rows[1] and "0.20 [" in rows[1]


def test_while_nothing_is_recorded_it_is_said_how_many_runs_are_missing(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(runs, "Store", lambda: Store(tmp_path, tmp_path))
    profile, records, planned = runs.finished()
    assert (profile, records) == ("laptop", []) and planned >= 18


def test_what_another_library_reaches_is_read_from_its_record() -> None:
    rows = [{"way": way, "mean return": told} for way, told in (("ours", "0.9 [0.8, 1.0]"), ("other", "0.1 [0, 0.2]"))]
    made = Benchmark(
        {"title": BESIDE, "description": "", "provenance": {}, "tables": [{"title": "Mean", "rows": rows}]}
    )
    assert "ours: 0.9 [0.8, 1.0]; other: 0.1 [0, 0.2]" in beside_another_library({BESIDE: made})
    assert "Not yet" in beside_another_library({})
    assert BESIDE in {one.title for one in load()}, "the page says that nothing is recorded"
