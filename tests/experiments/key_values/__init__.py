"""Tests of the question of the same name."""
