"""Compiled causal attention: the same numbers and gradients as the sums written out, and as torch's own kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from lib.models import SlidingWindowTransformer, Transformer
from lib.models.attention.transformer import turned
from lib.models.kernels import attention as module
from lib.models.kernels.attention import WIDEST, CompiledAttention, causal_attention, split_heads, torch_attention

# shorter than a tile, a tile exactly, one more, several; windows of one, inside a tile, of a tile, across tiles
TIMES_AND_WINDOWS = [(1, 1), (2, 2), (17, 5), (64, 64), (65, 1), (65, 64), (130, 33), (150, 70), (150, 150)]


def projections(batch: int, time: int, heads: int, width: int, seed: int = 0, dtype: Any = torch.float64) -> Any:
    values = np.random.default_rng(seed).standard_normal((batch, time, 3 * heads * width))
    return torch.from_numpy(values).to(dtype).requires_grad_()


def within(time: int, window: int) -> torch.Tensor:
    distance = torch.arange(time)[:, None] - torch.arange(time)
    return (distance >= 0) & (distance < window)


def by_definition(projected: np.ndarray, heads: int, window: int) -> np.ndarray:
    """One head, query and key at a time."""
    batch, time, columns = projected.shape
    width = columns // 3 // heads
    q, k, v = projected.reshape(batch, time, 3, heads, width).transpose(2, 0, 3, 1, 4)
    out = np.empty((batch, time, heads, width))
    for b, h, t in np.ndindex(batch, heads, time):
        seen = slice(max(0, t - window + 1), t + 1)
        weights = np.exp(k[b, h, seen] @ q[b, h, t] / np.sqrt(width))
        out[b, t, h] = weights @ v[b, h, seen] / weights.sum()
    return out.reshape(batch, time, heads * width)


@pytest.mark.parametrize(("time", "window"), TIMES_AND_WINDOWS)
def test_the_compiled_form_is_the_definition(time: int, window: int) -> None:
    for heads, width in ((3, 1), (2, 5)):
        projected = projections(2, time, heads, width)
        mixed = CompiledAttention.apply(projected, heads, window)
        expected = by_definition(projected.detach().numpy(), heads, window)
        np.testing.assert_allclose(mixed.detach(), expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("width", [1, 2, 4, 5, 8])
@pytest.mark.parametrize(("time", "window"), TIMES_AND_WINDOWS)
def test_outputs_and_gradients_are_those_of_torch(time: int, window: int, width: int) -> None:
    heads = 2
    projected = projections(3, time, heads, width)
    upstream = projections(3, time, heads, width, seed=1).detach()[..., : heads * width]  # not contiguous
    compiled = CompiledAttention.apply(projected, heads, window)
    torchs = torch_attention(projected, heads, within(time, window))
    torch.testing.assert_close(compiled, torchs, rtol=0, atol=1e-12)
    gradients = [torch.autograd.grad(mixed, projected, upstream)[0] for mixed in (compiled, torchs)]
    torch.testing.assert_close(*gradients, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("time", "window"), [(6, 6), (7, 3), (66, 65)])
def test_gradients_are_finite_differences(time: int, window: int) -> None:
    for width in (1, 5):
        assert torch.autograd.gradcheck(
            lambda x: CompiledAttention.apply(x, 2, window),
            (projections(1, time, 2, width),),
            fast_mode=time > 10,  # one random direction instead of all of them
        )


def test_a_wrong_gradient_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same comparison with the window off by one going back."""
    run = module._run

    def wrong(kernel: Any, projected: Any, heads: int, window: int, others: Any) -> None:
        run(kernel, projected, heads, window - (kernel is module.kernels.backward), others)

    monkeypatch.setattr(module, "_run", wrong)
    with pytest.raises(RuntimeError, match="Jacobian mismatch"):
        torch.autograd.gradcheck(lambda x: CompiledAttention.apply(x, 1, 3), (projections(1, 6, 1, 2),))


@pytest.mark.parametrize("width", [1, 4, 8])
def test_single_precision_is_as_good_as_it_can_be(width: int) -> None:
    exact = projections(4, 300, 4, width)
    single = exact.detach().float().requires_grad_()
    upstream = projections(4, 300, 4, width, seed=1).detach()[..., : 4 * width]
    pairs = []
    for projected in (exact, single):
        mixed = CompiledAttention.apply(projected, 4, 300)
        pairs.append((mixed, torch.autograd.grad(mixed, projected, upstream.to(mixed.dtype))[0]))
    for right, rounded in zip(*pairs, strict=True):
        assert (right - rounded).detach().abs().max() < 1e-6 * max(1.0, right.detach().abs().max())


def test_large_scores_do_not_overflow_and_nan_stays_nan() -> None:
    projected = 1000.0 * projections(2, 100, 1, 2, dtype=torch.float32).detach()
    projected.requires_grad_()
    mixed = CompiledAttention.apply(projected, 1, 100)
    torch.testing.assert_close(mixed, torch_attention(projected, 1), rtol=1e-5, atol=1e-2)
    assert torch.autograd.grad(mixed.sum(), projected)[0].isfinite().all()
    spoilt = projected.detach().clone()
    spoilt[0, 70, 0] = torch.nan  # a query
    spoilt[1, 70, 2] = torch.nan  # a key
    broken = CompiledAttention.apply(spoilt, 1, 100).isnan().any(dim=-1)
    assert broken[0].nonzero().flatten().tolist() == [70]
    assert broken[1].nonzero().flatten().tolist() == list(range(70, 100))


def test_no_gradient_reaches_the_future_or_the_other_side_of_the_window() -> None:
    projected = projections(1, 200, 2, 2)
    for window in (200, 30):
        mixed = CompiledAttention.apply(projected, 2, window)
        (gradient,) = torch.autograd.grad(mixed[0, 120].square().sum(), projected)
        reached = gradient[0, :, 4:].abs().amax(dim=1).nonzero().flatten().tolist()
        assert reached == list(range(max(0, 121 - window), 121))
        assert gradient[0, :, :4].abs().amax(dim=1).nonzero().flatten().tolist() == [120]


def test_threads_change_no_bit() -> None:
    threads, results = torch.get_num_threads(), []
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            projected = projections(8, 150, 4, 2, dtype=torch.float32)
            mixed = CompiledAttention.apply(projected, 4, 150)
            results.append((mixed, *torch.autograd.grad(mixed.square().sum(), projected)))
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_what_is_kept_for_the_gradients_is_linear_in_time() -> None:
    sizes = []

    def keep(saved: torch.Tensor) -> torch.Tensor:
        sizes.append(saved.numel())
        return saved

    batch, time, heads, width = 2, 300, 4, 2
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda saved: saved):
        CompiledAttention.apply(projections(batch, time, heads, width), heads, time)
    assert sum(sizes) == batch * time * heads * (4 * width + 1)  # q, k, v, out; one logarithm per head


def test_second_derivatives_are_refused_and_torch_has_them() -> None:
    projected = projections(1, 5, 1, 2)
    mixed = CompiledAttention.apply(projected, 1, 5)
    (first,) = torch.autograd.grad(mixed.square().sum(), projected, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        plain = torch_attention(projected, 1, within(5, 5))
        (first,) = torch.autograd.grad(plain.square().sum(), projected, create_graph=True)
        assert torch.autograd.grad(first.sum(), projected)[0].isfinite().all()


@pytest.mark.parametrize("window", [None, 7])
def test_wide_heads_and_half_precision_go_through_torch(window: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CompiledAttention, "apply", None)
    for width, dtype in ((WIDEST + 1, torch.float64), (2, torch.bfloat16)):
        projected = projections(1, 20, 2, width, dtype=dtype)
        mask = within(20, window or 20)
        expected = torch_attention(projected, 2, mask)
        torch.testing.assert_close(causal_attention(projected, 2, window), expected, rtol=1e-2, atol=1e-2)
    with pytest.raises(TypeError):  # narrow heads would have gone through the compiled form
        causal_attention(projections(1, 20, 2, WIDEST), 2, window)


def test_heads_are_split_where_the_projection_has_them() -> None:
    projected = torch.arange(24.0).reshape(1, 1, 24)
    q, k, v = split_heads(projected, 2)
    assert q[0, 1, 0].tolist() == [4, 5, 6, 7]
    assert k[0, 0, 0].tolist() == [8, 9, 10, 11]
    assert v[0, 1, 0].tolist() == [20, 21, 22, 23]


@pytest.mark.parametrize("options", [{}, {"window": 20}, {"window": 100}])
def test_a_model_is_the_same_with_and_without_the_compiled_form(
    options: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = SlidingWindowTransformer if options else Transformer
    model = kind(3, 8, 2, seed=0, **options).double()
    tokens = torch.from_numpy(np.random.default_rng(0).integers(3, size=(2, 90)))
    parameters, results = list(model.parameters()), []
    for widest in (WIDEST, 0):
        monkeypatch.setattr(module, "WIDEST", widest)
        logits = model(tokens)
        results.append((logits, *torch.autograd.grad(logits.square().sum(), parameters)))
    for compiled, plain in zip(*results, strict=True):
        torch.testing.assert_close(compiled, plain, rtol=1e-11, atol=1e-11)


def test_rotary_scores_depend_on_the_distance_alone() -> None:
    heads, width = 2, 8
    q, k, v = torch.randn(3, 2, width, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).unbind(0)
    projected = torch.cat([q, k, v], dim=-1)[:, None]  # two sequences of one token each

    def score(query_at: int, key_at: int) -> torch.Tensor:
        query, _, _ = split_heads(turned(projected, heads, query_at), heads)
        _, key, _ = split_heads(turned(projected, heads, key_at), heads)
        return (query * key).sum(-1)

    for query_at, key_at in ((7, 2), (105, 100), (5, 0), (100005, 100000)):
        torch.testing.assert_close(score(query_at, key_at), score(5, 0), rtol=1e-9, atol=1e-9)
    assert not torch.allclose(score(6, 0), score(5, 0), rtol=1e-3)
    torch.testing.assert_close(turned(projected, heads, 0), projected)
    torch.testing.assert_close(turned(projected, heads, 9)[..., 2 * width :], projected[..., 2 * width :])  # values


def test_a_rotation_is_a_product_of_complex_numbers() -> None:
    projected = torch.randn(3, 11, 24, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    pairs = torch.view_as_complex(projected.unflatten(-1, (3, 2, 2, 2)).contiguous())  # (batch, time, 3, heads, pairs)
    angles = torch.arange(4, 15)[:, None] * torch.tensor([1.0, 10000.0**-0.5], dtype=torch.float64)
    phases = torch.polar(torch.ones_like(angles), angles)[:, None]
    expected = torch.cat([pairs[:, :, :2] * phases[:, None], pairs[:, :, 2:]], dim=2)
    found = turned(projected, 2, 4)
    torch.testing.assert_close(found, torch.view_as_real(expected).flatten(2), rtol=1e-12, atol=1e-12)


def test_without_positions_the_past_is_a_bag_and_with_them_it_is_not() -> None:
    tokens = torch.tensor([[1, 2, 3, 4, 0], [4, 2, 1, 3, 0]])  # the same past in another order
    for positions, alike in (("none", True), ("rotary", False), ("sinusoidal", False)):
        first, second = Transformer(5, 8, 1, positions=positions, seed=0).double()(tokens)[:, -1]
        assert torch.allclose(first, second, atol=1e-12) is alike


@pytest.mark.parametrize(
    ("options", "told"), [({"positions": "clock"}, "positions"), ({"positions": "rotary", "heads": 8}, "even width")]
)
def test_positions_that_cannot_be_are_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        Transformer(5, 8, **options)


@pytest.mark.parametrize(
    ("shape", "heads", "window", "told"),
    [
        ((1, 2, 24), 3, None, "projected: .* multiple of 3 heads = 9"),
        ((2, 24), 2, None, "projected"),
        ((1, 9, 12), 2, 0, "window: at least 1"),
        ((1, 9, 12), 0, None, "heads: at least 1"),
    ],
)
def test_projections_that_no_heads_share_are_refused(shape: Any, heads: int, window: Any, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        causal_attention(torch.ones(shape), heads, window)
