"""How many numbers, and how much information, a model carries from its past into its future.

The size of the history state of a model; how many of its numbers depend on the future, where both are Gaussian.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import solve_triangular, svdvals

from lib.checks import checked_covariance, plain_array, whole_number
from lib.theory.gaussian_predictor import cholesky

# Histories of two symbols (first token, all but the ends, last token): a counter is the same after each of them.
_HISTORIES = ((0, 0, 0), (1, 1, 1), (1, 0, 0), (0, 0, 1))


def history_state_size(model: Any, length: int) -> int:
    """Real numbers that the state of one sequence holds after `length` tokens: dim(z) of L2M (2025), Def. 5.1.

    model: any object with initial_state(batch) and step(token, state) -> (logits, state), where the state is all that
    later output may depend on. If it has state_size(length) as well, as the models of this book do, that is asked, and
    costs O(depth) at any length; otherwise the model reads `length` tokens and its state is counted.

    A complex number counts twice. A counter, such as the position, counts nothing: at a given length it is the same
    for all histories, tells nothing about any of them, and would take ln(length) nats to write down. Whole numbers
    that do depend on the tokens read, such as a window of tokens, count one each.

    The history state z_l of Def. 5.1, which meets token l, is the state after l - 1 tokens. Raises ValueError for
    length < 1, objects without the interface and states that cannot be counted.
    """
    steps = whole_number(length, "length", 1)
    _require_interface(model)
    stated = getattr(model, "state_size", None)
    if not callable(stated):
        return counted_history_state_size(model, steps)
    return whole_number(stated(steps), "state_size", 0)


def counted_history_state_size(model: Any, length: int) -> int:
    """The same, always by reading `length` tokens and counting what the state then holds.

    Whole numbers in the state are counters if they are the same after four different histories. Cost `length` steps,
    four times as many if the state has whole numbers.
    """
    steps = whole_number(length, "length", 1)
    _require_interface(model)
    numbers, whole = _leaves(_read(model, steps, _HISTORIES[0]))
    if whole and getattr(model, "vocabulary", 2) != 1:
        others = [_leaves(_read(model, steps, history))[1] for history in _HISTORIES[1:]]
        for place, leaf in enumerate(whole):
            if any(not np.array_equal(leaf, other[place]) for other in others):
                numbers += leaf.size
    return numbers


def _read(model: Any, length: int, history: tuple[int, int, int]) -> Any:
    """The state after one sequence of `length` tokens."""
    first, middle, last = history
    with _without_gradients():
        state = model.initial_state(1)
        for place in range(length):
            token = first if place == 0 else last if place == length - 1 else middle
            _, state = model.step(_token(model, state, token), state)
    return state


def _leaves(state: Any) -> tuple[int, list[np.ndarray[Any, Any]]]:
    """Real numbers in a state, complex ones twice, and its arrays of whole numbers."""
    if state is None:
        return 0, []
    if dataclasses.is_dataclass(state) and not isinstance(state, type):
        return _together([getattr(state, field.name) for field in dataclasses.fields(state)])
    if isinstance(state, Mapping):
        return _together(list(state.values()))
    if isinstance(state, list | tuple):
        return _together(list(state))
    array = plain_array(state, "state")
    if array.dtype.kind not in "biufc":
        raise ValueError(f"state: numbers, arrays, tensors and collections of them are allowed, got {type(state)}")
    if array.dtype.kind in "biu":
        return 0, [array]
    return array.size * (2 if array.dtype.kind == "c" else 1), []


def _together(parts: list[Any]) -> tuple[int, list[np.ndarray[Any, Any]]]:
    counted = [_leaves(part) for part in parts]
    return sum(numbers for numbers, _ in counted), [array for _, arrays in counted for array in arrays]


def _token(model: Any, state: Any, value: int) -> Any:
    """One token as the model reads it: a tensor for a torch model, else an array; torch is never imported here."""
    torch = sys.modules.get("torch")
    if torch is not None:
        parameters = list(model.parameters()) if isinstance(model, torch.nn.Module) else []
        tensors = [leaf for leaf in _flat(state) if isinstance(leaf, torch.Tensor)] + parameters
        if tensors or isinstance(model, torch.nn.Module):
            return torch.full((1,), value, dtype=torch.int64, device=tensors[0].device if tensors else None)
    return np.full(1, value, dtype=np.int64)


def _flat(state: Any) -> Iterator[Any]:
    if dataclasses.is_dataclass(state) and not isinstance(state, type):
        state = [getattr(state, field.name) for field in dataclasses.fields(state)]
    if isinstance(state, Mapping):
        state = list(state.values())
    if isinstance(state, list | tuple):
        for part in state:
            yield from _flat(part)
    else:
        yield state


def _without_gradients() -> contextlib.AbstractContextManager[Any]:
    torch = sys.modules.get("torch")
    return contextlib.nullcontext() if torch is None else torch.no_grad()


def _require_interface(model: Any) -> None:
    missing = [name for name in ("initial_state", "step") if not callable(getattr(model, name, None))]
    if missing or isinstance(model, type):
        what = "the class, not a model" if isinstance(model, type) else f"{type(model).__name__} without {missing}"
        raise ValueError(f"model: an object with initial_state(batch) and step(token, state) is allowed, got {what}")


def canonical_correlations(covariance: ArrayLike, first: ArrayLike, second: ArrayLike) -> NDArray[np.float64]:
    """Canonical correlations of two groups of variables, descending: singular values of S_11^(-1/2) S_12 S_22^(-1/2).

    If what the first group tells about the second passes through m numbers linearly, at most m of them are not zero;
    for Gaussians I = -1/2 sum ln(1 - r^2). covariance (n, n), first and second: index arrays without overlap. Raises
    ValueError unless the covariance is symmetric, up to rounding, and that of both groups positive definite. Cost
    O(n^3).
    """
    matrix = checked_covariance(covariance)
    groups = [plain_array(group, "first, second") for group in (first, second)]
    if any(group.ndim != 1 or not group.size for group in groups):
        raise ValueError(
            f"first, second: a row of indices each, not empty, is allowed, got shapes {[g.shape for g in groups]}"
        )
    try:
        left, right = (np.arange(len(matrix))[group] for group in groups)
    except IndexError as error:
        raise ValueError(f"first, second: indices of a covariance {matrix.shape} are allowed: {error}") from error
    if (both := np.intersect1d(left, right)).size:
        raise ValueError(f"first, second: groups that share no variable are allowed, both have {both.tolist()}")
    roots = [cholesky(matrix[np.ix_(group, group)]) for group in (left, right)]
    half = solve_triangular(roots[0], matrix[np.ix_(left, right)], lower=True)
    return np.asarray(svdvals(solve_triangular(roots[1], half.T, lower=True)))
