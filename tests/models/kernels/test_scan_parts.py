"""What surrounds the selective scan: its exponential, the convolution, the scan of Mamba2, the kernels of mamba-ssm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from numba import njit

from lib.models.kernels.convolution import convolve, depthwise
from lib.models.kernels.exponential import fast_exp
from lib.models.kernels.scan import scalar
from lib.models.kernels.scan import selective as dispatch
from lib.models.kernels.scan.plain import chunked_scalar_decay_scan, sequential_selective_scan
from lib.models.kernels.scan.scalar import compiled_scalar_decay_scan, fused_scalar_decay_scan, scalar_decay_scan
from lib.models.kernels.scan.selective import choose_way, fused_selective_scan
from tests.models.kernels.reference import arguments, ours


@pytest.mark.parametrize(("dtype", "reference"), [(np.float32, np.float64), (np.float64, np.longdouble)])
def test_the_fast_exponential_is_good_to_two_units_in_the_last_place(dtype: Any, reference: Any) -> None:
    @njit  # type: ignore[untyped-decorator]
    def exponentials(x: Any, out: Any) -> None:
        for i in range(x.size):
            out[i] = fast_exp(x[i])

    limits = np.finfo(dtype)
    x = np.linspace(np.log(limits.tiny), np.log(limits.max) - 1.01, 200_001).astype(dtype)
    x = np.concatenate([x, np.linspace(-1, 1, 20_001).astype(dtype)])
    out = np.empty_like(x)
    exponentials(x, out)
    exact = np.exp(x.astype(reference))
    assert np.max(np.abs(out - exact) / np.spacing(exact.astype(dtype))) < 2
    some = np.array([-80.5, -3.25, 0.7, 21.125], dtype)
    values = np.empty_like(some)
    exponentials(some, values)
    for argument, value in zip(some, values, strict=True):  # NumPy's own might share a mistake
        assert abs(mpmath.mpf(float(value)) / mpmath.exp(float(argument)) - 1) < 2 * limits.eps
    special = np.array([np.nan, np.inf, -np.inf, -1e6, 1e6, 0.0, -0.0], dtype)
    values = np.empty_like(special)
    exponentials(special, values)
    np.testing.assert_array_equal(values, np.array([np.nan, np.inf, 0, 0, np.inf, 1, 1], dtype))


def mamba_ssm_like(u: Any, delta: Any, A: Any, B: Any, C: Any, D: Any, return_last_state: bool) -> Any:
    """What mamba-ssm documents: u, delta (batch, dim, length), A (dim, size), B, C (batch, size, length), D (dim,)."""
    batch, dim, length = u.shape
    assert B.shape == C.shape == (batch, A.shape[1], length) and delta.shape == u.shape and return_last_state
    state, outputs = torch.zeros(batch, dim, A.shape[1], dtype=u.dtype), []
    for t in range(length):
        drive = torch.einsum("bd,bn,bd->bdn", delta[:, :, t], B[:, :, t], u[:, :, t])
        state = torch.einsum("bd,dn->bdn", delta[:, :, t], A).exp() * state + drive
        outputs.append(torch.einsum("bdn,bn->bd", state, C[:, :, t]))
    return torch.stack(outputs, dim=2) + D[:, None] * u, state


def test_the_kernel_of_mamba_ssm_is_given_its_own_layout() -> None:
    inputs = [x.detach() for x in arguments(2, 9, 5, 3)]
    y, state = fused_selective_scan(mamba_ssm_like, *inputs[:6])
    expected = ours(*inputs[:6])
    torch.testing.assert_close(y, expected[0], rtol=0, atol=1e-12)
    torch.testing.assert_close(state, expected[1], rtol=0, atol=1e-12)


class OnCuda:
    """As much of a tensor on CUDA as the choice of a way looks at."""

    device = torch.device("cuda")

    def __init__(self, dtype: Any, time: int = 1) -> None:
        self.dtype, self.shape = dtype, (1, time, 1)


def test_the_kernel_of_mamba_ssm_is_taken_only_for_what_it_can_do(monkeypatch: pytest.MonkeyPatch) -> None:
    single, double = OnCuda(torch.float32), OnCuda(torch.float64)
    monkeypatch.setattr(dispatch, "_mamba_ssm_kernel", lambda: mamba_ssm_like)
    assert choose_way(single, 16, True, False) == "mamba-ssm"
    assert choose_way(torch.zeros(1, 1, 1), 16, True, False) == "compiled"
    assert choose_way(torch.zeros(1, 1, 1, device="meta"), 16, True, False) == "chunked"
    nothing = OnCuda(torch.float32, 0)
    for other in (
        (double, 16, True, False),
        (nothing, 16, True, False),
        (single, 257, True, False),
        (single, 16, False, False),
    ):
        assert choose_way(*other) == "chunked"
    assert choose_way(single, 16, True, True) == "chunked"  # a gradient through the last state
    monkeypatch.setattr(dispatch, "_mamba_ssm_kernel", lambda: None)
    assert choose_way(single, 16, True, False) == "chunked"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("time", "channels", "kernel"), [(1, 3, 4), (2, 5, 4), (50, 130, 4), (9, 4, 1), (9, 4, 12)])
def test_the_compiled_convolution_is_that_of_torch_with_its_activation(
    dtype: Any, time: int, channels: int, kernel: int
) -> None:
    torch.manual_seed(0)
    layer = depthwise(channels, kernel).to(dtype)
    x = (3 * torch.randn(3, time, channels, dtype=dtype)).requires_grad_()
    expected = F.silu(layer(x.transpose(1, 2))[..., :time].transpose(1, 2))
    weights = torch.randn_like(expected)
    tolerance = 1e-5 if dtype == torch.float32 else 1e-12
    torch.testing.assert_close(convolve(layer, x), expected, rtol=tolerance, atol=tolerance)
    wanted = [x, *layer.parameters()]
    first = torch.autograd.grad((convolve(layer, x) * weights).sum(), wanted)
    second = torch.autograd.grad((expected * weights).sum(), wanted)
    for one, other in zip(first, second, strict=True):
        torch.testing.assert_close(one, other, rtol=10 * tolerance, atol=10 * tolerance)


def mamba2_arguments(
    time: int, heads: int = 3, width: int = 4, size: int = 5, dtype: torch.dtype = torch.float64
) -> list[torch.Tensor]:
    random = np.random.default_rng(0)
    shapes = [(2, time, heads, width), (2, time, heads), (heads,), (2, time, size), (2, time, size), (heads,)]
    u, delta, A, B, C, D = (random.standard_normal(shape) for shape in shapes)
    return [torch.from_numpy(x).to(dtype).requires_grad_() for x in (u, np.abs(delta), -np.abs(A), B, C, D)]


def as_defined(u: Any, delta: Any, A: Any, B: Any, C: Any, D: Any) -> torch.Tensor:
    """A selective scan, step by step, whose channels share the decay of their head."""
    width, size = u.shape[-1], B.shape[-1]
    wide = (u.flatten(2), delta.repeat_interleave(width, dim=2), A.repeat_interleave(width)[:, None].expand(-1, size))
    start = u.new_zeros(len(u), u[0, 0].numel(), size)
    return sequential_selective_scan(*wide, B, C, D.repeat_interleave(width), start)[0].unflatten(2, u.shape[2:])


@pytest.mark.parametrize("way", [compiled_scalar_decay_scan, chunked_scalar_decay_scan])
@pytest.mark.parametrize("chunk", [1, 16, 64])
@pytest.mark.parametrize(
    ("time", "heads", "width", "size"), [(1, 3, 4, 5), (16, 3, 4, 5), (17, 3, 4, 5), (50, 1, 1, 1), (33, 3, 50, 2)]
)
def test_the_scan_of_mamba2_is_a_selective_scan_whose_channels_share_their_decay(
    way: Callable[..., torch.Tensor], chunk: int, time: int, heads: int, width: int, size: int
) -> None:
    inputs = mamba2_arguments(time, heads, width, size)
    y, expected = way(*inputs, chunk=chunk), as_defined(*inputs)
    torch.testing.assert_close(y, expected, rtol=0, atol=1e-11)
    pairs = (torch.autograd.grad(out.square().sum(), inputs) for out in (y, expected))
    for first, second in zip(*pairs, strict=True):
        torch.testing.assert_close(first, second, rtol=1e-9, atol=1e-9)


def test_the_compiled_scan_of_mamba2_in_single_precision_is_that_in_double() -> None:
    single, double = (mamba2_arguments(40, 2, 32, 16, dtype) for dtype in (torch.float32, torch.float64))
    found, expected = scalar_decay_scan(*single), scalar_decay_scan(*double)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=1e-5 * float(expected.detach().abs().max()))
    pairs = (torch.autograd.grad(out.square().mean(), given) for out, given in ((found, single), (expected, double)))
    for first, second in zip(*pairs, strict=True):
        torch.testing.assert_close(first.double(), second, rtol=0, atol=1e-5 * float(second.abs().max()))


def test_the_scan_of_mamba2_on_a_cpu_takes_the_compiled_loops_where_they_can_be_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inputs = [x.detach() for x in mamba2_arguments(6)]
    taken: list[str] = []
    for name in ("compiled_scalar_decay_scan", "chunked_scalar_decay_scan"):
        monkeypatch.setattr(scalar, name, lambda *given, name=name: taken.append(name) or given[0])
    scalar_decay_scan(*inputs)
    scalar_decay_scan(*(x.bfloat16() for x in inputs))
    scalar_decay_scan(*(x.to("meta") for x in inputs))
    assert taken == ["compiled_scalar_decay_scan"] + 2 * ["chunked_scalar_decay_scan"]


def test_the_compiled_scan_of_mamba2_has_first_derivatives_and_takes_no_time_at_all() -> None:
    inputs = mamba2_arguments(3)
    with pytest.raises(RuntimeError, match="first derivatives only"):
        torch.autograd.grad(scalar_decay_scan(*inputs).square().sum(), inputs, create_graph=True)
    empty = mamba2_arguments(0)
    assert scalar_decay_scan(*empty).shape == chunked_scalar_decay_scan(*empty).shape == (2, 0, 3, 4)
    for gradient in torch.autograd.grad(scalar_decay_scan(*empty).sum(), empty):
        assert not gradient.any()


@pytest.mark.parametrize(
    ("number", "shape", "told"),
    [
        (0, (2, 6, 12), r"u: shape \(batch, time, heads, head width\)"),
        (1, (2, 5, 3), r"delta: shape \(2, 6, 3\) on cpu"),
        (2, (1,), r"A: shape \(3,\)"),
        (3, (2, 6, 1, 5), r"B: shape \(batch, time, size\)"),
        (4, (2, 6, 4), r"C: shape \(2, 6, 5\)"),
        (5, (4,), r"D: shape \(3,\) .* got \(4,\)"),
    ],
)
def test_the_scan_of_mamba2_reads_nothing_beyond_an_array(number: int, shape: tuple[int, ...], told: str) -> None:
    inputs = [x.detach() for x in mamba2_arguments(6)]
    scalar_decay_scan(*inputs)  # negative control
    inputs[number] = torch.ones(shape, dtype=torch.float64)
    with pytest.raises(ValueError, match=told):
        scalar_decay_scan(*inputs)


def test_the_kernel_of_mamba2_in_mamba_ssm_is_given_groups() -> None:
    u, delta, A, B, C, D = (x.detach() for x in mamba2_arguments(20))

    def kernel(x: Any, dt: Any, A: Any, B: Any, C: Any, chunk_size: int, D: Any) -> Any:
        assert B.shape == C.shape == (2, 20, 1, 5)
        return chunked_scalar_decay_scan(x, dt, A, B[:, :, 0], C[:, :, 0], D, chunk=chunk_size)

    expected = scalar_decay_scan(u, delta, A, B, C, D)
    torch.testing.assert_close(fused_scalar_decay_scan(kernel, u, delta, A, B, C, D, 8), expected, rtol=0, atol=1e-12)


def test_a_convolution_of_other_channels_is_refused() -> None:
    layer = depthwise(3, 4)
    for shape in ((1, 2, 5), (1, 2, 2), (2, 3)):
        with pytest.raises(ValueError, match=r"x: \(batch, time, 3\) is allowed, got shape"):
            convolve(layer, torch.zeros(shape))
