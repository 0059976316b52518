"""What one run of each sweep in `experiments` does: from parameters and a seed to numbers that JSON can hold."""
