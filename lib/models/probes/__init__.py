"""What is asked of a network: log-probabilities, what its state holds, what it reacts to."""
