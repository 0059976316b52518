"""The chapter on pixels and characters runs and tells the truth, whatever is recorded: nothing, some, everything."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from typing import Any

import matplotlib.pyplot as plt
import pytest

from lib.batch.pages import find_page
from lib.runs import store
from lib.runs.definition import Experiment, Run
from tests.experiments.pixels_and_characters.fake_records import FLOORS, spread

ORIGIN = {"seconds": 60.0, "date": "2026-01-01T00:00:00+00:00", "device": "cpu", "commit": "0", "peak_memory_MB": 1.0}
LEVELS = {"rnn": 0.5, "orth_rnn": 0.8, "rel_rnn": 0.9, "mem_rnn": 0.9}


def finished(run: Run) -> dict[str, Any]:
    """A record as a sweep writes it: RelRNN ahead of all others, attention more concentrated after training."""
    chosen, offset = run.parameters, run.seed / 100
    result: dict[str, Any] = {"updates": 5000}
    if run.experiment == "kerg-pmnist":
        level = 0.1 if chosen["labels"] == "shuffled" else LEVELS[chosen["architecture"]] + offset
        result |= {"accuracies": [level] * chosen["fit"]["epochs"], "test_accuracy": level, "largest_class": 0.1135}
    else:
        result |= {"bits": 3.6 if chosen["memory"] == "steps" else 2.3 + offset, "floors": FLOORS}
    if chosen["architecture"] in ("rel_rnn", "mem_rnn"):
        result |= {"before": spread(0.2), "after": spread(0.4)}
        if run.seed == 0 and chosen["architecture"] == "mem_rnn":
            result["after"]["map"] = [[1000 // (step + 1)] * (step + 1) for step in range(6)]
    return {"parameters": chosen, "seed": run.seed, "stale": False, "result": result, "provenance": ORIGIN}


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[str, dict[str, Any]]]:
    """Run the cells that rest on records, of the runs that `there` names; returns what they print, and their names."""

    def execute(there: Callable[[Run], bool]) -> tuple[str, dict[str, Any]]:
        def so_far(name: str) -> tuple[str, list[dict[str, Any]], int]:
            planned = Experiment(name).runs("laptop")
            return "laptop", [finished(run) for run in planned if there(run)], len(planned)

        monkeypatch.setattr(store, "so_far", so_far)
        monkeypatch.setattr(plt, "show", lambda: None)
        plt.close("all")
        names: dict[str, Any] = {}
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            for cell in find_page("pixels_and_characters").notebook().cells:
                if cell.cell_type == "code" and "store.complete" not in cell.source and "footer" not in cell.source:
                    *body, last = cell.source.splitlines()
                    shown = f"print(getattr({last}, 'data', ''))" if last.startswith("Markdown(") else last
                    exec("\n".join([*body, shown]), names)
        return printed.getvalue(), names

    yield execute
    plt.close("all")


def test_nothing_is_recorded(page: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the files of MNIST are not here: the page says so and goes on."""
    monkeypatch.setenv("BOOK_DATA", str(tmp_path))
    monkeypatch.setenv("BOOK_CACHE", str(tmp_path))
    told, names = page(lambda run: False)
    assert told.count("**Not yet**: none of the") == 2 and "**Permuted digits:** not yet" in told
    assert "Not shown here" in told and "t10k-images-idx3-ubyte is not on this machine" in told
    assert "verdicts" not in names and "kerg-pmnist (" not in told and "kerg-heatmaps" not in told
    assert len(plt.get_fignums()) == 2


def test_one_seed_of_some_networks_decides_nothing_and_says_why(page: Any) -> None:
    told, names = page(lambda run: run.seed == 0 and run.parameters["architecture"] in ("rel_rnn", "rnn"))
    assert set(names["verdicts"].values()) == {"undecided"}
    assert "no value with an interval" in told or "nothing to compare" in told
    assert "of the 23 runs of kerg-pmnist are recorded" in told and "makes the others" in told


def test_everything_is_recorded(page: Any) -> None:
    told, names = page(lambda run: True)
    assert set(names["verdicts"].values()) == {"agrees"} and "none of the" not in told
    for claim in ("kerg-pmnist", "kerg-ptb", "kerg-heatmaps"):
        assert claim in told
    assert "RelRNN minus RNN +40.0 points" in told and "| labels of other images | 1 | 10.0 | 10.0 |" in told
    assert len(plt.get_fignums()) == 3
