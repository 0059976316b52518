"""Kerg et al. (2020), App. A.3: the gradient of a linear RNN that attends to all its states with equal weights.

With s_t = h_t + c_t, c_t = (h_1 + ... + h_t) / t and h_{t+1} = V s_t + input, the Jacobian ds_{t+k}/dh_t is a
polynomial in V. Its value p_{0:k} at an eigenvalue lambda of V follows from the recursion of Prop. 1 and 2 with
Eq. 119, 120,

    p_{0:0} = 1 + 1/t,    p_{0:k+1} = (1 + lambda sum_{j<=k} p_{0:j}) / (t + k + 1) + lambda p_{0:k}.

With the bracket as a variable of its own, w_k = 1 + lambda sum_{j<=k} p_{0:j}, this reads

    p_{0:k} = w_{k-1} / (t + k) + lambda p_{0:k-1},    w_k = w_{k-1} + lambda p_{0:k},

from w_{-1} = lambda p_{0:-1} = 1. For lambda < 0 the sum tends to -1/lambda, and digits are lost where the bracket is
formed at the end; as a variable it is never a difference of large numbers.
"""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from lib.checks import plain_array, whole_lags, whole_number
from lib.theory.attention.double_double import add, divided, times

RESCALED = 200  # bits taken out at once, long before a product could overflow
LARGE, SMALL = 2.0**RESCALED, 2.0**-RESCALED
LARGEST = 1e150  # eigenvalue, so that its product with what was just rescaled stays finite
LATEST = 2**53  # t + k: larger ones are no float64


def uniform_attention_gradient(eigenvalue: ArrayLike, t: int, k: ArrayLike) -> Any:
    """p_{0:k}(lambda), the eigenvalue of ds_{t+k}/dh_t under uniform attention (Kerg et al. 2020, Eq. 121).

    p_{0:0} = 1 + 1/t,  p_{0:k+1} = (1 + lambda sum_{j<=k} p_{0:j}) / (t + k + 1) + lambda p_{0:k}

    eigenvalue: lambda, real or complex. t: whole, >= 1, the time of the hidden state. k: whole, >= 0, steps
    from there. eigenvalue and k broadcast as in NumPy; the result has their common shape, and is a scalar if both
    are. Real eigenvalues give float64, complex ones complex128. No unit.
    Precision: run in double-double arithmetic, with relative errors below 1e-15 (complex: of the modulus) up to k =
    1e6 for |lambda| <= 1.2. Beyond float64 (lambda = 1 from k of about 1.3e5, |lambda| > 1) the result is infinite
    with the right sign; see `log_magnitude`.
    Raises ValueError for t < 1, k < 0, numbers that are not whole, t + k > 2^53, eigenvalues that are not finite or
    above 1e150.
    Cost O(max k) time per different eigenvalue, memory only for the result.
    """
    return unscaled(*scaled_gradient(eigenvalue, t, k))[()]


def unscaled(values: NDArray[Any], exponents: NDArray[np.int64]) -> NDArray[Any]:
    """values 2^exponents; real and imaginary parts beyond the floats are infinite, each with its sign."""
    with np.errstate(over="ignore", under="ignore"):
        if np.iscomplexobj(values):
            result = np.empty(values.shape, dtype=np.complex128)
            result.real, result.imag = np.ldexp(values.real, exponents), np.ldexp(values.imag, exponents)
            return result
        return np.asarray(np.ldexp(values, exponents))


def log_magnitude(eigenvalue: ArrayLike, t: int, k: ArrayLike) -> Any:
    """ln |p_{0:k}(lambda)|, which cannot overflow. Arguments, shapes, errors and cost as above."""
    values, exponents = scaled_gradient(eigenvalue, t, k)
    with np.errstate(divide="ignore"):
        return (np.log(np.abs(values)) + exponents * np.log(2.0))[()]


def scaled_gradient(eigenvalue: ArrayLike, t: int, k: ArrayLike) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Arrays (values, exponents) of the common shape with p_{0:k}(lambda) = values 2^exponents, |values| < 2^202.

    Arguments, errors and cost as in `uniform_attention_gradient`.
    """
    start = whole_number(t, "t", 1)
    steps = whole_lags(k, name="k")
    if start + int(steps.max(initial=0)) > LATEST:
        raise ValueError(f"t, k: t + k <= 2^53 is allowed, got {start} + {steps.max(initial=0)}")
    eigenvalues = _finite_numbers(eigenvalue)
    try:
        eigenvalues, steps = np.broadcast_arrays(eigenvalues, steps)
    except ValueError:
        raise ValueError(
            f"eigenvalue and k: shapes that broadcast are allowed, got {np.shape(eigenvalue)} and {np.shape(k)}"
        ) from None
    values = np.empty(eigenvalues.shape, dtype=eigenvalues.dtype)
    exponents = np.zeros(eigenvalues.shape, dtype=np.int64)
    flat_values, flat_exponents, flat_steps = values.reshape(-1), exponents.reshape(-1), steps.reshape(-1)
    kernel = _complex_recursion if np.iscomplexobj(eigenvalues) else _real_recursion
    if not values.size:
        return values, exponents
    different, which = np.unique(eigenvalues, return_inverse=True)
    order = np.lexsort((flat_steps, which.reshape(-1)))  # by eigenvalue, then by k
    ends = np.cumsum(np.bincount(which.reshape(-1), minlength=len(different)))
    for number, places in zip(different, np.split(order, ends[:-1]), strict=True):
        flat_values[places], flat_exponents[places] = kernel(number, start, flat_steps[places])
    return values, exponents


@np.errstate(over="ignore")
def _finite_numbers(eigenvalue: ArrayLike) -> NDArray[Any]:
    array = plain_array(eigenvalue, "eigenvalue")
    kind = array.dtype.kind  # O: fractions and the like
    parts = kind == "c" or (kind == "O" and any(isinstance(x, complex) for x in array.flat))
    if kind in "iufcO":
        with contextlib.suppress(TypeError, ValueError, OverflowError):
            array = array.astype(np.complex128 if parts else np.float64)
    if array.dtype.kind not in "fc" or not np.all(np.abs(array) <= LARGEST):  # NaN fails too
        raise ValueError(f"eigenvalue: real or complex numbers up to {LARGEST:.0e} are allowed, got {eigenvalue!r}")
    return array


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _real_recursion(
    eigenvalue: float, t: int, steps: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """p at the sorted steps and the powers of two taken out: p = w/(t+k) + d, d = lambda p, w = w + d."""
    values, exponents = np.empty(len(steps)), np.zeros(len(steps), dtype=np.int64)
    w, w_low, d, d_low = 1.0, 0.0, 1.0, 0.0
    place, exponent, k = 0, 0, 0
    while place < len(steps):
        p, p_low = divided(w, w_low, float(t + k))
        p, p_low = add(p, p_low, d, d_low)
        while place < len(steps) and steps[place] == k:
            values[place], exponents[place] = p, exponent
            place += 1
        d, d_low = times(p, p_low, eigenvalue)
        w, w_low = add(w, w_low, d, d_low)
        while abs(d) > LARGE or abs(w) > LARGE:  # the recursion is linear in (w, d)
            w, w_low, d, d_low = w * SMALL, w_low * SMALL, d * SMALL, d_low * SMALL
            exponent += RESCALED
        k += 1
    return values, exponents


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _complex_recursion(
    eigenvalue: complex, t: int, steps: NDArray[np.int64]
) -> tuple[NDArray[np.complex128], NDArray[np.int64]]:
    """The same with real and imaginary parts (x, y) of each variable."""
    values, exponents = np.empty(len(steps), dtype=np.complex128), np.zeros(len(steps), dtype=np.int64)
    a, b = eigenvalue.real, eigenvalue.imag
    wx, wx_low, wy, wy_low = 1.0, 0.0, 0.0, 0.0
    dx, dx_low, dy, dy_low = 1.0, 0.0, 0.0, 0.0
    place, exponent, k = 0, 0, 0
    while place < len(steps):
        x, x_low = divided(wx, wx_low, float(t + k))
        y, y_low = divided(wy, wy_low, float(t + k))
        x, x_low = add(x, x_low, dx, dx_low)
        y, y_low = add(y, y_low, dy, dy_low)
        while place < len(steps) and steps[place] == k:
            values[place], exponents[place] = complex(x, y), exponent
            place += 1
        ax, ax_low = times(x, x_low, a)
        by, by_low = times(y, y_low, -b)
        dx, dx_low = add(ax, ax_low, by, by_low)
        ay, ay_low = times(y, y_low, a)
        bx, bx_low = times(x, x_low, b)
        dy, dy_low = add(ay, ay_low, bx, bx_low)
        wx, wx_low = add(wx, wx_low, dx, dx_low)
        wy, wy_low = add(wy, wy_low, dy, dy_low)
        while max(abs(dx), abs(dy), abs(wx), abs(wy)) > LARGE:
            wx, wx_low, wy, wy_low = wx * SMALL, wx_low * SMALL, wy * SMALL, wy_low * SMALL
            dx, dx_low, dy, dy_low = dx * SMALL, dx_low * SMALL, dy * SMALL, dy_low * SMALL
            exponent += RESCALED
        k += 1
    return values, exponents
