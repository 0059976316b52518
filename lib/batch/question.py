"""A new question of the book: its sweep, its run, its test and its chapter, written as a small example that works."""

from __future__ import annotations

import json
import keyword
import re
from pathlib import Path
from string import Template

import yaml

from lib import ROOT, plain_yaml
from lib.machine import write_whole

TEMPLATES = Path(__file__).with_suffix(".yml")


def files_of(question: str, part: str, title: str) -> dict[str, str]:
    """The files of a question, path from the root -> text."""
    filled = {
        "question": question,
        "part": part,
        "title": title,
        "quoted": json.dumps(title, ensure_ascii=False),  # in YAML, where `no` and `2024` are no texts
        "label": question.replace("_", "-"),
    }
    templates = plain_yaml.load(TEMPLATES.read_text(encoding="utf-8"))
    return {Template(path).substitute(filled): Template(text).substitute(filled) for path, text in templates.items()}


def create(question: str, part: str, title: str = "", root: Path = ROOT) -> list[Path]:
    """Write the files of a question that is not there yet, and return them; `_toc.yml` is left to its author.

    question: a name, no word of Python or YAML; part: a folder of `notebooks`; title: of the chapter, default made of
    the name. Raises ValueError for another name or part, and where one of the files exists, or a page of this name or
    label: then nothing is written.
    """
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", question):
        raise ValueError(f"question: a name such as copied_words is allowed, got {question!r}")
    if keyword.iskeyword(question) or yaml.safe_load(question) != question:  # `no` is no text there
        raise ValueError(f"question: a name that is no word of Python or YAML is allowed, got {question!r}")
    parts = sorted(path.name for path in (root / "notebooks").iterdir() if path.is_dir())
    if part not in parts:
        raise ValueError(f"part: one of {', '.join(parts)} is allowed, got {part!r}")
    title = title.strip() or question.replace("_", " ").capitalize()
    if not re.fullmatch(r"[\w ,()'–-]+", title):
        raise ValueError(f"title: letters, digits, spaces and commas are allowed, got {title!r}")
    files = {root / name: text for name, text in files_of(question, part, title).items()}
    label = re.compile(rf"^\({question.replace('_', '-')}\)=", re.MULTILINE)
    every = [*(root / "notebooks").glob("*/*.md"), *(root / "book").glob("*.md")]
    pages = [page for page in every if page.stem == question or label.search(page.read_text(encoding="utf-8"))]
    there = sorted({path.relative_to(root).as_posix() for path in [*filter(Path.exists, files), *pages]})
    if there:
        raise ValueError(f"question: a new name is allowed, {question!r} has {', '.join(there)}")
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text)
    return list(files)
