"""Documents of facts: what they hold, what can be known of them, and the memories that losses are measured by."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.key_values.run import ages, bins, check, recalled, run
from experiments.key_values.task import KeyValues, value_losses
from experiments.key_values.yardsticks import (
    excess_of_keys,
    excess_of_span,
    like_keys,
    optimum,
    recallable,
    unseen,
)
from lib.models import create
from lib.processes import SantaFeProcess

SMALL = SantaFeProcess(0.8, topics=3, values=4)
CPU = torch.device("cpu")
RUN: dict[str, Any] = {
    "architecture": "lstm",
    "width": 8,
    "pairs": 6,
    "topics": 5,
    "values": 3,
    "updates": 4,
    "validation": 10,
    "tested": 20,
    "fit": {"optimizer": "adam", "learning_rate": 0.02, "batch": 4, "epochs": 2, "patience": None},
}


class Remembers(torch.nn.Module):
    """A predictor whose memory is known: it keeps what `keeps(key, age)` says, and is as sure as its sharpness."""

    def __init__(self, values: int, keys: int, keeps: Any, sharpness: float = 60.0) -> None:
        super().__init__()
        self.values, self.vocabulary, self.keeps, self.sharpness = values, values + keys, keeps, sharpness

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        logits = torch.zeros(*tokens.shape, self.vocabulary, dtype=torch.float64)
        for row, document in enumerate(tokens.tolist()):
            told: dict[int, tuple[int, int]] = {}
            for place in range(0, len(document), 2):
                key = document[place]
                if key in told and self.keeps(key - self.values, place // 2 - told[key][0]):
                    logits[row, place, told[key][1]] = self.sharpness
                if place + 1 < len(document):
                    told[key] = (place // 2, document[place + 1])
        return logits


def test_a_document_says_the_same_of_a_key_whenever_it_comes() -> None:
    task = KeyValues(SantaFeProcess(0.8, topics=9, values=4), 12)
    documents = task.documents(50, np.random.default_rng(0))
    keys, values = documents[:, ::2], documents[:, 1::2]
    assert documents.shape == (50, 24) and keys.min() >= 4 and keys.max() < 13 and set(values.ravel()) == set(range(4))
    for row, said in zip(keys.tolist(), values.tolist(), strict=True):
        assert len(set(zip(row, said, strict=True))) == len(set(row))
    assert len({tuple(said) for said in values[:, :2].tolist()}) > 4  # documents differ


def test_batches_depend_on_seed_and_epoch_alone_and_validation_on_nothing() -> None:
    first, again, other = (KeyValues(SMALL, 5, updates=3, seed=seed) for seed in (1, 1, 2))
    batches = [[batch.tolist() for batch in task.batches(4, 2, CPU)] for task in (first, again, other)]
    assert batches[0] == batches[1] != batches[2] and len(batches[0]) == first.steps(4) == 3
    assert batches[0] != [batch.tolist() for batch in first.batches(4, 3, CPU)]
    assert np.array_equal(first.validation, other.validation)


def test_the_loss_is_that_of_values_behind_their_keys_alone() -> None:
    task = KeyValues(SMALL, 4, validation=30)
    model = create("lstm", task.vocabulary, 6, seed=0).double()
    losses = value_losses(model, task.validation, SMALL.values)
    document = torch.from_numpy(task.validation[7])
    for pair in range(4):
        logits = model(document[None, : 2 * pair + 1])[0, -1, : SMALL.values]
        assert losses[7, pair] == pytest.approx(
            -float(torch.log_softmax(logits.detach(), 0)[document[2 * pair + 1]]), rel=1e-12
        )
    assert task.validation_loss(model, CPU) == pytest.approx(losses.mean(), rel=1e-12)
    batch = torch.from_numpy(task.validation)
    assert float(task.loss(model, batch).detach()) == pytest.approx(losses.mean(), rel=1e-12)
    assert model.training


def by_enumeration(keeps: Any, pairs: int) -> float:
    """Mean loss over all documents of a memory that keeps what `keeps(key, age)` says."""
    law, total = [Fraction(p) for p in SMALL.topic_law.tolist()], Fraction(0)
    for keys in itertools.product(range(SMALL.topics), repeat=pairs):
        weight = Fraction(1)
        for key in keys:
            weight *= law[key]
        for place, key in enumerate(keys):
            before = [place - earlier for earlier in range(place) if keys[earlier] == key]
            total += weight * (not before or not keeps(key, min(before)))
    return float(total / pairs / sum(law) ** pairs) * float(np.log(SMALL.values))


@pytest.mark.parametrize("pairs", [1, 2, 5])
def test_yardsticks_are_sums_over_all_documents(pairs: int) -> None:
    best = by_enumeration(lambda key, age: True, pairs)
    assert optimum(SMALL, pairs) == pytest.approx(best, rel=1e-12)
    one_too_many = float(np.log(4) * unseen(SMALL, pairs + 1)[1:].mean())  # t in the place of t - 1
    assert one_too_many != pytest.approx(best, rel=0.01)
    assert recallable(SMALL, pairs) == pytest.approx(np.log(4) - best, rel=1e-9, abs=1e-12)
    for kept in range(4):
        span = by_enumeration(lambda key, age, kept=kept: age <= kept, pairs) - best
        keys = by_enumeration(lambda key, age, kept=kept: key < kept, pairs) - best
        assert excess_of_span(SMALL, pairs, kept) == pytest.approx(span, rel=1e-9, abs=1e-12)
        assert excess_of_keys(SMALL, pairs, kept) == pytest.approx(keys, rel=1e-9, abs=1e-12)
    if pairs > 1:  # the rules differ, so that neither of them is the other by mistake
        assert excess_of_span(SMALL, 5, 1) != pytest.approx(excess_of_keys(SMALL, 5, 1), rel=0.01)


def test_a_loss_has_its_number_of_keys() -> None:
    for keys in range(4):
        assert like_keys(SMALL, 5, excess_of_keys(SMALL, 5, keys)) == pytest.approx(keys, abs=1e-9)
    between = 0.5 * (excess_of_keys(SMALL, 5, 1) + excess_of_keys(SMALL, 5, 2))
    assert like_keys(SMALL, 5, between) == pytest.approx(1.5) and np.isnan(like_keys(SMALL, 5, np.nan))


def test_shared_facts_are_the_information_between_the_halves() -> None:
    source = SantaFeProcess(0.8, topics=6, values=4)
    documents = KeyValues(source, 10).documents(20000, np.random.default_rng(1))
    keys = documents[:, ::2] - source.values
    found = recalled(np.zeros(keys.shape), keys, source.values)
    exact = source.bipartite_mutual_information(10) / np.log(source.values)
    assert found["shared"] == pytest.approx(exact, abs=0.03) and found["carried"] == found["shared"]
    nothing = recalled(np.full(keys.shape, np.log(source.values)), keys, source.values)
    assert nothing["carried"] == pytest.approx(0.0, abs=1e-12) and nothing["shared"] == found["shared"]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(st.integers(0, 4), min_size=7, max_size=7), min_size=1, max_size=6))
def test_ages_are_counted_from_the_last_mention(rows: list[list[int]]) -> None:
    expected = [
        [min((place - at for at in range(place) if row[at] == row[place]), default=0) for place in range(7)]
        for row in rows
    ]
    assert ages(np.array(rows)).tolist() == expected


def test_bins_hold_every_number_once() -> None:
    for last, factor in itertools.product((1, 2, 3, 7, 8, 64, 127), (2, 4)):
        covered = [number for first, end in bins(last, factor) for number in range(first, end + 1)]
        assert covered == list(range(1, last + 1))


def test_what_a_memory_keeps_is_read_from_its_losses() -> None:
    source = SantaFeProcess(0.8, topics=9, values=4)
    task = KeyValues(source, 16)
    documents = task.documents(300, np.random.default_rng(2))
    keys = documents[:, ::2] - source.values
    tables = {}
    for name, keeps in {
        "all": lambda k, a: True,
        "recent": lambda k, a: a <= 4,
        "frequent": lambda k, a: k < 4,
    }.items():
        losses = value_losses(Remembers(source.values, source.topics, keeps), documents, source.values)
        found = recalled(losses, keys, source.values)
        facts = np.array(found["facts"], dtype=float)
        assert facts.sum() == np.count_nonzero(ages(keys)) and found["ranks"] == [[1, 1], [2, 4], [5, 9]]
        assert found["ages"] == [[1, 1], [2, 2], [3, 4], [5, 8], [9, 15]]
        tables[name] = np.array(found["by_rank_and_age"]) / facts / np.log(4)
        above = np.mean(found["loss_by_pair"]) - np.mean(found["optimum_by_pair"])
        assert above == pytest.approx(np.array(found["by_rank_and_age"]).sum() / keys.size, abs=1e-9)
    assert np.nanmax(tables["all"]) < 1e-9
    assert np.nanmax(tables["recent"][:, :3]) < 1e-9 and np.nanmin(tables["recent"][:, 3:]) > 1 - 1e-9
    assert np.nanmax(tables["frequent"][:2]) < 1e-9 and np.nanmin(tables["frequent"][2:]) > 1 - 1e-9


def test_a_run_is_the_same_again_and_goes_on_where_it_was(tmp_path: Any) -> None:
    first = run(RUN, 0, tmp_path / "a")
    again = run(RUN, 0, tmp_path / "a")  # finished: nothing is trained again
    drop = ("training_seconds",)
    told = [{key: value for key, value in found.items() if key not in drop} for found in (first, again)]
    assert told[0] == told[1] and len(first["loss_by_pair"]) == 6 and first["state_size"] == 16
    assert first["validation_losses"] != run(RUN, 1, tmp_path / "b")["validation_losses"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pairs": 1}, "pairs"),
        ({"exponent": 1.0}, "exponent"),
        ({"values": 1}, "values"),
        ({"topics": 0}, "topics"),
        ({"architecture": "abacus"}, "architecture"),
        ({"options": {"size": 4}}, "lstm"),
        ({"fit": {"epochs": 0}}, "epochs"),
        ({"keys": 4}, "keys"),
    ],
)
def test_what_cannot_run_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check({**RUN, **change})


def test_yardsticks_refuse_sizes_that_are_none() -> None:
    for bad in (lambda: unseen(SMALL, 0), lambda: excess_of_span(SMALL, 5, -1), lambda: excess_of_keys(SMALL, 5, -1)):
        with pytest.raises(ValueError, match="allowed"):
            bad()
