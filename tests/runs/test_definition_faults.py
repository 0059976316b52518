"""A mistake in an experiment's file is answered with the file, the place, what is allowed and what was given."""

import re

import pytest
import yaml

from lib import plain_yaml
from lib.runs.definition import Experiment

CONTENT = {
    "name": "tiny",
    "title": "A test",
    "source": "none",
    "run": "experiments.binary_sequences.run",
    "version": 1,
    "defaults": {"length": 16},
    "families": {"rnn": {"architecture": "rnn"}},
    "profiles": {"smoke": {"seeds": 2, "grid": [{"family": "rnn", "width": 1}]}},
}


def load(folder, text):
    (folder / "test").mkdir()
    (folder / "test" / "sweep.yml").write_text(text, encoding="utf-8")
    return Experiment("tiny", folder)


def written(**changes):
    return yaml.safe_dump({**CONTENT, **changes})


def profile(**changes):
    """A file whose profile has these entries; None leaves one out."""
    smoke = {**CONTENT["profiles"]["smoke"], **changes}
    return written(profiles={"smoke": {key: value for key, value in smoke.items() if value is not None}})


SEEDS = "a whole number from 1 is allowed, got"
FAULTS = [
    (profile(grid=None), "profile smoke: grid: a list of at least one mapping is allowed, got none"),
    (profile(grid=[]), "profile smoke: grid: a list of at least one mapping is allowed, got []"),
    (profile(grid={"width": 1}), "grid: a list of at least one mapping is allowed, got {'width': 1}"),
    (profile(grid=["width"]), "profile smoke: grid: entry 1: a mapping is allowed, got 'width'"),
    (profile(grid=[{"width": 1}, None]), "profile smoke: grid: entry 2: a mapping is allowed, got None"),
    (profile(grid=[{"width": []}]), "grid: entry 1: width: a value, or a list of at least one, is allowed, got []"),
    (profile(grid=[{1: 2}]), "grid: entry 1: names that are texts are allowed, got 1"),
    (profile(grid=[{"fit": [{3: 2}]}]), "grid: entry 1: fit: names that are texts are allowed, got 3"),
    (
        profile(seeds=None),
        "seeds: a whole number from 1 is needed in the profile or in every entry of its grid, got none",
    ),
    (profile(seeds=2.7), f"profile smoke: seeds: {SEEDS} 2.7"),
    (profile(seeds=True), f"profile smoke: seeds: {SEEDS} True"),
    (profile(seeds=-1), f"profile smoke: seeds: {SEEDS} -1"),
    (profile(seeds=0), f"profile smoke: seeds: {SEEDS} 0"),
    (profile(seeds="2"), f"profile smoke: seeds: {SEEDS} '2'"),
    (profile(grid=[{"width": 1, "seeds": 0}]), f"grid: entry 1: seeds: {SEEDS} 0"),
    (profile(grid=[{"width": 1, "seeds": [1, 1.5]}]), f"grid: entry 1: seeds: {SEEDS} 1.5"),
    (profile(set=["width"]), "profile smoke: set: a mapping is allowed, got ['width']"),
    (profile(set=[]), "profile smoke: set: a mapping is allowed, got []"),
    (profile(includes="laptop"), "profile smoke: includes: no profile stands above it, got 'laptop'"),
    (
        written(profiles={"a": CONTENT["profiles"]["smoke"], "b": {**CONTENT["profiles"]["smoke"], "includes": "b"}}),
        "profile b: includes: one of a is allowed, got 'b'",
    ),
    (written(profiles=None), "profiles: a mapping is allowed, got None"),
    (written(profiles={"smoke": None}), "profile smoke: a mapping is allowed, got None"),
    (written(profiles={1: {}}), "profiles: names that are texts are allowed, got 1"),
    (written(families=["rnn"]), "families: a mapping is allowed, got ['rnn']"),
    (written(families={"rnn": None}), "family rnn: a mapping is allowed, got None"),
    (written(defaults="abc"), "defaults: a mapping is allowed, got 'abc'"),
    (written(run=3), "run: a text is allowed, got 3"),
    (written(title=None), "title: a text is allowed, got None"),
    (written(fingerprint=3), "fingerprint of tiny: a mapping is allowed, got 3"),
    (written(fingerprint={"set": {"width": 1}}), "fingerprint of tiny: grid: a list of at least one mapping"),
    (written(fingerprint={"grid": [{"needs": 3}]}), "grid: entry 1: needs: a text is allowed, got 3"),
    ("name: tiny\ntitle: [x\n", "YAML is allowed, got a fault:"),
    ("name: tiny\ntitle: a: b\n", "YAML is allowed, got a fault:"),
    ("name: tiny\ntitle: x\ntitle: y\n", "YAML is allowed, got a fault: 'title' stands twice: line 3, column 1"),
    (
        written().replace("architecture: rnn", "architecture: rnn\n    architecture: lstm"),
        "got a fault: 'architecture' stands twice: line 6",
    ),
    ("- |\n  x\n\n'\nname: tiny\n'\n", "YAML is allowed, got a fault:"),
    ("'\n\nname: tiny\n\n'\n", "a mapping is allowed, got"),
]


@pytest.mark.parametrize(("text", "message"), FAULTS)
def test_a_mistake_in_a_file_is_named_with_its_place(tmp_path, text, message):
    with pytest.raises(ValueError, match=rf"^test/sweep\.yml: .*{re.escape(message)}"):
        load(tmp_path, text)


@pytest.mark.parametrize(
    "module",
    ["experiments.nowhere.run", "nowhere", "json", ".run", "a module", "experiments.binary_sequences.run.more"],
)
def test_a_module_that_is_none_of_an_experiment_is_refused(tmp_path, module):
    with pytest.raises(ValueError, match=rf"sweep\.yml: run: a module with Parameters.*got {re.escape(repr(module))}"):
        load(tmp_path, written(run=module)).runs("smoke")


def test_a_package_that_a_module_needs_is_missed_by_its_own_name(tmp_path, monkeypatch):
    (tmp_path / "needs_more.py").write_text("import not_installed_here\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="not_installed_here"):
        load(tmp_path, written(run="needs_more")).runs("smoke")


@pytest.mark.parametrize("family", ["gru", 1, {"a": 1}])
def test_a_family_where_none_is_defined_is_refused(tmp_path, family):
    text = written(families={}, profiles={"smoke": {"seeds": 1, "grid": [{"family": family}]}})
    with pytest.raises(
        ValueError, match=rf"sweep\.yml: family: no families are defined, got {re.escape(repr(family))}"
    ):
        load(tmp_path, text).runs("smoke")


def test_a_profile_where_none_is_defined_is_refused(tmp_path):
    with pytest.raises(ValueError, match="profile of tiny: no profiles are defined, got 'smoke'"):
        load(tmp_path, written(profiles={})).runs("smoke")


def test_seeds_may_stand_in_every_entry_alone(tmp_path):
    grid = [{"family": "rnn", "width": 1, "seeds": 1}, {"family": "rnn", "width": 2, "seeds": [2, 3]}]
    found = load(tmp_path, profile(seeds=None, grid=grid)).runs("smoke")
    assert [(run.parameters["width"], run.seed) for run in found] == [(1, 0), (2, 0), (2, 1), (2, 2)]


def test_what_may_be_left_empty_may(tmp_path):
    text = written(defaults=None, families=None, fingerprint=None).replace("seeds: 2", "seeds: 2\n    set:")
    text = text.replace("family: rnn", "architecture: rnn")
    assert len(load(tmp_path, text).runs("smoke")) == 2


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_a_parameter_that_is_not_finite_is_named(tmp_path, value):
    text = profile(set={"fit": {"clip": value}}) if value == float("inf") else profile(set={"exponent": value})
    with pytest.raises(ValueError, match=r"^tiny: (fit\.clip|exponent): a finite number is allowed, got (inf|nan)$"):
        load(tmp_path, text).runs("smoke")


def test_names_are_compared_as_the_reader_of_yaml_compares_them():
    merged = "a: &a {x: 1, y: 1}\nb: &b {<<: *a, x: 2}\nc: {<<: *b, x: 3}\nd: {<<: *b}"
    assert plain_yaml.load(merged)["c"] == {"x": 3, "y": 1} and plain_yaml.load(merged)["d"] == {"x": 2, "y": 1}
    assert plain_yaml.load("{1: a, '1': b, 'true': c}") == {1: "a", "1": "b", "true": "c"}
    for text in ("{1: a, +1: b}", "{1: a, 1.0: b}", "{true: a, 1: b}", "{a: {b: 1, 'b': 2}}", "[{~: 1, null: 2}]"):
        with pytest.raises(ValueError, match="stands twice: line 1, column"):
            plain_yaml.load(text)


@pytest.mark.parametrize("text", ["[" * 30_000, "[" * 101 + "]" * 101, "- " * 30_000, "{a: " * 101 + "}" * 101])
def test_what_is_nested_too_deeply_is_an_error_and_not_the_end_of_the_process(text):
    with pytest.raises(ValueError, match="more than 100 lists or mappings in each other: line 1, column"):
        plain_yaml.load(text)
    assert plain_yaml.load("[" * 100 + "]" * 100)


@pytest.mark.parametrize(
    "text",
    [
        "!!bool maybe",
        "!!timestamp now",
        "!!int ''",
        "!!float 1" + ":1" * 400,
        "2020-13-45",
        "[",
        "!!python/object:a {}",
    ],
)
def test_every_fault_of_yaml_is_a_value_error(text):
    with pytest.raises(ValueError, match=r"\w"):
        plain_yaml.load(text)
