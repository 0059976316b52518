"""Networks on binary sequences whose information falls as a power law."""
