"""Gradients under uniform, sparse and any attention to past states."""
