"""The smallest network that memorises, by construction on a line."""
