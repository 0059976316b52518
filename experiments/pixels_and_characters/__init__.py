"""Pixels and characters: images read a pixel at a time, texts a character at a time (Kerg 2020, Fig. 7 to 9)."""
