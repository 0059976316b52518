"""What races in `limits.py`: a kernel, ours, every other way at hand, and how often each has to do a thing at least."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Way = Callable[[], Any]


@dataclass(frozen=True)
class Kernel:
    """A kernel, the ways that one would take instead, and why it takes longer than its limit.

    needed: how often each kind has to be done at least. What could be kept is counted once, and keeping it is free.
    alike: the numbers of a result that all ways share, of ours and of a peer; None where they are drawn at random.
    """

    name: str
    ours: Way
    peers: dict[str, Way]
    needed: dict[str, float]
    why: str = ""
    alike: tuple[Callable[[Any], Any], Callable[[Any], Any]] | None = None
    tolerance: float = 1e-9

    def check(self) -> None:
        """AssertionError if a peer gives other numbers. What compiles, compiles here."""
        if self.alike is None:
            return
        mine, theirs = self.alike
        expected = [np.asarray(part) for part in mine(self.ours())]
        for name, peer in self.peers.items():
            for one, other in zip(theirs(peer()), expected, strict=True):
                room = self.tolerance * float(np.abs(other).max())
                np.testing.assert_allclose(one, other, rtol=0, atol=room, err_msg=f"{self.name}, {name}")
