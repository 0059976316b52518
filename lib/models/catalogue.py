"""The architectures of the book: by name, with their classes and what they are called on a page."""

from __future__ import annotations

import importlib
import inspect
from collections import UserDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lib.models.base import SequenceModel

ENTRIES = {
    "rnn": ("recurrent.basic.VanillaRNN", "RNN"),
    "lstm": ("recurrent.basic.LSTM", "LSTM"),
    "transformer": ("attention.transformer.Transformer", "Transformer"),
    "sliding_window": ("attention.transformer.SlidingWindowTransformer", "sliding window"),
    "sparse": ("attention.transformer.SparseTransformer", "sparse attention"),
    "linear_attention": ("attention.linear.LinearTransformer", "linear attention"),
    "diagonal_ssm": ("state_space.diagonal.DiagonalSSM", "diagonal SSM"),
    "mamba": ("state_space.mamba.Mamba", "Mamba"),
    "mamba2": ("state_space.mamba2.Mamba2", "Mamba2"),
    "ttt_linear": ("attention.linear.TTTLinear", "TTT-Linear"),
    "relu_ssm": ("recurrent.relu.ReluSSM", "SSM"),
    "relu_rnn": ("recurrent.relu.ReluRNN", "ReLU RNN"),
    "orth_rnn": ("recurrent.orthogonal.OrthRNN", "orth-RNN"),
    "exp_rnn": ("recurrent.orthogonal.ExpRNN", "expRNN"),
    "mem_rnn": ("recurrent.screening.MemRNN", "MemRNN"),
    "mem_lstm": ("recurrent.screening.MemLSTM", "MemLSTM"),
    "rel_rnn": ("recurrent.screening.RelRNN", "RelRNN"),
    "rel_lstm": ("recurrent.screening.RelLSTM", "RelLSTM"),
    "sab": ("recurrent.backtracking.SAB", "SAB"),
    "goru": ("recurrent.gated_orthogonal.GORU", "GORU"),
}
"""Of every architecture: its class, below `lib.models`, and its name on pages."""

NAMES = {key: shown for key, (_, shown) in ENTRIES.items()}
"""What pages call an architecture."""


def load(path: str) -> Any:
    """The class at a place below `lib.models`, such as "recurrent.basic.LSTM"."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(f"lib.models.{module}"), name)


class _Classes(UserDict[str, "type[SequenceModel]"]):
    """Classes by name, each imported when it is first asked for: whoever wants names does not wait for networks."""

    def __getitem__(self, name: str) -> type[SequenceModel]:
        found: Any = self.data[name]
        if isinstance(found, str):
            found = self.data[name] = load(found)
        return found  # type: ignore[no-any-return]


ARCHITECTURES = _Classes({key: path for key, (path, _) in ENTRIES.items()})  # type: ignore[misc]


def create(architecture: str, vocabulary: int, width: int, depth: int = 1, **options: Any) -> SequenceModel:
    """The network of that name. options: `seed`, and what the architecture's class documents.

    Raises ValueError for an unknown architecture or option, and for sizes the architecture cannot have.
    """
    if not isinstance(architecture, str) or architecture not in ARCHITECTURES:
        raise ValueError(f"architecture: one of {', '.join(ARCHITECTURES)} is allowed, got {architecture!r}")
    make: Callable[..., SequenceModel] = ARCHITECTURES[architecture]
    known = _options(make)
    for name in options:
        if name not in known:
            raise ValueError(f"{architecture}: options {', '.join(known)} are allowed, got {name!r}")
    try:
        return make(vocabulary, width, depth, **options)
    except (TypeError, OverflowError) as error:
        raise ValueError(f"{architecture}: {error}") from error


def _options(make: Callable[..., SequenceModel]) -> list[str]:
    """Names of the options of a class, with those of the classes that it hands others on to."""
    names: dict[str, None] = {}
    for kind in getattr(make, "__mro__", (make,)):
        parameters = inspect.signature(kind).parameters.values()
        names |= {each.name: None for each in parameters if each.kind is each.KEYWORD_ONLY}
        if all(each.kind is not each.VAR_KEYWORD for each in parameters):
            break
    return list(names)
