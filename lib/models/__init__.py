"""Sequence models with one interface: parallel logits, or steps with a state that holds all they remember."""

from lib.models.attention.linear import LinearTransformer, TTTLinear
from lib.models.attention.transformer import SlidingWindowTransformer, SparseTransformer, Transformer
from lib.models.base import SequenceModel, State
from lib.models.catalogue import ARCHITECTURES, create
from lib.models.recurrent.attentive import AttentiveRNN
from lib.models.recurrent.basic import LSTM, VanillaRNN
from lib.models.recurrent.relu import ReluRNN, ReluSSM
from lib.models.state_space.diagonal import DiagonalSSM
from lib.models.state_space.mamba import Mamba
from lib.models.state_space.mamba2 import Mamba2

__all__ = [
    "ARCHITECTURES",
    "LSTM",
    "AttentiveRNN",
    "DiagonalSSM",
    "LinearTransformer",
    "Mamba",
    "Mamba2",
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
