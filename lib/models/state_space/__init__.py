"""State-space models: Mamba, Mamba2, a diagonal one."""
