"""Experiments, their runs, and the store that keeps them."""

import concurrent.futures
import contextlib
import dataclasses
import hashlib
import json
import multiprocessing
from pathlib import Path

import numpy as np
import pytest
import yaml
from click.testing import CliRunner
from dask.utils import key_split

from lib.batch import cli
from lib.machine import locked
from lib.runs import store as run_store
from lib.runs import sweep
from lib.runs.definition import Experiment, Run, check, experiment_files, merged
from lib.runs.store import RunningElsewhere, RunRecord, Store
from lib.runs.sweep import KEEP_MEMORY, chosen, run_here, shard, task_key

TINY = {
    "name": "tiny",
    "title": "A test",
    "source": "none",
    "run": "experiments.binary_sequences.run",
    "version": 1,
    "defaults": {"length": 16, "training": 20, "validation": 10, "generated": 10, "enumerated": 4, "short_block": 3},
    "families": {
        "rnn": {"architecture": "rnn", "fit": {"learning_rate": 0.01, "epochs": 7}},
        "lstm": {"architecture": "lstm"},
    },
    "profiles": {
        "smoke": {
            "set": {"fit": {"epochs": 2}},
            "seeds": 2,
            "grid": [{"family": ["rnn", "lstm"], "width": [1, 2]}, {"family": "rnn", "width": 2, "depth": [1, 2]}],
        }
    },
}


def experiment(folder: Path, **changes):
    (folder / "test").mkdir(exist_ok=True)
    (folder / "test" / "sweep.yml").write_text(yaml.safe_dump(merged(TINY, changes)), encoding="utf-8")
    return Experiment("tiny", folder)


@pytest.fixture
def runs(tmp_path):
    return experiment(tmp_path).runs("smoke")


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "results", tmp_path / "work")


def test_a_grid_is_all_its_points_once_with_every_seed(runs):
    found = {(r.parameters["architecture"], r.parameters["width"], r.parameters["depth"], r.seed) for r in runs}
    points = [("rnn", 1, 1), ("rnn", 2, 1), ("lstm", 1, 1), ("lstm", 2, 1), ("rnn", 2, 2)]
    assert found == {(*point, seed) for point in points for seed in (0, 1)}
    assert len(runs) == len(found) == len({r.identity for r in runs})


def test_the_grid_wins_over_the_profile_over_the_family_over_the_defaults(runs, tmp_path):
    first = runs[0].parameters
    assert first["fit"] == {"learning_rate": 0.01, "epochs": 2}
    assert first["length"] == 16
    other = experiment(tmp_path, profiles={"smoke": {"grid": [{"family": "rnn", "width": 3, "fit": {"epochs": 5}}]}})
    assert other.runs("smoke")[0].parameters["fit"] == {"learning_rate": 0.01, "epochs": 5}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"profiles": {"smoke": {"grid": [{"family": "gru", "width": 1}]}}}, "lstm, rnn is allowed, got 'gru'"),
        ({"profiles": {"smoke": {"grid": [{"family": "rnn", "widht": 1}]}}}, "widht"),
        ({"profiles": {"smoke": {"grid": [{"family": "rnn", "width": 0}]}}}, "width"),
        ({"profiles": {"smoke": {"set": {"fit": {"epoch": 2}}}}}, "no such setting"),
        ({"profiles": {"smoke": {"sed": 3}}}, "'sed'"),
        ({"profil": {}}, "'profil'"),
        ({"families": {"rnn": {"architecture": "elman"}}}, "architecture"),
        ({"version": 0}, "version: a whole number from 1"),
        ({"version": "new"}, "version: a whole number from 1"),
        (
            {
                "families": {"rnn": {"architecture": "transformer"}},
                "profiles": {"smoke": {"grid": [{"family": "rnn", "width": 6}]}},
            },
            "multiple of heads",
        ),
    ],
)
def test_a_mistake_in_an_experiment_is_found_before_anything_runs(tmp_path, changes, message):
    with pytest.raises(ValueError, match=message):
        check(experiment(tmp_path, **changes).runs("smoke"))


def test_unknown_experiments_and_profiles_are_refused_with_what_there_is(tmp_path):
    with pytest.raises(ValueError, match="one of tiny is allowed, got 'huge'"):
        experiment(tmp_path)
        Experiment("huge", tmp_path)
    with pytest.raises(ValueError, match="one of smoke is allowed, got 'paper'"):
        Experiment("tiny", tmp_path).runs("paper")


def test_the_experiments_of_the_book_can_run_in_every_profile():
    for name in experiment_files():
        definition = Experiment(name)
        assert {"smoke", "laptop", "paper"} <= set(definition.profiles)
        for profile in definition.profiles:
            check(definition.runs(profile))


def test_a_page_shows_the_first_complete_profile_or_the_fullest(monkeypatch):
    class Planned:
        profiles = ("laptop", "paper")

        def __init__(self, name):
            pass

        def runs(self, profile):
            return {"laptop": [1, 2, 3], "paper": [2, 3, 4, 5]}[profile]

    kept = set()
    monkeypatch.setattr(run_store, "Experiment", Planned)
    monkeypatch.setattr(Store, "records", lambda self, runs: [{"run": run} for run in runs if run in kept])
    with pytest.raises(ValueError, match="no runs of x are recorded"):
        run_store.recorded("x")
    assert run_store.so_far("x") == ("laptop", [], 3)
    with pytest.raises(ValueError, match=r"'laptop', 'paper'.*got \['other'\]"):
        run_store.so_far("x", ["other"])
    for done, expected in (({2}, "laptop"), ({2, 4, 5}, "paper"), ({1, 2, 3}, "laptop"), ({1, 2, 3, 4, 5}, "paper")):
        kept = done
        profile, found, planned = run_store.recorded("x")
        assert run_store.so_far("x") == (profile, found, planned)
        assert (profile, planned) == (expected, len(Planned("").runs(expected)))
        assert [record["run"] for record in found] == [run for run in Planned("").runs(expected) if run in done]


def test_every_recorded_run_is_named_by_its_own_question_and_current():
    found = 0
    for name, definition in ((name, Experiment(name)) for name in experiment_files()):
        planned = {run.identity: run for profile in definition.profiles for run in definition.runs(profile)}
        for path in run_store.RECORDED.joinpath(name).glob("*.json"):
            assert RunRecord.read(path, planned[path.stem]).version == definition.version
            found += 1
    assert found == sum(1 for _ in run_store.RECORDED.rglob("*.json")) >= 836


def test_a_question_is_parameters_that_differ_seed_and_data_alone(runs):
    run = next(run for run in runs if run.parameters["architecture"] == "rnn")
    assert run.question == {
        "experiment": "tiny",
        "parameters": {
            **{key: TINY["defaults"][key] for key in TINY["defaults"]},
            "architecture": "rnn",
            "width": 1,
            "fit": {"learning_rate": 0.01, "epochs": 2},
        },
        "seed": 0,
        "data": [],
    }
    text = json.dumps(run.question, sort_keys=True)  # plain numbers and text: the same in every Python
    assert run.identity == hashlib.sha256(text.encode()).hexdigest()[:16]


def test_naming_a_default_asks_the_same(tmp_path):
    point = {"family": "rnn", "width": 3}
    said = {**point, "depth": 1, "amplitude": 0.1, "options": {}, "fit": {"batch": 50, "patience": 5}}
    first, second, other = (
        experiment(tmp_path, profiles={"smoke": {"seeds": 1, "grid": [entry]}}).runs("smoke")[0].identity
        for entry in (point, said, {**said, "amplitude": 0.2})
    )
    assert first == second != other


def test_a_new_parameter_with_a_default_finds_the_old_records(runs, store, monkeypatch):
    from experiments.binary_sequences import run as binary_run

    store.execute(runs[0])

    class Grown(binary_run.Parameters):
        dropout: float = 0.0

    monkeypatch.setattr(binary_run, "Parameters", Grown)
    again = Run("tiny", runs[0].module, {**runs[0].parameters, "dropout": 0.0}, 0)
    assert store.is_done(again)
    assert not store.is_done(Run("tiny", runs[0].module, {**runs[0].parameters, "dropout": 0.5}, 0))


def test_planning_builds_no_network(monkeypatch):
    from experiments.binary_sequences import run as binary_run

    monkeypatch.setattr(binary_run, "create", lambda *_, **__: pytest.fail("a network was built"))
    assert len(run_store.recorded("binary_sequences")[1]) == 102
    with pytest.raises(pytest.fail.Exception, match="was built"):
        check(Experiment("binary_sequences").runs("smoke"))


def test_a_run_is_recorded_once_with_its_provenance(runs, store):
    run = runs[0]
    assert store.execute(run) == "done"
    path = store.record_path(run)
    before = path.stat().st_mtime_ns
    assert store.execute(run) == "was done"
    assert path.stat().st_mtime_ns == before
    record = store.load(run)
    assert record.parameters == run.parameters
    assert record.version == run.version == 1
    assert len(record.result["validation_losses"]) == 2
    assert len(record.result["information"]) == 15
    known = {"commit", "code", "torch", "device", "seconds", "peak_memory_MB", "date", "threads"}
    assert known <= set(record.provenance.model_dump())
    assert not list(store.work_folder(run).glob("checkpoint*"))
    assert (store.work_folder(run) / "model.safetensors").exists()


def test_the_same_run_gives_the_same_numbers_anywhere(runs, tmp_path):
    results = []
    for place in ("one", "two"):
        store = Store(tmp_path / place, tmp_path / f"{place}-work")
        store.execute(runs[-1])
        results.append(dict(store.load(runs[-1]).result))
        del results[-1]["training_seconds"]
    assert results[0] == results[1]


def test_a_run_that_breaks_leaves_no_record_and_does_not_stop_the_others(runs, store, monkeypatch):
    from experiments.binary_sequences import run as binary_run

    true_run = binary_run.run

    def breaks(parameters, seed, folder, **how):
        if seed == 1:
            raise RuntimeError("out of luck")
        return true_run(parameters, seed, folder, **how)

    monkeypatch.setattr(binary_run, "run", breaks)
    outcome = run_here(runs[:4], store)
    assert len(outcome.done) == len(outcome.failed) == 2
    for identity, error in outcome.failed.items():
        log = store.work / "tiny" / f"{identity}-1" / "error.log"
        assert error == f"RuntimeError: out of luck; its traceback is in {log}"
        assert "Traceback" in log.read_text(encoding="utf-8") and "breaks" in log.read_text(encoding="utf-8")
    assert {path.stem for path in store.recorded.rglob("*.json")} == set(outcome.done)
    monkeypatch.undo()
    again = run_here(runs[:4], store)
    assert (len(again.were_done), len(again.done), again.failed) == (2, 2, {})
    assert not list(store.work.rglob("error.log"))


def test_bad_input_that_a_run_finds_is_one_line_with_its_message(runs, store, monkeypatch):
    from experiments.binary_sequences import run as binary_run

    def refuses(parameters, seed, folder, **how):
        raise ValueError("width: 1 or more is allowed,\n got 0")

    monkeypatch.setattr(binary_run, "run", refuses)
    told = []
    run_here(runs[:1], store, tell=told.append)
    start = f"{runs[0]} failed (architecture=rnn"
    assert len(told) == 1 and told[0].startswith(start)
    assert "seed=0): width: 1 or more is allowed, got 0; its traceback is in" in told[0]
    monkeypatch.setattr(sweep, "traceback", None)  # what cannot be written must not hide what happened
    store.work_folder(runs[1]).parent.mkdir(parents=True, exist_ok=True)
    store.work_folder(runs[1]).touch()
    outcome = run_here(runs[1:2], store)
    assert "FileExistsError" in outcome.failed[runs[1].identity]


def hold(path, ready, release):
    with locked(path):
        ready.set()
        release.wait(30)


@contextlib.contextmanager
def held_by_another_process(folder):
    """Yields what makes that process let go."""
    folder.mkdir(parents=True)
    context = multiprocessing.get_context("spawn")
    ready, release = context.Event(), context.Event()
    process = context.Process(target=hold, args=(folder / "lock", ready, release))
    process.start()
    assert ready.wait(30)
    try:
        yield release.set
    finally:
        release.set()
        process.join()


def test_a_run_that_another_process_has_in_hand_is_left_to_it(runs, store):
    with held_by_another_process(store.work_folder(runs[0])):
        with pytest.raises(RunningElsewhere):
            store.execute(runs[0])
        assert run_here(runs[:1], store).elsewhere == [runs[0].identity]
    assert store.execute(runs[0]) == "done"


def test_a_page_waits_for_a_run_that_another_page_has_in_hand(runs, store):
    with (
        held_by_another_process(store.work_folder(runs[0])) as let_go,
        concurrent.futures.ThreadPoolExecutor(1) as pool,
    ):
        waiting = pool.submit(store.execute, runs[0], wait=True)
        with pytest.raises(concurrent.futures.TimeoutError):
            waiting.result(timeout=1)
        let_go()
        assert waiting.result(timeout=60) == "done"


def damaged(record, kind):
    """The text of a record that is damaged in one way."""
    text = json.dumps(record)
    changes = {
        "another seed": {"seed": record["seed"] + 1},
        "another width": {"parameters": {**record["parameters"], "width": 7}},
        "another name": {"identity": "0" * 16},
        "an empty result": {"result": {}},
        "text for a seed": {"seed": "0"},
        "an unknown field": {"verdict": "holds"},
        "version 0": {"version": 0},
        "no date": {"provenance": {key: value for key, value in record["provenance"].items() if key != "date"}},
        "other data": {"data": ["sha256:0"]},
        "NaN": {"result": {"loss": float("nan")}},
    }
    whole = {"nothing": "", "half": text[:100], "a list": "[]"}
    return whole[kind] if kind in whole else json.dumps({**record, **changes[kind]})


KINDS = ["nothing", "half", "a list", "another seed", "another width", "another name", "an empty result"]
KINDS += ["text for a seed", "an unknown field", "version 0", "no date", "other data", "NaN"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_record_is_no_result_and_is_refused_with_its_file_and_what_to_do(runs, store, kind):
    run = runs[0]
    store.execute(run)
    path = store.record_path(run)
    path.write_text(damaged(json.loads(path.read_text(encoding="utf-8")), kind), encoding="utf-8")
    for ask in (store.load, store.is_done, store.execute, lambda run: store.records([run])):
        with pytest.raises(ValueError, match=rf"{run.identity}\.json is no record of a run.*remove it.*sweep tiny"):
            ask(run)
    path.unlink()
    assert store.execute(run) == "done"


def test_a_sweep_says_which_record_is_damaged_before_anything_starts(monkeypatch, tmp_path):
    store = Store(tmp_path / "results", tmp_path / "work")
    monkeypatch.setattr(run_store, "store_of", lambda profile: store)
    path = store.record_path(Experiment("binary_sequences").runs("smoke")[3])
    path.parent.mkdir(parents=True)
    path.write_text("", encoding="utf-8")
    result = CliRunner().invoke(cli.main, ["sweep", "binary_sequences", "--profile", "smoke"])
    assert result.exit_code == 1 and path.name in result.output and "remove it" in result.output
    assert "Traceback" not in result.output and not store.work.exists()


def test_records_of_an_older_version_are_shown_marked_and_made_again(runs, store):
    run = runs[0]
    store.execute(run)
    raised = dataclasses.replace(run, version=2)
    assert (store.state(run), store.state(raised)) == ("current", "of version 1")
    assert [found["stale"] for found in store.records([run])] == [False]
    assert [found["stale"] for found in store.records([raised])] == [True]
    assert not store.is_done(raised)
    assert store.execute(raised) == "done"
    assert (store.state(run), store.state(raised)) == ("of version 2", "current")
    assert store.records(runs[1:2]) == []


@pytest.mark.parametrize("name", ["binary_sequences", "l2m-fig5", "text-information"])
def test_the_runs_of_an_experiment_are_one_group_of_tasks_so_that_no_worker_stands_idle(name):
    keys = [task_key(run) for run in Experiment(name).runs("laptop")]
    assert len({key_split(key) for key in keys}) == 1 and len(set(keys)) == len(keys)


@pytest.mark.parametrize("parts", [1, 2, 3, 7, 20])
def test_shards_are_disjoint_and_complete(runs, parts):
    pieces = [shard(runs, f"{number}/{parts}") for number in range(1, parts + 1)]
    assert sorted(run.identity for piece in pieces for run in piece) == sorted(run.identity for run in runs)
    assert max(map(len, pieces)) - min(map(len, pieces)) <= 1


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "a/b", "1/0", "-1/2"])
def test_shards_that_do_not_exist_are_refused(runs, text):
    with pytest.raises(ValueError, match="shard"):
        shard(runs, text)


def test_a_dry_run_lists_the_runs_and_the_slurm_script_and_starts_nothing(monkeypatch, tmp_path):
    monkeypatch.setattr(run_store, "store_of", lambda profile: Store(tmp_path / "results", tmp_path / "work"))
    arguments = ["sweep", "binary_sequences", "--profile", "smoke", "--dry-run", "--slurm", "2", "--queue", "short"]
    result = CliRunner().invoke(cli.main, arguments)
    assert result.exit_code == 0, result.output
    count = len(Experiment("binary_sequences").runs("smoke"))
    assert f"{count} runs, 0 of them done" in result.output
    assert result.output.count("architecture=") == count
    assert "#SBATCH -p short" in result.output
    assert "#SBATCH -t 04:00:00" in result.output
    assert "distributed.cli.dask_worker" in result.output
    assert all(f"export {name}={value}" in result.output for name, value in KEEP_MEMORY.items())
    assert not list(tmp_path.rglob("*.json"))


def test_runs_are_chosen_by_their_parameters(runs):
    assert {run.parameters["architecture"] for run in chosen(runs, {"architecture": "rnn"})} == {"rnn"}
    assert len(chosen(runs, {"architecture": "rnn", "width": 2, "seed": 1})) == 2
    assert chosen(runs, {}) == runs
    with pytest.raises(ValueError, match="got 'widht'"):
        chosen(runs, {"widht": 2})


def test_runs_are_chosen_by_parameters_inside_others(tmp_path):
    grid = [{"family": "rnn", "width": 2, "fit": [{"epochs": 2}, {"epochs": 30}]}, {"family": "lstm", "width": 3}]
    runs = experiment(tmp_path, profiles={"smoke": {"set": {}, "seeds": 1, "grid": grid}}).runs("smoke")
    assert [run.parameters["fit"]["epochs"] for run in chosen(runs, {"fit.epochs": 30})] == [30]
    assert [run.parameters["architecture"] for run in chosen(runs, {"fit": {"epochs": 2}})] == ["lstm"]
    assert len(chosen(runs, {"fit.learning_rate": 0.01})) == 2  # a run without it is passed over


def test_a_text_is_found_that_looks_like_another_kind_of_value():
    texts = [
        Run("kerg-pmnist", "experiments.pixels_and_characters.run", {"labels": text}, 0) for text in ("true", "1", "no")
    ]
    for given, text in ((True, "true"), (1, "1"), ("no", "no")):
        assert [run.parameters["labels"] for run in chosen(texts, {"labels": given})] == [text]
    with pytest.raises(ValueError, match="labels is one of 1, no, true, got false"):
        chosen(texts, {"labels": False})


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ({"architecture": "nonsense"}, "architecture is one of lstm, rnn, got nonsense"),
        ({"width": 10}, "width is one of 1, 2, got 10"),
        ({"seed": 7}, "seed is one of 0, 1, got 7"),
        ({"fit.epochs": 12}, "fit.epochs is one of 2, got 12"),
        ({"architecture": "lstm", "depth": 2}, "depth of the runs with architecture=lstm is one of 1, got 2"),
        ({"fit.epoch": 2}, "fit.epochs, fit.learning_rate, .* is allowed, got 'fit.epoch'"),
    ],
)
def test_a_value_that_no_run_has_is_answered_with_those_there_are(runs, where, message):
    with pytest.raises(ValueError, match=message):
        chosen(runs, where)


def test_a_sweep_of_nothing_is_an_error_and_not_a_success():
    result = CliRunner().invoke(cli.main, ["sweep", "binary_sequences", "--where", "architecture=nonsense"])
    assert result.exit_code == 1 and "lstm, mamba" in result.output and "got nonsense" in result.output


@pytest.mark.parametrize("how", [[], ["--shard", "1/2"]])
def test_a_sweep_for_a_gpu_on_a_machine_without_one_is_refused_before_anything_starts(monkeypatch, tmp_path, how):
    monkeypatch.setattr(run_store, "store_of", lambda profile: Store(tmp_path / "results", tmp_path / "work"))
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr(sweep, "local_client", None)
    words = ["sweep", "binary_sequences", "--profile", "smoke", "--device", "cuda", *how]
    result = CliRunner().invoke(cli.main, words)
    assert result.exit_code == 1 and "CUDA finds no GPU" in result.output
    assert not list(tmp_path.iterdir())
    assert CliRunner().invoke(cli.main, [*words, "--dry-run"]).exit_code == 0
    result = CliRunner().invoke(cli.main, ["fingerprint", "binary_sequences", "--device", "cuda"])
    assert result.exit_code == 1 and "CUDA finds no GPU" in result.output


def test_gpus_are_shared_out_among_the_workers(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    workers = {name: type("Worker", (), {"name": name}) for name in (0, 1, 2, "tcp://10.0.0.1:1")}
    places = []
    for worker in workers.values():
        monkeypatch.setattr("distributed.get_worker", lambda worker=worker: worker)
        places.append(sweep._place("cuda"))
    assert places == ["cuda:0", "cuda:1", "cuda:0", "cuda"]


def test_two_ways_of_running_at_once_are_refused():
    result = CliRunner().invoke(cli.main, ["sweep", "binary_sequences", "--shard", "1/2", "--slurm", "1"])
    assert result.exit_code != 0
    assert "one of --scheduler, --slurm and --shard" in result.output


def test_numbers_are_kept_to_seven_digits():
    rounded = run_store._rounded({"a": [np.pi, 1], "b": (1e-20 / 3,), "c": True, "d": "text"})
    assert rounded == {"a": [3.141593, 1], "b": [3.333333e-21], "c": True, "d": "text"}
    assert run_store._rounded([np.inf, -np.inf, np.nan, 2.0]) == [None, None, None, 2.0]
