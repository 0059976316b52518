"""Networks that see a window of their input, and how to find its length."""
