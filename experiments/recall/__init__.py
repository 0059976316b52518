"""Copy and denoise: networks that recall symbols after a delay, and the gradients that reach them (Kerg 2020)."""
