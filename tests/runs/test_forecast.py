"""How long runs will take: recovered where times follow their rule, and never more than a budget allows."""

import itertools
import math
import re

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from lib.batch import cli
from lib.runs.definition import Experiment, Run
from lib.runs.forecast import (
    Clock,
    cheapest_settings_first,
    dotted,
    duration,
    forecast,
    in_words,
    longest_first,
    makespan,
    records_of,
    seconds_of,
    strange,
    within,
)
from lib.runs.store import Store

SECONDS_PER_EPOCH = 0.25


def run(architecture="rnn", width=4, epochs=10, seed=0):
    parameters = {"architecture": architecture, "width": width, "fit": {"epochs": epochs, "patience": None}}
    return Run("tiny", "experiments.binary_sequences.run", parameters, seed)


class NamedRun(Run):
    """Its identity is what it asks, without an experiment that knows these parameters."""

    @property
    def identity(self):
        return repr((self.parameters, self.seed))


def named(*arguments, **keywords):
    asked = run(*arguments, **keywords)
    return NamedRun(asked.experiment, asked.module, asked.parameters, asked.seed)


def seconds(asked):
    each = asked.parameters
    return SECONDS_PER_EPOCH * each["fit"]["epochs"] * each["width"] ** 2 * (3 if each["architecture"] == "lstm" else 1)


def record(asked, slower=1.0):
    return {"parameters": asked.parameters, "provenance": {"seconds": slower * seconds(asked)}}


GRID = [named(architecture, width, epochs, seed) for architecture in ("rnn", "lstm") for width in (2, 4, 8, 16)
        for epochs in (10, 20, 40) for seed in range(3)]  # fmt: skip


def test_times_that_are_products_of_powers_are_found_again():
    new = [named("rnn", 32, 80), named("lstm", 8, 5), named("lstm", 3, 30)]
    found = forecast(new, [record(asked) for asked in GRID])
    assert [found[asked.identity] for asked in new] == pytest.approx([seconds(asked) for asked in new], rel=0.05)
    twice = forecast(new, [record(asked, slower=2.0) for asked in GRID])
    assert [twice[asked.identity] / found[asked.identity] for asked in new] == pytest.approx([2.0] * 3)


def test_noise_of_single_runs_is_averaged_as_times_are():
    """Half of the runs take thrice as long: the mean is 2, that of the logarithms 1.73."""
    records = [record(asked, slower=3.0 if number % 2 else 1.0) for number, asked in enumerate(GRID)]
    total = sum(forecast(GRID, records).values())
    assert total == pytest.approx(sum(entry["provenance"]["seconds"] for entry in records), rel=0.05)


def test_without_records_nothing_is_known_and_no_budget_can_be_kept():
    found = forecast(GRID, [])
    assert all(map(math.isnan, found.values())) and len(found) == len(GRID)
    assert longest_first(GRID, found) == GRID == cheapest_settings_first(GRID, found)
    with pytest.raises(ValueError, match="no such run of this experiment, on such a device, is recorded"):
        within(GRID, found, 100.0)
    assert forecast([], [record(GRID[0])]) == {}


@given(st.floats(60, 1e5), st.integers(1, 4))
def test_a_budget_is_kept_and_cheap_settings_are_completed_first(budget, workers):
    costs = {asked.identity: seconds(asked) for asked in GRID}
    taken = within(GRID, costs, budget, workers)
    assert 0 < sum(costs[asked.identity] for asked in taken) <= budget * workers
    whole = {str(asked.parameters) for asked in taken if all(
        other in taken for other in GRID if other.parameters == asked.parameters)}  # fmt: skip
    begun = {str(asked.parameters) for asked in taken}
    assert begun == whole or (not whole and len(begun) <= 2)  # some seeds only where there is room for no whole setting
    assert all(costs[asked.identity] <= budget for asked in taken)
    cheapest = min(sum(costs[other.identity] for other in GRID if other.parameters == asked.parameters)
                   for asked in GRID)  # fmt: skip
    assert whole or cheapest > budget  # one worker alone would have had the time
    left = [sum(costs[other.identity] for other in GRID if other.parameters == asked.parameters)
            for asked in GRID if str(asked.parameters) not in begun]  # fmt: skip
    used = sum(costs[asked.identity] for asked in taken)
    assert not whole or not left or min(left) > budget - used / workers


def test_a_budget_too_small_for_any_run_says_what_is_needed():
    costs = {asked.identity: seconds(asked) for asked in GRID}
    with pytest.raises(ValueError, match="about 10 s is needed for the shortest run, got 4 s"):
        within(GRID, costs, 4.0)
    assert within([], {}, 4.0) == []


def test_a_run_that_is_longer_than_the_budget_is_not_shared_by_workers():
    long, short = named(width=16), named(width=2)
    costs = {long.identity: 7 * 3600.0, short.identity: 1800.0}
    with pytest.raises(ValueError, match="about 7 h 00 min is needed for the shortest run, got 2 h 00 min"):
        within([long], costs, duration("2h"), workers=4)
    assert within([long, short], costs, duration("2h"), workers=4) == [short]


def test_every_run_that_is_taken_ends_at_its_worker_in_time():
    """Three of 40 min on two workers in an hour: time is left for a third, but at no worker."""
    runs = [named(seed=seed) for seed in range(3)]
    costs = {asked.identity: 2400.0 for asked in runs}
    assert within(runs, costs, 3600.0, workers=2) == runs[:2]
    assert within(runs, costs, 4800.0, workers=2) == runs


def test_the_longest_begin_first():
    costs = {asked.identity: seconds(asked) for asked in GRID}
    ordered = [costs[asked.identity] for asked in longest_first(GRID, costs)]
    assert ordered == sorted(ordered, reverse=True) and len(ordered) == len(GRID)


def test_one_worker_completes_the_cheapest_settings_first():
    costs = {asked.identity: seconds(asked) for asked in GRID}
    ordered = cheapest_settings_first(GRID[::-1], costs)
    assert sorted(map(str, ordered)) == sorted(map(str, GRID))
    settings = [str(asked.parameters) for asked in ordered]
    groups = [setting for setting, _ in itertools.groupby(settings)]
    assert len(groups) == len(set(groups)), "the seeds of a setting are together"
    totals = [sum(seconds(asked) for asked in ordered if str(asked.parameters) == setting) for setting in groups]
    assert totals == sorted(totals) and totals[0] < totals[-1]


def test_what_is_left_follows_the_pace_of_those_that_have_ended():
    clock = Clock({"a": 10.0, "b": 20.0, "c": 30.0}, workers=2)
    assert clock.left() == 30.0
    clock.enter("a", 20.0)  # twice the forecast
    assert clock.left() == 60.0  # workers do not share the run of 30
    clock.enter("b", None)  # failed: as was forecast
    assert clock.left() == pytest.approx(30.0 * 40 / 30)
    clock.enter("c", 1.0)
    assert clock.left() == 0.0
    assert math.isnan(Clock({"a": math.nan}).left())


@given(st.lists(st.integers(1, 60), min_size=1, max_size=6), st.integers(1, 3))
def test_the_last_run_ends_no_sooner_than_any_order_allows_and_within_four_thirds_of_the_best(costs, workers):
    best = min(
        max(
            sum(cost for cost, place in zip(costs, places, strict=True) if place == worker) for worker in range(workers)
        )
        for places in itertools.product(range(workers), repeat=len(costs))
    )
    found = makespan(map(float, costs), workers)
    assert best <= found <= best * (4 / 3 - 1 / (3 * workers)) + 1e-9  # Graham 1969, longest first
    assert makespan(map(float, costs), len(costs) + 1) == max(costs)
    assert math.isnan(makespan([1.0, math.nan], workers)) and makespan([], workers) == 0


def test_a_run_that_was_interrupted_took_what_it_had_trained_before_too():
    last_start = {"provenance": {"seconds": 30.0}}
    assert seconds_of(last_start) == seconds_of({**last_start, "result": {"training_seconds": None}}) == 30.0
    assert seconds_of({**last_start, "result": {"training_seconds": 25.0}}) == 30.0  # the rest was measuring
    assert seconds_of({**last_start, "result": {"training_seconds": 500.0}}) == 500.0
    resumed = [
        {**record(each), "provenance": {"seconds": 1.0}, "result": {"training_seconds": seconds(each)}} for each in GRID
    ]
    assert forecast(GRID, resumed) == pytest.approx(forecast(GRID, [record(each) for each in GRID]))


def test_parameters_inside_others_have_names_with_dots():
    assert dotted({"a": 1, "fit": {"b": {"c": 2}}}) == {"a": 1, "fit": {"b": {"c": 2}}, "fit.b": {"c": 2}, "fit.b.c": 2}


@pytest.mark.parametrize(
    ("text", "expected"), [("2h", 7200), ("90m", 5400), ("1h30m", 5400), ("45s", 45), ("1.5h", 5400), ("1h1m1s", 3661)]
)
def test_a_time_is_read(text, expected):
    assert duration(text) == expected


@pytest.mark.parametrize("text", ["", "2", "2H", "0", "h", "0h", "-1h", "2 hours", "30m1h", "nan"])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(ValueError, match=r"a time such as 2h, 90m or 1h30m is allowed, got"):
        duration(text)


@pytest.mark.parametrize(
    ("time", "words"),
    [
        (0.2, "1 s"),
        (40, "40 s"),
        (720, "12 min"),
        (5340, "89 min"),
        (13200, "3 h 40 min"),
        (7230, "2 h 00 min"),
        (math.nan, "an unknown time"),
    ],
)
def test_a_time_is_said_as_people_do(time, words):
    assert in_words(time) == words


def test_what_is_recorded_of_one_profile_speaks_for_another():
    experiment, store = Experiment("binary-printed"), Store()
    found = forecast(experiment.runs("paper"), records_of(experiment, store))
    assert all(cost > 0 for cost in found.values()) and len(found) == len(experiment.runs("paper"))
    runs = [run for run in experiment.runs("laptop") if store.is_done(run)]
    spent = sum(record["provenance"]["seconds"] for record in store.records(runs))
    assert spent / 1.5 < sum(forecast(runs, records_of(experiment, store)).values()) < 1.5 * spent


def test_runs_far_larger_than_what_is_recorded_or_of_another_kind_are_strange():
    records = [record(asked) for asked in GRID]
    assert not strange([*GRID, named(width=32), named(epochs=80), named(width=1)], records)
    others = [named(width=33), named(epochs=81), named("gru"), named("lstm", 33, 81)]
    assert strange([*GRID, *others], records) == {asked.identity for asked in others}
    assert strange(GRID, []) == {asked.identity for asked in GRID}
    variant = named()
    variant.parameters["fit"]["optimizer"] = "sgd"  # of the same network: about as long
    variant.parameters["fit"] |= {"learning_rate": 1e-3, "clip": 5.0, "layers": 2}
    other = named()
    other.parameters["starts"] = 1  # of which nothing is recorded
    assert strange([variant, other], records) == {other.identity}


def test_what_a_gpu_needed_is_no_forecast_for_a_cpu(monkeypatch):
    there = [{"provenance": {"seconds": 1.0}}, {"provenance": {"seconds": 0.1, "peak_gpu_memory_MB": 3.0}}]
    monkeypatch.setattr(Store, "records", lambda self, runs: there)
    experiment = Experiment("binary-printed")
    assert records_of(experiment, Store(), "cpu") == there[:1] and records_of(experiment, Store(), "cuda") == there[1:]
    assert records_of(experiment, Store()) == there


def test_a_sweep_does_not_time_what_nobody_knows():
    def told(*words):
        return CliRunner().invoke(cli.main, ["sweep", *words, "--dry-run"]).output

    larger = "they are more than twice as large as what is recorded on such a device"
    assert re.search(
        rf"^48 runs whose time is not known: {larger}", told("l2m-fig4", "--profile", "paper"), re.MULTILINE
    )
    refused = told("l2m-fig4", "--profile", "paper", "--budget", "2h")
    assert (
        f"the time of the 48 runs that are not done is not known: {larger}" in refused
        and "start without a budget" in refused
    )
    some = told("binary-printed", "--profile", "paper", "--budget", "2h")
    taken, left_out = map(
        int, re.search(rf"^(\d+) of the others .*; (\d+) are left out: {larger}", some, re.MULTILINE).groups()
    )
    assert taken > 0 and left_out > 0 and "'width': 512" not in some and "width=512" not in some
    on_gpu = told("binary-printed", "--profile", "paper", "--device", "cuda")
    assert "whose time is not known: none of this experiment is recorded on such a device" in on_gpu
    assert "of one GPU" not in on_gpu


def test_a_budget_that_is_no_time_is_refused_before_anything_starts():
    refused = CliRunner().invoke(cli.main, ["sweep", "binary-printed", "--profile", "paper", "--budget", "soon"])
    assert refused.exit_code == 1 and "a time such as 2h" in refused.output


@pytest.mark.parametrize("text", ["nan", "0", "2H"])
def test_a_budget_is_read_before_the_records(monkeypatch, text):
    monkeypatch.setattr(Store, "load", lambda self, run: pytest.fail("a record was read"))
    refused = CliRunner().invoke(cli.main, ["sweep", "binary-printed", "--budget", text, "--dry-run"])
    assert refused.exit_code == 1 and f"is allowed, got '{text}'" in refused.output


def test_a_sweep_says_how_long_it_takes_before_it_starts():
    words = ["sweep", "binary-printed", "--profile", "paper", "--shard", "1/1", "--dry-run"]
    told = CliRunner().invoke(cli.main, [*words, "--budget", "2h"]).output
    assert "of the others fit into 2h on 1 at once" in told
    assert re.search(r"about (1 h \d\d|2 h 00|\d\d) min of one core", told)
    assert told.count("not yet") == int(re.search(r"^(\d+) of the others", told, re.MULTILINE)[1])
