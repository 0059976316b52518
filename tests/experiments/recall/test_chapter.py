"""The chapters on copy and denoise and on gradients in training run on whatever is recorded, and tell the truth."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest

from lib.batch.pages import find_page
from lib.runs import store
from lib.runs.definition import Experiment, Run

SETTLED = ("lstm", "goru")  # which stay at chance
ORIGIN = {"seconds": 60.0, "date": "2026-01-01T00:00:00+00:00", "device": "cpu", "commit": "0", "peak_memory_MB": 1.0}


def finished(run: Run) -> dict[str, Any]:
    """A record as a sweep writes it: LSTM and GORU fail, and so does what keeps no symbols; all others succeed."""
    chosen, options = run.parameters, run.parameters["options"]
    denoise_without = chosen["task"] == "denoise" and (options.get("select") or options.get("relevant") == 0)
    fails = chosen["architecture"] in SETTLED or denoise_without or chosen["labels"] != "true"
    made = 60 if fails else 12
    recall, length = chosen["recall"], chosen["delay"] + 2 * chosen["recall"]
    result: dict[str, Any] = {
        "reason": "all epochs done" if fails else "accuracy reached",
        "baseline_loss": 0.17,
        "validation_losses": [0.17] * made if fails else np.geomspace(0.17, 0.001, made).tolist(),
        "accuracies": [0.125 if fails else 0.995] * made,
        "updates": made * chosen["updates"],
        "updates_to_success": None if fails else made * chosen["updates"],
        "transfer": {str(by * chosen["delay"]): {"accuracy": 0.5, "loss": 1.0} for by in chosen["transfer"]},
    }
    for when, share in (("before", 0.1), ("after", 0.6)):
        result[when] = {"gradient_norms": (-0.01 * np.arange(length)).tolist()} if chosen["gradients"] else {}
        if chosen["architecture"] in ("rel_rnn", "rel_lstm", "mem_rnn"):
            result[when]["attention"] = {
                "on_symbols": share,
                "on_other_times": 0.1,
                "on_each_symbol": (share * np.eye(recall)).tolist(),
                "by_lag": [0.04] * 25,
                "set_at_cue": share,
            }
        if chosen["relevance"]:
            numbers = {"relevant": share / 2, "other": 0.6, "away": [0.1] * 10, "by_glances": [share] * 6}
            pairs = {f"without_{name}": [0.2, 0.95] for name in ("other", "small", "random")}
            result[when]["relevance"] = numbers | pairs | {"difference": 1e-15}
    return {"parameters": chosen, "seed": run.seed, "stale": False, "result": result, "provenance": ORIGIN}


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[str, dict[str, Any]]]:
    """Run the cells that rest on records, of the runs that `there` names; returns what they print, and their names."""

    def execute(there: Callable[[Run], bool], chapter: str = "copy_and_denoise") -> tuple[str, dict[str, Any]]:
        def so_far(name: str) -> tuple[str, list[dict[str, Any]], int]:
            planned = Experiment(name).runs("laptop")
            return "laptop", [finished(run) for run in planned if there(run)], len(planned)

        monkeypatch.setattr(store, "so_far", so_far)
        monkeypatch.setattr(plt, "show", lambda: None)
        plt.close("all")
        names: dict[str, Any] = {}
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            for cell in find_page(chapter).notebook().cells:
                if cell.cell_type == "code" and "store.complete" not in cell.source and "footer" not in cell.source:
                    *body, last = cell.source.splitlines()
                    shown = f"print(getattr({last}, 'data', ''))" if last.startswith("Markdown(") else last
                    exec("\n".join([*body, shown]), names)
        return printed.getvalue(), names

    yield execute
    plt.close("all")


def test_nothing_is_recorded(page: Any) -> None:
    told, names = page(lambda run: False)
    assert told.count("none of the") == 2 and "solved in every seed" not in told
    assert set(names["verdicts"].values()) == {"undecided"}
    assert "kerg-denoise (" not in told
    # the maps are open whatever has run: the captions state nothing
    assert told.count("kerg-heatmaps") == 1 and "undecided · kerg-heatmaps (what the maps show)" in told
    assert len(plt.get_fignums()) == 1


def test_a_few_networks_are_recorded(page: Any) -> None:
    told, names = page(lambda run: run.parameters["architecture"] == "exp_rnn" and run.parameters["delay"] <= 200)
    assert names["verdicts"].pop("expRNN copies") == "agrees" and set(names["verdicts"].values()) == {"undecided"}
    assert "expRNN (T = 100, 200)" in told and "none of the" not in told
    assert len(plt.get_fignums()) == 1


def test_everything_is_recorded(page: Any) -> None:
    told, names = page(lambda run: True)
    assert names["verdicts"]["RelRNN copies"] == names["verdicts"]["LSTM does not copy"] == "agrees"
    assert names["verdicts"]["LSTM copies"] == "undecided"  # at 200 and 300 steps it has one rate
    assert names["verdicts"]["orth-RNN, 80 %"] == "differs"
    assert "what first come has not learned in" in told and "none of the" not in told
    assert "kerg-denoise" in told and "kerg-tradeoff" in told and "kerg-heatmaps" in told
    assert len(plt.get_fignums()) == 2


def test_gradients_in_training_with_and_without_records(page: Any) -> None:
    told, names = page(lambda run: False, "gradients_in_training")
    assert told.count("none of the") == 2 and "kerg-fig3" not in told and "kerg-relevant" not in told
    assert len(plt.get_fignums()) == 1 and "verdicts" not in names
    told, names = page(lambda run: True, "gradients_in_training")
    assert set(names["verdicts"].values()) == {"agrees"} and len(names["verdicts"]) == 3
    assert (
        "30 % of the states are attended to at more than half of the later steps (*relevant*), 60 % at hardly any"
        in told
    )
    assert "kerg-fig3" in told
    assert len(plt.get_fignums()) == 4


def test_the_page_says_in_updates_what_the_sweep_has_in_epochs() -> None:
    runs = [run.parameters for run in Experiment("kerg-denoise").runs("laptop")]
    (budget,) = {
        one["updates"] * one["fit"]["epochs"] for one in runs if one["options"].get("input_start") == "kaiming"
    }
    words = "".join(cell.source for cell in find_page("copy_and_denoise").notebook().cells)
    assert f"anew for {budget:,}".replace(",", " ") in words and f"{250 * 36}" in words and "18 000" in words
    assert {one["updates"] for one in runs} == {250}
