"""Two-point information of characters, words and byte pairs."""
