"""Languages of sentences: n-gram rules, templates, lists of sentences."""
