"""The landing page: one figure of the memory of text, drawn from scratch, and one table of all architectures."""
