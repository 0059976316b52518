"""Gradient under uniform attention: the O(k) recursion against double sums, path sums and mpmath, with their errors.

    python benchmarks/uniform_attention.py       # prints a table, writes results/benchmarks/uniform_attention.json

All ways answer the same question, p_{0:k}(lambda) at t = 2. Relative errors are against the closed form with 50 digits.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import click
import mpmath
import numpy as np
from timing import median_seconds

from lib.report import benchmarks
from lib.theory.attention.forms import bracket, closed_form, plain_recursion, three_term
from lib.theory.attention.uniform import uniform_attention_gradient

START, EIGENVALUE = 2, -0.9
Way = Callable[[int], Any]


def path_sum(k: int) -> float:
    """Eq. 121-123 word for word: all 2^k paths."""
    total = 0.0
    for s in range(k + 1):
        for positions in itertools.combinations(range(k), s):
            weight = EIGENVALUE**s
            for before, i in itertools.pairwise((-1, *positions, k)):
                weight *= 1 / (START + i) + (i - before == 1)
            total += weight
    return total


def double_sum(k: int) -> float:
    """C_{k+1} = E_{k+1} + sum_j F_{k+1,j} C_j with NumPy: every sum done again, as one dot product."""
    values = np.zeros(k + 1)
    values[0] = 1 + 1 / START
    for step in range(k):
        weight = 1 / (START + step + 1)
        values[step + 1] = weight + EIGENVALUE * weight * values[: step + 1].sum() + EIGENVALUE * values[step]
    return float(values[-1])


def fifty_digits(k: int) -> Any:
    """The recursion with mpmath."""
    with mpmath.workdps(50):
        return plain_recursion(mpmath.mpf(EIGENVALUE), START, k)[-1]


WAYS: dict[str, tuple[Way, int]] = {
    "double length, compiled (this book)": (lambda k: uniform_attention_gradient(EIGENVALUE, START, k), 10**6),
    "running sum, plain Python": (lambda k: plain_recursion(EIGENVALUE, START, k)[-1], 10**6),
    "three-term recursion, plain Python": (lambda k: three_term(EIGENVALUE, START, k)[-1], 10**6),
    "bracket, plain Python": (lambda k: bracket(EIGENVALUE, START, k)[-1], 10**6),
    "closed form, mpmath, 50 digits": (lambda k: closed_form(EIGENVALUE, START, k), 10**6),
    "recursion, mpmath, 50 digits": (fifty_digits, 10**5),
    "double sum, NumPy": (double_sum, 10**5),
    "sum over all paths": (path_sum, 16),
}  # with the largest k that each is asked for


@click.command(help=__doc__)
@click.option("--repeats", default=5, show_default=True, help="Timed repeats; the median counts.")
def main(repeats: int) -> None:
    rows, errors = [], []
    for way, (function, largest) in WAYS.items():
        seconds_row: dict[str, Any] = {"way": way}
        error_row: dict[str, Any] = {"way": way}
        for k in (16, 1000, 10**4, 10**5, 10**6):
            if k > largest:
                continue
            seconds, value = median_seconds(lambda f=function, k=k: f(k), repeats)  # type: ignore[misc]
            with mpmath.workdps(50):
                exact = closed_form(EIGENVALUE, START, k)
                error_row[f"k = {k}"] = float(abs(mpmath.mpmathify(value) - exact) / abs(exact))
            assert error_row[f"k = {k}"] < 1e-9, (way, k)
            seconds_row[f"k = {k}"] = seconds
        rows.append(seconds_row)
        errors.append(error_row)
    recorded = benchmarks.record(
        benchmarks.FOLDER / "uniform_attention.json",
        "Gradient under uniform attention",
        f"One value at eigenvalue {EIGENVALUE}, t = {START}, by each way up to the k it can reach, median seconds in "
        "one run. The double sum grows like the square of k, the sum over paths like its power of two.",
        {"Seconds": rows, "Relative error against the closed form with 50 digits": errors},
        repeats=repeats,
    )
    click.echo(str(recorded))


if __name__ == "__main__":
    main()
