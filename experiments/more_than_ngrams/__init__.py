"""What a state space model can do that n-gram models and one hidden layer cannot."""
