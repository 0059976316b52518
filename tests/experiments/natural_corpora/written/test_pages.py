"""Tables and figures of the chapters, with records, with few and with none."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest

from experiments.natural_corpora.written import figures, tables
from experiments.natural_corpora.written.relations import RELATIONS
from experiments.natural_corpora.written.runs import written_runs
from experiments.natural_corpora.written.selection import Selection
from tests.experiments.natural_corpora.written.fake_records import LAGS, READ, record, trained

MORE = {"writing_seconds": 2.0, "sample": "abc\n```def", "written_characters": 2000}


def selection(count: int) -> Selection:
    records = [
        record(0.5 * READ, width=width, seed=seed, level=level, quality=dict.fromkeys(tables.MEASURES, 0.5))
        for width, seed, level in [(32, 0, "character"), (32, 1, "character"), (64, 0, "word")][:count]
    ]
    for one in records:
        one["result"] |= MORE
    found = written_runs(records)
    return Selection(found, frozenset(found))


@pytest.mark.parametrize("count", [0, 1, 3])
def test_every_table_and_figure_is_there_with_as_many_records_as_there_are(count: int) -> None:
    some = selection(count)
    every = tables.every_network(some)
    for text in (tables.table_of_ranges(every), tables.table_of_quality(every), tables.table_of_relations(some)):
        assert text.startswith("|") and "nan" not in text
    assert ("Nothing is recorded" in tables.answer(some)) == (count == 0) == ("Nothing" in tables.samples(some))
    figure, axes = plt.subplots(2)
    figures.draw_curves(axes[0], some.networks("character", "lstm"))
    figures.draw_relation(axes[1], some, "word", next(iter(RELATIONS.values())))
    assert len(axes[0].get_lines()) == (2 if count else 0)
    figure.canvas.draw()
    plt.close(figure)


def test_the_answer_and_the_table_say_what_was_measured() -> None:
    some = selection(3)
    assert "**LSTM 32, characters**" in tables.answer(some) and "50% at 10–50" in tables.answer(some)
    row = tables.table_of_ranges(tables.every_network(some)).splitlines()[2]
    assert row.startswith("| LSTM 32, characters | validation set of WikiText-2 | 2 | 1.500")
    assert row.count("0.50 (0.50)") == 3
    quality = tables.table_of_quality(tables.every_network(some)).splitlines()
    assert "50.0" in quality[2] and quality[-1].startswith("| real text | – | – | 25.0 | 25.0 |")
    assert len(quality) == 2 + 2 + 1  # two networks of one text, and that text once


def test_networks_of_one_name_are_told_apart_by_the_words_that_they_know() -> None:
    records = [record(READ, width=width, level="word") for width in (32, 64, 64)]
    records[2]["parameters"]["words"] = 8000
    for one in records:
        one["result"] |= MORE | {"quality": dict.fromkeys(tables.MEASURES, 0.5)}
    found = written_runs(records)
    every = tables.every_network(Selection(found, frozenset(found)))
    for rows in (tables.table_of_quality(every).splitlines()[2:-1], tables.table_of_ranges(every).splitlines()[2:]):
        names = [row.split("|")[1].strip() for row in rows]
        assert sorted(names) == ["LSTM 32, words", "LSTM 64, words (4,000 known)", "LSTM 64, words (8,000 known)"]


def test_networks_of_one_name_that_read_different_texts_know_their_words_without_saying_so() -> None:
    records = [record(READ, level="word", text=text) for text in ("wikitext2-held-out", "prose")]
    rows = tables.table_of_ranges(list(written_runs(records).items())).splitlines()
    assert [row.split("|")[1].strip() for row in rows[2:]] == ["LSTM 32, words"] * 2
    assert [cell.strip() for cell in rows[0].split("|")[-3:-1]] == [r"$\xi$ (characters)", r"$\xi$ of the text"]


def test_the_table_of_budgets_says_which_way_the_loss_went() -> None:
    ended = [*trained(READ, width=32), record(READ, width=64)]
    (row,) = tables.table_of_budgets(Selection(written_runs(ended), frozenset())).splitlines()[2:]
    assert row == "| LSTM 32, characters | 10 | 1.500 | +0.000 | +0.010 | +0.010 |"
    by_heart = [record(READ, loss=1.5), record(READ, loss=1.7, seed=1)]
    by_heart += [record(READ, loss=1.53, epochs=20), record(READ, loss=1.4, rate=0.0013)]
    (row,) = tables.table_of_budgets(Selection(written_runs(by_heart), frozenset())).splitlines()[2:]
    assert [cell.strip() for cell in row.split("|")[4:7]] == ["+0.030", "-0.100", "–"]


def test_a_sample_cannot_end_its_own_block() -> None:
    shown = tables.samples(selection(1))
    assert "abc\n'''def" in shown and shown.count("```") == 2


def test_the_curve_that_is_drawn_is_less_its_floor() -> None:
    figure, axes = plt.subplots()
    figures.draw_curves(axes, selection(1).networks("character", "lstm"))
    written, read = (np.asarray(line.get_ydata(), dtype=float) for line in axes.get_lines())
    plt.close(figure)
    assert np.allclose(written, 0.5 * READ, atol=1e-5) and np.allclose(read, READ, atol=1e-5)
    assert len(written) == LAGS.size


def test_what_was_trained_on_the_page_is_told() -> None:
    live = {"parameters": {"level": "word", "architecture": "lstm", "width": 8}}
    live["result"] = {"validation_losses": [3.0, 2.5], "written_characters": 20000}
    assert "| word | LSTM 8 | 2.50 | 20,000 |" in tables.table_of_live([live])
