"""Language models whose tokens are vectors of real numbers: the book's layers between two small networks.

Under autocast their Mamba and Mamba2 may round the large maps; the recurrence keeps the type of its weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lib.checks import whole_number
from lib.models.attention.patterns import Full
from lib.models.attention.transformer import Attention
from lib.models.base import Block, Module, glorot_linear, norm_of, seeded, sinusoids
from lib.models.kernels.convolution import convolve
from lib.models.kernels.scan import scalar_decay_scan, selective_scan
from lib.models.state_space.mamba import MambaMixer
from lib.models.state_space.mamba2 import Mamba2Mixer
from lib.models.states import State

POSITIONS = ("learned", "sinusoidal", "none")
_UNIT_SOFTPLUS = math.log(math.e - 1.0)  # softplus of it is 1
DEVIATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "exponential": torch.exp,
    "softplus": lambda x: F.softplus(x + _UNIT_SOFTPLUS),
}
"""How a standard deviation is made of a real number; both make 1 of 0."""


class IndependentNormals(NamedTuple):
    """A distribution of the next token: independent normal entries."""

    means: Tensor  # (..., copies)
    deviations: Tensor  # (..., copies), > 0


def _gpt2(width: int, heads: int = 4) -> Block:
    return Block(Attention(width, heads, Full()), width, feed_forward=4 * width)


def _mamba(width: int, size: int = 16, kernel: int = 4, expand: int = 2) -> Block:
    return Block(MambaFloat32Scan(width, size, kernel, expand), width, rms=True)


def _mamba2(width: int, size: int = 64, kernel: int = 4, expand: int = 2, head_width: int = 64) -> Block:
    return Block(Mamba2Float32Scan(width, size, kernel, expand, head_width), width, rms=True)


LAYERS: dict[str, Callable[..., Block]] = {"gpt2": _gpt2, "mamba": _mamba, "mamba2": _mamba2}


class GaussianLanguageModel(Module):
    """Means and standard deviations = readout(norm(layers(embedding(tokens)))): L2M (2025), App. E.

    A token is a vector of `copies` real numbers; before the first one stands a token of zeros (BOS). Embedding and
    readout are networks of two linear maps with a GELU between them; the last map starts at zero, so that an untrained
    model says N(0, 1) of every number. Three forms of one function, as in `SequenceModel`:

        parallel   model(tokens): (batch, time, copies) -> the distribution of the token after each of them
        stepwise   state = model.initial_state(batch), then law, state = model.step(token, state), BOS first
        predictions(tokens): the distribution of each of the tokens given BOS and those before it

    architecture: "gpt2", pre-norm blocks of attention and a GELU network 4 widths wide; "mamba", "mamba2": the blocks
    of `Mamba` and `Mamba2`. options: heads; size, kernel, expand; head_width of mamba2. positions: "learned" (a vector
    for each of `longest` positions, as GPT2 has them), "sinusoidal" or "none"; by default "learned" for gpt2 and
    "none" for the others. deviation: a key of DEVIATIONS. hidden: width of the hidden layers of embedding and readout,
    by default `width`. The paper leaves open `hidden`, the GELU and `deviation`; initial weights are those of the
    book's layers. Raises ValueError for other choices and for sizes that the layers cannot have.
    """

    def __init__(
        self,
        architecture: str,
        width: int,
        depth: int = 1,
        *,
        copies: int = 64,
        longest: int | None = None,
        positions: str | None = None,
        deviation: str = "exponential",
        hidden: int | None = None,
        seed: int | np.random.Generator = 0,
        **options: int,
    ) -> None:
        super().__init__()
        for name, value in {"width": width, "hidden": hidden or width, **options}.items():
            whole_number(value, name, 1)
        layer = LAYERS[one_of(architecture, "architecture", LAYERS)]
        self.architecture = architecture
        self.positions = one_of(
            positions or ("learned" if architecture == "gpt2" else "none"), "positions", dict.fromkeys(POSITIONS)
        )
        self.deviation = DEVIATIONS[one_of(deviation, "deviation", DEVIATIONS)]
        self.copies, self.width, inner = whole_number(copies, "copies", 1), width, hidden or width
        if self.positions == "learned" and longest is None:
            raise ValueError("longest: a number of positions is needed where positions are learned, got None")
        with seeded(seed):
            self.embedding = nn.Sequential(glorot_linear(copies, inner), nn.GELU(), glorot_linear(inner, width))
            try:
                self.layers = nn.ModuleList(layer(width, **options) for _ in range(whole_number(depth, "depth", 1)))
            except TypeError as error:
                raise ValueError(f"{architecture}: {error}") from error
            self.norm = norm_of(width, rms=architecture != "gpt2")
            self.readout = nn.Sequential(glorot_linear(width, inner), nn.GELU(), glorot_linear(inner, 2 * copies))
            nn.init.zeros_(self.readout[-1].weight)
            if self.positions == "learned":
                table = torch.randn(whole_number(longest, "longest", 1), width)
                self.position_table = nn.Parameter(0.02 * table)  # the spread of GPT2's initial weights

    def forward(self, tokens: Tensor) -> IndependentNormals:
        """Distribution of the token after each of `tokens` (batch, time, copies), the first of which should be BOS."""
        x = self._embed(tokens, 3, 0)
        for layer in self.layers:
            x = layer(x)
        return self._read(x)

    def predictions(self, tokens: Tensor) -> IndependentNormals:
        """Distribution of each token given those before it: means and deviations, shaped like tokens (n, time, copies).

        The last token is not read. Cost of one parallel pass.
        """
        self._checked(tokens, 3)
        return self.forward(torch.cat([self.begin(tokens)[:, None], tokens[:, :-1]], dim=1))

    def begin(self, tokens: Tensor) -> Tensor:
        """The BOS tokens (batch, copies), all zero, of sequences like `tokens`."""
        return tokens.new_zeros(tokens.shape[0], self.copies)

    def initial_state(self, batch: int) -> State:
        """The state before BOS."""
        rows = whole_number(batch, "batch", 1)
        position = None if self.positions == "none" else 0
        return State(tuple(layer.initial_state(rows) for layer in self.layers), position)

    def step(self, token: Tensor, state: State) -> tuple[IndependentNormals, State]:
        """The distribution of the token after `token` (batch, copies), and the state that has read it."""
        x = self._embed(token, 2, state.position or 0)
        after = []
        for layer, before in zip(self.layers, state.layers, strict=True):
            x, kept = layer.step(x, before)
            after.append(kept)
        return self._read(x), State(tuple(after), None if state.position is None else state.position + 1)

    def state_size(self, length: int) -> int:
        """Real numbers in the state of one sequence after `length` >= 0 tokens, BOS among them. Cost O(depth)."""
        steps = whole_number(length, "length", 0)
        return sum(layer.state_size(steps) for layer in self.layers)

    def scanned_state_size(self, length: int) -> int:
        """The same without the windows of convolutions: depth x expand x width x size of Mamba, as often quoted."""
        steps = whole_number(length, "length", 0)
        if self.architecture == "gpt2":
            return self.state_size(steps)
        return sum(layer.mixer.inner * layer.mixer.size for layer in self.layers)

    def _embed(self, tokens: Tensor, axes: int, start: int) -> Tensor:
        self._checked(tokens, axes)
        x = self.embedding(tokens).to(tokens.dtype)  # what the blocks add to is never rounded
        if self.positions == "none":
            return x
        stop = start + (tokens.shape[1] if axes == 3 else 1)
        if self.positions == "learned":
            if stop > len(self.position_table):
                raise ValueError(f"tokens: {len(self.position_table)} positions with BOS are learned, got {stop}")
            marks = self.position_table[start:stop]
        else:
            marks = sinusoids(torch.arange(start, stop, device=x.device), x)
        return x + (marks if axes == 3 else marks[0])

    def _read(self, x: Tensor) -> IndependentNormals:
        with torch.autocast(x.device.type, enabled=False):  # the answer is not rounded to bfloat16
            kind = self.readout[-1].weight.dtype
            means, raw = self.readout(self.norm(x.to(kind))).chunk(2, dim=-1)
        return IndependentNormals(means, self.deviation(raw))

    def _checked(self, tokens: Tensor, axes: int) -> None:
        if (
            tokens.ndim != axes
            or tokens.numel() == 0
            or tokens.shape[-1] != self.copies
            or not tokens.dtype.is_floating_point
        ):
            shape = f"({'batch, time' if axes == 3 else 'batch'}, {self.copies})"
            raise ValueError(
                f"tokens: real numbers of shape {shape} are allowed, got {tokens.dtype} of shape {tuple(tokens.shape)}"
            )


def one_of(name: Any, what: str, allowed: Mapping[str, Any]) -> str:
    """The name, if it is a key of `allowed`; else ValueError."""
    if not isinstance(name, str) or name not in allowed:
        raise ValueError(f"{what}: one of {', '.join(allowed)} is allowed, got {name!r}")
    return name


class MambaFloat32Scan(MambaMixer):
    """A `MambaMixer` whose parallel form computes all between its first and last map in the type of its weights.

    Without autocast it is the very same function. Rounding errors of a decay multiply along the sequence.
    """

    def forward(self, x: Tensor) -> Tensor:
        u, gate = self.in_proj(x).chunk(2, dim=-1)  # (batch, time, inner)
        with torch.autocast(x.device.type, enabled=False):
            u = convolve(self.conv1d, u.to(self.D.dtype))
            dt, B, C = self._selection(u)
            y = selective_scan(u, dt, -self.A_log.exp(), B, C, self.D)
            mixed = y * F.silu(gate.to(self.D.dtype))
        return self.out_proj(mixed)


class Mamba2Float32Scan(Mamba2Mixer):
    """A `Mamba2Mixer` in the same way."""

    def forward(self, x: Tensor) -> Tensor:
        projected = self._project(x)
        with torch.autocast(x.device.type, enabled=False):
            gate, mixed, dt = (part.to(self.D.dtype) for part in projected)
            u, dt, B, C = self._selection(convolve(self.conv1d, mixed), dt)
            y = scalar_decay_scan(u, dt, -self.A_log.exp(), B, C, self.D)
        return self._out(y, gate)
