"""Closed forms and exact recursions of the papers: no training, no input or output, no torch."""

from lib.theory.history_state import history_state_size

__all__ = ["history_state_size"]
