"""Sequence models with one interface: parallel logits, or steps with a state that holds all they remember."""

from typing import TYPE_CHECKING, Any

from lib.models.catalogue import ARCHITECTURES, ENTRIES, create, load

if TYPE_CHECKING:
    from lib.models.attention.linear import LinearTransformer, TTTLinear
    from lib.models.attention.transformer import SlidingWindowTransformer, SparseTransformer, Transformer
    from lib.models.base import SequenceModel
    from lib.models.recurrent.attentive import AttentiveRNN
    from lib.models.recurrent.backtracking import SAB
    from lib.models.recurrent.basic import LSTM, VanillaRNN
    from lib.models.recurrent.gated_orthogonal import GORU
    from lib.models.recurrent.orthogonal import ExpRNN, OrthRNN
    from lib.models.recurrent.relu import ReluRNN, ReluSSM
    from lib.models.recurrent.screening import MemLSTM, MemRNN, RelLSTM, RelRNN
    from lib.models.state_space.diagonal import DiagonalSSM
    from lib.models.state_space.mamba import Mamba
    from lib.models.state_space.mamba2 import Mamba2
    from lib.models.states import State
else:
    _PATHS = [path for path, _ in ENTRIES.values()]
    _PATHS += ["base.SequenceModel", "states.State", "recurrent.attentive.AttentiveRNN"]

    def __getattr__(name: str) -> Any:
        """A network, imported when it is first asked for."""
        for path in _PATHS:
            if path.rpartition(".")[2] == name:
                return globals().setdefault(name, load(path))
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "ARCHITECTURES",
    "GORU",
    "LSTM",
    "SAB",
    "AttentiveRNN",
    "DiagonalSSM",
    "ExpRNN",
    "LinearTransformer",
    "Mamba",
    "Mamba2",
    "MemLSTM",
    "MemRNN",
    "OrthRNN",
    "RelLSTM",
    "RelRNN",
    "ReluRNN",
    "ReluSSM",
    "SequenceModel",
    "SlidingWindowTransformer",
    "SparseTransformer",
    "State",
    "TTTLinear",
    "Transformer",
    "VanillaRNN",
    "create",
]
