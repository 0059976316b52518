"""What networks trained on characters or words of real text write, and how far back their own text remembers."""
