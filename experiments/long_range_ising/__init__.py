"""Does a chain of spins with couplings of long range have a critical point? Clusters instead of single spins."""
