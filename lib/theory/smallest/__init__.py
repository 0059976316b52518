"""The smallest state that remembers, and networks that have it."""
