"""What the page says above the timings of a GPU: the tables that are there, and no others."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from lib import ROOT
from lib.report import benchmarks

BESIDE = ("plain_networks", "recurrent", "training")  # scripts that it imports


@pytest.fixture(scope="module")
def on_gpu() -> Iterator[Any]:
    specification = importlib.util.spec_from_file_location("on_gpu", ROOT / "benchmarks" / "on_gpu.py")
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benchmarks")
        specification.loader.exec_module(module)
        yield module
    for name in BESIDE:
        sys.modules.pop(name, None)


def test_the_record_describes_its_own_tables(on_gpu: Any) -> None:
    recorded = json.loads((benchmarks.FOLDER / "on_gpu.json").read_text(encoding="utf-8"))
    assert recorded["description"] == on_gpu.description([table["title"] for table in recorded["tables"]])


def test_a_description_names_each_table_once_as_there_or_as_missing(on_gpu: Any) -> None:
    titles = list(on_gpu.SHOWN)
    for count in range(1, len(titles) + 1):
        there, _, missing = on_gpu.description(titles[:count]).partition("Not timed yet")
        assert [on_gpu.SHOWN[title] in there for title in titles] == [place < count for place in range(len(titles))]
        assert all(on_gpu.SHOWN[title] in missing for title in titles[count:]) and bool(missing) == (
            count < len(titles)
        )


def test_a_table_that_is_unknown_is_refused(on_gpu: Any) -> None:
    with pytest.raises(ValueError, match=r"The scan of Mamba, .*got \['Another table'\]"):
        on_gpu.description(["Another table"])
