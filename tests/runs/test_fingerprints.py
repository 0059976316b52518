"""Fingerprints: the code gives the kept numbers, every choice of a profile is among them, and no rule can be dodged."""

from __future__ import annotations

import copy
import json
import os
import random
import subprocess
import sys
import types

import pytest
import yaml
from click.testing import CliRunner
from pydantic import BaseModel, ConfigDict

from lib import ROOT
from lib.batch import cli
from lib.runs import choices, fingerprints
from lib.runs.definition import Experiment, experiment_files, merged
from lib.runs.fingerprints import check, points, write
from lib.runs.summaries import compare, numbers_of, summary
from tests.runs.covered_choices import uncovered

NAMES = sorted(experiment_files())
NEEDED = [
    (name, *sorted(needs)) for name in NAMES for needs in sorted({p.needs for p in points(Experiment(name)) if p.needs})
]


@pytest.mark.parametrize("name", NAMES)
def test_the_code_gives_the_kept_numbers(name):
    done = check(Experiment(name), lambda point: not point.needs)
    assert done.found and not done.faults, "\n".join(done.faults)


@pytest.mark.parametrize(("name", "needed"), NEEDED)
def test_the_code_gives_the_kept_numbers_where_the_data_are_here(name, needed):
    absent = [point for point in points(Experiment(name)) if needed in point.needs and point.missing]
    if absent:
        pytest.skip(f"{len(absent)} points are left out: {absent[0].why}")
    done = check(Experiment(name), lambda point: needed in point.needs)
    assert done.found and not done.faults, "\n".join(done.faults)


@pytest.mark.parametrize("name", NAMES)
def test_every_choice_of_a_profile_is_in_the_fingerprint(name):
    missing = [
        f"profile {profile} has {option} = {kind}, and no point of `fingerprint` in {Experiment(name).where} has: "
        f"add one to its grid, then `python -m lib fingerprint {name} --write`"
        for (option, kind), profile in uncovered(Experiment(name)).items()
    ]
    assert not missing, "\n".join(missing)


@pytest.mark.parametrize("name", NAMES)
def test_a_version_is_written_in_every_file(name):
    content = yaml.safe_load(Experiment(name).file.read_text(encoding="utf-8"))
    assert content["version"] == Experiment(name).version >= 1


def test_no_default_has_changed_and_every_field_is_entered():
    experiments = [Experiment(name) for name in NAMES]
    faults, new = choices.default_faults(experiments, choices.kept_defaults())
    assert not faults, "\n".join(faults)
    assert not new, f"{', '.join(new)}: new; `python -m lib fingerprint --write` enters a new field"


def test_the_arithmetic_of_another_processor_gives_the_same():
    """torch without vector instructions, in a process of its own: it chooses them once."""
    plain = {**os.environ, "ATEN_CPU_CAPABILITY": "default", "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "lib", "fingerprint", "ngram-sgd", "--point", "initial=orthogonal"]
    done = subprocess.run(command, env=plain, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "1 points, no differences" in done.stdout, done.stdout + done.stderr


# --- choices ---


def altered(name, tmp_path, change):
    """An experiment of the book with a change in its file."""
    content = yaml.safe_load(Experiment(name).file.read_text(encoding="utf-8"))
    change(content)
    (tmp_path / "other").mkdir(exist_ok=True)
    (tmp_path / "other" / "sweep.yml").write_text(yaml.safe_dump(content), encoding="utf-8")
    return Experiment(name, tmp_path)


@pytest.mark.parametrize(
    ("name", "entry", "choice"),
    [
        ("binary_sequences", {"family": "rnn", "width": 4, "fit": {"optimizer": "sgd"}}, ("fit.optimizer", "sgd")),
        (
            "binary_sequences",
            {"family": "rnn", "width": 4, "options": {"embedding": 3}},
            ("rnn: embedding", "a number"),
        ),
        ("binary_sequences", {"architecture": "sparse", "width": 4}, ("architecture", "sparse")),
        ("binary_sequences", {"family": "mamba", "width": 4, "fit": {"patience": None}}, ("fit.patience", "null")),
        ("l2m-fig4", {"size": "mamba2-2x32", "model": {"positions": "learned"}}, ("mamba2: positions", "learned")),
        ("l2m-fig4", {"size": "gpt2-2x32", "coupling": "critical"}, ("coupling", "critical")),
        ("ngram-sgd", {"family": "rnn", "options": {"window": 3}}, ("relu_rnn: window", "a number")),
        ("text-information", {"family": "mamba", "starts": "any"}, ("starts", "any")),
    ],
)
def test_a_choice_that_only_a_profile_makes_is_seen(tmp_path, name, entry, choice):
    more = altered(name, tmp_path, lambda content: content["profiles"]["laptop"]["grid"].append(entry))
    assert uncovered(more)[choice] == "laptop"


def test_another_number_is_no_other_choice_but_zero_is(tmp_path):
    def add(value):
        entry = {"family": "transformer", "width": 123, "fit": {"warm_up": 7, "weight_decay": value}}
        return lambda content: content["profiles"]["paper"]["grid"].append(entry)

    assert set(uncovered(altered("binary_sequences", tmp_path, add(0.0)))) == {("fit.warm_up", "a number")}
    assert ("fit.weight_decay", "a number") in uncovered(altered("binary_sequences", tmp_path, add(0.1)))


def test_an_option_that_the_fingerprint_loses_is_seen(tmp_path):
    def drop(content):
        grid = content["fingerprint"]["grid"]
        content["fingerprint"]["grid"] = [entry for entry in grid if "clip_by" not in str(entry)]

    assert uncovered(altered("binary_sequences", tmp_path, drop)) == {("fit.clip_by", "value"): "laptop"}


# --- defaults ---


@pytest.mark.parametrize(
    ("owner", "change", "message"),
    [
        ("binary_sequences", lambda kept: kept["defaults"].update(length=511), "length was 511 and is 512"),
        ("FitSettings", lambda kept: kept["defaults"].update(clip=None), "clip was null and is 0.25"),
        ("ngram-sgd", lambda kept: kept["defaults"].update(stride=2), "stride (2) is gone"),
        ("binary_sequences", lambda kept: kept["defaults"].update(width=8), "width was 8 and is required"),
        ("l2m-fig5", lambda kept: kept["required"].append("depth"), "is 1"),
        ("l2m-fig5", lambda kept: kept["required"].remove("width"), "width is new and has no default"),
    ],
)
def test_a_changed_or_removed_default_is_refused(tmp_path, owner, change, message):
    kept = choices.kept_defaults()
    change(kept[owner])
    if "is 1" in message:
        kept[owner]["defaults"].pop("depth")
    experiments = [Experiment(name) for name in NAMES]
    faults, _ = choices.default_faults(experiments, kept)
    assert len(faults) == 1 and faults[0].startswith(f"{owner}: ") and message in faults[0]
    fingerprints.write_json(tmp_path / "defaults.json", kept)
    with pytest.raises(ValueError, match=owner):
        choices.write_defaults(experiments, tmp_path)


def test_a_new_field_with_a_default_is_allowed_once_it_is_entered(tmp_path):
    kept, experiments = choices.kept_defaults(), [Experiment(name) for name in NAMES]
    del kept["text-information"]["defaults"]["model.row"]
    assert choices.default_faults(experiments, kept) == ([], ["text-information: model.row"])
    fingerprints.write_json(tmp_path / "defaults.json", kept)
    choices.write_defaults(experiments, tmp_path)
    assert choices.kept_defaults(tmp_path) == choices.kept_defaults()


# --- numbers ---


def test_a_summary_tells_permutations_and_swapped_axes_apart():
    draw = random.Random(1)
    table = [[draw.gauss(0.7, 0.1) for _ in range(5)] for _ in range(6)]
    flat = [value for row in table for value in row]
    others = [
        [list(column) for column in zip(*table, strict=True)],
        table[::-1],
        [table[0][::-1], *table[1:]],
        [flat[k : k + 5] for k in range(0, 30, 5)][:1] + table[2:] + table[1:2],
    ]
    kept = {"point": {"parameters": {}, "numbers": {"x": summary(table)}}}
    for other in others:
        assert compare(kept, {"point": {"parameters": {}, "numbers": {"x": summary(other)}}})
    reshaped = [flat[k : k + 6] for k in range(0, 30, 6)]
    assert summary(reshaped)["waves"] == summary(table)["waves"] and summary(reshaped)["shape"] == [5, 6]
    assert summary(table)["shape"] == [6, 5] and not compare(kept, copy.deepcopy(kept))


def test_a_summary_counts_what_is_not_finite_and_keeps_short_arrays():
    assert summary([1.0, None, float("inf")]) == [1.0, None, "inf"]
    long = summary([1.0, None, 2.0, float("nan"), 3.0])
    assert long["not finite"] == 2 and long["sum"] == 6.0
    assert summary([[1.0], [1.0, 2.0], [3.0, 4.0]])["shape"] == [3, "ragged"]
    json.dumps(long, allow_nan=False)


def test_eigenvalues_are_a_set():
    pairs = [[0.5, 0.1 * k] for k in range(6)]
    assert numbers_of({"eigenvalues": pairs}) == numbers_of({"eigenvalues": pairs[::-1]})
    assert numbers_of({"values": pairs}) != numbers_of({"values": pairs[::-1]})


def test_a_result_is_flat_and_without_clocks():
    result = {"a": {"b": 1 / 3, "training_seconds": 2.0}, "c": [{"d": "word"}], "tokens_per_second": 3.0, "e": None}
    assert numbers_of(result) == {"a.b": 0.3333333, "c[0].d": "word", "e": None}


def one(value, **parameters):
    return {"p": {"parameters": parameters, "numbers": numbers_of({"x": value})}}


@pytest.mark.parametrize(
    ("kept", "found", "same"),
    [
        (1.0, 1.0 + 1e-4, True),
        (1.0, 1.001, False),
        (1e-9, 2e-9, True),
        (0.01, 0.0102, False),
        (100, 101, False),
        (100, 100, True),
        (True, 1, False),
        ("done", "done", True),
        ("done", "ended", False),
        (None, 0.0, False),
        ([1.0, 2.0], [1.0, 2.0, 3.0], False),
        ([1.0] * 8, [1.0] * 7 + [1.0001], True),
        ([1.0] * 8, [1.0] * 7 + [1.1], False),
        ([1.0] * 8, [1.0] * 9, False),
        ([1.0] * 8, [1.0] * 7 + [None], False),
        (float("nan"), float("nan"), True),
    ],
)
def test_numbers_agree_within_a_tolerance_and_all_else_exactly(kept, found, same):
    lines = compare(one(kept), one(found))
    assert bool(lines) != same
    assert same or all(line.startswith("p: x") and "kept" in line and "found" in line for line in lines)


def test_a_number_that_is_gone_or_new_is_a_difference():
    both = {"p": {"parameters": {}, "numbers": {"x": 1.0, "y": 2.0}}}
    assert compare(both, one(1.0)) == ["p: y: kept 2.0, found nothing"]
    assert compare(one(1.0), both) == ["p: y: kept nothing, found 2.0"]


def test_rounded_products_have_a_tolerance_of_their_own():
    assert compare(one(1.0), one(1.02))
    assert not compare(one(1.0, precision="bfloat16"), one(1.02, precision="bfloat16"))
    assert compare(one(1.0, precision="bfloat16"), one(1.2, precision="bfloat16"))


# --- keeping ---


class Parameters(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    a: int
    b: int = 1


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """An experiment whose runs are arithmetic: write(grid, version) -> Experiment; `.bug` is added to every result."""
    module = types.ModuleType("tiny_module")
    module.bug, module.Parameters = 0.0, Parameters
    module.check = lambda parameters: Parameters(**parameters).model_dump()
    module.run = lambda parameters, seed, folder, device: {"x": parameters["a"] * parameters["b"] + 0.5 + module.bug}
    monkeypatch.setitem(sys.modules, "tiny_module", module)

    def make(grid, version=1, **more):
        content = {"name": "tiny", "title": "t", "source": "s", "run": "tiny_module"}
        content |= {"version": version, "profiles": {}}
        content = merged(content, {"fingerprint": {"grid": grid}}, more)
        (tmp_path / "tiny").mkdir(exist_ok=True)
        (tmp_path / "tiny" / "sweep.yml").write_text(yaml.safe_dump(content), encoding="utf-8")
        return Experiment("tiny", tmp_path)

    make.module, make.folder = module, tmp_path / "kept"
    return make


def test_what_is_kept_is_found_again_and_a_change_is_named(tiny):
    experiment = tiny([{"a": [1, 2]}])
    write(check(experiment, folder=tiny.folder), tiny.folder)
    assert check(experiment, folder=tiny.folder).faults == []
    tiny.module.bug = 0.25
    faults = check(experiment, folder=tiny.folder).faults
    assert faults == [
        "tiny: a=1: x: kept 1.5, found 1.75",
        "tiny: a=2: x: kept 2.5, found 2.75",
        f"tiny: results changed; undo it, or raise `version` in {experiment.where} and train again",
    ]


def test_a_change_is_kept_only_under_a_higher_version(tiny):
    write(check(tiny([{"a": [1, 2]}]), folder=tiny.folder), tiny.folder)
    tiny.module.bug = 0.25
    with pytest.raises(ValueError, match="results changed; undo it, or raise `version`"):
        write(check(tiny([{"a": [1, 2, 3]}]), folder=tiny.folder), tiny.folder)
    higher = tiny([{"a": [1, 2]}], version=2)
    assert "of version 1, not of 2" in check(higher, folder=tiny.folder).faults[0]
    write(check(higher, folder=tiny.folder), tiny.folder)
    assert check(higher, folder=tiny.folder).faults == []
    lower = tiny([{"a": [1, 2]}])
    assert check(lower, folder=tiny.folder).faults
    with pytest.raises(ValueError, match="has version 1"):
        write(check(lower, folder=tiny.folder), tiny.folder)


def test_new_points_are_added_without_a_new_version_and_old_numbers_stay(tiny):
    write(check(tiny([{"a": 1}]), folder=tiny.folder), tiny.folder)
    more = tiny([{"a": [1, 2]}])
    faults = check(more, folder=tiny.folder).faults
    assert faults == ["tiny: a=2: in the grid and not kept: `python -m lib fingerprint tiny --write` adds it"]
    tiny.module.bug = 1e-6  # within the tolerance: what is kept must not wander
    write(check(more, folder=tiny.folder), tiny.folder)
    kept = json.loads((tiny.folder / "tiny.json").read_text(encoding="utf-8"))["points"]
    assert kept["a=1"]["numbers"] == {"x": 1.5} and kept["a=2"]["numbers"] == {"x": 2.500001}


def test_a_point_leaves_only_if_its_numbers_still_hold(tiny):
    write(check(tiny([{"a": [1, 2]}]), folder=tiny.folder), tiny.folder)
    fewer = tiny([{"a": 2}])
    assert "a=1: kept and not in the grid" in check(fewer, folder=tiny.folder).faults[0]
    tiny.module.bug = 0.25
    with pytest.raises(ValueError, match=r"a=1: x: kept 1\.5, found 1\.75"):
        write(check(fewer, folder=tiny.folder), tiny.folder)
    tiny.module.bug = 0.0
    write(check(fewer, folder=tiny.folder), tiny.folder)
    assert check(fewer, folder=tiny.folder).faults == []


def test_a_point_with_other_parameters_of_the_same_name_is_another_point(tiny):
    write(check(tiny([{"a": 1}]), folder=tiny.folder), tiny.folder)
    other = tiny([{"a": 1}], fingerprint={"set": {"b": 3}})
    done = check(other, folder=tiny.folder)
    assert done.new == done.left == ["a=1"] and not done.changed
    tiny.module.bug = 0.25
    assert check(other, folder=tiny.folder).changed == ["a=1: x: kept 1.5, found 1.75"]


def test_a_point_whose_data_are_missing_is_left_out_and_its_numbers_stay(tiny, monkeypatch):
    grid = [{"a": 1}, {"a": 2, "needs": "smollm2"}]
    monkeypatch.setattr(fingerprints, "_is_here", lambda name: True)
    write(check(tiny(grid), folder=tiny.folder), tiny.folder)
    monkeypatch.setattr(fingerprints, "_is_here", lambda name: False)
    tiny.module.bug = 0.25
    done = check(tiny(grid), folder=tiny.folder)
    assert list(done.found) == ["a=1"] and [point.name for point in done.absent] == ["a=2"]
    assert "data fetch smollm2" in done.absent[0].why and "gguf" in done.absent[0].why
    assert [line for line in done.changed if "a=2" in line] == []
    tiny.module.bug = 0.0
    write(check(tiny([*grid, {"a": 3}]), folder=tiny.folder), tiny.folder)
    kept = json.loads((tiny.folder / "tiny.json").read_text(encoding="utf-8"))["points"]
    assert sorted(kept) == ["a=1", "a=2", "a=3"]


def test_a_grid_with_two_points_of_one_name_or_a_bad_version_is_refused(tiny):
    with pytest.raises(ValueError, match="two points are 'a=1'"):
        points(tiny([{"a": 1}, {"a": 1}]))
    for version in (0, 1.5, "1", True):
        with pytest.raises(ValueError, match="version: a whole number from 1 is allowed"):
            tiny([], version=version)
    with pytest.raises(ValueError, match=r"fingerprint of tiny.*'seeds'"):
        tiny([], fingerprint={"seeds": 2})


def test_byte_pairs_are_learned_anew_and_downloads_stay_in_reach(tmp_path, monkeypatch):
    (tmp_path / "bpe").mkdir()
    (tmp_path / "books").mkdir()
    (tmp_path / "books" / "one.txt").write_text("text", encoding="utf-8")
    monkeypatch.setenv("BOOK_CACHE", str(tmp_path))
    with fingerprints._nothing_learned_before():
        now = fingerprints.cache_folder()
        assert now != tmp_path and not (now / "bpe").exists()
        assert (now / "books" / "one.txt").read_text(encoding="utf-8") == "text"
    assert os.environ["BOOK_CACHE"] == str(tmp_path) and not now.exists() and (tmp_path / "books" / "one.txt").exists()


def test_one_thread_computes_and_the_others_come_back(tiny):
    import torch

    seen, before = [], torch.get_num_threads()
    tiny.module.run = lambda *arguments, device: seen.append(torch.get_num_threads()) or {"x": 1.0}
    try:
        torch.set_num_threads(2)
        check(tiny([{"a": 1}]), folder=tiny.folder)
        assert seen == [1] and torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_the_command_says_what_changed_and_fails(monkeypatch):
    real = fingerprints.kept_fingerprint

    def other(name, folder=fingerprints.FOLDER):
        version, kept = real(name, folder)
        kept["order=4"]["numbers"]["counted_tokens"] += 1
        return version, kept

    monkeypatch.setattr(fingerprints, "kept_fingerprint", other)
    done = CliRunner().invoke(cli.main, ["fingerprint", "book-counts", "--point", "order=4"])
    assert done.exit_code == 1
    assert "book-counts: order=4: counted_tokens: kept" in done.output
    assert "results changed; undo it, or raise `version` in experiments/books/counts.yml and train again" in done.output
    refused = CliRunner().invoke(cli.main, ["fingerprint", "book-counts", "--point", "order=4", "--write"])
    assert refused.exit_code == 1 and "--write and --point" in refused.output
