"""What is said of networks that recall facts, on records whose memory is known; the page runs on whatever is there."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest

from experiments.key_values import statements, tables
from experiments.key_values.run import ages, recalled
from experiments.key_values.runs import (
    EXPERIMENT,
    FactRun,
    Network,
    deciding,
    fact_runs,
    lengths,
    networks,
    plateau,
    settled_in_kind,
)
from experiments.key_values.task import KeyValues
from experiments.key_values.yardsticks import by_age_of_decay, by_age_of_keys, excess_of_keys, like_keys, share_of_keys
from lib.batch.pages import find_page
from lib.processes import SantaFeProcess
from lib.report.gate import Training, usual_budget
from lib.report.verdicts import UNCONVERGED
from lib.runs import store
from lib.runs.definition import Experiment, Run

PLANNED = Experiment(EXPERIMENT).runs("laptop")
SOURCE = SantaFeProcess(0.8, topics=64, values=8)
ORIGIN = {"seconds": 60.0, "date": "2026-01-01T00:00:00+00:00", "device": "cpu", "commit": "0", "peak_memory_MB": 1.0}
Lost = Callable[[Run, Any, Any], Any]


@lru_cache
def asked(pairs: int) -> Any:
    documents = KeyValues(SOURCE, pairs).documents(120, np.random.default_rng(3))
    keys = documents[:, ::2] - SOURCE.values
    return keys, ages(keys)


def by_age(run: Run, keys: Any, age: Any) -> Any:
    """What is lost of a fact: nothing by a Transformer, what is old by the others, less of it by a large state."""
    chosen = run.parameters
    if chosen["architecture"] == "transformer":
        return np.zeros(keys.shape)
    span = {4: 4, 64: 24}.get(chosen["options"].get("size"), 8)
    return (age > span).astype(float)


def by_rank(run: Run, keys: Any, age: Any) -> Any:
    """The same of rare keys."""
    if run.parameters["architecture"] == "transformer":
        return np.zeros(keys.shape)
    return (keys >= {4: 2, 64: 12}.get(run.parameters["options"].get("size"), 6)).astype(float)


@lru_cache
def measured(pairs: int, lost: bytes, seed: int) -> dict[str, Any]:
    """What a sweep measures of a network that loses these shares of all facts; seeds differ by 0.01 nats or less."""
    keys, age = asked(pairs)
    share = np.where(age > 0, np.frombuffer(lost).reshape(age.shape), 1.0) + 0.0005 * seed
    return recalled(np.log(SOURCE.values) * share, keys, SOURCE.values)


def record(run: Run, lost: Lost = by_age) -> dict[str, Any]:
    """A record as a sweep writes it."""
    pairs = run.parameters["pairs"]
    result = dict(measured(pairs, np.asarray(lost(run, *asked(pairs)), dtype=float).tobytes(), run.seed))
    result |= {"state_size": 100, "validation_losses": [1.0], "best_epoch": 1}
    return {"parameters": run.parameters, "seed": run.seed, "stale": False, "result": result, "provenance": ORIGIN}


def budget(run: Run) -> tuple[int, float]:
    """Epochs and rate."""
    return run.parameters["fit"]["epochs"], run.parameters["fit"]["learning_rate"]


def kind(run: Run) -> str:
    """All runs of one network at one length."""
    return str([run.parameters[name] for name in ("architecture", "options", "pairs")])


@lru_cache
def budgets() -> dict[str, tuple[int, float]]:
    found: dict[str, list[Training]] = {}
    for run in PLANNED:
        found.setdefault(kind(run), []).append(Training(run.seed, *budget(run), 0.0))
    return {name: usual_budget(own) for name, own in found.items()}


def usual(run: Run) -> tuple[int, float]:
    """The budget that decides."""
    return budgets()[kind(run)]


def judged(lost: Lost = by_age, there: Callable[[Run], bool] = lambda run: True) -> dict[str, str]:
    return statements.judge_recall(fact_runs(record(run, lost) for run in PLANNED if there(run)))


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with contextlib.redirect_stdout(io.StringIO()):
        yield
    plt.close("all")


def test_a_training_that_left_no_loss_counts_as_none() -> None:
    diverged = [
        run for run in PLANNED if run.parameters["architecture"] == "linear_attention" and budget(run)[0] == 192
    ]
    assert diverged
    records = [record(run) for run in PLANNED]
    for run in diverged:
        result = records[PLANNED.index(run)]["result"]
        result["loss_by_pair"] = [None] * len(result["loss_by_pair"])
    found = fact_runs(records)
    without = [run for run in found if not run.measured]
    assert len(without) == len(diverged)
    assert all(run.updates >= 192 * 100 and np.isnan(run.training.loss) for run in without)
    assert statements.judge_recall(found) == judged(there=lambda run: run not in diverged)


def test_a_fading_memory_agrees_in_every_part() -> None:
    assert set(judged().values()) == {"agrees"}


def test_keys_that_were_never_learned_are_not_lost_by_age() -> None:
    found = judged(by_rank)
    assert found.pop("they are lost by age") == "differs"
    assert found.pop("fixed states lose facts") == "differs"  # a smaller share of longer documents is of rarer keys
    assert set(found.values()) == {"agrees"}


@pytest.mark.parametrize("keys", [1, 2, 4, 8])
def test_a_memory_that_forgets_nothing_has_lost_no_facts(keys: int) -> None:
    """It recalls a smaller share of longer documents by more than is asked for, since they ask for rarer keys."""
    shares = [share_of_keys(SOURCE, pairs, keys) for pairs in (8, 128)]
    assert shares[0] - shares[1] > statements.LOST

    def knows(run: Run, asked: Any, age: Any) -> Any:
        transformer = run.parameters["architecture"] == "transformer"
        return np.zeros(asked.shape) if transformer else (asked >= keys).astype(float)

    assert judged(knows)["fixed states lose facts"] == "differs"


def test_the_share_of_known_keys_by_hand() -> None:
    law = SOURCE.topic_law
    known = sum(law[:3] @ (1 - (1 - law[:3]) ** t) for t in range(32)) / sum(
        law @ (1 - (1 - law) ** t) for t in range(32)
    )
    assert share_of_keys(SOURCE, 32, 3) == pytest.approx(known)
    assert share_of_keys(SOURCE, 32, 64) == pytest.approx(1) and share_of_keys(SOURCE, 32, 0) == pytest.approx(0)
    assert share_of_keys(SOURCE, 32, like_keys(SOURCE, 32, excess_of_keys(SOURCE, 32, 5))) == pytest.approx(
        share_of_keys(SOURCE, 32, 5)
    )
    assert share_of_keys(SOURCE, 32, 3) < share_of_keys(SOURCE, 32, 3.5) < share_of_keys(SOURCE, 32, 4)
    assert np.isnan(share_of_keys(SOURCE, 32, np.nan))


def test_what_is_lost_within_one_pair_is_not_lost_by_age() -> None:
    """A memory whose every loss is forgetting has less than half of it by age, where it forgets fast."""
    shares = [by_age_of_decay(SOURCE, 128, lost, 1000) for lost in (0.5, 0.3, 0.1)]
    assert shares[0] == pytest.approx(0.42, abs=0.01) and shares[0] < statements.HALF < shares[1] < shares[2]

    def fades(run: Run, keys: Any, age: Any) -> Any:
        transformer = run.parameters["architecture"] == "transformer"
        return np.zeros(keys.shape) if transformer else 1.0 - 0.5 ** age.astype(float)

    assert (
        judged(fades)["they are lost by age"] == "differs"
    )  # which is why the page tells what is there after one pair
    for one, least in ((fades, "50%"), (by_age, "100%")):
        assert f"recalls {least} or more one pair after" in tables.lost(fact_runs(record(run, one) for run in PLANNED))


def test_a_transformer_that_lacks_rare_keys_recalls_enough_and_not_the_rarest() -> None:
    def knows(run: Run, keys: Any, age: Any) -> Any:
        transformer = run.parameters["architecture"] == "transformer"
        return (keys >= 24).astype(float) if transformer else by_age(run, keys, age)

    found = judged(knows)
    assert found["the Transformer recalls"] == "agrees" and found[statements.RAREST] == "differs"
    assert "knows no other also recalls 95% at every length" in tables.rarest(fact_runs(map(record, PLANNED)))
    assert tables.rarest([]) == tables.beside_memories([]) == ""


def test_each_part_can_fail() -> None:
    def forgets(run: Run, keys: Any, age: Any) -> Any:
        return np.full(keys.shape, 0.1) if run.parameters["architecture"] == "transformer" else by_age(run, keys, age)

    def even(run: Run, keys: Any, age: Any) -> Any:
        return np.full(keys.shape, 0.3) if run.parameters["architecture"] != "transformer" else by_age(run, keys, age)

    def small_is_better(run: Run, keys: Any, age: Any) -> Any:
        size = run.parameters["options"].get("size")
        return (age > {4: 24, 64: 4}[size]).astype(float) if size in (4, 64) else by_age(run, keys, age)

    assert judged(forgets)["the Transformer recalls"] == "differs"
    assert judged(even)["fixed states lose facts"] == "differs"
    assert judged(small_is_better)["a larger state recalls more"] == "differs"


def test_the_note_says_that_a_network_is_silent_for_its_loss_or_for_how_facts_are_lost() -> None:
    with contextlib.redirect_stdout(io.StringIO()) as told:
        judged(by_rank, lambda run: not (run.parameters["architecture"] == "lstm" and budget(run) != usual(run)))
    lines = {line.split("(")[1].split(",")[0]: line for line in told.getvalue().splitlines() if "(" in line}
    assert "no plateau, or a share that is not settled: LSTM" in lines["they are lost by age"]


def test_what_is_missing_or_not_at_a_plateau_decides_nothing() -> None:
    assert set(judged(there=lambda run: False).values()) == {"undecided"}
    without_gate = judged(there=lambda run: budget(run) == usual(run))
    for part in ("the Transformer recalls", statements.RAREST):  # it is at the optimum, which needs no second budget
        assert without_gate.pop(part) == "agrees"
    assert set(without_gate.values()) == {"undecided"}

    def longer_is_better(run: Run, keys: Any, age: Any) -> Any:
        return by_age(run, keys, age) * (0.5 if budget(run)[0] == 2 * usual(run)[0] else 1.0)

    assert set(judged(longer_is_better).values()) == {"agrees", "undecided"}


def longer(run: Run) -> bool:
    return budget(run) == (2 * usual(run)[0], usual(run)[1])


def other_rate(run: Run) -> bool:
    return budget(run)[0] == usual(run)[0] and budget(run) != usual(run)


def no_run(run: Run) -> bool:
    return False


@pytest.mark.parametrize(
    "some", [("linear_attention",), ("sliding_window", "mamba2", "mamba", "linear_attention", "lstm")]
)
@pytest.mark.parametrize(("usually", "then"), [(by_age, by_rank), (by_rank, by_age)])
@pytest.mark.parametrize("turns", [longer, other_rate])
def test_a_loss_that_is_settled_is_not_settled_in_kind_where_another_training_loses_as_much_of_another_kind(
    turns: Callable[[Run], bool], usually: Lost, then: Lost, some: tuple[str, ...]
) -> None:
    def lost(run: Run, keys: Any, age: Any, where: Callable[[Run], bool] = turns) -> Any:
        one = usually(run, keys, age)
        if run.parameters["architecture"] not in some or run.parameters["pairs"] < 128 or not where(run):
            return one
        other, known = then(run, keys, age), age > 0
        return other * one[known].sum() / other[known].sum()

    part = "they are lost by age"
    runs = fact_runs(record(run, lost) for run in PLANNED)
    for network in statements.FIXED:
        assert plateau(runs, [(network, 128)]).reached
        reason = UNCONVERGED if network.architecture in some else ""
        assert settled_in_kind(runs, network, 128).reason == reason
    found = statements.judge_recall(runs)
    alone = len(some) < len(statements.FIXED)  # the others still refute
    assert found.pop(part) == ("differs" if alone and usually is by_rank else "undecided")
    assert found.pop("fixed states lose facts") == ("agrees" if usually is by_age else "differs")
    assert set(found.values()) == {"agrees"}
    steady = judged(lambda run, keys, age: lost(run, keys, age, no_run))
    assert steady.pop(part) == ("agrees" if usually is by_age else "differs")


@pytest.mark.parametrize("share", [0.85, 1.0])
def test_a_rate_that_learns_less_says_nothing_of_how_facts_are_lost(share: float) -> None:
    def lost(run: Run, keys: Any, age: Any) -> Any:  # at other rates this share of every fact, of whatever age
        little = other_rate(run) and run.parameters["architecture"] != "transformer"
        return np.full(keys.shape, share) if little else by_age(run, keys, age)

    runs = fact_runs(record(run, lost) for run in PLANNED)
    for network in statements.FIXED:
        assert plateau(runs, [(network, 128)]).reached and settled_in_kind(runs, network, 128).reached
    assert set(statements.judge_recall(runs).values()) == {"agrees"}


@pytest.mark.parametrize(
    ("lost", "found"),
    [
        ((0.03, 0.03, 0.031), "agrees"),
        ((0.0, 0.0, 0.04), "undecided"),  # every seed recalls enough, but the interval of their mean reaches lower
        ((0.0, 0.0, 0.06), "undecided"),  # the mean recalls enough, one seed does not
        ((0.06, 0.06, 0.04), "undecided"),  # nor is a mean that is short of it by a hair a difference
        ((0.08, 0.08, 0.081), "differs"),
    ],
)
def test_a_transformer_recalls_by_its_interval_and_every_seed_and_not_by_its_mean(
    lost: tuple[float, ...], found: str
) -> None:
    def forgets(run: Run, keys: Any, age: Any) -> Any:
        transformer = run.parameters["architecture"] == "transformer"
        return np.full(keys.shape, lost[run.seed] if transformer else 0.9)

    runs = fact_runs(record(run, forgets) for run in PLANNED)
    told = lengths(runs)
    assert plateau(runs, [(statements.TRANSFORMER, pairs) for pairs in told]).reached
    assert statements.judge_share(runs, told) == found


@pytest.mark.parametrize(("large", "found"), [(0.2, "agrees"), (0.28, "undecided"), (0.32, "differs")])
def test_a_larger_state_that_recalls_little_more_decides_nothing(large: float, found: str) -> None:
    def lost(run: Run, keys: Any, age: Any) -> Any:
        size = run.parameters["options"].get("size")
        return np.full(keys.shape, {4: 0.3, 64: large}[size]) if size in (4, 64) else by_age(run, keys, age)

    assert judged(lost)["a larger state recalls more"] == found


def test_networks_at_a_plateau_refute_what_is_said_of_all_and_alone_confirm_nothing() -> None:
    def without_gate_of(some: str) -> Callable[[Run], bool]:
        return lambda run: not (run.parameters["architecture"] == some and budget(run) != usual(run))

    part = "they are lost by age"
    assert judged(by_rank, without_gate_of("lstm"))[part] == "differs"  # the others suffice
    assert judged(by_age, without_gate_of("lstm"))[part] == "undecided"  # the others do not

    def lstm_by_rank(run: Run, keys: Any, age: Any) -> Any:
        return (by_rank if run.parameters["architecture"] == "lstm" else by_age)(run, keys, age)

    assert judged(lstm_by_rank)[part] == "differs"
    assert judged(lstm_by_rank, without_gate_of("lstm"))[part] == "undecided"  # it alone would refute, with no plateau


def test_the_gate_takes_the_usual_budget_for_deciding() -> None:
    runs = fact_runs(record(run) for run in PLANNED)
    for network in networks(runs):
        own = deciding(runs, network, 32)
        epochs = 48 if network.name.startswith(("Mamba,", "LSTM")) else 24
        assert [run.seed for run in own] == [0, 1, 2] and {run.training.epochs for run in own} == {epochs}
    assert [network.name for network in networks(runs)][-3:] == ["Mamba, size 64", "linear attention", "LSTM"]
    assert not deciding(runs, Network(0), 64)


def test_shares_and_keys_are_those_of_the_memory() -> None:
    one = next(run for run in PLANNED if run.parameters["architecture"] == "lstm" and run.parameters["pairs"] == 32)
    run = fact_runs([record(one, by_rank)])[0]
    assert isinstance(run, FactRun) and run.forgotten < 0.05
    assert run.excess == pytest.approx(excess_of_keys(SOURCE, 32, 6), rel=0.15)  # of 120 documents
    assert "6." in tables.network_table([run], 32) or "5." in tables.network_table([run], 32)
    assert fact_runs([record(one)])[0].forgotten > 0.95
    memory = by_age_of_keys(SOURCE, 128, 10, 1000)
    assert 0.05 < memory < 0.3  # it forgets nothing: in a bin of ranks it knows some keys, and older ones are rarer
    whole = by_age_of_keys(SOURCE, 128, 4, 1000)  # a whole bin is known, and nothing of those that follow
    assert whole < by_age_of_keys(SOURCE, 128, 4.5, 1000) < memory
    assert by_age_of_keys(SOURCE, 32, 0, 100) < 1e-9 and np.isnan(by_age_of_keys(SOURCE, 32, np.nan, 100))
    assert np.isnan(by_age_of_keys(SOURCE, 32, SOURCE.topics, 100))  # nothing is lost
    with pytest.raises(ValueError, match="keys: 0 and more is allowed, got -1"):
        by_age_of_keys(SOURCE, 32, -1, 100)
    assert fact_runs([{**record(one), "stale": True}]) == []


@pytest.mark.parametrize("there", [lambda run: False, lambda run: run.parameters["pairs"] == 32, lambda run: True])
def test_the_page_runs_on_whatever_is_recorded(there: Callable[[Run], bool], monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = [record(run) for run in PLANNED if there(run)]
    monkeypatch.setattr(store, "so_far", lambda name: ("laptop", chosen, len(PLANNED)))
    monkeypatch.setattr(store, "complete", lambda name, profile: chosen or [record(PLANNED[0])])
    monkeypatch.setattr(plt, "show", lambda: None)
    names: dict[str, Any] = {}
    for cell in find_page("recall").notebook().cells:
        if cell.cell_type == "code" and "footer" not in cell.source:
            exec(cell.source, names)
    everything = len(chosen) == len(PLANNED)
    assert ("agrees" in names["verdicts"].values()) is bool(chosen)
    assert (set(names["verdicts"].values()) == {"agrees"}) is everything
    assert len(plt.get_fignums()) == (3 if chosen else 1)


def test_the_page_says_which_networks_lose_what_is_old_and_of_which_one_seed_speaks() -> None:
    def told(lost: Lost, there: Callable[[Run], bool] = lambda run: True) -> tuple[str, str]:
        runs = fact_runs(record(run, lost) for run in PLANNED if there(run))
        return tables.answer(runs), tables.lost(runs)

    answer, lost = told(by_age)
    assert "mostly what is old: sliding window" in lost and "(one seed)" not in answer
    assert "mostly what is old" not in told(by_rank)[1] and "at any age: " in told(by_rank)[1]
    assert "(not at a plateau)" not in answer and "one run of" not in answer
    answer, _ = told(by_age, lambda run: run.seed == 0 and budget(run) == usual(run))
    assert answer.count("(one seed)") >= 5
    assert tables.lost([]) == ""


def test_the_page_says_what_another_training_recalls_where_the_longest_diverged() -> None:
    def lost(run: Run, keys: Any, age: Any) -> Any:
        epochs, rate = budget(run)
        linear = run.parameters["architecture"] == "linear_attention" and run.parameters["pairs"] == 128
        share = (0.3 if epochs == 192 else 0.6) if rate < 0.01 else 1.0
        return share * by_age(run, keys, age) if linear else 0 * keys

    def runs(reason: str, steep: float = 0.01) -> list[FactRun]:
        records = [record(run, lost) for run in PLANNED]
        for run, one in zip(PLANNED, records, strict=True):
            if run.parameters["architecture"] == "linear_attention" and budget(run) == (192, steep):
                one["result"] |= {"reason": reason, "loss_by_pair": [None] * run.parameters["pairs"]}
        return fact_runs(records)

    found = runs("diverged: losses nan and nan in epoch 14")
    cell = {(run.training.epochs, run.training.rate): run.share for run in found
            if run.network.architecture == "linear_attention" and run.pairs == 128 and run.measured}  # fmt: skip
    best = cell[192, 0.0033]
    assert best > max(share for budget, share in cell.items() if budget != (192, 0.0033)) + 0.1
    told = tables.diverged(found)
    assert told.startswith("Linear attention diverged in 3 of 3 seeds of 19,200 updates at 0.01, so that 2,400 updates")
    assert f"one run of 19,200 updates at 0.0033 ended, and recalls {best:.2f} of the facts" in told
    assert f"(not at a plateau; one run of 19,200 updates at 0.0033: {best:.0%})" in tables.answer(found)
    assert tables.diverged(runs("all epochs done")) == tables.diverged([]) == ""
    for run in found:  # what another training recalls does not count if it ended in a loss that is no number
        if (run.training.epochs, run.training.rate) == (192, 0.0033):
            run.result["reason"] = "diverged: losses nan and nan in epoch 100"  # type: ignore[index]
    assert f"{best:.2f}" not in tables.diverged(found) and f"{best:.0%}" not in tables.answer(found)
