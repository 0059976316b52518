"""Signs of a Gaussian process, whose information falls as a power law."""
