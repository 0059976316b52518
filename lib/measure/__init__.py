"""A reader's own text and model, measured as the book measures its corpora: curves, verdicts, models."""
