"""Texts that people wrote, and what networks that learned from them write (Shen 2019, Sec. 4.2 and 5.2)."""
