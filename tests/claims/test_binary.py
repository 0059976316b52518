"""The claims about networks on binary sequences, judged as the chapters do, in worlds where they hold and fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from experiments.binary_sequences.runs import Networks, of_network, trained_runs
from experiments.binary_sequences.seed_tables import (
    Laws,
    factor_off_law,
    growth,
    growth_with_and_without,
    length_table,
    place_between,
    ratio_to_law,
)
from lib.information import fit_exponential
from lib.models import create
from lib.processes import PowerLawBinary
from lib.report import claims
from lib.report.verdicts import decide, judge
from tests.experiments.binary_sequences.fake_records import Curve, exponential, power_law, record

WIDTHS, DEPTHS, SEEDS = [1, 2, 4, 8, 16, 32, 64], [1, 2, 3], 3
LAGS = np.arange(1, 512)
LAW = PowerLawBinary(512).mutual_information(LAGS)

RNN = {width: 10 + 20 * np.log(width) for width in WIDTHS} | {64: 85.0}
LSTM = {1: 20, 2: 60, 4: 120, 8: 180, 16: 230, 32: 290, 64: 320}


def across(curve: Callable[[int, int], Curve], sizes: list[int], architecture: str = "rnn", axis: str = "width") -> Any:
    """Networks along one axis with a curve for every size and seed."""
    fixed = {"depth": 1} if axis == "width" else {"width": 8}
    records = [record(curve(size, seed), architecture, seed=seed, **{axis: size}, **fixed)
               for size in sizes for seed in range(SEEDS)]  # fmt: skip
    return of_network(trained_runs(records), architecture, depth=None)


def lengths(xi: dict[int, float], axis: str = "width", odd: dict[tuple[int, int], float] | None = None) -> np.ndarray:
    """The chapter's table of lengths, from curves with these lengths; `odd` replaces single ones by (size, seed)."""

    def curve(size: int, seed: int) -> Curve:
        return exponential((odd or {}).get((size, seed), xi[size] * (1 + 0.02 * seed)))

    return length_table(across(curve, list(xi), axis=axis), list(xi), SEEDS, axis)


def law_signs(networks: Networks, sizes: list[int], seeds: int) -> np.ndarray:
    (name,) = {network.architecture for network in networks}
    return Laws(name, sizes)({name: networks}, seeds)


def says(values: Any, **bounds: float) -> str:
    return decide(np.atleast_2d(values), **bounds).found


def refused(claim: str, values: Any, **bounds: float) -> None:
    """What the chapter would record as agreement is refused by the check itself."""
    with pytest.raises(claims.ClaimFailed):
        claims.check(claim, np.asarray(values)[~np.isnan(values)], outcome="reduced", **bounds)


def test_exponential_networks_are_found_exponential_and_power_laws_refuse_the_claim() -> None:
    table = law_signs(across(lambda width, seed: exponential(RNN[width] + seed), WIDTHS), WIDTHS, SEEDS)
    assert says(table, at_most=-1, gap=1.5) == "agrees"
    wrong = law_signs(across(lambda width, seed: power_law(0.4 + 0.1 * seed), WIDTHS), WIDTHS, SEEDS)
    assert says(wrong, at_most=-1, gap=1.5) == "differs"
    refused("shen-fig1a", wrong, at_most=-1)
    refused("shen-fig1b", wrong[:3], at_most=-1)
    mixed = law_signs(
        across(lambda width, seed: power_law() if (width, seed) == (8, 1) else exponential(50), WIDTHS), WIDTHS, SEEDS
    )
    assert says(mixed, at_most=-1, gap=1.5) == "undecided"  # one seed flips nothing
    refused("shen-fig1a", mixed, at_most=-1)


def test_a_width_without_runs_leaves_the_statement_about_every_width_unresolved() -> None:
    table = law_signs(across(lambda width, seed: exponential(50), WIDTHS[:-1]), WIDTHS, SEEDS)
    assert np.isnan(table[-1]).all()
    assert says(table, at_most=-1, gap=1.5) == "undecided"


def test_curves_that_are_told_from_a_power_law_refuse_that_they_are_hard_to_tell() -> None:
    near = law_signs(across(lambda width, seed: power_law(), WIDTHS[4:]), WIDTHS[4:], SEEDS)
    assert says(near, at_least=0) == "agrees"
    far = law_signs(across(lambda width, seed: exponential(300), WIDTHS[4:]), WIDTHS[4:], SEEDS)
    assert says(far, at_least=0) == "differs"
    refused("shen-fig1b", far, at_least=0)
    for bound in (0, 1):
        refused("shen-fig3a", far, at_least=bound)


def test_too_much_at_short_range_is_refused_for_the_law_itself_times_nine_tenths() -> None:
    def world(factor: float) -> np.ndarray:
        networks = across(lambda depth, seed: lambda lags: factor * LAW[lags - 1], [2], axis="depth")
        return ratio_to_law(networks, [2], SEEDS, LAW, 2, 10, "depth")

    assert says(world(1.1), at_least=1) == "agrees"
    np.testing.assert_allclose(world(1.1), 1.1, rtol=0.02)
    assert says(world(0.9), at_least=1) == "differs"
    refused("shen-fig1a", world(0.9), at_least=1)
    refused("shen-fig3a", world(1.1), at_most=1)
    refused("shen-fig9", world(0.9), at_least=1)


def off_law(curve: Curve) -> np.ndarray:
    networks = across(lambda width, seed: curve, [16], "transformer")
    return factor_off_law(networks, [16], SEEDS, LAW, 256)


def test_matching_the_data_is_asked_of_every_octave_of_lags() -> None:
    for factor in (0.9, 1.1):
        near = off_law(lambda lags, factor=factor: factor * LAW[lags - 1])
        np.testing.assert_allclose(near, max(factor, 1 / factor), rtol=0.02)
        assert says(near, at_most=1.25) == "agrees"
    for wrong in (0.7, 1.4):
        refused("shen-fig3a", off_law(lambda lags, wrong=wrong: wrong * LAW[lags - 1]), at_most=1.25)
    for first, last in ((1, 1), (2, 2), (3, 4), (5, 8), (65, 128), (129, 256)):
        inside = (LAGS >= first) & (LAGS <= last)
        odd = off_law(lambda lags, inside=inside: np.where(inside, 1.5, 1.0)[lags - 1] * LAW[lags - 1])
        np.testing.assert_allclose(odd, 1.5, rtol=0.02)  # one octave is enough
        assert says(odd, at_most=1.25) == "differs"
    beyond = off_law(lambda lags: np.where(LAGS > 256, 0.1, 1.0)[lags - 1] * LAW[lags - 1])
    assert says(beyond, at_most=1.25) == "agrees"
    assert says(off_law(lambda lags: 0 * lags + 1e-12), at_most=1.25) == "differs"


def test_symbols_without_memory_whose_frequency_fluctuates_do_not_match_the_data() -> None:
    """A one has probability 1/2 + s in half of the sequences and 1/2 - s in the others: the same law at all lags."""
    s = 0.21
    alike, other = 1 / 4 + s**2, 1 / 4 - s**2
    level = 2 * alike * np.log(4 * alike) + 2 * other * np.log(4 * other)

    def flat(lags: np.ndarray) -> np.ndarray:
        return np.full(len(lags), level)

    networks = across(lambda width, seed: flat, [16], "transformer")
    assert says(ratio_to_law(networks, [16], SEEDS, LAW, 1, 256), at_least=0.8, at_most=1.25) == "agrees"  # the mean
    assert says(off_law(flat), at_most=1.25) == "differs"
    refused("shen-fig3a", off_law(flat), at_most=1.25)


def test_the_baseline_of_the_training_set_is_that_of_its_window_and_exponent() -> None:
    claims.check("shen-fig1c", fit_exponential(LAGS, LAW).correlation_length, 420, 20, part="test")
    for exponent, last in ((0.5, 511), (0.3, 511), (0.4, 255)):
        wrong = fit_exponential(LAGS[:last], 0.1 * LAGS[:last] ** -exponent).correlation_length
        with pytest.raises(claims.ClaimFailed):
            claims.check("shen-fig1c", wrong, 420, 20, part="test")


def test_growth_like_the_logarithm_of_the_width_is_told_from_growth_like_the_width() -> None:
    sizes = WIDTHS[:6]
    slope, nearer = growth(sizes, lengths({w: RNN[w] for w in sizes}))
    assert says(slope, at_least=0) == says(nearer, at_least=0) == "agrees"
    np.testing.assert_allclose(slope[0], 20, rtol=0.02)
    linear = lengths({w: 5.0 + 3 * w for w in sizes})
    falling = lengths({w: 200 / (1 + np.log(w)) for w in sizes})
    assert says(growth(sizes, linear)[1], at_least=0) == "differs"
    assert says(growth(sizes, falling)[0], at_least=0) == "differs"
    refused("shen-fig1c", growth(sizes, linear)[1], at_least=0)
    refused("shen-fig1c", growth(sizes, falling)[0], at_least=0)
    gap = growth(sizes, lengths({w: RNN[w] for w in sizes[:-1]}).repeat(2, axis=0)[:6] * np.nan)
    assert np.isnan(gap).all()
    with pytest.raises(ValueError, match="at least 3 sizes"):
        growth([1, 2], np.ones((2, 3)))


def test_a_length_that_stops_growing_at_the_second_width_does_not_grow_with_the_logarithm() -> None:
    sizes, random = WIDTHS[:6], np.random.default_rng(0)
    step = np.array([30.0, 100, 100, 100, 100, 100])[:, None] * np.exp(0.05 * random.standard_normal((6, 3)))
    step = np.hstack([step, step[:, :1]])
    for whole, both in zip(growth(sizes, step), growth_with_and_without(sizes, step), strict=True):
        assert says(whole, at_least=0) == "agrees"  # by width 1 alone
        assert says(both, at_least=0) == "undecided"
        refused("shen-fig1c", both, at_least=0)
    right, linear, falling = (
        growth_with_and_without(sizes, lengths({w: xi(w) for w in sizes}))
        for xi in (RNN.get, lambda w: 5.0 + 3 * w, lambda w: 200 / (1 + np.log(w)))
    )
    assert says(right[0], at_least=0) == says(right[1], at_least=0) == "agrees"
    assert says(linear[1], at_least=0) == says(falling[0], at_least=0) == "differs"
    table = lengths({w: RNN[w] for w in sizes}, odd={(2, 1): 90.0})
    slopes, nearer = growth_with_and_without(sizes, table)
    columns = [table[:, 0], table[1:, 0]]
    expected = [np.polyfit(np.log(sizes[skipped:]), column, 1)[0] for skipped, column in enumerate(columns)]
    np.testing.assert_allclose(slopes[[0, SEEDS]], expected)  # both ways of the first seed
    assert len(slopes) == len(nearer) == 2 * (SEEDS + 1) and slopes[-1] <= slopes[-2]
    table[3, 0] = np.nan
    assert says(growth_with_and_without(sizes, table)[0], at_least=0) == "undecided"  # two seeds are too few
    assert np.isnan(growth_with_and_without(sizes, table)).all()


def test_saturation_is_refused_where_the_length_goes_on_growing() -> None:
    flat, steep = lengths(RNN), lengths(RNN | {64: 2 * RNN[32]})
    assert says(flat[6] / flat[5], at_most=1.25) == "agrees"
    assert says(steep[6] / steep[5], at_most=1.25) == "differs"
    refused("shen-fig1c", steep[6] / steep[5], at_most=1.25)
    assert says(flat[5:], at_least=70, at_most=130) == "agrees"
    refused("shen-fig1c", steep[5:], at_least=70, at_most=130)


def test_lstms_that_are_as_short_as_rnns_refuse_that_they_are_longer() -> None:
    short, long = lengths(RNN), lengths(LSTM)
    assert says(long[2] / short[5], at_least=1) == "agrees"
    assert says(long[2:] / short[2:], at_least=2) == "agrees"
    assert says(long, at_most=350) == "agrees"
    refused("shen-fig1c", short[2] / short[5], at_least=1)
    refused("shen-fig1c", 1.9 * short[2:] / short[2:], at_least=2)
    refused("shen-fig1c", lengths(LSTM | {64: 380}), at_most=350)
    one = lengths(LSTM, odd={(4, 1): 30.0})  # a single seed that failed
    assert says(one[2] / short[5], at_least=1) == "undecided"


def test_transformers_shorter_than_the_window_or_than_lstms_refuse_that_they_overestimate() -> None:
    of_window = fit_exponential(LAGS, LAW).correlation_length
    near, long = lengths({16: 440.0}), lengths(LSTM)
    assert says(near / of_window, at_least=1) == "agrees"
    assert says(near[0] / np.nanmax(long, axis=0), at_least=1) == "agrees"
    refused("shen-fig9", lengths({16: 380.0}) / of_window, at_least=1)
    refused("shen-fig9", lengths({16: 300.0})[0] / np.nanmax(long, axis=0), at_least=1)


def moved_by_order(depth: int, positions: str) -> float:
    """Largest change of a probability of the next symbol when two earlier symbols change places, over all pairs."""
    network = create("transformer", 4, 8, depth, positions=positions, seed=2).double()
    row = [0, 1, 2, 3, 0, 2, 1]
    rows = [row]
    for i in range(len(row) - 1):
        for j in range(i):
            other = list(row)
            other[i], other[j] = row[j], row[i]
            rows.append(other)
    with torch.no_grad():
        laws = network(torch.tensor(rows))[:, -1].softmax(dim=-1)
    return float((laws - laws[0]).abs().max())


def test_order_is_unseen_by_one_layer_without_positions_and_by_no_other_network() -> None:
    claims.check("shen-distance", moved_by_order(1, "none"), at_most=1e-12, part="test")
    false = {"outcome": "false", "erratum": 13, "note": "one layer survives"}
    for depth, positions in ((2, "none"), (3, "none"), (1, "sinusoidal"), (1, "rotary")):
        moved = moved_by_order(depth, positions)
        assert moved > 1e-3
        with pytest.raises(claims.ClaimFailed):
            claims.check("shen-distance", moved, at_most=1e-12, part="test")
        claims.check("shen-distance", moved, at_most=1e-12, part="test", **false)
    with pytest.raises(claims.ClaimFailed, match="agrees with the paper"):  # one layer is no counterexample
        claims.check("shen-distance", moved_by_order(1, "none"), at_most=1e-12, part="test", **false)


def test_a_head_that_weighs_all_alike_counts_places_by_a_mark_at_the_beginning() -> None:
    values = torch.tensor([1.0, 0, 0, 0, 0, 0], dtype=torch.float64)
    mask = torch.ones(6, 6, dtype=torch.float64).tril()
    torch.testing.assert_close((mask / mask.sum(1, keepdim=True)) @ values, 1 / torch.arange(1, 7, dtype=torch.float64))


def test_depth_that_shortens_bends_or_lengthens_refuses_its_claims() -> None:
    linear, bent, falling = (
        lengths(dict(zip(DEPTHS, xi, strict=True)), "depth") for xi in ((30, 60, 95), (30, 80, 85), (60, 50, 40))
    )
    assert says(np.diff(linear, axis=0), at_least=0) == "agrees"
    assert says(place_between(linear), at_least=0.25, at_most=0.75) == "agrees"
    assert says(place_between(bent), at_least=0.25, at_most=0.75) == "differs"
    assert says(np.diff(falling, axis=0), at_least=0) == "differs"
    refused("shen-fig1d", np.diff(falling, axis=0), at_least=0)
    refused("shen-fig1d", place_between(bent), at_least=0.25, at_most=0.75)
    assert says(bent[2] / bent[1], at_most=1.1) == "agrees"
    assert says(linear[2] / linear[1], at_most=1.1) == "differs"
    refused("shen-fig1d", linear[2] / linear[1], at_most=1.1)
    wide = lengths({16: 60.0})
    assert says(linear[2:] / wide, at_least=1) == "agrees"
    assert says(falling[2:] / wide, at_least=1) == "differs"
    refused("shen-depth", falling[2:] / wide, at_least=1)


@pytest.mark.parametrize("profile", ["laptop", "paper"])
def test_the_outcome_of_a_judgement_is_that_of_the_check(profile: str, capsys: pytest.CaptureFixture) -> None:
    judge("shen-fig1d", np.array([1.0, 1.0, 1.0, 1.0]), at_most=1.1, part="p", profile=profile, explanation="e")
    judge("shen-fig1d", np.array([2.0, 1.5, 1.2, 1.2]), at_most=1.1, part="q", profile=profile, explanation="too long")
    judge("shen-fig1d", np.array([2.0, 1.0, 1.2, 1.2]), at_most=1.1, part="r", profile=profile, explanation="e")
    first, second, third = capsys.readouterr().out.splitlines()
    assert ("at reduced scale" in first) is (profile == "laptop") and "holds" in first
    assert "differs" in second and "too long" in second
    assert "ran, undecided" in third and "seeds disagree: 3 values in [1, 2]" in third
