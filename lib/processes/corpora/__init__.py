"""Corpora of real text: one loader for all of them, at character, word and byte-pair level.

>>> corpora.load("sotu").tokens("character")
>>> corpora.load("wikitext2", "validation"); corpora.load("my-novel.txt"); corpora.available()
"""

from lib.processes.corpora.catalogue import entry, names
from lib.processes.corpora.commands import exit_status, fetch, list_table, verify
from lib.processes.corpora.loading import Available, Corpus, CorpusUnavailable, available, load
from lib.processes.corpora.places import cache_folder, data_folders
from lib.processes.corpora.reading import unwrap
from lib.processes.corpora.tokens import Tokens

__all__ = [
    "Available",
    "Corpus",
    "CorpusUnavailable",
    "Tokens",
    "available",
    "cache_folder",
    "data_folders",
    "entry",
    "exit_status",
    "fetch",
    "list_table",
    "load",
    "names",
    "unwrap",
    "verify",
]
