"""The rules of pixels and characters on records of known numbers: each says yes, no and nothing where it should."""

import pytest

from experiments.pixels_and_characters import statements, tables
from experiments.pixels_and_characters.runs import character_runs, pixel_runs
from tests.experiments.pixels_and_characters.fake_records import FLOORS, image_record, text_record

REL = [image_record("rel_rnn", last, seed) for seed, last in enumerate((0.90, 0.91, 0.92))]
RNN = [image_record("rnn", last, seed) for seed, last in enumerate((0.80, 0.82, 0.81))]


@pytest.fixture
def recorded(monkeypatch):
    """What the rules record: claim, part and the words that stand beside the verdict."""
    from lib.report import claims

    said = {}
    monkeypatch.setattr(claims, "_record", lambda verdict: said.update({verdict.part: verdict}))
    monkeypatch.setattr(claims, "show_together", lambda *_: None)
    return said


def test_relrnn_has_to_be_ahead_of_the_rnn_by_more_than_the_interval(recorded):
    assert statements.judge_order(pixel_runs([*REL, *RNN])) == "agrees"
    assert recorded["permuted, RelRNN above RNN"].outcome == "reduced"
    assert recorded["permuted, RelRNN above RNN"].condition == "as printed"
    behind = [image_record("rel_rnn", 0.75 + seed / 100, seed) for seed in range(3)]
    assert statements.judge_order(pixel_runs([*behind, *RNN])) == "differs"
    mixed = [image_record("rnn", last, seed) for seed, last in enumerate((0.80, 0.95, 0.81))]
    assert statements.judge_order(pixel_runs([*REL, *mixed])) == "undecided"


def test_controls_and_other_orders_do_not_stand_in_for_the_runs(recorded):
    for change in ({"labels": "shuffled"}, {"order": "anew"}, {"order": "rows"}, {"together": 7, "side": 28}):
        others = [image_record("rel_rnn", 0.9, seed, **change) for seed in range(3)]
        assert statements.judge_order(pixel_runs([*others, *RNN])) == "undecided"
    shuffled = [image_record("rel_rnn", 0.1, seed) for seed in range(3)]  # as networks that learn nothing
    assert statements.judge_order(pixel_runs([*shuffled, *RNN])) == "differs"


@pytest.mark.parametrize("some", [[], REL, RNN, [*REL[:2], *RNN[:2]]], ids=["none", "rel", "rnn", "two seeds"])
def test_too_few_records_decide_nothing(recorded, some):
    assert statements.judge_order(pixel_runs(some)) == "undecided"


def test_a_training_that_ended_early_is_missing(recorded):
    cut = [image_record("rel_rnn", 0.9, seed) for seed in range(3)]
    for one in cut[:1]:
        one["result"]["accuracies"].pop()
    assert statements.judge_order(pixel_runs([*cut, *RNN])) == "undecided"


def test_records_of_another_version_count_for_nothing():
    assert pixel_runs([{**REL[0], "stale": True}]) == []


def test_paper_sizes_and_rates_are_more_than_reduced(recorded):
    whole = {"side": 28, "width": 100}
    rel = [image_record("rel_rnn", 0.9 + seed / 100, seed, **whole, fit={"epochs": 40}) for seed in range(3)]
    rnn = [image_record("rnn", 0.8, seed, **whole, fit={"epochs": 40}) for seed in range(3)]
    assert statements.judge_order(pixel_runs([*rel, *rnn])) == "agrees"
    assert recorded["permuted, RelRNN above RNN"].outcome == "holds"
    fast = [image_record("rel_rnn", 0.9, seed, **whole, fit={"epochs": 40, "learning_rate": 0.01}) for seed in range(3)]
    statements.judge_order(pixel_runs([*fast, *rnn]))
    assert recorded["permuted, RelRNN above RNN"].outcome == "reduced"


def test_a_network_has_to_be_below_the_trigrams_in_every_seed(recorded):
    below = [text_record("rel_rnn", 2.3 + seed / 100, seed) for seed in range(3)]
    assert statements.judge_counts(character_runs(below)) == "agrees"
    assert recorded["RelRNN below trigram counts"].outcome == "reduced"
    assert recorded["RelRNN below trigram counts"].remark and statements.judge_printed_bits() == "undecided"
    assert not recorded["what is printed of PTB"].remark  # nothing is printed: no remark decides
    above = [text_record("rel_rnn", 2.9 + seed / 100, seed) for seed in range(3)]
    assert statements.judge_counts(character_runs(above)) == "differs"
    across = [text_record("rel_rnn", 2.6 + seed / 5, seed) for seed in range(3)]
    assert statements.judge_counts(character_runs(across)) == "undecided"
    assert statements.judge_counts([]) == statements.judge_counts(character_runs(below[:2])) == "undecided"


def test_texts_read_as_printed_are_more_than_reduced(recorded):
    printed = {"corpus": "ptb", "width": 1024, "embedding": 200, "window": 150}
    fit = {"batch": 128, "epochs": 100, "learning_rate": 0.0003, "clip": None}
    for change, found in (
        ({}, "holds"), ({"clip": 1.0}, "reduced"), ({"epochs": 1}, "reduced"),
        ({"batch": 32}, "reduced"), ({"learning_rate": 0.01}, "reduced"),
    ):  # fmt: skip
        runs = [text_record("rel_rnn", 2.3 + seed / 100, seed, **printed, fit=fit | change) for seed in range(3)]
        statements.judge_counts(character_runs(runs))
        assert recorded["RelRNN below trigram counts"].outcome == found
    short = [text_record("rel_rnn", 2.3, seed, **(printed | {"window": 100}), fit=fit) for seed in range(3)]
    statements.judge_counts(character_runs(short))
    assert recorded["RelRNN below trigram counts"].outcome == "reduced"


def test_a_network_that_forgets_is_not_the_network(recorded):
    """The control sees one character, as a bigram table does: it must not pass, neither as itself nor in the place."""
    forgetful = [text_record("rel_rnn", 2.3, seed, memory="steps") for seed in range(3)]
    assert statements.judge_counts(character_runs(forgetful)) == "undecided"
    as_table = [text_record("rel_rnn", FLOORS["bigram"], seed) for seed in range(3)]
    assert statements.judge_counts(character_runs(as_table)) == "differs"


def test_attention_has_to_be_more_concentrated_than_before_training(recorded):
    part = "figure 9, pixels"
    images = {"order": "rows", "together": 7, "side": 28}
    trained = pixel_runs(image_record("mem_rnn", 0.9, seed, top=0.4, **images) for seed in range(3))
    assert statements.judge_concentration(statements.attention_of_pixels(trained), part) == "agrees"
    assert recorded[part].remark and recorded[part].outcome == "reduced"
    untrained = statements.judge_concentration(statements.attention_of_pixels(trained), part, when="before")
    assert untrained == "undecided" and "states nothing that could differ" in recorded[part].sentence
    assert recorded[part].remark
    some = pixel_runs(image_record("mem_rnn", 0.9, seed, top=top, **images) for seed, top in enumerate((0.4, 0.2, 0.4)))
    assert statements.judge_concentration(some, part) == "undecided"
    assert statements.judge_concentration([], part) == "undecided"


def test_each_step_has_to_attend_to_fewer_states_than_before_training(recorded):
    part = "figure 7, characters"
    runs = character_runs(text_record("mem_rnn", 2.3, seed, top=0.8) for seed in range(3))  # entropy 3 - top
    assert statements.judge_fewer_states(runs, part) == "agrees"
    assert recorded[f"{part}: fewer states at a step"].remark
    told = tables.attention_told(runs)
    assert "to fewer states after training (entropy 2.8 to 2.2 nats), and more to the same" in told
    # negative controls: as untrained, and more spread out than before
    assert statements.judge_fewer_states(runs, part, when="before") == "differs"
    wide = character_runs(text_record("mem_rnn", 2.3, seed, top=0.1) for seed in range(3))
    assert statements.judge_fewer_states(wide, part) == "differs"
    # what trainings on shuffled labels do: -0.05 to -0.06 nats in 60 updates, -0.24 in 2500
    for top in (0.25, 0.44):
        hardly = character_runs(text_record("mem_rnn", 2.3, seed, top=top + seed / 200) for seed in range(3))
        assert statements.judge_fewer_states(hardly, part) == "differs"
    assert statements.judge_fewer_states([], part) == "undecided"


def test_networks_are_compared_seed_by_seed():
    runs = [text_record("rel_rnn", bits, seed) for seed, bits in enumerate((2.1, 2.3, 2.5))]
    runs += [text_record("lstm", bits, seed) for seed, bits in enumerate((2.0, 2.2, 2.4))]
    found = statements.differences(character_runs(runs), ("lstm", "goru"))
    assert found["lstm"].value == pytest.approx(-0.1) and found["lstm"].high < -0.09 and not found["goru"].known
