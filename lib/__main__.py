"""`python -m lib`: the command line of the book."""

from lib.batch.cli import main
from lib.runs.endings import at_once

at_once(main)
