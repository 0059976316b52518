"""A recurrent cell that attends to a buffer of its last states and to a few screened ones."""
