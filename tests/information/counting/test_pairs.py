"""Auto-mutual information: every kernel against a loop over pairs, on random alphabets, shapes, lags and types."""

from __future__ import annotations

import tracemalloc
import warnings
from collections import Counter

import mpmath
import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.information import auto_mutual_information, mutual_information, pair_counts
from lib.information.counting import pairs as counting_module
from lib.information.counting.bits import BitCounts
from lib.information.counting.dense import TABLED_COUNTS, _dense, series_coefficients, tabulated_weights, weight
from lib.information.counting.pairs import choose_kernel, pair_sums, relabel
from lib.information.counting.sparse import SparseCounts
from lib.information.estimators import ESTIMATORS, entropy_from_sums
from lib.information.two_point import checked_lags

NAMES = list(ESTIMATORS)
Symbols = npt.NDArray[np.int64]


@st.composite
def rows_of_symbols(draw: st.DrawFn, largest_alphabet: int = 40) -> Symbols:
    """Rows of any shape up to about 600 symbols; frequencies uneven, values far apart."""
    rows, length = draw(st.integers(1, 6)), draw(st.integers(1, 150))
    size, seed = draw(st.integers(1, largest_alphabet)), draw(st.integers(0, 2**31))
    random = np.random.default_rng(seed)
    values = random.choice(10**6, size=size, replace=False) - 5 * 10**5
    return values[np.floor(size * random.random((rows, length)) ** 2).astype(int)]


def plain_curve(rows, lags, estimator="grassberger2003"):
    """The definition: the table of every lag, and its information."""
    return np.array([mutual_information(pair_counts(rows, lag), estimator) for lag in lags])


def pairs_by_loop(rows: Symbols, lag: int) -> Counter[tuple[int, int]]:
    return Counter((int(a), int(b)) for row in rows for a, b in zip(row, row[lag:], strict=False))


def information_by_loop(rows: Symbols, lag: int, estimator: str) -> float:
    pairs = pairs_by_loop(rows, lag)
    first, second = (sorted({pair[side] for pair in pairs}) for side in (0, 1))
    return mutual_information([[pairs[a, b] for b in second] for a in first], estimator)


def information_by_kernel(
    rows: Symbols, lags: Symbols, estimator: str, kernel: str, workers: int = 1
) -> npt.NDArray[np.float64]:
    rule = ESTIMATORS[estimator]
    sums, cells = pair_sums(relabel(rows), lags, rule, kernel=kernel, workers=workers, progress=False)
    totals = rows.shape[0] * (rows.shape[1] - lags)
    return entropy_from_sums(totals[:, np.newaxis], sums, cells, rule) @ np.array([1.0, 1.0, -1.0])


@given(rows=rows_of_symbols(), data=st.data(), estimator=st.sampled_from(NAMES))
def test_all_kernels_equal_the_loop_over_pairs(rows: Symbols, data: st.DataObject, estimator: str) -> None:
    lags = np.array(data.draw(st.lists(st.integers(0, rows.shape[1] - 1), min_size=1, max_size=5)))
    expected = [information_by_loop(rows, int(lag), estimator) for lag in lags]
    assert plain_curve(rows, lags, estimator) == pytest.approx(expected, abs=1e-12)
    assert auto_mutual_information(rows, lags, estimator) == pytest.approx(expected, abs=1e-12)
    for kernel in ("dense", "sparse", "bits"):
        assert information_by_kernel(rows, lags, estimator, kernel) == pytest.approx(expected, abs=1e-12), kernel


@given(rows=rows_of_symbols(largest_alphabet=5), data=st.data())
def test_bit_planes_count_every_pair(rows: Symbols, data: st.DataObject) -> None:
    known = relabel(rows)
    lags = np.array(sorted(data.draw(st.sets(st.integers(0, rows.shape[1] - 1), min_size=1, max_size=8))))
    tables = BitCounts(known.symbols, known.size).tables(lags)
    for lag, table in zip(lags, tables, strict=True):
        pairs = pairs_by_loop(known.symbols.astype(np.int64), int(lag))
        assert table.tolist() == [[pairs[a, b] for b in range(known.size)] for a in range(known.size)]


@pytest.mark.parametrize("length", [63, 64, 65, 127, 128, 129, 5000])
def test_bits_at_every_border_of_a_word(length: int) -> None:
    bits = np.random.default_rng(length).integers(0, 2, (3, length))
    lags = np.array([lag for lag in (0, 1, 62, 63, 64, 65, 126, 127, 128, 129, length - 1) if lag < length])
    tables = BitCounts(bits.astype(np.uint8), 2).tables(lags)
    for lag, table in zip(lags, tables, strict=True):
        assert table[1, 1] == np.sum(bits[:, : length - lag] * bits[:, lag:])
        assert table.sum() == 3 * (length - lag)


@pytest.mark.parametrize(
    "dtype", [bool, np.uint8, np.int8, np.uint16, np.int16, np.uint32, np.int32, np.uint64, np.int64]
)
def test_any_integer_type_gives_the_same_curve(dtype: npt.DTypeLike) -> None:
    symbols = np.random.default_rng(1).integers(0, 2 if dtype is bool else 30, 500)
    expected = auto_mutual_information(symbols, [1, 2, 70])
    assert auto_mutual_information(symbols.astype(dtype), [1, 2, 70]) == pytest.approx(expected, abs=0)
    if dtype is not bool:
        limits = np.iinfo(dtype)
        for moved in (limits.max - symbols.astype(dtype), limits.min + symbols.astype(dtype)):
            assert moved.dtype == dtype
            assert auto_mutual_information(moved, [1, 2, 70]) == pytest.approx(expected, abs=1e-13)


@given(rows=rows_of_symbols(), seed=st.integers(0, 1000))
@settings(max_examples=20)
def test_renaming_symbols_and_reordering_rows_changes_nothing(rows: Symbols, seed: int) -> None:
    random = np.random.default_rng(seed)
    lags = np.arange(rows.shape[1])[:7]
    _, codes = np.unique(rows, return_inverse=True)
    renamed = random.permutation(10**9 + np.arange(codes.max() + 1) * 10**12)[codes].reshape(rows.shape)
    expected = auto_mutual_information(rows, lags)
    assert auto_mutual_information(renamed[random.permutation(len(rows))], lags) == pytest.approx(expected, abs=1e-12)


def test_time_reversal_keeps_the_curve() -> None:
    symbols = np.random.default_rng(0).integers(0, 12, (4, 300)).cumsum(axis=1) % 12
    forward = auto_mutual_information(symbols, np.arange(20))
    assert auto_mutual_information(symbols[:, ::-1], np.arange(20)) == pytest.approx(forward, abs=1e-12)


def test_pairs_do_not_cross_rows() -> None:
    """Rows 0101.. know their next symbol; glued together, the seams between unlike rows would count as pairs."""
    rows = np.array([[0, 0, 0], [1, 1, 1], [2, 2, 2]] * 50)
    by_row = auto_mutual_information(rows, [1, 2], "plugin")
    assert by_row == pytest.approx([np.log(3)] * 2, abs=1e-12)
    assert np.all(auto_mutual_information(rows.ravel(), [1, 2], "plugin") < by_row - 0.1), "the negative control"


def test_lag_zero_is_the_entropy_and_a_period_keeps_it() -> None:
    symbols = np.tile([0, 1, 2, 3], 100)
    curve = auto_mutual_information(symbols, [0, 4, 8], "plugin")
    assert curve == pytest.approx([np.log(4)] * 3, abs=1e-12)


def test_pair_counts_keeps_the_order_of_values() -> None:
    assert pair_counts([7, -2, 7, 7, -2], 1).tolist() == [[0, 1], [2, 1]]
    assert pair_counts([[1, 2, 3], [1, 3, 3]], 2).tolist() == [[0, 0, 2], [0, 0, 0], [0, 0, 0]]


def test_marginals_come_from_the_pairs_and_not_from_the_sequence() -> None:
    symbols = np.array([0] * 20 + [1, 2, 3])  # at lag 20 the first symbols are all 0, the second 1, 2, 3
    assert auto_mutual_information(symbols, [20], "plugin") == pytest.approx([0.0], abs=1e-12)


@pytest.mark.parametrize("estimator", NAMES)
def test_series_beyond_the_table_has_full_precision(estimator: str) -> None:
    rule = ESTIMATORS[estimator]
    weights, series = tabulated_weights(rule), series_coefficients(rule)
    assert weights[0] == 0.0
    with mpmath.workdps(40):
        for n in (TABLED_COUNTS, TABLED_COUNTS + 1, 10**5 + 7, 10**7, 10**9 + 1, 2**40 + 1):
            half = mpmath.mpf(1) / 2
            exact = {
                "grassberger2003": mpmath.digamma(n),
                "grassberger2008": mpmath.digamma(n // 2 + half) + mpmath.log(2),
            }.get(estimator, mpmath.log(n))
            assert abs(weight(n, weights, series) / (n * exact) - 1) < 1e-15
    for n in (1, 2, 3, 1000, TABLED_COUNTS - 1):
        assert weight(n, weights, series) == weights[n]


@pytest.mark.parametrize("kernel", ["dense", "sparse", "bits"])
def test_counts_beyond_the_table_in_every_kernel(kernel: str) -> None:
    symbols = (np.random.default_rng(0).random((1, 300_000)) < 0.1).astype(np.int64)
    lags = np.array([1, 100, 2])
    for estimator in NAMES:
        expected = plain_curve(symbols, lags, estimator)
        assert information_by_kernel(symbols, lags, estimator, kernel) == pytest.approx(expected, abs=1e-12)


def test_wide_counters_for_sequences_beyond_four_billion_pairs() -> None:
    """The same kernels with 64-bit tables, as they are used when 32 bits might overflow."""
    known = relabel(np.random.default_rng(0).integers(0, 9, (2, 400)))
    rule, lags = ESTIMATORS["plugin"], np.array([3, 1, 2])
    expected, expected_cells = pair_sums(known, lags, rule, kernel="sparse")
    sums, cells = np.empty((3, 3)), np.empty((3, 3), dtype=np.int64)
    tables, second = np.zeros((2, 81), dtype=np.uint64), np.empty(9, dtype=np.int64)
    _dense(known.symbols, 9, lags, tables, second, tabulated_weights(rule), series_coefficients(rule), sums, cells)
    assert sums == pytest.approx(expected, rel=1e-14)
    assert np.array_equal(cells, expected_cells)
    assert not tables.any(), "tables are left clean for the next pair of lags"


def test_vocabulary_of_a_hundred_thousand_words_in_rows() -> None:
    """Every word about three times: the plug-in information of lag 1 counted by sorting instead."""
    random = np.random.default_rng(5)
    words = random.integers(0, 2**62, 100_000)[random.integers(0, 100_000, (30, 10_000))]
    values = auto_mutual_information(words, [1, 9_000], "plugin")
    for lag, value in zip((1, 9_000), values, strict=True):
        first, second = words[:, :-lag].ravel(), words[:, lag:].ravel()
        _, a = np.unique(first, return_inverse=True)
        _, b = np.unique(second, return_inverse=True)
        weights = [np.unique(codes, return_counts=True)[1] / first.size for codes in (a, b, a * (b.max() + 1) + b)]
        parts = [-np.sum(p * np.log(p)) for p in weights]
        assert value == pytest.approx(parts[0] + parts[1] - parts[2], abs=1e-11)


@pytest.mark.parametrize("kernel", ["dense", "sparse", "bits"])
def test_threads_and_blocks_change_nothing(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    symbols = np.random.default_rng(3).integers(0, 8, (2, 40_000))
    lags = np.arange(41)[::-1].copy()
    alone = information_by_kernel(symbols, lags, "miller_madow", kernel)
    monkeypatch.setattr(counting_module, "BLOCK_SECONDS", 1e-9)
    assert np.array_equal(information_by_kernel(symbols, lags, "miller_madow", kernel, workers=4), alone)


@pytest.mark.parametrize(
    ("size", "pairs", "length", "kernel"),
    [(1, 10, 10, "bits"), (2, 10**7, 10**7, "bits"), (8, 10**7, 10**7, "bits"), (2, 10**7, 32, "bits"),
     (8, 10**7, 64, "bits"), (8, 10**7, 65, "dense"), (4, 10**7, 20, "dense"), (2, 10**7, 2, "dense"),
     (9, 10**7, 10**7, "dense"), (100, 10**7, 10**7, "dense"), (386, 2 * 10**6, 1000, "dense"),
     (1000, 1000, 1000, "sparse"), (33_000, 2 * 10**6, 10**6, "sparse"), (10**6, 10**8, 10**8, "sparse")],
)  # fmt: skip
def test_kernels_are_chosen_by_the_size_of_the_table_and_the_length_of_a_row(
    size: int, pairs: int, length: int, kernel: str
) -> None:
    assert choose_kernel(size, pairs, length) == kernel


@pytest.mark.parametrize("size", range(1, 9))
@pytest.mark.parametrize("length", [1, 2, 15, 16, 63, 64, 65, 100, 129, 1000])
def test_bits_never_pass_over_many_more_words_than_there_are_pairs(size: int, length: int) -> None:
    """Bits of the padding count too: size^2 passes over whole words against one over the symbols of a row."""
    chosen = choose_kernel(size, 10**6 * length, length)
    assert chosen == "dense" or size**2 * -(-length // 64) <= 1.25 * length
    if size <= 2 and length >= 16:
        assert chosen == "bits"


@pytest.mark.parametrize("size", [1, 2, 8])
def test_bits_take_as_much_memory_for_a_far_lag_as_for_a_near_one(size: int) -> None:
    """Planes and one count per word; a count for every column of a far lag would be eight times the symbols."""
    known = relabel(np.random.default_rng(0).integers(0, size, (1, 200_000)))
    peaks = []
    for lags in ([1, 2, 3], [1, 2, 3], [1, 199_999, 100_000]):  # compiled by the first
        tracemalloc.start()
        pair_sums(known, np.array(lags), ESTIMATORS["plugin"], kernel="bits", workers=1, progress=False)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[2] < 1.1 * peaks[1] + 10_000
    assert peaks[2] < 200_000 * (2 + size / 4) + 100_000


def test_memory_of_a_large_vocabulary_does_not_grow_with_its_square() -> None:
    known = relabel(np.arange(200_000).reshape(1, -1) % 150_000)
    counts = SparseCounts(known.symbols, known.occurrences)
    held = counts.flat.nbytes + counts.ends.nbytes + counts.positions.nbytes
    assert held < 16 * (200_000 + 150_000)


def test_progress_bar_counts_lags_when_asked(capsys: pytest.CaptureFixture[str]) -> None:
    symbols = np.random.default_rng(0).integers(0, 20, 2000)
    auto_mutual_information(symbols, [1, 2, 3], progress=True)
    assert "lags" in capsys.readouterr().err
    auto_mutual_information(symbols, [1, 2, 3])
    assert capsys.readouterr().err == "", "short work is done without a bar"


def test_relabelling_orders_by_frequency() -> None:
    known = relabel(np.array([[5, -3, 5, 5, 900, 900]]))
    assert known.symbols.tolist() == [[0, 2, 0, 0, 1, 1]]
    assert known.occurrences.tolist() == [3, 2, 1]
    far_apart = relabel(np.array([[2**62, -(2**62), 2**62]]))
    assert far_apart.symbols.tolist() == [[0, 1, 0]]


@pytest.mark.parametrize(
    ("lags", "said"),
    [([10], "0 <= lag < 10"), ([-1], "-1"), ([1.5], "1.5"), ([float("nan")], "whole numbers"), ([], "at least one"),
     ([[1, 2]], "one-dimensional"), ([True], "bool"), (["1"], "type"), (3, "one-dimensional"),
     (np.ma.array([1, 2], mask=[0, 1]), "masked"), ([np.uint64(2**64 - 1)], "0 <= lag < 10"), ([1e300], "lag < 10")],
)  # fmt: skip
def test_bad_lags_are_refused_by_name(lags: object, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        auto_mutual_information(np.arange(10), lags)  # type: ignore[arg-type]
    assert checked_lags([0.0, 9.0], 10).tolist() == [0, 9]


@pytest.mark.parametrize(
    ("sequences", "said"),
    [([], "empty"), ([[]], "empty"), (np.zeros((2, 2, 2)), "shape"), ([0.5, 1.0], "whole"), (["a"], "integers"),
     ([1.0, float("nan")], "whole"), ([1.0, 1e300], "2\\^53"), (5, "shape"),
     (np.ma.array([1, 2, 3], mask=[0, 0, 1]), "masked"), ([[1], [1, 2]], "ragged"), ([1, 1j], "integers")],
)  # fmt: skip
def test_bad_sequences_are_refused_by_name(sequences: object, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        auto_mutual_information(sequences, [0])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=said):
        pair_counts(sequences, 0)  # type: ignore[arg-type]


def test_bad_estimator_workers_and_kernel_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="choose one of"):
        auto_mutual_information([1, 2, 3], [1], "naive")
    with pytest.raises(ValueError, match="at least 1"):
        auto_mutual_information([1, 2, 3], [1], workers=0)
    for workers in ("a", 1.5, True):
        with pytest.raises(ValueError, match=f"workers: a whole number of at least 1 is allowed, got {workers!r}"):
            auto_mutual_information([1, 2, 3], [1], workers=workers)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="bits, dense, sparse"):
        pair_sums(relabel(np.array([[1, 2]])), np.array([1]), ESTIMATORS["plugin"], kernel="fast")


@pytest.mark.parametrize("values", [(0, 1), (-3, 5, 2**30), range(9), range(300)])  # all kernels, table and sort
@pytest.mark.parametrize("kind", [">i4", ">i8", ">u4", ">f8", "<i4", "torch", "torch float"])
def test_the_order_of_bytes_and_tensors_change_nothing(values: range | tuple[int, ...], kind: str) -> None:
    symbols = np.random.default_rng(0).choice(np.abs(values) if "u" in kind else np.array(values), (2, 400))
    given_ = torch.tensor(symbols) if "torch" in kind else symbols.astype(kind)
    if kind == "torch float":
        given_ = given_.double().requires_grad_()
    lags = np.array([0, 1, 7])
    assert np.array_equal(auto_mutual_information(given_, lags.astype(">i2")), auto_mutual_information(symbols, lags))
    assert np.array_equal(pair_counts(given_, 7), pair_counts(symbols, 7))


def test_whole_floats_are_accepted_as_symbols() -> None:
    symbols = np.random.default_rng(0).integers(-5, 5, 200)
    assert np.array_equal(
        auto_mutual_information(symbols.astype(float), [1.0, 3.0]), auto_mutual_information(symbols, [1, 3])
    )


def test_symbols_of_half_precision_are_counted_without_a_warning() -> None:
    symbols = np.random.default_rng(0).integers(-5, 5, 200)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = auto_mutual_information(symbols.astype(np.float16), [1, 3])
    assert np.array_equal(found, auto_mutual_information(symbols, [1, 3]))
