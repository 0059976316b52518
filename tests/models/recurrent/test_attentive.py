"""The attentive recurrent network computes its equations, and refuses what it cannot read."""

import numpy as np
import pytest
import torch

from lib.models import AttentiveRNN
from lib.theory.gradients.states import read_states

SPARSE = [[1], [1, 2], [], [1, 4], [5], [2, 3, 6]]


def sequence(time=6, inputs=3, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal((time, inputs)))


def wiggly(h, c):
    return torch.tanh(h) * torch.exp(c / 3) + torch.roll(h, 1, dims=-1) * c


@pytest.mark.parametrize("attention", ["learned", "uniform", "none"])
@pytest.mark.parametrize("attended", [None, SPARSE])
def test_every_equation_of_the_network_holds_for_its_trace(attention, attended):
    network = AttentiveRNN(3, 4, attention=attention, attended=attended, combination="gated", alignment_size=5)
    x = sequence()
    h, c, s, e, alpha, a = network.trace(x)
    previous = torch.zeros(4, dtype=torch.float64)
    for t in range(1, 7):
        now = t - 1
        torch.testing.assert_close(a[now], network.V @ previous + network.U @ x[now] + network.b)
        torch.testing.assert_close(h[now], torch.tanh(a[now]))
        times = list(range(1, t + 1)) if attended is None else attended[now]
        for i in range(1, 7):
            score = network.v_a @ torch.tanh(network.W_a @ previous + network.U_a @ h[i - 1])
            if i not in times:
                assert e[now, i - 1] == -torch.inf and alpha[now, i - 1] == 0
            elif attention == "learned":
                torch.testing.assert_close(e[now, i - 1], score)
            else:
                assert e[now, i - 1] == 0
                expected = 1 / len(times) if attention == "uniform" else 0.0
                torch.testing.assert_close(alpha[now, i - 1].item(), expected)
        weighing = attention != "none" and len(times) > 0
        torch.testing.assert_close(alpha[now].sum().item(), float(weighing))
        torch.testing.assert_close(c[now], alpha[now] @ h)
        torch.testing.assert_close(s[now], network.combine(h[now], c[now]))
        torch.testing.assert_close(s[now], network.state(h[:t], previous))
        previous = s[now]
    if attention == "learned":
        weights = torch.exp(e) / torch.exp(e).sum(dim=1, keepdim=True)
        torch.testing.assert_close(alpha, torch.nan_to_num(weights))


def test_a_batch_holds_the_states_of_its_sequences():
    network = AttentiveRNN(3, 4, attended=SPARSE)
    batch = torch.stack([sequence(seed=seed) for seed in range(3)])
    torch.testing.assert_close(network(batch), torch.stack([network.trace(x).s for x in batch]))


def test_a_replaced_state_is_used_and_all_before_it_stays():
    network, x = AttentiveRNN(3, 4), sequence()
    before, other = network.trace(x), torch.full((4,), 0.25, dtype=torch.float64)
    after = network.trace(x, replace={3: other})
    assert torch.equal(after.h[2], other)
    assert torch.equal(after.s[:2], before.s[:2]) and not torch.allclose(after.s[5], before.s[5])
    assert torch.equal(network.trace(x, replace={3: before.h[2]}).s, before.s)


def test_the_state_has_gradients_for_all_parameters_and_none_is_nan_where_nobody_is_attended():
    network = AttentiveRNN(3, 4, attended=SPARSE, combination="gated")
    network(sequence()[None]).square().sum().backward()
    for name, parameter in network.named_parameters():
        assert torch.isfinite(parameter.grad).all() and parameter.grad.abs().max() > 0, name


def test_weights_come_from_the_seed_alone_and_gain_scales_the_recurrence():
    state = torch.random.get_rng_state()
    first, second = AttentiveRNN(3, 4, seed=5), AttentiveRNN(3, 4, seed=5, gain=0.5)
    assert torch.equal(state, torch.random.get_rng_state())
    assert torch.equal(first.U_a, second.U_a)
    torch.testing.assert_close(second.V @ second.V.T, 0.25 * torch.eye(4, dtype=torch.float64))


@pytest.mark.parametrize("activation", ["tanh", "relu", "linear", torch.nn.functional.softplus])
@pytest.mark.parametrize("combination", ["sum", "mean", "gated", wiggly])
@pytest.mark.parametrize("attended", [None, SPARSE])
def test_the_numpy_pass_of_the_theory_computes_the_same_states(activation, combination, attended):
    network = AttentiveRNN(3, 4, activation=activation, combination=combination, attended=attended, gain=0.8)
    trace, states = network.trace(sequence()), read_states(network, sequence())
    for name in ("h", "c", "s"):
        np.testing.assert_allclose(
            getattr(states, name)[1:], getattr(trace, name).detach().numpy(), rtol=1e-12, atol=1e-14
        )
    np.testing.assert_allclose(states.alpha[1:, 1:], trace.alpha.detach().numpy().T, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"activation": "sine"}, "activation"),
        ({"combination": "product"}, "combination"),
        ({"attention": "full"}, "attention"),
        ({"attended": [[1], [3]]}, "attended"),
        ({"attended": [[0]]}, "attended"),
        ({"attended": [[1], [1, 1]]}, "attended"),
        ({"alignment_size": 0}, "alignment_size"),
        ({"gain": float("nan")}, "gain"),
        ({"seed": -1}, "seed"),
        ({"dtype": torch.int64}, "dtype"),
        ({"dtype": float}, "dtype"),
        ({"dtype": torch.float16}, r"dtype: torch\.float32 or torch\.float64 is allowed"),
        ({"dtype": torch.bfloat16}, r"dtype: torch\.float32 or torch\.float64 is allowed"),
    ],
)
def test_unknown_names_and_impossible_times_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        AttentiveRNN(3, 4, **arguments)


def test_inputs_that_do_not_fit_are_refused():
    network = AttentiveRNN(3, 4, attended=SPARSE)
    for wrong in (sequence(), sequence(inputs=2)[None], sequence(7)[None], sequence(0)[None]):
        with pytest.raises(ValueError, match="inputs"):
            network(wrong)
    with pytest.raises(ValueError, match="inputs"):
        network.trace(sequence()[None])
    for foreign in (sequence().float(), sequence().numpy()):
        with pytest.raises(ValueError, match=r"inputs: a tensor of torch\.float64"):
            network.trace(foreign)
    with pytest.raises(ValueError, match="replace"):
        network.trace(sequence(), replace={7: torch.zeros(4)})
    for size in (3, 5):
        with pytest.raises(ValueError, match=rf"replace: a state \(4,\) is allowed, got shape \({size},\) at time 1"):
            network.trace(sequence(), replace={1: torch.zeros(size, dtype=torch.float64)})


@pytest.mark.parametrize("foreign", [torch.zeros(4), np.zeros(4), [0.0] * 4, None])
def test_states_of_another_type_are_refused_by_name(foreign):
    network, own = AttentiveRNN(3, 4), torch.zeros(4, dtype=torch.float64)
    rows = None if foreign is None else [foreign] if isinstance(foreign, list) else foreign[None]
    for name, asked in (
        (r"replace\[1\]", lambda: network.trace(sequence(), {1: foreign})),
        ("hidden", lambda: network.state(rows, own)),
        ("previous", lambda: network.state(own[None], foreign)),
    ):
        with pytest.raises(ValueError, match=rf"^{name}: a tensor of torch\.float64 is allowed, got"):
            asked()


def test_states_that_do_not_fit_are_refused():
    network = AttentiveRNN(3, 4, attended=SPARSE)
    h, previous = torch.zeros(6, 4, dtype=torch.float64), torch.zeros(4, dtype=torch.float64)
    assert network.state(h, previous).shape == (4,)
    for hidden, before in ((h[:0], previous), (h[:, :3], previous), (h[0], previous), (h, previous[:3]), (h, h)):
        with pytest.raises(ValueError, match=r"hidden \(t, 4\) with t >= 1 and previous \(4,\) are allowed"):
            network.state(hidden, before)
    with pytest.raises(ValueError, match="hidden: attended times are given up to 6, got 7 states"):
        network.state(torch.zeros(7, 4, dtype=torch.float64), previous)
    assert AttentiveRNN(3, 4).state(torch.zeros(7, 4, dtype=torch.float64), previous).shape == (4,)
