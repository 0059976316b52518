"""Networks and counted blocks on long documents."""
