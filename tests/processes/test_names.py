"""What the package exports is imported when it is asked for, and is all there."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

from lib import processes


@pytest.mark.parametrize("name", processes.__all__)
def test_an_exported_name_is_that_of_its_module(name: str) -> None:
    found = getattr(processes, name)
    assert found.__name__ == name and getattr(importlib.import_module(found.__module__), name) is found


def test_another_name_is_no_attribute() -> None:
    assert not hasattr(processes, "TwoSidedCoin")
    with pytest.raises(ImportError, match="TwoSidedCoin"):
        exec("from lib.processes import TwoSidedCoin")


def test_those_who_check_types_are_told_of_the_same_names() -> None:
    stub = ast.parse(Path(processes.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    told = {alias.name: node.module for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert told == {name: getattr(processes, name).__module__ for name in processes.__all__}
