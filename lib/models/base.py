"""What every sequence model of the book shares: an embedding, a stack of layers, a head, and one interface.

The residual block around whatever mixes tokens: norm, mixer, feed-forward.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lib.checks import generator, real_number, truth_value, whole_number
from lib.models.kernels.embedding import refuse_unknown, token_vectors
from lib.models.states import State, is_like, read, shapes_of

PLACEMENTS = ("pre", "post")
_DRAWING = threading.RLock()  # held by whoever draws from torch's global generator, of which threads have but one


class Module(nn.Module):  # type: ignore[misc]
    """A network or a part of one."""


class SequenceModel(Module):
    """logits = head(norm(layers(embedding(tokens)))): the distribution of the next token given all tokens so far.

    Two forms of one function. Parallel: ``logits = model(tokens)``, (batch, time) -> (batch, time, vocabulary).
    Stepwise: ``state = model.initial_state(batch)``, then ``logits, state = model.step(token, state)`` with tokens
    (batch,) and logits (batch, vocabulary). A state is never changed in place, so that it can be kept and read again.
    Tokens of another kind or shape, and a state of another batch or another network, raise ValueError.
    ``model.state_size(length)`` is how many real numbers the state of one sequence holds after `length` tokens.

    layers: each has forward (batch, time, width) -> the same shape, and initial_state(batch), step(x, state),
    state_size(length) in the same sense. positions: whether to add sinusoids of the position to the embedding.
    dropout: share of numbers set to zero in training, of the embedding and after every layer but the last (Shen 2019,
    App. E.1.2). tied: the head's weights are the embedding's, which start uniform in +-0.1; with positions the vectors
    are multiplied by sqrt(width) (Vaswani et al. 2017, Sec. 3.4). A dropout outside 0 .. 1, a `tied` that is no truth
    value, and a tied embedding of another size than the width raise ValueError.
    variants: options that take each way through the code, {} for the defaults; the interface test runs all of them.
    """

    variants: ClassVar[tuple[Mapping[str, Any], ...]] = ({},)

    def __init__(
        self,
        vocabulary: int,
        embedding_size: int,
        layers: Sequence[Module],
        width: int,
        *,
        norm: Module | None = None,
        positions: bool = False,
        dropout: float = 0.0,
        tied: bool = False,
    ) -> None:
        super().__init__()
        self.vocabulary = whole_number(vocabulary, "vocabulary", 1)
        self.positions = positions
        self.dropout = real_number(dropout, "dropout")
        if not 0.0 <= self.dropout < 1.0:
            raise ValueError(f"dropout: a share from 0 up to 1 is allowed, got {dropout!r}")
        tied = truth_value(tied, "tied")
        self.embedding = nn.Embedding(vocabulary, embedding_size)
        self.layers = nn.ModuleList(layers)
        self.norm = nn.Identity() if norm is None else norm
        self.head = TiedHead(self.embedding, width) if tied else glorot_linear(width, vocabulary)
        self.scale = width**0.5 if tied and positions else 1.0

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits (batch, time, vocabulary) of the token after each of `tokens` (batch, time)."""
        x = self._embed(tokens, 2)
        if self.positions:
            x = x + sinusoids(torch.arange(x.shape[1], device=x.device), x)
        for layer in self.layers:
            x = layer(self._dropped(x))
        return self.head(self.norm(x))

    def forward_from(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """The parallel form after what `state` has read: logits (batch, time, vocabulary), and the state after them.

        Layers with a parallel form from a state name it forward_from(x, state); the others go step by step.
        """
        x = self._embed(tokens, 2)
        return self._go_on(x, state, x.shape[1], read)

    def initial_state(self, batch: int) -> State:
        """The state before the first token."""
        rows = whole_number(batch, "batch", 1)
        return State(tuple(layer.initial_state(rows) for layer in self.layers), 0 if self.positions else None)

    def step(self, token: Tensor, state: State) -> tuple[Tensor, State]:
        """Logits (batch, vocabulary) of the token after `token` (batch,), and the state that has read it."""
        return self._go_on(self._embed(token, 1), state, 1, lambda layer, x, before: layer.step(x, before))

    def state_size(self, length: int) -> int:
        """Real numbers in the state of one sequence after `length` >= 0 tokens. Cost O(depth), whatever the length."""
        steps = whole_number(length, "length", 0)
        return sum(layer.state_size(steps) for layer in self.layers)

    def slow_parameters(self) -> list[nn.Parameter]:
        """Parameters that want a smaller rate than the others: none, unless an architecture says which."""
        return []

    def _go_on(self, x: Tensor, state: State, times: int, through: Callable[..., Any]) -> tuple[Tensor, State]:
        self._refuse_unfit(state, x)
        position, after = state.position, list[Any]()
        if position is not None:
            x = x + sinusoids(torch.arange(position, position + times, device=x.device), x)
            position += times
        for layer, before in zip(self.layers, state.layers, strict=True):
            x, kept = through(layer, self._dropped(x), before)
            after.append(kept)
        return self.head(self.norm(x)), State(tuple(after), position)

    def _refuse_unfit(self, state: State, x: Tensor) -> None:
        """Raise ValueError unless this is a state of this network, of as many sequences as x, (batch, ...), is."""
        if not isinstance(state, State):
            raise ValueError(f"state: one of initial_state or of a step is allowed, got {type(state).__name__}")
        parts, (kinds, shapes) = (state.position, *state.layers), self._fitting
        fits = len(parts) == len(kinds) and all(map(isinstance, parts, kinds))
        for layer, part, wanted in zip(self.layers, state.layers, shapes, strict=True) if fits else ():
            for rows in {leaf.shape[0] for leaf in part if isinstance(leaf, Tensor)} - {x.shape[0]}:
                raise ValueError(f"state: one batch is allowed, got tokens of {len(x)} sequences and a state of {rows}")
            fits = fits and is_like(layer, part, wanted)
        if not fits:
            given = ", ".join(type(part).__name__ for part in state.layers)
            raise ValueError(f"state: one of this network or of its like is allowed, got {given} of another")

    @cached_property
    def _fitting(self) -> tuple[list[type], list[Any]]:
        start = self.initial_state(1)
        return [type(part) for part in (start.position, *start.layers)], [*map(shapes_of, self.layers, start.layers)]

    def _embed(self, tokens: Tensor, axes: int) -> Tensor:
        known = isinstance(tokens, Tensor)
        if not known or tokens.ndim != axes or tokens.numel() == 0 or tokens.dtype not in (torch.int64, torch.int32):
            raise ValueError(
                f"tokens: a tensor of whole numbers {'(batch, time)' if axes == 2 else '(batch,)'} is allowed, "
                f"got {f'{tokens.dtype} of shape {tuple(tokens.shape)}' if known else type(tokens).__name__}"
            )
        refuse_unknown(tokens, self.vocabulary)  # on a GPU the embedding itself refuses
        x = token_vectors(tokens, self.embedding.weight)
        return x if self.scale == 1.0 else x * self.scale

    def _dropped(self, x: Tensor) -> Tensor:
        if not (self.dropout and self.training):
            return x
        kept = torch.empty(x.shape, dtype=x.dtype).bernoulli_(1.0 - self.dropout)  # on the CPU: the same on any device
        return x * (kept / (1.0 - self.dropout)).to(x.device)


class TiedHead(Module):
    """logits = E x + b with the weights E (vocabulary, width) of an embedding, and b of its own, zero at first.

    E, which the head does not list as a parameter of its own, starts uniform in +-0.1. Raises ValueError if E has
    another width.
    """

    def __init__(self, embedding: nn.Embedding, width: int) -> None:
        super().__init__()
        entries, size = embedding.weight.shape
        if size != width:
            raise ValueError(f"tied: an embedding as wide as the layers, {width}, is allowed, got {size}")
        nn.init.uniform_(embedding.weight, -0.1, 0.1)
        self._tied_to = (embedding,)  # in a tuple, which torch does not look into
        self.bias = nn.Parameter(torch.zeros(entries))

    def forward(self, x: Tensor) -> Tensor:
        """(..., width) -> (..., vocabulary)."""
        return F.linear(x, self._tied_to[0].weight, self.bias)


def sinusoids(positions: Tensor, like: Tensor) -> Tensor:
    """Sines and cosines in turn, (..., width), angles position / 10000^(2i / width) (Vaswani et al. 2017, Sec. 3.5).

    positions: (...,) whole numbers >= 0. like: gives width, type and device. There is no longest position.
    """
    width = like.shape[-1]
    rates = 10000.0 ** (-2.0 * torch.arange((width + 1) // 2, dtype=torch.float64, device=like.device) / width)
    angles = positions[..., None].double() * rates  # in float64: a float32 angle is off by 0.01 near 10^5
    waves = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)
    return waves[..., :width].to(like.dtype)


def glorot_linear(inputs: int, outputs: int, bias: bool = True) -> Any:
    """A linear map with Glorot-uniform weights and zero bias, as Keras makes a dense layer."""
    linear = nn.Linear(inputs, outputs, bias=bias)
    nn.init.xavier_uniform_(linear.weight)
    if bias:
        nn.init.zeros_(linear.bias)
    return linear


@contextlib.contextmanager
def seeded(seed: int | np.random.Generator) -> Iterator[None]:
    """Draw initial weights, or dropout, from a seed of their own; torch's global generator comes out as it went in."""
    number = int(generator(seed).integers(2**63))
    with _DRAWING, torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(number)
        yield


def head_width(width: int, heads: int) -> int:
    """Width of one head; ValueError unless the heads share the width evenly."""
    count = whole_number(heads, "heads", 1)
    if whole_number(width, "width", 1) % count:
        raise ValueError(f"width: a multiple of heads = {count} is allowed, got {width}")
    return width // count


class Block(Module):
    """Pre-norm: x + mixer(norm(x)); post-norm: norm(x + mixer(x)); then the same with a feed-forward, if any.

    Only the mixer sees other tokens, so its state is the state of the block.
    norm: of the mixer; feed_forward: hidden width of the feed-forward, 0 for none.
    """

    def __init__(
        self, mixer: Module, width: int, *, placement: str = "pre", rms: bool = False, feed_forward: int = 0
    ) -> None:
        super().__init__()
        if placement not in PLACEMENTS:
            raise ValueError(f"placement: {' or '.join(PLACEMENTS)} is allowed, got {placement!r}")
        hidden = whole_number(feed_forward, "feed_forward", 0)
        self.placement = placement
        self.norm = norm_of(width, rms)
        self.mixer = mixer
        if hidden:
            self.norm2 = norm_of(width, rms)
            self.mlp = nn.Sequential(glorot_linear(width, hidden), nn.GELU(), glorot_linear(hidden, width))
        else:
            self.mlp = None

    def forward(self, x: Tensor) -> Tensor:
        """(batch, time, width) -> the same shape."""
        return self._around(x, lambda inside: (self.mixer(inside), None))[0]

    def initial_state(self, batch: int) -> Any:
        return self.mixer.initial_state(batch)

    def forward_from(self, x: Tensor, state: Any) -> tuple[Tensor, Any]:
        return self._around(x, lambda inside: read(self.mixer, inside, state))

    def step(self, x: Tensor, state: Any) -> tuple[Tensor, Any]:
        """(batch, width) -> the same shape, and the state that has seen it."""
        return self._around(x, lambda inside: self.mixer.step(inside, state))

    def state_size(self, length: int) -> int:
        return int(self.mixer.state_size(length))

    def _around(self, x: Tensor, mix: Callable[[Tensor], tuple[Tensor, Any]]) -> tuple[Tensor, Any]:
        if self.placement == "pre":
            mixed, state = mix(self.norm(x))
            x = x + mixed
            return (x if self.mlp is None else x + self.mlp(self.norm2(x))), state
        mixed, state = mix(x)
        x = self.norm(x + mixed)
        return (x if self.mlp is None else self.norm2(x + self.mlp(x))), state


class BlockModel(SequenceModel):
    """`depth` blocks, each around what `mixer` makes; after pre-norm blocks another norm, before the head.

    placement, rms: as in `Block`. feed_forward: as there, None for 4 width. options: those of `SequenceModel`.
    """

    def __init__(
        self,
        mixer: Callable[[], Module],
        vocabulary: int,
        width: int,
        depth: int,
        seed: int | np.random.Generator,
        placement: str = "pre",
        feed_forward: int | None = 0,
        *,
        rms: bool = False,
        **options: Any,
    ) -> None:
        hidden = 4 * whole_number(width, "width", 1) if feed_forward is None else feed_forward
        with seeded(seed):
            layers = [
                Block(mixer(), width, placement=placement, rms=rms, feed_forward=hidden)
                for _ in range(whole_number(depth, "depth", 1))
            ]
            norm = norm_of(width, rms) if placement == "pre" else None
            super().__init__(vocabulary, width, layers, width, norm=norm, **options)


def norm_of(width: int, rms: bool = False) -> Any:
    """Layer norm, or RMS norm as Mamba has it."""
    return nn.RMSNorm(width, eps=1e-5) if rms else nn.LayerNorm(width)
