"""The architectures of the book by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lib.models.attention.linear import LinearTransformer, TTTLinear
from lib.models.attention.transformer import SlidingWindowTransformer, SparseTransformer, Transformer
from lib.models.base import SequenceModel
from lib.models.recurrent.basic import LSTM, VanillaRNN
from lib.models.recurrent.relu import ReluRNN, ReluSSM
from lib.models.state_space.diagonal import DiagonalSSM
from lib.models.state_space.mamba import Mamba
from lib.models.state_space.mamba2 import Mamba2

ARCHITECTURES: dict[str, type[SequenceModel]] = {
    "rnn": VanillaRNN,
    "lstm": LSTM,
    "transformer": Transformer,
    "sliding_window": SlidingWindowTransformer,
    "sparse": SparseTransformer,
    "linear_attention": LinearTransformer,
    "diagonal_ssm": DiagonalSSM,
    "mamba": Mamba,
    "mamba2": Mamba2,
    "ttt_linear": TTTLinear,
    "relu_ssm": ReluSSM,
    "relu_rnn": ReluRNN,
}


def create(architecture: str, vocabulary: int, width: int, depth: int = 1, **options: Any) -> SequenceModel:
    """The network of that name. options: `seed`, and what the architecture's class documents.

    Raises ValueError for an unknown architecture or option, and for sizes the architecture cannot have.
    """
    if architecture not in ARCHITECTURES:
        raise ValueError(f"architecture: one of {', '.join(ARCHITECTURES)} is allowed, got {architecture!r}")
    try:
        make: Callable[..., SequenceModel] = ARCHITECTURES[architecture]
        return make(vocabulary, width, depth, **options)
    except TypeError as error:
        raise ValueError(f"{architecture}: {error}") from error
