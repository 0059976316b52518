"""RNN and LSTM as compiled loops: against torch's modules in double precision, with all gradients."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from lib.models import create
from lib.models.kernels import recurrent as dispatch
from lib.models.kernels.recurrent import CompiledLSTM, CompiledRNN, lstm, rnn

Run = Callable[..., tuple[Tensor, ...]]
MODULES = {"rnn": torch.nn.RNN, "relu": torch.nn.RNN, "lstm": torch.nn.LSTM}
WIDTHS = [1, 2, 3, 8, 17, 32, 64]
TYPES = [torch.float32, torch.float64]
VALUES = {torch.float32: 1e-6, torch.float64: 1e-12}  # largest differences, as shares of the largest number
GRADIENTS = {torch.float32: 1e-5, torch.float64: 1e-12}


def compiled(kind: str, *arguments: Tensor) -> tuple[Tensor, ...]:
    """(x, weight_ih, weight_hh, bias, initial states) -> states and, of an LSTM, the last cell; never torch's own."""
    if kind == "lstm":
        return CompiledLSTM.apply(*arguments, True)
    return (CompiledRNN.apply(*arguments, kind == "relu"),)


def without_recurrence(kind: str, *arguments: Tensor) -> tuple[Tensor, ...]:
    """What a kernel that forgets U h would give."""
    x, weight_ih, weight_hh, *others = arguments
    return compiled(kind, x, weight_ih, 0 * weight_hh, *others)


def without_its_gradient(kind: str, *arguments: Tensor) -> tuple[Tensor, ...]:
    """What a kernel would give whose backward pass forgets that U is multiplied with h."""
    x, weight_ih, weight_hh, *others = arguments
    return compiled(kind, x, weight_ih, weight_hh.detach() + 0 * weight_hh, *others)


def problem(
    kind: str, inputs: int, width: int, batch: int, time: int, depth: int = 1, dtype: Any = torch.float64, seed: int = 0
) -> tuple[Tensor, list[list[Tensor]], list[list[Tensor]]]:
    """x, weights of every layer, and its initial states; all leaves with gradients."""
    random = np.random.default_rng(seed)
    gates, states = (4, 2) if kind == "lstm" else (1, 1)

    def draw(*shape: int, scale: float = 1.0) -> Tensor:
        return torch.from_numpy(scale * random.standard_normal(shape)).to(dtype).requires_grad_()

    weights = [
        [draw(gates * width, columns, scale=columns**-0.5) for columns in (size, width)]
        + [draw(gates * width, scale=0.3)]
        for size in [inputs, *[width] * (depth - 1)]
    ]
    return draw(batch, time, inputs), weights, [[draw(batch, width) for _ in range(states)] for _ in range(depth)]


def numbers(
    outputs: Callable[..., list[Tensor]], x: Tensor, weights: list[list[Tensor]], initial: list[list[Tensor]]
) -> tuple[list[Tensor], list[Tensor]]:
    """What comes out, and the gradients of a fixed random combination of it."""
    found = outputs(x, weights, initial)
    random = np.random.default_rng(9)
    total = sum((y * torch.from_numpy(random.standard_normal(y.shape)).to(y.dtype)).sum() for y in found)
    leaves = [x, *itertools.chain(*weights, *initial)]
    return [y.detach() for y in found], list(torch.autograd.grad(total, [y for y in leaves if y.requires_grad]))


def stacked(run: Run, kind: str) -> Callable[..., list[Tensor]]:
    """Layers upon each other: the states of the last one, and the last cell of all."""

    def outputs(x: Tensor, weights: list[list[Tensor]], initial: list[list[Tensor]]) -> list[Tensor]:
        cells = []
        for layer, states in zip(weights, initial, strict=True):
            x, *last = run(kind, x, *layer, *states)
            cells += last
        return [x, *cells]

    return outputs


def of_torch(kind: str) -> Callable[..., list[Tensor]]:
    """The same by torch.nn.RNN or torch.nn.LSTM, in their own type, with the second bias at zero."""

    def outputs(x: Tensor, weights: list[list[Tensor]], initial: list[list[Tensor]]) -> list[Tensor]:
        width, options = weights[0][1].shape[1], {"nonlinearity": "relu"} if kind == "relu" else {}
        module = MODULES[kind](x.shape[2], width, len(weights), batch_first=True, dtype=x.dtype, **options)
        named = {}
        for number, (weight_ih, weight_hh, bias) in enumerate(weights):
            named |= {f"weight_ih_l{number}": weight_ih, f"weight_hh_l{number}": weight_hh, f"bias_ih_l{number}": bias}
            named[f"bias_hh_l{number}"] = torch.zeros_like(bias)
        states = tuple(torch.stack(layers) for layers in zip(*initial, strict=True))
        given = (x, states if kind == "lstm" else states[0])
        out, last = torch.func.functional_call(module, named, given)
        return [out, *(last[1] if kind == "lstm" else [])]

    return outputs


def largest_differences(found: list[Tensor], expected: list[Tensor], at_least: float = 1e-30) -> list[float]:
    """Of each pair, as a share of the largest number expected, or of `at_least` if that is larger."""
    return [
        float((one.double() - other.double()).abs().max() / max(float(other.abs().max()), at_least))
        for one, other in zip(found, expected, strict=True)
    ]


def check_against_torch(run: Run, kind: str, dtype: Any, *sizes: int, zero: bool = False) -> None:
    """Values and gradients against torch's modules in float64, given the very same numbers.

    Where a sum cancels, single precision itself is off by more: what torch's float32 is off is added twice.
    """
    x, weights, initial = problem(kind, *sizes, dtype=dtype)
    if zero:
        initial = [[torch.zeros_like(state, requires_grad=True) for state in layer] for layer in initial]
    exact = [[y.detach().double().requires_grad_() for y in layer] for layer in (*weights, *initial)]
    truth = numbers(of_torch(kind), x.detach().double().requires_grad_(), exact[: len(weights)], exact[len(weights) :])
    plain = numbers(of_torch(kind), x, weights, initial)
    found = numbers(stacked(run, kind), x, weights, initial)
    # What a sum started from says how exact it can be, however small it has become.
    started = max(float(state.detach().abs().max()) for layer in initial for state in layer)
    for tolerances, scale, *results in zip((VALUES, GRADIENTS), (started, 1e-30), truth, plain, found, strict=True):
        expected, of_torch_itself, ours = results
        assert all(y.dtype == dtype for y in ours)
        allowed = [tolerances[dtype] + 2 * error for error in largest_differences(of_torch_itself, expected, scale)]
        assert all(
            error < most for error, most in zip(largest_differences(ours, expected, scale), allowed, strict=True)
        )


@pytest.mark.parametrize("kind", ["rnn", "lstm"])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("width", WIDTHS)
def test_values_and_gradients_are_those_of_torch(kind: str, dtype: Any, width: int) -> None:
    for batch, time in itertools.product((1, 3, 48), (1, 2, 64)):
        check_against_torch(compiled, kind, dtype, 2, width, batch, time)
    for depth in (2, 3):
        check_against_torch(compiled, kind, dtype, 5, width, 3, 64, depth)
        check_against_torch(compiled, kind, dtype, 1, width, 17, 18, depth, zero=True)


@pytest.mark.parametrize("dtype", TYPES)
def test_relu_is_that_of_torch(dtype: Any) -> None:
    for batch, time, depth in ((1, 1, 1), (20, 33, 1), (3, 20, 2)):
        check_against_torch(compiled, "relu", dtype, 3, 9, batch, time, depth)


@pytest.mark.parametrize("broken", [without_recurrence, without_its_gradient])
@pytest.mark.parametrize("kind", ["rnn", "relu", "lstm"])
@pytest.mark.parametrize("dtype", TYPES)
def test_a_kernel_without_its_recurrent_term_is_not(broken: Run, kind: str, dtype: Any) -> None:
    check_against_torch(compiled, kind, dtype, 2, 3, 3, 2)
    with pytest.raises(AssertionError):
        check_against_torch(broken, kind, dtype, 2, 3, 3, 2)


@pytest.mark.parametrize("kind", ["rnn", "lstm"])
def test_the_gradients_are_derivatives(kind: str) -> None:
    for width, batch, time in ((1, 1, 1), (3, 2, 5), (2, 17, 2)):
        x, weights, initial = problem(kind, 2, width, batch, time)
        inputs = (x, *weights[0], *initial[0])
        assert torch.autograd.gradcheck(lambda *arguments: compiled(kind, *arguments), inputs)


def test_two_steps_done_by_hand() -> None:
    one = torch.ones(1, 1)
    x, initial = torch.tensor([[[0.5], [-1.0]]]), torch.tensor([[0.25]])
    first = np.tanh(3 * 0.5 + 2 * 0.25 + 0.1)
    expected = [first, np.tanh(-3 + 2 * first + 0.1)]
    assert rnn(x, 3 * one, 2 * one, torch.tensor([0.1]), initial).flatten().tolist() == pytest.approx(
        expected, rel=1e-6
    )
    closed, opened = torch.tensor([-100.0]), torch.tensor([100.0])
    # All gates see their bias alone. Closed input, open forget and output: the cell keeps what it had.
    bias = torch.cat([closed, opened, torch.zeros(1), opened])
    out, cell = lstm(x, torch.zeros(4, 1), torch.zeros(4, 1), bias, initial, torch.tensor([[0.7]]))
    assert cell.item() == pytest.approx(0.7, rel=1e-6)
    assert out.flatten().tolist() == pytest.approx([np.tanh(0.7)] * 2, rel=1e-6)


@pytest.mark.parametrize("kind", ["rnn", "lstm"])
def test_a_sequence_may_be_cut_anywhere_and_the_state_handed_over(kind: str) -> None:
    x, (layer,), (states,) = problem(kind, 2, 5, 18, 40)
    whole, *end = compiled(kind, x, *layer, *states)
    for cut in (0, 1, 15, 16, 17, 32, 40):
        first, *cells = compiled(kind, x[:, :cut], *layer, *states)
        between = first[:, -1] if cut else states[0]
        second, *last = compiled(kind, x[:, cut:], *layer, between, *cells)
        torch.testing.assert_close(torch.cat([first, second], dim=1), whole, rtol=0, atol=1e-13)
        torch.testing.assert_close(last, end, rtol=0, atol=1e-13)


@pytest.mark.parametrize("kind", ["rnn", "relu", "lstm"])
def test_inputs_need_not_be_contiguous_and_need_not_all_have_gradients(kind: str) -> None:
    given = problem(kind, 3, 5, 18, 20)
    values, gradients = numbers(stacked(compiled, kind), *given)
    x, (layer,), (states,) = given

    def scattered(y: Tensor) -> Tensor:
        return y.detach().transpose(0, -1).contiguous().transpose(0, -1).requires_grad_()

    strided = scattered(x), [[scattered(y) for y in layer]], [[scattered(y) for y in states]]
    assert not strided[0].is_contiguous()
    for found, expected in zip(numbers(stacked(compiled, kind), *strided), (values, gradients), strict=True):
        assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))
    inputs = [x, *layer, *states]
    for place in range(len(inputs)):
        alone = [y.detach().requires_grad_(i == place) for i, y in enumerate(inputs)]
        _, (gradient,) = numbers(stacked(compiled, kind), alone[0], [alone[1:4]], [alone[4:]])
        assert torch.equal(gradient, gradients[place])
    (gradient,) = torch.autograd.grad(compiled(kind, *inputs)[0].sum(), [x])  # that of a sum has no memory of its own
    exact = torch.autograd.grad(of_torch(kind)(x, [layer], [states])[0].sum(), [x])[0]
    torch.testing.assert_close(gradient, exact, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", ["rnn", "lstm"])
def test_the_number_of_threads_does_not_change_a_bit(kind: str) -> None:
    given, threads = problem(kind, 3, 11, 70, 60, dtype=torch.float32), torch.get_num_threads()
    results = []
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            results.append(list(itertools.chain(*numbers(stacked(compiled, kind), *given))))
    finally:
        torch.set_num_threads(threads)
    for other in results[1:]:
        assert all(torch.equal(first, second) for first, second in zip(results[0], other, strict=True))


def test_many_networks_at_once_do_not_disturb_each_other() -> None:
    problems = [problem("lstm", 3, 11, 40, 60, dtype=torch.float32, seed=seed) for seed in range(6)]
    alone = [numbers(stacked(compiled, "lstm"), *given)[1] for given in problems]
    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(lambda given: numbers(stacked(compiled, "lstm"), *given)[1], problems))
    for first, second in zip(alone, together, strict=True):
        assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))


@pytest.mark.parametrize("kind", ["rnn", "relu", "lstm"])
def test_a_nan_does_not_get_lost_and_large_numbers_make_none(kind: str) -> None:
    x, (layer,), (states,) = problem(kind, 2, 5, 3, 20, dtype=torch.float32)
    inputs = [y.detach() for y in (x, *layer, *states)]
    for place in range(len(inputs)):
        spoilt = [y.clone() for y in inputs]
        spoilt[place].view(-1)[0] = float("nan")
        assert any(bool(y.isnan().any()) for y in compiled(kind, *spoilt)), place
    if kind != "relu":  # whose states are not bounded
        for scale in (1e4, 1e8):
            loud = [scale * y for y in inputs[:4]] + inputs[4:]
            loud = [y.requires_grad_() for y in loud]
            found = numbers(stacked(compiled, kind), loud[0], [loud[1:4]], [loud[4:]])
            assert all(bool(y.isfinite().all()) for y in itertools.chain(*found))


@pytest.mark.parametrize("kind", ["rnn", "lstm"])
def test_empty_batches_and_times_have_empty_states(kind: str) -> None:
    for batch, time in ((0, 3), (3, 0)):
        x, (layer,), (states,) = problem(kind, 2, 5, batch, time)
        out, *cells = compiled(kind, x, *layer, *states)
        assert out.shape == (batch, time, 5)
        assert all(torch.equal(cell, states[1]) for cell in cells)
        gradients = torch.autograd.grad(out.sum() + sum(cell.sum() for cell in cells), [x, *layer])
        assert [y.shape for y in gradients] == [y.shape for y in (x, *layer)]
        assert not any(bool(y.any()) for y in gradients)


def test_an_rnn_keeps_nothing_for_its_gradients_but_what_there_is_an_lstm_its_gates() -> None:
    def kept(kind: str, time: int) -> int:
        x, (layer,), (states,) = problem(kind, 2, 3, 16, time)
        found: list[int] = []
        with torch.autograd.graph.saved_tensors_hooks(lambda y: found.append(y.numel()) or y, lambda y: y):
            out, *_ = (rnn if kind == "rnn" else lambda *arguments: lstm(*arguments)[0])(x, *layer, *states), None
        return sum(found) - sum(y.numel() for y in (x, *layer, *states, out))

    assert [kept("rnn", time) for time in (16, 64)] == [0, 0]
    assert [kept("lstm", time) for time in (16, 64)] == [16 * 3 * (4 * time + time // 16) for time in (16, 64)]
    x, (layer,), (states,) = problem("lstm", 2, 3, 16, 5)
    with torch.no_grad():
        assert not lstm(x, *layer, *states)[0].requires_grad


def test_second_derivatives_are_refused_and_so_are_inputs_changed_in_place() -> None:
    for kind in ("rnn", "lstm"):
        x, (layer,), (states,) = problem(kind, 2, 3, 2, 4)
        out, *_ = compiled(kind, x, *layer, *states)
        with pytest.raises(RuntimeError, match="first derivatives only"):
            torch.autograd.grad(out.sum(), [x], create_graph=True)
        out, *_ = compiled(kind, x, *layer, *states)
        with torch.no_grad():
            layer[1] += 1.0
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            out.sum().backward()


@pytest.mark.parametrize("kind", ["rnn", "lstm"])
def test_the_compiled_loops_are_chosen_on_the_cpu_alone(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    used = []

    class Watched:
        @staticmethod
        def apply(*arguments: Any) -> Any:
            used.append(arguments[0].dtype)
            return {"rnn": CompiledRNN, "lstm": CompiledLSTM}[kind].apply(*arguments)

    monkeypatch.setattr(dispatch, {"rnn": "CompiledRNN", "lstm": "CompiledLSTM"}[kind], Watched)
    tokens = torch.randint(0, 2, (20, 7), generator=torch.Generator().manual_seed(0))
    for dtype in TYPES:
        create(kind, 2, 6, 2).to(dtype)(tokens)
    assert used == [torch.float32] * 2 + [torch.float64] * 2
    used.clear()
    model = create(kind, 2, 6, 2)
    out = model.to("meta")(tokens.to("meta"))
    assert out.shape == (20, 7, 2)
    out.sum().backward()
    create(kind, 2, 6).to(torch.bfloat16)(tokens)
    create(kind, 2, 400)(tokens)  # products so wide are left to torch
    assert not used


@pytest.mark.parametrize("kind", ["rnn", "lstm"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_the_parallel_form_is_that_of_the_steps(kind: str, dtype: Any, tolerance: float) -> None:
    model = create(kind, 3, 17, 2, seed=1).to(dtype)
    tokens = torch.from_numpy(np.random.default_rng(0).integers(3, size=(50, 40)))
    state, logits = model.initial_state(50), []
    with torch.no_grad():
        for token in tokens.T:
            one, state = model.step(token, state)
            logits.append(one)
        assert float((model(tokens) - torch.stack(logits, dim=1)).abs().max()) < tolerance


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": torch.zeros(2, 9)}, "x: shape"),
        ({"weight_hh": torch.zeros(4)}, "weight_hh: shape"),
        ({"weight_hh": torch.zeros(3, 4)}, r"weight_hh: shape \(4, 4\)"),
        ({"weight_ih": torch.zeros(4, 2)}, r"weight_ih: shape \(4, 3\)"),
        ({"bias": torch.zeros(8)}, r"bias: shape \(4,\)"),
        ({"initial": torch.zeros(1, 4)}, r"initial: shape \(2, 4\)"),
        ({"nonlinearity": "sine"}, "tanh or relu"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(change: dict[str, Any], message: str) -> None:
    fitting = {"x": torch.zeros(2, 9, 3), "weight_ih": torch.zeros(4, 3), "weight_hh": torch.zeros(4, 4)}
    fitting |= {"bias": torch.zeros(4), "initial": torch.zeros(2, 4)}
    with pytest.raises(ValueError, match=message):
        rnn(**(fitting | change))
    assert rnn(**fitting).shape == (2, 9, 4)


def test_an_lstm_needs_four_gates_and_a_cell_that_fits() -> None:
    x, (layer,), (states,) = problem("lstm", 3, 4, 2, 9)
    with pytest.raises(ValueError, match=r"weight_ih: shape \(16, 3\)"):
        lstm(x, layer[0][:4], *layer[1:], *states)
    with pytest.raises(ValueError, match=r"initial_cell: shape \(2, 4\)"):
        lstm(x, *layer, states[0], states[1][:1])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("kind", ["rnn", "lstm"])
def test_both_devices_agree(kind: str) -> None:
    model, tokens = create(kind, 3, 17, 2, seed=1), torch.randint(0, 3, (20, 40))
    there = create(kind, 3, 17, 2, seed=1).cuda()
    torch.testing.assert_close(model(tokens), there(tokens.cuda()).cpu(), rtol=1e-3, atol=1e-4)
