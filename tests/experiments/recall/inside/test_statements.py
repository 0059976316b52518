"""Rules on the inside of networks that recall, on records that are made up: each says yes, no, and nothing."""

import random
from typing import Any

import numpy as np
import pytest

from experiments.recall.inside import statements, tables
from experiments.recall.inside.measures import limits_at_cue
from experiments.recall.run import WATCHED, Parameters, task_of
from tests.experiments.recall.fake_records import attention, cell, runs


def looked_back(relevant=0.3, other=0.5, cosine=0.97, random=0.5, **said: Any):
    """Full attention that learnt, on both tasks."""
    numbers = {"relevant": relevant, "other": other, "without_random": [0.8, random], "without_small": [0.01, 0.99]}
    numbers["without_other"] = None if cosine is None else [0.2, cosine]
    inside = {"after": {"relevance": numbers}, "before": {"relevance": {"relevant": 1.0, "other": 0.0}}}
    asked = {"success": 4000, "inside": inside} | said
    return runs(*(cell("mem_rnn", 30, task=task, **asked) for task in ("copy", "denoise")))


def test_most_states_are_of_a_kind_and_carry_the_gradient():
    kinds, carried = "states of either kind", "gradient through relevant states"
    without = "states that are not relevant"
    assert statements.judge_relevance(looked_back()) == {kinds: "agrees", without: "agrees", carried: "agrees"}
    # negative controls
    assert statements.judge_relevance(looked_back(relevant=0.2, other=0.2))[kinds] == "differs"
    assert statements.judge_relevance(looked_back(cosine=0.4))[carried] == "differs"
    untrained = statements.judge_relevance(looked_back(relevant=1.0, other=0.0, cosine=None))
    assert untrained == {kinds: "agrees", without: "differs", carried: "undecided"}
    assert statements.judge_relevance(looked_back(), without="random")[carried] == "differs"
    # nothing is left out, trainings that still move, and screened sets say nothing
    assert statements.judge_relevance(looked_back(cosine=None))[carried] == "undecided"
    moving = looked_back(success=None, falling=0.1)
    assert set(statements.judge_relevance(moving).values()) == {"undecided"}
    assert set(statements.judge_relevance([]).values()) == {"undecided"}


def test_what_is_said_of_states_holds_of_trainings_that_went_on_after_success_too():
    def said(success=None, accuracy=0.995, **found: Any):
        longer = looked_back(success=success, accuracy=accuracy, trained_on=True, **found)
        return set(statements.judge_relevance([*looked_back(), *longer]).values())

    assert said() == said(falling=0.1) == said(accuracy=0.5) == {"agrees"}  # learnt, or stopped improving
    assert said(accuracy=0.98, falling=0.1) == {"undecided"}  # neither
    # negative controls: the stopped ones alone would agree
    assert "differs" in said(relevant=0.8, other=0.2) and "differs" in said(cosine=0.4)
    few = looked_back(trained_on=True, accuracy=0.995)
    assert set(statements.judge_relevance([*looked_back(), *few[:1]]).values()) == {"undecided"}  # one seed


def test_tables_tell_trainings_that_went_on_apart():
    table = tables.table_of_paths([*looked_back(other=0.5), *looked_back(success=None, trained_on=True, other=0.61)])
    for told in ("copy | 50 |", "copy, trained on | 61 |", "denoise, trained on | 61 |"):
        assert f"| {told}" in table
    answer = tables.answer([*looked_back(success=None, trained_on=True, cosine=0.941), *looked_back()], [])
    first, *_, last = [line for line in answer.splitlines() if "cosine" in line]
    assert first.startswith("- **Copy.**") and last.startswith("- **Denoise, trained on.**") and "0.941" in last


def sizes(task, enough, *, free="relevant", tried=(1, 3, 5), **said: Any):
    found = [cell("rel_rnn", task=task, success=5000, **said)]
    for size in tried:
        options = {"options": {free: size}}
        ending = {"success": 5000} if size >= enough else {"updates": 9000, "accuracy": 0.4}
        found.append(cell("rel_rnn", task=task, **options, **ending, **said))
    return runs(*found)


def test_tasks_need_sets_of_different_sizes():
    assert statements.judge_needed_set(sizes("copy", 3), sizes("denoise", 5)) == "agrees"
    assert statements.judge_needed_set(sizes("copy", 3), sizes("denoise", 3)) == "differs"  # negative control
    assert statements.judge_needed_set(sizes("copy", 3), []) == "undecided"
    assert statements.judge_needed_set(sizes("copy", 3), sizes("denoise", 5, tried=())) == "undecided"


def chosen(by_size, held_before=0.1):
    """By size of the buffer the share of symbols that the set holds, or 0 or 1 for chance and a perfect choice."""
    records = []
    for size, held in by_size.items():
        options = {} if size == 10 else {"options": {"buffer": size}}
        limits = [limits_at_cue(run) for run in runs(cell("rel_rnn", task="denoise", **options))]
        shares = [limits[seed][held] if held in (0, 1) else held + 0.01 * seed for seed in range(3)]
        inside = [attention(0.05, 0.6, share, held_before) for share in shares]
        records.append(cell("rel_rnn", task="denoise", success=5000, inside=inside, **options))
    return runs(*records)


def test_small_buffers_choose_worse():
    assert statements.judge_small_buffer(chosen({10: 0.9, 3: 0.7, 1: 0.3})) == "agrees"
    assert statements.judge_small_buffer(chosen({10: 0.5, 3: 0.7, 1: 0.6})) == "differs"
    assert statements.judge_small_buffer(chosen({10: 0.9})) == "undecided"
    # negative controls: whoever chooses perfectly or by chance does so with any buffer; a share of 0.9 is not as good
    for held in (0, 1):
        assert statements.judge_small_buffer(chosen({10: held, 3: held, 1: held})) == "differs"
    assert statements.judge_small_buffer(chosen({10: 0.9, 3: 0.9, 1: 0.9})) == "agrees"


def test_what_a_set_can_hold_is_what_has_left_the_buffer():
    for size in (1, 3, 10):
        (run,) = runs(cell("rel_rnn", task="denoise", options={"buffer": size}, seeds=1))
        task = task_of(Parameters(**run.parameters))
        inputs, _ = task.sample(run.parameters["watched"], np.random.default_rng([0, 0, WATCHED]))
        old = [[time for time in row if time <= task.cue_time - size] for row in task.symbol_times(inputs).tolist()]
        chance, largest = limits_at_cue(run)
        assert largest == pytest.approx(np.mean([min(len(row), 10) / 10 for row in old]))
        assert (largest == 1) == (size == 1)
        everything = range(task.cue_time - size + 1)
        drawn = [len({*random.sample(everything, 10)} & {*row}) / 10 for row in old for _ in range(200)]
        assert chance == pytest.approx(np.mean(drawn), abs=0.01)
    (whole,) = runs(cell("mem_rnn", task="denoise", seeds=1))
    with pytest.raises(ValueError, match="a relevant set is allowed, got 'mem_rnn'"):
        limits_at_cue(whole)


def test_larger_sets_cost_more():
    assert statements.judge_cost_of_set({11: 100.0, 15: 130.0, 20: 170.0}) == "agrees"
    assert statements.judge_cost_of_set({11: 100.0, 15: 100.0, 20: 170.0}) == "differs"
