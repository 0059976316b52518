"""Recurrent networks: Elman and LSTM, linear states read by ReLU, attention over past states."""
