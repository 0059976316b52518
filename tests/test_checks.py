"""What checks let through unchanged, and what they refuse: by name, and never by another number."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lib.checks import plain_array, real_array, real_number, truth_value, whole_lags, whole_number
from lib.models import create
from lib.models.kernels.scan import selective_scan
from lib.models.recurrent.orthogonal import OrthogonalLayer
from lib.processes import HierarchicalGaussian, PowerLawBinary

NUMBERS = [0.5, -3.0, 2.0]
MASKED = np.ma.array([1, 2, 3], mask=[0, 0, 1])
SCAN = [torch.ones(shape) for shape in ((1, 3, 2), (1, 3, 2), (2, 4), (1, 3, 4), (1, 3, 4))]  # u, delta, A, B, C


@pytest.mark.parametrize(
    "values",
    [
        NUMBERS,
        tuple(NUMBERS),
        [Fraction(1, 2), -3, 2.0],
        [mpmath.mpf(number) for number in NUMBERS],
        np.array(NUMBERS, ">f4"),
        np.array([0, 0.5, 0, -3, 0, 2])[1::2],
        np.ma.array(NUMBERS),
        torch.tensor(NUMBERS, requires_grad=True),
        torch.tensor(NUMBERS, dtype=torch.bfloat16),
        torch.tensor([0.5j, -3j, 2j]).imag,
        torch.tensor([-0.5j, 3j, -2j]).conj().imag,
    ],
)
def test_the_same_numbers_come_as_the_same_array(values: Any) -> None:
    array = real_array(values, "values")
    assert array.dtype == np.float64
    assert array.tolist() == NUMBERS


def test_arrays_that_are_right_are_not_copied() -> None:
    for array in (np.array(NUMBERS), np.arange(3), np.array([[True]])):
        assert plain_array(array, "values") is array
    assert plain_array(np.array([1, 2], ">i4"), "values").dtype == np.dtype("=i4")


@pytest.mark.parametrize(
    "values",
    [1j, [1.0, 1j], torch.tensor([1j]).conj(), "0.5", ["0.5"], b"1", None, [object()], [[1], [1, 2]], MASKED,
     [MASKED, MASKED], [1, np.ma.masked], [Decimal("NaN")], [10**400], np.array(["2020"], "M8[Y]")],
)  # fmt: skip
def test_what_is_no_array_of_real_numbers_is_refused_by_name(values: Any) -> None:
    with pytest.raises(ValueError, match=r"^weights: .* allowed"):
        real_array(values, "weights")


@pytest.mark.parametrize(
    "value",
    [0.5, np.float32(0.5), np.array(0.5), Fraction(1, 2), Decimal("0.5"), mpmath.mpf(0.5),
     torch.tensor(0.5, requires_grad=True), torch.tensor(0.5, dtype=torch.bfloat16)],
)  # fmt: skip
def test_a_real_number_of_any_type_is_a_float(value: Any) -> None:
    number = real_number(value, "p")
    assert type(number) is float
    assert number == 0.5


@pytest.mark.parametrize(
    "value",
    ["0.5", b"0.5", np.array("0.5"), True, np.True_, torch.tensor(True), 1j, np.complex128(1 + 2j), mpmath.mpc(1, 2),
     None, [0.5], np.array([0.5]), np.nan, np.inf, 10**400, Decimal("NaN"), np.ma.masked],
)  # fmt: skip
def test_what_is_no_finite_real_number_is_refused_by_name(value: Any) -> None:
    with pytest.raises(ValueError, match=r"^p: a finite real number is allowed, got"):
        real_number(value, "p")


@pytest.mark.parametrize("value", [True, np.True_, np.array(True), torch.tensor(True), 1.0, "1", None, 0])
def test_truth_values_of_any_type_are_no_whole_numbers(value: Any) -> None:
    assert [whole_number(one, "n", 1) for one in (1, np.int8(1), np.array(1), torch.tensor(1))] == [1] * 4
    with pytest.raises(ValueError, match=r"^n: a whole number of at least 1 is allowed, got"):
        whole_number(value, "n", 1)


WHOLE = [whole_lags, partial(whole_lags, name="k")]


@pytest.mark.parametrize("whole", WHOLE)
@given(number=st.integers(0, 2**64 - 1) | st.floats(0, 1e300).map(np.floor))
def test_whole_numbers_keep_their_value_or_are_refused(whole: Callable[[Any], Any], number: int | float) -> None:
    for given_ in (number, [number], np.asarray([[number]])):
        if number >= 2**63:
            with pytest.raises(ValueError, match=r"2\^63"):
                whole(given_)
        else:
            assert whole(given_).ravel().tolist() == [number]


@pytest.mark.parametrize("whole", WHOLE)
def test_steps_of_any_integer_type(whole: Callable[[Any], Any]) -> None:
    for values in (np.array([1, 3], ">u2"), np.array([1, 3], np.float16), torch.tensor([1, 3]), torch.ones(2) + 0):
        assert whole(values).tolist() == [int(value) for value in values]
    for values in ([-1], [0.5], [np.nan], [np.inf], [True], ["1"], [1j], [2**70], MASKED, [[1], [1, 2]]):
        with pytest.raises(ValueError, match=r"^(lags|k): "):
            whole(values)
    with pytest.raises(ValueError, match="0 <= lag < 3 are allowed, got 3"):
        whole_lags([0, 3], below=3)


@pytest.mark.parametrize("value", [True, False, np.True_, np.False_])
def test_a_truth_value_is_let_through_as_a_plain_one(value: Any) -> None:
    assert truth_value(value, "flag") is bool(value)


@pytest.mark.parametrize("value", ["no", "", 0, 1, 0.0, None, [], np.array(True), torch.tensor(True)])
def test_what_is_no_truth_value_is_refused_where_it_is_given(value: Any) -> None:
    for ask in (
        lambda: truth_value(value, "flag"),
        lambda: create("sab", 2, 4, aligned=value),
        lambda: OrthogonalLayer(2, 4, constrained=value),
        lambda: create("transformer", 2, 4, tied=value),
        lambda: HierarchicalGaussian(2).covariance(value),
        lambda: PowerLawBinary(8, exact=value),
        lambda: selective_scan(*SCAN, return_state=value),
    ):
        with pytest.raises(ValueError, match=r"[a-z_]+: True or False is allowed, got "):
            ask()
