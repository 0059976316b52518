"""The residual block around whatever mixes tokens: norm, mixer, feed-forward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from lib.models.base import Module, glorot_linear

PLACEMENTS = ("pre", "post")


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
        if not isinstance(feed_forward, int) or feed_forward < 0:
            raise ValueError(f"feed_forward: a width >= 0 is allowed, got {feed_forward!r}")
        self.placement = placement
        self.norm = norm_of(width, rms)
        self.mixer = mixer
        if feed_forward:
            self.norm2 = norm_of(width, rms)
            self.mlp = nn.Sequential(glorot_linear(width, feed_forward), nn.GELU(), glorot_linear(feed_forward, width))
        else:
            self.mlp = None

    def forward(self, x: Tensor) -> Tensor:
        """(batch, time, width) -> the same shape."""
        return self._around(x, lambda inside: (self.mixer(inside), None))[0]

    def initial_state(self, batch: int) -> Any:
        return self.mixer.initial_state(batch)

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


def norm_of(width: int, rms: bool = False) -> Any:
    """Layer norm, or RMS norm as Mamba has it."""
    return nn.RMSNorm(width, eps=1e-5) if rms else nn.LayerNorm(width)
