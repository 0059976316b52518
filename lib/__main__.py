"""`python -m lib`: the command line of the book."""

from lib.batch.cli import main

main()
