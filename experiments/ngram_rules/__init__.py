"""Networks that learn n-gram rules by gradient descent."""
