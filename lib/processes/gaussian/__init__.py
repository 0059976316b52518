"""Sources of numbers: stationary and hierarchical Gaussians."""
