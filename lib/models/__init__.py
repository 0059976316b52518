"""Sequence models with one interface: parallel logits, or steps with a state that holds all they remember."""

from lib.models.attention import SlidingWindowTransformer, SparseTransformer, Transformer
from lib.models.attentive_rnn import AttentiveRNN
from lib.models.base import SequenceModel, State
from lib.models.catalogue import ARCHITECTURES, create
from lib.models.diagonal_ssm import DiagonalSSM
from lib.models.linear_attention import LinearTransformer
from lib.models.mamba import Mamba
from lib.models.mamba2 import Mamba2
from lib.models.recurrent import LSTM, VanillaRNN
from lib.models.relu_networks import ReluRNN, ReluSSM
from lib.models.ttt_linear import TTTLinear

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
