"""Layers and networks of Kerg et al.: starts, constraint, what is attended to and kept, refused options."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from lib.models import create
from lib.models.recurrent.orthogonal import OrthogonalLayer, started
from lib.models.recurrent.screening import ScreeningLayer

ATTENDING = ["mem_rnn", "mem_lstm", "rel_rnn", "rel_lstm"]


def tokens(batch: int, time: int, seed: int = 0) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).integers(5, size=(batch, time)))


def angles(matrix: Tensor) -> np.ndarray[Any, Any]:
    return np.abs(np.angle(np.linalg.eigvals(matrix.double().numpy())))


def is_orthogonal(matrix: Tensor) -> bool:
    return bool((matrix @ matrix.T - torch.eye(len(matrix))).abs().max() < 1e-5)


def rebuilt(times: Tensor, weights: Tensor, buffer: int, relevant: int) -> list[list[int]]:
    """The relevant set at each time of one sequence, from the weights in the buffer's slots alone."""
    scores: dict[int, float] = {}
    held: list[int] = []
    found = []
    for t in range(len(times)):
        leaving = t - buffer
        if leaving >= 0 and len(held) < relevant:
            held.append(leaving)
        elif leaving >= 0 and held:
            smallest = min(held, key=lambda i: scores[i])
            if scores[leaving] > scores[smallest]:
                held[held.index(smallest)] = leaving
        for i, weight in zip(times[t, :buffer].tolist(), weights[t, :buffer].tolist(), strict=True):
            scores[i] = scores.get(i, 0.0) + weight
        found.append(list(held))
    return found


@pytest.mark.parametrize("name", ["rel_rnn", "rel_lstm"])
@pytest.mark.parametrize(("buffer", "relevant"), [(1, 3), (4, 2), (10, 10)])
def test_the_relevant_set_follows_from_the_weights(name: str, buffer: int, relevant: int) -> None:
    model = create(name, 5, 12, seed=2, buffer=buffer, relevant=relevant).double()
    with torch.no_grad():
        model.layers[0].weight_score.mul_(20)
    times, weights = model.attended(tokens(3, 60))
    assert times.shape == weights.shape == (3, 60, buffer + relevant)
    assert times.dtype == torch.int64

    def as_stated(weights: Tensor) -> bool:
        chosen = [[[i for i in row if i >= 0] for row in one[:, buffer:].tolist()] for one in times]
        return chosen == [rebuilt(*one, buffer, relevant) for one in zip(times, weights, strict=True)]

    assert as_stated(weights)
    assert not as_stated(weights.flip(0))  # those of other sequences


@pytest.mark.parametrize("name", ATTENDING)
def test_weights_of_what_is_attended_to_add_up_to_one_and_empty_slots_have_none(name: str) -> None:
    kappa = 20 if name.startswith("rel") else 33
    model = create(name, 5, 8, 2, seed=1).double()
    for layer in (0, -1):
        times, weights = model.attended(tokens(2, 33), layer)
        assert times.shape == weights.shape == (2, 33, kappa)
        torch.testing.assert_close(weights.sum(2), torch.ones(2, 33).double())
        assert not weights[times < 0].any() and (weights[times >= 0] > 0).all()
        for t in range(33):
            for row in times[:, t].tolist():
                seen = [i for i in row if i >= 0]
                assert len(seen) == len(set(seen)) == min(t + 1, kappa) and t in seen
    first, last = (model.attended(tokens(2, 33), layer)[1] for layer in (0, 1))
    assert float((first - last).abs().max()) > 1e-6


def test_a_buffer_longer_than_the_sequence_has_empty_slots() -> None:
    model = create("rel_rnn", 5, 8, buffer=6, relevant=2).double()
    times, weights = model.attended(tokens(2, 3))
    assert times[0].tolist() == [[0, *[-1] * 7], [0, 1, *[-1] * 6], [0, 1, 2, *[-1] * 5]]
    assert not weights[times < 0].any()


def kept(select: str, rows: int, time: int, **options: Any) -> Tensor:
    """The relevant times at the end, (rows, relevant), of a network of width 2."""
    model = create("rel_rnn", 5, 2, buffer=1, select=select, **options).double()
    return model.attended(tokens(rows, time))[0][:, -1, 1:]


def test_kept_by_chance_means_that_all_times_are_as_likely() -> None:
    rows, time, relevant = 3000, 40, 3

    def even(select: str) -> bool:
        counts = torch.bincount(kept(select, rows, time, relevant=relevant, seed=5).flatten(), minlength=time - 1)
        share = relevant / (time - 1)
        return bool((counts - rows * share).abs().max() < 4.5 * (rows * share * (1 - share)) ** 0.5)

    assert even("random")
    assert not even("first")
    assert not even("screening")
    one, other = (kept("random", 50, time, relevant=relevant, seed=seed) for seed in (1, 2))
    assert not torch.equal(one, other)
    assert torch.equal(one, kept("random", 50, time, relevant=relevant, seed=1))


def test_what_is_kept_by_chance_is_stored_with_the_weights() -> None:
    one, other = (create("rel_rnn", 5, 2, buffer=1, relevant=3, select="random", seed=seed) for seed in (1, 2))
    other.load_state_dict(one.state_dict())
    assert torch.equal(one.attended(tokens(9, 30))[0], other.attended(tokens(9, 30))[0])


def test_the_first_states_stay_or_those_that_an_oracle_names() -> None:
    assert (kept("first", 4, 30, relevant=3) == torch.tensor([0, 1, 2])).all()
    assert (kept("oracle", 4, 30, relevant=3, oracle=(7, 4)) == torch.tensor([4, 7, -1])).all()
    assert (kept("oracle", 4, 30, relevant=2, oracle=(7, 40)) == torch.tensor([7, -1])).all()
    assert kept("first", 4, 30, relevant=0).shape == (4, 0)


def test_h_is_read_by_the_head_and_s_by_the_next_step() -> None:
    model = create("mem_rnn", 5, 6, combine="sum", seed=1).double()
    layer, sequence = model.layers[0], tokens(2, 4)
    x = torch.eye(5).double()[sequence]
    out = layer(x)
    torch.testing.assert_close(out[:, 0], torch.tanh(x[:, 0] @ layer.weight_ih.T))
    second = torch.tanh(x[:, 1] @ layer.weight_ih.T + 2 * out[:, 0] @ layer.weight_hh.T)  # s_1 = h_1 + c_1 = 2 h_1
    torch.testing.assert_close(out[:, 1], second)
    torch.testing.assert_close(model(sequence), model.head(out))


@pytest.mark.parametrize("start", ["henaff", "cayley", "orthogonal"])
def test_recurrent_matrices_start_as_rotations(start: str) -> None:
    torch.manual_seed(0)
    matrix = started(start, 200)
    assert is_orthogonal(matrix)
    assert not is_orthogonal(started("xavier", 200))
    most = {"henaff": np.pi, "cayley": 1.0, "orthogonal": np.pi}[start]
    assert 0.9 * most < angles(matrix).max() <= most + 1e-6
    if start == "henaff":
        torch.testing.assert_close(matrix[:2, :2], torch.matrix_exp(torch.tensor([[0.0, 1], [-1, 0]]) *
                                   torch.atan2(matrix[0, 1], matrix[0, 0])))  # fmt: skip
        assert (matrix[::2, 1::2].diagonal() < 0).all()  # angles between -pi and 0
        assert abs(float(angles(matrix).mean()) - np.pi / 2) < 0.3
    assert is_orthogonal(started(start, 7))


def test_an_exponential_stays_orthogonal_and_a_free_matrix_does_not() -> None:
    def trained(name: str) -> Any:
        model = create(name, 5, 8, seed=1)
        optimiser = torch.optim.RMSprop(model.parameters(), 0.01)
        for seed in range(20):
            model(tokens(4, 12, seed)).logsumexp(2).mean().backward()
            optimiser.step()
            optimiser.zero_grad()
        return model

    free, held = trained("orth_rnn"), trained("exp_rnn")
    assert is_orthogonal(held.layers[0].weight_hh.detach())
    assert not is_orthogonal(free.layers[0].weight_hh.detach())
    before = create("exp_rnn", 5, 8, seed=1).layers[0].weight_hh
    assert float((held.layers[0].weight_hh - before).detach().abs().max()) > 0.01


def test_the_matrix_in_the_exponential_is_slow_and_nothing_else_is() -> None:
    model = create("exp_rnn", 5, 8, 2)
    slow = model.slow_parameters()
    assert [parameter.shape for parameter in slow] == [(8, 8)] * 2
    assert {id(parameter) for parameter in slow} < {id(parameter) for parameter in model.parameters()}
    assert all(create(name, 5, 8).slow_parameters() == [] for name in ("orth_rnn", "rel_rnn", "lstm"))


def test_an_exponential_is_taken_once_for_a_sequence(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, exponential = [], torch.matrix_exp
    model = create("exp_rnn", 5, 4)
    monkeypatch.setattr(torch, "matrix_exp", lambda matrix: [calls.append(1), exponential(matrix)][1])
    model(tokens(2, 20))
    assert len(calls) == 1


def test_sequences_start_anew_where_times_do_not_select() -> None:
    def difference(select: str) -> float:
        """Between outputs after a restart and those of a fresh start, of the second of two sequences."""
        torch.manual_seed(0)
        layer, x = ScreeningLayer(3, 4, buffer=2, relevant=2, select=select).double(), torch.randn(2, 12, 3).double()
        with torch.no_grad():
            state = fresh = layer.initial_state(2)
            for one in x[:, :5].unbind(1):
                _, state = layer.step(one, state)
            state, found = layer.restart(state, torch.tensor([False, True])), []
            for one in x[:, 5:].unbind(1):
                (h, state), (expected, fresh) = layer.step(one, state), layer.step(one, fresh)
                found.append(h - expected)
        assert float(torch.stack(found)[:, 0].abs().max()) > 1e-3  # the first one goes on
        return float(torch.stack(found)[:, 1].abs().max())

    assert difference("screening") < 1e-14 and difference("first") < 1e-14


@pytest.mark.parametrize(("select", "options"), [("random", {}), ("oracle", {"oracle": (0, 1)})])
def test_no_sequence_starts_anew_where_times_select(select: str, options: dict[str, Any]) -> None:
    layer = ScreeningLayer(3, 4, buffer=2, relevant=2, select=select, **options)
    with pytest.raises(ValueError, match=f"select: 'screening' or 'first' is allowed .* start anew, got '{select}'"):
        layer.restart(layer.initial_state(2), torch.tensor([True, False]))


def test_tokens_are_unit_vectors_unless_an_embedding_is_asked_for() -> None:
    plain, embedded = create("rel_rnn", 5, 8), create("rel_rnn", 5, 8, embedding=3)
    assert torch.equal(plain.embedding.weight, torch.eye(5))
    assert not any(parameter.shape == (5, 5) for parameter in plain.parameters())
    assert [name for name, _ in embedded.named_parameters() if "embedding" in name] == ["embedding.weight"]
    assert embedded.layers[0].weight_ih.shape == (8, 3)


def test_layers_read_real_numbers() -> None:
    x = torch.from_numpy(np.random.default_rng(0).standard_normal((3, 9, 2)))
    for layer in (OrthogonalLayer(2, 6), ScreeningLayer(2, 6, buffer=2, relevant=2), ScreeningLayer(2, 6, cell="lstm")):
        layer = layer.double()
        state, out = layer.initial_state(3), []
        for one in x.unbind(1):
            hidden, state = layer.step(one, state)
            out.append(hidden)
        torch.testing.assert_close(layer(x), torch.stack(out, 1), rtol=0, atol=1e-13)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("rel_rnn", {"buffer": 0}, "buffer: a whole number of at least 1"),
        ("rel_rnn", {"buffer": None}, "buffer"),
        ("rel_rnn", {"relevant": -1}, "relevant: a whole number of at least 0"),
        ("rel_rnn", {"combine": "product"}, "combine: one of sum, mean is allowed, got 'product'"),
        ("rel_rnn", {"activation": "relu"}, "activation: one of tanh, modrelu is allowed, got 'relu'"),
        ("rel_rnn", {"start": "zero"}, "start: one of henaff, cayley, orthogonal, xavier is allowed"),
        ("exp_rnn", {"start": "xavier"}, "start: one of henaff, cayley, orthogonal is allowed"),
        ("orth_rnn", {"input_start": "zero"}, "input_start: one of xavier, kaiming is allowed"),
        ("rel_rnn", {"select": "best"}, "select: one of screening, first, random, oracle is allowed"),
        (
            "rel_rnn",
            {"select": "oracle"},
            "oracle: at most relevant = 10 different 0-based times are allowed, got None",
        ),
        ("rel_rnn", {"select": "oracle", "oracle": [3, 3]}, "different"),
        ("rel_rnn", {"select": "oracle", "oracle": [-1]}, "oracle"),
        ("rel_rnn", {"select": "oracle", "relevant": 1, "oracle": [3, 4]}, "at most relevant = 1"),
        ("rel_lstm", {"oracle": [3]}, "oracle: belongs to select 'oracle'"),
        ("rel_lstm", {"activation": "tanh"}, "activation"),
        ("mem_rnn", {"relevant": 3}, "relevant"),
        ("mem_rnn", {"embedding": 0}, "embedding"),
    ],
)
def test_bad_options_are_refused(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        create(name, 5, 8, **options)


def test_a_layer_that_holds_all_states_keeps_none_besides() -> None:
    with pytest.raises(ValueError, match="relevant: 0 is allowed"):
        ScreeningLayer(2, 6, buffer=None, relevant=3)
    with pytest.raises(ValueError, match="cell: one of rnn, lstm"):
        ScreeningLayer(2, 6, cell="gru")
