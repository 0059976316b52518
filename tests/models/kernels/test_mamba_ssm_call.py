"""How mamba-ssm is called: layout, order of arguments and types, against stand-ins of the same signature.

The stand-ins are written from the equations and from what mamba-ssm says of its arguments, and refuse what its kernels
refuse. A network of the book that goes through them has to compute what it computes on the CPU.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from lib.models.kernels.scan import scalar, selective
from lib.models.state_space.mamba import inverse_softplus
from lib.training.settings import matrix_products
from tests.models.rehearsed_networks import NETWORKS

BATCH, TIME = 2, 12  # rows of 12 + 3 numbers behind the convolution: not a multiple of 16 bytes
THROUGH = [name for name in NETWORKS if "mamba" in name]
KINDS = (torch.float32, torch.bfloat16, torch.float16)
Calls = list[tuple[int, ...]]


class OnCuda(Tensor):  # type: ignore[misc]
    """A tensor of the CPU that says it lies on CUDA, as everything made of it does."""

    @property
    def device(self) -> torch.device:
        return torch.device("cuda", 0)


class _Constants(TorchFunctionMode):  # type: ignore[misc]
    """What is made on CUDA is made on the CPU and says otherwise."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = dict(kwargs or {})
        if given.get("device") is None or torch.device(given["device"]).type != "cuda":
            return func(*args, **given)
        return func(*args, **{**given, "device": "cpu"}).as_subclass(OnCuda)


def claimed(x: Tensor) -> Tensor:
    return x.detach().clone().as_subclass(OnCuda)


def on_cuda(model: Any) -> Any:
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            setattr(module, name, nn.Parameter(claimed(parameter)))
    return model


def aligned(x: Tensor, name: str) -> None:
    """Where the last axis lies in one piece nothing is copied before four numbers are read at a time."""
    row = 16 // x.element_size()
    if x.stride(-1) == 1 and x.shape[-1] % row == 0:
        for size, stride in zip(x.shape[:-1], x.stride()[:-1], strict=True):
            assert size == 1 or stride % row == 0, f"{name}: rows begin at multiples of 16 bytes"


def selective_scan_fn(
    u: Any,
    delta: Any,
    A: Any,
    B: Any,
    C: Any,
    D: Any = None,
    z: Any = None,
    delta_bias: Any = None,
    delta_softplus: bool = False,
    return_last_state: bool = False,
) -> Any:
    """u, delta, z (batch, dim, length); A (dim, size); B, C (batch, [groups,] size, length); D, delta_bias (dim,).

    x_t = exp(delta_t A) x_{t-1} + delta_t B_t u_t,  y_t = C_t . x_t + D u_t; then y_t silu(z_t), if there is a z.
    """
    batch, dim, length = u.shape
    size = A.shape[1]
    assert u.dtype in KINDS and A.dtype == torch.float32 and size <= 256 and length > 0
    assert A.shape == (dim, size), f"A: (dim, size) is needed, got {tuple(A.shape)}"
    for name, x in (("u", u), ("delta", delta), ("z", z)):
        assert x is None or x.shape == (batch, dim, length), f"{name}: (batch, dim, length) is needed"
    for name, x in (("B", B), ("C", C)):
        groups = x.shape[1] if x.ndim == 4 else 1
        assert x.shape in ((batch, size, length), (batch, groups, size, length)), f"{name}: (batch, size, length)"
        assert dim % groups == 0
    for x in (delta, B, C, *([] if z is None else [z])):
        assert x.dtype == u.dtype
    for name, x in (("D", D), ("delta_bias", delta_bias)):
        assert x is None or (x.shape == (dim,) and x.dtype == torch.float32), f"{name}: (dim,) in float32 is needed"
    for name, x in (("u", u), ("delta", delta), ("B", B), ("C", C)):
        aligned(x, name)
    kind, (u, delta, A) = u.dtype, (x.double() for x in (u, delta, A))
    B, C = (
        (x[:, None] if x.ndim == 3 else x).double().repeat_interleave(dim // (x.shape[1] if x.ndim == 4 else 1), dim=1)
        for x in (B, C)
    )  # (batch, dim, size, length)
    delta = delta if delta_bias is None else delta + delta_bias.double()[:, None]
    delta = (1.0 + delta.exp()).log() if delta_softplus else delta
    x, outputs = u.new_zeros(batch, dim, size), []
    for t in range(length):
        step = delta[:, :, t, None]
        x = (step * A).exp() * x + step * B[..., t] * u[:, :, t, None]
        outputs.append((C[..., t] * x).sum(dim=-1))
    y = torch.stack(outputs, dim=-1)
    y = y if D is None else y + D.double()[:, None] * u
    y = y if z is None else y * z.double() * z.double().sigmoid()
    return (y.to(kind), x.float().detach()) if return_last_state else y.to(kind)  # no gradient through the last state


def mamba_chunk_scan_combined(
    x: Any,
    dt: Any,
    A: Any,
    B: Any,
    C: Any,
    chunk_size: int,
    D: Any = None,
    z: Any = None,
    dt_bias: Any = None,
    initial_states: Any = None,
    seq_idx: Any = None,
    cu_seqlens: Any = None,
    dt_softplus: bool = False,
    dt_limit: tuple[float, float] = (0.0, float("inf")),
    return_final_states: bool = False,
    return_varlen_states: bool = False,
) -> Any:
    """x (batch, length, heads, width); dt (batch, length, heads); A, D (heads,); B, C (batch, length, groups, size).

    S_t = exp(dt_t A) S_{t-1} + dt_t x_t B_t^T,  y_t = S_t C_t + D x_t, in every head.
    """
    batch, length, heads, width = x.shape
    groups, size = B.shape[2:]
    assert isinstance(chunk_size, int) and chunk_size & (chunk_size - 1) == 0
    assert dt.shape == (batch, length, heads) and A.shape == (heads,) and heads % groups == 0
    assert B.shape == C.shape == (batch, length, groups, size)
    assert D is None or D.shape in ((heads,), (heads, width))
    assert x.dtype == B.dtype == C.dtype and x.dtype in KINDS and A.dtype == torch.float32
    unused = (z, dt_bias, initial_states, seq_idx, cu_seqlens)
    assert all(value is None for value in unused) and not (dt_softplus or return_final_states or return_varlen_states)
    assert dt_limit == (0.0, float("inf"))
    wide = [part.double().repeat_interleave(heads // groups, dim=2) for part in (B, C)]  # (batch, length, heads, size)
    state, outputs = x.new_zeros(batch, heads, width, size, dtype=torch.float64), []
    for t in range(length):
        step = dt[:, t, :, None, None].double()
        drive = x[:, t, :, :, None].double() * wide[0][:, t, :, None]
        state = (step * A.double()[:, None, None]).exp() * state + step * drive
        outputs.append((state * wide[1][:, t, :, None]).sum(dim=-1))
    y = torch.stack(outputs, dim=1)
    if D is not None:
        y = y + (D[:, None] if D.ndim == 1 else D).double() * x.double()
    return y.to(x.dtype)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[Calls]:
    """mamba-ssm as far as it is called, in the place where it would be installed; shapes of what it is given."""
    given: Calls = []

    def noted(kernel: Callable[..., Any]) -> Callable[..., Any]:
        def call(first: Tensor, *arguments: Any, **options: Any) -> Any:
            given.append(tuple(first.shape))
            return kernel(first, *arguments, **options)

        return call

    functions = {"mamba_ssm": [], "mamba_ssm.ops": [], "mamba_ssm.ops.triton": []} | {
        "mamba_ssm.ops.selective_scan_interface": [selective_scan_fn],
        "mamba_ssm.ops.triton.ssd_combined": [mamba_chunk_scan_combined],
    }
    for name, kernels in functions.items():
        module = ModuleType(name)
        for kernel in kernels:
            setattr(module, kernel.__name__, noted(kernel))
        monkeypatch.setitem(sys.modules, name, module)
    for module in (selective, scalar):
        module._mamba_ssm_kernel.cache_clear()
    yield given
    for module in (selective, scalar):
        module._mamba_ssm_kernel.cache_clear()


def computed(model: Any, inputs: Tensor) -> list[Tensor]:
    """Outputs and gradients of the parallel form, as plain tensors of the CPU."""
    with _Constants():
        found = model(inputs)
    outputs = list(found) if isinstance(found, tuple) else [found]
    total = torch.stack([(part * part.detach().cos()).sum() for part in outputs]).sum()
    gradients = torch.autograd.grad(total, list(model.parameters()), allow_unused=True, materialize_grads=True)
    return [x.detach().as_subclass(Tensor) for x in (*outputs, *gradients)]


def inputs_of(name: str) -> Tensor:
    random = np.random.default_rng(0)
    like = NETWORKS[name].inputs
    if like.dtype == torch.int64:
        return torch.from_numpy(random.integers(int(like.max()) + 1, size=(BATCH, TIME)))
    return torch.from_numpy(random.standard_normal((BATCH, TIME, like.shape[2]))).float()


def compare(name: str) -> None:
    """The same network on the CPU and through the stand-ins, in value and gradient; AssertionError if they differ."""
    make, inputs = NETWORKS[name].make, inputs_of(name)
    model, other = make(), make()
    if hasattr(model, "position_table"):
        for network in (model, other):
            table = torch.linspace(-0.1, 0.1, TIME * network.width).reshape(TIME, network.width)
            network.position_table = nn.Parameter(table)
    expected = computed(model, inputs)
    with matrix_products("tf32"):  # else Mamba2 keeps to torch
        found = computed(on_cuda(other), inputs.as_subclass(OnCuda))
    for one, right in zip(found, expected, strict=True):
        torch.testing.assert_close(one, right, rtol=1e-4, atol=1e-4 * float(right.abs().max()) + 1e-7)


@pytest.mark.parametrize("name", THROUGH)
def test_a_network_through_mamba_ssm_is_that_of_the_cpu(name: str, calls: Calls) -> None:
    compare(name)
    assert len(calls) == len(NETWORKS[name].make().layers)
    assert all(shape[0] == BATCH and TIME in shape for shape in calls)


def test_what_mamba_ssm_cannot_do_is_left_to_torch(calls: Calls) -> None:
    for name, precision in (("mamba2", "float32"), ("mamba", "tf32"), ("mamba2", "tf32")):
        make, inputs = NETWORKS[name].make, inputs_of(name)
        double = precision == "tf32"
        model, other = (make().double() if double else make() for _ in range(2))
        with matrix_products(precision):
            found, expected = computed(on_cuda(other), inputs.as_subclass(OnCuda)), computed(model, inputs)
        for one, right in zip(found, expected, strict=True):
            torch.testing.assert_close(one, right, rtol=1e-4, atol=1e-4 * float(right.abs().max()) + 1e-7)
    assert not calls


def scan_arguments(kind: Any = torch.float32) -> list[Tensor]:
    random = np.random.default_rng(1)
    shapes = [(BATCH, TIME, 5), (BATCH, TIME, 5), (5, 3), (BATCH, TIME, 3), (BATCH, TIME, 3), (5,)]
    u, delta, A, B, C, D = (torch.from_numpy(random.standard_normal(shape)).to(kind) for shape in shapes)
    return [u, delta.abs(), -A.abs(), B, C, D]


@pytest.mark.parametrize("skip", [True, False])
def test_a_scan_through_mamba_ssm_has_the_state_and_the_output_of_the_cpu(skip: bool, calls: Calls) -> None:
    arguments = scan_arguments()[: 6 if skip else 5]
    expected = selective.selective_scan(*arguments, return_state=True)
    with torch.no_grad():
        found = selective.selective_scan(*map(claimed, arguments), return_state=True)
    assert len(calls) == 1
    for one, right in zip(found, expected, strict=True):
        torch.testing.assert_close(one.as_subclass(Tensor), right, rtol=1e-5, atol=1e-5)


def test_parts_of_longer_rows_are_copied_before_mamba_ssm_reads_them(calls: Calls) -> None:
    """As behind a convolution without an activation: time is the last axis in memory, in rows of TIME + 3."""
    u, delta, A, B, C, D = scan_arguments()

    def part_of_longer(x: Tensor) -> Tensor:
        return F.pad(x.transpose(1, 2), (0, 3))[..., :TIME].transpose(1, 2).as_subclass(OnCuda)

    sequences = [part_of_longer(x) for x in (u, delta, B, C)]
    with pytest.raises(AssertionError, match="16 bytes"):  # as they are
        selective_scan_fn(*(x.transpose(1, 2) for x in sequences[:2]), A, *(x.transpose(1, 2) for x in sequences[2:]))
    found = selective.selective_scan(sequences[0], sequences[1], claimed(A), sequences[2], sequences[3], claimed(D))
    assert len(calls) == 1
    torch.testing.assert_close(
        found.as_subclass(Tensor), selective.selective_scan(u, delta, A, B, C, D), rtol=1e-5, atol=1e-5
    )


def wrongly(change: Callable[..., Any]) -> Callable[..., Any]:
    """`fused_selective_scan` with other arguments; `change` gets u, delta, A, B, C, D in the layout of mamba-ssm."""

    def fused(kernel: Any, u: Tensor, delta: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor) -> Any:
        arguments = (u.mT.contiguous(), delta.mT.contiguous(), A, B.mT.contiguous(), C.mT.contiguous(), D)
        y, state = kernel(*change(*arguments), return_last_state=True)
        return y.mT, state

    return fused


WRONG: dict[str, Callable[..., Any]] = {
    "B and C swapped": lambda u, delta, A, B, C, D: (u, delta, A, C, B, D),
    "delta not transposed": lambda u, delta, A, B, C, D: (u, delta.mT, A, B, C, D),
    "u and delta swapped": lambda u, delta, A, B, C, D: (delta, u, A, B, C, D),
    "no softplus": lambda u, delta, A, B, C, D: (u, inverse_softplus(delta), A, B, C, D),
    "softplus twice": lambda u, delta, A, B, C, D: (u, F.softplus(delta), A, B, C, D),
    "D left out": lambda u, delta, A, B, C, D: (u, delta, A, B, C),
    "A with the other sign": lambda u, delta, A, B, C, D: (u, delta, -A, B, C, D),
    "the gate of another place": lambda u, delta, A, B, C, D: (u, delta, A, B, C, D, u),
    "B of the channels": lambda u, delta, A, B, C, D: (u, delta, A, A, C, D),
    "rows in float64": lambda u, delta, A, B, C, D: (u.double(), delta.double(), A, B.double(), C.double(), D),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_call_is_noticed(name: str, calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selective, "fused_selective_scan", wrongly(lambda *right: right))
    compare("mamba")
    monkeypatch.setattr(selective, "fused_selective_scan", wrongly(WRONG[name]))
    with pytest.raises(AssertionError):
        compare("mamba")


def test_a_delta_that_is_not_transposed_is_noticed_where_shapes_cannot_tell(calls: Calls) -> None:
    """As many channels as times."""
    u, delta, A, B, C, D = scan_arguments()
    square = [x[..., :5].contiguous() for x in (u[:, :5], delta[:, :5])]
    rest = (A, B[:, :5].contiguous(), C[:, :5].contiguous(), D)
    expected = selective.selective_scan(*square, *rest)
    kernel = selective._mamba_ssm_kernel()
    assert torch.allclose(selective.fused_selective_scan(kernel, *square, *rest)[0], expected, atol=1e-5)
    wrong = wrongly(WRONG["delta not transposed"])(kernel, *square, *rest)[0]
    assert not torch.allclose(wrong, expected, atol=1e-2)


WRONG_CHUNKS: dict[str, Callable[..., Any]] = {
    "B and C swapped": lambda x, dt, A, B, C, D: (x, dt, A, C, B, D),
    "no groups": lambda x, dt, A, B, C, D: (x, dt, A, B[:, :, 0], C[:, :, 0], D),
    "D left out": lambda x, dt, A, B, C, D: (x, dt, A, B, C, None),
    "softplus twice": lambda x, dt, A, B, C, D: (x, F.softplus(dt), A, B, C, D),
    "decays in order of heads turned round": lambda x, dt, A, B, C, D: (x, dt, A.flip(0), B, C, D),
    "time and heads swapped": lambda x, dt, A, B, C, D: (x.transpose(1, 2), dt.transpose(1, 2), A, B, C, D),
}


@pytest.mark.parametrize("name", WRONG_CHUNKS)
def test_a_wrong_call_for_mamba2_is_noticed(name: str, calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    several_heads = "mamba2, head_width 1"

    def fused(change: Callable[..., Any]) -> Callable[..., Any]:
        def call(kernel: Any, u: Any, delta: Any, A: Any, B: Any, C: Any, D: Any, chunk: int) -> Any:
            x, dt, A, B, C, D = change(u, delta, A, B[:, :, None], C[:, :, None], D)
            return kernel(x, dt, A, B, C, chunk, D=D)

        return call

    monkeypatch.setattr(scalar, "fused_scalar_decay_scan", fused(lambda *right: right))
    compare(several_heads)
    monkeypatch.setattr(scalar, "fused_scalar_decay_scan", fused(WRONG_CHUNKS[name]))
    with pytest.raises((AssertionError, ValueError)):
        compare(several_heads)


@pytest.mark.parametrize(
    ("module", "stand_in"),
    [
        ("mamba_ssm.ops.selective_scan_interface", selective_scan_fn),
        ("mamba_ssm.ops.triton.ssd_combined", mamba_chunk_scan_combined),
    ],
)
def test_the_stand_ins_have_the_signatures_of_mamba_ssm(module: str, stand_in: Callable[..., Any]) -> None:
    real = pytest.importorskip(module, reason="mamba-ssm is not installed", exc_type=ImportError)
    theirs = inspect.signature(getattr(real, stand_in.__name__)).parameters
    ours = inspect.signature(stand_in).parameters
    assert [(p.name, p.default) for p in theirs.values()] == [(p.name, p.default) for p in ours.values()]
