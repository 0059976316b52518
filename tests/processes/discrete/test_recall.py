"""Copy and denoise: what stands where, distributions of symbols and places, what one without memory can have."""

import itertools
from math import comb

import numpy as np
import pytest
from scipy import stats

from lib.processes import CopyTask, DenoiseTask

TASKS = [CopyTask(7, symbols=3, recall=4), DenoiseTask(7, symbols=3, recall=4), CopyTask(100), DenoiseTask(100)]
each_task = pytest.mark.parametrize("task", TASKS, ids=repr)


@each_task
def test_targets_are_blank_until_the_cue_and_then_the_symbols_in_their_order(task):
    inputs, targets = task.sample(50, 0)
    assert inputs.shape == targets.shape == (50, task.delay + 2 * task.recall)
    for given, wanted in zip(inputs.tolist(), targets.tolist(), strict=True):
        cue = given.index(task.vocabulary - 1)
        symbols = [token for token in given if 1 <= token <= task.symbols]
        assert given.count(task.vocabulary - 1) == 1 and cue == task.delay + task.recall - 1 == task.cue_time
        assert len(symbols) == task.recall
        assert wanted == [0] * (cue + 1) + symbols
        assert given[cue + 1 :] == [0] * task.recall
        assert set(given) <= {0, *range(1, task.symbols + 1), task.vocabulary - 1}
        assert max(wanted) < task.classes
    assert np.array_equal(np.flatnonzero(targets.any(axis=0)), task.recall_steps)


@each_task
def test_the_times_of_symbols_are_where_the_inputs_show_them(task):
    inputs, targets = task.sample(20, 1)
    times = task.symbol_times(inputs)
    assert np.all(np.diff(times) > 0)
    assert np.array_equal(np.take_along_axis(inputs, times, axis=1), targets[:, task.recall_steps])
    other = np.roll(times, 1, axis=1)  # negative control: another order gives other symbols
    assert not np.array_equal(np.take_along_axis(inputs, other, axis=1), targets[:, task.recall_steps])


def test_the_encodings_of_the_paper():
    copy, denoise = CopyTask(100), DenoiseTask(100)
    assert (copy.length, copy.vocabulary, copy.classes, copy.cue) == (120, 10, 9, 9)
    assert (denoise.length, denoise.vocabulary, denoise.classes, denoise.cue) == (120, 11, 10, 10)
    inputs, _ = copy.sample(30, 0)
    assert np.all((inputs[:, :10] >= 1) & (inputs[:, :10] <= 8))
    assert not inputs[:, 10:109].any() and np.all(inputs[:, 109] == 9)
    inputs, _ = denoise.sample(30, 0)
    assert not (inputs == 9).any() and np.all(inputs[:, 109] == 10)
    assert copy.baseline_loss == pytest.approx(10 * np.log(8) / 120)
    assert copy.baseline_accuracy == 0.125


def goodness(counts, probability):
    """p-value of these counts of categories that all have one probability."""
    assert counts.size * probability == pytest.approx(1.0)
    return stats.chisquare(counts).pvalue


@pytest.mark.parametrize("kind", [CopyTask, DenoiseTask])
def test_symbols_are_independent_and_uniform(kind):
    task = kind(3, symbols=3, recall=3)
    _, targets = task.sample(40_000, 0)
    words = (targets[:, task.recall_steps] - 1) @ np.array([9, 3, 1])
    assert goodness(np.bincount(words, minlength=27), 1 / 27) > 1e-4
    assert goodness(np.bincount(np.minimum(words, 25), minlength=27), 1 / 27) < 1e-4  # negative control


def test_places_of_denoise_are_every_set_alike_and_do_not_depend_on_the_symbols():
    task = DenoiseTask(3, symbols=2, recall=3)  # 3 of the first 5 steps
    inputs, targets = task.sample(40_000, 0)
    sets = {chosen: number for number, chosen in enumerate(itertools.combinations(range(5), 3))}
    drawn = np.array([sets[tuple(times)] for times in task.symbol_times(inputs).tolist()])
    words = (targets[:, task.recall_steps] - 1) @ np.array([4, 2, 1])
    assert len(sets) == comb(5, 3)
    assert goodness(np.bincount(8 * drawn + words, minlength=80), 1 / 80) > 1e-4
    # negative control: places drawn one after the other, each between the last and the end, favour late ones
    random = np.random.default_rng(0)
    first = random.integers(0, 3, 40_000)
    second = random.integers(first + 1, 4)
    third = random.integers(second + 1, 5)
    wrong = [sets[row] for row in zip(first.tolist(), second.tolist(), third.tolist(), strict=True)]
    assert goodness(np.bincount(wrong, minlength=10), 0.1) < 1e-4


def every_sequence(task):
    """All pairs of inputs and targets, each with its probability."""
    starts = [tuple(range(task.recall))]
    if isinstance(task, DenoiseTask):
        starts = list(itertools.combinations(range(task.cue_time), task.recall))
    for places in starts:
        for word in itertools.product(range(1, task.symbols + 1), repeat=task.recall):
            inputs, targets = np.zeros((2, task.length), dtype=int)
            inputs[list(places)], targets[-task.recall :], inputs[task.cue_time] = word, word, task.cue
            yield inputs, targets, 1 / (len(starts) * task.symbols**task.recall)


def best_predictor(task, sees):
    """Loss in nats per step and accuracy at recall of the best predictor that sees sees(inputs, time), no more."""
    law = {}
    for inputs, targets, probability in every_sequence(task):
        for time, target in enumerate(targets.tolist()):
            known = law.setdefault((time in task.recall_steps, sees(inputs, time)), {})
            known[target] = known.get(target, 0.0) + probability
    loss, right = 0.0, 0.0
    for (recalls, _), known in law.items():
        weights = np.array(list(known.values()))
        loss -= float(np.sum(weights * np.log(weights / weights.sum())))
        right += weights.max() if recalls else 0.0
    return loss / task.length, right / task.recall


@pytest.mark.parametrize("task", [CopyTask(3, symbols=3, recall=2), DenoiseTask(3, symbols=3, recall=2)], ids=repr)
def test_baselines_are_those_of_the_best_predictor_without_memory(task):
    loss, accuracy = best_predictor(task, lambda inputs, time: (time, inputs[time]))
    assert loss == pytest.approx(task.baseline_loss, rel=1e-12)
    assert accuracy == pytest.approx(task.baseline_accuracy, rel=1e-12)
    # negative controls: who remembers one step of the past does better, who remembers all makes no mistake
    loss, accuracy = best_predictor(task, lambda inputs, time: (time, inputs[time], inputs[min(time, 1)]))
    assert loss < task.baseline_loss - 0.01 and accuracy > task.baseline_accuracy + 0.01
    loss, accuracy = best_predictor(task, lambda inputs, time: (time, tuple(inputs[: time + 1])))
    assert loss == pytest.approx(0.0, abs=1e-12) and accuracy == pytest.approx(1.0)


def test_the_same_seed_gives_the_same_sequences_and_a_generator_goes_on():
    task = DenoiseTask(5)
    assert np.array_equal(task.sample(3, 4), task.sample(3, np.random.default_rng(4)))
    random = np.random.default_rng(4)
    assert not np.array_equal(task.sample(3, random), task.sample(3, random))


def test_the_smallest_tasks():
    copy, denoise = CopyTask(1, symbols=1, recall=1), DenoiseTask(1, symbols=2, recall=4)
    assert copy.sample(1, 0)[0].tolist() == [[1, 2, 0]] and copy.baseline_loss == 0.0
    inputs, _ = denoise.sample(20, 0)  # as many steps as symbols: no choice of places
    assert np.array_equal(denoise.symbol_times(inputs), np.broadcast_to(np.arange(4), (20, 4)))


@pytest.mark.parametrize("kind", [CopyTask, DenoiseTask])
@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"delay": 0}, "delay: a whole number of at least 1"),
        ({"delay": 2.5}, "delay"),
        ({"delay": 2, "symbols": 0}, "symbols"),
        ({"delay": 2, "recall": 0}, "recall"),
        ({"delay": True}, "delay"),
    ],
)
def test_other_sizes_are_refused(kind, sizes, message):
    with pytest.raises(ValueError, match=message):
        kind(**sizes)


@pytest.mark.parametrize(("kind", "most"), [(CopyTask, 2**63 - 2), (DenoiseTask, 2**63 - 3)])
def test_as_many_symbols_as_integers_can_write(kind, most):
    inputs, targets = kind(1, symbols=most, recall=3).sample(20, 0)
    assert inputs.max() == 2**63 - 1 > targets.max() > 2**61 and inputs.min() == 0
    for more in (most + 1, 2**63, 2**70):
        with pytest.raises(ValueError, match=rf"symbols: at most 2\^63 - {2**63 - most} are allowed, got {more}"):
            kind(1, symbols=more)


def test_what_is_no_input_has_no_symbol_times():
    task = CopyTask(5)
    inputs, targets = task.sample(2, 0)
    with pytest.raises(ValueError, match=r"shape \(n, 25\)"):
        task.symbol_times(inputs[:, 1:])
    with pytest.raises(ValueError, match="10 symbols in every sequence"):
        task.symbol_times(np.zeros_like(targets))
    with pytest.raises(ValueError, match="n: a whole number"):
        task.sample(0, 0)
