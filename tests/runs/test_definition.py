"""Experiments are found by the name that their file gives itself."""

import pytest
import yaml

from lib import ROOT
from lib.runs.definition import Experiment, experiment_files


def test_every_sweep_is_found_by_its_name():
    found = experiment_files()
    assert sorted(found.values()) == sorted((ROOT / "experiments").glob("*/*.yml"))
    for name, path in found.items():
        assert yaml.safe_load(path.read_text(encoding="utf-8"))["name"] == name


def test_a_run_of_an_experiment_is_code_of_its_question():
    for path in experiment_files().values():
        module = yaml.safe_load(path.read_text(encoding="utf-8"))["run"]
        assert module.startswith(f"experiments.{path.parent.name}.")


def test_a_name_is_given_once(tmp_path):
    for question in ("one", "two"):
        (tmp_path / question).mkdir()
        (tmp_path / question / "sweep.yml").write_text(f"name: {question}\n", encoding="utf-8")
    assert list(experiment_files(tmp_path)) == ["one", "two"]
    (tmp_path / "two" / "sweep.yml").write_text("title: x\nname: one\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"one file each is allowed, got one/sweep\.yml and two/sweep\.yml"):
        experiment_files(tmp_path)


@pytest.mark.parametrize("text", ["title: x\n", "name:\n", "name: two words\n", "families:\n  name: inside\n"])
def test_a_file_without_a_name_is_refused(tmp_path, text):
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "sweep.yml").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"one/sweep.yml: a line `name: \.\.\.`"):
        experiment_files(tmp_path)


def test_a_profile_has_the_runs_of_the_one_that_it_includes_as_they_are(tmp_path):
    (tmp_path / "one").mkdir()
    smoke = {"seeds": 2, "set": {"length": 8}, "grid": [{"width": [1, 2]}]}
    paper = {"includes": "smoke", "seeds": 3, "set": {"length": 16}, "grid": [{"width": 2}, {"width": 1, "length": 8}]}
    content = {"name": "tiny", "title": "x", "source": "y", "run": "experiments.binary_sequences.run", "version": 1}
    content |= {"defaults": {"architecture": "rnn"}, "profiles": {"smoke": smoke, "paper": paper}}
    text = yaml.safe_dump(content, sort_keys=False)
    (tmp_path / "one" / "sweep.yml").write_text(text, encoding="utf-8")
    experiment = Experiment("tiny", tmp_path)
    settings = [(run.parameters["width"], run.parameters["length"], run.seed) for run in experiment.runs("paper")]
    included = [(width, 8, seed) for width in (1, 2) for seed in (0, 1)]
    assert settings == [*included, *((2, 16, seed) for seed in range(3)), (1, 8, 2)]
    assert [run.identity for run in experiment.runs("paper")][:4] == [run.identity for run in experiment.runs("smoke")]


@pytest.mark.parametrize("name", ["binary-plateau", "book-recall", "l2m-fig5-long"])
def test_a_plan_that_a_plateau_is_judged_by_has_twice_the_budget_and_other_rates(name):
    experiment = Experiment(name)
    smaller = {run.identity for run in experiment.runs("laptop")}  # some of which had to go another way
    seeds: dict[str, dict[tuple[int, float], int]] = {}
    for run in experiment.runs("paper"):
        given = dict(run.parameters)
        fit = given.pop("fit")
        tried = seeds.setdefault(yaml.safe_dump(given), {})
        if run.identity not in smaller:
            budget = fit["epochs"], fit["learning_rate"]
            tried[budget] = tried.get(budget, 0) + 1
    judged = [(tried, *budget) for tried in seeds.values() for budget, count in tried.items() if count >= 3]
    assert len(judged) > 1
    for tried, epochs, rate in judged:
        assert (2 * epochs, rate) in tried
        assert any(other < rate for budget, other in tried if budget == epochs)
        assert any(other > rate for budget, other in tried if budget == epochs)
