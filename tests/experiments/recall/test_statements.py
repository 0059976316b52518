"""The rules of copy and denoise on records whose course is known: each says yes, no and nothing where it should."""

import numpy as np
import pytest

from experiments.recall import statements
from experiments.recall.inside import measures
from experiments.recall.inside import statements as inner_statements
from experiments.recall.memory import bytes_by_delay
from experiments.recall.runs import best_recipe, ended, failure, of_network, settled, slowest_success
from lib.models import ARCHITECTURES
from lib.report import claims
from lib.report.catalogue import find
from lib.report.scorecard import Row
from lib.report.verdicts import UNCONVERGED, UNMET
from tests.experiments.recall.fake_records import attention, cell, gradients, runs

LSTM_FAILS = [cell("lstm", 500, updates=13500, rate=rate) for rate in (0.0002, 0.001)]
REL_SUCCEEDS = cell("rel_rnn", 500, success=[3000, 3500, 4500])


# --- how a training ended ---


def test_failure_needs_three_times_the_updates_of_the_slowest_success_at_both_rates_and_a_loss_that_stands():
    assert failure(runs(*LSTM_FAILS, REL_SUCCEEDS), "lstm", 500).reached
    without = failure(runs(LSTM_FAILS[1], REL_SUCCEEDS), "lstm", 500)
    assert (without.reached, without.reason) == (False, UNMET) and "rate 0.0002" in without.sentence
    few = [cell("lstm", 500, updates=13250, rate=rate) for rate in (0.0002, 0.001)]
    short = failure(runs(*few, REL_SUCCEEDS), "lstm", 500)
    assert (short.reached, short.reason) == (False, UNCONVERGED) and "not within 13250 updates" in short.sentence
    moving = [LSTM_FAILS[0], cell("lstm", 500, updates=13500, falling=[0.0, 0.0, 0.02])]
    assert "still fell by 2.0%" in failure(runs(*moving, REL_SUCCEEDS), "lstm", 500).sentence
    nobody = failure(runs(*LSTM_FAILS), "lstm", 500)
    assert (nobody.reached, nobody.reason) == (False, UNMET)
    elsewhere = failure(runs(*LSTM_FAILS, cell("rel_rnn", 100, success=3000)), "lstm", 500)
    assert not elsewhere.reached
    one = [LSTM_FAILS[0], cell("lstm", 500, updates=13500, success=[None, 9000, None])]
    assert "succeeds at rate 0.001" in failure(runs(*one, REL_SUCCEEDS), "lstm", 500).sentence
    two = [LSTM_FAILS[0][:2], LSTM_FAILS[1]]
    assert "2 of 3 seeds" in failure(runs(*two, REL_SUCCEEDS), "lstm", 500).sentence


def test_the_slowest_success_is_of_networks_that_succeed_in_every_seed_by_their_best_recipe():
    found = runs(
        REL_SUCCEEDS,
        cell("rel_rnn", 500, success=9000, rate=0.0002),  # of two recipes that both succeed the printed one counts
        cell("mem_rnn", 500, success=[1000, 2000, None]),
        cell("rel_rnn", 500, success=20000, options={"select": "random"}),  # a control
        cell("exp_rnn", 500, success=500),
    )
    assert slowest_success(found, 500) == 9000
    assert slowest_success(runs(REL_SUCCEEDS, cell("exp_rnn", 500, success=500)), 500) == 4500
    assert slowest_success(found, 100) is None
    better = runs(cell("rel_rnn", 500, success=[9000, None, None], rate=0.0002), REL_SUCCEEDS)
    assert {run.recipe.rate for run in best_recipe(better)} == {0.001}
    slower = cell("rel_rnn", 500, success=9000, rate=0.0005, accuracy=0.999)  # none is printed: the sooner one counts
    assert {run.recipe.rate for run in best_recipe(runs(slower, REL_SUCCEEDS))} == {0.001}


def test_a_training_that_large_gradients_froze_is_no_failure():
    frozen = cell("lstm", 500, updates=13500, rate=0.001, inside={"validation_losses": [0.02, 7e17, 7e17, 7e17]})
    found = failure(runs(LSTM_FAILS[0], frozen, REL_SUCCEEDS), "lstm", 500)
    assert not found.reached and found.sentence.endswith("3 of them lost to large gradients")
    assert not any(run.still for run in runs(frozen)) and not settled(runs(frozen)).reached
    one = [frozen[0], *LSTM_FAILS[1][1:]]
    assert "1 of them lost to large gradients" in failure(runs(LSTM_FAILS[0], one, REL_SUCCEEDS), "lstm", 500).sentence
    # negative control: the same loss throughout, within bounds, is a plateau
    assert settled(runs(*LSTM_FAILS)).reached and failure(runs(*LSTM_FAILS, REL_SUCCEEDS), "lstm", 500).reached


def test_a_training_that_fell_back_does_not_stand_still_and_is_no_failure():
    """Such as one that had nearly learnt the task, or one that falls from a height at its end."""
    back = cell("lstm", 500, updates=13500, rate=0.001, falling=[0.0, 0.0, -0.5])
    assert [run.still for run in runs(back)] == [True, True, False] and not settled(runs(back)).reached
    found = failure(runs(LSTM_FAILS[0], back, REL_SUCCEEDS), "lstm", 500)
    assert (found.reached, found.reason) == (False, UNCONVERGED) and found.sentence.endswith(
        "1 of them had fallen back"
    )
    rising = cell("lstm", 500, updates=13500, inside={"validation_losses": [0.5, 0.01, 0.3, 0.2, 0.1, 0.05]})
    assert not any(run.still for run in runs(rising))
    # negative control: the same within 1 %
    near = cell("lstm", 500, updates=13500, falling=-0.005)
    assert all(run.still for run in runs(near)) and settled(runs(near)).reached
    # and a sentence never says that a loss fell which rose
    moving = cell("lstm", 500, updates=13500, falling=[0.2, -0.5, 0.0])
    told = settled(runs(moving)).sentence
    assert (
        told.endswith("1 of them had fallen back, the loss still fell by 20.0% in the last half") and "2 of 3" in told
    )


def test_the_gate_is_open_for_success_and_failure_and_closed_between():
    assert ended(runs(REL_SUCCEEDS), [("rel_rnn", 500)]).reached
    assert ended(runs(*LSTM_FAILS, REL_SUCCEEDS), [("rel_rnn", 500), ("lstm", 500)]).reached
    some = ended(runs(cell("rel_rnn", success=[3000, None, 3000])), [("rel_rnn", 100)])
    assert (some.reached, some.reason) == (False, UNCONVERGED) and "2 of 3 seeds" in some.sentence
    assert ended([], []).reason == UNMET


# --- Table 5 ---


def solved(*records, architecture="rel_rnn", lengths=(100, 200)):
    return statements.judge_solved("kerg-table5", runs(*records), architecture, lengths, part="copies")


def failed(*records, architecture="lstm", lengths=(500, 1000)):
    return statements.judge_failed("kerg-table5", runs(*records), architecture, lengths, part="does not copy")


def test_a_printed_hundred_needs_success_in_every_seed():
    assert solved(cell("rel_rnn", success=3000), cell("rel_rnn", 200, success=4000)) == "agrees"
    assert solved(cell("rel_rnn", success=3000), cell("rel_rnn", 200, success=[4000, 4000, None])) == "undecided"
    assert solved(cell("rel_rnn", success=3000, seeds=2)) == "undecided"
    assert solved() == "undecided"
    assert solved(cell("rel_rnn", updates=4500, accuracy=0.35)) == "undecided"  # a plateau is no failure yet
    # who has had three times the updates of another that succeeds, at all rates, and stands still: it differs
    late = [cell("rel_rnn", updates=4500, rate=rate) for rate in (0.0002, 0.001)]
    assert solved(*late, cell("exp_rnn", success=1500)) == "differs"
    assert solved(*late, cell("exp_rnn", success=1750)) == "undecided"


@pytest.mark.parametrize("options", [{"relevant": 0}, {"select": "random"}])
def test_controls_are_not_taken_for_the_network(options):
    control = cell("rel_rnn", updates=4500, options=options)
    assert solved(control) == "undecided"
    assert solved(cell("rel_rnn", success=3000), control, lengths=(100,)) == "agrees"


def test_a_shorter_row_ends_with_its_best_as_the_others_do():
    rows = statements._padded([[0.5, 0.75, 1.0, 1.0], [0.25, 0.5, 0.5]])
    assert np.array_equal(rows, [[0.5, 0.75, 1.0, 1.0], [0.25, 0.5, np.nan, 0.5]], equal_nan=True)
    assert statements._padded([]) == {}


def test_shuffled_labels_are_no_success():
    shuffled = cell("rel_rnn", updates=1500, labels="shuffled")
    assert runs(shuffled)[0].variant == "labels shuffled"
    assert solved(shuffled) == "undecided"


def test_a_printed_chance_needs_failure_and_chance():
    assert failed(*LSTM_FAILS, REL_SUCCEEDS) == "agrees"
    assert failed(*LSTM_FAILS) == "undecided"
    assert failed(cell("lstm", 500, updates=13500), REL_SUCCEEDS) == "undecided"  # one rate alone
    better = [cell("lstm", 500, updates=13500, accuracy=0.4, rate=rate) for rate in (0.0002, 0.001)]
    assert failed(*better, REL_SUCCEEDS) == "differs"
    assert failed(cell("lstm", 500, success=9000), REL_SUCCEEDS) == "differs"


def test_who_has_learnt_most_in_every_seed_does_not_fail_whether_or_not_training_had_ended():
    def rising(accuracy, seeds=3):
        return failed(cell("lstm", 500, updates=4500, accuracy=accuracy, falling=0.5, seeds=seeds))

    assert rising(0.9) == "differs"
    assert rising([0.9, 0.9, 0.45]) == rising(0.9, seeds=2) == rising(0.45) == rising(0.15) == "undecided"


def test_agreement_is_full_only_by_the_printed_recipes_at_all_delays(monkeypatch):
    said = []
    monkeypatch.setattr(statements, "judge", lambda claim, cases, **asked: said.append(asked["profile"]) or "agrees")
    every = [cell("rel_rnn", delay, success=3000, rate=0.0002) for delay in (100, 200)]
    solved(*every)
    solved(every[0])
    solved(every[0], cell("rel_rnn", 200, success=3000))
    solved(*[cell("rel_lstm", delay, success=3000, rate=0.0002) for delay in (100, 200)], architecture="rel_lstm")
    assert said == ["paper", "laptop", "laptop", "laptop"]


def test_eighty_per_cent_lies_between_chance_and_success():
    def between(accuracies):
        orth = [cell("orth_rnn", 1000, updates=13500, accuracy=accuracies, rate=rate) for rate in (0.0002, 0.001)]
        return statements.judge_between(runs(*orth, cell("exp_rnn", 1000, success=4000)))

    assert between([0.8, 0.78, 0.82]) == "agrees"
    assert between([0.13, 0.12, 0.125]) == "differs"
    assert between([0.8, 0.1, 0.5]) == "undecided"
    assert statements.judge_between(runs(cell("orth_rnn", 1000, success=9000))) == "differs"
    assert statements.judge_between(runs(cell("orth_rnn", 1000, updates=9000, accuracy=0.8))) == "undecided"
    assert statements.judge_between([]) == "undecided"


def test_eighty_per_cent_is_of_seeds_that_were_not_lost(monkeypatch):
    said = {}
    monkeypatch.setattr(statements, "judge", lambda claim, case, **asked: said.update(asked, case=case) or "asked")
    lost = {"validation_losses": [0.02, 0.02, 7e17, 7e17]}

    def between(*inside):
        cell_ = cell("orth_rnn", 1000, updates=1000, accuracy=[0.0, 0.7, 0.8], inside=list(inside))
        statements.judge_between(runs(cell_))
        return said["case"].by_seed, said["note"]

    assert between(lost, {}, {}) == ((0.7, 0.8), "left out: 1 of 3 seeds, lost to large gradients")
    assert between({}, {}, {}) == ((0.0, 0.7, 0.8), "")  # negative control
    assert between(lost, lost, lost)[0] == ()


def test_chance_is_held_against_what_is_printed_for_the_network(monkeypatch):
    said = {}
    monkeypatch.setattr(statements, "judge", lambda claim, rows, **asked: said.update({asked["part"]: asked["paper"]}))
    statements.judge_table5([])
    assert said["LSTM does not copy"] == 0.12 and said["orth-RNN does not copy"] == 0.11


def test_the_whole_table_has_a_part_for_every_network():
    found = statements.judge_table5(runs(*LSTM_FAILS, REL_SUCCEEDS, cell("exp_rnn", success=1000)))
    assert len(found) == 11
    assert found["LSTM does not copy"] == found["RelRNN copies, T beyond 300"] == found["expRNN copies"] == "agrees"
    assert found["LSTM copies"] == found["SAB copies"] == found["orth-RNN does not copy"] == "undecided"


def test_a_network_that_is_lost_at_a_long_delay_has_copied_at_the_short_ones():
    short, lost = cell("rel_rnn", 100, success=3000), cell("rel_rnn", 500, success=[3000, None, 3000])
    found = statements.judge_table5(runs(short, lost))
    assert found["RelRNN copies"] == "agrees" and found["RelRNN copies, T beyond 300"] == "undecided"
    found = statements.judge_table5(runs(short, REL_SUCCEEDS))
    assert found["RelRNN copies"] == found["RelRNN copies, T beyond 300"] == "agrees"
    assert "LSTM copies, T beyond 300" not in found


def _ratios(monkeypatch, pairs):
    """What `_judge_ratio` hands to `judge`, without the numbers that are missing; and that it is a remark."""
    said = {}
    with monkeypatch.context() as patched:
        patched.setattr(statements, "judge", lambda claim, rows, **asked: said.update(asked, rows=rows))
        statements._judge_ratio([], pairs, part="updates", at_least=1.0, explanation="")
    assert said["remark"]
    return [[float(number) for number in row if not np.isnan(number)] for row in said["rows"]]


def test_ratios_are_of_trainings_that_succeeded(monkeypatch):
    lost = runs(cell("rel_rnn", 500, success=[None, 4000, 6000], updates=2500))
    fast = runs(cell("exp_rnn", 500, success=[3000, 2000, 2000]))
    assert _ratios(monkeypatch, {"T = 500": (lost, fast)}) == [[2.0, 3.0, 2.0]]  # not 2500 / 3000
    nobody = runs(cell("rel_rnn", 500, updates=2500))
    assert _ratios(monkeypatch, {"T = 500": (nobody, fast)}) == [[]]
    assert statements._judge_ratio([], {"T = 500": (nobody, fast)}, part="a", at_least=1, explanation="") == "undecided"
    # seeds that the two do not share leave a case incomplete, and not out
    apart = {"T = 100": (fast, fast), "T = 500": (fast[:2], runs(cell("exp_rnn", 500, success=2000))[2:])}
    assert statements._judge_ratio([], apart, part="b", at_least=1, explanation="") == "undecided"
    assert statements._judge_ratio([], {"T = 500": (fast, fast)}, part="c", at_least=1, explanation="") == "agrees"


def test_updates_of_the_longest_delay_over_those_of_the_shortest(monkeypatch):
    def ratio(long):
        short = cell("rel_rnn", 100, success=[3000, 3250, 3000])
        return statements.judge_length_and_speed(runs(short, long))

    assert ratio(cell("rel_rnn", 500, success=[4000, 4500, 5000])) == "agrees"
    assert ratio(cell("rel_rnn", 500, success=[9000, 9500, 8000])) == "differs"
    assert ratio(cell("rel_rnn", 500, success=[9000, 3000, 3000])) == "undecided"
    assert ratio(cell("rel_rnn", 500, success=[4000, None, 4000])) == "undecided"
    assert ratio([]) == "undecided"
    # half the rate takes twice the updates at any delay: only trainings by one recipe are compared
    half = [cell("rel_rnn", delay, success=updates, rate=0.0005) for delay, updates in ((100, 6000), (500, 8000))]
    lost = [cell("rel_rnn", 100, success=3000), cell("rel_rnn", 500, success=[4000, None, 4000])]
    assert statements.judge_length_and_speed(runs(*lost, *half)) == "agrees"
    assert statements.judge_length_and_speed(runs(*lost, half[0])) == "undecided"
    # a training that did not succeed has no updates to success, and no ratio
    one = statements._by_one_recipe(*(runs(some) for some in (lost[1], lost[0])))
    assert _ratios(monkeypatch, {"T = 500 over 100": one}) == [[4 / 3, 4 / 3, 4 / 3]]
    # negative control: an LSTM, whose updates grow with the delay, in the place of RelRNN
    lstm = [cell("rel_rnn", 100, success=2000), cell("rel_rnn", 500, success=12000)]
    assert statements.judge_length_and_speed(runs(*lstm)) == "differs"


def test_exprnn_is_sooner_than_relrnn():
    rel = cell("rel_rnn", success=[3000, 3250, 2750])
    assert statements.judge_speed_of_copying(runs(rel, cell("exp_rnn", success=500))) == "agrees"
    assert statements.judge_speed_of_copying(runs(rel, cell("exp_rnn", success=4000))) == "differs"
    assert statements.judge_speed_of_copying(runs(rel)) == "undecided"


def test_memory_of_training_is_quadratic_with_full_attention_and_linear_with_screening():
    delays = [25, 50, 100, 200]
    sizes = {name: bytes_by_delay(name, delays, width=8) for name in ("mem_rnn", "rel_rnn")}
    found = statements.judge_memory(sizes)
    assert found["full attention"] == found["screening"] == "agrees"
    # negative controls: the one in the place of the other
    swapped = statements.judge_memory({"mem_rnn": sizes["rel_rnn"], "rel_rnn": sizes["mem_rnn"]})
    assert set(swapped.values()) == {"differs"}


# --- denoise ---


def test_denoise_is_learnt_by_screening():
    rel = cell("rel_rnn", task="denoise", success=[5000, 6000, 7000])
    lstm = [cell("lstm", task="denoise", updates=27000, rate=rate) for rate in (0.0002, 0.001)]
    goru = cell("goru", task="denoise", updates=27000)
    found = statements.judge_denoise(runs(rel, *lstm, goru))
    assert found["RelRNN denoises"] == "agrees" and found["expRNN denoises"] == "undecided"
    # negative control: with first come, never replaced, in the place of screening nothing agrees
    first = cell("rel_rnn", task="denoise", updates=9000, options={"select": "first"})
    found = statements.judge_denoise(runs(first, *lstm, goru))
    assert set(found.values()) == {"undecided"}
    # and a network that stands still at both rates, three times as long as another that learns, differs
    still = [cell("rel_rnn", task="denoise", updates=27000, rate=rate) for rate in (0.0002, 0.001)]
    mem = cell("mem_rnn", task="denoise", success=[5000, 6000, 7000])
    assert statements.judge_denoise(runs(*still, mem))["RelRNN denoises"] == "differs"


@pytest.mark.parametrize(("accuracy", "would"), [(0.125, "would agree"), (0.9, "would differ")])
def test_curves_that_cannot_be_read_decide_nothing_and_are_remarks(accuracy, would, monkeypatch):
    """Whatever LSTM and GORU do; what they do is told."""
    said = {}
    monkeypatch.setattr(claims, "_record", lambda verdict: said.update({verdict.part: verdict}))
    rel = cell("rel_rnn", task="denoise", success=[5000, 6000, 7000])
    goru = cell("goru", task="denoise", updates=27000, accuracy=accuracy)
    assert statements.judge_denoise(runs(rel, goru))["GORU does not denoise"] == "undecided"
    told = said["GORU does not denoise"]
    assert told.remark and "cannot be read in our copy" in told.sentence and would in told.sentence
    assert not said["RelRNN denoises"].remark and said["LSTM does not denoise"].remark


# --- Fig. 3 ---


def steepness(law, delay=400, sizes=((15, 3), (15, 8), (15, 15), (15, 25), (3, 15), (25, 15)), **said):
    """RelLSTMs whose gradients fall by law(buffer, relevant, seed) nats per 100 steps."""
    found = []
    for buffer, relevant in sizes:
        slopes = [law(buffer, relevant, seed) for seed in range(3)]
        inside = [gradients(lambda d, m=m: -m * d / 100, delay + 20) for m in slopes]
        options = {"buffer": buffer, "relevant": relevant}
        ending = {"success": 5000} | said
        found += cell("rel_lstm", delay, task="denoise", options=options, inside=inside, **ending)
    return runs(found)


def by_set(buffer, relevant, seed):
    return (2.0 if relevant == 3 else 0.5) + 0.05 * seed + 0.001 * buffer


def test_the_slope_is_that_of_the_line_beyond_buffer_and_recall():
    def bent(distance):
        return np.where(distance <= 25, -50.0, -1.5 * distance / 100)

    record = cell("rel_lstm", 400, options={"buffer": 15, "relevant": 3}, inside=gradients(bent, 420))
    assert measures.slope(runs(record)[0]) == pytest.approx(-1.5)
    plain = runs(cell("lstm", 400, inside=gradients(lambda d: -3 * d / 100, 420)))[0]
    assert measures.slope(plain) == pytest.approx(-3.0) and measures.slope(plain, "before") == 0.0


def test_small_sets_leave_steeper_gradients():
    assert inner_statements.judge_set_size(steepness(by_set)) == "agrees"
    assert inner_statements.judge_set_size(steepness(lambda b, r, s: 1.0 + 0.05 * s + (r > 8))) == "differs"
    mixed = steepness(lambda b, r, s: (2.0 if r == 3 else 0.5) * (1 if s else -0.1))
    assert inner_statements.judge_set_size(mixed) == "undecided"
    # negative controls: before training; trainings that still move; memories of more than a third of the delay
    assert inner_statements.judge_set_size(steepness(by_set), when="before") == "differs"
    assert inner_statements.judge_set_size(steepness(by_set, success=None, falling=0.1)) == "undecided"
    assert inner_statements.judge_set_size(steepness(by_set, delay=60)) == "undecided"


def test_the_buffer_matters_less_than_the_set():
    assert inner_statements.judge_buffer_size(steepness(by_set)) == "agrees"
    assert inner_statements.judge_buffer_size(steepness(lambda b, r, s: by_set(r, b, s))) == "differs"
    assert inner_statements.judge_buffer_size(steepness(by_set, sizes=((15, 3), (15, 8)))) == "undecided"


# --- heat maps ---


def looks(*, task="denoise", architecture="rel_rnn", number="on_symbols", **shares):
    inside = attention(**({"before": 0.05, "after": 0.6} | shares))
    return inner_statements.judge_heat_maps(runs(cell(architecture, task=task, success=5000, inside=inside)), number)


def test_trained_networks_look_at_the_symbols():
    assert looks() == "agrees"
    assert looks(after=0.05) == "differs"  # negative control: as untrained
    assert looks(after=0.14) == "differs"
    assert looks(number="set_at_cue", held=0.9, held_before=0.1) == "agrees"
    assert looks(number="set_at_cue", held=0.2, held_before=0.1) == "differs"


def test_where_the_symbols_are_there_before_training_nothing_can_be_three_times_as_much():
    assert looks(task="copy", before=0.48, after=0.95) == "undecided"
    assert looks(held=None, held_before=None) == "undecided"  # without a relevant set


@pytest.mark.parametrize(("after", "remark"), [(0.6, "reduced"), (0.05, "differs")])
def test_the_claim_on_maps_is_undecided_whatever_the_remarks_find(after, remark, monkeypatch):
    """The captions state nothing that could differ: a part that is no remark says so."""
    parts = []

    def keep(verdict):
        parts.append({"part": verdict.part, "outcome": verdict.outcome, "sentence": verdict.sentence} | verdict.facts)

    monkeypatch.setattr(claims, "_record", keep)
    assert inner_statements.leave_maps_open() == "undecided"
    looks(after=after)
    looks(number="set_at_cue", held=after, held_before=0.05)
    row = Row(find("kerg-heatmaps"), tuple(parts))
    assert [part["outcome"] for part in parts] == ["undecided", remark, remark]
    assert row.status == "undecided" and row.decisive["part"] == "what the maps show"
    assert row.decisive["reason"] == UNMET and "state nothing that could differ" in row.decisive["sentence"]
    assert Row(find("kerg-heatmaps"), tuple(parts[1:])).status == remark  # negative control: without that part


def test_other_times_are_not_looked_at():
    run = runs(cell("rel_rnn", inside=attention(0.05, 0.6)))[0]
    assert measures.looking(run) == pytest.approx(12.0)
    assert measures.looking(run, control="on_other_times") == pytest.approx(1.0)
    assert inner_statements.LOOKING > 1.0


def test_every_network_of_the_table_that_is_built_has_a_name():
    assert {"lstm", "orth_rnn", "exp_rnn", "mem_rnn", "rel_rnn", "rel_lstm"} <= set(ARCHITECTURES)
    assert all(of_network(runs(cell(name)), name, 100) for name in statements.TABLE5 if name in ARCHITECTURES)
