"""The architectures of the book by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lib.models.attention import SlidingWindowTransformer, SparseTransformer, Transformer
from lib.models.base import SequenceModel
from lib.models.diagonal_ssm import DiagonalSSM
from lib.models.linear_attention import LinearTransformer
from lib.models.mamba import Mamba
from lib.models.mamba2 import Mamba2
from lib.models.recurrent import LSTM, VanillaRNN
from lib.models.relu_networks import ReluRNN, ReluSSM
from lib.models.ttt_linear import TTTLinear

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
