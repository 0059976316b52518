"""What a sweep is: its runs, what names them, where their records are kept."""
