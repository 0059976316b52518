"""Later output depends on the past through the state alone, and on all of it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from experiments.history_states.behaviour import (
    BinaryExpansionCopier,
    QuantisedState,
    read,
    state_influence,
    state_leak,
)
from lib.models import (
    SequenceModel,
    SlidingWindowTransformer,
    SparseTransformer,
    State,
    Transformer,
    VanillaRNN,
    create,
)
from lib.models.kernels.screening.cell import NO_BUFFERED, NO_RELEVANT
from lib.models.scoring import sequence_probabilities
from lib.models.states import stepped
from lib.processes.discrete.tables import information_of_table
from lib.report import claims
from tests.models.test_interface import DEPTH, VARIANTS, VOCABULARY, WIDTH, build, tokens

CHOOSING = ("mem_", "rel_", "sab")  # networks with scores that decide what stays: most changes of one decide nothing


class LeakyRNN(VanillaRNN):
    """An RNN that remembers its last token outside the state."""

    def step(self, token: torch.Tensor, state: State) -> tuple[torch.Tensor, State]:
        logits, after = super().step(token, state)
        before = getattr(self, "last", torch.zeros_like(token))
        self.last = token
        return logits + torch.nn.functional.one_hot(before.expand_as(token), self.vocabulary), after


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_past_acts_on_the_future_through_the_state_alone(variant: str) -> None:
    model = build(variant)
    past, other, future = tokens(3, 11, seed=1), tokens(3, 14, seed=2), tokens(3, 9, seed=3)
    assert state_leak(model, past, other, future) == 0.0
    with torch.no_grad():
        whole = model(torch.cat([past, future], dim=1))[:, 11:]
        torch.testing.assert_close(stepped(model, future, read(model, past))[0], whole, rtol=0, atol=1e-12)


def test_a_memory_outside_the_state_is_found() -> None:
    model = LeakyRNN(VOCABULARY, WIDTH, seed=0).double()
    past, other = tokens(3, 11, seed=1), tokens(3, 14, seed=2)
    other[:, -1] = (past[:, -1] + 1) % VOCABULARY
    leak = state_leak(model, past, other, tokens(3, 9, seed=3))
    assert leak > 0.5
    with pytest.raises(claims.ClaimFailed):
        claims.check("l2m-history", leak, at_most=1e-12)


@pytest.mark.parametrize("variant", [name for name in VARIANTS if not name.startswith(CHOOSING)])
def test_every_number_of_the_state_changes_some_later_output(variant: str) -> None:
    model = build(variant)
    readings = [
        (tokens(1, 11, seed=1 + k)[0], tokens(1, 8, seed=101 + k)[0]) for k in range(1 if smooth(variant) else 12)
    ]
    influence = np.max([state_influence(model, past, future) for past, future in readings], axis=0)
    assert influence.size == model.state_size(11)
    if variant.startswith("relu_ssm window=3"):  # 8 units in 3 blocks: no row of A follows the last, units 6 and 7
        last_block = np.tile(np.arange(WIDTH) * 3 // WIDTH == 2, DEPTH)
        assert np.all(influence[last_block] == 0)
        influence = influence[~last_block]
    assert np.all(influence > 1e-9)


@pytest.mark.parametrize("variant", ["mem_rnn", "mem_lstm", "rel_rnn", "rel_lstm"])
def test_all_of_a_state_that_chooses_changes_some_later_output_but_scores_and_empty_places(variant: str) -> None:
    model = build(variant)
    past, future = tokens(1, 11, seed=1)[0], tokens(1, 8, seed=101)[0]
    influence = state_influence(model, past, future)
    assert influence.size == model.state_size(11)
    used: list[np.ndarray] = []
    for part in read(model, past[None]).layers:
        places = {"buffer": part.scores > NO_BUFFERED, "relevant": part.frozen > NO_RELEVANT}
        for name, leaf in zip(part._fields, part, strict=True):
            if torch.is_tensor(leaf):
                filled = places.get(name.removesuffix("_keys"), torch.tensor([name in ("hidden", "cell")]))
                used.append(filled.flatten().repeat_interleave(leaf.numel() // max(1, filled.numel())).numpy())
    carried = np.concatenate(used)
    assert carried.size == influence.size and np.count_nonzero(carried) > influence.size / 3
    assert np.all(influence[carried] > 1e-9)


def smooth(variant: str) -> bool:
    """A unit behind a ReLU may be off for a whole text, so that one text does not show what it carries."""
    return not variant.startswith("relu")


def test_a_number_that_is_carried_for_nothing_is_found() -> None:
    model = build("lstm")
    with torch.no_grad():
        model.layers[-1].weight_hh[:, 1] = 0.0  # nothing reads the second neuron of the last layer any more
        model.head.weight[:, 1] = 0.0
    influence = state_influence(model, tokens(1, 11, seed=1)[0], tokens(1, 8, seed=2)[0])
    unused = np.flatnonzero(influence < 1e-12)
    assert unused.tolist() == [2 * WIDTH + 1, 3 * WIDTH + 1]  # its h and its c


def test_pasts_that_differ_outside_a_window_of_one_layer_have_equal_states_and_futures() -> None:
    models = {
        "window": SlidingWindowTransformer(VOCABULARY, WIDTH, window=4, seed=0).double(),
        "columns": SparseTransformer(VOCABULARY, WIDTH, stride=3, window=4, seed=0).double(),
    }
    for name, model in models.items():
        first = tokens(1, 10)
        second = first.clone()
        second[0, [0, 1, 3, 4, 6]] = (first[0, [0, 1, 3, 4, 6]] + 1) % VOCABULARY
        future = tokens(1, 12, seed=5)
        with torch.no_grad():
            states = read(model, first), read(model, second)
            for a, b in zip(states[0].layers[0], states[1].layers[0], strict=True):
                assert torch.equal(a, b) if torch.is_tensor(a) else a == b, name
            assert torch.equal(stepped(model, future, states[0])[0], stepped(model, future, states[1])[0])
            second[0, -1] = (first[0, -1] + 1) % VOCABULARY  # inside the window
            assert not torch.equal(stepped(model, future, states[0])[0], stepped(model, future, read(model, second))[0])


def test_a_window_forgets_only_after_as_many_layers_as_there_are() -> None:
    """The state of two layers reaches back two windows, although no number of it is older than one."""
    model = SlidingWindowTransformer(VOCABULARY, WIDTH, 2, window=4, seed=0).double()
    first, future = tokens(1, 10), tokens(1, 5, seed=1)
    futures = []
    for place in (None, 2, 5):  # 10 - 2 (window - 1) = 4 is the first position that is felt
        past = first.clone()
        if place is not None:
            past[0, place] = (past[0, place] + 1) % VOCABULARY
        with torch.no_grad():
            futures.append(stepped(model, future, read(model, past))[0])
    assert torch.equal(futures[0], futures[1])
    assert not torch.equal(futures[0], futures[2])


def test_keys_and_values_are_twice_what_is_needed() -> None:
    """Every number of the cache matters by itself, yet all are linear in the layer's input, half as many numbers."""
    model = Transformer(VOCABULARY, WIDTH, DEPTH, seed=0).double()
    with torch.no_grad():
        state = read(model, tokens(1, 60))
    for cache in state.layers:
        rows = torch.cat([cache.keys, cache.values], dim=-1)[0].transpose(0, 1).flatten(1).numpy()  # (60, 2 width)
        centred = rows - rows.mean(axis=0)
        assert rows.shape[1] == 2 * WIDTH
        # the layer norm takes away one more direction: its output sums to zero
        assert np.linalg.matrix_rank(centred, tol=1e-9) == WIDTH - 1


def test_copying_the_state_into_a_model_of_other_weights_gives_another_future() -> None:
    past, future = tokens(2, 6), tokens(2, 5, seed=1)
    with torch.no_grad():
        state = read(build("mamba"), past)
        same, other = (stepped(build("mamba", seed=seed), future, state)[0] for seed in (3, 4))
        torch.testing.assert_close(same, stepped(build("mamba"), future, state)[0], rtol=0, atol=0)
    assert float((same - other).abs().max()) > 1e-3


def shift_register(width: int) -> SequenceModel:
    """A vanilla RNN whose neurons hold the signs of the last `width` bits and whose logits repeat the oldest."""
    model = VanillaRNN(2, width, embedding=1, seed=0).double()
    with torch.no_grad():
        model.embedding.weight.copy_(torch.tensor([[-1.0], [1.0]]))
        layer = model.layers[0]
        layer.weight_ih.zero_()[0, 0] = 20.0
        layer.weight_hh.copy_(20.0 * torch.diag(torch.ones(width - 1), -1))
        model.head.weight.zero_()[:, -1] = torch.tensor([-20.0, 20.0])
    return model


def test_the_probabilities_of_all_sequences_are_those_of_the_parallel_form() -> None:
    model = create("transformer", 3, 8, seed=0).double()
    law = sequence_probabilities(model, 4, first=[0.5, 0.3, 0.2])
    with torch.no_grad():
        for sequence in [(0, 0, 0, 0), (2, 1, 0, 2), (1, 1, 2, 0)]:
            conditional = model(torch.tensor([sequence]))[0].softmax(dim=-1)
            steps = [conditional[t, sequence[t + 1]].item() for t in range(3)]
            np.testing.assert_allclose(law[sequence], [0.5, 0.3, 0.2][sequence[0]] * np.prod(steps), rtol=1e-12)
    np.testing.assert_allclose(law.sum(), 1.0, rtol=1e-12)


@pytest.mark.parametrize(
    ("length", "first"), [(21, None), (0, None), (3, [0.5, 0.6]), (3, [1.0]), (1, [[0.5, 0], [0, 0.5]])]
)
def test_laws_that_cannot_be_enumerated_are_refused(length: int, first: object) -> None:
    with pytest.raises(ValueError, match=r"length|first"):
        sequence_probabilities(VanillaRNN(2, 2), length, first)


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_a_shift_register_of_one_bit_neurons_captures_a_bit_a_neuron(width: int) -> None:
    """All that the bits of the state can hold; what is left of the bound is the present token."""
    model = QuantisedState(shift_register(width), bits=1)
    law = sequence_probabilities(model, 2 * 4, first=np.full((2,) * 4, 1 / 16))
    np.testing.assert_allclose(information_of_table(law.reshape(16, 16)), width * np.log(2), rtol=1e-6)


@pytest.mark.parametrize("half", [1, 2, 5, 8])
def test_one_real_number_captures_any_number_of_bits(half: int) -> None:
    """The counter-example, and the negative control: without rounding no bound of so much a number holds."""
    model = BinaryExpansionCopier(half)
    law = sequence_probabilities(model, 2 * half).reshape(2**half, 2**half)
    np.testing.assert_allclose(law, np.eye(2**half) / 2**half, atol=1e-15)
    np.testing.assert_allclose(information_of_table(law), half * np.log(2), rtol=1e-12)
    for bits in (1, 2, 3):
        rounded = sequence_probabilities(QuantisedState(model, bits), 2 * half).reshape(2**half, 2**half)
        bound = bits * np.log(2) + np.log(2)
        assert information_of_table(rounded) <= bound + 1e-12
        assert half <= bits + 1 or information_of_table(law) > bound


def test_the_number_keeps_52_bits_and_no_more() -> None:
    past = torch.from_numpy(np.random.default_rng(0).integers(2, size=(20, 52)))
    model = BinaryExpansionCopier(52)
    logits, state = None, model.initial_state(20)
    for token in past.T:
        logits, state = model.step(token, state)
    written = []
    for _ in range(52):
        written.append(logits.argmax(dim=-1))
        logits, state = model.step(written[-1], state)
    assert torch.equal(torch.stack(written, dim=1), past)
    assert state_leak(BinaryExpansionCopier(5), past[:, :9], 1 - past[:, :7], past[:, :3]) == 0.0
    with pytest.raises(ValueError, match="52"):
        BinaryExpansionCopier(53)


def test_the_middle_of_a_cell_stays_where_it_is_and_precision_is_a_whole_number() -> None:
    model = QuantisedState(VanillaRNN(2, 3, seed=0).double(), 3)
    with torch.no_grad():
        _, state = model.step(torch.tensor([1]), model.initial_state(1))
    hidden = state.layers[0].hidden
    assert torch.equal(model._rounded(state).layers[0].hidden, hidden)
    assert set(((hidden + 1) * 8).flatten().tolist()) <= set(range(1, 16, 2))
    with pytest.raises(ValueError, match="bits"):
        QuantisedState(VanillaRNN(2, 3), 0)
