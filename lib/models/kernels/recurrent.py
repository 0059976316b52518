"""RNN and LSTM over whole sequences: compiled on the CPU, torch's own elsewhere and where it is as fast.

x (batch, time, inputs); weight_ih (gates x width, inputs), weight_hh (gates x width, width) and bias (gates x width,)
as in torch, whose second bias is redundant; initial states (batch, width). Returned states are (batch, time, width).
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from lib.models.kernels import recurrent_cpu as kernels
from lib.models.kernels.lanes import LANES
from lib.models.kernels.threads import numpy_arrays, refuse_second_derivatives, share

NONLINEARITIES = ("tanh", "relu")
# Widths up to which the compiled loops are faster: of a batch, and for each of its sequences. Torch runs an RNN as one
# operation at a time, an LSTM as one of oneDNN; with few sequences most of our lanes are empty.
RNN_WIDEST, RNN_WIDTH_PER_SEQUENCE = 256, 64
LSTM_WIDEST, LSTM_WIDTH_PER_SEQUENCE = 96, 4


def rnn(
    x: Tensor, weight_ih: Tensor, weight_hh: Tensor, bias: Tensor, initial: Tensor, nonlinearity: str = "tanh"
) -> Tensor:
    """h_t = tanh(W x_t + U h_{t-1} + b), or "relu" in place of tanh, for t = 1 .. time.

    The compiled loops have first derivatives only: a second one raises RuntimeError. Cost O(batch x time x width x
    (width + inputs)), memory for the gradients besides x and the result: none. Raises ValueError for shapes that do not
    fit and for another nonlinearity.
    """
    if nonlinearity not in NONLINEARITIES:
        raise ValueError(f"nonlinearity: {' or '.join(NONLINEARITIES)} is allowed, got {nonlinearity!r}")
    weights = (weight_ih, weight_hh, bias)
    _check(x, *weights, 1, initial)
    if _is_compiled(min(RNN_WIDEST, RNN_WIDTH_PER_SEQUENCE * x.shape[0]), x, *weights, initial):
        return CompiledRNN.apply(x, *weights, initial, nonlinearity == "relu")
    run = torch.rnn_relu if nonlinearity == "relu" else torch.rnn_tanh
    return run(x, initial[None], *_arguments_of_torch(*weights))[0]


def lstm(
    x: Tensor, weight_ih: Tensor, weight_hh: Tensor, bias: Tensor, initial: Tensor, initial_cell: Tensor
) -> tuple[Tensor, Tensor]:
    """c_t = f c_{t-1} + i tanh(g),  h_t = o tanh(c_t), for t = 1 .. time; i, f, o are sigmoids, gates in order i f g o.

    Returns h and the last c (batch, width). Cost and errors as of `rnn`; memory for the gradients is 4 numbers for
    every cell and time.
    """
    weights = (weight_ih, weight_hh, bias)
    _check(x, *weights, 4, initial, initial_cell)
    widest = min(LSTM_WIDEST, LSTM_WIDTH_PER_SEQUENCE * x.shape[0])
    if _is_compiled(widest, x, *weights, initial, initial_cell):
        keep = torch.is_grad_enabled() and any(y.requires_grad for y in (x, *weights, initial, initial_cell))
        found: tuple[Tensor, Tensor] = CompiledLSTM.apply(x, *weights, initial, initial_cell, keep)
        return found
    out, _, last = torch.lstm(x, (initial[None], initial_cell[None]), *_arguments_of_torch(*weights))
    return out, last[0]


class CompiledRNN(torch.autograd.Function):  # type: ignore[misc]
    """(x, weight_ih, weight_hh, bias, initial, relu) -> h."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Tensor:
        *inputs, relu = arguments
        x, weights, initial = _arrays(inputs)
        out = inputs[0].new_empty(*x.shape[:2], initial.shape[2])
        _share(kernels.rnn_forward, [x, weights, initial, relu, *numpy_arrays(out)])
        ctx.save_for_backward(*inputs, out)  # not copies of the inputs: torch then notices a change in place
        ctx.relu = relu
        return out

    @staticmethod
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_derivatives()
        *inputs, out = ctx.saved_tensors
        x, weights, initial = _arrays(inputs)
        filled = _blanks(inputs, ctx.needs_input_grad[0])
        given = [x, weights.T.copy(), initial, ctx.relu, *numpy_arrays(out, d_out)]
        _share(kernels.rnn_backward, [*given, *numpy_arrays(*filled)])
        return *_gradients(inputs, filled), None


class CompiledLSTM(torch.autograd.Function):  # type: ignore[misc]
    """(x, weight_ih, weight_hh, bias, initial, initial cell, keep) -> h and the last c; keep: for gradients."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> tuple[Tensor, Tensor]:
        *inputs, keep = arguments
        x, weights, initial, cell = _arrays(inputs)
        (batch, time, _), width = x.shape, initial.shape[2]
        out, last = inputs[0].new_empty(batch, time, width), inputs[0].new_empty(batch, width)
        pieces = -(-batch // LANES) if keep else 0
        gates = inputs[0].new_empty(pieces, time, 4 * width * LANES)
        cells = inputs[0].new_empty(pieces, -(-time // kernels.CHUNK), width * LANES)
        _share(kernels.lstm_forward, [x, weights, initial, cell, *numpy_arrays(out, gates, cells, last[:, None])])
        ctx.save_for_backward(*inputs, out, gates, cells)
        return out, last

    @staticmethod
    def backward(ctx: Any, d_out: Tensor, d_last: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_derivatives()
        *inputs, out, gates, cells = ctx.saved_tensors
        x, weights, initial, _ = _arrays(inputs)
        filled = _blanks(inputs, ctx.needs_input_grad[0])
        given = [x, weights.T.copy(), initial, *numpy_arrays(out, gates, cells, d_out, d_last[:, None])]
        _share(kernels.lstm_backward, [*given, *numpy_arrays(*filled)])
        return *_gradients(inputs, filled), None


def _is_compiled(widest: int, *tensors: Tensor) -> bool:
    """Whether the compiled loops take these arguments, x, weight_ih, weight_hh and others, and are the faster way."""
    x, _, weight_hh, *_ = tensors
    alike = all(y.device.type == "cpu" and y.dtype == x.dtype for y in tensors)
    return alike and x.dtype in (torch.float32, torch.float64) and weight_hh.shape[1] <= widest


def _arguments_of_torch(weight_ih: Tensor, weight_hh: Tensor, bias: Tensor) -> tuple[Any, ...]:
    """Weights with a second bias, biases are there, layers, dropout, training, both directions, batch first.

    Whether it is trained means on a GPU whether there may be a backward pass, in whatever mode the network is.
    """
    return [weight_ih, weight_hh, bias, torch.zeros_like(bias)], True, 1, 0.0, torch.is_grad_enabled(), False, True


def _arrays(inputs: list[Tensor]) -> list[Any]:
    """x, all weights side by side as the kernels want them, and the initial states with an axis for time."""
    x, weight_ih, weight_hh, bias, *initial = (y.detach() for y in inputs)
    weights = torch.cat([weight_hh, weight_ih, bias[:, None]], dim=1)
    padded = F.pad(weights, (0, -weights.shape[1] % 4, 0, -weights.shape[0] % 4))
    return numpy_arrays(x, padded, *(state[:, None] for state in initial))


def _blanks(inputs: list[Tensor], through_x: bool) -> list[Tensor]:
    """Room for the gradients of x, of all weights piece by piece, and of the initial states."""
    x, weight_ih, weight_hh, _, *initial = inputs
    (rows, width), columns = weight_hh.shape, weight_hh.shape[1] + weight_ih.shape[1] + 1
    d_weights = x.new_zeros(-(-x.shape[0] // LANES), rows + -rows % 4, columns + -columns % 4)
    d_initial = [x.new_empty(x.shape[0], 1, width) for _ in initial]
    return [x.new_empty(x.shape if through_x else (0, 0, 0)), d_weights, *d_initial]


def _gradients(inputs: list[Tensor], filled: list[Tensor]) -> list[Tensor | None]:
    """Those of the inputs, from what the kernel has filled in."""
    x, weight_ih, weight_hh, _, *_ = inputs
    d_x, shares, *d_initial = filled
    (rows, width), columns = weight_hh.shape, weight_ih.shape[1]
    d_hh, d_ih, d_bias = shares.sum(0)[:rows, : width + columns + 1].split([width, columns, 1], dim=1)
    return [d_x if d_x.shape == x.shape else None, d_ih, d_hh, d_bias[:, 0], *(state[:, 0] for state in d_initial)]


def _share(kernel: Any, arguments: list[Any]) -> None:
    x, weights, *_ = arguments
    share(kernel, arguments, -(-x.shape[0] // LANES), x.shape[0] * x.shape[1] * weights.size)


def _check(x: Tensor, weight_ih: Tensor, weight_hh: Tensor, bias: Tensor, gates: int, *initial: Tensor) -> None:
    if x.ndim != 3 or weight_hh.ndim != 2:
        raise ValueError(
            "x: shape (batch, time, inputs) and weight_hh: shape (gates x width, width) are allowed, "
            f"got {tuple(x.shape)} and {tuple(weight_hh.shape)}"
        )
    (batch, _, inputs), width = x.shape, weight_hh.shape[1]
    shapes = {
        "weight_ih": (weight_ih, (gates * width, inputs)),
        "weight_hh": (weight_hh, (gates * width, width)),
        "bias": (bias, (gates * width,)),
    } | {name: (state, (batch, width)) for name, state in zip(("initial", "initial_cell"), initial, strict=False)}
    for name, (tensor, shape) in shapes.items():
        if tensor.shape != shape:
            raise ValueError(f"{name}: shape {shape} is allowed, got {tuple(tensor.shape)}")
