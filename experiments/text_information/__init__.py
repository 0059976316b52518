"""Bipartite information of text, as language models see it."""
