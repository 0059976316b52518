"""How information falls with distance: fits, correlation lengths, tails."""
