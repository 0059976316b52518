"""What a generated token costs."""
