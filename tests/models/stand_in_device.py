"""A device for tests on machines that have none: its tensors keep their numbers and mix with no others.

torch's own `meta` device raises when a tensor of another device slips in, but has no numbers: a loss cannot be read, a
token cannot be drawn. Inside `stand_in_device()` tensors that say they lie on `meta` hold a tensor of the CPU each, and
every operation on them is done there, after the rules that CUDA has:

- all tensors of an operation lie on one device, except in a copy. An index may come from the CPU, and so may a tensor
  without axes in an operation entry by entry, but then nothing is written to it;
- `.numpy()` and with it every loop compiled by Numba refuse a tensor of the device;
- random numbers are drawn by a generator of the device. Stricter than CUDA: the device has no generator of its own.

What reads a number counts as one of `Waiting.reads`: there a real device would keep the program waiting.
"""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar
from unittest import mock

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

DEVICE = torch.device("meta")
aten = torch.ops.aten
COPIES = {aten.copy_.default, aten._to_copy.default}
INDEXING = {aten.index.Tensor, aten.index_put.default, aten.index_put_.default, aten._index_put_impl_.default}
INSTEAD = {  # lazily conjugated and negated numbers are a mark of the tensor that holds them, which would be lost
    aten._conj.default: aten.conj_physical.default,
    aten._neg_view.default: aten.neg.default,
}
FROM_DATA = {torch.tensor, torch.as_tensor, torch.asarray}


class WrongDevice(RuntimeError):
    """An operation that a real device would refuse."""


@dataclass
class Waiting:
    """How often a number of the device was read."""

    reads: int = 0


class OnDevice(Tensor):  # type: ignore[misc]
    """A tensor of the device; `numbers` is a tensor of the CPU."""

    numbers: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, numbers: Tensor) -> OnDevice:
        made: OnDevice = Tensor._make_wrapper_subclass(
            cls,
            numbers.shape,
            strides=numbers.stride(),
            storage_offset=numbers.storage_offset(),
            dtype=numbers.dtype,
            device=DEVICE,
        )
        made.numbers = numbers
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise WrongDevice(f"{func}: a tensor of the stand-in device outlived it")


class _Operations(TorchDispatchMode):  # type: ignore[misc]
    def __init__(self, waiting: Waiting) -> None:
        super().__init__()
        self.waiting = waiting

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing is compiled here, and keeping torch's compiler out costs more than the operations

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given, known = kwargs or {}, _known(func)
        tensors = _tensors((args, tuple(given.values())) if given else args)
        there = any(isinstance(x, OnDevice) for x in tensors)
        asked = given.get("device")
        goes = there if asked is None else torch.device(asked).type == DEVICE.type
        if known.draws:
            _refuse_other_generators(func, given.get("generator"), goes)
        if not (there or goes):
            return func(*args, **given)
        if there:
            _refuse_mixture(func, args, given, tensors)
        if func is aten._fused_sdp_choice.default:
            return 0  # attention by its definition: the faster forms have operations for each device
        numbers = {name: _numbers(value) for name, value in given.items()}
        if asked is not None and goes:
            numbers["device"] = torch.device("cpu")
        result = known.instead(*_numbers(args), **numbers)
        if known.changes_shape:
            with torch._C._DisableTorchDispatch():
                func(*args, **given)  # shape and strides of the tensor that holds the numbers
        if there and (not goes or not isinstance(result, Tensor | list | tuple | None)):
            self.waiting.reads += 1
        if not goes:
            return result
        return _wrapped(result, {id(_numbers(x)): x for x in _tensors(_written(func, args, given))})


class _Constructors(TorchFunctionMode):  # type: ignore[misc]
    """torch makes `meta` tensors of data without looking at the data."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = dict(kwargs or {})
        if func in FROM_DATA and given.get("device") is not None and torch.device(given["device"]) == DEVICE:
            return func(*args, **{**given, "device": "cpu"}).to(DEVICE)
        if func is Tensor.new_tensor and isinstance(args[0], OnDevice):
            return torch.tensor(args[1], **{"dtype": args[0].dtype, **given}).to(DEVICE)
        return func(*args, **given)


class _Generator(torch.Generator):  # type: ignore[misc]
    """A generator of the CPU, or of the device with the numbers of the CPU's."""

    of_device: ClassVar[set[int]] = set()  # operations are handed another object for the same generator

    def __new__(cls, device: Any = "cpu") -> _Generator:
        there = torch.device(device) == DEVICE
        made: _Generator = super().__new__(cls, "cpu" if there else device)
        (cls.of_device.add if there else cls.of_device.discard)(made._cdata)
        return made


@contextlib.contextmanager
def stand_in_device() -> Iterator[Waiting]:
    """Inside, `torch.device("meta")` is a device that computes."""
    waiting = Waiting()
    with contextlib.ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", ".*from a non-meta parameter in the checkpoint to a meta parameter.*")
        stack.enter_context(autocast_on_device())
        stack.enter_context(mock.patch.object(torch, "Generator", _Generator))
        stack.enter_context(_Operations(waiting))
        stack.enter_context(_Constructors())
        yield waiting


@contextlib.contextmanager
def autocast_on_device() -> Iterator[None]:
    """Let `torch.autocast` accept `meta`, where it changes nothing; torch knows no such autocast, as it does CUDA's."""
    real = torch.autocast

    def autocast(device_type: str, *arguments: Any, **options: Any) -> Any:
        if device_type == DEVICE.type:
            return contextlib.nullcontext()
        return real(device_type, *arguments, **options)

    with mock.patch.object(torch, "autocast", autocast):
        yield


def held(x: Tensor) -> Tensor:
    """The numbers of a tensor of the device."""
    assert isinstance(x, OnDevice), f"a tensor on {x.device} that the stand-in device does not hold"
    return x.numbers


@dataclass(frozen=True)
class _Known:
    """What torch says of an operation, which is slow to ask for: it comes a hundred thousand times."""

    instead: Any
    draws: bool
    changes_shape: bool
    pointwise: bool
    writes: tuple[tuple[int, str], ...]  # arguments that it changes, by place and name


@functools.cache
def _known(func: Any) -> _Known:
    tags = set(func.tags)
    written = [
        (place, argument.name)
        for place, argument in enumerate(func._schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    ]
    return _Known(
        INSTEAD.get(func, func),
        torch.Tag.nondeterministic_seeded in tags,
        torch.Tag.inplace_view in tags,
        torch.Tag.pointwise in tags,
        tuple(written),
    )


def _refuse_mixture(func: Any, args: Any, given: dict[str, Any], tensors: list[Tensor]) -> None:
    others = [x for x in tensors if not isinstance(x, OnDevice)]
    if not others or func in COPIES:
        return
    written = [x for x in _tensors(_written(func, args, given)) if not isinstance(x, OnDevice)]
    if func in INDEXING:  # (tensor, indices, values)
        others = [x for x in _tensors((args[0], args[2:])) if not isinstance(x, OnDevice)]
    if _known(func).pointwise or func in INDEXING:
        others = [x for x in others if x.ndim]
    if others or written:
        shapes = ", ".join(str(tuple(x.shape)) for x in others or written)
        raise WrongDevice(f"{func}: tensors of the device and of the CPU; of the CPU: shape {shapes}")


def _refuse_other_generators(func: Any, drawing: Any, goes: bool) -> None:
    of_device = drawing is not None and drawing._cdata in _Generator.of_device
    if of_device != goes:
        places = ("the CPU", "the device")
        raise WrongDevice(f"{func}: numbers of {places[goes]} by a generator of {places[of_device]}, or by none")


def _written(func: Any, args: Any, given: dict[str, Any]) -> list[Any]:
    """Arguments that the operation changes."""
    return [args[place] if place < len(args) else given.get(name) for place, name in _known(func).writes]


def _tensors(value: Any) -> list[Tensor]:
    """The tensors among arguments, those in lists too."""
    found: list[Tensor] = []
    for part in value:
        if isinstance(part, Tensor):
            found.append(part)
        elif isinstance(part, list | tuple):
            found += _tensors(part)
    return found


def _numbers(value: Any) -> Any:
    if isinstance(value, OnDevice):
        return value.numbers
    return type(value)([_numbers(part) for part in value]) if isinstance(value, list | tuple) else value


def _wrapped(result: Any, written: dict[int, Any]) -> Any:
    if isinstance(result, Tensor):
        return written[id(result)] if id(result) in written else OnDevice(result)
    return type(result)(_wrapped(x, written) for x in result) if isinstance(result, list | tuple) else result
