"""Which models have a state that holds all they remember, and how large it is."""
