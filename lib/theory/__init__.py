"""Closed forms and exact recursions of the papers: no training, no input or output, no torch."""

from lib.theory.attention.sparse import sparse_attention_gradient
from lib.theory.attention.uniform import uniform_attention_gradient
from lib.theory.gradients.network import attentive_rnn_gradient
from lib.theory.history import history_state_size
from lib.theory.memorizing.construction import memorizing_ssm
from lib.theory.memorizing.languages import ngram_ssm

__all__ = [
    "attentive_rnn_gradient",
    "history_state_size",
    "memorizing_ssm",
    "ngram_ssm",
    "sparse_attention_gradient",
    "uniform_attention_gradient",
]
