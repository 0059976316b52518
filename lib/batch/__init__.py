"""Runs: pages and their parameters, profiles, papermill, the book build and the command line."""

import sys

from lib import ROOT

BUILD = ROOT / "_build"
"""The folder of all that is made."""

# With a notebook comes jsonschema, and with it a parser of international addresses that takes a second to make itself.
# No notebook has one to check; jsonschema does without what cannot be imported.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
