"""Runs: pages and their parameters, profiles, papermill, the book build and the command line."""
