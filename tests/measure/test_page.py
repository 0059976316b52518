"""What the page on one's own text says in words: its example in Python, and how many symbols there are."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

from lib.batch.pages import find_page
from lib.measure import symbols
from lib.processes import MarkovChain

CHAIN = MarkovChain([[0.9, 0.1], [0.2, 0.8]])
START = 2


class Network(torch.nn.Module):
    """Logits of a chain of two symbols, and of a third one that stands before every window."""

    vocabulary = 3

    def __init__(self, rows: np.ndarray) -> None:
        super().__init__()
        table = np.full((3, 3), -np.inf)
        table[:2, :2], table[START, :2] = np.log(rows), np.log(CHAIN.initial)
        self.table = torch.nn.Parameter(torch.from_numpy(table))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.table[tokens]


def words() -> str:
    return "\n".join(
        cell.source for cell in find_page("measure_your_own").notebook().cells if cell.cell_type == "markdown"
    )


@pytest.fixture
def estimates():
    (example,) = re.findall(r"```python\n(.*?)```", words(), re.DOTALL)
    *lines, last = example.strip().splitlines()

    def of(network: torch.nn.Module) -> tuple[np.ndarray, np.ndarray]:
        names = {"network": network, "start": START, "documents": list(CHAIN.sample(400, 600, 1))}
        exec("\n".join(lines), names)
        return eval(last, names)

    return of


def test_the_example_measures_a_network_of_ones_own(estimates):
    direct, vclub = estimates(Network(CHAIN.transition))
    exact = CHAIN.mutual_information([1])[0]  # the halves meet at one place, at every length
    assert direct.shape == vclub.shape == (8, 1) and np.allclose(direct, exact, atol=0.12)
    assert np.all(vclub > direct - 0.12)


def test_a_network_without_memory_has_no_information(estimates):
    direct, vclub = estimates(Network(np.stack([CHAIN.initial] * 2)))
    assert np.allclose(direct, 0, atol=1e-9) and np.allclose(vclub, 0, atol=1e-9)


def test_symbols_are_counted_as_the_page_says():
    assert symbols.VOCABULARY == 1024 and "at most 1024 pieces" in words()
    kept, count, covered = symbols.with_rare_ones_alike(np.array([0, 0, 0, 1, 1, 2, 3, 4], dtype=np.uint8), 3)
    assert count == 3 and covered == 5 / 8  # two that are told apart, and one for all others
    assert np.bincount(kept).tolist() == [3, 2, 3]
