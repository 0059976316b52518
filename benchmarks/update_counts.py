"""Operations and kernels of one update of a network, counted on torch's device `meta`, for `paper_cost.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from lib.training import FitSettings

CUDNN = 4  # kernels of a step and layer of its RNN and LSTM: a product and the gates, forward and back
SHORT = (8, 16, 24)  # steps of loops that are counted
FILLED = (40, 60, 80)  # those of SAB, whose memory is first to hold as many states as are looked up
LOOPS = ("rnn", "lstm", "orth_rnn", "exp_rnn", "mem_rnn", "mem_lstm", "rel_rnn", "rel_lstm", "sab", "goru", "relu_rnn")


class Counts(NamedTuple):
    """What one update does."""

    operations: float  # multiplications and additions in matrix products
    kernels: float


class Training(NamedTuple):
    """One training of profile `paper`: a network, what it minimises in an update, and how many of these there are."""

    architecture: str
    network: Callable[[int], Any]  # of a depth, with weights that have shapes alone
    loss: Callable[[Any, int], Tensor]  # of the network, and steps of a sequence
    fit: Mapping[str, Any]
    depth: int
    steps: int
    updates: int
    name: str = ""  # trainings of one name differ in their steps, depth and updates alone, and share what is counted

    def counted(self) -> Counts:
        """Of one update. What grows with depth is counted at one and two layers, and long loops at short lengths."""
        depths = (self.depth,) if self.depth <= 2 else (1, 2)
        cudnn = self.architecture in ("rnn", "lstm")
        short = self.architecture in LOOPS and (cudnn or self.steps > SHORT[-1])
        lengths = (FILLED if self.architecture == "sab" else SHORT) if short else (self.steps,)
        table = np.array([[self.update(depth, steps) for steps in lengths] for depth in depths])
        operations, kernels = polynomial(depths, table, self.depth).T
        found = Counts(*(float(polynomial(lengths, column, self.steps)) for column in (operations, kernels)))
        if not cudnn:
            return found
        outside = float(polynomial(SHORT, kernels, 0))  # of the loop
        return found._replace(kernels=outside + CUDNN * self.depth * self.steps)

    def update(self, depth: int, steps: int) -> Counts:
        """Counted while it is computed, at another depth and length."""
        key = self.name, depth, steps
        if not self.name or key not in COUNTED:
            model = self.network(depth)
            COUNTED[key] = counts_of(model, lambda: self.loss(model, steps), self.fit)
        return COUNTED[key]


COUNTED: dict[tuple[str, int, int], Counts] = {}


def polynomial(places: Sequence[int], values: ArrayLike, place: int) -> Any:
    """The polynomial through these values (places, ...), by Lagrange's formula, at another place."""
    x = np.array(places, dtype=np.float64)
    shares = [np.prod((place - np.delete(x, i)) / (here - np.delete(x, i))) for i, here in enumerate(x)]
    return np.tensordot(shares, np.asarray(values), axes=1)


class Counter(TorchDispatchMode):
    """Counts what goes through torch while it is entered."""

    def __init__(self) -> None:
        super().__init__()
        self.operations, self.kernels = 0, 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = function(*args, **(kwargs or {}))
        counts = flop_registry.get(function._overloadpacket)
        if counts is not None:
            self.operations += counts(*args, **(kwargs or {}), out_val=found)
        self.kernels += starts_a_kernel(function)
        return found


def starts_a_kernel(function: Any) -> bool:
    """Whether an operator computes numbers: it has a result that is no view of what it was given, and not empty."""
    views = [result.alias_info is not None and not result.alias_info.is_write for result in function._schema.returns]
    name = function._overloadpacket.__name__
    return not (views and all(views)) and not name.startswith(
        ("empty", "new_empty", "_unsafe_view", "detach", "_local")
    )


def counts_of(model: Any, loss: Callable[[], Tensor], settings: Mapping[str, Any]) -> Counts:
    """Of one update, the optimizer's first numbers among it."""
    chosen = FitSettings(**settings)
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = chosen.make_optimizer(weights, getattr(model, "slow_parameters", list)())
    for group in optimizer.param_groups:
        group["foreach"] = True  # as on a GPU: one kernel for all weights

    model.train()
    with Counter() as counter:
        loss().backward()
        chosen.clip_gradients(weights)
        optimizer.step()
    model.zero_grad(set_to_none=True)
    return Counts(counter.operations, counter.kernels)
