"""Records of binary sequences: sorted by network, reduced to numbers, and judged so that no seed flips a verdict."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.binary_sequences import tables
from experiments.binary_sequences.decay import grouped_curve
from experiments.binary_sequences.runs import Network, best, law, network_of, of_network, trained_runs
from experiments.binary_sequences.seed_tables import correlation_lengths
from lib.information import auto_mutual_information
from lib.processes import PowerLawBinary
from tests.experiments.binary_sequences.fake_records import diverged, exponential, power_law, record


def test_settings_of_the_family_make_no_variant_and_all_others_do() -> None:
    assert network_of(record(exponential(10), "lstm", 4, 2)) == Network("lstm", 4, 2)
    assert network_of(record(exponential(10), fit={"epochs": 7, "patience": 3})).variant == ""
    assert network_of(record(exponential(10), "lstm", options={"forget_bias": 1.0})).variant == "forget bias 1.0"
    both = record(exponential(10), "lstm", options={"forget_bias": 1.0}, fit={"clip_by": "value"})
    assert network_of(both).variant == "clip by value, forget bias 1.0"
    assert network_of(record(exponential(10), fit={"learning_rate": 0.5})).variant == "learning rate 0.5"
    assert str(Network("rnn", 8, 2)) == "8×2"
    assert str(Network("lstm", 8, 1, "clip by value")) == "8, clip by value"


def test_runs_are_grouped_by_network_in_order_and_diverged_ones_left_out() -> None:
    records = [record(exponential(10), width=w, depth=d, seed=s) for s in (1, 0) for w, d in ((16, 1), (2, 1), (8, 2))]
    records += [record(exponential(10), "lstm", 2), diverged(width=2, seed=2)]
    runs = trained_runs(records)
    assert [(n.width, [run.seed for run in group]) for n, group in of_network(runs, "rnn").items()] == [
        (2, [0, 1]),
        (16, [0, 1]),
    ]
    assert [str(n) for n in of_network(runs, "rnn", depth=None)] == ["2", "16", "8×2"]
    assert [str(n) for n in of_network(runs, "rnn", width=8, depth=None)] == ["8×2"]
    assert of_network(runs, "mamba") == {}
    assert {run.sequences for run in runs} == {2000}
    lost = next(run for run in runs if not run.generated)
    assert lost.validation_loss == np.inf and not lost.converged


def test_the_best_seed_has_the_smallest_validation_loss() -> None:
    runs = trained_runs(record(exponential(10 + s), seed=s, loss=loss) for s, loss in enumerate((0.52, 0.50, 0.51)))
    assert best(runs).seed == 1
    with pytest.raises(ValueError, match="at least one"):
        best([])


def test_lengths_are_those_of_the_curves() -> None:
    records = [record(exponential(5.0 * w), width=w, seed=s, loss=1 - s, noise=1e-9) for w in (2, 4, 8) for s in (0, 2)]
    found = correlation_lengths(of_network(trained_runs(records), "rnn"))
    assert np.array_equal(found.sizes, [2, 4, 8])
    np.testing.assert_allclose(found.best, [10, 20, 40], rtol=1e-6)
    assert np.all(np.isnan(found.seeds[:, 1]))
    np.testing.assert_allclose(found.seeds[:, [0, 2]], np.outer([10, 20, 40], [1, 1]), rtol=1e-6)
    assert np.all(found.textbook[:, 0] <= found.best) and np.all(found.sampling[:, 1] >= found.best)
    with pytest.raises(ValueError, match="at least one"):
        correlation_lengths({})


def test_a_network_follows_a_law_only_if_all_its_seeds_do() -> None:
    def named(*curves: object) -> str:
        return law(trained_runs(record(curve, seed=s) for s, curve in enumerate(curves)))

    assert named(exponential(50), exponential(60), exponential(40)) == "exponential"
    assert named(power_law(), power_law(0.5), power_law(0.6)) == "power law"
    assert named(exponential(50), exponential(60), power_law()) == "undecided"
    assert named() == "undecided"


def test_a_curve_below_the_floor_has_neither_length_nor_law() -> None:
    (run,) = trained_runs([record(exponential(50, 5e-4))])
    assert np.isnan(run.measured.xi) and run.measured.comparisons == () and run.measured.sign == 0
    lengths = correlation_lengths(of_network([run], "rnn"))
    assert np.isnan(lengths.best[0]) and np.isnan(lengths.sampling).all()


def test_a_grouped_curve_is_measured_as_the_estimator_does() -> None:
    sequences = PowerLawBinary(64).sample(90, 0)
    found = grouped_curve(sequences, [1, 5, 20], 3)
    np.testing.assert_array_equal(found.curve, auto_mutual_information(sequences, np.arange(1, 64)))
    np.testing.assert_array_equal(found.groups[1], auto_mutual_information(sequences[30:60], [1, 5, 20]))
    with pytest.raises(ValueError, match="3 to 90 groups"):
        grouped_curve(sequences, [1, 2], 91)


def test_tables_say_what_the_runs_are() -> None:
    records = [record(exponential(20 + seed), "lstm", 4, seed=seed, loss=0.5 + 0.01 * seed) for seed in range(3)]
    records[0]["result"]["reason"] = "all epochs done"
    records[0]["result"]["validation_losses"] = [0.6, 0.55, 0.54, 0.53, 0.52]
    found = of_network(trained_runs(records), "lstm")
    row = tables.training_table(found).splitlines()[2]
    assert [cell.strip() for cell in row.strip("|").split("|")] == [
        "LSTM 4", "16", "3", "2", "0.5100 to 0.5200", "30.00"]  # fmt: skip
    assert "exponential, exponential, exponential | exponential" in tables.law_table(found)
    assert "| as everywhere else | 3 |" in tables.choice_table(found)
    assert "| 20 to 22 |" in tables.choice_table(found)
    lengths = tables.length_table(found).splitlines()[2].split("|")
    assert float(lengths[2]) == pytest.approx(21, abs=0.5) and len(lengths[5].split(",")) == 3
    lost = of_network(trained_runs([record(exponential(50, 5e-4))]), "rnn")
    assert tables.length_table(lost).splitlines()[2] == "| RNN 8 | nan | – | – | nan |"
