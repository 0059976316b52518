"""Transformers: patterns of attention, the cache of keys and values, linear attention."""
