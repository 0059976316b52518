"""The selective scan: every way against the recurrence as it is written."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.models.kernels.convolution import convolve, depthwise
from lib.models.kernels.scan import selective_scan
from lib.models.kernels.scan.plain import chunked_selective_scan, sequential_selective_scan
from tests.models.kernels.reference import NAMES, arguments, ours, outputs_and_gradients

SHAPES = [(2, 70, 5, 3), (1, 1, 1, 1), (3, 33, 70, 16), (2, 64, 64, 4), (1, 100, 130, 2), (2, 0, 3, 2), (0, 4, 3, 2)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("way", [ours, chunked_selective_scan])
def test_every_way_equals_the_recurrence_with_all_its_gradients(way: Any, shape: Any) -> None:
    inputs = arguments(*shape)
    expected = outputs_and_gradients(sequential_selective_scan, inputs)
    for name, first, second in zip(("y", "state", *NAMES), outputs_and_gradients(way, inputs), expected, strict=True):
        torch.testing.assert_close(first, second, rtol=1e-11, atol=1e-11, msg=lambda text, n=name: f"{n}: {text}")


def test_a_small_scan_is_the_one_done_by_hand() -> None:
    u, delta = torch.tensor([[[3.0], [5.0]]]), torch.tensor([[[1.0], [2.0]]])
    B, C = torch.tensor([[[1.0], [10.0]]]), torch.tensor([[[1.0], [1.0]]])
    half = torch.tensor([[-float(np.log(2.0))]])  # decays by 1/2 a unit of time
    y, state = selective_scan(u, delta, half, B, C, torch.tensor([7.0]), torch.tensor([[[8.0]]]), return_state=True)
    # s_1 = 8/2 + 1 x 1 x 3 = 7,  s_2 = 7/4 + 2 x 10 x 5
    assert y.flatten().tolist() == pytest.approx([7.0 + 21.0, 101.75 + 35.0], rel=1e-6)
    assert state.item() == pytest.approx(101.75, rel=1e-6)


def test_the_gradients_are_derivatives() -> None:
    inputs = arguments(2, 7, 3, 2)
    assert torch.autograd.gradcheck(lambda *x: ours(*x, chunk=3), inputs)
    x, layer = arguments(2, 6, 3, 2, seed=1)[0], depthwise(3, 4).double()
    assert torch.autograd.gradcheck(lambda x, *_: convolve(layer, x), (x, *layer.parameters()))


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 3), st.integers(1, 40), st.integers(1, 70), st.integers(1, 5), st.integers(1, 50))
def test_where_chunks_begin_does_not_matter(batch: int, time: int, channels: int, size: int, chunk: int) -> None:
    inputs = arguments(batch, time, channels, size)
    first = outputs_and_gradients(ours, inputs, chunk=chunk)
    for one, other in zip(first, outputs_and_gradients(ours, inputs, chunk=time), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


@pytest.mark.parametrize("time", [0, 1, 33])
def test_a_chunk_longer_than_the_sequence_takes_no_more_memory(time: int) -> None:
    inputs = arguments(2, time, 3, 2)
    expected = outputs_and_gradients(ours, inputs)
    for one, other in zip(outputs_and_gradients(ours, inputs, chunk=10**12), expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 30))
def test_a_sequence_may_be_cut_anywhere_and_the_state_handed_over(cut: int) -> None:
    u, delta, A, B, C, D, state = arguments(2, 30, 4, 3)
    whole, last = ours(u, delta, A, B, C, D, state)
    first, between = ours(u[:, :cut], delta[:, :cut], A, B[:, :cut], C[:, :cut], D, state)
    second, end = ours(u[:, cut:], delta[:, cut:], A, B[:, cut:], C[:, cut:], D, between)
    torch.testing.assert_close(torch.cat([first, second], dim=1), whole, rtol=0, atol=1e-12)
    torch.testing.assert_close(end, last, rtol=0, atol=1e-12)


def test_single_precision_is_as_good_as_single_precision_can_be() -> None:
    inputs = arguments(2, 300, 70, 16, torch.float32)
    exact = outputs_and_gradients(sequential_selective_scan, [x.detach().double().requires_grad_() for x in inputs])
    plain = outputs_and_gradients(sequential_selective_scan, inputs)
    for fast, slow, truth in zip(outputs_and_gradients(ours, inputs), plain, exact, strict=True):
        assert fast.dtype == torch.float32
        scale = float(truth.abs().max())
        assert float((fast - truth).abs().max()) < 2 * float((slow - truth).abs().max()) + 1e-7 * scale
        assert float((fast - truth).abs().max()) < 1e-5 * scale


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_decays_altogether_leaves_nothing_and_no_nan(dtype: Any) -> None:
    inputs = arguments(1, 40, 3, 2, dtype)
    with torch.no_grad():
        inputs[1][:, 10] = 1e6  # exp(delta A) underflows: the past is gone
        inputs[1][:, 20] = 0.0  # nothing decays and nothing comes in
    others = [x.detach().clone().requires_grad_() for x in inputs]
    with torch.no_grad():
        others[0][:, :10] += 3.0
    for first, second in zip(ours(*inputs), ours(*others), strict=True):
        tail = (first[:, 10:], second[:, 10:]) if first.ndim == 3 and first.shape[1] == 40 else (first, second)
        assert torch.equal(*tail)
    results = outputs_and_gradients(ours, inputs)
    assert all(bool(x.isfinite().all()) for x in results)
    for first, second in zip(results, outputs_and_gradients(sequential_selective_scan, inputs), strict=True):
        torch.testing.assert_close(first, second, rtol=1e-4, atol=1e-3)


def test_a_nan_does_not_get_lost() -> None:
    inputs = arguments(1, 40, 3, 2, torch.float32)
    for place in range(5):
        spoilt = [x.detach().clone() for x in inputs]
        spoilt[place].view(-1)[-1] = float("nan")
        assert bool(selective_scan(*spoilt).isnan().any()), NAMES[place]


def test_the_number_of_threads_does_not_change_a_bit() -> None:
    inputs, threads = arguments(3, 80, 150, 6, torch.float32), torch.get_num_threads()
    results = []
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            results.append(outputs_and_gradients(ours, inputs))
    finally:
        torch.set_num_threads(threads)
    for other in results[1:]:
        assert all(torch.equal(first, second) for first, second in zip(results[0], other, strict=True))


def test_many_scans_at_once_do_not_disturb_each_other() -> None:
    problems = [arguments(3, 80, 150, 6, torch.float32, seed) for seed in range(6)]
    alone = [outputs_and_gradients(ours, inputs) for inputs in problems]
    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(lambda inputs: outputs_and_gradients(ours, inputs), problems))
    for first, second in zip(alone, together, strict=True):
        assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))


def _total(queue: Any) -> None:
    with torch.no_grad():
        queue.put(float(selective_scan(*arguments(3, 80, 150, 6)).numpy().sum()))


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="there is no fork on this system")
def test_a_forked_process_can_scan_too(monkeypatch: pytest.MonkeyPatch) -> None:
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)  # torch's own threads would not survive the fork
    here = float(selective_scan(*arguments(3, 80, 150, 6)).detach().numpy().sum())  # the parent has started its threads
    child = context.Process(target=_total, args=(queue,))
    child.start()
    assert queue.get(timeout=60) == here
    child.join()


def test_inputs_need_not_be_contiguous_and_need_not_all_have_gradients() -> None:
    inputs = arguments(2, 40, 5, 3)
    expected = outputs_and_gradients(ours, inputs)
    strided = [
        x.detach().transpose(0, -1).contiguous().transpose(0, -1).requires_grad_() if x.ndim > 1 else x for x in inputs
    ]
    assert not strided[0].is_contiguous()
    for first, second in zip(outputs_and_gradients(ours, strided), expected, strict=True):
        assert torch.equal(first, second)
    for place, name in enumerate(NAMES):
        alone = [x.detach().requires_grad_(i == place) for i, x in enumerate(inputs)]
        y, state = ours(*alone)
        random = np.random.default_rng(9)
        weights = [torch.from_numpy(random.standard_normal(x.shape)) for x in (y, state)]
        ((y * weights[0]).sum() + (state * weights[1]).sum()).backward()
        assert torch.equal(alone[place].grad, expected[2 + place]), name
    y = selective_scan(*inputs)
    (gradient,) = torch.autograd.grad(y.sum(), inputs[:1])  # the gradient of a sum has no memory of its own
    reference = torch.autograd.grad(sequential_selective_scan(*inputs)[0].sum(), inputs[:1])[0]
    torch.testing.assert_close(gradient, reference, rtol=0, atol=1e-12)


def test_left_out_arguments_are_zeros() -> None:
    inputs = arguments(2, 9, 4, 3)
    zeros = [torch.zeros_like(x) for x in inputs[5:]]
    assert torch.equal(selective_scan(*inputs[:5]), selective_scan(*inputs[:5], *zeros))
    assert torch.equal(selective_scan(*inputs[:6]), selective_scan(*inputs[:6], zeros[1]))


def test_without_gradients_nothing_is_kept_and_with_them_memory_is_linear_in_time() -> None:
    def kept(time: int) -> int:
        inputs, numbers = arguments(2, time, 8, 16), []
        with torch.autograd.graph.saved_tensors_hooks(lambda x: numbers.append(x.numel()) or x, lambda x: x):
            selective_scan(*inputs)
        return sum(numbers) - sum(x.numel() for x in inputs[:6])

    states = 2 * 8 * 16
    assert [kept(time) for time in (32, 64, 320)] == [states, 2 * states, 10 * states]  # one every 32 times
    inputs = arguments(2, 9, 4, 3)
    with torch.no_grad():
        assert not selective_scan(*inputs).requires_grad
    assert not selective_scan(*(x.detach() for x in inputs)).requires_grad


def test_second_derivatives_are_refused_and_so_are_inputs_changed_in_place() -> None:
    inputs, layer = arguments(1, 5, 2, 2), depthwise(2, 4).double()
    for y in (selective_scan(*inputs), convolve(layer, inputs[0])):
        with pytest.raises(RuntimeError, match="first derivatives only"):
            torch.autograd.grad(y.sum(), inputs[:1], create_graph=True)
    y = selective_scan(*inputs)
    with torch.no_grad():
        inputs[0] += 1.0
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"u": torch.zeros(2, 9)}, "u: shape"),
        ({"A": torch.zeros(4)}, "A: shape"),
        ({"u": torch.zeros(2, 9, 4, dtype=torch.bfloat16)}, "float32 or float64"),
        ({"u": torch.zeros(2, 9, 4, dtype=torch.int64)}, "float32 or float64"),
        ({"delta": torch.zeros(2, 8, 4)}, r"delta: .*\(2, 9, 4\)"),
        ({"delta": torch.zeros(2, 9, 4, dtype=torch.float64)}, "delta: .*float64"),
        ({"A": torch.zeros(3, 4)}, r"A: .*\(4, 4\)"),
        ({"B": torch.zeros(2, 9, 4)}, r"B: .*\(2, 9, 3\)"),
        ({"C": torch.zeros(1, 9, 3)}, r"C: .*\(2, 9, 3\)"),
        ({"D": torch.zeros(4, 1)}, r"D: .*\(4,\)"),
        ({"initial_state": torch.zeros(2, 3, 4)}, r"initial_state: .*\(2, 4, 3\)"),
        ({"initial_state": torch.zeros(2, 4, 3, device="meta")}, "initial_state: .*meta"),
        ({"chunk": 0}, "chunk"),
        ({"chunk": 2.5}, "chunk"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(change: dict[str, Any], message: str) -> None:
    fitting = dict(zip(NAMES, (x.detach() for x in arguments(2, 9, 4, 3, torch.float32)), strict=True))
    with pytest.raises(ValueError, match=message):
        selective_scan(**(fitting | change))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("from_zero", [True, False])
def test_both_devices_agree(from_zero: bool) -> None:
    inputs = arguments(2, 300, 20, 16, torch.float32)[: 6 if from_zero else 7]
    there = [x.detach().cuda().requires_grad_() for x in inputs]
    results = []
    for where in (inputs, there):
        y = selective_scan(*where)
        results.append([y.detach(), *torch.autograd.grad(y.square().sum(), where)])
    for first, second in zip(*results, strict=True):
        torch.testing.assert_close(first, second.cpu(), rtol=1e-3, atol=1e-3 * float(first.abs().max()))
