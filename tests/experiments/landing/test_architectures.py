"""The table of architectures: every cell has its source, says what that says, and computes what it says it computes."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
import torch

from experiments.history_states.cost import matrix_sizes
from experiments.landing import architectures, measures
from experiments.landing.architectures import COLUMNS, resolved
from experiments.landing.cells import Judged, Plain, Statement, by_outcome, counting_evidence, grade
from experiments.landing.measures import ARCHITECTURES, DEPTH, ORDER, VOCABULARY, WIDTH, WINDOW
from experiments.landing.ngram import NgramModel
from experiments.landing.page import Sources, Table, address, sample
from lib import ROOT
from lib.batch.pages import table_of_contents
from lib.report import scorecard
from lib.report.records import OUTCOMES, Record
from lib.theory import history_state_size
from lib.theory.history import counted_history_state_size

Known = dict[tuple[str, str], Record]


@pytest.fixture(scope="module")
def evidence() -> Known:
    """The committed records."""
    return counting_evidence(scorecard.load_records([]))


@pytest.fixture(scope="module")
def judged(evidence: Known) -> list[tuple[str, Judged]]:
    """Every cell that rests on a claim, with the column it stands in."""
    columns = {head: column(evidence) for head, column in COLUMNS.items()}
    every = [(head, one) for head, cells in columns.items() for several in cells.values() for one in several]
    return [(head, one) for head, one in every if isinstance(one, Judged)]


@pytest.fixture(scope="module")
def table(evidence: Known) -> Table:
    return resolved(evidence)


def made_up(outcome: str = "holds", **changes: Any) -> Record:
    return {
        "claim": "shen-cost", "part": "a part", "outcome": outcome, "sentence": "1 is at most 2", "profile": "laptop",
        "page": "notebooks/two_point/generation_cost", "anchor": "claim-shen-cost-a-part", "older": False, **changes,
    }  # fmt: skip


def test_every_cell_resolves_with_the_committed_records(table: Table) -> None:
    assert list(table.rows) == list(ARCHITECTURES) and len(table.columns) == len(COLUMNS)
    assert all(len(cells) == len(table.columns) and all(cells) for cells in table.rows.values())
    assert all(statement.text for cells in table.rows.values() for cell in cells for statement in cell)
    pages = set(table_of_contents())
    said = [statement for cells in table.rows.values() for cell in cells for statement in cell]
    assert {statement.page for statement in said if statement.page} <= pages
    assert {statement.record["page"] for statement in said if statement.record} <= pages


def test_a_cell_without_its_record_is_an_error(judged: list[tuple[str, Judged]], evidence: Known) -> None:
    assert len(judged) > 30
    for _, cell in judged:
        without = {key: record for key, record in evidence.items() if key != (cell.claim, cell.part)}
        with pytest.raises(ValueError, match=re.escape(f"no record of {cell.claim}, part {cell.part!r}")):
            cell.say(without)
    with pytest.raises(ValueError, match=r"recorded: .*multiply-adds of a token"):
        Judged("shen-cost", "no such part", by_outcome("yes")).say(evidence)
    with pytest.raises(ValueError, match="recorded: no part of it"):
        Judged("no-claim", "", by_outcome("yes")).say(evidence)


def test_words_change_with_the_outcome_or_are_refused(judged: list[tuple[str, Judged]], evidence: Known) -> None:
    contrary = {"holds": "differs", "reduced": "differs", "differs": "holds", "false": "holds", "undecided": "differs"}
    for head, cell in judged:
        record = evidence[cell.claim, cell.part]
        before = cell.say(evidence)
        flipped = dict(evidence) | {(cell.claim, cell.part): record | {"outcome": contrary[record["outcome"]]}}
        try:
            after = cell.say(flipped)
        except ValueError as error:
            assert "have words" in str(error)
            continue
        assert str(after) != str(before)
        if head != "full at (tokens of books)":  # which is computed from the printed fit, whatever became of it
            assert after.text != before.text, cell


def test_what_is_undecided_says_so(judged: list[tuple[str, Judged]], evidence: Known) -> None:
    for head, cell in judged:
        record = evidence[cell.claim, cell.part] | {"outcome": "undecided", "reason": "seeds disagree"}
        said = cell.say({(cell.claim, cell.part): record})
        assert "◇" in str(said) and (head == "full at (tokens of books)" or said.text.endswith("undecided")), cell


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_a_cell_knows_its_outcomes_and_no_other(outcome: str) -> None:
    cell = Judged("shen-cost", "a part", by_outcome("linear", "not linear"))
    known = {("shen-cost", "a part"): made_up(outcome, reason="not converged")}
    expected = {
        "holds": "linear", "reduced": "linear", "differs": "not linear", "false": "not linear",
        "undecided": "linear? undecided", "fails": "check fails",
    }  # fmt: skip
    if outcome in expected:
        assert cell.say(known).text == expected[outcome]
    else:
        with pytest.raises(ValueError, match=f"recorded is '{outcome}'"):
            cell.say(known)


@pytest.mark.parametrize("older", [True, False])
def test_an_older_record_shows_that_it_is_older(older: bool) -> None:
    known = {("shen-cost", "a part"): made_up(older=older)}
    said = Judged("shen-cost", "a part", by_outcome("linear")).say(known)
    made = Table(("cost",), {"rnn": "RNN"}, {"rnn": [[said]]})
    assert (
        ("older code" in str(made))
        == ("↺" in made._repr_html_())
        == ("↺" in Sources(made, "cost")._repr_html_())
        == older
    )
    assert made.grades["rnn"].older == older


def test_a_part_that_two_pages_checked_cannot_be_told_apart() -> None:
    record = made_up(provenance={"date": "2026-01-01", "code": "abc"})
    assert counting_evidence([record]) == {("shen-cost", "a part"): record}
    twice = counting_evidence([record, record | {"page": "notebooks/bipartite/books"}])
    with pytest.raises(ValueError, match=r"generation_cost and notebooks/bipartite/books"):
        Judged("shen-cost", "a part", by_outcome("linear")).say(twice)


def test_the_evidence_of_a_row_counts_a_part_once() -> None:
    one, other = Statement("a", made_up()), Statement("b", made_up("undecided", part="another", older=True))
    found = grade([[one, Statement("c")], [one, other], [Statement("not asked here")]])
    assert (found.outcomes, found.older, found.without) == ({"holds": 1, "undecided": 1}, 1, 1)
    assert str(found) == "1 holds, 1 ran, undecided, 1 of older code, 1 cell without a claim"


def test_a_state_is_full_where_the_information_of_books_fills_it() -> None:
    amplitude, exponent = measures.published_fit()
    assert measures.full_at("mamba") == pytest.approx(
        (measures.model("mamba").state_size(1) / amplitude) ** (1 / exponent)
    )
    assert math.isinf(measures.full_at("transformer")) and math.isinf(measures.full_at("mem_rnn"))
    token = math.log(VOCABULARY)  # a window holds no more than the tokens that it is a function of
    room = {"rel_rnn": measures.NATS * history_state_size(measures.model("rel_rnn"), measures.LONG)}
    room |= {"sliding_window": DEPTH * (WINDOW - 1) * token, "ngram": (ORDER - 1) * token}
    assert room["sliding_window"] < history_state_size(measures.model("sliding_window"), measures.LONG)
    for name, held in room.items():
        assert amplitude * measures.full_at(name) ** exponent == pytest.approx(held)
        assert amplitude * (2 * measures.full_at(name)) ** exponent > 1.5 * held
    assert measures.growth_rate("transformer") == 1 and measures.growth_rate("lstm") == 0


def test_the_cost_of_a_token_is_its_weights_and_what_is_remembered() -> None:
    model = measures.model("transformer")
    assert measures.token_cost("transformer") == (matrix_sizes(model), 2 * DEPTH * WIDTH)
    assert measures.token_cost("sliding_window") == (matrix_sizes(model) + 2 * DEPTH * WIDTH * WINDOW, 0)
    assert measures.token_cost("rnn") == (matrix_sizes(measures.model("rnn")), 0)
    assert measures.token_cost("ngram") == (0, 0)


def test_a_cost_that_is_no_line_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measures, "multiply_adds", lambda _, places: [(place + 1) ** 2 for place in places])
    with pytest.raises(ValueError, match="do not lie on a line"):
        measures.token_cost("rnn")


def test_the_gradient_through_a_window_ends_where_its_layers_end() -> None:
    assert measures.gradient_reach("sliding_window") == DEPTH * (WINDOW - 1)
    with pytest.raises(ValueError, match="reaches all 255 tokens"):
        measures.gradient_reach("transformer")


def test_captured_shares_are_shares() -> None:
    shares = measures.captured_shares()
    assert set(shares) == {"transformer", "mamba", "mamba2"}
    assert all(0 <= share <= 1 for by_length in shares.values() for found in by_length.values() for share in found)


def test_shares_with_positions_are_of_the_usual_trainings_and_of_three_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    def record(
        network: str, share: float | None, *, seed: int = 0, epochs: int = 40, copies: int = 8, **model: Any
    ) -> Any:
        fit = {"epochs": epochs, "learning_rate": 0.01}
        chosen = {"positions": "learned", **model}
        parameters = {"size": network, "model": chosen, "layers": 3, "copies": copies, "fit": fit}
        result = {"average_divergence": None if share is None else 0.1, "true_information": 2.0}
        return {"parameters": parameters, "seed": seed, "result": result | {"captured_information": {"value": share}}}

    recorded = [record("mamba-2x32", 1.0 + seed / 2, seed=seed) for seed in range(3)]
    others = {"positions": "none"}, {"size": 1}, {"copies": 16}, {"epochs": 20}, {"epochs": 80}
    recorded += [record("mamba-2x32", 0.2, **other) for other in others]
    recorded += [record("mamba2-2x32", 0.2, seed=seed) for seed in range(2)]
    recorded += [record("gpt2-2x32", None, seed=seed) for seed in range(3)]  # diverged
    recorded += [record("gpt2-2x64", 2.0, seed=seed) for seed in range(3)]
    monkeypatch.setattr(measures.store, "so_far", lambda name: ("laptop", recorded, 9))
    assert measures.shares_with_positions() == {"mamba": {64: [0.5, 0.75, 1.0]}, "transformer": {64: [1.0, 1.0, 1.0]}}
    recorded += [record("mamba-2x32", 1.8, seed=seed, epochs=80) for seed in range(1, 3)]  # as many seeds, longer
    assert measures.shares_with_positions()["mamba"] == {64: [0.1, 0.9, 0.9]}


def test_recalled_shares_are_of_the_longest_documents_and_the_usual_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    def record(kind: str, pairs: int, loss: float, *, seed: int = 0, epochs: int = 24, size: int | None = None) -> Any:
        fit = {"epochs": epochs, "learning_rate": 0.01}
        parameters = {"architecture": kind, "pairs": pairs, "values": 8, "fit": fit}
        parameters["options"] = {} if size is None else {"size": size}
        return {"parameters": parameters, "seed": seed, "result": {"loss_by_pair": [loss], "optimum_by_pair": [1.0]}}

    most = float(np.log(8))
    recorded = [record("mamba", 8, 1.0), record("mamba", 32, most), record("mamba", 32, 1.0, seed=1)]
    recorded += [
        record("mamba", 32, 1.0, epochs=48),
        record("mamba", 128, 1.0, size=64),
        record("lstm", 8, 1.0, size=16),
    ]
    nothing = {"loss_by_pair": [None], "optimum_by_pair": [1.0]}
    recorded += [{**record("transformer", 8, 1.0), "result": result} for result in ({}, nothing)]  # diverged
    monkeypatch.setattr(measures.store, "so_far", lambda name: ("laptop", recorded, 9))
    assert measures.recalled_shares() == {"mamba": (32, [0.0, 1.0]), "lstm": (8, [1.0])}
    recorded.append(record("lstm", 8, most, epochs=48, size=16))  # as many seeds, trained for longer
    assert measures.recalled_shares()["lstm"] == (8, [0.0])


def test_an_ngram_model_carries_its_last_tokens_and_nothing_else() -> None:
    model = NgramModel(3, 2)
    model.count(np.array([0, 0, 1, 0, 0, 1, 0, 0, 1, 1]))
    assert [history_state_size(model, length) for length in (1, 2, 9)] == [1, 2, 2]
    assert [counted_history_state_size(model, length) for length in (1, 2, 9)] == [1, 2, 2]

    def told(*tokens: int) -> np.ndarray[Any, Any]:
        state = model.initial_state(1)
        for token in tokens:
            logits, state = model.step(torch.tensor([token]), state)
        return np.exp(logits.numpy()[0])

    assert told(0, 0) == pytest.approx([1 / 5, 4 / 5])  # 0 0 1 stands there three times, 0 0 0 never
    assert told(0, 1) == pytest.approx([3 / 5, 2 / 5]) and told(0) == pytest.approx([2 / 3, 1 / 3])
    assert np.array_equal(told(1, 1, 1, 0, 0), told(0, 1, 0, 0)) and not np.array_equal(told(1, 0), told(0, 0))
    with pytest.raises(ValueError, match="order"):
        NgramModel(1, 2)


def test_the_page_names_every_row_and_leads_to_every_check(table: Table) -> None:
    page = table._repr_html_()
    assert page.count('<th scope="row">') == len(ARCHITECTURES) and page.count('<th scope="col">') == len(COLUMNS) + 2
    assert all(shown in page for shown in ARCHITECTURES.values())
    record = made_up(on_page=True)
    assert address(Statement("", record)).endswith("two_point/generation_cost.html#claim-shen-cost-a-part")
    assert address(Statement("", record | {"on_page": False})).endswith("two_point/generation_cost.html")
    assert address(Statement("not asked here")) == ""
    escaped = Table(("cost",), {"rnn": "RNN"}, {"rnn": [[Plain("0 < 1").say({})]]})._repr_html_()
    assert "0 &lt; 1" in escaped and "0 < 1" not in escaped


def test_samples_differ_by_more_than_colour() -> None:
    looks = [sample(name) for name in ARCHITECTURES]
    assert len({(look["dashes"], look["marker"]) for look in looks}) == len(looks)
    assert all(re.fullmatch(r"[ML\d. -]+", look["marker"]) for look in looks)


def test_an_unknown_name_is_refused(table: Table) -> None:
    with pytest.raises(ValueError, match="column: one of"):
        repr(Sources(table, "colour"))
    with pytest.raises(ValueError, match="name: one of"):
        measures.model("gpt2")


def test_the_chapter_shows_the_sources_of_every_column() -> None:
    text = (ROOT / "book" / "architectures.md").read_text(encoding="utf-8")
    assert set(re.findall(r'show_sources\("([^"]+)"\)', text)) == set(COLUMNS)
    assert "architectures.show()" in text and callable(architectures.show)
