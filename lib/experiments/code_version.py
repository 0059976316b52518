"""The version of a kernel: a digest of what its modules do, which comments, docstrings and layout do not change."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable
from functools import cache

from lib import ROOT


def code_digest(modules: Iterable[str]) -> str:
    """First 12 hex digits of a SHA-256 over the syntax trees of these modules of `lib`, in any order.

    Raises ValueError for a module that is none of the book's.
    """
    total = hashlib.sha256()
    for module in sorted(set(modules)):
        total.update(f"{module}\0{_module_digest(module)}\0".encode())
    return total.hexdigest()[:12]


@cache
def _module_digest(module: str) -> str:
    path = ROOT.joinpath(*module.split("."))
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    if not module.startswith("lib") or not source.exists():
        raise ValueError(f"module: a module of lib is allowed, got {module!r}")
    return hashlib.sha256(meaning(source.read_text(encoding="utf-8")).encode()).hexdigest()


def meaning(source: str) -> str:
    """The syntax tree of `source` as text, without docstrings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and _documented(node):
            node.body = node.body[1:] or [ast.Pass()]
    return ast.dump(tree)


def _documented(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return ast.get_docstring(node, clean=False) is not None
