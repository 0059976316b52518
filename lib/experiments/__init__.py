"""Which runs a sweep in `experiments` consists of, what one run does, and what its records say."""
