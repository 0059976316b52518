"""Experiments are found by the name that their file gives itself."""

import pytest
import yaml

from lib import ROOT
from lib.runs.definition import experiment_files


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
