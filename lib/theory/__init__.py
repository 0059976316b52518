"""Closed forms and exact recursions of the papers: no training, no input or output, no torch."""

from lib.theory.attentive_gradient import attentive_rnn_gradient
from lib.theory.history_state import history_state_size
from lib.theory.memorizing_ssm import memorizing_ssm
from lib.theory.ngram_ssm import ngram_ssm
from lib.theory.sparse_attention import sparse_attention_gradient
from lib.theory.uniform_attention import uniform_attention_gradient

__all__ = [
    "attentive_rnn_gradient",
    "history_state_size",
    "memorizing_ssm",
    "ngram_ssm",
    "sparse_attention_gradient",
    "uniform_attention_gradient",
]
