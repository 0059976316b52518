"""Kernels of `limits.py` that networks are made of, forward and backward, and the sampling of Gaussians."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from one_core import EXPONENTIAL, MULTIPLY, NORMAL
from raced import Kernel, Way
from scipy.linalg.blas import strmm
from selective_scan import CHANNELS, OURS, SCANS, SEQUENTIAL, SIZE, scan_inputs
from torch import Tensor, nn

from lib.models.kernels.attention import causal_attention
from lib.models.recurrent.basic import LSTMLayer
from lib.processes import HierarchicalGaussian

ROUNDING = 1e-3  # of the largest number, in float32


def gradients(function: Callable[..., Tensor], *inputs: Tensor) -> Way:
    """Forward and backward."""
    return lambda: torch.autograd.grad(function(*inputs).sum(), inputs)


def attention(batch: int = 20, time: int = 512, width: int = 16, heads: int = 4) -> Kernel:
    """Heads of 4: two products forward and four back, and one exponential, if the weights are kept for the way back."""
    projected = torch.randn(batch, time, 3 * width, requires_grad=True)
    earlier = torch.ones(time, time, dtype=torch.bool).tril()

    def parts(x: Tensor) -> Tensor:
        return x.unflatten(-1, (3, heads, -1)).permute(2, 0, 3, 1, 4)

    def fused(x: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(*parts(x), is_causal=True)

    def written_out(x: Tensor) -> Tensor:
        q, k, v = parts(x)
        scores = (q @ k.transpose(-2, -1) / (width / heads) ** 0.5).masked_fill(~earlier, -torch.inf)
        return scores.softmax(dim=-1) @ v

    pairs = batch * heads * time * (time + 1) / 2
    return Kernel(
        "attention, 4 heads of 4",
        gradients(lambda x: causal_attention(x, heads), projected),
        {
            "scaled_dot_product_attention": gradients(fused, projected),
            "torch, products and softmax": gradients(written_out, projected),
        },
        {MULTIPLY: 6 * pairs * width / heads, EXPONENTIAL: pairs},
        "weights are not kept for the way back, which takes every exponential twice",
        (lambda found: found, lambda found: found),
        ROUNDING,
    )


def scan(batch: int = 16, time: int = 512) -> Kernel:
    """A state takes 4 multiply-adds and one exponential forward, and 8 back if it and its decay are kept.

    Forward: the exponent delta A, B x, what is left of the last state, C s. Back: the gradients of the state, of the
    last one, of its exponent, of delta, A, x, B and C.
    """
    inputs = scan_inputs(batch, time)
    states = float(batch * time * CHANNELS * SIZE)
    ways = {name: gradients(way, *inputs) for name, way in SCANS.items() if name != SEQUENTIAL}  # which takes minutes
    return Kernel(
        f"selective scan, {CHANNELS} channels of {SIZE}",
        ways.pop(OURS),
        ways,
        {MULTIPLY: 12 * states, EXPONENTIAL: states},
        "states and decays are not kept for the way back, which takes every exponential twice",
        (lambda found: found, lambda found: found),
        ROUNDING,
    )


def recurrent(batch: int = 48, time: int = 512, width: int = 64) -> Kernel:
    """Every weight once forward and twice back; five exponentials a unit and step, each once.

    Our loops take 16 sequences at a time and leave the rest of the last piece empty: 48 suit them, 50 do not.
    """
    ours, theirs, timewise = LSTMLayer(width, width), nn.LSTM(width, width, batch_first=True), nn.LSTM(width, width)
    x = torch.randn(batch, time, width, requires_grad=True)
    turned = x.detach().transpose(0, 1).contiguous().requires_grad_()
    with torch.no_grad():
        for module in (theirs, timewise):
            given = [ours.weight_ih, ours.weight_hh, ours.bias, torch.zeros_like(ours.bias)]
            for own, value in zip(module.parameters(), given, strict=True):
                own.copy_(value)

    def both_ways(layer: Any, x: Tensor, out: Callable[[Any], Tensor]) -> Way:
        return lambda: torch.autograd.grad(out(layer(x)).sum(), [x, *layer.parameters()])

    steps = batch * time
    return Kernel(
        f"LSTM, width {width}, {batch} sequences",
        both_ways(ours, x, lambda out: out),
        {
            "nn.LSTM": both_ways(theirs, x, lambda out: out[0]),
            "nn.LSTM, time first": both_ways(timewise, turned, lambda out: out[0]),
        },
        {MULTIPLY: 3.0 * steps * 8 * width**2, EXPONENTIAL: 5.0 * steps * width},
        alike=(lambda found: found[1:4], lambda found: found[1:4]),  # gradients of the weights
        tolerance=ROUNDING,
    )


def sampling(layers: int = 6, copies: int = 16) -> Kernel:
    """Every number of a Gaussian sequence needs one that is drawn; the peers multiply by a Cholesky factor."""
    law = HierarchicalGaussian(layers)
    on_device, random = law.on_device("cpu"), np.random.default_rng(0)
    factor = np.linalg.cholesky(law.covariance()).astype(np.float32)
    turned, tensor, scale = np.asfortranarray(factor), torch.from_numpy(factor), np.diagonal(factor)[:, None]

    def by_numpy(multiply: Callable[[Any], Any]) -> Way:
        def drawn() -> Any:
            noise = random.standard_normal((law.length, copies), dtype=np.float32)
            values = multiply(noise)
            return values, values - scale * noise  # and their conditional means, as ours

        return drawn

    def by_torch() -> Any:
        noise = torch.randn(law.length, copies)
        values = tensor @ noise
        return values, values - tensor.diagonal()[:, None] * noise

    return Kernel(
        f"hierarchical Gaussians, {law.length} numbers",
        lambda: on_device.sample_tokens_with_means(1, copies),
        {
            "Cholesky factor, numpy": by_numpy(lambda noise: factor @ noise),
            "Cholesky factor, triangular product": by_numpy(lambda noise: strmm(1.0, turned, noise, lower=1)),
            "Cholesky factor, torch": by_torch,
        },
        {NORMAL: float(law.length * copies)},
        "messages go up and down a tree, level by level, in many small steps",
    )
