"""Bipartite against two-point information: what the chapter of this name draws."""
