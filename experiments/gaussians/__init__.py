"""Networks on stacked hierarchical Gaussians, and what their states capture."""
