"""What compiled loops are made of: vectors as values, tanh, sigmoid, matrices of lanes; and the gradient of tokens."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from numba import njit
from numba.core.errors import TypingError

from lib.models.kernels.embedding import token_vectors
from lib.models.kernels.exponential import fast_sigmoid, fast_tanh
from lib.models.kernels.lanes import (
    LANES,
    add,
    add_products,
    from_lanes,
    lane_sum,
    load,
    multiply,
    multiply_add,
    store,
    to_lanes,
    transpose_tile,
    zeros,
)

TYPES = [np.float32, np.float64]


@njit  # type: ignore[untyped-decorator]
def combined(a: Any, b: Any, factor: Any, out: Any) -> Any:
    """out = (factor a + b b) + a from the third place on; the sum of it."""
    total = multiply_add(multiply_add(zeros(a), factor, load(a, 3)), load(b, 3), load(b, 3))
    total = add(total, load(a, 3))
    store(out, 2, total)
    return lane_sum(total)


@njit  # type: ignore[untyped-decorator]
def tile(source: Any, first: int, step: int, target: Any, start: int, stride: int) -> None:
    transpose_tile(source, first, step, target, start, stride)


@njit  # type: ignore[untyped-decorator]
def tanh_and_sigmoid(x: Any, tanh: Any, sigmoid: Any) -> None:
    for i in range(x.size):
        tanh[i], sigmoid[i] = fast_tanh(x[i]), fast_sigmoid(x[i])


@pytest.mark.parametrize("dtype", TYPES)
def test_lanes_are_so_many_numbers_from_a_place_on(dtype: Any) -> None:
    random = np.random.default_rng(0)
    a, b = random.integers(-9, 9, (2, 40)).astype(dtype)  # whole numbers: sums are exact in any order
    out = np.full(40, 99, dtype)
    total = combined(a, b, dtype(3), out)
    expected = 3 * a[3 : 3 + LANES] + b[3 : 3 + LANES] ** 2 + a[3 : 3 + LANES]
    np.testing.assert_array_equal(out[2 : 2 + LANES], expected)
    assert total == expected.sum()
    assert set(out[:2]) | set(out[2 + LANES :]) == {99}


@pytest.mark.parametrize("dtype", TYPES)
def test_a_tile_is_transposed_and_nothing_else_written(dtype: Any) -> None:
    source = np.arange(40 * 33).reshape(40, 33).astype(dtype)
    target = np.full((35, 29), -1, dtype)
    tile(source.reshape(-1), 2 * 33 + 5, 33, target.reshape(-1), 7 * 29 + 3, 29)
    expected = np.full((35, 29), -1, dtype)
    expected[7 : 7 + LANES, 3 : 3 + LANES] = source[2 : 2 + LANES, 5 : 5 + LANES].T
    np.testing.assert_array_equal(target, expected)


def test_arrays_with_gaps_or_of_whole_numbers_are_refused() -> None:
    out = np.zeros(40)
    for wrong in (np.zeros(80)[::2], np.zeros((2, 40)), np.zeros(40, np.int64)):
        with pytest.raises(TypingError, match="one axis and no gaps"):
            combined(wrong, out, 1.0, out)


@pytest.mark.parametrize(("batch", "time", "some"), [(16, 16, 1), (16, 5, 3), (48, 33, 2), (19, 20, 17), (1, 7, 4)])
def test_sequences_go_to_lanes_and_back(batch: int, time: int, some: int) -> None:
    numbers = np.random.default_rng(0).standard_normal((batch, time, some))
    for start, stop in ((0, time), (time // 2, time), (0, 1)):
        back = np.zeros_like(numbers)
        for piece in range(-(-batch // LANES)):
            lanes = np.zeros((stop - start) * some * LANES)
            to_lanes(numbers, piece, start, stop, lanes)
            from_lanes(lanes, back, piece, start, stop)
            mine = numbers[piece * LANES : (piece + 1) * LANES, start:stop]
            expected = np.zeros(((stop - start) * some, LANES))
            expected[:, : len(mine)] = mine.reshape(len(mine), -1).T
            np.testing.assert_array_equal(lanes.reshape(-1, LANES), expected)
        np.testing.assert_array_equal(back[:, start:stop], numbers[:, start:stop])
        assert not back[:, :start].any() and not back[:, stop:].any()


@pytest.mark.parametrize("dtype", TYPES)
def test_products_are_those_of_matrices(dtype: Any) -> None:
    random = np.random.default_rng(0)
    matrix = random.standard_normal((8, 12)).astype(dtype)
    z, product = random.standard_normal((12, LANES)).astype(dtype), np.full(10 * LANES, 5, dtype)
    multiply(matrix, z.reshape(-1), product)
    np.testing.assert_allclose(product.reshape(10, LANES)[:8], matrix @ z, rtol=0, atol=30 * np.finfo(dtype).eps)
    assert set(product[8 * LANES :]) == {5}
    ds, zs = (random.standard_normal((5, rows, LANES)).astype(dtype) for rows in (8, 12))
    total = np.ones((8, 12), dtype)
    add_products(ds.reshape(5, -1), zs.reshape(5, -1), 4, total)
    expected = 1 + np.einsum("tdl,tzl->dz", ds[:4], zs[:4])
    np.testing.assert_allclose(total, expected, rtol=0, atol=300 * np.finfo(dtype).eps)


@pytest.mark.parametrize(("dtype", "reference"), [(np.float32, np.float64), (np.float64, np.longdouble)])
def test_tanh_and_sigmoid_are_good_to_some_units_in_the_last_place(dtype: Any, reference: Any) -> None:
    small = 10.0 ** np.linspace(-37, 0, 20_001)  # where a difference of exponentials would have no digit left
    x = np.concatenate([np.linspace(-30, 30, 200_001), np.linspace(-1, 1, 50_001), small, -small]).astype(dtype)
    tanh, sigmoid = np.empty_like(x), np.empty_like(x)
    tanh_and_sigmoid(x, tanh, sigmoid)
    given = x.astype(reference)
    for values, exact, units in ((tanh, np.tanh(given), 4), (sigmoid, 1 / (1 + np.exp(-given)), 3)):
        assert np.max(np.abs(values - exact) / np.spacing(np.abs(exact).astype(dtype))) < units
    assert np.abs(tanh).max() == 1
    for argument in (-7.5, -0.0375, 0.3125, 1.75):  # NumPy's own might share a mistake
        some, one, other = np.array([argument], dtype), np.empty(1, dtype), np.empty(1, dtype)
        tanh_and_sigmoid(some, one, other)
        assert abs(mpmath.mpf(float(one[0])) / mpmath.tanh(float(some[0])) - 1) < 4 * np.finfo(dtype).eps
        assert abs(mpmath.mpf(float(other[0])) * (1 + mpmath.exp(-float(some[0]))) - 1) < 4 * np.finfo(dtype).eps
    special = np.array([np.nan, np.inf, -np.inf, 1e6, -1e6, 0.0], dtype)
    tanh, sigmoid = np.empty_like(special), np.empty_like(special)
    tanh_and_sigmoid(special, tanh, sigmoid)
    np.testing.assert_array_equal(tanh, np.array([np.nan, 1, -1, 1, -1, 0], dtype))
    np.testing.assert_array_equal(sigmoid, np.array([np.nan, 1, 0, 1, 0, 0.5], dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("whole", [torch.int64, torch.int32])
def test_vectors_of_tokens_and_their_gradient_are_those_of_torch_to_the_last_bit(dtype: Any, whole: Any) -> None:
    generator = torch.Generator().manual_seed(0)
    for vocabulary, size in ((2, 2), (1, 1), (50, 37)):
        tokens = torch.randint(0, vocabulary, (7, 300), generator=generator, dtype=whole).T  # not contiguous
        weight = torch.randn(vocabulary, size, generator=generator, dtype=dtype).requires_grad_()
        gradient = torch.randn(300, 7, size, generator=generator, dtype=dtype)
        expected, found = F.embedding(tokens, weight), token_vectors(tokens, weight)
        assert torch.equal(found, expected)
        ours, theirs = (torch.autograd.grad(y, weight, gradient, retain_graph=True)[0] for y in (found, expected))
        assert torch.equal(ours, theirs)
        backwards = tokens.flip(0)
        if vocabulary == 50:  # the check sees an order of sums that is another one
            other = torch.autograd.grad(token_vectors(backwards, weight), weight, gradient.flip(0))[0]
            assert not torch.equal(other, theirs)
        with pytest.raises(RuntimeError, match="first derivatives only"):
            torch.autograd.grad(found, weight, gradient, create_graph=True)
    assert token_vectors(tokens.to("meta"), weight.to("meta")).shape == (300, 7, 37)
