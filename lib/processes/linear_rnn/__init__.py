"""A linear recurrent network driven by noise, as a source of sequences."""
