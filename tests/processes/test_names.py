"""What the package exports is imported when it is asked for, and is all there."""

from __future__ import annotations

import importlib

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
