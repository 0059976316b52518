"""Scans, recurrences, convolutions and attention heads, each in plain torch and compiled for the CPU."""
