"""State space models that memorise: N neurons for any N sequences and any N outputs (Prop. 4.5).

Nandakumar, Qu, Mi and Liu, "State space models can express n-gram languages", Lemmas A.2-A.4 and Prop. 4.5.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy.sparse import csr_array, diags_array, issparse

from lib.checks import generator, real_array, whole_number
from lib.theory.memorizing.checks import checked_data, float_type, input_units, padded, windows_of
from lib.theory.memorizing.transition import distinct_transition
from lib.theory.memorizing.weights import (
    gap_order,
    natural_order,
    ramp_weights,
    register_transition,
    register_weights,
    sorted_transition,
    triangular_weights,
)
from lib.theory.memorizing.winner import NotACorner, one_hot_transition

Method = Literal["auto", "paper", "gap", "sorted", "winner_take_all", "shift_register"]
Array = NDArray[Any]
_TRIED, _TRIED_ALL = 256, 2048  # sequences on which one-hot features are tried
_ROWS = 1024  # sequences that are read at once
_MOST_FOR_GAP = 2000  # sequences for which "auto" takes it


@dataclass(frozen=True, eq=False)
class MemorizingSSM:
    """h_t = A h_{t-1} + B x_t from h_0 = 0, and y = C relu(h_n + b) after the last input; A^order = 0.

    A (h, h) is kept as left (h, d) @ right (d, h); B (h, m), b (h,), C (p, h), all of one floating type. C is sparse
    where the outputs were. windows (N, order, m), in time order, and targets (N, p): what was memorised; "paper", "gap"
    and "sorted" add windows with target 0 until there are h.
    """

    left: Array
    right: Array
    B: Array
    b: Array
    C: Any
    order: int
    method: str
    windows: Array
    targets: Any

    @cached_property
    def A(self) -> Array:
        """The transition matrix (h, h). The recurrence itself uses the factors. Cost O(h^2 d)."""
        return np.asarray(self.left @ self.right)

    @property
    def hidden_size(self) -> int:
        """Number of neurons h."""
        return len(self.b)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The floating type of all weights, in which everything is computed."""
        return self.b.dtype

    def step(self, h: Array, x: Array) -> Array:
        """h_t from h_{t-1} (sequences, h) and x_t (sequences, m). Cost O(sequences h d)."""
        return np.asarray((h @ self.right.T) @ self.left.T + x @ self.B.T)

    def states(self, inputs: ArrayLike) -> Iterator[Array]:
        """h_1, h_2, ..., h_T (sequences, h) for inputs (sequences, T, m), one at a time, O(sequences h d) each."""
        x = self._checked(inputs)
        h = np.zeros((len(x), self.hidden_size), dtype=self.dtype)
        for t in range(x.shape[1]):
            h = self.step(h, x[:, t])
            yield h

    def hidden(self, inputs: ArrayLike) -> Array:
        """The last hidden state h_T (sequences, h) for inputs (sequences, T, m), by the recurrence."""
        x = self._checked(inputs)
        h = x[:, 0] @ self.B.T
        for t in range(1, x.shape[1]):
            h = self.step(h, x[:, t])
        return np.asarray(h)

    def features(self, inputs: ArrayLike) -> Array:
        """relu(h_T + b), (sequences, h)."""
        return self.activations(self.hidden(inputs))

    def activations(self, hidden: Array) -> Array:
        """relu(h + b) of given states."""
        return np.asarray(np.maximum(hidden + self.b, 0))

    def __call__(self, inputs: ArrayLike) -> Array:
        """y_T = C relu(h_T + b), (sequences, p), for inputs (sequences, T, m) of any length T >= 1."""
        return self.outputs(self.hidden(inputs))

    def outputs(self, hidden: Array) -> Array:
        """C relu(h + b) of given states, (sequences, p)."""
        return np.asarray(self.activations(hidden) @ self.C.T)

    @property
    def nbytes(self) -> int:
        """Bytes of the weights as they are kept: left, right, B, b and C."""
        output = (
            self.C.data.nbytes + self.C.indices.nbytes + self.C.indptr.nbytes if issparse(self.C) else self.C.nbytes
        )
        return int(self.left.nbytes + self.right.nbytes + self.B.nbytes + self.b.nbytes + output)

    @cached_property
    def residual(self) -> float:
        """Largest |y - target| over the memorised windows: what rounding left of memorising. Cost O(N h (d + p))."""
        rows = (slice(start, start + _ROWS) for start in range(0, len(self.windows), _ROWS))
        return float(np.max([np.abs(self(self.windows[some]) - self.targets[some]).max() for some in rows]))

    @cached_property
    def condition(self) -> float:
        """Condition of the feature matrix (N, h) of the memorised windows, in the 2-norm. Cost O(h^3)."""
        return float(np.linalg.cond(self.features(self.windows).astype(np.float64)))

    def astype(self, dtype: DTypeLike) -> MemorizingSSM:
        """All weights rounded to another floating type; ValueError for a type that `memorizing_ssm` refuses."""
        kind = float_type(dtype)
        names = ("left", "right", "B", "b", "C", "windows")
        return replace(self, **{name: getattr(self, name).astype(kind) for name in names})

    def _checked(self, inputs: ArrayLike) -> Array:
        x = real_array(inputs, "inputs")
        if x.ndim != 3 or x.shape[2] != self.B.shape[1] or x.shape[1] < 1:
            raise ValueError(f"inputs: shape (sequences, T >= 1, {self.B.shape[1]}) is allowed, got {x.shape}")
        if not np.all(np.isfinite(x)):
            raise ValueError("inputs: finite numbers are allowed, got NaN or infinity")
        return x.astype(self.dtype, copy=False)


def memorizing_ssm(
    inputs: ArrayLike,
    outputs: Any,
    order: int,
    method: Method = "auto",
    *,
    hidden_size: int | None = None,
    dtype: DTypeLike = np.float64,
    seed: int | np.random.Generator = 0,
) -> MemorizingSSM:
    """An SSM with one neuron for each sequence: C relu(h_n + b) = y for each, and A^order = 0 (Prop. 4.5).

    inputs (N, n, m): N different sequences. outputs (N, p); sparse with "winner_take_all" only, which then makes a
    sparse C. order: A^order = 0, so that only the last `order` inputs count; n where all have to. method:

    - "paper": Lemma A.3 (generic A and B) and Lemma A.4 (biases neuron by neuron). Right, and ill-conditioned: with
      standard normal sequences of n = m = 3 outputs of variance 1 are off by 1e-7 to 1e-2 at N = 300 and by 1e-5 to
      1e4 at N = 500, half of the time by more than 0.05, in float64.
    - "gap": the same weights; the neuron with the widest gap comes next. Cost O(N^2 (ln N + order m + p)), as "paper".
    - "sorted": nearly all neurons read one line; C by divided differences in float64, by back substitution in other
      types. Cost O(N (order m + p)), or O(N^2 (order m + p)), after a search for the line; the condition grows about
      as N^3.
    - "winner_take_all": neuron i fires for sequence i alone, condition 1. Windows have to be corners of their convex
      hull, as they are on a sphere. Cost O(N^2 order m), and one linear program for each window that is not obvious;
      O(N (order m)^2) where the inputs are few different points of a sphere, as words are.
    - "shift_register": one-hot but for (order - 1) m neurons that hold the last inputs. Powers of A are exact zeros
      even in floating point. Windows have to be corners, and their last order - 1 inputs have to span their space.
    - "auto": "winner_take_all" where the windows are corners, else "gap", and "sorted" for more than 2000 sequences.
      Where rounding hides the corners, that of "gap" and "sorted" with the smaller residual.

    Of no method is anything raised where weights are inaccurate: the network's `residual` says by how much. The unit of
    the inputs does not matter: they are divided by powers of two, and B with them.
    For "paper", "gap", "sorted" and "shift_register" A^order is zero and not just small: entries of A are dyadic
    fractions. For "paper" and "gap" below float64 that is true of left @ right, which the recurrence uses, and not of
    the property `A`, which rounds their product. For "winner_take_all" it is zero up to rounding. hidden_size: N
    neurons unless more are asked for; spare ones never fire in one-hot features. dtype: the network computes in this
    type, and C is solved for what it then computes.

    Raises ValueError for fewer neurons than `order` (a nilpotent matrix of size h has A^h = 0 already, so no more than
    h inputs count: N = 2 sequences of n = 3 that differ in the oldest input alone cannot be told apart), equal
    sequences, equal windows with different outputs, numbers that are not finite, shapes that do not fit, an unknown
    method, windows that the method cannot separate, or weights that this type cannot hold.
    """
    if method not in get_args(Method):
        raise ValueError(f"method: one of {', '.join(get_args(Method))} is allowed, got {method!r}")
    sequences, wanted = checked_data(inputs, outputs)
    windows, wanted = windows_of(sequences, wanted, whole_number(order, "order", 1))
    random, kind = generator(seed), float_type(dtype)
    neurons = len(sequences) if hidden_size is None else whole_number(hidden_size, "hidden_size", len(sequences))
    if neurons < order:
        raise ValueError(
            f"order: at most the hidden size is allowed, got order = {order} with {neurons} neurons. A nilpotent "
            f"matrix of size {neurons} has A^{neurons} = 0, so only the last {neurons} inputs could count; "
            f"hidden_size={order} or more adds the neurons that are missing"
        )
    if issparse(wanted) and method not in ("auto", "winner_take_all"):
        raise ValueError(f"outputs: sparse ones need method 'winner_take_all', got {method!r}")
    if method != "auto":
        return _build(method, windows, wanted, neurons, order, kind, random)
    try:
        return _build("winner_take_all", windows, wanted, neurons, order, kind, random)
    except ValueError as error:
        if issparse(wanted):
            raise
        problem = error
    found: list[MemorizingSSM] = []
    for name in ("gap", "sorted") if neurons <= _MOST_FOR_GAP else ("sorted",):
        try:
            found.append(_build(name, windows, wanted, neurons, order, kind, random))
        except ValueError as error:
            problem = error
        if found and isinstance(problem, NotACorner):
            break
    if not found:
        raise problem
    return found[0] if len(found) == 1 else min(found, key=lambda model: model.residual)


def _build(
    method: str,
    windows: Array,
    wanted: Any,
    neurons: int,
    order: int,
    dtype: np.dtype[Any],
    random: np.random.Generator,
) -> MemorizingSSM:
    """`_built`, with errors that name the method; ValueError for weights that are not finite."""
    try:
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            model = _built(method, windows, wanted, neurons, order, dtype, random)
    except NotACorner as error:
        raise NotACorner(error.window, error.others, method) from error
    except np.linalg.LinAlgError as error:
        allowed = f"windows that differ by more than rounding in {dtype}"
        raise ValueError(f"{method}: {allowed} are allowed, got {error}") from error
    output = model.C.data if issparse(model.C) else model.C
    if not all(np.all(np.isfinite(a)) for a in (model.left, model.right, model.B, model.b, output, model.windows)):
        reasons = "windows are too close to each other, or inputs or outputs too far from 1"
        raise ValueError(f"{method}: weights in the range of {dtype} are allowed, got others; {reasons}")
    return model


def _built(
    method: str,
    windows: Array,
    wanted: Any,
    neurons: int,
    order: int,
    dtype: np.dtype[Any],
    random: np.random.Generator,
) -> MemorizingSSM:
    """windows (N, up to order, m) in time order, outputs (N, p). In here windows are measured in `units`."""
    units = input_units(windows)
    windows = windows / units
    if method in ("paper", "gap", "sorted"):
        windows, wanted = padded(windows, wanted, neurons, random)
    latest_first = windows[:, ::-1]
    width = windows.shape[1] * windows.shape[2]
    if method in ("paper", "gap"):
        found, hidden = distinct_transition(windows, random)
        b, rows, columns = (natural_order if method == "paper" else gap_order)(hidden)
    elif method == "sorted":
        found, b, rows, columns = sorted_transition(latest_first, random)
    elif method == "winner_take_all":
        found, b = one_hot_transition(latest_first, neurons, random)
    else:
        found, b, rows, columns = register_transition(latest_first, neurons)
    empty = csr_array((0, 0)) if issparse(wanted) else np.zeros((0, 0))
    read = found.B / units
    windows = windows * units
    rounded = MemorizingSSM(found.left, found.right, read, b, empty, order, method, windows, wanted).astype(dtype)
    if method == "winner_take_all":
        weights = _one_hot_weights(rounded, wanted, random)
    elif method == "sorted" and dtype == np.float64:
        first = found.functionals[: windows.shape[1]].reshape(-1, width)
        weights = ramp_weights(latest_first.reshape(-1, width) @ first.T, b, rows, wanted, windows.shape[1])
    else:
        features = rounded.features(windows).astype(np.float64)
        if method == "shift_register":
            weights = register_weights(features, wanted, rows, columns, width - windows.shape[2])
        else:
            weights = triangular_weights(features, wanted, rows, columns)
    return replace(rounded, C=weights.T.astype(dtype))


def _one_hot_weights(model: MemorizingSSM, wanted: Any, random: np.random.Generator) -> Any:
    """C^T: the outputs themselves, divided by what the neurons show for their own sequence (1, up to rounding).

    Raises ValueError where rounding lets a second neuron fire. Tried on all sequences up to 2048, else on 256 of them.
    """
    count, spare = len(model.windows), model.hidden_size - len(model.windows)
    tried = np.arange(count) if count <= _TRIED_ALL else np.sort(random.choice(count, _TRIED, replace=False))
    shown = np.ones(count)
    for rows in np.array_split(tried, -(-len(tried) // _TRIED)):
        features = model.features(model.windows[rows])
        shown[rows] = features[np.arange(len(rows)), rows]
        if np.count_nonzero(features) != len(rows) or not np.all(shown[rows] > 0):
            wider = "float64 or " if model.dtype.itemsize < 8 else ""
            raise ValueError(
                f"winner_take_all: windows too close to separate them in {model.dtype}; "
                f"try {wider}methods 'gap' and 'sorted'"
            )
    if issparse(wanted):
        weights = csr_array(diags_array(1 / shown) @ wanted)
        weights.resize(count + spare, wanted.shape[1])
        return weights
    return np.pad(wanted / shown[:, None], ((0, spare), (0, 0)))
