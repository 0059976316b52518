"""Records hold numbers of JSON alone, each under one name, and nothing that a run returns is lost on the way there."""

import importlib
import json
import re

import numpy as np
import pytest

from lib.runs import store as run_store
from lib.runs.definition import Run
from lib.runs.store import Store

MODULE = "experiments.binary_sequences.run"
NUMPY = {
    "loss": np.float32(0.1),
    "precise": np.float64(1 / 3),
    "epochs": np.int64(3),
    "converged": np.bool_(True),
    "curve": np.array([1 / 3, np.nan], dtype=np.float32),
    "table": [np.arange(4).reshape(2, 2)],
    "single": np.array(2.0),
    "by_lag": {np.int64(5): np.float32(0.5)},
}


@pytest.fixture
def run():
    parameters = importlib.import_module(MODULE).Parameters.read({"architecture": "rnn", "width": 1}, "tiny")
    return Run("tiny", MODULE, parameters.model_dump(), 0)


@pytest.fixture
def store(tmp_path, monkeypatch):
    """Its runs are trained in no time, and return NUMPY."""
    module = importlib.import_module(MODULE)
    monkeypatch.setattr(module, "run", lambda parameters, seed, folder, device, progress: NUMPY)
    return Store(tmp_path / "results", tmp_path / "work")


def test_numbers_of_numpy_are_kept_as_those_of_python(run, store):
    assert store.execute(run) == "done"
    assert store.load(run).result == {
        "loss": 0.1,
        "precise": 0.3333333,
        "epochs": 3,
        "converged": True,
        "curve": [0.3333333, None],
        "table": [[[0, 1], [2, 3]]],
        "single": 2.0,
        "by_lag": {"5": 0.5},
    }


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"loss": 0.1', '"loss": 1e999', "1e999 is no number of JSON"),
        ('"loss": 0.1', '"loss": -1.0e400', "-1.0e400 is no number of JSON"),
        ('"loss": 0.1', '"loss": NaN', "NaN is no number of JSON"),
        ('"loss": 0.1', '"loss": 0.1, "loss": 0.2', "each name is allowed once in an object, got 'loss' 2 times"),
        ('"seed": 0', '"seed": 1, "seed": 0', "each name is allowed once in an object, got 'seed' 2 times"),
        ('"loss": 0.1', f'"loss": {"[" * 100_000}{"]" * 100_000}', "recursion"),
        ('"peak_memory_MB"', '"memory_MB"', "provenance.peak_memory_MB"),
    ],
)
def test_a_record_that_json_does_not_know_is_refused_with_its_file(run, store, old, new, message):
    store.execute(run)
    path = store.record_path(run)
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1 and json.loads(text)
    path.write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(ValueError, match=rf"{path.name} is no record of a run: .*{re.escape(message)}.*remove it"):
        store.load(run)


def test_a_profile_without_runs_has_no_share_that_is_recorded(monkeypatch):
    class Planned:
        profiles = ("laptop", "paper")

        def __init__(self, name):
            pass

        def runs(self, profile):
            return {"laptop": [], "paper": [1]}[profile]

    monkeypatch.setattr(run_store, "Experiment", Planned)
    monkeypatch.setattr(Store, "records", lambda self, runs: [{"run": run} for run in runs])
    with pytest.raises(ValueError, match=r"x: profiles of at least one run are allowed, got \['laptop'\] without any"):
        run_store.so_far("x")
