"""Counts of pairs of symbols at many lags, on all cores."""
