"""Sources of tokens: Markov chains, the Ising chain, hidden facts, repetition."""
