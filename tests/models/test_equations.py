"""The mixers against the equations they stand for, written out another way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.signal import cont2discrete

from lib.models import create
from lib.models.attention.linear import (
    CHUNK,
    SYSTEM,
    LinearAttentionMixer,
    LinearTransformer,
    TTTLinearMixer,
    causal_products,
    unit_lower_solution,
)
from lib.models.attention.patterns import Strided
from lib.models.attention.transformer import Attention
from lib.models.base import seeded
from lib.models.recurrent.basic import LSTMLayer
from lib.models.state_space.diagonal import DiagonalMixer
from lib.models.state_space.mamba import MambaMixer
from lib.models.state_space.mamba2 import Mamba2Mixer
from lib.training.settings import forward_pass


def inputs(time: int, width: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(1).standard_normal((1, time, width)))


def weights_of(mixer: torch.nn.Module) -> dict[str, np.ndarray]:
    return {name: value.detach().numpy() for name, value in mixer.named_parameters()}


def silu(x: np.ndarray) -> np.ndarray:
    return x / (1 + np.exp(-x))


def softplus(x: np.ndarray) -> np.ndarray:
    return np.logaddexp(0, x)


def output(mixer: torch.nn.Module, x: torch.Tensor) -> np.ndarray:
    with torch.no_grad():
        return mixer.double()(x)[0].numpy()


def causal(x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """Convolution of each column, by its definition."""
    kernel = weight.shape[-1]
    padded = np.vstack([np.zeros((kernel - 1, x.shape[1])), x])
    return np.array([(padded[t : t + kernel].T * weight[:, 0]).sum(axis=1) + bias for t in range(len(x))])


def test_mamba_has_the_layout_of_mamba_ssm_and_follows_its_recurrence() -> None:
    width, size, time = 20, 3, 9
    with seeded(0):
        mixer = MambaMixer(width, size).double()
    assert {name: tuple(p.shape) for name, p in mixer.named_parameters()} == {
        "A_log": (40, 3),
        "D": (40,),
        "in_proj.weight": (80, 20),
        "conv1d.weight": (40, 1, 4),
        "conv1d.bias": (40,),
        "x_proj.weight": (2 + 2 * 3, 40),
        "dt_proj.weight": (40, 2),
        "dt_proj.bias": (40,),
        "out_proj.weight": (20, 40),
    }
    x, w = inputs(time, width), weights_of(mixer)
    projected = x[0].numpy() @ w["in_proj.weight"].T
    u, gate = silu(causal(projected[:, :40], w["conv1d.weight"], w["conv1d.bias"])), silu(projected[:, 40:])
    state, expected = np.zeros((40, size)), []
    for t in range(time):
        selected = w["x_proj.weight"] @ u[t]
        dt = softplus(w["dt_proj.weight"] @ selected[:2] + w["dt_proj.bias"])
        B, C = selected[2:5], selected[5:]
        for channel in range(40):
            decay = np.exp(-dt[channel] * np.exp(w["A_log"][channel]))
            state[channel] = decay * state[channel] + dt[channel] * u[t, channel] * B
        expected.append(w["out_proj.weight"] @ ((state @ C + w["D"] * u[t]) * gate[t]))
    np.testing.assert_allclose(output(mixer, x), expected, atol=1e-12)


def test_mamba_starts_with_the_time_steps_and_decays_of_the_paper() -> None:
    with seeded(0):
        mixer = MambaMixer(64)
    steps = softplus(mixer.dt_proj.bias.detach().numpy())
    assert 1e-3 * 0.99 < steps.min() < 3e-3 < 3e-2 < steps.max() < 0.1 * 1.01
    np.testing.assert_allclose(mixer.A_log.exp().detach().numpy(), np.tile(np.arange(1, 17), (128, 1)), rtol=1e-6)


def test_mamba2_has_the_layout_of_mamba_ssm_and_follows_its_recurrence() -> None:
    width, size, head_width, time = 6, 3, 4, 75  # longer than a chunk
    with seeded(0):
        mixer = Mamba2Mixer(width, size, head_width=head_width).double()
    assert {name: tuple(p.shape) for name, p in mixer.named_parameters()} == {
        "dt_bias": (3,),
        "A_log": (3,),
        "D": (3,),
        "in_proj.weight": (2 * 12 + 2 * 3 + 3, 6),
        "conv1d.weight": (12 + 2 * 3, 1, 4),
        "conv1d.bias": (18,),
        "norm.weight": (12,),
        "out_proj.weight": (6, 12),
    }
    x, w = inputs(time, width), weights_of(mixer)
    gate, mixed, dt = np.split(x[0].numpy() @ w["in_proj.weight"].T, [12, 30], axis=1)
    mixed, dt = silu(causal(mixed, w["conv1d.weight"], w["conv1d.bias"])), softplus(dt + w["dt_bias"])
    state, expected = np.zeros((3, 4, size)), []
    for t in range(time):
        u, B, C = mixed[t, :12].reshape(3, 4), mixed[t, 12:15], mixed[t, 15:]
        for head in range(3):
            decay = np.exp(-dt[t, head] * np.exp(w["A_log"][head]))
            state[head] = decay * state[head] + dt[t, head] * np.outer(u[head], B)
        y = (state @ C + w["D"][:, None] * u).ravel() * silu(gate[t])
        expected.append(w["out_proj.weight"] @ (y / np.sqrt(np.mean(y**2) + 1e-5) * w["norm.weight"]))
    np.testing.assert_allclose(output(mixer, x), expected, atol=1e-11)


def test_the_diagonal_ssm_is_the_zero_order_hold_of_its_differential_equation() -> None:
    for spectrum in ("real", "complex"):
        with seeded(0):
            mixer = DiagonalMixer(2, 4, spectrum).double()
        with torch.no_grad():
            transition, gain, _ = mixer._discrete()
        rates = np.log(transition.numpy().astype(complex)) / np.exp(mixer.log_dt.detach().numpy())[:, None]
        for channel in range(2):
            step = float(mixer.log_dt[channel].detach().exp())
            for mode in range(transition.shape[1]):
                system = (np.array([[rates[channel, mode]]]), np.ones((1, 1)), np.ones((1, 1)), np.zeros((1, 1)))
                discrete = cont2discrete(system, step, method="zoh")
                np.testing.assert_allclose(discrete[0].item(), transition[channel, mode].item(), rtol=1e-12)
                np.testing.assert_allclose(discrete[1].item(), gain[channel, mode].item(), rtol=1e-10)
        assert rates.real.max() < 0


def test_fast_weights_take_the_gradient_step_that_autograd_finds() -> None:
    with seeded(0):
        mixer = TTTLinearMixer(6, 2).double()
    x = inputs(1, 6)
    _, k, v, rate = (part[0, :, 0] for part in mixer._heads(x))
    before = torch.randn(
        1, 2, 3, 3, dtype=torch.float64, requires_grad=True, generator=torch.Generator().manual_seed(0)
    )
    loss = ((torch.einsum("hij,hj->hi", before[0], k) - v) ** 2).sum(dim=-1) / 2  # of each head
    (gradient,) = torch.autograd.grad((loss * rate[:, 0]).sum(), before, retain_graph=True)
    _, state = mixer.step(x[:, 0], type(mixer.initial_state(1))(before))
    torch.testing.assert_close(state.weights, before - gradient)
    torch.testing.assert_close(k.norm(dim=-1), torch.ones(2, dtype=torch.float64))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_unit_lower_systems_of_any_precision_are_solved(dtype: Any) -> None:
    random = torch.Generator().manual_seed(0)
    matrix, right = torch.randint(-2, 3, (2, 5, 5), generator=random), torch.randint(-2, 3, (2, 5, 3), generator=random)
    found = unit_lower_solution(matrix.to(dtype), right.to(dtype))
    exact = torch.linalg.inv(matrix.double().tril(-1) + torch.eye(5).double()) @ right.double()
    assert found.dtype == dtype
    torch.testing.assert_close(found.double(), exact, rtol=2 * torch.finfo(dtype).eps, atol=1e-12)


NARROW = [("ttt_linear", {}), ("diagonal_ssm", {}), ("diagonal_ssm", {"size": 5, "spectrum": "real"})]


@pytest.mark.parametrize(("name", "options"), NARROW)
@pytest.mark.parametrize("whole", [True, False])
def test_in_bfloat16_logits_and_gradients_are_near_and_steps_are_the_parallel_form(
    name: str, options: dict[str, Any], whole: bool
) -> None:
    """whole: all parameters are of that type; else products alone, by autocast."""

    def found(narrow: bool) -> list[Any]:
        model = create(name, 5, 8, 2, seed=1, **options)
        model = model.bfloat16() if narrow and whole else model
        with forward_pass("bfloat16" if narrow and not whole else "float32", torch.device("cpu")):
            parallel, (steps, _) = model(tokens), model.forward_from(tokens, model.initial_state(2))
            parallel.float().square().sum().backward()
        gradient = torch.cat([parameter.grad.float().flatten() for parameter in model.parameters()])
        return [parallel.float().detach(), steps.float().detach(), gradient]

    tokens = torch.from_numpy(np.random.default_rng(0).integers(5, size=(2, SYSTEM + 6)))
    (parallel, steps, gradient), (exact, _, derivative) = found(True), found(False)
    assert 0 < (parallel - exact).norm() < 0.03 * exact.norm()
    assert (parallel - steps).norm() < 0.03 * exact.norm()
    assert (gradient - derivative).norm() < 0.05 * derivative.norm()


@pytest.mark.parametrize("shift", [-15.0, -18.0, -60.0])
def test_features_far_below_zero_keep_their_digits(shift: float) -> None:
    model = LinearTransformer(2, 2, heads=2, seed=1)
    with torch.no_grad():
        model.layers[0].mixer.in_proj.bias[2:4] = shift  # of the keys: their scale divides out, their ratios do not
    tokens = torch.tensor([[0, 1, 1, 0, 1]])
    narrow = model(tokens)
    assert torch.allclose(narrow, model.double()(tokens).float(), atol=1e-5)


@pytest.mark.parametrize("time", [6, 2 * CHUNK + 5])
def test_linear_attention_is_attention_with_a_kernel(time: int) -> None:
    with seeded(0):
        mixer = LinearAttentionMixer(4, 2).double()
    x = inputs(time, 4)
    with torch.no_grad():
        q, k, v = mixer.in_proj(x)[0].numpy().reshape(time, 3, 2, 2).transpose(1, 2, 0, 3)

    def feature(z: np.ndarray) -> np.ndarray:
        return np.where(z > 0, z + 1, np.exp(np.minimum(z, 0)))

    mixed = np.zeros((time, 2, 2))
    for t in range(time):
        for head in range(2):
            weights = np.array([feature(q[head, t]) @ feature(k[head, j]) for j in range(t + 1)])
            mixed[t, head] = weights / weights.sum() @ v[head, : t + 1]
    w = weights_of(mixer)
    np.testing.assert_allclose(output(mixer, x), mixed.reshape(time, 4) @ w["out_proj.weight"].T, atol=1e-12)


@given(time=st.integers(0, 14), chunk=st.integers(1, 16), size=st.integers(1, 3), seed=st.integers(0, 99))
def test_products_in_chunks_are_those_of_the_whole_triangle(time: int, chunk: int, size: int, seed: int) -> None:
    """In whole numbers, so that nothing is rounded; gradients too."""
    random = torch.Generator().manual_seed(seed)
    q, k = torch.randint(-9, 9, (2, 2, 3, time, size), generator=random).double().requires_grad_()
    v = torch.randint(-9, 9, (2, 3, time, 4), generator=random).double().requires_grad_()
    found, whole = causal_products(q, k, v, chunk), (q @ k.transpose(-2, -1)).tril() @ v
    assert torch.equal(found, whole)
    weight = torch.randint(-9, 9, whole.shape, generator=random).double()
    for one, other in zip(*(torch.autograd.grad((y * weight).sum(), (q, k, v)) for y in (found, whole)), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize(
    ("kind", "time"),
    [
        (kind, n * size + more)
        for kind, size in ((LinearAttentionMixer, CHUNK), (TTTLinearMixer, SYSTEM))
        for n, more in ((1, -1), (1, 0), (1, 1), (2, 5))
    ],
)
def test_a_chunk_begins_where_the_one_before_it_ended(kind: type, time: int) -> None:
    with seeded(0):
        mixer = kind(6, 2).double()
    x, found = inputs(time, 6), []
    with torch.no_grad():
        state = mixer.initial_state(1)
        for t in range(time):
            y, state = mixer.step(x[:, t], state)
            found.append(y[0].numpy())
    np.testing.assert_allclose(output(mixer, x), found, atol=1e-10)


def test_sparse_attention_is_a_softmax_over_the_positions_of_its_pattern() -> None:
    pattern = Strided(3, 2)
    with seeded(0):
        mixer = Attention(4, 2, pattern).double()
    x = inputs(9, 4)
    with torch.no_grad():
        q, k, v = mixer.in_proj(x)[0].numpy().reshape(9, 3, 2, 2).transpose(1, 2, 0, 3)
    mixed = np.zeros((9, 2, 2))
    for t in range(9):
        places = [j for j in range(t + 1) if t - j < 2 or (t - j) % 3 == 0]
        for head in range(2):
            weights = np.exp(k[head, places] @ q[head, t] / np.sqrt(2))
            mixed[t, head] = weights / weights.sum() @ v[head, places]
    w = weights_of(mixer)
    np.testing.assert_allclose(output(mixer, x), mixed.reshape(9, 4) @ w["out_proj.weight"].T, atol=1e-12)


@pytest.mark.parametrize("inputs_width", [2, 5])
def test_lstm_is_the_module_of_torch_with_its_second_bias_at_zero(inputs_width: int) -> None:
    with seeded(0):
        layer, reference = (
            LSTMLayer(inputs_width, 3).double(),
            torch.nn.LSTM(inputs_width, 3, batch_first=True).double(),
        )
    with torch.no_grad():
        layer.bias.copy_(torch.linspace(-1, 1, 12))
        for name, value in (("weight_ih", layer.weight_ih), ("weight_hh", layer.weight_hh), ("bias_ih", layer.bias)):
            getattr(reference, f"{name}_l0").copy_(value)
        reference.bias_hh_l0.zero_()
        x = inputs(8, inputs_width)
        torch.testing.assert_close(layer(x), reference(x)[0], rtol=0, atol=1e-13)
