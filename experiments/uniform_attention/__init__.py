"""Uniform attention: what the chapter of this name draws."""
