"""Where the book is published, as far as that is known, and what can be launched from there.

The sources are at the setting BOOK_REPOSITORY, else at git's `origin`; the pages at BOOK_ADDRESS, else where the host
of the sources puts them. Without git, without `origin`, from an archive or on a host that is not known, what cannot
work is left out: an empty address is an answer, not an error.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import nbformat
from nbformat import NotebookNode

from lib import ROOT

HOSTS = {"github.com": "github.io", "gitlab.com": "gitlab.io"}
"""Hosts of sources that launch buttons know, each with the domain of its pages."""

PAST_FIREWALLS = {"ssh.github.com": "github.com", "altssh.gitlab.com": "gitlab.com"}
"""Hosts that take git at the port of web pages but have none, each with the one that it stands for."""

NOTEBOOK_BRANCH = "notebooks"  # `make notebooks` puts the executed notebooks there: Colab opens no text notebooks
COLAB = "https://colab.research.google.com"
FOLDER = "memory-of-sequence-models"  # of the clone that a notebook makes which runs on its own

SETUP = """\
# Where the book is not installed, as on Colab: fetch it with its recorded runs, and add the packages that are missing.
import importlib.util
import pathlib
import subprocess
import sys

if importlib.util.find_spec("lib") is None:
    book = pathlib.Path("{folder}").absolute()
    if not book.exists():
        subprocess.run(["git", "clone", "--quiet", "--depth", "1", "{repository}", str(book)], check=True)
    needed = str(book / "requirements-colab.txt")
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "-r", needed], check=True)
    sys.path.insert(0, str(book))"""


def web_address(remote: str) -> str:
    """Where a browser finds what git calls by this name; empty if nowhere. Names and passwords are left out.

    `host:/path` is taken for an address on the hosts that are known; elsewhere it is a folder of that machine.

    >>> web_address("git@github.com:someone/book.git")
    'https://github.com/someone/book'
    """
    remote = remote.strip()
    if scp := re.fullmatch(r"[\w.-]+@([\w.-]+):(/?)(.+)", remote):
        if scp[2] and scp[1] not in {*HOSTS, *PAST_FIREWALLS}:
            return ""
        remote = f"ssh://{scp[1]}/{scp[3]}"
    try:
        parts = urlsplit(remote)
        host, given = parts.hostname or "", parts.port
    except ValueError:
        return ""
    path = parts.path.strip("/").removesuffix(".git")
    if parts.scheme not in ("https", "ssh") or "." not in host or not re.fullmatch(r"[\w.~-]+(/[\w.~-]+)+", path):
        return ""
    port = f":{given}" if parts.scheme == "https" and given else ""
    return f"https://{PAST_FIREWALLS.get(host, host)}{port}/{path}"


def origin(root: Path = ROOT) -> str:
    """What git calls `origin` in this very folder; empty without git, without a checkout, without an `origin`."""
    # An archive that is unpacked inside another checkout is no part of that one.
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(root.resolve().parent)}
    command = ["git", "-C", str(root), "remote", "get-url", "origin"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def repository_url(root: Path = ROOT) -> str:
    """Where the sources are: the setting BOOK_REPOSITORY, else git's `origin`; empty if that is no web address.

    Raises ValueError for a BOOK_REPOSITORY that no browser could open.
    """
    given = os.environ.get("BOOK_REPOSITORY", "").strip()
    if given and not web_address(given):
        raise ValueError(f"BOOK_REPOSITORY: an address like https://github.com/name/book is allowed, got {given!r}")
    return web_address(given or origin(root))


def pages_url(repository: str) -> str:
    """Where the pages are, with a slash at the end: the setting BOOK_ADDRESS, else as the host of the sources does.

    Raises ValueError for a BOOK_ADDRESS that is no web address.
    """
    given = os.environ.get("BOOK_ADDRESS", "").strip()
    if given:
        parts = urlsplit(given)
        if parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment:
            raise ValueError(f"BOOK_ADDRESS: an address like https://book.example/memory/ is allowed, got {given!r}")
        return given.rstrip("/") + "/"
    parts = urlsplit(repository)
    owner, _, name = parts.path.strip("/").partition("/")
    if parts.netloc not in HOSTS:
        return ""
    home = f"{owner.lower()}.{HOSTS[parts.netloc]}"
    return f"https://{home}/" if name.lower() == home else f"https://{home}/{name}/"


def launch_options(repository: str, configured: Mapping[str, Any]) -> dict[str, Any]:
    """What the theme is told of launching: all that is configured where it knows the host, else nothing.

    It would stop at a host that it does not know, and at a button without a repository.
    """
    known = urlsplit(repository).netloc in HOSTS
    return {"repository_url": repository if known else "", "launch_buttons": dict(configured) if known else {}}


def colab_url(repository: str, page: str) -> str:
    """Where Colab opens the notebook of a page; empty where it does not: it reads from GitHub only."""
    parts = urlsplit(repository)
    if parts.netloc != "github.com":
        return ""
    return f"{COLAB}/github{parts.path}/blob/{NOTEBOOK_BRANCH}/{quote(page)}.ipynb"


def setup_cell(repository: str) -> str:
    """Code that makes a notebook run on its own in an empty folder, and does nothing where the book is installed."""
    return SETUP.format(folder=FOLDER, repository=repository)


def on_its_own(notebook: NotebookNode, repository: str) -> NotebookNode:
    """The notebook with that code as its first cell; unchanged where the sources are published nowhere."""
    if repository:
        notebook.cells.insert(0, nbformat.v4.new_code_cell(setup_cell(repository), id="setup"))
    return notebook
