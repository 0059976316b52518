"""Claims checked, figures drawn, runs accounted for: the room in which numbers reach the page."""
