"""What one question alone needs: its sweep, what one run does, what the records say."""
